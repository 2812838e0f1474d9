//! Measures what a tick costs and what profil takes: the rows of `cargo xtask bench`.
//!
//! Needs root. Everything is measured in turns, in one run, and shown as a median with its spread: other work on the
//! machine then falls on all alike.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line tool prints")]

mod calls;
mod footprint;
mod load;
mod statistics;
mod stats;
mod target_cost;
mod tick_cost;

use std::process::ExitCode;

use anyhow::{Context, Result};

/// How long and how often is measured.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Turns of each measurement.
    pub turns: usize,
    /// Length of the long recordings, s.
    pub long_s: u64,
}

const FULL: Effort = Effort { turns: 15, long_s: 60 };
const QUICK: Effort = Effort { turns: 5, long_s: 5 };

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let measured = match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        // A load is this program again, in a process of its own.
        ["load", "calls"] => calls::call(),
        ["load", kind] => load::run(kind),
        [profil] => measure(profil, FULL),
        ["--quick", profil] => measure(profil, QUICK),
        _ => Err(anyhow::anyhow!("usage: measure [--quick] PROFIL")),
    };
    match measured {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("measure: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn measure(profil: &str, effort: Effort) -> Result<()> {
    println!("| what | median | spread | limit | |\n|---|---|---|---|---|");
    print(&tick_cost::measure(effort).context("cannot measure the cost of a tick")?);
    print(&target_cost::measure(profil, effort).context("cannot measure the cost to a target")?);
    print(&calls::measure(profil, effort).context("cannot measure calls of profil(3)")?);
    print(&footprint::measure(profil, effort).context("cannot measure what profil takes")?);
    Ok(())
}

fn print(figures: &[statistics::Figure]) {
    for figure in figures {
        println!("{figure}");
    }
}
