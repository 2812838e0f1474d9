use std::error::Error;
use std::fmt;
use std::io;

use super::{Capability, Privileges};
use crate::probe::sysctl;
use crate::process::TargetError;

/// What was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Making a BPF map.
    CreateMap,
    /// Loading an eBPF program.
    LoadProgram,
    /// Attaching a program to an event or tracepoint.
    AttachProgram,
    /// Opening a perf event on a CPU, for all processes.
    OpenCpuEvent,
    /// Opening a perf event on a thread.
    OpenTaskEvent,
    /// Opening the memory or the maps of another process.
    OpenMemory,
}

impl Operation {
    /// Whether an error of the operation says that a right is lacking: EACCES of a program's load is the verifier's, and
    /// EPERM of bpf(2) may also mean RLIMIT_MEMLOCK.
    fn is_refused_by(self, error: &io::Error) -> bool {
        match error.raw_os_error() {
            Some(libc::EPERM) => true,
            Some(libc::EACCES) => self != Operation::LoadProgram,
            _ => false,
        }
    }

    fn capabilities(self) -> &'static [Capability] {
        match self {
            Operation::CreateMap => &[Capability::Bpf],
            Operation::LoadProgram | Operation::AttachProgram => &[Capability::Bpf, Capability::Perfmon],
            Operation::OpenCpuEvent | Operation::OpenTaskEvent => &[Capability::Perfmon],
            Operation::OpenMemory => &[Capability::SysPtrace],
        }
    }

    /// Largest kernel.perf_event_paranoid at which the operation needs no capability.
    fn paranoid_max(self) -> Option<i64> {
        match self {
            Operation::OpenCpuEvent => Some(0),
            // Kernel mode is wanted too.
            Operation::OpenTaskEvent => Some(1),
            Operation::CreateMap | Operation::LoadProgram | Operation::AttachProgram | Operation::OpenMemory => None,
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Operation::CreateMap => "create a BPF map",
            Operation::LoadProgram => "load the eBPF program",
            Operation::AttachProgram => "attach the eBPF program",
            Operation::OpenCpuEvent => "open a perf event on a CPU",
            Operation::OpenTaskEvent => "open a perf event on a thread",
            Operation::OpenMemory => "open the memory of the process",
        })
    }
}

/// The kernel refused something for want of a right: exit status 3.
#[derive(Debug)]
pub struct PermissionError {
    /// What was refused.
    pub operation: Operation,
    /// Capabilities that the operation takes and this process lacks.
    pub missing: Vec<Capability>,
    /// kernel.perf_event_paranoid, where it has a say: the value found and the largest that would do.
    pub paranoid: Option<(i64, i64)>,
    privileges: Privileges,
    source: io::Error,
}

impl PermissionError {
    /// Explains a failure that is about permission.
    ///
    /// # Errors
    /// Hands back an error that is about something else.
    pub fn explain(operation: Operation, error: io::Error) -> Result<PermissionError, io::Error> {
        PermissionError::with(operation, error, Privileges::of_this_process(), sysctl::paranoid())
    }

    fn with(
        operation: Operation,
        error: io::Error,
        privileges: Privileges,
        paranoid: Option<i64>,
    ) -> Result<PermissionError, io::Error> {
        if !operation.is_refused_by(&error) {
            return Err(error);
        }
        let missing = privileges.missing(operation.capabilities());
        let paranoid = paranoid.zip(operation.paranoid_max()).filter(|(found, needed)| found > needed);
        Ok(PermissionError { operation, missing, paranoid, privileges, source: error })
    }
}

impl fmt::Display for PermissionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PermissionError { operation, missing, paranoid, privileges, source: _ } = self;
        write!(f, "cannot {operation}: ")?;
        if !privileges.in_initial_user_namespace {
            return write!(
                f,
                "this is a user namespace, whose capabilities do not count for it; run profil outside (not in a rootless container)"
            );
        }
        if missing.is_empty() && *operation == Operation::OpenMemory {
            return write!(
                f,
                "CAP_SYS_PTRACE is there, so a security module refuses it; see /proc/sys/kernel/yama/ptrace_scope, where 3 \
                 is for all until the next boot"
            );
        }
        if missing.is_empty() {
            return write!(
                f,
                "all capabilities are there, so a seccomp filter, a security module or RLIMIT_MEMLOCK refuses it; see `profil doctor` \
                 (in a container: --privileged, or --security-opt seccomp=unconfined)"
            );
        }
        let names: Vec<&str> = missing.iter().map(|capability| capability.name()).collect();
        let verb = if names.len() == 1 { "is" } else { "are" };
        if let Some((found, needed)) = paranoid {
            write!(
                f,
                "kernel.perf_event_paranoid is {found} and {} {verb} missing; {}, or `sudo sysctl kernel.perf_event_paranoid={needed}`",
                names.join(" and "),
                privileges.cure()
            )
        } else {
            write!(f, "{} {verb} missing; {}", names.join(" and "), privileges.cure())
        }
    }
}

impl Error for PermissionError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.source)
    }
}

