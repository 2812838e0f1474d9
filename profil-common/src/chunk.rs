use crate::limits::BINS_PER_CHUNK;

/// Neighbouring bins, and whether they were counted into: an element of the array of bins of a process.
///
/// The mark lies with its bins, so that a tick finds both by one look-up.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BinChunk {
    /// Counters, in ascending address order; never reset.
    pub bins: [u32; BINS_PER_CHUNK as usize],
    /// 1 when a tick counted into one of the bins since the loader last cleared it.
    pub dirty: u64,
}

impl BinChunk {
    /// Number of the chunk of a bin, and place of the bin in it.
    #[inline(always)]
    pub const fn place(bin: u32) -> (u32, u32) {
        (bin / BINS_PER_CHUNK, bin % BINS_PER_CHUNK)
    }
}
