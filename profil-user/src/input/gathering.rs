//! Ticks as they are read, gathered into a profile: each mapping, place and process once.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::{Duration, SystemTime};

use profil_common::Outcome;

use super::error::InputError;
use crate::profile::{Frame, Location, Mapping, Mode, ProcessInfo, Profile, Row};
use crate::tally::Tally;

/// Most memory of the tables, bytes: millions of different places.
pub const MAX_TABLE_BYTES: u64 = 1 << 30;

/// Who ticked: as far as a file tells.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Ticker {
    pub(super) process: Option<ProcessInfo>,
    pub(super) tid: Option<u32>,
    pub(super) mode: Mode,
}

/// Where: as far as a file tells.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Place {
    pub(super) mapping: Option<Mapping>,
    /// 0 when it is not known.
    pub(super) address: u64,
    pub(super) frames: Vec<Frame>,
}

/// What a file tells of a run as a whole.
#[derive(Clone, Debug, Default)]
pub(super) struct Run {
    /// CPU time between two ticks; zero when it is not known.
    pub(super) period: Duration,
    pub(super) clock: String,
    pub(super) duration: Duration,
}

/// What was read so far.
#[derive(Debug, Default)]
pub(super) struct Gathering {
    mappings: Once<Mapping>,
    locations: Once<Location>,
    processes: Once<ProcessInfo>,
    rows: HashMap<(usize, Option<usize>, Option<u32>, Mode), u64>,
    /// Memory that the tables take, bytes.
    bytes: u64,
}

impl Gathering {
    /// Adds ticks; `at` is the line or record that they come from.
    pub(super) fn add(&mut self, place: Place, ticker: Ticker, ticks: u64, at: u64) -> Result<(), InputError> {
        let Place { mapping, address, frames } = place;
        let Ticker { process, tid, mode } = ticker;
        let Gathering { mappings, locations, processes, rows, bytes } = self;
        let mapping = mapping.map(|mapping| {
            let text = mapping.object.len();
            mappings.index(mapping, text, bytes)
        });
        let text = frames.iter().map(frame_bytes).sum();
        let location = locations.index(Location { mapping, address, frames }, text, bytes);
        let process = process.map(|process| {
            let text = process.comm.len();
            processes.index(process, text, bytes)
        });
        let count = rows.entry((location, process, tid, mode)).or_insert_with(|| {
            *bytes += 64;
            0
        });
        *count = count.saturating_add(ticks);
        if *bytes > MAX_TABLE_BYTES {
            return Err(InputError::TooLarge { asked: *bytes, limit: MAX_TABLE_BYTES, at });
        }
        Ok(())
    }

    /// The profile; its ticks have `outcome`, and what the file did not tell is not in it.
    pub(super) fn finish(self, outcome: Outcome, run: Run) -> Profile {
        let Run { period, clock, duration } = run;
        let mut rows: Vec<_> = self.rows.into_iter().filter(|(_, ticks)| *ticks > 0).collect();
        rows.sort_unstable();
        let rows: Vec<Row> = rows
            .into_iter()
            .map(|((location, process, tid, mode), ticks)| Row { location, process, tid, mode, ticks })
            .collect();
        let ticks = rows.iter().fold(0u64, |sum, row| sum.saturating_add(row.ticks));
        let hz = if period.is_zero() { 0.0 } else { 1.0 / period.as_secs_f64() };
        Profile {
            tally: Tally::of_counted(outcome, ticks, hz),
            period,
            clock,
            start: SystemTime::UNIX_EPOCH,
            duration,
            title: String::new(),
            mappings: self.mappings.into_list(),
            locations: self.locations.into_list(),
            processes: self.processes.into_list(),
            rows,
        }
    }
}

fn frame_bytes(frame: &Frame) -> usize {
    let Frame { function, system_name, file, line: _ } = frame;
    let optional = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    size_of::<Frame>() + function.len() + optional(system_name) + optional(file)
}

/// A list without repeats.
#[derive(Debug)]
struct Once<T>(HashMap<T, usize>);

impl<T> Default for Once<T> {
    fn default() -> Once<T> {
        Once(HashMap::new())
    }
}

impl<T: Eq + Hash> Once<T> {
    /// Index of an item, which is added if it is new; its size, of which `text` bytes are outside of it, to `bytes`.
    fn index(&mut self, item: T, text: usize, bytes: &mut u64) -> usize {
        let next = self.0.len();
        *self.0.entry(item).or_insert_with(|| {
            *bytes += (2 * size_of::<T>() + text) as u64;
            next
        })
    }

    fn into_list(self) -> Vec<T> {
        let mut items: Vec<_> = self.0.into_iter().collect();
        items.sort_unstable_by_key(|(_, index)| *index);
        items.into_iter().map(|(item, _)| item).collect()
    }
}