/// Whether an error, or one that caused it, is about permission: exit status 3.
pub fn is_about_permission(error: &(dyn Error + 'static)) -> bool {
    std::iter::successors(Some(error), |error| (*error).source()).any(|error| {
        error.is::<PermissionError>()
            || matches!(error.downcast_ref::<TargetError>(), Some(TargetError::Permission { .. }))
    })
}

#[cfg(test)]
mod tests {
    use rustix::thread::CapabilitySet;

    use super::*;
    use crate::privileges::Place;

    fn privileges(effective: CapabilitySet) -> Privileges {
        Privileges {
            effective,
            in_initial_user_namespace: true,
            only_sys_admin: false,
            place: Place::Host { program: "/usr/bin/profil".into() },
        }
    }

    fn message(operation: Operation, code: i32, privileges: Privileges, paranoid: i64) -> String {
        let error = io::Error::from_raw_os_error(code);
        PermissionError::with(operation, error, privileges, Some(paranoid)).expect("about permission").to_string()
    }

    #[test]
    fn missing_capabilities_are_named_with_the_command_that_gives_them() {
        insta::assert_snapshot!(
            message(Operation::LoadProgram, libc::EPERM, privileges(CapabilitySet::empty()), 2),
            @"cannot load the eBPF program: CAP_BPF and CAP_PERFMON are missing; run as root, or `sudo setcap cap_bpf,cap_perfmon,cap_sys_ptrace,cap_checkpoint_restore,cap_dac_read_search,cap_syslog+ep /usr/bin/profil`"
        );
    }

    #[test]
    fn the_sysctl_is_named_with_what_was_found_and_needed() {
        insta::assert_snapshot!(
            message(Operation::OpenCpuEvent, libc::EACCES, privileges(CapabilitySet::BPF), 3),
            @"cannot open a perf event on a CPU: kernel.perf_event_paranoid is 3 and CAP_PERFMON is missing; run as root, or `sudo setcap cap_bpf,cap_perfmon,cap_sys_ptrace,cap_checkpoint_restore,cap_dac_read_search,cap_syslog+ep /usr/bin/profil`, or `sudo sysctl kernel.perf_event_paranoid=0`"
        );
    }

    #[test]
    fn the_memory_of_another_user_takes_the_right_to_trace() {
        insta::assert_snapshot!(
            message(Operation::OpenMemory, libc::EACCES, privileges(CapabilitySet::BPF), 2),
            @"cannot open the memory of the process: CAP_SYS_PTRACE is missing; run as root, or `sudo setcap cap_bpf,cap_perfmon,cap_sys_ptrace,cap_checkpoint_restore,cap_dac_read_search,cap_syslog+ep /usr/bin/profil`"
        );
        let with_it = message(Operation::OpenMemory, libc::EPERM, privileges(CapabilitySet::all()), 2);
        assert!(with_it.contains("yama") && !with_it.contains("MEMLOCK"), "{with_it}");
    }

    #[test]
    fn with_all_capabilities_something_else_is_to_blame() {
        insta::assert_snapshot!(
            message(Operation::LoadProgram, libc::EPERM, privileges(CapabilitySet::SYS_ADMIN), 2),
            @"cannot load the eBPF program: all capabilities are there, so a seccomp filter, a security module or RLIMIT_MEMLOCK refuses it; see `profil doctor` (in a container: --privileged, or --security-opt seccomp=unconfined)"
        );
    }

    #[test]
    fn capabilities_of_a_user_namespace_do_not_count() {
        let inside = Privileges { in_initial_user_namespace: false, ..privileges(CapabilitySet::all()) };
        insta::assert_snapshot!(message(Operation::CreateMap, libc::EPERM, inside, 2), @"cannot create a BPF map: this is a user namespace, whose capabilities do not count for it; run profil outside (not in a rootless container)");
    }

    #[test]
    fn kernels_before_cap_bpf_want_cap_sys_admin() {
        let old = Privileges { only_sys_admin: true, ..privileges(CapabilitySet::empty()) };
        insta::assert_snapshot!(message(Operation::LoadProgram, libc::EPERM, old, 2), @"cannot load the eBPF program: CAP_SYS_ADMIN is missing; run as root, or `sudo setcap cap_sys_admin,cap_sys_ptrace,cap_dac_read_search+ep /usr/bin/profil`");
    }

    #[test]
    fn a_verifier_error_is_not_about_permission() {
        let error = io::Error::from_raw_os_error(libc::EACCES);
        let back = PermissionError::with(Operation::LoadProgram, error, privileges(CapabilitySet::empty()), None);
        assert!(back.is_err_and(|error| error.raw_os_error() == Some(libc::EACCES)));
    }

    #[test]
    fn permission_is_found_below_other_errors() {
        let error = io::Error::from_raw_os_error(libc::EPERM);
        let error = PermissionError::with(Operation::CreateMap, error, privileges(CapabilitySet::empty()), None);
        let wrapped = anyhow::Error::new(error.expect("about permission")).context("cannot record");
        assert!(is_about_permission(wrapped.as_ref()));
        assert!(!is_about_permission(anyhow::anyhow!("something else").as_ref()));
    }
}
