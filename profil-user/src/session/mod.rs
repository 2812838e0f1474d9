//! One load of the eBPF object: its programs, its hooks and its maps.
//!
//! aya is named here, in [`bins`] and in `rows`, and nowhere else. Everything goes with
//! the process: no program, map or link is pinned, so that after a `kill -9` nothing is left in the kernel.

mod error;
mod seats;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use aya::maps::{Array, ArrayOfMaps, HashMap, Map, MapData, MapError, RingBuf};
use aya::programs::{PerfEvent, RawTracePoint};
use aya::{Ebpf, EbpfLoader, Pod};
use aya_log::EbpfLogger;
use profil_common::limits::{self, DEFAULT_PROCESSES, DEFAULT_ROWS, MAX_SLOTS};
use profil_common::{Counters, Event, Process, RangeTable, Region, RowKey, Seat, Settings, TickRecord, settings_flags};

use crate::bins::{self, Bins};
use crate::lanes::Lanes;
use crate::map_memory::MapMemory;
use crate::pool::Pool;
use crate::probe::Features;
use crate::probe::btf;
use crate::process::namespace;
use crate::rows::{Front, Half};
use error::{not_loaded, refused};
use seats::Seats;

/// The eBPF object, embedded: a packaged binary needs no eBPF toolchain.
static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/profil.bpf.o"));

/// The program that the clock runs.
const TICK: &str = "tick";

/// The program that the clock runs when processes may have lanes.
const TICK_WITH_LANES: &str = "tick_with_lanes";

/// Hooks by program name, which is that of the raw tracepoint without `sched_process_`.
const HOOKS: [&str; 4] = ["fork", "exec", "exit", "free"];

pub use error::SessionError;

/// How a session is loaded.
#[derive(Clone, Copy, Debug)]
pub struct SessionConfig {
    /// Constants of the programs; what the kernel's own layout and features decide is filled in by the load.
    pub settings: Settings,
    /// Rows of each half of the sparse table.
    pub rows: u32,
    /// Processes that can be known at the same time.
    pub processes: u32,
    /// Region of the one process that has bins; `None` when several may, by slots.
    pub single: Option<Region>,
    /// Whether there is a pool, for the bins of many processes; of no use with `single`.
    pub pool: PoolUse,
    /// Whether processes may have lanes.
    pub lanes: LaneUse,
    /// What the hooks say of their doings.
    pub log: HookLog,
}

/// Whether a session has a pool of bins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolUse {
    /// It has none.
    None,
    /// It has one of [`limits::POOL_CHUNKS`], which takes its memory when the session is loaded.
    Wanted,
}

/// Whether a session may have processes with lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaneUse {
    /// None has any.
    None,
    /// Some may, if the kernel takes the program for it (5.12).
    Wanted,
}

/// Whether the hooks log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookLog {
    /// They are silent.
    Off,
    /// They log each fork, exec and exit to the [`log`] facade; see [`Session::flush_log`].
    On,
}

impl SessionConfig {
    /// Default sizes.
    pub fn new(settings: Settings) -> SessionConfig {
        SessionConfig {
            settings,
            rows: DEFAULT_ROWS,
            processes: DEFAULT_PROCESSES,
            single: None,
            pool: PoolUse::None,
            lanes: LaneUse::None,
            log: HookLog::Off,
        }
    }
}

/// What is put into slots in the place of something else: made beforehand, so that it is there when nothing is left to
/// make it of.
struct Spare {
    bins: Bins,
    lanes: Lanes,
}

impl Spare {
    fn new() -> Result<Spare, SessionError> {
        let failed = |name, error| SessionError::Read { name, source: error };
        let bins = Bins::new(1).map_err(|error| failed("BINS", io::Error::other(error)))?;
        let lanes = Lanes::new(1).map_err(|error| failed("LANES", io::Error::other(error)))?;
        Ok(Spare { bins, lanes })
    }
}

/// A loaded object with its hooks attached. Dropping it detaches all.
pub struct Session {
    ebpf: Ebpf,
    counters: MapMemory,
    cpus: usize,
    /// Which half of the sparse table the ticks fill, by its lowest bit.
    epoch: u64,
    seats: Seats,
    processes: HashMap<MapData, u32, Process>,
    threads: HashMap<MapData, u32, u32>,
    ranges: Array<MapData, RangeTable>,
    bins: ArrayOfMaps<MapData>,
    lanes: ArrayOfMaps<MapData>,
    spare: Spare,
    single_bins: u32,
    pool_chunks: u32,
    /// Name of the program that the clock runs.
    tick: &'static str,
    halves: [Half; 2],
    front: Front,
    events: RingBuf<MapData>,
    recording: RingBuf<MapData>,
    next_image: u64,
    logger: Option<EbpfLogger<&'static dyn log::Log>>,
}

