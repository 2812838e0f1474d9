//! The histogram of a program built with -pg, with libc's geometry.

use core::ptr::null_mut;
use core::slice;

use profil_common::wire::Area;

/// Bytes of text that libc rounds the ends of the text to, HISTFRACTION x sizeof (HISTCOUNTER), and that one of our
/// counters stands for.
const TEXT_STEP: u64 = 4;

/// Bins of 16 bits that libc rounds their number to, so that what follows them in its memory is aligned.
const BIN_STEP: u64 = (size_of::<*const u8>() / size_of::<u16>()) as u64;

/// Which pcs the bins of libc's histogram stand for: `nbins` equal parts of the text.
///
/// As their number is rounded, a bin stands for a little less than [`TEXT_STEP`] bytes.
///
/// Source: glibc gmon/gmon.c, `__monstartup`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Lowest pc (AVMA).
    pub low_pc: u64,
    /// Highest pc (AVMA), exclusive.
    pub high_pc: u64,
    /// Number of bins.
    pub nbins: u32,
}

impl Geometry {
    /// The geometry that libc makes of the ends of the text; `None` when there is no text, or 4 GiB of it.
    pub fn of_text(low_pc: u64, high_pc: u64) -> Option<Geometry> {
        let low_pc = low_pc - low_pc % TEXT_STEP;
        let high_pc = high_pc.checked_next_multiple_of(TEXT_STEP)?;
        let text_bytes = high_pc.checked_sub(low_pc).filter(|bytes| (1..1 << 32).contains(bytes))?;
        let nbins = u32::try_from(text_bytes.div_ceil(TEXT_STEP).next_multiple_of(BIN_STEP)).ok()?;
        Some(Geometry { low_pc, high_pc, nbins })
    }

    fn text_bytes(self) -> u64 {
        self.high_pc.saturating_sub(self.low_pc)
    }

    /// Number of counters, each for [`TEXT_STEP`] bytes.
    fn counters(self) -> usize {
        (self.text_bytes() / TEXT_STEP) as usize
    }

    fn counter_bytes(self) -> usize {
        self.counters().saturating_mul(size_of::<u32>())
    }

    /// The counter whose middle is in a bin; there is at most one.
    fn counter_in(self, bin: u32) -> Option<usize> {
        // No product overflows: the text is smaller than 4 GiB.
        let (bin, nbins, text_bytes) = (u64::from(bin), u64::from(self.nbins), self.text_bytes());
        let first_pc = (bin * text_bytes).div_ceil(nbins);
        let counter = first_pc.saturating_sub(TEXT_STEP / 2).div_ceil(TEXT_STEP);
        let middle = counter * TEXT_STEP + TEXT_STEP / 2;
        (middle * nbins < (bin + 1) * text_bytes).then_some(counter as usize)
    }
}

/// Counters of 32 bits, which do not wrap in a run of any length, in memory of their own.
///
/// They are not spread over the text like libc's bins. A scale of 16 fractional bits that did that would put a pc at the
/// end of a large text many bytes away from where gprof(1) looks for it.
#[derive(Debug)]
pub struct Histogram {
    /// The pcs that they stand for.
    pub geometry: Geometry,
    counters: *mut u32,
    /// Ticks in a second of CPU time.
    pub rate: u32,
}

// SAFETY: the memory belongs to whoever has the histogram, as a box's would.
unsafe impl Send for Histogram {}

impl Histogram {
    /// Counters of 0; `None` when there is no memory for them.
    pub fn new(geometry: Geometry, rate: u32) -> Option<Histogram> {
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping, which replaces nothing.
        let memory = unsafe { libc::mmap(null_mut(), geometry.counter_bytes(), protection, flags, -1, 0) };
        (memory != libc::MAP_FAILED).then(|| Histogram { geometry, counters: memory.cast(), rate })
    }

    /// The area that counts into it.
    pub fn area(&self) -> Area {
        Area {
            buffer: self.counters as u64,
            bytes: self.geometry.counter_bytes() as u64,
            offset: self.geometry.low_pc,
            scale: 1 << 16,
        }
    }

    /// The counts of all bins in their order, of a histogram into which nobody counts any more.
    pub fn bins(&self) -> impl Iterator<Item = u32> {
        // SAFETY: `new` mapped that many counters, which stay until `discard`.
        let counters = unsafe { slice::from_raw_parts(self.counters, self.geometry.counters()) };
        let count = |bin| counters.get(self.geometry.counter_in(bin)?).copied();
        (0..self.geometry.nbins).map(move |bin| count(bin).unwrap_or_default())
    }

    /// Gives the memory back. Dropping keeps it, for whoever may still write to it.
    pub fn discard(self) {
        // SAFETY: `new` mapped these bytes, and nobody counts into them any more.
        unsafe { libc::munmap(self.counters.cast(), self.geometry.counter_bytes()) };
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;

    #[test]
    fn the_geometry_is_that_of_glibc() {
        // As glibc 2.36 wrote it for a small program: text of 0x1238 bytes, 0x490 bins.
        let geometry = Geometry { low_pc: 0x1000, high_pc: 0x2238, nbins: 0x490 };
        assert_eq!(Geometry::of_text(0x1000, 0x2238), Some(geometry));
        assert_eq!(Geometry::of_text(0x1003, 0x2235), Some(geometry));
    }

    #[test]
    fn there_is_no_histogram_of_no_text() {
        assert_eq!(Geometry::of_text(0x1000, 0x1000), None);
        assert_eq!(Geometry::of_text(0x2000, 0x1000), None);
        assert_eq!(Geometry::of_text(0, u64::MAX), None);
    }

    #[test]
    fn every_counter_is_in_the_bin_where_gprof_looks_for_its_middle() {
        for text_bytes in (4..4000_u64).step_by(4).chain([(1 << 32) - 4]) {
            let geometry = Geometry::of_text(0x40_0000, 0x40_0000 + text_bytes).expect("some text");
            let bin_of = |counter: u64| (4 * counter + 2) * u64::from(geometry.nbins) / text_bytes;
            for counter in (0..text_bytes / 4).rev().take(1000) {
                assert_eq!(geometry.counter_in(bin_of(counter) as u32), Some(counter as usize), "{text_bytes}");
            }
        }
    }

    #[test]
    fn no_count_is_lost_or_doubled() {
        for text_bytes in (4..400_u64).step_by(4) {
            let geometry = Geometry::of_text(0x40_0000, 0x40_0000 + text_bytes).expect("some text");
            let histogram = Histogram::new(geometry, 100).expect("memory");
            for counter in 0..geometry.counters() {
                // SAFETY: below the number of counters, and nobody else has them.
                unsafe { histogram.counters.add(counter).write(counter as u32 + 1) };
            }
            let counted: Vec<_> = histogram.bins().filter(|count| *count > 0).collect();
            assert_eq!(counted, (1..=geometry.counters() as u32).collect::<Vec<_>>(), "{text_bytes}");
            assert_eq!(histogram.bins().count(), geometry.nbins as usize);
            histogram.discard();
        }
    }
}
