//! Feeds mutated input to the parsers of what others wrote: `fuzz TARGET [--runs N] [--seed N]`.
//!
//! Runs on stable Rust. The same seed makes the same inputs; one that makes a parser panic, or break what it promises, is
//! printed as a string literal of bytes. Ends with one line: runs, how many inputs were taken, and the slowest run.
#![expect(clippy::print_stdout, reason = "a command line tool prints")]

mod mutation;
mod profiles;
mod targets;

use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use mutation::Mutation;
use targets::{Target, Verdict};

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let targets = || targets::TARGETS.iter().chain(&profiles::TARGETS);
    let names = targets().map(|target| target.name).collect::<Vec<_>>().join(", ");
    let name = arguments.next().with_context(|| format!("a target is wanted: {names}"))?;
    let target = targets().find(|target| target.name == name);
    let target = target.with_context(|| format!("no target {name}: there are {names}"))?;
    let (mut runs, mut seed) = (1_000_000u64, 1u64);
    while let Some(option) = arguments.next() {
        let value = arguments.next().and_then(|value| value.parse().ok());
        let value = value.with_context(|| format!("{option} takes a number"))?;
        match option.as_str() {
            "--runs" => runs = value,
            "--seed" => seed = value,
            other => bail!("no option {other}"),
        }
    }
    fuzz(target, runs, seed)
}

fn fuzz(target: &Target, runs: u64, seed: u64) -> Result<()> {
    let seeds = (target.seeds)();
    let mut mutation = Mutation::new(seed, &seeds);
    let (mut taken, mut slowest) = (0u64, Duration::ZERO);
    let since = Instant::now();
    for run in 0..runs {
        let input = mutation.next();
        let begun = Instant::now();
        match std::panic::catch_unwind(AssertUnwindSafe(|| (target.run)(&input))) {
            Ok(Verdict::Taken) => taken += 1,
            Ok(Verdict::Refused) => {}
            Err(_) => bail!("{} fails in run {run} of seed {seed}: b\"{}\"", target.name, input.escape_ascii()),
        }
        slowest = slowest.max(begun.elapsed());
    }
    println!(
        "{}: {runs} runs from seed {seed}, {taken} inputs taken, slowest run {:.1} ms, {:.1} s in all",
        target.name,
        slowest.as_secs_f64() * 1e3,
        since.elapsed().as_secs_f64()
    );
    Ok(())
}
