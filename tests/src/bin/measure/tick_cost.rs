//! Nanoseconds of a tick in the kernel, over an empty program in the same turns.
//!
//! On one CPU, which the load has nearly to itself: ticks of other processes take another way through the program.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use profil_common::{Convention, Counters, RangeTable, Region, Request, Settings, process_flags, settings_flags};
use profil_user::bins::Bins;
use profil_user::clock::Clock;
use profil_user::lanes::Lanes;
use profil_user::probe::Features;
use profil_user::probe::bpf::{self, Instruction, ProgramKind};
use profil_user::session::{LaneUse, PoolUse, Session, SessionConfig};

use crate::Effort;
use crate::load::{self, Load};
use crate::statistics::{Figure, Limit};
use crate::stats::{Account, Stats};

/// Length of a turn. Turns are short and many, so that what disturbs a few does not move the median.
const TURN: Duration = Duration::from_millis(100);

/// Turns for each turn of the other measurements, which are longer.
const TURNS: usize = 5;

/// A rate of the clock, and whether the limits are meant for it.
#[derive(Clone, Copy)]
struct Pace {
    hz: u64,
    limited: bool,
}

/// At the rate of a recording, other work has the caches in between: that shows what a tick costs in use, while ten
/// times as many show what the program costs.
const PACES: [Pace; 2] = [Pace { hz: 9997, limited: true }, Pace { hz: 997, limited: false }];

impl Pace {
    fn period_ns(self) -> u64 {
        1_000_000_000 / self.hz
    }
}

/// A program under test.
struct Subject {
    what: &'static str,
    limit: Option<f64>,
    program: OwnedFd,
    /// Keeps the maps and hooks; none for the empty program.
    session: Option<Session>,
    _counted_in: Option<CountedIn>,
    readings: Vec<f64>,
}

/// What the ticks of a target are counted in, kept for the length of the measurement.
enum CountedIn {
    Bins { _bins: Bins },
    Lanes { _lanes: Lanes },
}

/// Measures an empty program, and ticks of processes that are not wanted, dense, in lanes, and sparse.
pub fn measure(effort: Effort) -> Result<Vec<Figure>> {
    let _stats = Stats::enable()?;
    let load = Load::start("burn")?;
    let mut figures = Vec::new();
    for pace in PACES {
        figures.extend(at_pace(pace, &load, effort)?);
    }
    Ok(figures)
}

fn at_pace(pace: Pace, load: &Load, effort: Effort) -> Result<Vec<Figure>> {
    let mut empty = empty()?;
    let mut unprofiled = unprofiled(pace)?;
    let mut wanted = [
        dense(pace, load.pid())?,
        dense_in_pool(pace, load.pid())?,
        dense_in_slot(pace, load.pid())?,
        zero_copy(pace, load.pid())?,
        sparse(pace, load.pid())?,
    ];
    for _ in 0..effort.turns * TURNS {
        let nothing = turn(&empty, pace)?.mean_ns();
        let passed_over = turn(&unprofiled, pace)?.mean_ns();
        empty.readings.push(nothing);
        unprofiled.readings.push(passed_over - nothing);
        for subject in &mut wanted {
            let turn = turn(subject, pace)?;
            ensure!(turn.counters.ticks > 0, "no tick on the load in a turn of {}", subject.what);
            // The few ticks of other processes cost what those of the session without a target do.
            let own_ns = turn.time_ns - turn.counters.elsewhere as f64 * passed_over;
            subject.readings.push(own_ns / turn.counters.ticks as f64 - nothing);
        }
    }
    let figure = |subject: Subject, over: &str, limit| Figure {
        what: format!("tick at {} Hz: {}{over}", pace.hz, subject.what),
        unit: "ns",
        readings: subject.readings,
        limit,
    };
    let mut figures = vec![figure(empty, "", None)];
    figures.extend([unprofiled].into_iter().chain(wanted).map(|subject| {
        let limit = subject.limit.filter(|_| pace.limited).map(Limit::AtMost);
        figure(subject, ", over empty", limit)
    }));
    Ok(figures)
}

/// What one turn came to.
struct Turn {
    time_ns: f64,
    runs: u64,
    counters: Counters,
}

impl Turn {
    fn mean_ns(&self) -> f64 {
        self.time_ns / self.runs as f64
    }
}

/// Runs a program on the clock of the load's CPU for a turn.
fn turn(subject: &Subject, pace: Pace) -> Result<Turn> {
    let counters = || subject.session.as_ref().map(Session::counters).unwrap_or_default();
    let cpu = load::cpu()?;
    let clock = Clock::on_cpus(subject.program.as_fd(), &[cpu], pace.period_ns())?;
    let (before, counted) = (Account::of(subject.program.as_fd())?, counters());
    clock.start()?;
    std::thread::sleep(TURN);
    clock.stop()?;
    let after = Account::of(subject.program.as_fd())?;
    let runs = after.runs - before.runs;
    ensure!(runs > 0, "the clock of CPU {cpu} did not run {}", subject.what);
    Ok(Turn { time_ns: (after.time_ns - before.time_ns) as f64, runs, counters: counters().since(&counted) })
}

