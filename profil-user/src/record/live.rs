//! Looking at targets while they run: a profile that grows, and what each window adds to it.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use profil_common::{Counters, Outcome};

use super::assemble::{Assembler, Parts};
use super::fold::{self, Folded};
use super::naming::{Naming, Thrift};
use super::recorder::{Quiet, RecordError, Recorder, Remark};
use super::resolve::Key;
use super::selection::RecordConfig;
use crate::clock;
use crate::profile::{Mode, ProcessInfo, Profile, Row};
use crate::symbols::Symbols;
use crate::tally::Tally;

/// What came in since the window before.
#[derive(Clone, Debug, Default)]
pub struct LiveWindow {
    /// Rows of the profile by their index, each with the ticks that it got.
    pub rows: Vec<(usize, u64)>,
    /// What each CPU did.
    pub cpus: Vec<CpuWindow>,
    /// How long it was, wall time.
    pub length: Duration,
    /// Locations of the profile that have another name now.
    pub renamed: Vec<usize>,
    /// The rows of the profile are others now: the new index of each that there was before. The window's own are new.
    pub moved: Option<Vec<usize>>,
}

/// What a CPU did in a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuWindow {
    /// The CPU.
    pub cpu: u32,
    /// Ticks of the targets.
    pub ticks: u64,
    /// Time of the targets.
    pub targets: Duration,
    /// Time of all else that ran; the rest of the window it was idle.
    pub others: Duration,
}

/// What becomes of names that are still missing when the ticks stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastNames {
    /// They are looked up, which may take a while.
    Complete,
    /// Nobody looks any more.
    AsTheyAre,
}

/// Rows of the profile at which those of processes that are gone are added up: 16 MiB of rows.
const ROWS_MAX: usize = 1 << 18;

/// What tells rows of the profile apart.
pub(super) type RowIndex = (usize, Option<usize>, Option<u32>, Mode);

/// A recording that is looked at while it goes on.
pub struct Live {
    recorder: Recorder,
    assembler: Assembler,
    naming: Naming,
    /// Mappings, locations and processes are in the assembler while it works, and here otherwise.
    profile: Profile,
    rows: HashMap<RowIndex, usize>,
    /// Rows at which they are folded next.
    rows_max: usize,
    counters: Vec<(u32, Counters)>,
    until: Duration,
}

impl Live {
    /// Starts recording.
    ///
    /// # Errors
    /// [`RecordError`].
    pub fn start(config: RecordConfig, symbols: Symbols) -> Result<Live, RecordError> {
        let mut recorder = Recorder::start(config, symbols)?;
        let profile = Profile {
            tally: recorder.tally(),
            period: recorder.config().rate.period(),
            clock: clock::NAME.to_owned(),
            start: recorder.start_time(),
            duration: Duration::ZERO,
            title: recorder.config().title.clone(),
            mappings: Vec::new(),
            locations: Vec::new(),
            processes: Vec::new(),
            rows: Vec::new(),
        };
        Ok(Live {
            counters: recorder.counters_by_cpu().into_iter().map(|(cpu, _)| (cpu, Counters::default())).collect(),
            recorder,
            assembler: Assembler::default(),
            naming: Naming::Thrifty(Box::new(Thrift::new())),
            profile,
            rows: HashMap::new(),
            rows_max: ROWS_MAX,
            until: Duration::ZERO,
        })
    }

    /// Takes in what has happened; as [`Recorder::poll`].
    ///
    /// # Errors
    /// [`RecordError`]; the recording can go on afterwards.
    pub fn poll(&mut self) -> Result<(), RecordError> {
        self.recorder.poll()
    }

    /// As [`Recorder::events_fd`].
    ///
    /// # Errors
    /// What dup(2) says.
    pub fn events_fd(&self) -> io::Result<OwnedFd> {
        self.recorder.events_fd()
    }

    /// As [`Recorder::is_over`].
    pub fn is_over(&self) -> bool {
        self.recorder.is_over()
    }

    /// How long the recording goes on already.
    pub fn elapsed(&self) -> Duration {
        self.recorder.elapsed()
    }

    /// All that came in up to the last window. Its tally has the ticks of its rows, so that the two agree, and not those
    /// that the next window will bring.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Ends a window, and begins the next.
    ///
    /// # Errors
    /// [`RecordError`].
    pub fn window(&mut self) -> Result<LiveWindow, RecordError> {
        // Times first: what follows may take long, when there is much to be named.
        let tally = self.recorder.tally();
        let mut window = self.close();
        let counts = self.recorder.take_counts()?;
        if self.rows.len() > self.rows_max {
            window.moved = Some(self.fold());
        }
        window.rows = self.add(&counts);
        window.renamed = self.deepen();
        let mut outcomes = tally.outcomes;
        outcomes[Outcome::Stray as usize] = self.profile.rows.iter().map(|row| row.ticks).sum();
        self.profile.tally = Tally { ticks: outcomes.iter().sum(), outcomes, ..tally };
        Ok(window)
    }

