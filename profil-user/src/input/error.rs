//! Why a file is not read as a profile of any format.

use std::fmt;
use std::io;
use std::path::PathBuf;

use super::text::UnknownText;
use crate::build_id::BuildId;
use crate::pprof::{Found, ReadError};
use crate::printable::printable;
use crate::symbols::elf_headers::ElfError;

/// What the formats are, for whoever has none of them.
const FORMATS: &str = "pprof (plain or gzip), gmon.out, the text of `perf script`, and folded stacks";

/// Why a file is not read as a profile.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// A pprof file that cannot be read.
    #[error(transparent)]
    Pprof(#[from] ReadError),
    /// The file cannot be opened or read.
    #[error("cannot read the profile at byte {offset}")]
    Io {
        /// Bytes read before.
        offset: u64,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// The gzip data are cut or damaged.
    #[error("cannot decompress the profile past byte {offset}: the gzip data are cut short or damaged")]
    Gzip {
        /// Bytes decompressed before.
        offset: u64,
        /// The decompressor's reason.
        #[source]
        source: io::Error,
    },
    /// The file is none of the formats.
    #[error("cannot read the profile: the file is {}; what can be read: {FORMATS}", described(*.found))]
    Unknown {
        /// What it looks like.
        found: Found,
    },
    /// The file is text, but of no format.
    #[error("cannot read the profile: the file is text, but {text}; what can be read: {FORMATS}")]
    UnknownText {
        /// What is wrong with it.
        text: UnknownText,
    },
    /// A line of a text format is not as it should be.
    #[error("cannot read {format}: line {line} {fault}")]
    Line {
        /// The format.
        format: &'static str,
        /// Number of the line, from 1.
        line: u64,
        /// What is wrong with it.
        fault: LineFault,
    },
    /// A gmon.out is not as it should be.
    #[error("cannot read gmon.out at byte {offset}: {fault}")]
    Gmon {
        /// Where.
        offset: u64,
        /// What is wrong.
        fault: GmonFault,
    },
    /// More different places than a profile can sensibly have.
    #[error("cannot read the profile: {asked} bytes of tables at line or record {at}, more than the limit of {limit}")]
    TooLarge {
        /// Size that the tables would have.
        asked: u64,
        /// Largest one.
        limit: u64,
        /// Line or record at which it was exceeded.
        at: u64,
    },
    /// An object was named for a format that names its own.
    #[error("cannot use --object: the file is no gmon.out, and says itself which objects its code is from")]
    ObjectNotWanted,
    /// The program that was named cannot be read.
    #[error("cannot read the object {}", path.display())]
    Object {
        /// Its path.
        path: PathBuf,
        /// Why.
        #[source]
        source: ElfError,
    },
    /// The program that was named is another build.
    #[error(
        "cannot use the object {}: its build ID is {}, the name of the gmon.out says {wanted}; name the build that ran",
        path.display(), known(.found.as_ref())
    )]
    OtherBuild {
        /// Its path.
        path: PathBuf,
        /// Its build ID.
        found: Option<BuildId>,
        /// That of the gmon.out.
        wanted: BuildId,
    },
    /// The program that was named has no code where the ticks are.
    #[error(
        "cannot use the object {}: it has no code at {low:#x}-{high:#x}, where gmon.out counts; name the program that ran",
        path.display()
    )]
    OtherText {
        /// Its path.
        path: PathBuf,
        /// First address of the histogram.
        low: u64,
        /// First address past its end.
        high: u64,
    },
}

/// What a file is that is no profile, and what can be done with it.
fn described(found: Found) -> String {
    match found {
        Found::PerfData => format!("{found} (`perf script -i FILE | profil report -` shows it)"),
        Found::Other => "binary data that begin like none of the formats".to_owned(),
        Found::Text => "text with zero bytes".to_owned(),
        found => found.to_string(),
    }
}

fn known(build_id: Option<&BuildId>) -> String {
    build_id.map_or_else(|| "none".to_owned(), ToString::to_string)
}

