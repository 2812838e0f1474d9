//! Every check that needs neither root nor a particular kernel.

use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, Result};

use crate::linker::Linker;
use crate::toolchain::Toolchain;
use crate::workspace::Workspace;
use crate::{command, ebpf, setup, tidy};

/// What to do about what is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Say it and fail.
    Report,
    /// Let rustfmt and clippy mend what they can.
    Fix,
}

/// The packages that are built for the machine; profil-ebpf is not.
const HOST: [&str; 3] = ["--workspace", "--exclude", "profil-ebpf"];

/// The packages with tests that need no root.
const UNIT: [&str; 5] = ["--workspace", "--exclude", "profil-ebpf", "--exclude", "profil-tests"];

/// Runs all checks and stops at the first that fails, naming each with its seconds.
pub fn run(workspace: &Workspace, mode: Mode) -> Result<()> {
    setup::run(workspace, setup::Wanted::default(), setup::Talk::Changes)?;
    step("eBPF object", || ebpf::build(workspace, ebpf::HOST_ARCH).map(drop))?;
    sources(workspace, mode)?;
    step("unit and doc tests", || command::run_captured(unit_tests(workspace).arg("--quiet")))
}

/// The checks that run no test. They need the eBPF object, which profil-user embeds.
pub fn sources(workspace: &Workspace, mode: Mode) -> Result<()> {
    step("rustfmt", || command::run_quietly(&mut rustfmt(workspace, mode)))?;
    step("tidy", || tidy::run(workspace))?;
    step("clippy", || command::run_quietly(&mut clippy(workspace, mode)))?;
    step("clippy for eBPF", || command::run_quietly(&mut ebpf_clippy(workspace)?))?;
    step("documentation", || command::run_quietly(&mut documentation(workspace)))
}

/// The command that runs unit, property and doc tests.
pub fn unit_tests(workspace: &Workspace) -> Command {
    let mut cargo = workspace.cargo("test");
    cargo.args(UNIT);
    cargo
}

/// Runs one check and says how long it took.
fn step(name: &str, check: impl FnOnce() -> Result<()>) -> Result<()> {
    let start = Instant::now();
    let result = check();
    let verdict = if result.is_ok() { "ok" } else { "FAILED" };
    eprintln!("check: {name:<20} {:>6.1} s  {verdict}", start.elapsed().as_secs_f64());
    result.with_context(|| format!("{name} failed"))
}

fn rustfmt(workspace: &Workspace, mode: Mode) -> Command {
    let mut cargo = workspace.cargo("fmt");
    cargo.arg("--all");
    match mode {
        Mode::Report => cargo.arg("--check"),
        Mode::Fix => &mut cargo,
    };
    cargo
}

fn clippy(workspace: &Workspace, mode: Mode) -> Command {
    let mut cargo = workspace.cargo("clippy");
    cargo.arg("--quiet").args(HOST).arg("--all-targets");
    if mode == Mode::Fix {
        cargo.args(["--fix", "--allow-dirty", "--allow-staged"]);
    }
    cargo.args(["--", "-D", "warnings"]);
    cargo
}

fn ebpf_clippy(workspace: &Workspace) -> Result<Command> {
    let toolchain = Toolchain::find().context("no toolchain for eBPF")?;
    let linker = Linker::find().context("no bpf-linker")?;
    let mut cargo = ebpf::cargo(workspace, &toolchain, &linker, ebpf::HOST_ARCH, "clippy");
    cargo.args(["--bins", "--target-dir"]).arg(workspace.root().join("target/ebpf-build"));
    cargo.args(["--", "-D", "warnings"]);
    Ok(cargo)
}

fn documentation(workspace: &Workspace) -> Command {
    let mut cargo = workspace.cargo("doc");
    cargo.arg("--quiet").args(HOST).args(["--no-deps", "--document-private-items"]).env("RUSTDOCFLAGS", "-D warnings");
    cargo
}
