//! What profil may do, and how to say what it may not.

mod capability;
mod reduction;
mod refusal;

use rustix::thread::CapabilitySet;

pub use capability::{Capability, Place};
pub use reduction::{ReductionError, Rights, raised};
pub use refusal::{Operation, PermissionError, is_about_permission};

use crate::probe::sysctl;
use crate::process::{ProcDir, namespace};

/// What this process may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Privileges {
    /// Effective capabilities.
    pub(super) effective: CapabilitySet,
    /// Whether they count for the whole machine: those of a child user namespace do not.
    pub(super) in_initial_user_namespace: bool,
    /// Whether the kernel is older than CAP_BPF and CAP_PERFMON (5.8).
    pub(super) only_sys_admin: bool,
    pub(super) place: Place,
}

impl Privileges {
    /// The privileges of this process. What cannot be found out counts as not given.
    pub fn of_this_process() -> Privileges {
        // CAP_BPF is number 39.
        let last = sysctl::read_number("kernel.cap_last_cap");
        let user_namespace = ProcDir::own().and_then(|directory| directory.namespace("user"));
        Privileges {
            effective: rustix::thread::capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.effective),
            in_initial_user_namespace: user_namespace.is_ok_and(|inode| inode == namespace::INITIAL_USER_NAMESPACE),
            only_sys_admin: last.is_some_and(|last| last < 39),
            place: Place::of_this_process(),
        }
    }

    /// Whether a capability is held, itself or by one that the kernel takes in its place.
    pub fn has(&self, capability: Capability) -> bool {
        self.effective.intersects(capability.bit() | capability.stand_ins())
    }

    /// Whether the capabilities count for the whole machine.
    pub fn in_initial_user_namespace(&self) -> bool {
        self.in_initial_user_namespace
    }

    /// How to get what is missing of [`Capability::WANTED`], as an order to the user.
    pub fn cure(&self) -> String {
        if self.only_sys_admin {
            // Before 5.8 the list would name capabilities that setcap does not know.
            return self.place.cure(&[Capability::SysAdmin, Capability::SysPtrace, Capability::DacReadSearch]);
        }
        self.place.cure(&Capability::WANTED)
    }

    pub(super) fn missing(&self, wanted: &[Capability]) -> Vec<Capability> {
        let missing = wanted.iter().copied().filter(|capability| !self.has(*capability));
        if self.only_sys_admin {
            return missing.take(1).map(|_| Capability::SysAdmin).collect();
        }
        missing.collect()
    }
}
