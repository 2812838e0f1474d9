//! Lanes: bins of 16 bits that lie in the target's own memory, because it has mapped the kernel's array over its buffer.
//!
//! Nothing is drained and nothing copied; what the ticks count the target sees at once, and what it writes the ticks go on
//! from. For the same reason nobody but the target knows the counts: the kernel only counts how many there were.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use aya::maps::{MapData, MapError, MapInfo};
use aya_obj::generated::bpf_map_type::BPF_MAP_TYPE_ARRAY;

use crate::bins;

/// Lanes in a word.
const LANES_PER_WORD: u32 = 4;

/// Lanes that cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum LanesError {
    /// The kernel refused the array.
    #[error("cannot make an array of {lanes} lanes in the kernel")]
    Create {
        /// Lanes asked for.
        lanes: u32,
        /// What the kernel said.
        #[source]
        source: MapError,
    },
    /// Its number cannot be found out, by which we see later whether it is gone.
    #[error("cannot tell the lanes from others")]
    Info(#[source] MapError),
    /// No descriptor for the target can be made.
    #[error("cannot make a descriptor for the target")]
    Descriptor(#[source] io::Error),
}

/// The 16-bit bins of one process.
#[derive(Debug)]
pub struct Lanes {
    map: MapData,
    id: u32,
}

impl Lanes {
    /// Makes `lanes` lanes, all 0.
    ///
    /// # Errors
    /// [`LanesError`]; `ENOMEM` when the kernel has not the memory, 2 bytes a lane.
    ///
    /// # Minimum kernel
    /// 5.10 (inner arrays of differing sizes); the ticks need 5.12.
    pub fn new(lanes: u32) -> Result<Lanes, LanesError> {
        let words = lanes.div_ceil(LANES_PER_WORD).max(1);
        let definition =
            aya_obj::Map::new_from_params(BPF_MAP_TYPE_ARRAY as u32, 4, size_of::<u64>() as u32, words, bins::FLAGS);
        let map =
            MapData::create(definition, "profil_lanes", None).map_err(|source| LanesError::Create { lanes, source })?;
        let id = map.info().map_err(LanesError::Info)?.id();
        Ok(Lanes { map, id })
    }

    /// A descriptor for the target to map.
    ///
    /// # Errors
    /// [`LanesError::Descriptor`].
    pub fn descriptor(&self) -> Result<OwnedFd, LanesError> {
        self.map.fd().as_fd().try_clone_to_owned().map_err(LanesError::Descriptor)
    }

    /// Their number, which no other array has while anybody holds them.
    pub fn id(&self) -> u32 {
        self.id
    }

    pub(crate) fn map(&self) -> &MapData {
        &self.map
    }
}

/// Whether nobody holds the lanes with a number any more, the target that mapped them included. Their memory counts as
/// taken until then; where the kernel does not tell, they count for ever.
pub fn are_gone(id: u32) -> bool {
    match MapInfo::from_id(id) {
        Err(MapError::SyscallError(error)) => error.io_error.raw_os_error() == Some(libc::ENOENT),
        _ => false,
    }
}
