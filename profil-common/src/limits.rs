//! Sizes that the eBPF object, the loader and the preloadable library rely on.

/// Ranges of one process after overlapping regions were flattened.
pub const MAX_RANGES: usize = 64;

/// Processes that can keep dense bins at the same time; each owns one slot of the outer bin map.
pub const MAX_SLOTS: u32 = 1024;

/// Rows of one half of the sparse table, unless the loader resizes it.
pub const DEFAULT_ROWS: u32 = 65_536;

/// Rows that each CPU keeps to itself, in each half of the sparse table: a power of two.
pub const FRONT_ROWS: u32 = 512;

/// Processes (thread groups) that can be known to the tick at the same time, unless the loader resizes the table.
pub const DEFAULT_PROCESSES: u32 = 32_768;

/// Seats of processes that the tick finds without hashing: a power of two.
pub const SEATS: u32 = 4096;

/// Bytes of the ring that carries fork, exec and exit events, unless the loader resizes it.
pub const EVENT_RING_BYTES: u32 = 1 << 20;

/// Bins of one element of a process's array: a power of two, whose remainder the verifier can bound.
pub const BINS_PER_CHUNK: u32 = 256;

/// Chunks in the pool, which all processes of a session share: 4 MiB. Bins that find no room there have arrays of their own.
pub const POOL_CHUNKS: u32 = 4064;

/// Largest number of bins of one process: 4 Mi, 16 MiB of kernel memory.
pub const MAX_BINS: u32 = 4 << 20;

/// Longest `comm` of a thread, its NUL included (`TASK_COMM_LEN`).
pub const COMM_BYTES: usize = 16;

/// Largest number of areas in one call of libprofil.so, before overlapping ones are flattened to [`MAX_RANGES`].
pub const MAX_AREAS: usize = 256;

/// Largest number of ticks in a second of CPU time that a call of profil(3) may ask for.
pub const MAX_CALL_HZ: u32 = 10_000;
