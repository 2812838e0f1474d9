use std::io;
use std::time::{Duration, Instant};

use rustix::thread::{CapabilitySet, CapabilitySets};

use super::{Capability, Privileges};

/// How long threads that were joined may take to be gone.
const THREADS_END: Duration = Duration::from_millis(500);

/// What a process goes on with when it gives up all other capabilities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rights<'a> {
    /// Used at any time.
    pub always: &'a [Capability],
    /// Used for single operations, which [`raised`] does.
    pub at_times: &'a [Capability],
}

/// Capabilities that cannot be given up.
#[derive(Debug, thiserror::Error)]
pub enum ReductionError {
    /// Other threads would keep theirs.
    #[error("cannot give up capabilities: {threads} threads run, and each has its own")]
    Threads {
        /// Threads of this process.
        threads: usize,
    },
    /// The system refuses.
    #[error("cannot give up capabilities")]
    System(#[source] io::Error),
}

impl Rights<'_> {
    /// Gives up all capabilities but these, for good: for what this process may exec as well, so that neither root's user
    /// nor a set-uid file brings them back. Capabilities that are not held are not gained.
    ///
    /// # Errors
    /// [`ReductionError`]; some may have been given up then.
    ///
    /// # Source
    /// capabilities(7), `PR_SET_NO_NEW_PRIVS` of prctl(2).
    pub fn keep_only(self) -> Result<(), ReductionError> {
        let system = |error: rustix::io::Errno| ReductionError::System(error.into());
        await_one_thread()?;
        let held = rustix::thread::capabilities(None).map_err(system)?;
        let (mut effective, at_times) = (set_of(self.always), set_of(self.at_times));
        if Privileges::of_this_process().only_sys_admin {
            // Before 5.8 it stands for CAP_BPF.
            effective |= CapabilitySet::SYS_ADMIN;
        }
        let permitted = held.permitted & (effective | at_times);
        if held.effective.contains(CapabilitySet::SETPCAP) {
            for capability in single().filter(|capability| !permitted.contains(*capability)) {
                match rustix::thread::remove_capability_from_bounding_set(capability) {
                    // A number that this kernel does not know.
                    Err(rustix::io::Errno::INVAL) => {}
                    removed => removed.map_err(system)?,
                }
            }
        }
        rustix::thread::clear_ambient_capability_set().map_err(system)?;
        let sets = CapabilitySets { effective: permitted & effective, permitted, inheritable: CapabilitySet::empty() };
        rustix::thread::set_capabilities(None, sets).map_err(system)?;
        rustix::thread::set_no_new_privs(true).map_err(system)
    }
}

/// Waits until the threads that were joined are gone: the kernel lists them a moment longer.
fn await_one_thread() -> Result<(), ReductionError> {
    let begin = Instant::now();
    loop {
        let threads = std::fs::read_dir("/proc/self/task").map_err(ReductionError::System)?.count();
        match threads {
            1 => return Ok(()),
            _ if begin.elapsed() > THREADS_END => return Err(ReductionError::Threads { threads }),
            _ => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

/// Does something with a capability that is held but not in effect otherwise; without it where it is not held.
pub fn raised<T>(capability: Capability, work: impl FnOnce() -> T) -> T {
    let Ok(before) = rustix::thread::capabilities(None) else {
        return work();
    };
    let effective = before.effective | (capability.bit() & before.permitted);
    if effective == before.effective {
        return work();
    }
    // What is refused for want of it says so.
    let _raised = rustix::thread::set_capabilities(None, CapabilitySets { effective, ..before });
    let result = work();
    // Giving up what is in effect is always allowed.
    let _lowered = rustix::thread::set_capabilities(None, before);
    result
}

fn set_of(capabilities: &[Capability]) -> CapabilitySet {
    capabilities.iter().fold(CapabilitySet::empty(), |set, capability| set | capability.bit())
}

/// Each capability that there can be, those that have no name yet among them.
fn single() -> impl Iterator<Item = CapabilitySet> {
    (0..u64::BITS).map(|number| CapabilitySet::from_bits_retain(1 << number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_of_one_thread_are_not_given_up_while_others_run() {
        // The test harness waits in another thread.
        let rights = Rights { always: &[], at_times: &[] };
        assert!(matches!(rights.keep_only(), Err(ReductionError::Threads { threads }) if threads > 1));
    }

    #[test]
    fn a_capability_is_in_effect_only_while_it_is_raised() {
        let effective = || rustix::thread::capabilities(None).expect("own capabilities").effective;
        let bit = Capability::SysAdmin.bit();
        std::thread::spawn(move || {
            let sets = rustix::thread::capabilities(None).expect("own capabilities");
            let lowered = CapabilitySets { effective: sets.effective - bit, ..sets };
            rustix::thread::set_capabilities(None, lowered).expect("lowering is always allowed");
            let within = raised(Capability::SysAdmin, effective);
            assert_eq!(within.contains(bit), sets.permitted.contains(bit));
            assert!(!effective().contains(bit));
        })
        .join()
        .expect("the assertions hold");
    }
}
