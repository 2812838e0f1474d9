//! CPU time that the targets use, from clocks that know nothing of ticks: what `expected` is computed from.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use profil_common::{Event, EventKind};

use crate::process::ProcDir;
use crate::process::cpu_time::{self, ThreadClock};

/// Ticks of `/proc/stat`, per second (`USER_HZ`).
const USER_HZ: u64 = 100;

/// Whose CPU time is asked for, and how.
#[derive(Debug)]
pub enum TargetTime {
    /// Processes, and the descendants that the hooks report.
    Processes(ProcessTimes),
    /// Threads.
    Threads(ThreadTimes),
    /// All processes in a control group, by its `cpu.stat`.
    Cgroup {
        /// Directory of the group.
        directory: PathBuf,
        /// Reading at the start.
        start: Option<Duration>,
        /// Last reading, should the group be removed before the next one is due.
        last: Option<Duration>,
    },
    /// All that ran on some CPUs, by `/proc/stat`: to 10 ms for each CPU.
    Cpus {
        /// The CPUs.
        cpus: Vec<u32>,
        /// Reading at the start.
        start: Option<Duration>,
    },
    /// Nothing tells: a filter by name or user has no clock of its own.
    Unknown,
    /// What was read when the recording stopped.
    Stopped(Option<Duration>),
}

impl TargetTime {
    /// All that runs in a control group from now on.
    pub fn of_cgroup(directory: PathBuf) -> TargetTime {
        let start = cgroup_usage(&directory);
        TargetTime::Cgroup { directory, start, last: start }
    }

    /// All that runs on some CPUs from now on.
    pub fn of_cpus(cpus: Vec<u32>) -> TargetTime {
        let start = busy(&cpus);
        TargetTime::Cpus { cpus, start }
    }

    /// Takes in what the hooks saw.
    pub fn note(&mut self, event: &Event) {
        if let TargetTime::Processes(processes) = self {
            processes.note(event);
        }
    }

    /// Takes readings that will not be to be had when a target is gone.
    pub fn poll(&mut self) {
        if let TargetTime::Cgroup { directory, last, .. } = self {
            *last = cgroup_usage(directory).or(*last);
        }
    }

    /// Takes the last readings: what targets use from now on does not count. Only reports of the kernel about
    /// processes that had ended already are still taken in.
    pub fn stop(&mut self) {
        match self {
            TargetTime::Processes(processes) => processes.stop(),
            TargetTime::Threads(_)
            | TargetTime::Cgroup { .. }
            | TargetTime::Cpus { .. }
            | TargetTime::Unknown
            | TargetTime::Stopped(_) => {}
        }
        if !matches!(self, TargetTime::Processes(_)) {
            *self = TargetTime::Stopped(self.total());
        }
    }

    /// Whether the kernel has yet to report the final CPU time of a process that has ended.
    pub fn awaits_reports(&mut self) -> bool {
        match self {
            TargetTime::Processes(processes) => processes.awaits_reports(),
            _ => false,
        }
    }

    /// CPU time since the start; `None` when nothing tells.
    pub fn total(&mut self) -> Option<Duration> {
        match self {
            TargetTime::Processes(processes) => Some(processes.total()),
            TargetTime::Threads(threads) => threads.total(),
            TargetTime::Cgroup { directory, start, last } => cgroup_usage(directory).or(*last)?.checked_sub((*start)?),
            TargetTime::Cpus { cpus, start } => busy(cpus)?.checked_sub((*start)?),
            TargetTime::Unknown => None,
            TargetTime::Stopped(total) => *total,
        }
    }
}

/// CPU times of processes: each from when it became a target to its end, or to now.
#[derive(Debug, Default)]
pub struct ProcessTimes {
    /// By tgid in the initial PID namespace.
    live: HashMap<u32, Live>,
    ended: Duration,
}

#[derive(Debug)]
struct Live {
    /// In our PID namespace, 0 when it is not visible there.
    pid: u32,
    /// CPU time that it had used when it became a target.
    start: Duration,
    /// Last reading, should the process be gone when the next one is due.
    last: Duration,
    /// Whether it has begun to exit: its PID may then belong to somebody else any moment.
    exiting: bool,
}

impl Live {
    /// Takes a reading, if the PID is certain to be its own.
    fn read(&mut self) -> Reading {
        if self.exiting && !is_zombie(self.pid) {
            return Reading::Gone;
        }
        match cpu_time::of_process(self.pid) {
            Ok(now) => {
                self.last = now.max(self.last);
                Reading::Taken
            }
            Err(_) => Reading::Gone,
        }
    }
}

/// Whether the clock of a process could be read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reading {
    Taken,
    Gone,
}

/// Whether a process has ended and waits for its parent: nobody else has its PID then.
fn is_zombie(pid: u32) -> bool {
    ProcDir::open(pid).and_then(|directory| directory.stat()).is_ok_and(|stat| stat.has_ended())
}

