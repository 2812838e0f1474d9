//! Rights of this process.

use super::{Finding, State};
use crate::privileges::{Capability, Privileges};
use crate::process::{ProcDir, namespace};

/// Findings on namespaces and capabilities.
pub(super) fn examine(privileges: &Privileges) -> Vec<Finding> {
    let mut findings = vec![user_namespace(privileges), pid_namespace(privileges)];
    findings.extend(CAPABILITIES.iter().map(|row| {
        let (capability, state, needed, lost) = *row;
        if privileges.has(capability) {
            Finding::ok(capability.name(), "held", needed)
        } else {
            Finding::ok(capability.name(), "not held", needed).but(state, lost).cure(privileges.cure())
        }
    }));
    findings
}

/// What each capability is needed for, and what is lost without it.
const CAPABILITIES: [(Capability, State, &str, &str); 6] = [
    (Capability::Bpf, State::Missing, "to load the eBPF program", "everything"),
    (Capability::Perfmon, State::Missing, "to open the clock of every CPU", "everything"),
    (
        Capability::SysPtrace,
        State::Degraded,
        "for processes of other users",
        "names and mappings of other users' processes; attach to them",
    ),
    (
        Capability::CheckpointRestore,
        State::Degraded,
        "for /proc/PID/map_files",
        "names from files that were deleted or replaced while they run",
    ),
    (
        Capability::DacReadSearch,
        State::Degraded,
        "for binaries that others may not read",
        "names from binaries that this user may not read",
    ),
    (Capability::Syslog, State::Degraded, "for kernel addresses", "names of kernel functions (-K)"),
];

fn user_namespace(privileges: &Privileges) -> Finding {
    let (name, needed) = ("user namespace", "the initial one");
    if privileges.in_initial_user_namespace() {
        return Finding::ok(name, "the initial one", needed);
    }
    Finding::ok(name, "another one", needed)
        .but(State::Missing, "everything: capabilities of this namespace do not count")
        .cure("run profil outside of it, not in a rootless container")
}

fn pid_namespace(privileges: &Privileges) -> Finding {
    let (name, needed) = ("PID namespace", "the initial one");
    if let Err(foreign) = namespace::check_proc() {
        return Finding::ok(name, foreign.found(), "that of /proc")
            .but(State::Missing, "everything: the processes in /proc are not those that are named")
            .cure(namespace::PROC_FIX);
    }
    match namespace::is_initial() {
        Ok(true) => return Finding::ok(name, "the initial one", needed),
        Ok(false) => {}
        Err(_) => {
            return Finding::ok(name, "/proc is not mounted", needed)
                .but(State::Missing, "everything")
                .cure("mount -t proc proc /proc");
        }
    }
    let cure = "run in the host's: docker run --pid=host, Kubernetes hostPID: true, nsenter -t 1 -p";
    let pidfd = rustix::process::pidfd_open(rustix::process::getpid(), rustix::process::PidfdFlags::empty());
    let translated = pidfd.ok().and_then(|pidfd| namespace::translate_process(std::os::fd::AsFd::as_fd(&pidfd)).ok());
    match translated {
        Some(ids) => Finding::ok(name, format!("another one; profil is {} outside", ids.tgid), needed)
            .but(State::Degraded, "-a: processes outside have no names here (-p and -t work)")
            .cure(cure),
        None => Finding::ok(name, "another one, ids not translatable", needed)
            .but(State::Missing, "-p, -t and launched commands: their ids are not known to the kernel program")
            .cure(if privileges.has(Capability::Bpf) {
                format!("{cure}; or Linux 6.1 with BTF")
            } else {
                format!("{}; or {cure}", privileges.cure())
            }),
    }
}

/// Whether this process filters its own system calls, as container engines make it.
pub(super) fn has_seccomp_filter() -> bool {
    let status = ProcDir::own().and_then(|directory| directory.status());
    status.is_ok_and(|status| status.seccomp != crate::process::Seccomp::Off)
}
