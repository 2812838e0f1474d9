//! From rows of (image, pc) to counts by place, as the rows are drained.

use std::collections::{HashMap, HashSet};

use profil_common::{RowKey, row_flags};

use crate::images::{Images, Place};
use crate::profile::Mode;

/// Where a tick was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Spot {
    /// At a place in an object.
    Code(Place),
    /// At an address of the kernel.
    Kernel(u64),
    /// At an address of the image that no known mapping covers.
    Unknown(u64),
}

/// What ticks are counted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) image: u64,
    pub(super) spot: Spot,
    pub(super) tid: u32,
    pub(super) mode: Mode,
}

/// Counts by place.
#[derive(Debug, Default)]
pub(super) struct Resolved {
    counts: HashMap<Key, u64>,
    /// Rows whose place is not known yet: news of their image or mapping may be on its way.
    waiting: Vec<(RowKey, u64)>,
    /// Those that waited when the counts were taken last.
    overdue: Vec<(RowKey, u64)>,
}

impl Resolved {
    /// Takes rows in, and places those that can be placed.
    pub(super) fn add(&mut self, rows: Vec<(RowKey, u64)>, images: &Images) {
        for (row, count) in rows {
            match spot_of(&row, images) {
                Some(spot) => self.count(&row, spot, count),
                None => self.waiting.push((row, count)),
            }
        }
    }

    /// Tries again to place the rows that wait.
    pub(super) fn retry(&mut self, images: &Images) {
        let overdue = std::mem::take(&mut self.overdue);
        let waiting = std::mem::take(&mut self.waiting);
        self.add(overdue, images);
        self.overdue = std::mem::take(&mut self.waiting);
        self.add(waiting, images);
    }

    /// Takes the counts out, as they are in the order of their keys. A row without a place waits for it until the next
    /// time, and not longer.
    pub(super) fn take(&mut self) -> Vec<(Key, u64)> {
        let patient = std::mem::take(&mut self.waiting);
        let counts = self.counts();
        *self = Resolved { overdue: patient, ..Resolved::default() };
        counts
    }

    /// Images that have ticks.
    pub(super) fn images(&self) -> HashSet<u64> {
        let waiting = self.waiting.iter().chain(&self.overdue).map(|(row, _)| row.image);
        self.counts.keys().map(|key| key.image).chain(waiting).collect()
    }

    /// Everything, the rows without a place included.
    pub(super) fn counts(&self) -> Vec<(Key, u64)> {
        let mut all = self.counts.clone();
        for (row, count) in self.waiting.iter().chain(&self.overdue) {
            *all.entry(key(row, Spot::Unknown(row.pc))).or_default() += count;
        }
        let mut counts: Vec<(Key, u64)> = all.into_iter().collect();
        counts.sort_unstable();
        counts
    }

    fn count(&mut self, row: &RowKey, spot: Spot, count: u64) {
        *self.counts.entry(key(row, spot)).or_default() += count;
    }
}

fn key(row: &RowKey, spot: Spot) -> Key {
    let mode = if row.flags & row_flags::KERNEL_MODE != 0 { Mode::Kernel } else { Mode::User };
    Key { image: row.image, spot, tid: row.tid, mode }
}

fn spot_of(row: &RowKey, images: &Images) -> Option<Spot> {
    if row.flags & row_flags::KERNEL_PC != 0 {
        return Some(Spot::Kernel(row.pc));
    }
    images.place(row.image, row.pc).map(Spot::Code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::images::Tracking;
    use crate::objects::Objects;
    use crate::symbols::Symbols;
    use crate::symbols::debug_files::DebugFiles;

    fn row(image: u64, pc: u64, flags: u32) -> RowKey {
        RowKey { image, pc, tid: 0, flags }
    }

    #[test]
    fn a_row_without_a_place_waits_for_one_more_take_and_is_counted_once() {
        let images = Images::new(Tracking::All, Objects::new(Symbols::new(DebugFiles::default(), "/".into())));
        let mut resolved = Resolved::default();
        resolved.add(vec![(row(1, 0x1000, 0), 3), (row(1, 5 << 60, row_flags::KERNEL_PC), 2)], &images);
        let spots = |counts: Vec<(Key, u64)>| counts.into_iter().map(|(key, n)| (key.spot, n)).collect::<Vec<_>>();
        assert_eq!(spots(resolved.take()), [(Spot::Kernel(5 << 60), 2)]);
        assert!(resolved.images().contains(&1));
        resolved.add(vec![(row(1, 0x2000, 0), 4)], &images);
        resolved.retry(&images);
        assert_eq!(spots(resolved.take()), [(Spot::Unknown(0x1000), 3)]);
        assert_eq!(spots(resolved.take()), [(Spot::Unknown(0x2000), 4)]);
        assert_eq!(spots(resolved.take()), []);
    }
}