/// An error of a stream: the decompressor's own have no errno; those of the file have one.
pub(super) fn of_stream(offset: u64, source: io::Error) -> InputError {
    match source.raw_os_error() {
        Some(_) => InputError::Io { offset, source },
        None => InputError::Gzip { offset, source },
    }
}

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LineFault {
    /// It has more bytes than a line may have.
    TooLong {
        /// Most bytes.
        limit: usize,
    },
    /// It reaches past the most bytes of a compressed text.
    PastLimit {
        /// Most bytes.
        limit: u64,
    },
    /// It has a zero byte.
    Zero,
    /// It has no newline.
    Cut,
    /// It is neither the beginning of an event nor a line of a call chain.
    NoEvent,
    /// What follows the event's name is no address.
    NoAddress,
    /// It is of another event than those before.
    SecondEvent {
        /// The event before.
        first: String,
        /// This one.
        other: String,
    },
    /// It does not end in a number.
    NoCount,
    /// It ends in a number with a fraction, or one below zero or above 64 bits.
    NoTicks {
        /// The number.
        count: String,
    },
    /// There is nothing before its number.
    NoFunction,
}

impl fmt::Display for LineFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LineFault::TooLong { limit } => write!(f, "has more than {limit} bytes"),
            LineFault::PastLimit { limit } => write!(f, "reaches past the limit of {limit} decompressed bytes"),
            LineFault::Zero => f.write_str("has a zero byte, which no text has"),
            LineFault::Cut => f.write_str("has no end: the text is cut short"),
            LineFault::NoEvent => f.write_str(
                "is not `COMM TID [CPU] TIME: PERIOD EVENT: ADDRESS SYMBOL (OBJECT)` or a line of a call chain; \
                 was perf script called with -F?",
            ),
            LineFault::NoAddress => f.write_str("has no `ADDRESS SYMBOL (OBJECT)` after the event"),
            LineFault::SecondEvent { first, other } => {
                let (first, other) = (printable(first), printable(other));
                write!(f, "is of the event {other}, those before are of {first}; record one event")
            }
            LineFault::NoCount => f.write_str("does not end in a number of ticks"),
            LineFault::NoTicks { count } => write!(f, "ends in {count}, which is no number of ticks"),
            LineFault::NoFunction => f.write_str("has a number of ticks, but no function"),
        }
    }
}

/// What is wrong with a gmon.out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GmonFault {
    /// The file ends inside a record.
    Cut {
        /// Where the record begins.
        begin: u64,
    },
    /// The version is another one.
    Version {
        /// Version found.
        version: u32,
    },
    /// Numbers are in big-endian order.
    BigEndian,
    /// Addresses have 32 bits.
    Narrow,
    /// A record is of no known kind.
    Tag {
        /// Kind found.
        tag: u8,
    },
    /// A histogram ends before it begins, or has bins without text.
    Range {
        /// First address.
        low: u64,
        /// First address past the end.
        high: u64,
        /// Number of bins.
        bins: u32,
    },
    /// A histogram has no rate.
    NoRate,
    /// Histograms differ in rate or dimension.
    MixedRates {
        /// Rate of the first one.
        first: u32,
        /// Rate of this one.
        other: u32,
    },
    /// Two histograms overlap without being the same.
    Overlap {
        /// First address of the second one.
        address: u64,
    },
}

impl fmt::Display for GmonFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GmonFault::Cut { begin } => write!(f, "it ends inside the record that begins at byte {begin}"),
            GmonFault::Version { version } => write!(f, "version {version} is not 1, the only one that is read"),
            GmonFault::BigEndian => f.write_str("its numbers are big-endian, which is not read"),
            GmonFault::Narrow => f.write_str("a record of a 32-bit program, which is not read"),
            GmonFault::Tag { tag } => write!(f, "a record of unknown kind {tag}"),
            GmonFault::Range { low, high, bins } => {
                write!(f, "a histogram of {bins} bins from {low:#x} to {high:#x}, which cannot be")
            }
            GmonFault::NoRate => f.write_str("a histogram without a rate"),
            GmonFault::MixedRates { first, other } => {
                write!(f, "a histogram of {other} Hz after one of {first} Hz, or of another dimension")
            }
            GmonFault::Overlap { address } => write!(f, "a histogram that overlaps another one at {address:#x}"),
        }
    }
}
