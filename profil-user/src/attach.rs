//! profil(2) for another process: a region of its text, counted into bins, added to its own buffer.

use std::time::{Duration, Instant};

use profil_common::limits::MAX_BINS;
use profil_common::{
    Convention, ConventionError, Counters, EventKind, Outcome, Region, Request, Settings, process_flags as pf,
    settings_flags,
};

use crate::address_space::{AddressSpace, AddressSpaceError};
use crate::bins::{Bins, Run};
use crate::clock::{Clock, ClockError};
use crate::histogram::Histogram;
use crate::process::{TargetError, TargetProcess};
use crate::rate::Rate;
use crate::session::{self, Session, SessionConfig, SessionError};
use crate::sink::target::{BadBuffer, Loss, TargetBuffer, Width};
use crate::tally::Tally;
use crate::target_time::{ProcessTimes, TargetTime};
use crate::window::Window;

/// How often bins are drained into the target's buffer; a bin is at most this late, and the time a flush takes.
pub const FLUSH_PERIOD: Duration = Duration::from_millis(50);

/// The slot of the only process of this session.
const SLOT: u32 = 0;

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub struct AttachConfig {
    /// Manual page that the request is read by.
    pub convention: Convention,
    /// The request.
    pub request: Request,
    /// Address of the buffer (AVMA); `None` keeps the bins on our side only.
    pub buffer: Option<u64>,
    /// How often it ticks.
    pub rate: Rate,
    /// Whether the ticks themselves are recorded, for an oracle to count them again.
    pub recording: Recording,
}

/// Whether the ticks themselves are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recording {
    /// Only counted.
    Off,
    /// Also written to a ring: see [`Attachment::session_mut`].
    On,
}

/// An attachment that cannot be made. Those of the caller's making carry the errno of the convention.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// The request is none by the convention.
    #[error("{errno} ({convention})", errno = source.errno().name(), convention = convention.name())]
    Request {
        /// The convention.
        convention: Convention,
        /// What is wrong.
        #[source]
        source: ConventionError,
    },
    /// The request turns profiling off.
    #[error("scale {scale} turns profiling off in convention {convention}; there is nothing to do", convention = convention.name())]
    Off {
        /// The convention.
        convention: Convention,
        /// The scale.
        scale: u32,
    },
    /// The buffer cannot take bins.
    #[error("{}", verdict_on_buffer(*convention))]
    Buffer {
        /// The convention.
        convention: Convention,
        /// What is wrong.
        #[source]
        source: BadBuffer,
    },
    /// The region has no bins.
    #[error("no effect ({convention}): a buffer of {bufsiz} bytes has no room for a counter of {width} bytes", convention = convention.name())]
    NoBins {
        /// The convention.
        convention: Convention,
        /// Bytes of the buffer.
        bufsiz: u64,
        /// Bytes of a counter.
        width: u32,
    },
    /// The region has more bins than the kernel keeps for a process.
    #[error("{nbins} bins are more than {MAX_BINS}; give a smaller --bufsiz, or a smaller --scale")]
    TooManyBins {
        /// Bins asked for.
        nbins: u32,
    },
    /// The target ran another program while we attached.
    #[error("process {pid} exec'd while profil attached to it; attach again")]
    Exec {
        /// The process.
        pid: u32,
    },
    /// The target ended while we attached.
    #[error("process {pid} exited while profil attached to it")]
    Exited {
        /// The process.
        pid: u32,
    },
    /// The target.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// Its memory.
    #[error(transparent)]
    Memory(#[from] AddressSpaceError),
    /// The eBPF object.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The clock.
    #[error(transparent)]
    Clock(#[from] ClockError),
}

/// Why an attachment is over by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The target has exited.
    Exited,
    /// The target runs another program.
    Exec,
    /// The buffer takes no more bins.
    Lost(Loss),
}

/// What the call with a bad buffer comes to in a convention.
fn verdict_on_buffer(convention: Convention) -> &'static str {
    match convention {
        Convention::Bsd => "EFAULT (bsd), profiling off",
        Convention::Linux => "profiling off (linux: the call returns 0)",
        Convention::Clix => "profiling off (clix: no result is defined)",
        Convention::Glibc => "profiling off (glibc: the call returns 0)",
    }
}

/// What an attachment counted.
#[derive(Clone, Debug)]
pub struct AttachReport {
    /// The region.
    pub region: Region,
    /// Its bins.
    pub histogram: Histogram,
    /// Ticks by outcome.
    pub tally: Tally,
    /// Ticks that were added to the target's buffer; `None` when there is none.
    pub written: Option<u64>,
    /// Why it ended before it was stopped.
    pub end: Option<End>,
    /// How long it went on.
    pub duration: Duration,
}

impl AttachReport {
    /// Ticks in the bins that the target's buffer did not get.
    pub fn unwritten(&self) -> u64 {
        self.written.map_or(0, |written| self.tally.outcome(Outcome::Binned).saturating_sub(written))
    }

    /// Whether the bins hold what the counters say, and every tick has one outcome.
    pub fn adds_up(&self) -> bool {
        self.tally.adds_up() && self.histogram.total() == self.tally.outcome(Outcome::Binned)
    }
}

