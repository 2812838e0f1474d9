//! The seats of known processes, and the region that lies at hand in each.
//!
//! A region is only written into a seat that no tick can be reading it from. Where one may be under way, because the
//! process has just had another region, the new one waits for the next grace period; until then the ticks find it by its
//! slot, which takes them longer.

use std::collections::{HashMap, HashSet};

use profil_common::limits::{MAX_SLOTS, SEATS};
use profil_common::{NearRegion, Process, RangeTable, Seat, seat_index};

use crate::map_memory::MapMemory;

/// Words of a seat.
pub(super) const SEAT_WORDS: usize = size_of::<Seat>() / size_of::<u64>();

/// Words of all seats.
pub(super) const WORDS: usize = SEATS as usize * SEAT_WORDS;

/// Word of a seat in which its process begins: image, CPU time, and flags with slot.
const PROCESS: usize = std::mem::offset_of!(Seat, process) / size_of::<u64>();

/// Word of a seat in which its region begins.
const NEAR: usize = std::mem::offset_of!(Seat, near) / size_of::<u64>();

/// Word of a region that says for which slot it is valid, with its shifts and its place in the pool.
const VALID_FOR: usize = std::mem::offset_of!(NearRegion, valid_for) / size_of::<u64>();

/// All seats.
pub(super) struct Seats {
    memory: MapMemory,
    /// By slot: the region that its processes have at hand, if it is the only one of the slot.
    of_slots: Vec<Option<NearRegion>>,
    /// Seats, by their first word, with a region that ticks under way may have found valid.
    in_use: HashSet<usize>,
    /// Seats whose process waits for its region.
    waiting: HashMap<usize, NearRegion>,
}

impl Seats {
    pub(super) fn new(memory: MapMemory) -> Seats {
        let of_slots = vec![None; MAX_SLOTS as usize];
        Seats { memory, of_slots, in_use: HashSet::new(), waiting: HashMap::new() }
    }

    /// Notes the ranges of a slot, for the processes that are made known with it afterwards.
    pub(super) fn note_ranges(&mut self, slot: u32, ranges: &RangeTable) {
        if let Some(near) = self.of_slots.get_mut(slot as usize) {
            *near = NearRegion::of(ranges, slot);
        }
    }

    /// The owner of the seat of a process, which may be another one, or nobody.
    pub(super) fn owner(&self, tgid: u32) -> u32 {
        // The first half of the first word.
        self.memory.load(seat_of(tgid)) as u32
    }

    /// Seats a process, in the place of what was known of it.
    pub(super) fn seat(&mut self, tgid: u32, process: &Process) {
        let Process { image, clocked_ns, flags, slot } = *process;
        let seat = seat_of(tgid);
        self.take_region(seat);
        if let Some(near) = self.of_slots.get(slot as usize).copied().flatten() {
            if self.in_use.contains(&seat) {
                self.waiting.insert(seat, near);
            } else {
                self.put_region(seat, &near);
            }
        }
        self.memory.store(seat + PROCESS, image);
        self.memory.store(seat + PROCESS + 1, clocked_ns);
        self.memory.store(seat + PROCESS + 2, u64::from(flags) | u64::from(slot) << 32);
        // The owner last: a tick that finds it finds the rest.
        self.memory.store(seat, tgid.into());
    }

    /// Frees the seat of a process; false when it has none.
    pub(super) fn free(&mut self, tgid: u32) -> bool {
        if self.owner(tgid) != tgid {
            return false;
        }
        let seat = seat_of(tgid);
        self.memory.store(seat, Seat::FREE.into());
        self.take_region(seat);
        true
    }

    /// Puts the regions that waited into their seats. All ticks that were under way when they began to wait have ended.
    pub(super) fn settle(&mut self) {
        self.in_use.clear();
        for (seat, near) in std::mem::take(&mut self.waiting) {
            self.put_region(seat, &near);
        }
    }

    /// Makes the region of a seat invalid for ticks to come.
    fn take_region(&mut self, seat: usize) {
        self.waiting.remove(&seat);
        if self.memory.load(seat + NEAR + VALID_FOR) as u32 != 0 {
            self.memory.store(seat + NEAR + VALID_FOR, 0);
            self.in_use.insert(seat);
        }
    }

    fn put_region(&self, seat: usize, near: &NearRegion) {
        let NearRegion { offset, nbins, multiplier, valid_for, pre_shift, post_shift, first_chunk, period_ns } = *near;
        let rest = u64::from(pre_shift) | u64::from(post_shift) << 8 | u64::from(first_chunk) << 16;
        self.memory.store(seat + NEAR, offset);
        self.memory.store(seat + NEAR + 1, u64::from(nbins) | u64::from(multiplier) << 32);
        self.memory.store(seat + NEAR + VALID_FOR + 1, period_ns);
        // Last what makes it valid.
        self.memory.store(seat + NEAR + VALID_FOR, u64::from(valid_for) | rest << 32);
    }
}

/// First word of the seat of a process.
fn seat_of(tgid: u32) -> usize {
    seat_index(tgid) as usize * SEAT_WORDS
}
