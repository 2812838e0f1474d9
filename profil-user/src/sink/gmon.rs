//! Writes histograms as a `gmon.out` that GNU gprof reads.
//!
//! Addresses in the file are those of the object that gprof is given (SVMA), so there is one file for each object.
//! gprof wants every histogram of a file to have the same scale, and splits a bin that straddles two functions by
//! arithmetic in `double`; only bins of a power of two bytes are written, on which that arithmetic is exact.
//! A region of another scale is refused rather than re-binned: re-binning moves ticks to addresses where none fell.
//!
//! # Source
//! `gmon_out.h` of glibc, `gprof/hist.c` of binutils 2.40.

use std::io::{self, Write};

use profil_common::Region;

/// Largest count that a bin of the file can hold.
const BIN_MAX: u64 = u16::MAX as u64;

/// Bins of a piece of a histogram whose counts need several records.
const PIECE_BINS: usize = 1024;

/// Most bytes of a file: counts so large that repeats would exceed it are refused.
const MAX_FILE_BYTES: u64 = 1 << 30;

/// Bytes of a histogram record before its bins.
const RECORD_HEADER_BYTES: u64 = 1 + 8 + 8 + 4 + 4 + 16;

/// Why histograms make no `gmon.out`.
#[derive(Debug, thiserror::Error)]
pub enum GmonError {
    /// Bins are no power of two bytes wide, or narrower than gprof's unit of 2.
    #[error(
        "cannot write gmon.out: bins of {bytes_per_bin} bytes; gprof needs a power of two from 2 up, so use a scale that is one, such as 65536"
    )]
    BinBytes {
        /// Text bytes of a bin, rounded down.
        bytes_per_bin: u64,
    },
    /// Histograms of one file differ in the width of their bins.
    #[error(
        "cannot write gmon.out: bins of {first} and of {other} bytes; gprof needs one width for all regions of a file"
    )]
    MixedBins {
        /// Width in the first histogram, bytes.
        first: u64,
        /// Width in another one, bytes.
        other: u64,
    },
    /// Two histograms claim the same address.
    #[error("cannot write gmon.out: two regions overlap at {address:#x}, which gprof refuses")]
    Overlap {
        /// First address of the overlap.
        address: u64,
    },
    /// A histogram reaches past the end of the address space, or begins below the load bias.
    #[error("cannot write gmon.out: the region at {low_pc:#x} leaves the address space")]
    Range {
        /// First address of the histogram.
        low_pc: u64,
    },
    /// The counts need too many repeats.
    #[error("cannot write gmon.out: its 16-bit bins need {bytes} bytes for these counts; write a pprof file instead")]
    TooLarge {
        /// Size that the file would have.
        bytes: u64,
    },
    /// Writing failed.
    #[error("cannot write gmon.out")]
    Io {
        /// The system's reason.
        #[from]
        source: io::Error,
    },
}

/// Ticks of consecutive, equally wide pieces of an object's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GmonHistogram {
    /// First address (SVMA); bin 0 begins here.
    pub low_pc: u64,
    /// Bytes of text of a bin: a power of two, 2 or more.
    pub bytes_per_bin: u64,
    /// Ticks, in ascending order of address.
    pub bins: Vec<u64>,
}

