//! Why a client cannot be opened.

use std::io;

use super::MAX_BUFFERS;
use crate::sink::target::BadBuffer;

/// A client that cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A buffer cannot take bins: the caller's `EFAULT`.
    #[error(transparent)]
    Buffer(#[from] BadBuffer),
    /// There are too many buffers.
    #[error("cannot take {buffers} buffers of one process: the limit is {MAX_BUFFERS}")]
    TooManyBuffers {
        /// How many were asked for.
        buffers: usize,
    },
    /// The checks took too long: the process keeps its maps busy.
    #[error("cannot check the buffers in time: the process keeps its maps busy")]
    Stalled,
    /// The copier ended twice during the checks.
    #[error("cannot check the buffers: the copier ended")]
    Ended {
        /// What the system said, or the copier did.
        #[source]
        source: io::Error,
    },
    /// No copier could be started.
    #[error("cannot start a copier for uid {uid}")]
    Start {
        /// Whose.
        uid: u32,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Earlier copiers of the uid were killed and have not ended: a process of that uid keeps them.
    #[error("cannot start another copier for uid {uid}: the earlier ones wait for its FUSE servers; end those")]
    Parked {
        /// Whose.
        uid: u32,
    },
}