impl ProcessTimes {
    /// Adds a running process.
    pub fn add(&mut self, tgid: u32, pid: u32) {
        let start = cpu_time::of_process(pid).unwrap_or_default();
        self.live.insert(tgid, Live { pid, start, last: start, exiting: false });
    }

    fn note(&mut self, event: &Event) {
        match event.kind() {
            Some(EventKind::Fork) => {
                // The PID may have belonged to a target whose end is still to be reported.
                self.end(event.tgid, None);
                let (start, last) = (Duration::ZERO, Duration::ZERO);
                self.live.insert(event.tgid, Live { pid: event.pid, start, last, exiting: false });
            }
            Some(EventKind::Exit) => {
                if let Some(live) = self.live.get_mut(&event.tgid) {
                    live.exiting = true;
                    live.last = live.last.max(Duration::from_nanos(event.cpu_ns));
                }
            }
            Some(EventKind::Free) => self.end(event.tgid, Some(Duration::from_nanos(event.cpu_ns))),
            _ => {}
        }
    }

    fn end(&mut self, tgid: u32, time: Option<Duration>) {
        if let Some(Live { start, last, .. }) = self.live.remove(&tgid) {
            self.ended += time.unwrap_or(last).max(last).saturating_sub(start);
        }
    }

    /// Settles the processes whose clock can be read; the others have ended, and the kernel will report them.
    fn stop(&mut self) {
        let ProcessTimes { live, ended } = self;
        live.retain(|_, live| {
            let taken = live.read() == Reading::Taken;
            if taken {
                *ended += live.last.saturating_sub(live.start);
            }
            !taken
        });
    }

    fn awaits_reports(&mut self) -> bool {
        self.live.values_mut().any(|live| live.pid != 0 && live.read() == Reading::Gone)
    }

    fn total(&mut self) -> Duration {
        let mut total = self.ended;
        for live in self.live.values_mut() {
            live.read();
            total += live.last.saturating_sub(live.start);
        }
        total
    }
}

/// CPU times of threads.
#[derive(Debug, Default)]
pub struct ThreadTimes {
    /// `None` for one that has none.
    clocks: Vec<Option<ThreadClock>>,
}

impl ThreadTimes {
    /// Adds a running thread, from now on.
    pub fn add(&mut self, tid: u32) {
        self.clocks.push(ThreadClock::start(tid).ok());
    }

    fn total(&self) -> Option<Duration> {
        self.clocks.iter().map(|clock| clock.as_ref()?.read().ok()).sum()
    }
}

fn cgroup_usage(directory: &std::path::Path) -> Option<Duration> {
    let text = fs::read_to_string(directory.join("cpu.stat")).ok()?;
    let micros = text.lines().find_map(|line| line.strip_prefix("usage_usec "))?;
    Some(Duration::from_micros(micros.trim().parse().ok()?))
}

fn busy(cpus: &[u32]) -> Option<Duration> {
    let text = fs::read_to_string("/proc/stat").ok()?;
    let jiffies: u64 = text.lines().filter_map(|line| busy_jiffies(line, cpus)).sum();
    Some(Duration::from_millis(jiffies * 1000 / USER_HZ))
}

/// Time of a `cpuN` line that is neither idle nor taken by the host: user, nice, system, irq, softirq.
fn busy_jiffies(line: &str, cpus: &[u32]) -> Option<u64> {
    let mut fields = line.split_ascii_whitespace();
    let cpu: u32 = fields.next()?.strip_prefix("cpu")?.parse().ok()?;
    if !cpus.contains(&cpu) {
        return None;
    }
    let times: Vec<u64> = fields.map_while(|field| field.parse().ok()).collect();
    Some([0, 1, 2, 5, 6].iter().filter_map(|index| times.get(*index)).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_and_stolen_time_is_not_busy() {
        let line = "cpu1 10 20 30 1000 500 3 4 700 0 0";
        assert_eq!(busy_jiffies(line, &[1]), Some(67));
        assert_eq!(busy_jiffies(line, &[0]), None);
        assert_eq!(busy_jiffies("cpu 1 2 3 4 5 6 7", &[0]), None);
        assert_eq!(busy_jiffies("intr 1 2 3", &[0]), None);
    }

    #[test]
    fn a_process_that_ended_counts_with_its_final_time() {
        let event = |kind: EventKind, cpu_ns| Event {
            time_ns: 0,
            image: 0,
            other_image: 0,
            cpu_ns,
            kind: kind as u32,
            tgid: 1 << 30,
            flags: 0,
            pid: 1 << 30,
            comm: [0; 16],
        };
        let mut times = ProcessTimes::default();
        times.note(&event(EventKind::Fork, 0));
        times.note(&event(EventKind::Free, 5_000_000));
        assert_eq!(times.total(), Duration::from_millis(5));
        assert!(!times.awaits_reports());
    }
}
