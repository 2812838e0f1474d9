//! The histogram record of a gmon.out that libc has just written.
//!
//! Source: glibc gmon/sys/gmon_out.h and gmon/gmon.c, `write_gmon` and `write_hist`.

use core::ffi::CStr;

use libc::{c_int, c_void, off_t};

use crate::descriptor::Descriptor;
use crate::errno;
use crate::histogram::Histogram;

/// Cookie, version, spare bytes.
const FILE_HEADER_BYTES: usize = 20;
/// Tag, `low_pc`, `high_pc`, number of bins, rate, dimension and its abbreviation.
const RECORD_HEADER_BYTES: usize = 1 + 8 + 8 + 4 + 4 + 15 + 1;
/// Where the rate is in the header of the record.
const RATE_AT: usize = 1 + 8 + 8 + 4;
/// Where the bins of the first record begin.
const BINS_AT: usize = FILE_HEADER_BYTES + RECORD_HEADER_BYTES;
/// Largest count of one record; gprof(1) adds up records of the same text.
const LARGEST: u32 = u16::MAX as u32;
/// Bins that are written at once.
const CHUNK: usize = 1024;

/// Why a file stays as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// It cannot be read or written.
    Io(c_int),
    /// It is no gmon.out, or not the one of this process: its first record is another one.
    Other,
}

/// Puts the counts and the rate of a histogram in the place of those in a file.
///
/// `load_bias` is subtracted from pcs: the file has addresses of the object (SVMA).
///
/// # Errors
/// [`Unfit`]; a file that is not the expected one is not touched.
pub fn replace_histogram(path: &CStr, histogram: &Histogram, load_bias: u64) -> Result<(), Unfit> {
    let flags = libc::O_RDWR | libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK;
    // SAFETY: the path ends in NUL.
    let fd = unsafe { libc::open(path.as_ptr(), flags) };
    if fd < 0 {
        return Err(Unfit::Io(errno::get()));
    }
    let file = Descriptor::own(fd).map_err(Unfit::Io)?;
    let header = RecordHeader::of(histogram, load_bias);
    let length = check(&file, &header, histogram.geometry.nbins as usize)?;

    write_bins(&file, BINS_AT, histogram, 0)?;
    write(&file, FILE_HEADER_BYTES + RATE_AT, &histogram.rate.to_ne_bytes())?;
    let added = add_records(&file, length, &header, histogram);
    if added.is_err() {
        // SAFETY: the descriptor is open; this takes away only what was just added.
        unsafe { libc::ftruncate(file.number(), length as off_t) };
    }
    added
}

/// The file is libc's of this process: its length.
fn check(file: &Descriptor, wanted: &RecordHeader, nbins: usize) -> Result<usize, Unfit> {
    // SAFETY: a structure of integers may be 0.
    let mut status: libc::stat = unsafe { core::mem::zeroed() };
    // SAFETY: the status is valid for writes.
    if unsafe { libc::fstat(file.number(), &raw mut status) } != 0 {
        return Err(Unfit::Io(errno::get()));
    }
    let mut start = [0_u8; BINS_AT];
    // SAFETY: `start` is valid for writes of its length.
    let read = unsafe { libc::pread(file.number(), start.as_mut_ptr().cast::<c_void>(), start.len(), 0) };
    let length = usize::try_from(status.st_size).map_err(|_| Unfit::Other)?;
    let is_regular = status.st_mode & libc::S_IFMT == libc::S_IFREG;
    let is_long_enough = length >= BINS_AT.saturating_add(nbins.saturating_mul(size_of::<u16>()));
    let is_whole = usize::try_from(read) == Ok(start.len());
    let (file_header, record_header) = start.split_at_checked(FILE_HEADER_BYTES).ok_or(Unfit::Other)?;
    let is_gmon = file_header.starts_with(b"gmon\x01\0\0\0") || file_header.starts_with(b"gmon\0\0\0\x01");
    if is_regular && is_long_enough && is_whole && is_gmon && wanted.matches_but_for_rate(record_header) {
        Ok(length)
    } else {
        Err(Unfit::Other)
    }
}

/// Adds a record for each further [`LARGEST`] ticks that a bin has.
fn add_records(file: &Descriptor, length: usize, header: &RecordHeader, histogram: &Histogram) -> Result<(), Unfit> {
    let most = histogram.bins().max().unwrap_or_default();
    let mut at = length;
    for round in 1..=most.saturating_sub(1) / LARGEST {
        write(file, at, &header.bytes)?;
        at = write_bins(file, at.saturating_add(RECORD_HEADER_BYTES), histogram, round)?;
    }
    Ok(())
}

/// Writes what the record of this round carries of each count: where it ends.
fn write_bins(file: &Descriptor, start: usize, histogram: &Histogram, round: u32) -> Result<usize, Unfit> {
    let mut at = start;
    let mut bins = histogram.bins().map(|count| count.saturating_sub(round.saturating_mul(LARGEST)).min(LARGEST));
    loop {
        let mut bytes = [0_u8; CHUNK * size_of::<u16>()];
        let mut filled = 0_usize;
        for (place, bin) in bytes.chunks_exact_mut(size_of::<u16>()).zip(&mut bins) {
            place.copy_from_slice(&(bin as u16).to_ne_bytes());
            filled = filled.saturating_add(size_of::<u16>());
        }
        if filled == 0 {
            return Ok(at);
        }
        write(file, at, bytes.get(..filled).unwrap_or_default())?;
        at = at.saturating_add(filled);
    }
}

fn write(file: &Descriptor, at: usize, bytes: &[u8]) -> Result<(), Unfit> {
    let (mut at, mut rest) = (at, bytes);
    while !rest.is_empty() {
        // SAFETY: `rest` is valid for reads of its length.
        let written = unsafe { libc::pwrite(file.number(), rest.as_ptr().cast::<c_void>(), rest.len(), at as off_t) };
        match usize::try_from(written) {
            Ok(0) => return Err(Unfit::Io(libc::ENOSPC)),
            Ok(written) => {
                at = at.saturating_add(written);
                rest = rest.get(written..).unwrap_or_default();
            }
            Err(_) if errno::get() == libc::EINTR => {}
            Err(_) => return Err(Unfit::Io(errno::get())),
        }
    }
    Ok(())
}

/// The header of a histogram record.
#[derive(Debug)]
struct RecordHeader {
    bytes: [u8; RECORD_HEADER_BYTES],
}

impl RecordHeader {
    fn of(histogram: &Histogram, load_bias: u64) -> RecordHeader {
        let geometry = histogram.geometry;
        let mut bytes = [0; RECORD_HEADER_BYTES];
        let fields = [0_u8]
            .into_iter()
            .chain(geometry.low_pc.wrapping_sub(load_bias).to_ne_bytes())
            .chain(geometry.high_pc.wrapping_sub(load_bias).to_ne_bytes())
            .chain(geometry.nbins.to_ne_bytes())
            .chain(histogram.rate.to_ne_bytes())
            .chain(*b"seconds\0\0\0\0\0\0\0\0s");
        for (place, byte) in bytes.iter_mut().zip(fields) {
            *place = byte;
        }
        RecordHeader { bytes }
    }

    fn matches_but_for_rate(&self, found: &[u8]) -> bool {
        let is_rate = |at: usize| (RATE_AT..RATE_AT + size_of::<u32>()).contains(&at);
        found.len() == self.bytes.len()
            && self.bytes.iter().zip(found).enumerate().all(|(at, (wanted, found))| wanted == found || is_rate(at))
    }
}

#[cfg(test)]
mod tests;
