//! How much kernel memory the bins of clients may take.

use std::collections::HashMap;

/// Limits on what clients can make the service hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of bins for one process.
    pub process_bytes: u64,
    /// Bytes of bins for all processes of one user.
    pub user_bytes: u64,
    /// Bytes of bins in all.
    pub total_bytes: u64,
    /// Processes of one user that are profiled at the same time.
    pub user_clients: u32,
    /// Connections of one user at the same time.
    pub user_connections: u32,
    /// Connections in all.
    pub connections: u32,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            process_bytes: 64 << 20,
            user_bytes: 256 << 20,
            total_bytes: 1 << 30,
            user_clients: 256,
            user_connections: 32,
            connections: 256,
        }
    }
}

/// Why bins cannot be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OverBudget {
    /// The process asks for more than any may have.
    #[error("{bytes} bytes of bins are more than the {limit} that a process may have")]
    Process {
        /// Bytes asked for.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// The user's processes have too much already.
    #[error("{bytes} more bytes of bins would take user {uid} over {limit}")]
    User {
        /// The user.
        uid: u32,
        /// Bytes asked for.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// All processes have too much already.
    #[error("{bytes} more bytes of bins would take the service over {limit}")]
    Total {
        /// Bytes asked for.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
}

/// Bytes of bins that exist now, by the user that they were made for. Bins count until the kernel has freed them, used
/// or not.
#[derive(Debug)]
pub(super) struct Budget {
    limits: Limits,
    users: HashMap<u32, u64>,
    total: u64,
}

impl Budget {
    pub(super) fn new(limits: Limits) -> Budget {
        Budget { limits, users: HashMap::new(), total: 0 }
    }

    /// Sees whether a process may have bins of this size at all.
    pub(super) fn check_process(&self, bytes: u64) -> Result<(), OverBudget> {
        let limit = self.limits.process_bytes;
        if bytes > limit { Err(OverBudget::Process { bytes, limit }) } else { Ok(()) }
    }

    /// Enters bins that are to be made.
    pub(super) fn charge(&mut self, uid: u32, bytes: u64) -> Result<(), OverBudget> {
        let Limits { user_bytes, total_bytes, .. } = self.limits;
        let user = self.users.get(&uid).copied().unwrap_or(0);
        if user + bytes > user_bytes {
            return Err(OverBudget::User { uid, bytes, limit: user_bytes });
        }
        if self.total + bytes > total_bytes {
            return Err(OverBudget::Total { bytes, limit: total_bytes });
        }
        self.users.insert(uid, user + bytes);
        self.total += bytes;
        Ok(())
    }

    /// Takes bins off that are gone.
    pub(super) fn refund(&mut self, uid: u32, bytes: u64) {
        self.total = self.total.saturating_sub(bytes);
        if let Some(user) = self.users.get_mut(&uid) {
            *user = user.saturating_sub(bytes);
            if *user == 0 {
                self.users.remove(&uid);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        process_bytes: 10,
        user_bytes: 20,
        total_bytes: 30,
        user_clients: 1,
        user_connections: 1,
        connections: 1,
    };

    #[test]
    fn bins_count_for_their_user_and_for_all_until_they_are_gone() {
        let mut budget = Budget::new(LIMITS);
        assert_eq!(budget.check_process(10), Ok(()));
        assert_eq!(budget.check_process(11), Err(OverBudget::Process { bytes: 11, limit: 10 }));
        assert_eq!((budget.charge(1, 10), budget.charge(1, 10)), (Ok(()), Ok(())));
        assert_eq!(budget.charge(1, 1), Err(OverBudget::User { uid: 1, bytes: 1, limit: 20 }));
        assert_eq!(budget.charge(2, 10), Ok(()));
        assert_eq!(budget.charge(3, 1), Err(OverBudget::Total { bytes: 1, limit: 30 }));
        budget.refund(1, 10);
        assert_eq!(budget.charge(3, 10), Ok(()));
    }
}
