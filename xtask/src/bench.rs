//! The benchmark: measures, prints one table, and writes it to docs/benchmarks.md with the machine that it is of.

use std::fs;

use anyhow::{Context as _, Result, bail};

use crate::setup::{self, Talk, Wanted};
use crate::workspace::Workspace;
use crate::{command, ebpf, install, root};

/// How much is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// A minute: to see whether something broke. Nothing is written.
    Quick,
    /// Some minutes.
    Full,
}

/// What is measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// How much.
    pub effort: Effort,
    /// The only part of the table that is measured; nothing is written then.
    pub only: Option<String>,
}

/// Runs the benchmark.
///
/// # Errors
///
/// If it cannot be built or run, or the page cannot be written.
pub fn run(workspace: &Workspace, plan: &Plan) -> Result<()> {
    setup::run(workspace, Wanted { tests: false, hook: false }, Talk::Changes)?;
    ebpf::build(workspace, ebpf::HOST_ARCH)?;
    install::build(workspace)?;
    command::run(workspace.cargo("build").args(["--release", "--package", "profil-tests", "--bin", "measure"]))?;
    let mut measure = root::command(workspace.profil().with_file_name("measure"), "load eBPF programs")?;
    let Plan { effort, only } = plan;
    if *effort == Effort::Quick {
        measure.arg("--quick");
    }
    if let Some(part) = only {
        measure.args(["--only", part]);
    }
    measure.arg(workspace.profil());
    eprintln!("$ {}", command::shown(&measure));
    let output = measure.stderr(std::process::Stdio::inherit()).output().context("cannot run the benchmark")?;
    let table = String::from_utf8(output.stdout).context("the benchmark printed no text")?;
    print!("{table}");
    if !output.status.success() {
        bail!("the benchmark failed: {}", output.status);
    }
    if *effort == Effort::Full && only.is_none() {
        let page = workspace.root().join("docs/benchmarks.md");
        fs::create_dir_all(page.with_file_name("")).context("cannot make docs")?;
        fs::write(&page, text(&table)).with_context(|| format!("cannot write {}", page.display()))?;
    }
    Ok(())
}

fn text(table: &str) -> String {
    format!(
        "# Benchmarks\n\nWritten by `cargo xtask bench`. All is measured in turns, in one run, so that other work on the machine \
         falls on everything alike. A row is the median of its readings and the range in which eight of ten lie; what is \
         \"over\" something is the difference in the same turn. Ticks are timed by the kernel (`BPF_ENABLE_STATS`), whose own \
         clock is part of the empty program's time, on one CPU that the target has nearly to itself. At 997 Hz other work \
         has had the caches between two ticks, so the limits are for 9,997 Hz.\n\n{}\n{table}",
        machine()
    )
}

/// The machine, in a line of its own for each thing that matters.
fn machine() -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let cpus = read("/proc/cpuinfo");
    let field = |name: &str| {
        let line = cpus.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line.split_once(':')).map(|(_, value)| value.trim().to_owned()).unwrap_or_default()
    };
    let count = cpus.lines().filter(|line| line.starts_with("processor")).count();
    let kernel = read("/proc/sys/kernel/osrelease");
    let load = read("/proc/loadavg");
    let guest = if field("flags").split(' ').any(|flag| flag == "hypervisor") {
        "a virtual machine"
    } else {
        "no virtual machine"
    };
    format!(
        "- Linux {}, {count} CPUs, {guest}\n- {}\n- load average at the end: {}\n",
        kernel.trim(),
        field("model name"),
        load.split(' ').take(3).collect::<Vec<_>>().join(" ")
    )
}
