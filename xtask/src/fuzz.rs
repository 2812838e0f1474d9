//! Mutated input for the parsers of what others wrote.

use anyhow::Result;

use crate::setup::{self, Talk, Wanted};
use crate::workspace::Workspace;
use crate::{command, ebpf};

/// All targets, as the fuzzer of the suite names them.
const TARGETS: [&str; 8] = ["wire", "maps", "perf-map", "names", "pprof", "gmon", "perf-script", "folded"];

/// What is to be fuzzed, and how long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The target; all when there is none.
    pub target: Option<String>,
    /// Inputs for each target.
    pub runs: u64,
    /// Where the inputs begin: the same number makes the same ones.
    pub seed: u64,
}

impl Default for Plan {
    fn default() -> Self {
        Self { target: None, runs: 1_000_000, seed: 1 }
    }
}

/// Fuzzes; needs no root.
///
/// # Errors
///
/// If it cannot be built, if there is no such target, or if an input made one fail.
pub fn run(workspace: &Workspace, plan: &Plan) -> Result<()> {
    setup::run(workspace, Wanted { tests: false, hook: false }, Talk::Changes)?;
    ebpf::build(workspace, ebpf::HOST_ARCH)?;
    let targets = plan.target.as_deref().map_or(TARGETS.to_vec(), |target| vec![target]);
    for target in targets {
        let mut fuzz = workspace.cargo("run");
        fuzz.args(["--quiet", "--release", "--package", "profil-tests", "--bin", "fuzz", "--", target]);
        fuzz.args(["--runs", &plan.runs.to_string(), "--seed", &plan.seed.to_string()]);
        command::run(&mut fuzz)?;
    }
    Ok(())
}
