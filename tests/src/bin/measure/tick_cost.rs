//! Nanoseconds of a tick in the kernel, over an empty program in the same turns.

use std::fs;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use anyhow::{Context, Result};
use profil_common::{Convention, RangeTable, Region, Request, Settings, process_flags, settings_flags};
use profil_user::bins::Bins;
use profil_user::clock::Clock;
use profil_user::probe::bpf::{self, Instruction, ProgramKind};
use profil_user::session::{Session, SessionConfig};

use crate::Effort;
use crate::load::{self, Load};
use crate::statistics::Figure;

/// Period of the clock, ns: 9,997 Hz.
const PERIOD_NS: u64 = 100_030;

/// Makes the kernel count the time of programs, and puts the setting back.
struct Stats(String);

const STATS: &str = "/proc/sys/kernel/bpf_stats_enabled";

impl Stats {
    fn enable() -> Result<Stats> {
        let before = fs::read_to_string(STATS)?;
        fs::write(STATS, "1").context("cannot enable kernel.bpf_stats_enabled")?;
        Ok(Stats(before))
    }
}

impl Drop for Stats {
    fn drop(&mut self) {
        // Nothing is left to do when it cannot be put back.
        let _ = fs::write(STATS, self.0.trim());
    }
}

/// A program under test with its clock.
struct Subject {
    what: &'static str,
    limit: Option<f64>,
    program: OwnedFd,
    /// Keeps the maps and hooks.
    _session: Option<Session>,
    _bins: Option<Bins>,
    readings: Vec<f64>,
}

/// Measures an empty program, and ticks of processes that are not wanted, dense, and sparse.
pub fn measure(effort: Effort) -> Result<Vec<Figure>> {
    let _stats = Stats::enable()?;
    let load = Load::start("burn")?;
    let mut subjects = [empty()?, unprofiled()?, dense(load.pid())?, sparse(load.pid())?];
    for _ in 0..effort.turns {
        for subject in &mut subjects {
            let reading = turn(subject.program.as_fd(), effort)?;
            subject.readings.push(reading);
        }
    }
    let [empty, rest @ ..] = subjects;
    let mut figures = vec![figure(empty.what, empty.readings.clone(), None)];
    for subject in rest {
        let over = subject.readings.iter().zip(&empty.readings).map(|(reading, empty)| reading - empty).collect();
        figures.push(figure(subject.what, over, subject.limit));
    }
    Ok(figures)
}

fn figure(what: &str, readings: Vec<f64>, limit: Option<f64>) -> Figure {
    Figure { what: what.to_owned(), unit: "ns", readings, limit }
}

/// Runs a program on the clock of the load's CPU for a turn; nanoseconds for each run of it.
fn turn(program: BorrowedFd<'_>, effort: Effort) -> Result<f64> {
    let clock = Clock::on_cpus(program, &[load::cpu()?], PERIOD_NS)?;
    let before = Counts::of(program)?;
    clock.start()?;
    std::thread::sleep(Duration::from_millis(effort.turn_ms));
    clock.stop()?;
    let after = Counts::of(program)?;
    Ok((after.time_ns - before.time_ns) as f64 / (after.runs - before.runs).max(1) as f64)
}

/// What the kernel counted of a program.
struct Counts {
    time_ns: u64,
    runs: u64,
}

impl Counts {
    fn of(program: BorrowedFd<'_>) -> Result<Counts> {
        let text = fs::read_to_string(format!("/proc/self/fdinfo/{}", program.as_raw_fd()))?;
        let field = |name: &str| -> Result<u64> {
            let value = text.lines().find_map(|line| line.strip_prefix(name));
            Ok(value.with_context(|| format!("no {name} in the kernel's account"))?.trim().parse()?)
        };
        Ok(Counts { time_ns: field("run_time_ns:")?, runs: field("run_cnt:")? })
    }
}

fn empty() -> Result<Subject> {
    let program = [Instruction::set(0, 0), Instruction::exit()];
    let program = bpf::load_program(ProgramKind::PerfEvent, &program, 0).map_err(|failure| failure.error)?;
    Ok(Subject { what: "tick: empty program", limit: None, program, _session: None, _bins: None, readings: Vec::new() })
}

fn unprofiled() -> Result<Subject> {
    subject("tick: process not profiled, over empty", 25.0, 0, |_| Ok(None))
}

fn dense(pid: u32) -> Result<Subject> {
    subject("tick: dense bin, over empty", 45.0, 0, |session| {
        // The whole of the lower half of the address space in bins of 2^31 bytes: every pc is in one.
        let request = Request { offset: 0, scale: 1, bufsiz: 8 << 20, width: 2 };
        let region = Region { pre_shift: 30, ..Region::new(Convention::Glibc, request)?.context("a region")? };
        let bins = Bins::new(region.nbins)?;
        session.set_bins(0, &RangeTable::single(region), &bins)?;
        session.make_known(pid, process_flags::SELECTED | process_flags::DENSE, 0)?;
        Ok(Some(bins))
    })
}

fn sparse(pid: u32) -> Result<Subject> {
    subject("tick: sparse row, over empty", 60.0, settings_flags::STRAYS, |session| {
        session.make_known(pid, process_flags::SELECTED, 0)?;
        Ok(None)
    })
}

fn subject(
    what: &'static str,
    limit: f64,
    flags: u32,
    prepare: impl FnOnce(&mut Session) -> Result<Option<Bins>>,
) -> Result<Subject> {
    let settings = Settings { period_ns: PERIOD_NS, clock_ns: PERIOD_NS, flags, ..Settings::NONE };
    let mut session = Session::load(&SessionConfig::new(settings))?;
    let bins = prepare(&mut session)?;
    let program = session.program()?.try_clone_to_owned()?;
    Ok(Subject { what, limit: Some(limit), program, _session: Some(session), _bins: bins, readings: Vec::new() })
}
