//! What the clock needs of perf_event_open(2).

use std::io;

use super::{Finding, State, Trial, reason};
use crate::privileges::Privileges;
use crate::probe::perf::{self, Event};
use crate::probe::support::{self, is_refusal};
use crate::probe::sysctl;

/// Findings on events, really opened.
pub(super) fn examine(privileges: &Privileges) -> Vec<Finding> {
    let cure = privileges.cure();
    let tried =
        |name, needed, state, lost, support| Finding::tried(Trial { name, needed, state, lost }, &support, &cure);
    vec![
        cpu_clock(&cure),
        tried(
            "task-clock, inherited",
            "CONFIG_PERF_EVENTS",
            State::Missing,
            "launched commands",
            support::event(Event::TaskClock),
        ),
        tried(
            "inherit_thread",
            "5.13",
            State::Degraded,
            "leaving out child processes (-i) at no cost: they are filtered by the program instead",
            support::event(Event::TaskClockOfThreads),
        ),
        tried(
            "program on a perf event",
            "4.9, CONFIG_BPF_EVENTS",
            State::Missing,
            "everything",
            support::attach_to_event(),
        ),
        tried(
            "build IDs in MMAP2",
            "5.12",
            State::Degraded,
            "build IDs of files that are gone when they are looked at",
            support::event(Event::MappingsWithBuildIds),
        ),
        // For information: virtual machines often have no counters, and nothing is lost by that.
        Finding::ok("hardware counters", found(support::event(Event::HardwareCycles).works()), "not needed"),
        Finding::ok(
            "kprobes",
            found(std::path::Path::new("/sys/bus/event_source/devices/kprobe").exists()),
            "not needed",
        ),
        Finding::ok(
            "tracefs",
            found(
                ["/sys/kernel/tracing/events", "/sys/kernel/debug/tracing/events"]
                    .iter()
                    .any(|path| std::path::Path::new(path).exists()),
            ),
            "not needed",
        ),
    ]
}

fn found(there: bool) -> &'static str {
    if there { "there" } else { "absent" }
}

fn cpu_clock(cure: &str) -> Finding {
    let (name, needed) = ("cpu-clock on each CPU", "CONFIG_PERF_EVENTS");
    let lost = "all recordings";
    let online = std::fs::read_to_string("/sys/devices/system/cpu/online").ok().and_then(|list| cpus(&list));
    let Some(online) = online.filter(|online| !online.is_empty()) else {
        return Finding::ok(name, "online CPUs not known", needed)
            .but(State::Missing, lost)
            .cure("mount -t sysfs sysfs /sys");
    };
    let failures: Vec<io::Error> =
        online.iter().filter_map(|cpu| perf::open(Event::CpuClock { cpu: *cpu }).err()).collect();
    let count = format!("{} of {} CPUs", online.len() - failures.len(), online.len());
    let Some(first) = failures.first() else {
        return Finding::ok(name, count, needed);
    };
    let finding = Finding::ok(name, format!("{count}: {}", reason(first)), needed).but(State::Missing, lost);
    if !is_refusal(first) {
        return finding.cure("a kernel with CONFIG_PERF_EVENTS=y");
    }
    match sysctl::paranoid() {
        Some(paranoid) if paranoid > 0 => finding.cure(format!(
            "{cure} (or `sudo sysctl kernel.perf_event_paranoid=0`, now {paranoid}, for this line only)"
        )),
        _ => finding.cure(cure.to_owned()),
    }
}

/// CPUs of a list such as `0-3,8`, as sysfs writes it.
fn cpus(list: &str) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    for range in list.trim().split(',').filter(|range| !range.is_empty()) {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        // More CPUs than any kernel is built for is no list of them.
        if last > 65_535 {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus_are_read_as_sysfs_writes_them() {
        assert_eq!(cpus("0-1\n"), Some(vec![0, 1]));
        assert_eq!(cpus("0,2-3,7"), Some(vec![0, 2, 3, 7]));
        assert_eq!(cpus(""), Some(vec![]));
        assert_eq!(cpus("0-4294967295"), None);
        assert_eq!(cpus("a"), None);
    }
}
