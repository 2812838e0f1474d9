//! Sets up, builds, checks and tests profil.
//!
//! Run as `cargo xtask VERB`, from anywhere in the workspace. Everything is built as the user who calls; root is
//! asked for (by sudo) only to install Debian packages, to install the binary, and to run what loads an eBPF program.
//!
//! Data on stdout, talk on stderr, as in `profil` itself: `cargo xtask run -- --json ... | jq` works.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line tool prints")]

mod arguments;
mod bench;
mod check;
mod command;
mod ebpf;
mod fuzz;
mod install;
mod instructions;
mod linker;
mod packages;
mod root;
mod setup;
mod stamp;
mod suite;
mod tally;
mod tidy;
mod toolchain;
mod workspace;

use std::process::ExitCode;

use anyhow::Result;

use crate::arguments::{Args, HELP, Verb};
use crate::workspace::Workspace;

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<ExitCode> {
    let Args { verb } = match Args::parse(std::env::args_os().skip(1)) {
        Ok(args) => args,
        Err(error) => {
            eprintln!("xtask: {error:#}\n\n{HELP}");
            return Ok(ExitCode::from(2));
        }
    };
    let workspace = Workspace::find()?;
    match verb {
        Verb::Help => print!("{HELP}"),
        Verb::Setup(wanted) => setup::run(&workspace, wanted, setup::Talk::All)?,
        Verb::Ebpf { arch } => ebpf::build(&workspace, &arch)?.print()?,
        Verb::Check(mode) => check::run(&workspace, mode)?,
        Verb::Tidy => tidy::run(&workspace)?,
        Verb::Test { part, filter } => suite::run(&workspace, part, filter.as_deref())?,
        Verb::Bench(plan) => bench::run(&workspace, &plan)?,
        Verb::Fuzz(plan) => fuzz::run(&workspace, &plan)?,
        Verb::Run { args } => match install::exec(&workspace, &args)? {},
        Verb::Install { prefix } => install::install(&workspace, &prefix)?,
    }
    Ok(ExitCode::SUCCESS)
}
