use crate::{Range, RangeTable, Region};

/// Bits of [`Process::flags`].
pub mod process_flags {
    /// Ticks of the process are wanted.
    pub const SELECTED: u32 = 1 << 0;
    /// The process has a [`RangeTable`](crate::RangeTable) and bins at [`Process::slot`](crate::Process::slot).
    pub const DENSE: u32 = 1 << 1;
    /// Children born while this bit is set are selected as well.
    pub const FOLLOW: u32 = 1 << 2;
    /// The last thread has begun to exit; the entry goes when the kernel frees the process.
    pub const EXITED: u32 = 1 << 3;
    /// The process has yet to exec the program that is meant: its exec turns this bit into `SELECTED`.
    pub const FROM_EXEC: u32 = 1 << 4;
    /// With [`DENSE`]: the bins are 16-bit lanes of an array that the process has mapped over its own buffer.
    pub const LANES: u32 = 1 << 5;
}

/// What the tick knows about a process (thread group), keyed by its tgid in the initial PID namespace.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// Identity of the program image: changes at fork and at exec, and is never used again within a session,
    /// so that an old image, a new one and a reused PID never merge.
    pub image: u64,
    /// CPU time that the clock has counted, ns; ticks are due at its multiples of the period.
    pub clocked_ns: u64,
    /// [`process_flags`].
    pub flags: u32,
    /// Slot of the dense bins; valid with [`process_flags::DENSE`].
    pub slot: u32,
}

/// A place for one process, at the [`seat_index`] of its tgid: all that a tick needs to know of it, on one cache line.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seat {
    /// The process that sits here, or [`Seat::NEVER_TAKEN`] or [`Seat::FREE`].
    pub owner: u32,
    /// Always 0.
    pub reserved: u32,
    /// What the tick knows about it; valid while it has an owner.
    pub process: Process,
    /// Its only region, if it has one.
    pub near: NearRegion,
}

impl Seat {
    /// Nobody ever sat here: no known process has such a tgid, which is certain without a look into the table.
    pub const NEVER_TAKEN: u32 = 0;
    /// Whoever sat here is gone; others may have found it taken, and be in the table.
    pub const FREE: u32 = u32::MAX;
}

/// The seat of a process.
#[inline(always)]
pub const fn seat_index(tgid: u32) -> u32 {
    tgid & (crate::limits::SEATS - 1)
}

/// The only region of a process, at hand with the process itself: what the [`RangeTable`] of its slot says as well, and
/// what spares the tick a look into that.
///
/// Its words are the loader's alone, but for [`NearRegion::valid_for`], which the kernel clears with the seat.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NearRegion {
    /// [`Region::offset`].
    pub offset: u64,
    /// [`Region::nbins`].
    pub nbins: u32,
    /// [`Region::multiplier`].
    pub multiplier: u32,
    /// The slot whose region this is, plus one; 0 for none. A process that has another slot looks into its table.
    pub valid_for: u32,
    /// [`Region::pre_shift`].
    pub pre_shift: u8,
    /// [`Region::post_shift`].
    pub post_shift: u8,
    /// [`RangeTable::first_chunk`].
    pub first_chunk: u16,
    /// [`RangeTable::period_ns`].
    pub period_ns: u64,
}

impl NearRegion {
    /// The only region of a table, for the processes with its slot; `None` for a table that holds more than a region.
    pub fn of(table: &RangeTable, slot: u32) -> Option<NearRegion> {
        let RangeTable { len: 1, nbins: _, otherwise: RangeTable::NO_BIN, first_chunk, period_ns, ranges: [range, ..] } =
            table
        else {
            return None;
        };
        let Range { low, high, first_bin: 0, region, reserved: _ } = range else {
            return None;
        };
        if region.span() != Some(*low..=*high) {
            return None;
        }
        let Region { offset, nbins, multiplier, pre_shift, post_shift, reserved: _ } = *region;
        let (pre_shift, post_shift) = (u8::try_from(pre_shift).ok()?, u8::try_from(post_shift).ok()?);
        let (valid_for, first_chunk, period_ns) = (slot + 1, u16::try_from(*first_chunk).ok()?, *period_ns);
        Some(NearRegion { offset, nbins, multiplier, valid_for, pre_shift, post_shift, first_chunk, period_ns })
    }

    /// The bin of a pc, as [`RangeTable::bin_of`].
    #[inline(always)]
    pub fn bin_of(&self, pc: u64) -> Option<u32> {
        let NearRegion { offset, nbins, multiplier, pre_shift, post_shift, .. } = *self;
        let (pre_shift, post_shift) = (pre_shift.into(), post_shift.into());
        Region { offset, nbins, multiplier, pre_shift, post_shift, reserved: 0 }.bin_of(pc)
    }
}