impl Session {
    /// Loads the object and attaches its hooks. No tick comes before a [`Clock`](crate::clock::Clock) is opened on
    /// [`Session::program`].
    ///
    /// # Errors
    /// [`SessionError`]; the source is `EPERM` when the caller lacks `CAP_BPF` or `CAP_PERFMON`.
    ///
    /// # Minimum kernel
    /// 5.10
    pub fn load(config: &SessionConfig) -> Result<Session, SessionError> {
        let SessionConfig { settings, rows, processes, single, pool, lanes, log } = config;
        let mut settings = for_this_kernel(*settings)?;
        let single_bins = single.map_or(0, |region| region.nbins);
        let pool_chunks = match (single, pool) {
            (None, PoolUse::Wanted) => limits::POOL_CHUNKS,
            _ => bins::chunks_of(single_bins),
        };
        if let Some(region) = single {
            settings.single = *region;
            settings.flags |= settings_flags::SINGLE;
        }
        let level: u8 = match log {
            HookLog::Off => 0,
            HookLog::On => aya_log::Level::Debug as u8,
        };
        let cpus = aya::util::nr_cpus().map_err(|(_, source)| SessionError::Read { name: "possible CPUs", source })?;
        let mut ebpf = EbpfLoader::new()
            .override_global("SETTINGS", &settings, true)
            .override_global(aya_log::LEVEL, &level, true)
            .map_max_entries("COUNTERS", cpus as u32)
            .map_max_entries("FRONT", Front::rows(cpus))
            .map_max_entries("POOL", pool_chunks)
            .map_max_entries("ROWS_0", *rows)
            .map_max_entries("ROWS_1", *rows)
            .map_max_entries("PROCESSES", *processes)
            .load(OBJECT)
            .map_err(|source| not_loaded(source, *rows, single_bins))?;
        let tick = load_tick(&mut ebpf, *lanes)?;
        for name in HOOKS {
            let program: &mut RawTracePoint = program(&mut ebpf, name)?;
            program.load().map_err(|source| refused(name, source))?;
            program
                .attach(&format!("sched_process_{name}"))
                .map_err(|source| SessionError::Attach { program: name, source })?;
        }
        let logger = match log {
            HookLog::Off => None,
            // Without its ring there is nothing to read; counting goes on all the same.
            HookLog::On => EbpfLogger::init(&mut ebpf).ok(),
        };
        let counters = take_memory(&mut ebpf, "COUNTERS", cpus * size_of::<Counters>() / size_of::<u64>())?;
        let front = take_memory(&mut ebpf, "FRONT", Front::words(cpus))?;
        let seats = Seats::new(take_memory(&mut ebpf, "SEATS", seats::WORDS)?);
        Ok(Session {
            counters,
            cpus,
            epoch: 0,
            seats,
            processes: take_typed(&mut ebpf, "PROCESSES")?,
            threads: take_typed(&mut ebpf, "THREADS")?,
            ranges: take_typed(&mut ebpf, "RANGES")?,
            bins: take_typed(&mut ebpf, "BINS")?,
            lanes: take_typed(&mut ebpf, "LANES")?,
            spare: Spare::new()?,
            single_bins,
            pool_chunks,
            tick,
            halves: [Half::new(take_rows(&mut ebpf, "ROWS_0")?), Half::new(take_rows(&mut ebpf, "ROWS_1")?)],
            front: Front::new(front),
            events: take_typed(&mut ebpf, "EVENTS")?,
            recording: take_typed(&mut ebpf, "RECORDING")?,
            next_image: 1,
            logger,
            ebpf,
        })
    }

