//! Settings of the kernel that give, take or slow down.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;

use rustix::process::{Resource, getrlimit};

use super::{Finding, State};
use crate::privileges::{Capability, Privileges};
use crate::probe::support::{self, Helper};
use crate::probe::sysctl;

/// Findings on sysctls, limits, lockdown and mounts.
pub(super) fn examine(privileges: &Privileges) -> Vec<Finding> {
    vec![
        paranoid(privileges),
        sample_rate(),
        informative("kernel.perf_cpu_time_max_percent", "any; the kernel lowers the rate when ticks take more"),
        kernel_addresses(privileges),
        unprivileged_bpf(privileges),
        bpf_stats(),
        locked_memory(privileges),
        lockdown(),
        control_groups(),
    ]
}

fn value(name: &str) -> String {
    sysctl::read(name).unwrap_or_else(|| "no such setting".to_owned())
}

fn informative(name: &'static str, needed: &'static str) -> Finding {
    Finding::ok(name, value(name), needed)
}

fn paranoid(privileges: &Privileges) -> Finding {
    let name = "kernel.perf_event_paranoid";
    let finding = Finding::ok(name, value(name), "any with CAP_PERFMON, else 0 or less");
    if privileges.has(Capability::Perfmon) || sysctl::paranoid().is_some_and(|value| value <= 0) {
        return finding;
    }
    finding.but(State::Missing, "the clock of every CPU").cure(privileges.cure())
}

fn sample_rate() -> Finding {
    /// Rate of the default clock, whose period is at most 1 ms, rounded up.
    const NEEDED_HZ: i64 = 1000;
    let name = "kernel.perf_event_max_sample_rate";
    let finding = Finding::ok(name, value(name), "1000 or more");
    match sysctl::read_number(name) {
        Some(hz) if hz < NEEDED_HZ => finding
            .but(State::Degraded, "the default rate of 997 Hz: a lower one is used")
            .cure("sudo sysctl kernel.perf_event_max_sample_rate=100000 kernel.perf_cpu_time_max_percent=25"),
        _ => finding,
    }
}

fn kernel_addresses(privileges: &Privileges) -> Finding {
    let name = "kernel.kptr_restrict";
    let needed = "0, or 1 with CAP_SYSLOG";
    // What counts is whether addresses show: other settings hide them too.
    let first = fs::File::open("/proc/kallsyms").ok().and_then(|file| BufReader::new(file).lines().next()?.ok());
    let shown = first.is_some_and(|line| line.split(' ').next().is_some_and(|address| address.contains(|c| c != '0')));
    let finding =
        Finding::ok(name, format!("{}, addresses {}", value(name), if shown { "shown" } else { "hidden" }), needed);
    if shown {
        return finding;
    }
    let finding = finding.but(State::Degraded, "names of kernel functions (-K)");
    if privileges.has(Capability::Syslog) {
        finding.cure("sudo sysctl kernel.kptr_restrict=1")
    } else {
        finding.cure(privileges.cure())
    }
}

fn unprivileged_bpf(privileges: &Privileges) -> Finding {
    let name = "kernel.unprivileged_bpf_disabled";
    // Users without CAP_BPF may never load a perf_event program, whatever this is.
    let needed =
        if privileges.has(Capability::Bpf) { "any with CAP_BPF" } else { "any; CAP_BPF is needed all the same" };
    informative(name, needed)
}

fn bpf_stats() -> Finding {
    let finding = informative("kernel.bpf_stats_enabled", "0");
    if sysctl::read_number("kernel.bpf_stats_enabled") == Some(1) {
        return finding
            .but(State::Degraded, "a little time at every tick: the kernel times all eBPF programs")
            .cure("sudo sysctl kernel.bpf_stats_enabled=0");
    }
    finding
}

fn locked_memory(privileges: &Privileges) -> Finding {
    /// Room for the maps of a session with default sizes, bytes.
    const NEEDED_BYTES: u64 = 512 << 20;
    let name = "RLIMIT_MEMLOCK";
    let limit = getrlimit(Resource::Memlock).current;
    let found = limit.map_or("unlimited".to_owned(), |bytes| format!("{} KiB", bytes / 1024));
    // Since 5.11 BPF memory is charged to control groups; this helper came with that kernel, and libbpf goes by it.
    let by_cgroup = support::helper(Helper::KtimeGetCoarseNs).works();
    if by_cgroup || !privileges.has(Capability::Bpf) {
        return Finding::ok(name, found, "any since 5.11, else 512 MiB");
    }
    let finding = Finding::ok(name, found, "512 MiB before 5.11");
    if limit.is_none_or(|bytes| bytes >= NEEDED_BYTES) || privileges.has(Capability::SysResource) {
        return finding;
    }
    finding.but(State::Missing, "everything: BPF memory is charged to this limit").cure("ulimit -l unlimited (as root)")
}

fn lockdown() -> Finding {
    let (name, needed) = ("lockdown", "none or integrity");
    let Ok(text) = fs::read_to_string("/sys/kernel/security/lockdown") else {
        return Finding::ok(name, "not known (no securityfs, or not built in)", needed);
    };
    // The active mode stands in brackets: none [integrity] confidentiality.
    let mode = text.split('[').nth(1).and_then(|rest| rest.split(']').next()).unwrap_or("none").to_owned();
    if mode == "confidentiality" {
        return Finding::ok(name, mode, needed)
            .but(State::Missing, "everything: no program may read kernel memory")
            .cure("boot without lockdown=confidentiality");
    }
    Finding::ok(name, mode, needed)
}

fn control_groups() -> Finding {
    let (name, needed) = ("cgroup v2", "mounted at /sys/fs/cgroup");
    if Path::new("/sys/fs/cgroup/cgroup.controllers").exists() {
        return Finding::ok(name, "mounted", needed);
    }
    if Path::new("/sys/fs/cgroup/unified/cgroup.procs").exists() {
        return Finding::ok(name, "mounted at /sys/fs/cgroup/unified", needed);
    }
    Finding::ok(name, "not mounted", needed)
        .but(State::Degraded, "the filter by control group (-G)")
        .cure("mount -t cgroup2 cgroup2 /sys/fs/cgroup")
}
