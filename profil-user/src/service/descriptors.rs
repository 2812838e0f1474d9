//! How many descriptors the service may have, and what it can promise its clients with them.
//!
//! One client takes five descriptors, and a user may have 256 clients: within the usual limit of 1,024 one user alone
//! could have all there are, and nobody else would be served.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::budget::Limits;

/// Of one connection: its socket, a pidfd, the directory, `mem`, `maps`, `smaps` and `mountinfo` of the caller.
const OF_CONNECTION: u64 = 7;

/// Of one client: a pidfd, the directory, `mem`, `maps`, and the map of its bins.
const OF_CLIENT: u64 = 5;

/// Users who may each have all that one can have, before there are no descriptors left.
const USERS: u64 = 4;

/// Raises the limit of this process as far as it may go, and returns it; `None` where there is none.
pub(super) fn raise() -> Option<u64> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    match setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        Ok(()) => maximum,
        Err(_) => current,
    }
}

/// The limits of clients, lowered where so many descriptors are not enough: a quarter of them is for connections, half
/// for clients, and the rest for programs, maps and copiers.
pub(super) fn within(limits: Limits, descriptors: Option<u64>) -> Limits {
    let Some(descriptors) = descriptors else { return limits };
    let at_most = |limit: u32, other: u64| u64::from(limit).min(other.max(1)) as u32;
    let connections = at_most(limits.connections, descriptors / 4 / OF_CONNECTION);
    Limits {
        connections,
        user_connections: at_most(limits.user_connections, u64::from(connections) / USERS),
        user_clients: at_most(limits.user_clients, descriptors / 2 / USERS / OF_CLIENT),
        ..limits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_descriptors_leave_limits_as_they_are() {
        let limits = Limits::default();
        assert_eq!((within(limits, None), within(limits, Some(1 << 19))), (limits, limits));
    }

    #[test]
    fn a_few_users_with_all_that_they_may_have_leave_descriptors_for_others() {
        for descriptors in [64, 1024, 4096, 20_000] {
            let Limits { user_connections, connections, user_clients, .. } =
                within(Limits::default(), Some(descriptors));
            let of_users = USERS * u64::from(user_clients) * OF_CLIENT + u64::from(connections) * OF_CONNECTION;
            assert!(of_users <= descriptors * 3 / 4, "{descriptors}: {of_users}");
            assert!(user_connections >= 1 && u64::from(user_connections) * USERS <= u64::from(connections).max(USERS));
        }
    }
}