fn empty() -> Result<Subject> {
    let program = [Instruction::set(0, 0), Instruction::exit()];
    let program = bpf::load_program(ProgramKind::PerfEvent, &program, 0).map_err(|failure| failure.error)?;
    Ok(Subject { what: "empty program", limit: None, program, session: None, _counted_in: None, readings: Vec::new() })
}

fn unprofiled(pace: Pace) -> Result<Subject> {
    subject("process not profiled", 25.0, pace, |config| config, settings_flags::STRAYS, |_| Ok(None))
}

/// As `attach` has it: one process.
fn dense(pace: Pace, pid: u32) -> Result<Subject> {
    let region = everywhere()?;
    let single = |config| SessionConfig { single: Some(region), ..config };
    subject("dense bin, one process", 45.0, pace, single, 0, |session| {
        let bins = session.take_single_bins()?;
        session.make_known(pid, process_flags::SELECTED | process_flags::DENSE, 0)?;
        Ok(Some(CountedIn::Bins { _bins: bins }))
    })
}

/// As `run` and the daemon have it: any number of processes.
fn dense_in_pool(pace: Pace, pid: u32) -> Result<Subject> {
    let pool = |config| SessionConfig { pool: PoolUse::Wanted, ..config };
    subject("dense bin, any process", 45.0, pace, pool, 0, |session| {
        let region = everywhere()?;
        let bins = session.take_pool()?.take(region.nbins).context("room in the pool")?;
        count_in(session, pid, &RangeTable::single(region), bins)
    })
}

/// The same, for who finds no room in the pool.
fn dense_in_slot(pace: Pace, pid: u32) -> Result<Subject> {
    subject(
        "dense bin, any process, own array",
        None,
        pace,
        |config| config,
        0,
        |session| {
            let region = everywhere()?;
            count_in(session, pid, &RangeTable::single(region), Bins::new(region.nbins)?)
        },
    )
}

fn count_in(session: &mut Session, pid: u32, ranges: &RangeTable, bins: Bins) -> Result<Option<CountedIn>> {
    session.set_bins(0, ranges, &bins)?;
    session.make_known(pid, process_flags::SELECTED | process_flags::DENSE, 0)?;
    Ok(Some(CountedIn::Bins { _bins: bins }))
}

fn zero_copy(pace: Pace, pid: u32) -> Result<Subject> {
    subject(
        "dense bin, zero copy",
        50.0,
        pace,
        |config| SessionConfig { lanes: LaneUse::Wanted, ..config },
        0,
        |session| {
            let region = everywhere()?;
            let lanes = Lanes::new(region.nbins)?;
            session.set_ranges(0, &RangeTable::single(region))?;
            session.set_lanes(0, &lanes)?;
            let flags = process_flags::SELECTED | process_flags::DENSE | process_flags::LANES;
            session.make_known(pid, flags, 0)?;
            Ok(Some(CountedIn::Lanes { _lanes: lanes }))
        },
    )
}

/// The whole of the lower half of the address space: every pc is in a bin.
fn everywhere() -> Result<Region> {
    let request = Request { offset: 0, scale: 1, bufsiz: 64 << 10, width: 2 };
    Ok(Region { pre_shift: 30, ..Region::new(Convention::Glibc, request)?.context("a region")? })
}

fn sparse(pace: Pace, pid: u32) -> Result<Subject> {
    subject(
        "sparse row",
        60.0,
        pace,
        |config| config,
        settings_flags::STRAYS,
        |session| {
            session.make_known(pid, process_flags::SELECTED, 0)?;
            Ok(None)
        },
    )
}

fn subject(
    what: &'static str,
    limit: impl Into<Option<f64>>,
    pace: Pace,
    config: impl FnOnce(SessionConfig) -> SessionConfig,
    mut flags: u32,
    prepare: impl FnOnce(&mut Session) -> Result<Option<CountedIn>>,
) -> Result<Subject> {
    if Features::of_this_kernel().has_task_pt_regs {
        flags |= settings_flags::HAS_TASK_PT_REGS;
    }
    let settings = Settings { period_ns: pace.period_ns(), clock_ns: pace.period_ns(), flags, ..Settings::NONE };
    let mut session = Session::load(&config(SessionConfig::new(settings)))?;
    let counted_in = prepare(&mut session)?;
    let program = session.program()?.try_clone_to_owned()?;
    let limit = limit.into();
    Ok(Subject { what, limit, program, session: Some(session), _counted_in: counted_in, readings: Vec::new() })
}