/// A running attachment.
pub struct Attachment {
    session: Session,
    clock: Clock,
    target: TargetProcess,
    buffer: Option<TargetBuffer>,
    region: Region,
    bins: Bins,
    histogram: Histogram,
    flushed: Counters,
    written: u64,
    end: Option<End>,
    rate: Rate,
    time: TargetTime,
    started: Instant,
}

impl Attachment {
    /// Checks the request and starts to count.
    ///
    /// `space` is the target's address space as it was when the addresses of the request were looked up: should the
    /// target exec after that, they mean nothing in its new one, which then is not written to.
    ///
    /// # Errors
    /// [`AttachError`]; nothing has been touched then.
    pub fn start(target: TargetProcess, space: AddressSpace, config: &AttachConfig) -> Result<Attachment, AttachError> {
        let AttachConfig { convention, request, buffer, rate, recording } = *config;
        let region = Region::new(convention, request)
            .map_err(|source| AttachError::Request { convention, source })?
            .ok_or(AttachError::Off { convention, scale: request.scale })?;
        if region.nbins == 0 {
            return Err(AttachError::NoBins { convention, bufsiz: request.bufsiz, width: request.width });
        }
        if region.nbins > MAX_BINS {
            return Err(AttachError::TooManyBins { nbins: region.nbins });
        }
        let witness = space.try_clone()?;
        let width = if request.width == 4 { Width::Four } else { Width::Two };
        let buffer = buffer
            .map(|start| TargetBuffer::new(space, start, region.nbins, width))
            .transpose()
            .map_err(|source| AttachError::Buffer { convention, source })?;

        let config = SessionConfig::new(settings(rate, recording));
        let mut session = Session::load(&SessionConfig { single: Some(region), ..config })?;
        let bins = session.take_single_bins()?;
        let cpus = session::online_cpus()?;
        let clock = Clock::on_cpus(session.program()?, &cpus, rate.clock_ns)?;
        session.make_known(target.initial_tgid(), pf::SELECTED | pf::DENSE, SLOT)?;
        // An exec before this line is seen here, a later one by the hook.
        if witness.is_gone() {
            let pid = target.pid();
            return Err(if target.is_same() { AttachError::Exec { pid } } else { AttachError::Exited { pid } });
        }
        let mut processes = ProcessTimes::default();
        processes.add(target.initial_tgid(), target.pid());
        clock.start()?;
        Ok(Attachment {
            session,
            clock,
            target,
            buffer,
            region,
            bins,
            histogram: Histogram::new(region.nbins),
            flushed: Counters::default(),
            written: 0,
            end: None,
            rate,
            time: TargetTime::Processes(processes),
            started: Instant::now(),
        })
    }

    /// Drains the bins and adds them to the target's buffer. To be called every [`FLUSH_PERIOD`].
    ///
    /// Returns what was drained; `end` is set when there is nothing more to come.
    pub fn flush(&mut self) -> Window {
        let runs = self.bins.drain();
        self.flush_runs(runs)
    }

    fn flush_runs(&mut self, runs: Vec<Run>) -> Window {
        self.histogram.add(&runs);
        let mut end = None;
        if let (Some(buffer), false) = (&self.buffer, matches!(self.end, Some(End::Lost(_)))) {
            let (written, loss) = buffer.add(&runs);
            self.written += written;
            end = loss.map(End::Lost);
        }
        let Attachment { session, time, .. } = self;
        let mut exec = None;
        session.drain_events(|event| {
            time.note(event);
            match event.kind() {
                Some(EventKind::Exec) => exec = Some(End::Exec),
                Some(EventKind::Exit) => exec = exec.or(Some(End::Exited)),
                _ => {}
            }
        });
        // What the hook saw says more than a write that found nobody.
        self.end = exec.or(self.end).or(end);
        let counters = self.session.counters();
        let window = Window { runs, counters: counters.since(&self.flushed) };
        self.flushed = counters;
        window
    }

    /// Why nothing more can come, if so.
    pub fn end(&self) -> Option<End> {
        let exited = || (!self.target.is_same()).then_some(End::Exited);
        self.end.or_else(exited)
    }

    /// Ticks so far.
    pub fn counters(&self) -> Counters {
        self.session.counters()
    }

    /// The session, for its recording.
    pub fn session_mut(&mut self) -> &mut Session {
        &mut self.session
    }

    /// Stops the ticks, waits for those under way, and flushes. When it returns, every tick is in the buffer and
    /// nothing will be written to it any more.
    ///
    /// # Errors
    /// [`AttachError::Clock`].
    pub fn stop(mut self) -> Result<AttachReport, AttachError> {
        self.clock.stop()?;
        self.time.stop();
        let runs = self.bins.drain_all();
        self.flush_runs(runs);
        let end = self.end();
        let cpu_time = self.time.total();
        let hz = self.rate.hz();
        let tally = Tally::new(&self.session.counters(), hz, cpu_time.map(|time| time.as_secs_f64()));
        let Attachment { region, histogram, buffer, written, started, .. } = self;
        let written = buffer.map(|_| written);
        Ok(AttachReport { region, histogram, tally, written, end, duration: started.elapsed() })
    }
}

fn settings(rate: Rate, recording: Recording) -> Settings {
    let flags = match recording {
        Recording::Off => 0,
        Recording::On => settings_flags::RECORDING,
    };
    Settings { period_ns: rate.period_ns, clock_ns: rate.clock_ns, flags, ..Settings::NONE }
}