    /// Descriptor of the program that the clock runs.
    ///
    /// # Errors
    /// [`SessionError::Missing`] when the object has no such program.
    pub fn program(&self) -> Result<BorrowedFd<'_>, SessionError> {
        let fd = self.ebpf.program(self.tick).and_then(|program| match program {
            aya::programs::Program::PerfEvent(program) => program.fd().ok(),
            _ => None,
        });
        fd.map(AsFd::as_fd).ok_or(SessionError::Missing { name: self.tick })
    }

    /// Sum of all CPUs' counters.
    ///
    /// Exact while no tick is under way; otherwise each counter is right, but some may be a tick ahead of others.
    pub fn counters(&self) -> Counters {
        let mut sum = Counters::default();
        for cpu in 0..self.cpus {
            sum.add(&self.counters_of(cpu));
        }
        sum
    }

    /// Counters of one CPU; the CPU must be a possible one.
    pub fn counters_of(&self, cpu: usize) -> Counters {
        let words = size_of::<Counters>() / size_of::<u64>();
        let at = |index| self.counters.load(cpu * words + index);
        Counters {
            fired: at(0),
            elsewhere: at(1),
            between: at(2),
            ticks: at(3),
            outcomes: std::array::from_fn(|outcome| at(4 + outcome)),
            rows: at(10),
            unfollowed: at(11),
            unannounced: at(12),
            epoch: at(13),
            in_lanes: at(14),
            reserved: 0,
        }
    }

    /// Makes a process known to the ticks, and returns the identity of its image.
    ///
    /// `flags` are [`profil_common::process_flags`]; `slot` is that of its bins, if they say `DENSE`.
    ///
    /// # Errors
    /// [`SessionError::Map`]; `E2BIG` when the table is full.
    pub fn make_known(&mut self, tgid: u32, flags: u32, slot: u32) -> Result<u64, SessionError> {
        let image = self.new_image();
        self.set_known(tgid, &Process { image, clocked_ns: 0, flags, slot })?;
        Ok(image)
    }

    /// An identity for an image that no other image of the session has.
    pub fn new_image(&mut self) -> u64 {
        let image = self.next_image;
        self.next_image += 1;
        image
    }

    /// Puts what the ticks are to know of a process in the place of what they knew.
    ///
    /// # Errors
    /// As [`Session::make_known`].
    pub fn set_known(&mut self, tgid: u32, process: &Process) -> Result<(), SessionError> {
        let owner = self.seats.owner(tgid);
        let is_free = [Seat::NEVER_TAKEN, Seat::FREE].contains(&owner);
        // One that found its seat taken once stays in the table: a process must not be in both places.
        if owner == tgid || is_free && self.processes.get(&tgid, 0).is_err() {
            self.seats.seat(tgid, process);
            return Ok(());
        }
        self.processes.insert(tgid, process, 0).map_err(|source| SessionError::Map { name: "PROCESSES", source })
    }

    /// Makes the ticks pass a process by. Those under way may still count it: see [`Session::wait_for_ticks`].
    ///
    /// # Errors
    /// [`SessionError::Map`].
    pub fn forget(&mut self, tgid: u32) -> Result<(), SessionError> {
        if self.seats.free(tgid) {
            return Ok(());
        }
        match self.processes.remove(&tgid) {
            // The exit hook has removed it.
            Err(MapError::SyscallError(error)) if error.io_error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed.map_err(|source| SessionError::Map { name: "PROCESSES", source }),
        }
    }

    /// Adds a thread to those that `FILTER_TID` lets pass.
    ///
    /// # Errors
    /// [`SessionError::Map`].
    pub fn want_thread(&mut self, tid: u32) -> Result<(), SessionError> {
        self.threads.insert(tid, 1, 0).map_err(|source| SessionError::Map { name: "THREADS", source })
    }

    /// The bins of the one process that has any, in the order of [`SessionConfig::single`]; once.
    ///
    /// # Errors
    /// [`SessionError::Missing`] when they were taken or not asked for, [`SessionError::Read`].
    pub fn take_single_bins(&mut self) -> Result<Bins, SessionError> {
        match take(&mut self.ebpf, "POOL")? {
            Map::Array(map) if self.single_bins > 0 => Bins::in_map(map, self.single_bins)
                .map_err(|error| SessionError::Read { name: "POOL", source: io::Error::other(error) }),
            _ => Err(SessionError::Missing { name: "POOL" }),
        }
    }

    /// The pool that [`SessionConfig::pool`] asked for; once. Without one, a pool that has no room for anything.
    ///
    /// # Errors
    /// [`SessionError::Missing`] when it was taken, [`SessionError::Read`].
    pub fn take_pool(&mut self) -> Result<Pool, SessionError> {
        take_memory(&mut self.ebpf, "POOL", self.pool_chunks as usize * bins::CHUNK_WORDS).map(Pool::new)
    }

    /// Puts bins and their ranges into a slot, for a process that is made known with it afterwards.
    ///
    /// Takes a grace period, 8 to 16 ms, unless the bins are of the pool.
    ///
    /// # Errors
    /// [`SessionError::Map`].
    pub fn set_bins(&mut self, slot: u32, ranges: &RangeTable, bins: &Bins) -> Result<(), SessionError> {
        self.set_ranges(slot, &RangeTable { first_chunk: bins.first_chunk(), ..*ranges })?;
        match bins.map() {
            Some(map) => self.put_array(slot, map),
            None => Ok(()),
        }
    }

    /// Whether processes may have lanes: they were asked for, and the kernel takes the program.
    pub fn takes_lanes(&self) -> bool {
        self.tick == TICK_WITH_LANES
    }

    /// Puts lanes into a slot. Takes a grace period.
    ///
    /// # Errors
    /// [`SessionError::Map`].
    pub fn set_lanes(&mut self, slot: u32, lanes: &Lanes) -> Result<(), SessionError> {
        self.lanes.set(slot, lanes.map(), 0).map_err(|source| SessionError::Map { name: "LANES", source })
    }

    /// Takes the lanes out of a slot: the kernel then holds them only for who has mapped them. Takes a grace period.
    ///
    /// # Errors
    /// [`SessionError::Map`].
    pub fn clear_lanes(&mut self, slot: u32) -> Result<(), SessionError> {
        self.lanes.set(slot, self.spare.lanes.map(), 0).map_err(|source| SessionError::Map { name: "LANES", source })
    }

    /// Puts other ranges into a slot that keeps its bins. No process may have the slot, and no tick with it be under way.
    ///
    /// # Errors
    /// [`SessionError::Map`].
    pub fn set_ranges(&mut self, slot: u32, ranges: &RangeTable) -> Result<(), SessionError> {
        self.ranges.set(slot, ranges, 0).map_err(|source| SessionError::Map { name: "RANGES", source })?;
        self.seats.note_ranges(slot, ranges);
        Ok(())
    }

    /// Takes the bins out of a slot, so that their memory can go. Takes a grace period.
    ///
    /// # Errors
    /// [`SessionError::Map`].
    pub fn clear_bins(&mut self, slot: u32) -> Result<(), SessionError> {
        self.displace_bins(slot)
    }

    /// Drains the sparse table: the rows that were counted into since the last drain, each with its count. A row comes
    /// once from each CPU that keeps it in front, and once from the rest of the table.
    ///
    /// Ticks go on meanwhile, into the other half.
    ///
    /// # Errors
    /// [`SessionError::Read`]; rows handed out before the failure are gone from the table.
    pub fn drain_rows(&mut self, mut row: impl FnMut(RowKey, u64)) -> Result<(), SessionError> {
        let full = (self.epoch & 1) as usize;
        self.epoch += 1;
        let words = size_of::<Counters>() / size_of::<u64>();
        for cpu in 0..self.cpus {
            self.counters.store(cpu * words + std::mem::offset_of!(Counters, epoch) / size_of::<u64>(), self.epoch);
        }
        self.wait_for_ticks()?;
        self.front.take(full, &mut row);
        self.halves[full].take(row).map_err(|source| SessionError::Read { name: "ROWS", source })
    }

    /// Returns when every tick that was under way at the call has ended: an RCU grace period.
    ///
    /// # Errors
    /// [`SessionError`], where the kernel offers no way to wait.
    pub fn wait_for_ticks(&mut self) -> Result<(), SessionError> {
        // SAFETY: membarrier takes plain numbers and touches no memory of ours.
        let done = unsafe { libc::syscall(libc::SYS_membarrier, libc::MEMBARRIER_CMD_GLOBAL, 0, 0) };
        if done != 0 {
            // The kernel refuses membarrier with nohz_full CPUs; replacing an inner map waits for programs as well.
            self.displace_bins(MAX_SLOTS - 1)?;
        }
        self.seats.settle();
        Ok(())
    }

    fn displace_bins(&mut self, slot: u32) -> Result<(), SessionError> {
        match self.spare.bins.map() {
            Some(map) => self.bins.set(slot, map, 0).map_err(|source| SessionError::Map { name: "BINS", source }),
            None => Ok(()),
        }
    }

    fn put_array(&mut self, slot: u32, map: &MapData) -> Result<(), SessionError> {
        self.bins.set(slot, map, 0).map_err(|source| SessionError::Map { name: "BINS", source })
    }

    /// Hands out the events that came since the last call, oldest first.
    pub fn drain_events(&mut self, mut event: impl FnMut(&Event)) {
        while let Some(item) = self.events.next() {
            event(&from_ring::<Event>(&item));
        }
    }

    /// Hands out the recorded ticks that came since the last call; none without `RECORDING`.
    pub fn drain_recording(&mut self, mut tick: impl FnMut(&TickRecord)) {
        while let Some(item) = self.recording.next() {
            tick(&from_ring::<TickRecord>(&item));
        }
    }

    /// Descriptor that becomes readable when there are events.
    ///
    /// # Errors
    /// What dup(2) says.
    pub fn events_fd(&self) -> io::Result<OwnedFd> {
        self.events.as_fd().try_clone_to_owned()
    }

    /// Passes on what the hooks have logged since the last call; nothing with [`HookLog::Off`].
    pub fn flush_log(&mut self) {
        if let Some(logger) = &mut self.logger {
            logger.flush();
        }
    }
}

