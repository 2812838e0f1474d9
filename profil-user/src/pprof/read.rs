//! Reads pprof files: those of profil, and those of others (the Go runtime, perf_to_profile, pprof-rs).

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;

use super::error::{Found, ReadError};
use super::fields::Fields;
use super::tables::Tables;
use crate::profile::Profile;

/// Most bytes of a decompressed profile: 1 GiB.
pub const MAX_BYTES: u64 = 1 << 30;

/// The first bytes of gzip data.
pub const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Reads the profile in a file; see [`read`].
///
/// # Errors
/// Those of [`read`], and those of opening the file.
pub fn read_file(path: &Path) -> Result<Profile, ReadError> {
    let file = File::open(path).map_err(|source| ReadError::Io { offset: 0, source })?;
    read(BufReader::with_capacity(1 << 16, file))
}

/// Reads a profile, gzipped or plain.
///
/// Ticks are the values of the sample type `samples/count`, else of the first count that is one of ticks by its name
/// (`cycles_sample/count`), else the values of a CPU time type divided by the period; a profile of memory or waits has
/// none. The profile is made flat: a sample counts for its leaf. Samples
/// without ticks are left out. Labels say process, thread and mode where they are there.
///
/// Reads in a stream and refuses what claims to be larger than a profile can sensibly be, so memory stays bounded.
///
/// # Errors
/// The stream fails, is no profile, is damaged, or counts nothing that could be ticks.
pub fn read(mut stream: impl BufRead) -> Result<Profile, ReadError> {
    let head = stream.fill_buf().map_err(|source| ReadError::Io { offset: 0, source })?;
    if head.is_empty() {
        return Err(ReadError::Empty);
    }
    if head.starts_with(&GZIP_MAGIC) {
        let mut inner = BufReader::with_capacity(1 << 16, MultiGzDecoder::new(stream));
        let head = inner.fill_buf().map_err(|source| ReadError::Gzip { offset: 0, source })?;
        if head.is_empty() {
            return Err(ReadError::Empty);
        }
        let found = Found::sniff(&head[..head.len().min(64)]);
        return read_plain(inner, found);
    }
    let found = Found::sniff(&head[..head.len().min(64)]);
    read_plain(stream, found)
}

/// Reads the decompressed form; `found` names what the file is if it proves to be no profile.
fn read_plain(stream: impl BufRead, found: Found) -> Result<Profile, ReadError> {
    let not_a_profile = ReadError::NotAProfile { found };
    if !matches!(found, Found::Text | Found::Other) {
        return Err(not_a_profile);
    }
    let mut fields = Fields::new(stream, MAX_BYTES);
    let mut tables = Tables::default();
    loop {
        let taken = match fields.next() {
            Ok(None) => break,
            Ok(Some(field)) => tables.take(&field),
            Err(error) => Err(error),
        };
        match taken {
            Ok(()) => {}
            // Without a sample type so far, the file is more likely something else than a damaged profile.
            Err(ReadError::Malformed { .. } | ReadError::TooLarge { .. } | ReadError::Truncated { .. })
                if !tables.has_sample_type() =>
            {
                return Err(not_a_profile);
            }
            Err(error) => return Err(error),
        }
    }
    if !tables.has_sample_type() {
        return Err(not_a_profile);
    }
    tables.into_profile(fields.offset())
}
