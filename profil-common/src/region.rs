use core::ops::RangeInclusive;

use crate::limits::MAX_RANGES;

/// A histogram's place in the address space: which pcs count, and into which bin.
///
/// All conventions are one formula, evaluated without wrap-around:
/// `bin = (((pc - offset) >> pre_shift) * multiplier / 65536) >> post_shift`, counted if `bin < nbins`.
/// [`Region::new`] makes one from a [`Request`](crate::Request) and a [`Convention`](crate::Convention).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Region {
    /// Lowest profiled address (AVMA); a pc below it is outside.
    pub offset: u64,
    /// Counters of the region.
    pub nbins: u32,
    /// 16.16 fixed point factor.
    pub multiplier: u32,
    /// Bits that the distance from `offset` loses before the multiplication.
    pub pre_shift: u32,
    /// Bits that the product loses after the division by 65536.
    pub post_shift: u32,
    /// Keeps the size a multiple of 8 bytes without hidden padding; always 0.
    pub reserved: u64,
}

impl Region {
    /// Bin of a pc, or `None` when the pc is outside the region.
    ///
    /// Exact for every pc, offset and multiplier.
    #[inline(always)]
    pub fn bin_of(&self, pc: u64) -> Option<u32> {
        if pc < self.offset {
            return None;
        }
        let distance = (pc - self.offset) >> (self.pre_shift & 63);
        // 64 x 32 bits by halves: high * 2^32 + low, of which the 16 lowest bits fall to the division.
        let high = (distance >> 32) * self.multiplier as u64;
        let low = (distance & 0xffff_ffff) * self.multiplier as u64;
        if high >> 47 != 0 {
            // The quotient needs more than 63 bits, so no bin count can contain it.
            return None;
        }
        let bin = ((high << 16) + (low >> 16)) >> (self.post_shift & 63);
        if bin < self.nbins as u64 { Some(bin as u32) } else { None }
    }

    /// Addresses that [`Region::bin_of`] maps to `bin`, ascending; `None` when there are none.
    ///
    /// A bin is empty when it is past the region, when the scale is so large that bins are skipped, or when it
    /// would begin above the last address.
    pub fn addrs_of(&self, bin: u32) -> Option<RangeInclusive<u64>> {
        if bin >= self.nbins {
            return None;
        }
        if self.multiplier == 0 {
            return (bin == 0).then_some(self.offset..=u64::MAX);
        }
        let first = self.distance_to(bin as u64);
        let last = self.distance_to(bin as u64 + 1) - 1;
        if first > last {
            return None;
        }
        let low = self.address_at(first)?;
        // The last byte of the last distance, or the end of the address space.
        let high = self.address_at(last + 1).map_or(u64::MAX, |next| next - 1);
        Some(low..=high)
    }

    /// Smallest shifted distance whose bin is at least `bin`.
    fn distance_to(&self, bin: u64) -> u64 {
        // bin <= 2^32 and post_shift <= 2, so the product needs at most 51 bits.
        ((bin << self.post_shift) << 16).div_ceil(self.multiplier as u64)
    }

    /// Address of a shifted distance; `None` above the last address.
    fn address_at(&self, distance: u64) -> Option<u64> {
        let bytes = distance << self.pre_shift;
        self.offset.checked_add(bytes)
    }

    /// Addresses that any bin of the region stands for; `None` when the region has no bin.
    pub fn span(&self) -> Option<RangeInclusive<u64>> {
        let last = self.nbins.checked_sub(1)?;
        let first = self.addrs_of(0)?;
        if self.multiplier == 0 {
            return Some(first);
        }
        let end = self.address_at(self.distance_to(last as u64 + 1)).map_or(u64::MAX, |end| end - 1);
        Some(*first.start()..=end)
    }
}

/// One range of a process's table: `low..=high` counts into `region`, whose bin 0 is bin `first_bin` of the process.
///
/// Ranges do not overlap; regions may, since sprofil(3) lets the one with the higher start keep its range.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Range {
    /// First address of the range.
    pub low: u64,
    /// Last address of the range, inclusive.
    pub high: u64,
    /// Place of the region's first bin among the bins of the process.
    pub first_bin: u32,
    /// Always 0.
    pub reserved: u32,
    /// Region that the range counts into.
    pub region: Region,
}

/// The ranges of one process, sorted by address; searched by the tick.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RangeTable {
    /// Ranges in use.
    pub len: u32,
    /// Bins of the process: the sum over its regions.
    pub nbins: u32,
    /// Bin that takes the pcs that are in no range: the overflow entry of sprofil(3); [`RangeTable::NO_BIN`] for none.
    pub otherwise: u32,
    /// Chunk of the pool in which the bins begin; 0 when they are no bins of the pool.
    pub first_chunk: u32,
    /// CPU time between two ticks of the process, ns; used when [`Settings::period_ns`](crate::Settings::period_ns) is 0.
    pub period_ns: u64,
    /// Sorted ranges; those from `len` on are unspecified.
    pub ranges: [Range; MAX_RANGES],
}

impl RangeTable {
    /// No bin at all.
    pub const NO_BIN: u32 = u32::MAX;

    /// A table without ranges, for `nbins` bins.
    pub fn empty(nbins: u32) -> RangeTable {
        let ranges = [Range::default(); MAX_RANGES];
        RangeTable { len: 0, nbins, otherwise: RangeTable::NO_BIN, first_chunk: 0, period_ns: 0, ranges }
    }

    /// A table with one region.
    pub fn single(region: Region) -> RangeTable {
        let mut table = RangeTable::empty(region.nbins);
        if let Some(span) = region.span() {
            table.ranges[0] = Range { low: *span.start(), high: *span.end(), first_bin: 0, reserved: 0, region };
            table.len = 1;
        }
        table
    }

    /// The bin, among all bins of the process, that a pc counts into.
    #[inline(always)]
    pub fn bin_of(&self, pc: u64) -> Option<u32> {
        // Binary search in a fixed number of steps, for the verifier: log2(MAX_RANGES) = 6 halvings and the end.
        let mut low = 0usize;
        let mut high = self.len as usize;
        for _ in 0..7 {
            if low >= high {
                break;
            }
            let middle = ((low + high) / 2) & (MAX_RANGES - 1);
            let range = &self.ranges[middle];
            if pc < range.low {
                high = middle;
            } else if pc > range.high {
                low = middle + 1;
            } else {
                return range.region.bin_of(pc).map(|bin| range.first_bin + bin);
            }
        }
        if self.otherwise == RangeTable::NO_BIN { None } else { Some(self.otherwise) }
    }
}
