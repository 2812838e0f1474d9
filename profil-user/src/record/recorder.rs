//! The recording itself: drains the tables while the targets run, and makes a profile of them.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant, SystemTime};

use profil_common::{Counters, EventKind, Outcome};

use super::assemble::{Assembler, Parts};
use super::jits::Jits;
use super::naming::Naming;
use super::resolve::{Key, Resolved};
use super::selection::{Idle, RecordConfig, Selection, SelectionError};
use crate::clock::{self, Clock, ClockError};
use crate::images::{Images, Tracking};
use crate::objects::Objects;
use crate::process::namespace::{self, NamespaceError};
use crate::profile::{Location, Mapping, MappingKind, Mode, ProcessInfo, Profile, Row};
use crate::session::{self, Session, SessionConfig, SessionError};
use crate::sideband::{self, Sideband, SidebandError};
use crate::symbols::Symbols;
use crate::symbols::symbolizer::Unnamed;
use crate::tally::Tally;
use crate::target_time::{ProcessTimes, TargetTime, ThreadTimes};

/// How long the end of a recording waits for the kernel to free processes that have ended.
const FREE_REPORTS_WAIT: Duration = Duration::from_millis(300);

/// Processes that have ended and whose mappings are kept, before they are forgotten.
const ENDED_MAX: usize = 4096;

