//! Everything that the kernel side shares with the loader.
//!
//! Arrays are memory-mappable, so that the loader reads them without a system call: a CPU that is inside a map
//! system call counts no ticks.

use aya_ebpf::bindings::{BPF_F_INNER_MAP, BPF_F_MMAPABLE, BPF_F_NO_PREALLOC};
use aya_ebpf::btf_maps::{Array, ArrayOfMaps, HashMap, RingBuf};
use aya_ebpf::macros::btf_map;
use profil_common::limits::{self, DEFAULT_PROCESSES, DEFAULT_ROWS, EVENT_RING_BYTES, FRONT_ROWS, MAX_SLOTS};
use profil_common::{BinChunk, Counters, Event, FrontRow, Process, RangeTable, RowKey, Seat, TickRecord};

/// The flags of every array of bins, the template's included: they must be equal.
pub const BINS_FLAGS: usize = (BPF_F_INNER_MAP | BPF_F_MMAPABLE) as usize;

/// Counters of each CPU, indexed by CPU number; the loader sizes it.
#[btf_map]
pub static COUNTERS: Array<Counters, 1024, { BPF_F_MMAPABLE as usize }> = Array::new();

/// Known processes that have no seat, by tgid.
#[btf_map]
pub static PROCESSES: HashMap<u32, Process, { DEFAULT_PROCESSES as usize }> = HashMap::new();

/// Known processes that have a seat of their own. Most ticks fall on processes that nobody asked for, and are done
/// with after a look at an empty seat: one cache line, and nothing to hash.
#[btf_map]
pub static SEATS: Array<Seat, { limits::SEATS as usize }, { BPF_F_MMAPABLE as usize }> = Array::new();

/// Wanted threads, by tid.
#[btf_map]
pub static THREADS: HashMap<u32, u32, 65536, { BPF_F_NO_PREALLOC as usize }> = HashMap::new();

/// Ranges of the processes with dense bins, by slot.
#[btf_map]
pub static RANGES: Array<RangeTable, { MAX_SLOTS as usize }, { BPF_F_MMAPABLE as usize }> = Array::new();

/// Dense bins, by slot, in chunks.
#[btf_map]
pub static BINS: ArrayOfMaps<Array<BinChunk, 1, BINS_FLAGS>, { MAX_SLOTS as usize }> = ArrayOfMaps::new();

/// Dense bins of many processes, or of the one that has any, in chunks; the loader sizes it. An array that is known when
/// the program is loaded is indexed in place; one in [`BINS`] takes a call, and two more pages.
#[btf_map]
pub static POOL: Array<BinChunk, 1, { BPF_F_MMAPABLE as usize }> = Array::new();

/// Lanes, by slot: four bins of 16 bits in each word. A process has mapped its own over its buffer.
#[btf_map]
pub static LANES: ArrayOfMaps<Array<u64, 1, BINS_FLAGS>, { MAX_SLOTS as usize }> = ArrayOfMaps::new();

/// Sparse rows that each CPU keeps to itself, both halves; the loader sizes it. See [`FrontRow::first_of`].
#[btf_map]
pub static FRONT: Array<FrontRow, { 2 * FRONT_ROWS as usize }, { BPF_F_MMAPABLE as usize }> = Array::new();

/// Sparse rows that found their place in front taken, first half.
#[btf_map]
pub static ROWS_0: HashMap<RowKey, u64, { DEFAULT_ROWS as usize }> = HashMap::new();

/// Sparse rows that found their place in front taken, second half.
#[btf_map]
pub static ROWS_1: HashMap<RowKey, u64, { DEFAULT_ROWS as usize }> = HashMap::new();

/// What happened to known processes.
#[btf_map]
pub static EVENTS: RingBuf<Event, { EVENT_RING_BYTES as usize }> = RingBuf::new();

/// The ticks themselves, when a recording was asked for.
#[btf_map]
pub static RECORDING: RingBuf<TickRecord, { EVENT_RING_BYTES as usize }> = RingBuf::new();
