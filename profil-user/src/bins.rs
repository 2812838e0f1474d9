//! Dense bins: a BPF array for a process, or a part of one for many, read through a memory map and never reset.
//!
//! The kernel only ever adds. A drain compares with what the last one saw, so nothing is lost between read and
//! reset, and nothing needs to be stopped. Bins are 32 bits and may wrap between drains' comparisons; the totals are
//! 64 bits.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use aya::maps::{MapData, MapError};
use aya_obj::generated::bpf_map_type::BPF_MAP_TYPE_ARRAY;
use profil_common::BinChunk;
use profil_common::limits::BINS_PER_CHUNK;

use crate::map_memory::MapMemory;

/// `BPF_F_INNER_MAP | BPF_F_MMAPABLE`: the flags of the template in the eBPF object, which must be equal.
pub(crate) const FLAGS: u32 = 1 << 12 | 1 << 10;

/// Words of the memory map that a chunk takes.
pub(crate) const CHUNK_WORDS: usize = size_of::<BinChunk>() / size_of::<u64>();

/// Word of a chunk that has its mark.
const DIRTY_WORD: usize = std::mem::offset_of!(BinChunk, dirty) / size_of::<u64>();

/// Bins that cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum BinsError {
    /// The kernel refused the array.
    #[error("cannot make an array of {nbins} bins in the kernel")]
    Create {
        /// Bins asked for.
        nbins: u32,
        /// What the kernel said.
        #[source]
        source: MapError,
    },
    /// The array cannot be mapped.
    #[error("cannot map an array of {nbins} bins")]
    Map {
        /// Bins asked for.
        nbins: u32,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

/// A run of neighbouring bins that were counted into, and by how much.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// First bin of the run.
    pub first: u32,
    /// Ticks added to each bin since the last drain; none is 0.
    pub added: Vec<u32>,
}

/// Chunks that hold `nbins` bins.
pub(crate) const fn chunks_of(nbins: u32) -> u32 {
    let chunks = nbins.div_ceil(BINS_PER_CHUNK);
    if chunks == 0 { 1 } else { chunks }
}

/// The bins of one process: `nbins` counters in ascending address order of its regions.
pub struct Bins {
    /// Their own array; none for those of a pool.
    map: Option<MapData>,
    memory: Arc<MapMemory>,
    /// Where they begin in the memory.
    first_chunk: u32,
    nbins: u32,
    /// Counters of each chunk that was ever dirty, as the last drain saw them.
    seen: BTreeMap<usize, Box<[u32]>>,
}

impl Bins {
    /// Makes `nbins` bins, all 0.
    ///
    /// # Errors
    /// [`BinsError`]; `ENOMEM` when the kernel has not the memory, 4 bytes a bin.
    ///
    /// # Minimum kernel
    /// 5.10 (inner arrays of differing sizes).
    pub fn new(nbins: u32) -> Result<Bins, BinsError> {
        let chunk_bytes = size_of::<BinChunk>() as u32;
        let chunks = chunks_of(nbins);
        let definition = aya_obj::Map::new_from_params(BPF_MAP_TYPE_ARRAY as u32, 4, chunk_bytes, chunks, FLAGS);
        let map =
            MapData::create(definition, "profil_bins", None).map_err(|source| BinsError::Create { nbins, source })?;
        Bins::in_map(map, nbins)
    }

    /// Takes an array of chunks, all 0, with room for `nbins` bins.
    ///
    /// # Errors
    /// [`BinsError::Map`].
    pub(crate) fn in_map(map: MapData, nbins: u32) -> Result<Bins, BinsError> {
        let words = chunks_of(nbins) as usize * CHUNK_WORDS;
        let memory = MapMemory::new(map.fd().as_fd(), words).map_err(|source| BinsError::Map { nbins, source })?;
        Ok(Bins { map: Some(map), memory: Arc::new(memory), first_chunk: 0, nbins, seen: BTreeMap::new() })
    }

    /// Takes bins of a pool, all 0, which are not in use.
    pub(crate) fn in_pool(memory: Arc<MapMemory>, first_chunk: u32, nbins: u32) -> Bins {
        Bins { map: None, memory, first_chunk, nbins, seen: BTreeMap::new() }
    }

    /// The array of these bins alone; `None` when they lie in a pool.
    pub(crate) fn map(&self) -> Option<&MapData> {
        self.map.as_ref()
    }

    /// Chunk of the pool in which they begin; 0 when they have an array of their own.
    pub fn first_chunk(&self) -> u32 {
        self.first_chunk
    }

    /// How many there are.
    pub(crate) fn nbins(&self) -> u32 {
        self.nbins
    }

    /// Ticks counted since the last drain, as runs in ascending order. The counters in the kernel are left alone.
    pub fn drain(&mut self) -> Vec<Run> {
        let mut runs = Vec::new();
        for chunk in 0..self.chunks() {
            let dirty = self.word(chunk, DIRTY_WORD);
            if self.memory.load(dirty) != 0 {
                self.memory.store(dirty, 0);
                // Cleared before the bins are read: a tick that comes in between sets it again. Without the fence a
                // CPU may read the bins first, and then clear the mark of a tick that it has not seen.
                fence(Ordering::SeqCst);
                self.drain_chunk(chunk, &mut runs);
            }
        }
        runs
    }

    /// As [`Bins::drain`], but looks at every bin, marked as counted into or not: for the last drain, after which no
    /// later one makes up for a mark that a weakly ordered CPU showed before its count.
    pub fn drain_all(&mut self) -> Vec<Run> {
        let mut runs = Vec::new();
        for chunk in 0..self.chunks() {
            self.drain_chunk(chunk, &mut runs);
        }
        runs
    }

    fn chunks(&self) -> usize {
        chunks_of(self.nbins) as usize
    }

    /// A word of one of our chunks.
    fn word(&self, chunk: usize, word: usize) -> usize {
        (self.first_chunk as usize + chunk) * CHUNK_WORDS + word
    }

    fn drain_chunk(&mut self, chunk: usize, runs: &mut Vec<Run>) {
        let first_bin = chunk * BINS_PER_CHUNK as usize;
        let bins = (BINS_PER_CHUNK as usize).min((self.nbins as usize).saturating_sub(first_bin));
        let first_word = self.word(chunk, 0);
        let seen = self.seen.entry(chunk).or_insert_with(|| vec![0; BINS_PER_CHUNK as usize].into());
        for (index, seen) in seen.iter_mut().enumerate().take(bins) {
            let bin = (first_bin + index) as u32;
            // Two bins of 32 bits share a word of 64.
            let word = self.memory.load(first_word + index / 2).to_ne_bytes();
            let [a, b, c, d, e, f, g, h] = word;
            let count = u32::from_ne_bytes(if index % 2 == 0 { [a, b, c, d] } else { [e, f, g, h] });
            let added = count.wrapping_sub(*seen);
            if added == 0 {
                continue;
            }
            *seen = count;
            match runs.last_mut() {
                Some(run) if run.first + run.added.len() as u32 == bin => run.added.push(added),
                _ => runs.push(Run { first: bin, added: vec![added] }),
            }
        }
    }
}