/// A recording that cannot begin or go on.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// A filter cannot be applied.
    #[error(transparent)]
    Selection(#[from] SelectionError),
    /// The eBPF object.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The clock.
    #[error(transparent)]
    Clock(#[from] ClockError),
    /// News of mappings.
    #[error(transparent)]
    Sideband(#[from] SidebandError),
    /// A thread's number cannot be translated.
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
}

/// What is not as it should be in a profile, with its size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remark {
    /// The kernel had no room for news of mappings: some code may be shown as unknown.
    MappingsLost {
        /// Records that were lost.
        records: u64,
    },
    /// Other code came to stand at addresses that ticks had been counted at, as after dlclose(3) and dlopen(3): ticks
    /// of the moments in between may be shown at either.
    CodeReplaced {
        /// How often.
        times: u64,
    },
    /// The tables of the kernel side were too small.
    TablesFull {
        /// Processes whose ticks were not counted.
        unfollowed: u64,
        /// Events that were lost: some processes have no name.
        unannounced: u64,
    },
    /// Rows and counters disagree: a fault of profil.
    Unaccounted {
        /// Ticks by the counter.
        counted: u64,
        /// Ticks in the rows.
        in_rows: u64,
    },
    /// Ticks in code without a name.
    Unnamed {
        /// The object.
        object: String,
        /// Why it has no name.
        why: Unnamed,
        /// How many.
        ticks: u64,
    },
}

/// A recording under way.
pub struct Recorder {
    config: RecordConfig,
    session: Session,
    clock: Clock,
    cpus: Vec<u32>,
    sideband: Sideband,
    images: Images,
    resolved: Resolved,
    jits: Jits,
    time: TargetTime,
    rows_drained: u64,
    /// Gaps in the news of mappings after which the maps were read again.
    gaps_seen: u64,
    /// News of mappings that has not been applied yet, oldest first.
    news: VecDeque<sideband::Record>,
    /// Times that other code came to stand where ticks may have been counted.
    replaced: u64,
    started: Instant,
    /// How long it went on, once the clock stands still.
    stopped: Option<Duration>,
    start: SystemTime,
}

impl Recorder {
    /// Starts recording. For [`Selection::Launch`], ticks begin with the exec of the command.
    ///
    /// # Errors
    /// [`RecordError`].
    pub fn start(config: RecordConfig, symbols: Symbols) -> Result<Recorder, RecordError> {
        let online = session::online_cpus()?;
        let mut session = Session::load(&SessionConfig {
            rows: config.table_rows,
            log: config.log,
            ..SessionConfig::new(config.settings()?)
        })?;
        let sideband = Sideband::open(&online)?;
        let tracking = match config.selection {
            Selection::All | Selection::Cgroup(_) => Tracking::All,
            _ => Tracking::Descendants,
        };
        let mut images = Images::new(tracking, Objects::new(symbols));
        let cpus = match config.filters.cpus.as_slice() {
            [] => online.clone(),
            wanted => online.iter().copied().filter(|cpu| wanted.contains(cpu)).collect(),
        };
        let clock = Clock::on_cpus(session.program()?, &cpus, config.rate.clock_ns)?;
        let mut jits = Jits::default();
        let mut processes = ProcessTimes::default();
        let mut threads = ThreadTimes::default();
        let flags = config.process_flags();
        let targets: Vec<_> = match &config.selection {
            Selection::Processes(targets) => targets.iter().collect(),
            Selection::Launch(target) => vec![target],
            Selection::Threads(targets) => targets.iter().map(|(_, target)| target).collect(),
            Selection::Cgroup(_) | Selection::All => Vec::new(),
        };
        for target in targets {
            images.add_running(target.pid());
            jits.add_running(target.pid());
            processes.add(target.initial_tgid(), target.pid());
            let image = session.make_known(target.initial_tgid(), flags, 0)?;
            images.add_image(image, target.pid(), target.comm().to_owned());
        }
        if let Selection::Threads(targets) = &config.selection {
            for (tid, _) in targets {
                let initial = namespace::initial_tid(*tid)?;
                session.want_thread(initial)?;
                threads.add(*tid);
            }
        }
        let time = match &config.selection {
            _ if config.filters.uid.is_some() || config.filters.comm.is_some() => TargetTime::Unknown,
            Selection::All => TargetTime::of_cpus(cpus.clone()),
            _ if !config.filters.cpus.is_empty() => TargetTime::Unknown,
            Selection::Cgroup(cgroup) => TargetTime::of_cgroup(cgroup.directory.clone()),
            Selection::Threads(_) => TargetTime::Threads(threads),
            Selection::Processes(_) | Selection::Launch(_) => TargetTime::Processes(processes),
        };
        clock.start()?;
        Ok(Recorder {
            config,
            session,
            clock,
            cpus,
            sideband,
            images,
            resolved: Resolved::default(),
            jits,
            time,
            rows_drained: 0,
            gaps_seen: 0,
            news: VecDeque::new(),
            replaced: 0,
            started: Instant::now(),
            stopped: None,
            start: SystemTime::now(),
        })
    }

    /// Takes in what has happened, and drains the table when it fills up. To be called every 250 ms, or when
    /// [`Recorder::events_fd`] is readable.
    ///
    /// # Errors
    /// [`RecordError`]; the recording can go on afterwards.
    pub fn poll(&mut self) -> Result<(), RecordError> {
        self.take_news();
        while let Some(record) = self.news.pop_front() {
            if self.images.replaces_code(&record) {
                // What was counted so far was counted in the code that goes.
                self.note_replaced(&record);
                self.take_rows()?;
            }
            self.apply(&record);
        }
        self.take_events();
        self.fill_gaps();
        self.resolved.retry(&self.images);
        self.session.flush_log();
        self.time.poll();
        if self.images.ended() > ENDED_MAX {
            // Rows of a process that has ended may still be in the table.
            self.drain_rows()?;
            let used = self.resolved.images();
            self.images.prune(|image| used.contains(&image));
        }
        let filled = self.session.counters().rows.wrapping_sub(self.rows_drained);
        if filled > u64::from(self.config.table_rows) / 2 {
            self.drain_rows()?;
        }
        Ok(())
    }

    /// Descriptor that becomes readable when a process forks, execs or exits.
    ///
    /// # Errors
    /// What dup(2) says.
    pub fn events_fd(&self) -> io::Result<OwnedFd> {
        self.session.events_fd()
    }

    /// Counters so far.
    pub fn counters(&self) -> Counters {
        self.session.counters()
    }

    /// How long the recording goes on already, or went on.
    pub fn elapsed(&self) -> Duration {
        self.stopped.unwrap_or_else(|| self.started.elapsed())
    }

    /// Whether all targets that were named are gone, so that nothing more can come.
    pub fn is_over(&self) -> bool {
        match &self.config.selection {
            Selection::Processes(targets) => targets.iter().all(|target| !target.is_same()),
            Selection::Threads(targets) => {
                targets.iter().all(|(tid, target)| !target.is_same() || target.thread_cpu_time(*tid).is_err())
            }
            Selection::Cgroup(cgroup) => cgroup.is_gone(),
            Selection::All | Selection::Launch(_) => false,
        }
    }

    fn take_events(&mut self) {
        let Recorder { session, images, time, jits, .. } = self;
        session.drain_events(|event| {
            images.note(event);
            time.note(event);
            match event.kind() {
                // The files of a process in a container go with it.
                Some(EventKind::Exit) if images.has_anonymous_code(event.image) => {
                    jits.read(event.image, event.pid);
                }
                _ => {}
            }
        });
    }

    /// Fetches the news of mappings that has come.
    fn take_news(&mut self) {
        self.news.extend(self.sideband.drain());
    }

    /// Reads all maps again where news of them was lost: after what did come is applied, for that is older.
    fn fill_gaps(&mut self) {
        if self.sideband.gaps() > self.gaps_seen {
            self.gaps_seen = self.sideband.gaps();
            self.images.read_again();
        }
    }

    /// Remembers a replacement within one process; a PID that is used again is another image, and mixes nothing.
    fn note_replaced(&mut self, record: &sideband::Record) {
        self.replaced += u64::from(matches!(record.kind, sideband::RecordKind::Mapped(_)));
    }

    fn apply(&mut self, record: &sideband::Record) {
        self.images.apply(record);
        self.jits.note(record, &self.images);
    }

    /// Takes the rows out of the table and places them by the mappings as they are now.
    fn take_rows(&mut self) -> Result<(), RecordError> {
        self.rows_drained = self.session.counters().rows;
        let mut rows = Vec::new();
        self.session.drain_rows(|row, count| rows.push((row, count)))?;
        self.resolved.add(rows, &self.images);
        Ok(())
    }

    fn drain_rows(&mut self) -> Result<(), RecordError> {
        // First by the mappings as they were, then by the news that came with the rows.
        self.take_rows()?;
        self.take_news();
        while let Some(record) = self.news.pop_front() {
            if self.images.replaces_code(&record) {
                self.note_replaced(&record);
            }
            self.apply(&record);
        }
        self.take_events();
        self.fill_gaps();
        self.resolved.retry(&self.images);
        Ok(())
    }

    /// The profile so far; recording goes on.
    ///
    /// # Errors
    /// [`RecordError`].
    pub fn snapshot(&mut self) -> Result<(Profile, Vec<Remark>), RecordError> {
        self.drain_rows()?;
        self.drain_rows()?;
        Ok(self.profile(Quiet::No))
    }

    /// Stops the ticks and makes the profile.
    ///
    /// # Errors
    /// [`RecordError`].
    pub fn finish(mut self) -> Result<(Profile, Vec<Remark>), RecordError> {
        self.stop()?;
        Ok(self.profile(Quiet::Yes))
    }

    /// Stops the ticks, and takes all of them in.
    pub(super) fn stop(&mut self) -> Result<(), RecordError> {
        self.clock.stop()?;
        // What follows takes its time, in which nothing ticks.
        self.stopped = Some(self.started.elapsed());
        // Targets that go on use CPU time while we drain.
        self.time.stop();
        // Both halves: the one that was being filled, and what a poll may have left in the other.
        self.drain_rows()?;
        self.drain_rows()?;
        let patience = Instant::now();
        while self.time.awaits_reports() && patience.elapsed() < FREE_REPORTS_WAIT {
            std::thread::sleep(Duration::from_millis(5));
            self.take_events();
        }
        self.session.flush_log();
        Ok(())
    }

    /// Takes what was counted since the last call.
    pub(super) fn take_counts(&mut self) -> Result<Vec<(Key, u64)>, RecordError> {
        self.drain_rows()?;
        Ok(self.resolved.take())
    }

    /// The account so far. Ticks that are in no row yet are in it.
    pub(super) fn tally(&mut self) -> Tally {
        let cpu_time = self.time.total();
        Tally::new(&self.session.counters(), self.config.rate.hz(), cpu_time.map(|time| time.as_secs_f64()))
    }

    /// Counters of each CPU that ticks.
    pub(super) fn counters_by_cpu(&self) -> Vec<(u32, Counters)> {
        self.cpus.iter().map(|cpu| (*cpu, self.session.counters_of(*cpu as usize))).collect()
    }

    /// What names come from.
    pub(super) fn name_sources(&mut self) -> (&mut Images, &mut Jits) {
        (&mut self.images, &mut self.jits)
    }

    /// How the recording is made.
    pub(super) fn config(&self) -> &RecordConfig {
        &self.config
    }

    /// When it began.
    pub(super) fn start_time(&self) -> SystemTime {
        self.start
    }

    fn profile(&mut self, quiet: Quiet) -> (Profile, Vec<Remark>) {
        let mut tally = self.tally();
        let duration = self.elapsed();
        let counts = self.resolved.counts();
        for image in self.resolved.images() {
            if self.images.has_anonymous_code(image) {
                let pid = self.images.get(image).map_or(0, |image| image.pid);
                self.jits.read(image, pid);
            }
        }
        let mut assembler = Assembler::default();
        let mut rows = assembler.add(&counts, &mut self.images, &self.jits, &mut Naming::Thorough);
        let mut parts = assembler.parts;
        let remarks = self.remarks(&parts, &rows, &tally, quiet);
        if self.config.idle == Idle::Included {
            rows.push(add_idle(&mut parts, &mut tally, duration, self.cpus.len()));
        }
        let Parts { mappings, locations, processes, unnamed: _ } = parts;
        let profile = Profile {
            tally,
            period: self.config.rate.period(),
            clock: clock::NAME.to_owned(),
            start: self.start,
            duration,
            title: self.config.title.clone(),
            mappings,
            locations,
            processes,
            rows,
        };
        (profile, remarks)
    }

    /// What is not as it should be. `quiet`: the clock stands still, and the rows must hold what the tally says.
    pub(super) fn remarks(&self, parts: &Parts, rows: &[Row], tally: &Tally, quiet: Quiet) -> Vec<Remark> {
        let mut remarks = Vec::new();
        if self.sideband.lost() > 0 {
            remarks.push(Remark::MappingsLost { records: self.sideband.lost() });
        }
        if self.replaced > 0 {
            remarks.push(Remark::CodeReplaced { times: self.replaced });
        }
        let Counters { unfollowed, unannounced, .. } = self.session.counters();
        if unfollowed + unannounced > 0 {
            remarks.push(Remark::TablesFull { unfollowed, unannounced });
        }
        let in_rows = rows.iter().map(|row| row.ticks).sum();
        let counted = tally.outcome(Outcome::Stray);
        // While ticks go on, some are counted that are in no row yet.
        if quiet == Quiet::Yes && (in_rows != counted || !tally.adds_up()) {
            remarks.push(Remark::Unaccounted { counted, in_rows });
        }
        let mut unnamed: Vec<_> = parts.unnamed_ticks(rows).into_iter().collect();
        unnamed.sort_unstable_by_key(|(_, ticks)| std::cmp::Reverse(*ticks));
        remarks.extend(unnamed.into_iter().map(|((object, why), ticks)| Remark::Unnamed { object, why, ticks }));
        remarks
    }
}

/// Whether the clock stands still.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Quiet {
    Yes,
    No,
}

/// Adds the time that the CPUs had nothing to do, as ticks: the sum is then CPUs x rate x time.
fn add_idle(parts: &mut Parts, tally: &mut Tally, duration: Duration, cpus: usize) -> Row {
    let all = (duration.as_secs_f64() * cpus as f64 * tally.hz).round() as u64;
    let idle = all.saturating_sub(tally.ticks);
    let mapping = parts.mappings.len();
    parts.mappings.push(Mapping {
        kind: MappingKind::Kernel,
        object: "[idle]".to_owned(),
        build_id: None,
        start: 0,
        limit: 1,
        file_offset: 0,
        stale: false,
    });
    let location = parts.locations.len();
    parts.locations.push(Location { mapping: Some(mapping), address: 0, frames: Vec::new() });
    let process = parts.processes.len();
    parts.processes.push(ProcessInfo { pid: 0, generation: 1, comm: "idle".to_owned(), service: None });
    tally.ticks += idle;
    tally.outcomes[Outcome::Stray as usize] += idle;
    tally.cpu_seconds = tally.cpu_seconds.map(|seconds| seconds + idle as f64 / tally.hz);
    Row { location, process: Some(process), tid: None, mode: Mode::Kernel, ticks: idle }
}
