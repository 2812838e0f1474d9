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

use anyhow::{Context, Result, bail};

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
        [profil] => measure(profil, FULL, None),
        ["--quick", profil] => measure(profil, QUICK, None),
        ["--only", part, profil] => measure(profil, FULL, Some(part)),
        ["--quick", "--only", part, profil] => measure(profil, QUICK, Some(part)),
        _ => Err(anyhow::anyhow!("usage: measure [--quick] [--only PART] PROFIL")),
    };
    match measured {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("measure: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// A measurement of something, in so many turns, of the `profil` at a path.
type Part = fn(&str, Effort) -> Result<Vec<statistics::Figure>>;

/// What is measured, by the name that `--only` has for it, in the order of the table.
const PARTS: [(&str, &str, Part); 4] = [
    ("tick", "the cost of a tick", |_, effort| tick_cost::measure(effort)),
    ("target", "the cost to a target", target_cost::measure),
    ("calls", "calls of profil(3)", calls::measure),
    ("footprint", "what profil takes", footprint::measure),
];

fn measure(profil: &str, effort: Effort, only: Option<&str>) -> Result<()> {
    let wanted: Vec<_> = PARTS.iter().filter(|(name, ..)| only.is_none_or(|only| only == *name)).collect();
    if wanted.is_empty() {
        let names = PARTS.map(|(name, ..)| name).join(", ");
        bail!("cannot measure {}: there is no such part; name one of {names}", only.unwrap_or_default());
    }
    println!("| what | median | spread | limit | |\n|---|---|---|---|---|");
    for (_, what, part) in wanted {
        print(&part(profil, effort).with_context(|| format!("cannot measure {what}"))?);
    }
    Ok(())
}

fn print(figures: &[statistics::Figure]) {
    for figure in figures {
        println!("{figure}");
    }
}
