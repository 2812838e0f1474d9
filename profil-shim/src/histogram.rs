//! The histogram of a program built with -pg, with libc's geometry.

use core::ptr::null_mut;
use core::slice;

use profil_common::wire::Area;

/// Bytes of text that libc rounds the ends of the text to: HISTFRACTION x sizeof (HISTCOUNTER).
const TEXT_STEP: u64 = 4;

/// Bins of 16 bits that libc rounds their number to, so that what follows them in its memory is aligned.
const BIN_STEP: u64 = (size_of::<*const u8>() / size_of::<u16>()) as u64;

/// Which pcs the bins of libc's histogram stand for.
///
/// Source: glibc gmon/gmon.c, `__monstartup`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Lowest pc (AVMA).
    pub low_pc: u64,
    /// Highest pc (AVMA), exclusive.
    pub high_pc: u64,
    /// Number of bins, each for about [`TEXT_STEP`] bytes.
    pub nbins: u32,
}

impl Geometry {
    /// The geometry that libc makes of the ends of the text; `None` when there is no text, or too much.
    pub fn of_text(low_pc: u64, high_pc: u64) -> Option<Geometry> {
        let low_pc = low_pc - low_pc % TEXT_STEP;
        let high_pc = high_pc.checked_next_multiple_of(TEXT_STEP)?;
        let bins = high_pc.checked_sub(low_pc)?.div_ceil(TEXT_STEP).next_multiple_of(BIN_STEP);
        let nbins = u32::try_from(bins).ok().filter(|nbins| *nbins > 0)?;
        Some(Geometry { low_pc, high_pc, nbins })
    }

    /// The scale that spreads counters of 32 bits over the text as gprof(1) will: `nbins` equal parts.
    pub fn scale(self) -> u64 {
        let text_bytes = self.high_pc.saturating_sub(self.low_pc);
        let covered_bytes = u64::from(self.nbins).saturating_mul(TEXT_STEP);
        (covered_bytes << 16).checked_div(text_bytes).unwrap_or_default()
    }
}

/// Counters of 32 bits, which do not wrap in a run of any length, in memory of their own.
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
        let memory = unsafe { libc::mmap(null_mut(), bytes(geometry), protection, flags, -1, 0) };
        (memory != libc::MAP_FAILED).then(|| Histogram { geometry, counters: memory.cast(), rate })
    }

    /// The area that counts into it.
    pub fn area(&self) -> Area {
        Area {
            buffer: self.counters as u64,
            bytes: bytes(self.geometry) as u64,
            offset: self.geometry.low_pc,
            scale: self.geometry.scale(),
        }
    }

    /// The counts, of a histogram into which nobody counts any more.
    pub fn counts(&self) -> &[u32] {
        // SAFETY: `new` mapped that many counters, which stay until `discard`.
        unsafe { slice::from_raw_parts(self.counters, self.geometry.nbins as usize) }
    }

    /// Gives the memory back. Dropping keeps it, for whoever may still write to it.
    pub fn discard(self) {
        // SAFETY: `new` mapped these bytes, and nobody counts into them any more.
        unsafe { libc::munmap(self.counters.cast(), bytes(self.geometry)) };
    }
}

fn bytes(geometry: Geometry) -> usize {
    (geometry.nbins as usize).saturating_mul(size_of::<u32>())
}

#[cfg(test)]
mod tests {
    use profil_common::{Convention, Region, Request};

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
    fn every_pc_of_the_text_has_the_bin_where_gprof_looks_for_it() {
        for text_bytes in (4..4000_u64).step_by(4) {
            let geometry = Geometry::of_text(0x40_0000, 0x40_0000 + text_bytes).expect("some text");
            let request = Request {
                offset: geometry.low_pc,
                scale: geometry.scale() as u32,
                bufsiz: bytes(geometry) as u64,
                width: 4,
            };
            let region = Region::new(Convention::Glibc, request).expect("valid").expect("on");
            for d in (0..text_bytes).step_by(4) {
                let bin = u64::from(region.bin_of(geometry.low_pc + d).expect("in the text"));
                let wanted = d * u64::from(geometry.nbins) / text_bytes;
                assert!(bin == wanted || bin + 1 == wanted, "{text_bytes}: {d} is in {bin}, not in {wanted}");
            }
        }
    }
}
