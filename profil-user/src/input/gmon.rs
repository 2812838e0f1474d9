//! gmon.out, version 1: histograms of 16-bit counters, written by programs built with -pg, by the export, and by others.
//!
//! A file has histograms, arcs (who called whom how often) and basic-block counts; the latter two are no ticks and are
//! passed over. What is not in it: the program, processes, CPU time, and ticks that fell outside of the histograms.
//!
//! # Source
//! `gmon_out.h` of glibc; `gprof/hist.c`, `call_graph.c` and `basic_blocks.c` of binutils 2.40.

use std::collections::BTreeMap;
use std::io::{BufRead, Read};

use super::error::{self, GmonFault, InputError};
use super::gathering::MAX_TABLE_BYTES;

/// Object of a profile from a gmon.out that belongs to no known program.
pub const UNNAMED_OBJECT: &str = "[unknown]";

/// Memory that one bin with ticks takes, bytes.
const BIN_BYTES: u64 = 64;

/// `seconds`, the one dimension that is a time.
const SECONDS: &[u8] = b"seconds";

/// A bin with ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bin {
    /// First address (SVMA).
    pub start: u64,
    /// First address past the end; at least one more.
    pub end: u64,
    /// Ticks.
    pub ticks: u64,
}

/// What a gmon.out says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gmon {
    /// First address of each histogram and first address past its end, ascending.
    pub ranges: Vec<(u64, u64)>,
    /// Bins with ticks, by their histograms, and in ascending order of address.
    pub bins: Vec<Bin>,
    /// Ticks for each second of CPU time; `None` when there is no histogram, or it counts something else than seconds.
    pub hz: Option<u32>,
}

/// Reads a gmon.out.
///
/// # Errors
/// The stream fails, or the file is damaged or of another kind than 64-bit little-endian.
pub fn read(stream: impl BufRead) -> Result<Gmon, InputError> {
    let mut bytes = Bytes { stream, offset: 0, begin: 0 };
    let _magic: [u8; 4] = bytes.take()?;
    match u32::from_le_bytes(bytes.take()?) {
        1 => {}
        0x0100_0000 => return Err(InputError::Gmon { offset: 4, fault: GmonFault::BigEndian }),
        version => return Err(InputError::Gmon { offset: 4, fault: GmonFault::Version { version } }),
    }
    let _spare: [u8; 12] = bytes.take()?;
    let mut histograms = Histograms::default();
    while let Some(tag) = bytes.tag()? {
        match tag {
            0 => histograms.read(&mut bytes)?,
            1 => {
                // Caller, callee, times.
                let _arc: [u8; 20] = bytes.take()?;
            }
            2 => {
                let blocks = u32::from_le_bytes(bytes.take()?);
                // Address and times of each.
                bytes.skip(u64::from(blocks) * 16)?;
            }
            tag => return Err(bytes.fault(GmonFault::Tag { tag })),
        }
    }
    Ok(histograms.into_gmon())
}

/// The bytes of a file, and where the reading is.
struct Bytes<R> {
    stream: R,
    offset: u64,
    /// Where the record being read begins.
    begin: u64,
}

