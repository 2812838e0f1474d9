//! What profil may do, and how to say what it may not.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::PathBuf;

use rustix::thread::CapabilitySet;

use crate::probe::sysctl;
use crate::process::{ProcDir, TargetError, namespace};

/// A capability that profil uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Capability {
    /// Load eBPF programs (5.8).
    Bpf,
    /// Open perf events of any process and CPU, and attach programs to them (5.8).
    Perfmon,
    /// Look into the processes of other users.
    SysPtrace,
    /// Open the mapped files of a process through /proc/PID/map_files (5.9).
    CheckpointRestore,
    /// Read executables that this user may not read.
    DacReadSearch,
    /// See the addresses of the kernel's symbols.
    Syslog,
    /// Raise RLIMIT_MEMLOCK, where BPF memory is charged to it (before 5.11).
    SysResource,
    /// Stands in for the first two, and for the fourth, and was the only one of them before 5.8.
    SysAdmin,
}

impl Capability {
    /// All that one `setcap` gives to the binary.
    pub const WANTED: [Capability; 6] = [
        Capability::Bpf,
        Capability::Perfmon,
        Capability::SysPtrace,
        Capability::CheckpointRestore,
        Capability::DacReadSearch,
        Capability::Syslog,
    ];

    /// Its name, as capabilities(7) has it.
    pub fn name(self) -> &'static str {
        match self {
            Capability::Bpf => "CAP_BPF",
            Capability::Perfmon => "CAP_PERFMON",
            Capability::SysPtrace => "CAP_SYS_PTRACE",
            Capability::CheckpointRestore => "CAP_CHECKPOINT_RESTORE",
            Capability::DacReadSearch => "CAP_DAC_READ_SEARCH",
            Capability::Syslog => "CAP_SYSLOG",
            Capability::SysResource => "CAP_SYS_RESOURCE",
            Capability::SysAdmin => "CAP_SYS_ADMIN",
        }
    }

    fn bit(self) -> CapabilitySet {
        match self {
            Capability::Bpf => CapabilitySet::BPF,
            Capability::Perfmon => CapabilitySet::PERFMON,
            Capability::SysPtrace => CapabilitySet::SYS_PTRACE,
            Capability::CheckpointRestore => CapabilitySet::CHECKPOINT_RESTORE,
            Capability::DacReadSearch => CapabilitySet::DAC_READ_SEARCH,
            Capability::Syslog => CapabilitySet::SYSLOG,
            Capability::SysResource => CapabilitySet::SYS_RESOURCE,
            Capability::SysAdmin => CapabilitySet::SYS_ADMIN,
        }
    }

    /// The capabilities that the kernel takes in its place.
    fn stand_ins(self) -> CapabilitySet {
        match self {
            Capability::Bpf | Capability::Perfmon | Capability::CheckpointRestore | Capability::Syslog => {
                CapabilitySet::SYS_ADMIN
            }
            Capability::DacReadSearch => CapabilitySet::DAC_OVERRIDE,
            Capability::SysPtrace | Capability::SysResource | Capability::SysAdmin => CapabilitySet::empty(),
        }
    }
}

/// Where profil runs, which decides how capabilities are given to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// On the host.
    Host {
        /// The binary, for setcap(8).
        program: PathBuf,
    },
    /// In a container of Docker or Podman.
    Container,
    /// In a pod.
    Kubernetes,
}

impl Place {
    /// Finds out, by the files and variables that container engines leave.
    pub fn of_this_process() -> Place {
        if std::env::var_os("KUBERNETES_SERVICE_HOST").is_some() {
            return Place::Kubernetes;
        }
        if ["/.dockerenv", "/run/.containerenv"].iter().any(|mark| std::path::Path::new(mark).exists()) {
            return Place::Container;
        }
        let program = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("profil"));
        Place::Host { program }
    }

    /// How to get capabilities here, as an order to the user.
    pub fn cure(&self, capabilities: &[Capability]) -> String {
        let list = |separator: &str, form: fn(&str) -> String| -> String {
            capabilities.iter().map(|capability| form(capability.name())).collect::<Vec<_>>().join(separator)
        };
        let bare = |name: &str| name.trim_start_matches("CAP_").to_owned();
        match self {
            Place::Host { program } => {
                let list = list(",", |name| name.to_ascii_lowercase());
                format!("run as root, or `sudo setcap {list}+ep {}`", program.display())
            }
            Place::Container => format!(
                "run the container with {}",
                list(" ", |name| format!("--cap-add {}", name.trim_start_matches("CAP_")))
            ),
            Place::Kubernetes => {
                let names: Vec<String> = capabilities.iter().map(|capability| bare(capability.name())).collect();
                format!("set securityContext.capabilities.add: [{}] for the container", names.join(", "))
            }
        }
    }
}

/// What this process may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Privileges {
    /// Effective capabilities.
    effective: CapabilitySet,
    /// Whether they count for the whole machine: those of a child user namespace do not.
    in_initial_user_namespace: bool,
    /// Whether the kernel is older than CAP_BPF and CAP_PERFMON (5.8).
    only_sys_admin: bool,
    place: Place,
}

impl Privileges {
    /// The privileges of this process. What cannot be found out counts as not given.
    pub fn of_this_process() -> Privileges {
        // CAP_BPF is number 39.
        let last = sysctl::read_number("kernel.cap_last_cap");
        let user_namespace = ProcDir::open(std::process::id()).and_then(|directory| directory.namespace("user"));
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

    fn missing(&self, wanted: &[Capability]) -> Vec<Capability> {
        let missing = wanted.iter().copied().filter(|capability| !self.has(*capability));
        if self.only_sys_admin {
            return missing.take(1).map(|_| Capability::SysAdmin).collect();
        }
        missing.collect()
    }
}

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
        }
    }

    /// Largest kernel.perf_event_paranoid at which the operation needs no capability.
    fn paranoid_max(self) -> Option<i64> {
        match self {
            Operation::OpenCpuEvent => Some(0),
            // Kernel mode is wanted too.
            Operation::OpenTaskEvent => Some(1),
            Operation::CreateMap | Operation::LoadProgram | Operation::AttachProgram => None,
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
    use super::*;

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
    fn containers_get_their_own_flags() {
        let capabilities = [Capability::Bpf, Capability::SysPtrace];
        assert_eq!(Place::Container.cure(&capabilities), "run the container with --cap-add BPF --cap-add SYS_PTRACE");
        assert_eq!(
            Place::Kubernetes.cure(&capabilities),
            "set securityContext.capabilities.add: [BPF, SYS_PTRACE] for the container"
        );
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