impl GmonHistogram {
    /// The histogram of a region whose bins were counted, moved from AVMA to SVMA by `load_bias`.
    ///
    /// Bins of one byte, which CLIX's "one-to-one" scale gives, are added up in pairs: gprof counts in units of 2.
    ///
    /// # Errors
    /// The region's scale gives bins that are no power of two bytes wide.
    pub fn from_region(region: &Region, bins: Vec<u64>, load_bias: u64) -> Result<GmonHistogram, GmonError> {
        // bin = ((distance >> pre_shift) * multiplier / 65536) >> post_shift, so with a multiplier of 2^n a bin is
        // 2^(pre_shift + 16 + post_shift - n) bytes.
        let Region { offset, multiplier, pre_shift, post_shift, .. } = *region;
        let shift = pre_shift + 16 + post_shift;
        let bytes_per_bin = match multiplier {
            0 => u64::MAX,
            _ => (1u64 << shift) / u64::from(multiplier),
        };
        if !multiplier.is_power_of_two() || bytes_per_bin == 0 {
            return Err(GmonError::BinBytes { bytes_per_bin });
        }
        let low_pc = offset.checked_sub(load_bias).ok_or(GmonError::Range { low_pc: offset })?;
        if bytes_per_bin == 1 {
            let bins = bins.chunks(2).map(|pair| pair.iter().sum()).collect();
            return Ok(GmonHistogram { low_pc, bytes_per_bin: 2, bins });
        }
        Ok(GmonHistogram { low_pc, bytes_per_bin, bins })
    }

    /// First address past the last bin.
    fn high_pc(&self) -> Result<u64, GmonError> {
        let bytes = (self.bins.len() as u64).checked_mul(self.bytes_per_bin);
        let end = bytes.and_then(|bytes| self.low_pc.checked_add(bytes));
        end.ok_or(GmonError::Range { low_pc: self.low_pc })
    }

    /// The histogram in pieces; in one when no count needs a second record.
    ///
    /// gprof adds up records of the same range, so a count above 65,535 is written as repeats. Without pieces, one
    /// hot bin would repeat the whole region.
    fn pieces(&self) -> impl Iterator<Item = (u64, &[u64])> {
        let fits = self.bins.iter().all(|bin| *bin <= BIN_MAX);
        let size = if fits { self.bins.len().max(1) } else { PIECE_BINS };
        let bytes = size as u64 * self.bytes_per_bin;
        self.bins.chunks(size).enumerate().map(move |(index, bins)| (self.low_pc + index as u64 * bytes, bins))
    }
}

/// Writes the histograms of one object; `hz` is the rate at which the ticks came.
///
/// # Errors
/// The histograms do not go together in one file, or writing fails.
pub fn write(histograms: &[GmonHistogram], hz: u32, mut to: impl Write) -> Result<(), GmonError> {
    check(histograms)?;
    to.write_all(b"gmon")?;
    to.write_all(&1u32.to_ne_bytes())?;
    to.write_all(&[0; 12])?;
    for histogram in histograms {
        for (low_pc, bins) in histogram.pieces() {
            let high_pc = low_pc + bins.len() as u64 * histogram.bytes_per_bin;
            for repeat in 0..repeats(bins) {
                write_record(low_pc..high_pc, bins, repeat, hz, &mut to)?;
            }
        }
    }
    Ok(to.flush()?)
}

fn write_record(
    text: std::ops::Range<u64>,
    bins: &[u64],
    repeat: u64,
    hz: u32,
    to: &mut impl Write,
) -> Result<(), GmonError> {
    to.write_all(&[0])?;
    to.write_all(&text.start.to_ne_bytes())?;
    to.write_all(&text.end.to_ne_bytes())?;
    to.write_all(&(bins.len() as u32).to_ne_bytes())?;
    to.write_all(&hz.to_ne_bytes())?;
    to.write_all(b"seconds\0\0\0\0\0\0\0\0s")?;
    for bin in bins {
        // What the records before this one have not written yet, as far as it fits.
        let count = bin.saturating_sub(repeat * BIN_MAX).min(BIN_MAX) as u16;
        to.write_all(&count.to_ne_bytes())?;
    }
    Ok(())
}

/// Records that the largest count of a piece needs; at least one, so that the range is there for gprof.
fn repeats(bins: &[u64]) -> u64 {
    bins.iter().max().map_or(0, |max| max.div_ceil(BIN_MAX).max(1))
}

