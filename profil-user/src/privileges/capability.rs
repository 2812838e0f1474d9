use std::path::PathBuf;

use rustix::thread::CapabilitySet;

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
    /// Open files of other users, which `/proc/PID/mem` is to us.
    DacOverride,
    /// Signal processes of other users.
    Kill,
    /// Become another user.
    Setuid,
    /// Become another group.
    Setgid,
    /// Give capabilities up for good.
    Setpcap,
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
            Capability::DacOverride => "CAP_DAC_OVERRIDE",
            Capability::Kill => "CAP_KILL",
            Capability::Setuid => "CAP_SETUID",
            Capability::Setgid => "CAP_SETGID",
            Capability::Setpcap => "CAP_SETPCAP",
            Capability::SysAdmin => "CAP_SYS_ADMIN",
        }
    }

    pub(super) fn bit(self) -> CapabilitySet {
        match self {
            Capability::Bpf => CapabilitySet::BPF,
            Capability::Perfmon => CapabilitySet::PERFMON,
            Capability::SysPtrace => CapabilitySet::SYS_PTRACE,
            Capability::CheckpointRestore => CapabilitySet::CHECKPOINT_RESTORE,
            Capability::DacReadSearch => CapabilitySet::DAC_READ_SEARCH,
            Capability::Syslog => CapabilitySet::SYSLOG,
            Capability::SysResource => CapabilitySet::SYS_RESOURCE,
            Capability::DacOverride => CapabilitySet::DAC_OVERRIDE,
            Capability::Kill => CapabilitySet::KILL,
            Capability::Setuid => CapabilitySet::SETUID,
            Capability::Setgid => CapabilitySet::SETGID,
            Capability::Setpcap => CapabilitySet::SETPCAP,
            Capability::SysAdmin => CapabilitySet::SYS_ADMIN,
        }
    }

    /// The capabilities that the kernel takes in its place.
    pub(super) fn stand_ins(self) -> CapabilitySet {
        match self {
            Capability::Bpf | Capability::Perfmon | Capability::CheckpointRestore | Capability::Syslog => {
                CapabilitySet::SYS_ADMIN
            }
            Capability::DacReadSearch => CapabilitySet::DAC_OVERRIDE,
            Capability::SysPtrace
            | Capability::SysResource
            | Capability::DacOverride
            | Capability::Kill
            | Capability::Setuid
            | Capability::Setgid
            | Capability::Setpcap
            | Capability::SysAdmin => CapabilitySet::empty(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containers_get_their_own_flags() {
        let capabilities = [Capability::Bpf, Capability::SysPtrace];
        assert_eq!(Place::Container.cure(&capabilities), "run the container with --cap-add BPF --cap-add SYS_PTRACE");
        assert_eq!(
            Place::Kubernetes.cure(&capabilities),
            "set securityContext.capabilities.add: [BPF, SYS_PTRACE] for the container"
        );
    }
}
