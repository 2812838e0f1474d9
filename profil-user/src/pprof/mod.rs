//! The pprof format (`profile.proto`, gzipped): what profil stores profiles in, and what other tools read and write.
//!
//! [`crate::sink::pprof`] writes it, [`read()`] reads it; [`wire`] has the messages that both share.
//!
//! What a profil file holds beside the plain format:
//! * sample types `samples/count` (ticks) and `cpu/nanoseconds` (ticks × period);
//! * locations with SVMA addresses that lie inside their mapping, so a reader needs no load bias;
//! * the labels named in [`label`];
//! * comments that begin with [`COMMENT_PREFIX`] and carry the tally: see [`notes`].
//!
//! # Source
//! `proto/profile.proto` of github.com/google/pprof.

pub mod notes;
pub mod wire;

mod error;
mod fields;
mod read;
mod tables;

pub use error::{Found, ReadError};
pub use read::{GZIP_MAGIC, MAX_BYTES, read, read_file};

/// Begins each comment that carries a part of the tally: `profil: ticks=9970`.
pub const COMMENT_PREFIX: &str = "profil: ";

/// Keys of sample labels.
pub mod label {
    /// Command name of the process (string).
    pub const PROCESS: &str = "process";
    /// Process ID (number).
    pub const PID: &str = "pid";
    /// Image of the PID, from 1 (number); left out for the first.
    pub const GENERATION: &str = "generation";
    /// Service that the process belongs to: systemd unit, container or pod (string); left out where there is none.
    pub const SERVICE: &str = "service";
    /// Thread ID (number); only where threads were told apart.
    pub const TID: &str = "tid";
    /// `user` or `kernel` (string).
    pub const MODE: &str = "mode";
    /// Command name as perf_to_profile calls it (string); read, never written.
    pub const COMM: &str = "comm";
    /// Mode as perf_to_profile calls it, such as `Host Kernel` (string); read, never written.
    pub const EXECUTION_MODE: &str = "execution_mode";
}

#[cfg(test)]
mod tests;
