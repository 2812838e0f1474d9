//! Which targets the arguments name.

use std::collections::BTreeSet;

use crate::cli::failure::usage;
use crate::cli::values::{self, Cpus};
use crate::process::{TargetError, TargetProcess};
use crate::record::{Cgroup, Filters, Selection};
use crate::session;

/// Arguments that name targets.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Targets (exactly one)")]
pub struct TargetArgs {
    /// Processes, all their threads and what they create
    #[arg(short, long, value_name = "PID,..", value_delimiter = ',')]
    pub pid: Vec<u32>,
    /// Single threads
    #[arg(short, long, value_name = "TID,..", value_delimiter = ',')]
    pub tid: Vec<u32>,
    /// A control group (v2), by path, or a systemd unit
    #[arg(short = 'G', long, value_name = "CGROUP|UNIT")]
    pub cgroup: Option<String>,
    /// Every process
    #[arg(short, long)]
    pub all: bool,
}

/// Arguments that narrow the targets down.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Filters")]
pub struct FilterArgs {
    /// Only on these CPUs, such as 0-3,8
    #[arg(short = 'C', long, value_name = "CPUS", value_parser = values::cpus)]
    pub cpu: Option<Cpus>,
    /// Only threads with this name
    #[arg(long, value_name = "NAME")]
    pub comm: Option<String>,
    /// Only threads of this user
    #[arg(long, value_name = "USER", value_parser = values::user)]
    pub uid: Option<u32>,
}

impl FilterArgs {
    /// Checks that the CPUs are there to tick.
    ///
    /// # Errors
    /// A usage error with those that are.
    pub fn check(&self) -> anyhow::Result<()> {
        let Some(Cpus(wanted)) = &self.cpu else {
            return Ok(());
        };
        let online = session::online_cpus()?;
        let missing: Vec<u32> = wanted.iter().copied().filter(|cpu| !online.contains(cpu)).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let (missing, online) = (values::cpu_list(&missing), values::cpu_list(&online));
        Err(usage(format!("-C {missing}: not online; the CPUs that are online are {online}")))
    }

    /// The filters of the arguments.
    pub fn filters(&self) -> Filters {
        let FilterArgs { cpu, comm, uid } = self.clone();
        Filters { cpus: cpu.map(|Cpus(cpus)| cpus).unwrap_or_default(), comm, uid }
    }
}

impl TargetArgs {
    /// How many kinds of targets are named.
    fn kinds(&self) -> usize {
        let TargetArgs { pid, tid, cgroup, all } = self;
        [!pid.is_empty(), !tid.is_empty(), cgroup.is_some(), *all].into_iter().filter(|named| *named).count()
    }

    /// Takes every process where no target is named.
    pub fn or_all(&mut self, command: &[std::ffi::OsString]) {
        self.all |= self.kinds() == 0 && command.is_empty();
    }

    /// Checks that exactly one kind of targets is named.
    ///
    /// # Errors
    /// A usage error.
    pub fn check(&self, command: &[std::ffi::OsString]) -> anyhow::Result<()> {
        match self.kinds() + usize::from(!command.is_empty()) {
            1 => Ok(()),
            0 => Err(usage(
                "nothing to record: name processes with -p, threads with -t, a control group with -G, everything with -a, or a command after --",
            )),
            _ => Err(usage("-p, -t, -G, -a and a command after -- exclude one another: name one kind of targets")),
        }
    }

    /// Opens the targets.
    ///
    /// # Errors
    /// One of them is no target, with the reason.
    pub fn open(&self) -> anyhow::Result<Selection> {
        if !self.pid.is_empty() {
            let named: BTreeSet<u32> = self.pid.iter().copied().collect();
            return Ok(Selection::Processes(named.into_iter().map(TargetProcess::open).collect::<Result<_, _>>()?));
        }
        if !self.tid.is_empty() {
            let named: BTreeSet<u32> = self.tid.iter().copied().collect();
            let threads = named.into_iter().map(open_thread).collect::<Result<_, _>>()?;
            return Ok(Selection::Threads(threads));
        }
        match &self.cgroup {
            Some(name) => Ok(Selection::Cgroup(Cgroup::find(name)?)),
            None => Ok(Selection::All),
        }
    }

    /// What the targets are called in the profile.
    pub fn title(&self) -> String {
        let list = |ids: &[u32]| ids.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        let TargetArgs { pid, tid, cgroup, all: _ } = self;
        match cgroup {
            _ if !pid.is_empty() => format!("-p {}", list(pid)),
            _ if !tid.is_empty() => format!("-t {}", list(tid)),
            Some(cgroup) => format!("-G {cgroup}"),
            None => "-a".to_owned(),
        }
    }
}

fn open_thread(tid: u32) -> Result<(u32, TargetProcess), TargetError> {
    match TargetProcess::open(tid) {
        Ok(target) => Ok((tid, target)),
        Err(TargetError::IsThread { tid, tgid }) => Ok((tid, TargetProcess::open(tgid)?)),
        Err(TargetError::NoSuchProcess { .. }) => Err(TargetError::NoSuchThread { tid }),
        Err(error) => Err(error),
    }
}