/// Loads the program that the clock will run, and says which it is.
fn load_tick(ebpf: &mut Ebpf, lanes: LaneUse) -> Result<&'static str, SessionError> {
    if lanes == LaneUse::Wanted {
        let tick: &mut PerfEvent = program(ebpf, TICK_WITH_LANES)?;
        match tick.load() {
            Ok(()) => return Ok(TICK_WITH_LANES),
            // Whatever keeps the other from loading as well is told by it.
            Err(error) => log::debug!("no lanes on this kernel: {error}"),
        }
    }
    let tick: &mut PerfEvent = program(ebpf, TICK)?;
    tick.load().map_err(|source| refused(TICK, source))?;
    Ok(TICK)
}

/// Settings with what this kernel decides.
fn for_this_kernel(settings: Settings) -> Result<Settings, SessionError> {
    let has_task_pt_regs = Features::of_this_kernel().has_task_pt_regs;
    Ok(Settings {
        fields: btf::kernel_fields()?,
        pid_namespace: namespace::own_number_if_nested(),
        flags: settings.flags | if has_task_pt_regs { settings_flags::HAS_TASK_PT_REGS } else { 0 },
        ..settings
    })
}

/// CPUs that are online now.
///
/// # Errors
/// [`SessionError::Read`].
pub fn online_cpus() -> Result<Vec<u32>, SessionError> {
    aya::util::online_cpus().map_err(|(_, source)| SessionError::Read { name: "online CPUs", source })
}

