//! Profiles from files of any format that the views read, recognised by their content and never by their name.
//!
//! | format | what is read |
//! |---|---|
//! | pprof, plain or gzipped | everything: [`crate::pprof`] |
//! | gmon.out, version 1 | histograms; arcs and basic blocks are passed over: [`gmon`] |
//! | the text of `perf script` | one tick for each event, at its innermost entry: [`perf_script`] |
//! | folded stacks | `a;b;c N`: N ticks in `c`: [`folded`] |
//!
//! Files are hostile: reading is a stream, lines and tables have limits, and each error says at which byte or line.

pub mod folded;
pub mod gmon;
pub mod perf_script;

mod error;
mod gathering;
mod gmon_names;
mod lines;
mod text;

use std::fs::File;
use std::io::{BufRead, BufReader, Cursor, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;

pub use error::{GmonFault, InputError, LineFault};
pub use gathering::MAX_TABLE_BYTES;
pub use gmon::UNNAMED_OBJECT;
pub use lines::{Lines, MAX_LINE_BYTES};

use crate::pprof::{self, Found, GZIP_MAGIC, MAX_BYTES, ReadError};
use crate::profile::Profile;
use text::TextFormat;

/// Bytes that a format is recognised by; more are looked at when they are text without a whole line.
const HEAD_BYTES: u64 = 64 * 1024;

/// What is known of a file beside its content.
#[derive(Clone, Copy, Debug, Default)]
pub struct Origin<'a> {
    /// Its path; `gmon.NAME.BUILDID.out` says which program a gmon.out belongs to.
    pub path: Option<&'a Path>,
    /// The program or library that a gmon.out belongs to.
    pub object: Option<&'a Path>,
}

/// Reads the profile in a file; see [`read`].
///
/// # Errors
/// Those of [`read`], and those of opening the file.
pub fn read_file(path: &Path, object: Option<&Path>) -> Result<Profile, InputError> {
    let file = File::open(path).map_err(|source| InputError::Io { offset: 0, source })?;
    read(BufReader::with_capacity(HEAD_BYTES as usize, file), Origin { path: Some(path), object })
}

/// Reads a profile of any format; gzipped or not.
///
/// # Errors
/// The stream fails, is in none of the formats, or is damaged.
pub fn read(stream: impl BufRead, origin: Origin<'_>) -> Result<Profile, InputError> {
    let (head, stream) = peek(stream)?;
    if !head.starts_with(&GZIP_MAGIC) {
        return read_plain(&head, stream, origin, u64::MAX);
    }
    let (head, stream) = peek(BufReader::with_capacity(HEAD_BYTES as usize, MultiGzDecoder::new(stream)))?;
    read_plain(&head, stream, origin, MAX_BYTES)
}

/// Reads what is not compressed, or no longer; `limit` is the most bytes of it.
fn read_plain(head: &[u8], stream: impl BufRead, origin: Origin<'_>, limit: u64) -> Result<Profile, InputError> {
    if head.is_empty() {
        return Err(ReadError::Empty.into());
    }
    let found = Found::sniff(&head[..head.len().min(64)]);
    if origin.object.is_some() && found != Found::Gmon {
        return Err(InputError::ObjectNotWanted);
    }
    match found {
        Found::Gmon => gmon_names::profile(gmon::read(stream)?, origin),
        Found::Text if !head.contains(&0) => match text::recognise(head) {
            Ok(TextFormat::PerfScript) => perf_script::read(Lines::new(stream, limit)),
            Ok(TextFormat::Folded) => folded::read(Lines::new(stream, limit)),
            Err(text) => Err(InputError::UnknownText { text }),
        },
        _ => pprof::read(stream).map_err(|error| match error {
            ReadError::NotAProfile { found } => InputError::Unknown { found },
            error => error.into(),
        }),
    }
}

/// The first bytes of a stream, and the stream with them put back.
fn peek(mut stream: impl BufRead) -> Result<(Vec<u8>, impl BufRead), InputError> {
    let mut head = Vec::new();
    for size in [HEAD_BYTES, MAX_LINE_BYTES as u64 + 1] {
        let more = size.saturating_sub(head.len() as u64);
        // Not fill_buf, which gives what a pipe has just now.
        let read = (&mut stream).take(more).read_to_end(&mut head);
        read.map_err(|source| error::of_stream(head.len() as u64, source))?;
        if (head.len() as u64) < size || head.contains(&b'\n') || head.contains(&0) {
            break;
        }
    }
    Ok((head.clone(), Cursor::new(head).chain(stream)))
}

#[cfg(test)]
mod tests;
