//! Why a file is not read as a profile.

use std::fmt;
use std::io;

/// What a file that is no pprof profile looks like instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// `perf record` output.
    PerfData,
    /// gprof's `gmon.out`.
    Gmon,
    /// An executable, library or object file.
    Elf,
    /// Compressed by zstd.
    Zstd,
    /// Compressed by xz.
    Xz,
    /// A zip archive.
    Zip,
    /// Readable text.
    Text,
    /// None of these.
    Other,
}

impl Found {
    /// Judges by the first bytes of a file.
    pub fn sniff(head: &[u8]) -> Found {
        let known: [(&[u8], Found); 6] = [
            (b"PERFILE2", Found::PerfData),
            (b"gmon", Found::Gmon),
            (b"\x7fELF", Found::Elf),
            (b"\x28\xb5\x2f\xfd", Found::Zstd),
            (b"\xfd7zXZ", Found::Xz),
            (b"PK\x03\x04", Found::Zip),
        ];
        if let Some((_, found)) = known.iter().find(|(magic, _)| head.starts_with(magic)) {
            return *found;
        }
        let readable = |byte: &u8| byte.is_ascii_graphic() || b" \t\r\n".contains(byte) || *byte >= 0x80;
        if head.iter().all(readable) { Found::Text } else { Found::Other }
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Found::PerfData => "perf.data, the output of perf record",
            Found::Gmon => "gmon.out, the input of gprof",
            Found::Elf => "an ELF file",
            Found::Zstd => "zstd data; decompress it first",
            Found::Xz => "xz data; decompress it first",
            Found::Zip => "a zip archive",
            Found::Text => "text",
            Found::Other => "bytes that are no protocol buffer of that kind",
        })
    }
}

/// Why a file is not read as a profile.
///
/// Offsets are bytes of the decompressed file.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file cannot be opened or read.
    #[error("cannot read the profile at byte {offset}")]
    Io {
        /// Bytes read before.
        offset: u64,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// The file has no byte.
    #[error("cannot read the profile: the file is empty; was the recording cut short?")]
    Empty,
    /// The file is something else.
    #[error("cannot read the profile: the file is not a pprof profile but {found}")]
    NotAProfile {
        /// What it looks like.
        found: Found,
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
    /// The file ends inside a field.
    #[error("cannot read the profile: it ends at byte {end}, inside the field {field} that begins at byte {offset}")]
    Truncated {
        /// Number of the field; 0 when its own key is cut.
        field: u32,
        /// Where the field begins.
        offset: u64,
        /// Where the file ends.
        end: u64,
    },
    /// A field is not what its number says.
    #[error("cannot read the profile: field {field} at byte {offset} is malformed")]
    Malformed {
        /// Number of the field; 0 when its own key is malformed.
        field: u32,
        /// Where the field begins.
        offset: u64,
        /// The decoder's reason, where there is one.
        #[source]
        source: Option<prost::DecodeError>,
    },
    /// More than a profile can sensibly hold.
    #[error("cannot read the profile: {asked} {what} at byte {offset}, more than the limit of {limit}")]
    TooLarge {
        /// What there is too much of.
        what: &'static str,
        /// Size or number found.
        asked: u64,
        /// Largest one that is read.
        limit: u64,
        /// Where it was found.
        offset: u64,
    },
    /// A reference to something that the file lacks.
    #[error("cannot read the profile: {from} refers to {to} {id}, which the file lacks")]
    Dangling {
        /// What refers.
        from: &'static str,
        /// Kind of what it refers to.
        to: &'static str,
        /// Its id or index.
        id: i128,
    },
    /// No sample type counts ticks or time.
    #[error(
        "cannot read the profile: its sample types are {types}, none of which counts ticks or CPU time with a period; \
         `go tool pprof` shows them"
    )]
    NoTicks {
        /// Types found, as `type/unit`.
        types: String,
    },
    /// A value below zero, as differences between profiles have.
    #[error("cannot read the profile: a sample of {value} is below zero; is it the difference of two profiles?")]
    Negative {
        /// The value.
        value: i64,
    },
}
