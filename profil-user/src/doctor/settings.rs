//! Settings of the kernel that give, take or slow down.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;

use rustix::process::{Resource, getrlimit};

use super::{Finding, State};
use crate::privileges::{Capability, Privileges};
use crate::probe::support::{self, Helper};
use crate::probe::sysctl;
use crate::rate::{DEFAULT_HZ, Rate};
use crate::session;

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
        open_files(),
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
    let name = "kernel.perf_event_max_sample_rate";
    sample_rate_of(value(name), sysctl::read_number(name).and_then(|found| u64::try_from(found).ok()))
}

fn sample_rate_of(value: String, found: Option<u64>) -> Finding {
    let name = "kernel.perf_event_max_sample_rate";
    let Ok(rate) = Rate::new(DEFAULT_HZ) else {
        return Finding::ok(name, value, "");
    };
    let needed = rate.limit_needed();
    let finding = Finding::ok(name, value, format!("{needed} or more"));
    if found.is_none_or(|found| rate.under(found).is_ok()) {
        return finding;
    }
    finding
        .but(State::Degraded, format!("the default rate of {DEFAULT_HZ} Hz: a lower one is used"))
        .cure("sudo sysctl kernel.perf_event_max_sample_rate=100000 kernel.perf_cpu_time_max_percent=25")
}

/// Descriptors beside those for each CPU: maps and programs, the event loop, and files of targets that are looked at.
const DESCRIPTORS: u64 = 128;

fn open_files() -> Finding {
    let limit = getrlimit(Resource::Nofile).current;
    open_files_of(limit, session::online_cpus().map_or(1, |cpus| cpus.len() as u64))
}

/// Two events for each CPU: the clock and the news of mappings.
fn open_files_of(limit: Option<u64>, cpus: u64) -> Finding {
    let needed = DESCRIPTORS + 2 * cpus;
    let found = limit.map_or("unlimited".to_owned(), |limit| limit.to_string());
    let finding = Finding::ok("RLIMIT_NOFILE", found, format!("{needed} or more"));
    if limit.is_none_or(|limit| limit >= needed) {
        return finding;
    }
    finding.but(State::Missing, "recording: events and files cannot be opened").cure("ulimit -n 4096")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sample_rate_that_is_needed_is_that_of_the_default_clock() {
        let state = |found: u64| sample_rate_of(found.to_string(), Some(found)).state;
        let needed = Rate::new(DEFAULT_HZ).expect("the default").limit_needed();
        assert_eq!([state(needed), state(100_000)], [State::Ok; 2]);
        assert_eq!([state(needed - 1), state(1000), state(1)], [State::Degraded; 3]);
        assert!(sample_rate_of(String::new(), Some(1000)).needed.contains(&needed.to_string()));
    }

    #[test]
    fn descriptors_are_needed_for_each_cpu() {
        assert_eq!(open_files_of(Some(1024), 2).state, State::Ok);
        assert_eq!(open_files_of(None, 2).state, State::Ok);
        assert_eq!(open_files_of(Some(1024), 512).state, State::Missing);
        assert_eq!(open_files_of(Some(16), 1).state, State::Missing);
    }
}