    /// Stops the ticks: the last window, after which the profile has all of them, and what is not as it should be.
    ///
    /// # Errors
    /// [`RecordError`].
    pub fn stop(&mut self, names: LastNames) -> Result<(LiveWindow, Vec<Remark>), RecordError> {
        self.recorder.stop()?;
        let mut counts = self.recorder.take_counts()?;
        // Rows that waited for a place.
        counts.extend(self.recorder.take_counts()?);
        let mut window = self.close();
        if let (LastNames::Complete, Naming::Thrifty(thrift)) = (names, &mut self.naming) {
            thrift.lift();
        }
        window.rows = self.add(&counts);
        window.renamed = self.deepen();
        self.profile.tally = self.recorder.tally();
        self.swap_parts();
        if let Naming::Thrifty(thrift) = &self.naming {
            for location in thrift.not_looked_up() {
                self.assembler.parts.unnamed.remove(&location);
            }
        }
        let Live { recorder, assembler, profile, .. } = self;
        let remarks = recorder.remarks(&assembler.parts, &profile.rows, &profile.tally, Quiet::Yes);
        self.swap_parts();
        Ok((window, remarks))
    }

    /// What the CPUs did in the window that ends now.
    fn close(&mut self) -> LiveWindow {
        let now = self.recorder.elapsed();
        let length = now.saturating_sub(self.until);
        self.until = now;
        self.profile.duration = now;
        let clock = Duration::from_nanos(self.recorder.config().rate.clock_ns);
        let times = |expiries: u64| clock.saturating_mul(u32::try_from(expiries).unwrap_or(u32::MAX));
        let counters = self.recorder.counters_by_cpu();
        let cpus = counters.iter().zip(&self.counters).map(|((cpu, now), (_, before))| {
            let Counters { elsewhere, between, ticks, .. } = now.since(before);
            CpuWindow { cpu: *cpu, ticks, targets: times(ticks + between), others: times(elsewhere) }
        });
        let cpus = cpus.collect();
        self.counters = counters;
        LiveWindow { cpus, length, ..LiveWindow::default() }
    }

    /// Adds counts to the rows of the profile; returns which rows got how many.
    fn add(&mut self, counts: &[(Key, u64)]) -> Vec<(usize, u64)> {
        self.swap_parts();
        let Live { recorder, assembler, naming, profile, rows, .. } = self;
        let (images, jits) = recorder.name_sources();
        let added = assembler.add(counts, images, jits, naming);
        let mut grown = Vec::with_capacity(added.len());
        for row in added {
            let Row { location, process, tid, mode, ticks } = row;
            let index = *rows.entry((location, process, tid, mode)).or_insert_with(|| {
                profile.rows.push(Row { ticks: 0, ..row });
                profile.rows.len() - 1
            });
            profile.rows[index].ticks += ticks;
            grown.push((index, ticks));
        }
        self.swap_parts();
        grown
    }

    /// Adds up the rows of processes that are gone; returns where each row is now.
    fn fold(&mut self) -> Vec<usize> {
        let is_there = |process: &ProcessInfo| Path::new(&format!("/proc/{}", process.pid)).exists();
        let Folded { rows, processes, by_index } = fold::fold(&mut self.profile, is_there);
        self.assembler.keep_processes(&processes);
        self.rows = by_index;
        // Where all are there still, this is not to be done for each window.
        self.rows_max = ROWS_MAX.max(self.rows.len() * 2);
        rows
    }

    /// Gives code better names, as far as there is CPU time for it.
    fn deepen(&mut self) -> Vec<usize> {
        self.swap_parts();
        let Live { recorder, assembler, naming, .. } = self;
        let (images, jits) = recorder.name_sources();
        let renamed = match naming {
            Naming::Thorough => Vec::new(),
            Naming::Thrifty(thrift) => thrift.deepen(&mut assembler.parts, images, jits),
        };
        self.swap_parts();
        renamed
    }

    fn swap_parts(&mut self) {
        let Parts { mappings, locations, processes, unnamed: _ } = &mut self.assembler.parts;
        std::mem::swap(mappings, &mut self.profile.mappings);
        std::mem::swap(locations, &mut self.profile.locations);
        std::mem::swap(processes, &mut self.profile.processes);
    }
}