fn program<'e, P>(ebpf: &'e mut Ebpf, name: &'static str) -> Result<&'e mut P, SessionError>
where
    &'e mut P: TryFrom<&'e mut aya::programs::Program>,
{
    ebpf.program_mut(name).and_then(|program| program.try_into().ok()).ok_or(SessionError::Missing { name })
}

fn take(ebpf: &mut Ebpf, name: &'static str) -> Result<Map, SessionError> {
    ebpf.take_map(name).ok_or(SessionError::Missing { name })
}

fn take_typed<M: TryFrom<Map, Error = MapError>>(ebpf: &mut Ebpf, name: &'static str) -> Result<M, SessionError> {
    M::try_from(take(ebpf, name)?).map_err(|source| SessionError::Map { name, source })
}

fn take_memory(ebpf: &mut Ebpf, name: &'static str, words: usize) -> Result<MapMemory, SessionError> {
    match take(ebpf, name)? {
        // The mapping keeps the array alive without its descriptor.
        Map::Array(map) => {
            MapMemory::new(map.fd().as_fd(), words).map_err(|source| SessionError::Read { name, source })
        }
        _ => Err(SessionError::Missing { name }),
    }
}

fn take_rows(ebpf: &mut Ebpf, name: &'static str) -> Result<MapData, SessionError> {
    match take(ebpf, name)? {
        Map::HashMap(map) => Ok(map),
        _ => Err(SessionError::Missing { name }),
    }
}

/// Copies a record out of a ring. A record that is too short, which the kernel never writes, reads as zeros.
fn from_ring<T: Pod>(bytes: &[u8]) -> T {
    let mut value = std::mem::MaybeUninit::<T>::zeroed();
    let length = bytes.len().min(size_of::<T>());
    // SAFETY: both sides hold at least `length` bytes and do not overlap; T is Pod, so any bytes make a value.
    unsafe {
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), value.as_mut_ptr().cast::<u8>(), length);
        value.assume_init()
    }
}
