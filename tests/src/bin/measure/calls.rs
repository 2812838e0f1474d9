//! How long calls of profil(3) take, and what carries the counts into a buffer.

use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use profil_user::address_space::{AddressSpace, Purpose};
use profil_user::bins::Run;
use profil_user::sink::target::{TargetBuffer, Width};

use crate::Effort;
use crate::load;
use crate::statistics::Figure;

/// Calls to turn on and off in one run of the caller.
const CALLS: usize = 100;

/// Counters of a buffer of 64 KiB.
const COUNTERS: usize = 32 * 1024;

unsafe extern "C" {
    fn profil(buffer: *mut u16, bytes: usize, offset: usize, scale: u32) -> libc::c_int;
}

/// Measures it all.
pub fn measure(profil: &str, effort: Effort) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    let mut by_service = Command::new(profil);
    by_service.args(["run", "-q", "--"]);
    for (whose, runner) in [("the kernel", Some(by_service)), ("libc", None)] {
        let [on, off] = latencies(runner)?;
        for (what, readings) in [("on", on), ("off", off)] {
            figures.push(Figure {
                what: format!("profil(3) {what}, counted by {whose}"),
                unit: "us",
                readings,
                limit: None,
            });
        }
    }
    figures.push(copy_back(effort)?);
    Ok(figures)
}

/// Microseconds of calls that turn profiling on, and off.
fn latencies(runner: Option<Command>) -> Result<[Vec<f64>; 2]> {
    let caller = load::command("calls")?;
    let output = match runner {
        Some(mut runner) => runner.arg(caller.get_program()).args(caller.get_args()).output(),
        None => { caller }.output(),
    };
    let output = output.context("cannot run the caller")?;
    ensure!(output.status.success(), "the caller ended with {}", output.status);
    let mut readings = [Vec::new(), Vec::new()];
    for line in String::from_utf8(output.stdout)?.lines() {
        let (on, off) = line.split_once(' ').context("two numbers a line")?;
        readings[0].push(on.parse()?);
        readings[1].push(off.parse()?);
    }
    Ok(readings)
}

/// Is the caller: prints the microseconds of each pair of calls.
pub fn call() -> Result<()> {
    let mut buffer = vec![0u16; COUNTERS];
    let timed = |start: *mut u16, bytes, scale| {
        let begin = Instant::now();
        // SAFETY: the buffer has `bytes` bytes and outlives the profiling, which the second call of each pair ends.
        let result = unsafe { profil(start, bytes, 0x1000, scale) };
        ensure!(result == 0, "profil(3) returned {result}");
        Ok(begin.elapsed().as_secs_f64() * 1e6)
    };
    for _ in 0..CALLS {
        let on = timed(buffer.as_mut_ptr(), COUNTERS * 2, 2)?;
        let off = timed(std::ptr::null_mut(), 0, 0)?;
        println!("{on} {off}");
    }
    Ok(())
}

/// Microseconds to add a tick to each of the 32 Ki counters of 64 KiB.
fn copy_back(effort: Effort) -> Result<Figure> {
    let mut counters = vec![0u16; COUNTERS];
    let space = AddressSpace::open(std::process::id(), Purpose::Write)?;
    let buffer = TargetBuffer::new(space, counters.as_mut_ptr() as u64, COUNTERS as u32, Width::Two)?;
    let runs = [Run { first: 0, added: vec![1; COUNTERS] }];
    let mut readings = Vec::new();
    for _ in 0..effort.turns * 20 {
        let begin = Instant::now();
        let (written, loss) = buffer.add(&runs);
        readings.push(begin.elapsed().as_secs_f64() * 1e6);
        ensure!(loss.is_none() && written == COUNTERS as u64, "{written} written, {loss:?}");
    }
    Ok(Figure { what: "copy-back of 64 KiB, every bin".to_owned(), unit: "us", readings, limit: None })
}
