//! How much kernel memory the bins of clients may take.

use std::collections::HashMap;
use std::hash::Hash;

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
    #[error("{bytes} more bytes of bins are more than the {limit} that a process may have")]
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

/// Who bins are made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Owner {
    /// The user.
    pub(super) uid: u32,
    /// The process, in the initial PID namespace.
    pub(super) tgid: u32,
}

/// Bytes of bins that exist now, by whom they were made for. Bins count until the kernel has freed them, used or not.
#[derive(Debug)]
pub(super) struct Budget {
    limits: Limits,
    /// Bins that a process has, or may still have mapped.
    processes: HashMap<Owner, u64>,
    users: HashMap<u32, u64>,
    total: u64,
}

impl Budget {
    pub(super) fn new(limits: Limits) -> Budget {
        Budget { limits, processes: HashMap::new(), users: HashMap::new(), total: 0 }
    }

    /// Enters bins that are to be made.
    pub(super) fn charge(&mut self, owner: Owner, bytes: u64) -> Result<(), OverBudget> {
        let Limits { process_bytes, user_bytes, total_bytes, .. } = self.limits;
        let Owner { uid, .. } = owner;
        let has = |taken: Option<&u64>| taken.copied().unwrap_or(0).saturating_add(bytes);
        let (process, user, total) =
            (has(self.processes.get(&owner)), has(self.users.get(&uid)), has(Some(&self.total)));
        if process > process_bytes {
            return Err(OverBudget::Process { bytes, limit: process_bytes });
        }
        if user > user_bytes {
            return Err(OverBudget::User { uid, bytes, limit: user_bytes });
        }
        if total > total_bytes {
            return Err(OverBudget::Total { bytes, limit: total_bytes });
        }
        self.processes.insert(owner, process);
        self.users.insert(uid, user);
        self.total = total;
        Ok(())
    }

    /// Takes bins off the process that had them; its user has them still, until they are gone.
    pub(super) fn leave(&mut self, owner: Owner, bytes: u64) {
        subtract(&mut self.processes, &owner, bytes);
    }

    /// Takes bins off the user, and off all, that are gone or another's from now on.
    pub(super) fn refund(&mut self, uid: u32, bytes: u64) {
        self.total = self.total.saturating_sub(bytes);
        subtract(&mut self.users, &uid, bytes);
    }
}

fn subtract<K: Eq + Hash>(taken: &mut HashMap<K, u64>, key: &K, bytes: u64) {
    if let Some(all) = taken.get_mut(key) {
        *all = all.saturating_sub(bytes);
        if *all == 0 {
            taken.remove(key);
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

    fn owner(uid: u32, tgid: u32) -> Owner {
        Owner { uid, tgid }
    }

    #[test]
    fn bins_count_for_their_user_and_for_all_until_they_are_gone() {
        let mut budget = Budget::new(LIMITS);
        assert_eq!((budget.charge(owner(1, 1), 10), budget.charge(owner(1, 2), 10)), (Ok(()), Ok(())));
        assert_eq!(budget.charge(owner(1, 3), 1), Err(OverBudget::User { uid: 1, bytes: 1, limit: 20 }));
        assert_eq!(budget.charge(owner(2, 4), 10), Ok(()));
        assert_eq!(budget.charge(owner(3, 5), 1), Err(OverBudget::Total { bytes: 1, limit: 30 }));
        budget.refund(1, 10);
        assert_eq!(budget.charge(owner(3, 5), 10), Ok(()));
    }

    #[test]
    fn all_bins_of_a_process_count_together_until_it_leaves_them() {
        let mut budget = Budget::new(LIMITS);
        let over = |bytes| Err(OverBudget::Process { bytes, limit: 10 });
        assert_eq!(budget.charge(owner(1, 1), 11), over(11));
        assert_eq!(budget.charge(owner(1, 1), u64::MAX), over(u64::MAX));
        assert_eq!((budget.charge(owner(1, 1), 6), budget.charge(owner(1, 1), 6)), (Ok(()), over(6)));
        budget.leave(owner(1, 1), 6);
        assert_eq!(budget.charge(owner(1, 1), 6), Ok(()));
    }
}