impl<R: BufRead> Bytes<R> {
    /// The first byte of the next record; `None` at the end of the file.
    fn tag(&mut self) -> Result<Option<u8>, InputError> {
        self.begin = self.offset;
        let is_end = self.stream.fill_buf().map_err(|source| error::of_stream(self.offset, source))?.is_empty();
        if is_end { Ok(None) } else { self.take().map(|[tag]: [u8; 1]| Some(tag)) }
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], InputError> {
        let mut bytes = [0; N];
        let mut filled = 0;
        while filled < N {
            let read = self.stream.read(&mut bytes[filled..]);
            match read {
                Ok(0) => return Err(self.cut()),
                Ok(read) => {
                    filled += read;
                    self.offset += read as u64;
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(source) => return Err(error::of_stream(self.offset, source)),
            }
        }
        Ok(bytes)
    }

    fn skip(&mut self, bytes: u64) -> Result<(), InputError> {
        let skipped = std::io::copy(&mut (&mut self.stream).take(bytes), &mut std::io::sink());
        let skipped = skipped.map_err(|source| error::of_stream(self.offset, source))?;
        self.offset += skipped;
        if skipped < bytes { Err(self.cut()) } else { Ok(()) }
    }

    fn cut(&self) -> InputError {
        InputError::Gmon { offset: self.offset, fault: GmonFault::Cut { begin: self.begin } }
    }

    /// A fault of the record being read.
    fn fault(&self, fault: GmonFault) -> InputError {
        InputError::Gmon { offset: self.begin, fault }
    }
}

/// What was read so far.
#[derive(Default)]
struct Histograms {
    /// Bins with ticks by number, for each range; with the range's number of bins.
    ranges: BTreeMap<(u64, u64), (u32, BTreeMap<u32, u64>)>,
    rate: Option<(u32, bool)>,
    /// Memory that the bins take, bytes.
    bytes: u64,
}

impl Histograms {
    fn read(&mut self, from: &mut Bytes<impl BufRead>) -> Result<(), InputError> {
        // Two addresses, number of bins, rate, the dimension's name and letter.
        let header: [u8; 40] = from.take()?;
        let u64_at = |at: usize| header[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        let u32_at = |at: usize| header[at..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
        let (low, high, count, hz) = (u64_at(0), u64_at(8), u32_at(16), u32_at(20));
        if header[16..].starts_with(SECONDS) {
            return Err(from.fault(GmonFault::Narrow));
        }
        if low >= high || count == 0 || u64::from(count) > (high - low).saturating_mul(2) {
            return Err(from.fault(GmonFault::Range { low, high, bins: count }));
        }
        if hz == 0 {
            return Err(from.fault(GmonFault::NoRate));
        }
        let rate = (hz, header[24..39].starts_with(SECONDS));
        let first = *self.rate.get_or_insert(rate);
        if first != rate {
            return Err(from.fault(GmonFault::MixedRates { first: first.0, other: hz }));
        }
        self.check_overlap(low, high, count).map_err(|fault| from.fault(fault))?;
        let Histograms { ranges, bytes, .. } = self;
        let (_, bins) = ranges.entry((low, high)).or_insert_with(|| {
            *bytes += BIN_BYTES;
            (count, BTreeMap::new())
        });
        for number in 0..count {
            let ticks = u64::from(u16::from_le_bytes(from.take()?));
            if ticks > 0 {
                let bin = bins.entry(number).or_insert_with(|| {
                    *bytes += BIN_BYTES;
                    0
                });
                *bin = bin.saturating_add(ticks);
            }
            if *bytes > MAX_TABLE_BYTES {
                return Err(InputError::TooLarge { asked: *bytes, limit: MAX_TABLE_BYTES, at: from.begin });
            }
        }
        Ok(())
    }

    /// Records of one range are added up, as by gprof: that is how a count above 16 bits is written.
    fn check_overlap(&self, low: u64, high: u64, count: u32) -> Result<(), GmonFault> {
        match self.ranges.get(&(low, high)) {
            Some((bins, _)) if *bins == count => return Ok(()),
            Some(_) => return Err(GmonFault::Overlap { address: low }),
            None => {}
        }
        // Ranges do not overlap, so the last one that begins before the end is the only one that can.
        let before = self.ranges.range(..(high, 0)).next_back();
        match before {
            Some(((_, end), _)) if *end > low => Err(GmonFault::Overlap { address: low }),
            _ => Ok(()),
        }
    }

    fn into_gmon(self) -> Gmon {
        let ranges: Vec<_> = self.ranges.keys().copied().collect();
        let bins = self.ranges.into_iter().flat_map(|((low, high), (count, bins))| {
            let edge = move |number: u64| {
                let part = u128::from(high - low) * u128::from(number) / u128::from(count);
                low + part as u64
            };
            bins.into_iter().map(move |(number, ticks)| {
                let start = edge(number.into());
                Bin { start, end: edge(u64::from(number) + 1).max(start.saturating_add(1)), ticks }
            })
        });
        Gmon { ranges, bins: bins.collect(), hz: self.rate.filter(|(_, seconds)| *seconds).map(|(hz, _)| hz) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sink::gmon::{GmonHistogram, write};

    fn written(histograms: &[(u64, &[u64])]) -> Vec<u8> {
        let histogram =
            |(low_pc, bins): &(u64, &[u64])| GmonHistogram { low_pc: *low_pc, bytes_per_bin: 4, bins: bins.to_vec() };
        let histograms: Vec<_> = histograms.iter().map(histogram).collect();
        let mut file = Vec::new();
        write(&histograms, 100, &mut file).expect("histograms that go together");
        file
    }

    fn fault(bytes: &[u8]) -> (u64, GmonFault) {
        match read(bytes) {
            Err(InputError::Gmon { offset, fault }) => (offset, fault),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_the_sink_writes_reads_back() {
        let gmon = read(&written(&[(0x1000, &[0, 5, 200_000]), (0x4000, &[7])])[..]).expect("our own file");
        let bin = |start, ticks| Bin { start, end: start + 4, ticks };
        assert_eq!(gmon.bins, [bin(0x1004, 5), bin(0x1008, 200_000), bin(0x4000, 7)]);
        assert_eq!((gmon.hz, gmon.ranges), (Some(100), vec![(0x1000, 0x100c), (0x4000, 0x4004)]));
    }

    #[test]
    fn arcs_and_basic_blocks_are_passed_over() {
        let mut file = written(&[(0x1000, &[3])]);
        let histogram = file.split_off(20);
        file.push(1);
        file.extend([0xaa; 20]);
        file.push(2);
        file.extend(2u32.to_le_bytes());
        file.extend([0xbb; 32]);
        file.extend(histogram);
        assert_eq!(read(&file[..]).expect("all records").bins.len(), 1);
    }

    #[test]
    fn a_file_cut_anywhere_says_where_its_record_begins() {
        let file = written(&[(0x1000, &[3, 4])]);
        for end in 4..file.len() {
            if end == 20 {
                continue;
            }
            let (offset, fault) = fault(&file[..end]);
            let begin = if end < 20 { 0 } else { 20 };
            assert_eq!((offset, fault), (end as u64, GmonFault::Cut { begin }));
        }
    }

    #[test]
    fn what_cannot_be_is_told_with_its_offset() {
        let file = written(&[(0x1000, &[3, 4])]);
        let changed = |at: usize, bytes: &[u8]| {
            let mut file = file.clone();
            file[at..at + bytes.len()].copy_from_slice(bytes);
            fault(&file)
        };
        assert_eq!(changed(4, &[2]), (4, GmonFault::Version { version: 2 }));
        assert_eq!(changed(4, &[0, 0, 0, 1]), (4, GmonFault::BigEndian));
        assert_eq!(changed(20, &[9]), (20, GmonFault::Tag { tag: 9 }));
        assert_eq!(changed(29, &[0; 8]), (20, GmonFault::Range { low: 0x1000, high: 0, bins: 2 }));
        assert_eq!(changed(41, &[0; 4]), (20, GmonFault::NoRate));
        assert_eq!(changed(37, b"seconds"), (20, GmonFault::Narrow));
        let overlapping = [&file[..], &written(&[(0x1004, &[1])])[20..]].concat();
        assert_eq!(fault(&overlapping), (file.len() as u64, GmonFault::Overlap { address: 0x1004 }));
    }

    #[test]
    fn a_claim_of_four_billion_bins_takes_no_memory() {
        let mut file = written(&[(0x1000, &[3, 4])]);
        file[29..37].copy_from_slice(&u64::MAX.to_le_bytes());
        file[37..41].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(matches!(fault(&file), (_, GmonFault::Cut { begin: 20 })));
    }
}