fn check(histograms: &[GmonHistogram]) -> Result<(), GmonError> {
    let mut bytes = 20u64;
    let mut ranges = Vec::with_capacity(histograms.len());
    for histogram in histograms {
        let GmonHistogram { low_pc, bytes_per_bin, bins: _ } = histogram;
        if !bytes_per_bin.is_power_of_two() || *bytes_per_bin < 2 {
            return Err(GmonError::BinBytes { bytes_per_bin: *bytes_per_bin });
        }
        let first = histograms[0].bytes_per_bin;
        if *bytes_per_bin != first {
            return Err(GmonError::MixedBins { first, other: *bytes_per_bin });
        }
        ranges.push((*low_pc, histogram.high_pc()?));
        for (_, bins) in histogram.pieces() {
            let record = RECORD_HEADER_BYTES + 2 * bins.len() as u64;
            bytes = bytes.saturating_add(repeats(bins).saturating_mul(record));
        }
    }
    ranges.sort_unstable();
    for pair in ranges.windows(2) {
        if pair[1].0 < pair[0].1 {
            return Err(GmonError::Overlap { address: pair[1].0 });
        }
    }
    if bytes > MAX_FILE_BYTES { Err(GmonError::TooLarge { bytes }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::path::Path;
    use std::process::Command;

    use profil_common::{Convention, Request};

    use super::*;

    fn written(histograms: &[GmonHistogram]) -> Vec<u8> {
        let mut file = Vec::new();
        write(histograms, 100, &mut file).expect("histograms that go together");
        file
    }

    fn histogram(low_pc: u64, bytes_per_bin: u64, bins: &[u64]) -> GmonHistogram {
        GmonHistogram { low_pc, bytes_per_bin, bins: bins.to_vec() }
    }

    #[test]
    fn a_record_has_the_layout_of_gmon_out_h() {
        let file = written(&[histogram(0x1000, 4, &[1, 0x203])]);
        assert_eq!(file[..20], *b"gmon\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
        let record =
            b"\0\x00\x10\0\0\0\0\0\0\x08\x10\0\0\0\0\0\0\x02\0\0\0\x64\0\0\0seconds\0\0\0\0\0\0\0\0s\x01\0\x03\x02";
        assert_eq!(file[20..], *record);
    }

    #[test]
    fn a_count_above_16_bits_is_repeated_for_its_piece_only() {
        let mut bins = vec![0; 4 * PIECE_BINS];
        bins[PIECE_BINS] = 3 * BIN_MAX + 5;
        let file = written(&[histogram(0, 2, &bins)]);
        let piece = RECORD_HEADER_BYTES as usize + 2 * PIECE_BINS;
        assert_eq!(file.len(), 20 + (3 + 4) * piece);
    }

    #[test]
    fn what_gprof_would_refuse_is_refused() {
        let error = |histograms: &[GmonHistogram]| write(histograms, 100, io::sink()).unwrap_err();
        let low = histogram(0x1000, 4, &[1, 1]);
        assert!(matches!(error(&[low.clone(), histogram(0x1004, 4, &[1])]), GmonError::Overlap { address: 0x1004 }));
        assert!(matches!(error(&[low, histogram(0x2000, 8, &[1])]), GmonError::MixedBins { first: 4, other: 8 }));
        assert!(matches!(error(&[histogram(0, 6, &[1])]), GmonError::BinBytes { bytes_per_bin: 6 }));
        assert!(matches!(error(&[histogram(u64::MAX - 1, 2, &[1])]), GmonError::Range { .. }));
        assert!(matches!(error(&[histogram(0, 2, &[u64::MAX])]), GmonError::TooLarge { .. }));
    }

    #[test]
    fn a_region_gives_its_bytes_per_bin_or_is_refused() {
        let of = |convention, scale| {
            let request = Request { offset: 0x5000, scale, bufsiz: 8, width: 2 };
            let region = Region::new(convention, request).unwrap().unwrap();
            let bin = region.addrs_of(1);
            let histogram = GmonHistogram::from_region(&region, vec![1, 2, 3, 4], 0x4000)?;
            Ok::<_, GmonError>((histogram, bin))
        };
        for convention in [Convention::Bsd, Convention::Linux, Convention::Glibc] {
            let (histogram, bin) = of(convention, 0x4000).unwrap();
            assert_eq!((histogram.low_pc, histogram.bytes_per_bin), (0x1000, 8));
            assert_eq!(bin, Some(0x5008..=0x500f), "the same bytes as the counting");
            assert!(matches!(of(convention, 32821), Err(GmonError::BinBytes { bytes_per_bin: 3 })));
        }
        let (one_to_one, _) = of(Convention::Clix, 0o177777).unwrap();
        assert_eq!((one_to_one.bytes_per_bin, one_to_one.bins), (2, vec![3, 7]));
        assert!(of(Convention::Glibc, 0).is_err());
    }

    const PROGRAM: &str = "
        volatile long sink;
        __attribute__((noinline)) void hot(void) { for (long i = 0; i < 10; i++) sink += i * i; }
        __attribute__((noinline)) void cold(void) { for (long i = 0; i < 10; i++) sink ^= i + 3; }
        int main(void) { hot(); cold(); return 0; }";

    fn run(command: &mut Command) -> String {
        let output = command.output().unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
        assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("these tools print ASCII")
    }

    /// Addresses of functions, by nm.
    fn symbols(program: &Path) -> HashMap<String, u64> {
        let text = run(Command::new("nm").arg(program));
        let line = |line: &str| {
            let [address, kind, name] = line.split_whitespace().collect::<Vec<_>>().try_into().ok()?;
            (kind.eq_ignore_ascii_case("t")).then(|| (name.to_owned(), u64::from_str_radix(address, 16).unwrap()))
        };
        text.lines().filter_map(line).collect()
    }

    /// Seconds of functions in gprof's flat profile.
    fn gprof(program: &Path, gmon: &Path) -> HashMap<String, f64> {
        let text = run(Command::new("gprof").args(["-b", "-p"]).args([program, gmon]));
        let line = |line: &str| {
            let words: Vec<_> = line.split_whitespace().collect();
            Some((words.last()?.to_string(), words.get(2)?.parse().ok()?))
        };
        text.lines().filter_map(line).collect()
    }

    #[test]
    fn gprof_charges_the_ticks_to_their_functions() {
        let directory = tempfile::tempdir().unwrap();
        let source = directory.path().join("program.c");
        std::fs::write(&source, PROGRAM).unwrap();
        for (kind, flags) in [("fixed", ["-no-pie", "-fno-pie"]), ("pie", ["-pie", "-fPIE"])] {
            let program = directory.path().join(kind);
            run(Command::new("gcc").args(["-O1", "-o"]).arg(&program).args(flags).arg(&source));
            let symbols = symbols(&program);
            let base = symbols["_init"] & !0xfff;
            // A region as profil(2) would have it in a process where the program was loaded 0x7000_0000 higher.
            let bias = if kind == "pie" { 0x7000_0000 } else { 0 };
            let request = Request { offset: base + bias, scale: 0x8000, bufsiz: 0x2000, width: 2 };
            let region = Region::new(Convention::Glibc, request).unwrap().unwrap();
            let mut bins = vec![0; region.nbins as usize];
            // More ticks than a bin of the file holds, on the second instruction's bin of one function.
            for (name, ticks) in [("hot", 200_000), ("cold", 1_500)] {
                let bin = region.bin_of((symbols[name] + bias + 7) & !3).expect("the region has the whole text");
                bins[bin as usize] += ticks;
            }
            let gmon = directory.path().join("gmon.out");
            let histogram = GmonHistogram::from_region(&region, bins, bias).unwrap();
            std::fs::write(&gmon, written(&[histogram])).unwrap();
            let seconds = gprof(&program, &gmon);
            assert_eq!((seconds["hot"], seconds["cold"]), (2000.0, 15.0), "{kind}: {seconds:?}");
        }
    }
}
