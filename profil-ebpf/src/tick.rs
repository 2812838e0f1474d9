//! One tick: whose, at which pc, and into which counter.

use aya_ebpf::bindings::{BPF_NOEXIST, bpf_perf_event_data, pt_regs};
use aya_ebpf::helpers::generated::{
    bpf_get_current_ancestor_cgroup_id, bpf_get_current_task_btf, bpf_get_smp_processor_id, bpf_get_stack,
    bpf_task_pt_regs,
};
use aya_ebpf::helpers::{bpf_get_current_comm, bpf_get_current_pid_tgid, bpf_get_current_uid_gid, bpf_ktime_get_ns};
use aya_ebpf::macros::perf_event;
use aya_ebpf::programs::PerfEventContext;
use profil_common::{
    BinChunk, Counters, EventKind, FrontRow, Outcome, Process, Region, RowKey, TickRecord, process_flags, row_flags,
};
use profil_common::{FILTER_CPUS, settings_flags as sf};

use crate::processes::Known;
use crate::settings::{has, setting};
use crate::{arch, atomic, hooks, maps, processes};

/// What an insertion returns when the key is there already.
const EEXIST: i32 = -17;

/// Runs at each expiry of a CPU's clock.
#[perf_event]
pub fn tick(ctx: PerfEventContext) -> u32 {
    run::<false>(&ctx);
    0
}

/// As [`tick`], for sessions that may have processes with lanes. Minimum kernel: 5.12.
#[perf_event]
pub fn tick_with_lanes(ctx: PerfEventContext) -> u32 {
    run::<true>(&ctx);
    0
}

#[inline(always)]
fn run<const LANES: bool>(ctx: &PerfEventContext) {
    // SAFETY: a helper without arguments.
    let cpu = unsafe { bpf_get_smp_processor_id() };
    let Some(counters) = maps::COUNTERS.get_ptr_mut(cpu) else {
        return;
    };
    // SAFETY: the element is this CPU's own, the kernel does not run a second program on it while this one runs
    // (bpf_prog_active), and the loader only reads. The same holds for every write to `counters` below.
    unsafe { (*counters).fired += 1 };

    let id = bpf_get_current_pid_tgid();
    let (tgid, tid) = ((id >> 32) as u32, id as u32);
    let known = match wanted(cpu, tgid, tid) {
        Wanted::Process(known) => known,
        Wanted::Not => {
            // SAFETY: see above.
            unsafe { (*counters).elsewhere += 1 };
            return;
        }
        Wanted::NoRoom => {
            // SAFETY: see above.
            unsafe {
                (*counters).ticks += 1;
                (*counters).outcomes[Outcome::Dropped as usize] += 1;
            }
            return;
        }
    };
    if !is_due(known) {
        // SAFETY: see above.
        unsafe { (*counters).between += 1 };
        return;
    }
    // SAFETY: see above.
    unsafe { (*counters).ticks += 1 };
    let outcome = count::<LANES>(ctx, counters, known, cpu, tid);
    // The index is written out so that it is a constant in each arm: the verifier sees no variable offset.
    // SAFETY: see above.
    unsafe {
        match outcome {
            Outcome::Binned => (*counters).outcomes[Outcome::Binned as usize] += 1,
            Outcome::Stray => (*counters).outcomes[Outcome::Stray as usize] += 1,
            Outcome::Outside => (*counters).outcomes[Outcome::Outside as usize] += 1,
            Outcome::NoUserPc => (*counters).outcomes[Outcome::NoUserPc as usize] += 1,
            Outcome::KernelExcluded => (*counters).outcomes[Outcome::KernelExcluded as usize] += 1,
            Outcome::Dropped => (*counters).outcomes[Outcome::Dropped as usize] += 1,
        }
    }
}

/// Whether to count for the current thread.
enum Wanted {
    /// It was not asked for.
    Not,
    /// It was, but the table of processes is full.
    NoRoom,
    /// It was, as one of this process.
    Process(Known),
}

/// The process to count for, if this thread of it was asked for.
#[inline(always)]
fn wanted(cpu: u32, tgid: u32, tid: u32) -> Wanted {
    // The idle task has no process.
    if tid == 0 {
        return Wanted::Not;
    }
    if has(sf::FILTER_CPU) {
        // SAFETY: the index is below the length of the array in frozen data.
        let word = unsafe {
            core::ptr::read_volatile(
                (&raw const (*crate::settings::get()).cpus)
                    .cast::<u64>()
                    .add((cpu as usize / 64) & (FILTER_CPUS / 64 - 1)),
            )
        };
        if cpu as usize >= FILTER_CPUS || word & (1 << (cpu & 63)) == 0 {
            return Wanted::Not;
        }
    }
    let known = match processes::find(tgid) {
        Some(known) => known,
        None if has(sf::ALL_PROCESSES) => {
            if !passes_filters(tid) {
                return Wanted::Not;
            }
            match make_known(tgid, cpu) {
                Some(process) => Known::in_table(process),
                None => return Wanted::NoRoom,
            }
        }
        None => return Wanted::Not,
    };
    // SAFETY: the lookup returned a live value; hooks write the flags as one aligned word.
    let flags = unsafe { core::ptr::read_volatile(&raw const (*known.process).flags) };
    let selected = flags & process_flags::SELECTED != 0 && passes_filters(tid);
    if selected { Wanted::Process(known) } else { Wanted::Not }
}

/// Whether the current thread passes the filters of this load.
#[inline(always)]
fn passes_filters(tid: u32) -> bool {
    if has(sf::FILTER_TID) && maps::THREADS.get_ptr(tid).is_none() {
        return false;
    }
    if has(sf::FILTER_UID) && bpf_get_current_uid_gid() as u32 != setting!(uid) {
        return false;
    }
    if has(sf::FILTER_CGROUP) {
        let level = setting!(cgroup_level) as i32;
        // SAFETY: a helper without pointers.
        let ancestor = unsafe { bpf_get_current_ancestor_cgroup_id(level) };
        if ancestor != setting!(cgroup) {
            return false;
        }
    }
    if has(sf::FILTER_COMM) {
        let Ok(comm) = bpf_get_current_comm() else {
            return false;
        };
        let wanted = setting!(comm);
        // Bytes behind the NUL are not defined: compare up to it.
        for index in 0..comm.len() {
            if comm[index] != wanted[index] {
                return false;
            }
            if wanted[index] == 0 {
                break;
            }
        }
    }
    true
}

/// Enters a process at its first tick, in a session that takes all processes.
#[inline(always)]
fn make_known(tgid: u32, cpu: u32) -> Option<*mut Process> {
    let process = Process { image: hooks::new_image(cpu), flags: setting!(all_flags), ..Process::default() };
    match maps::PROCESSES.insert(tgid, process, BPF_NOEXIST.into()) {
        Ok(()) => hooks::announce(EventKind::Seen, tgid, &process, hooks::Details::of_current()),
        // Another CPU entered it first.
        Err(EEXIST) => {}
        Err(_) => return None,
    }
    maps::PROCESSES.get_ptr_mut(tgid)
}

/// Adds one clock period to the CPU time of the process; whether a tick is due then.
///
/// The period is counted per process, not per thread: a hundred threads that run for half a period each make fifty
/// ticks, as profil(2)'s process clock would. Two CPUs that add within the same few nanoseconds both see the sum
/// of both: they may then make one tick too many or too few between them, equally often.
#[inline(always)]
fn is_due(known: Known) -> bool {
    let clock_ns = setting!(clock_ns);
    let period_ns = match setting!(period_ns) {
        0 => own_period_ns(known),
        period_ns => period_ns,
    };
    if clock_ns >= period_ns {
        return true;
    }
    // SAFETY: the pointer comes from the lookup of this run and the field is 8-byte aligned.
    let after = unsafe {
        atomic::add_u64(&raw mut (*known.process).clocked_ns, clock_ns);
        core::ptr::read_volatile(&raw const (*known.process).clocked_ns)
    };
    after / period_ns != (after - clock_ns) / period_ns
}

/// CPU time between two ticks of a process that has its own period; so long that none is due when it has no bins.
#[inline(always)]
fn own_period_ns(known: Known) -> u64 {
    // SAFETY: the pointer comes from the lookup of this run; the field is one aligned word.
    let slot = unsafe { core::ptr::read_volatile(&raw const (*known.process).slot) };
    if let Some(near) = known.near(slot) {
        // SAFETY: see `bin_of`.
        return unsafe { (*near).period_ns };
    }
    // SAFETY: see `bin_of`.
    maps::RANGES.get_ptr(slot).map_or(u64::MAX, |table| unsafe { (*table).period_ns })
}

/// Counts a tick of a wanted thread.
#[inline(always)]
fn count<const LANES: bool>(
    ctx: &PerfEventContext,
    counters: *mut Counters,
    known: Known,
    cpu: u32,
    tid: u32,
) -> Outcome {
    // SAFETY: ctx.ctx is the context that the kernel passed.
    let in_user = unsafe { arch::is_user(ctx.ctx) };
    let mut mode = 0;
    let pc = if in_user {
        if has(sf::KERNEL_ONLY) {
            return Outcome::Outside;
        }
        // LLVM would merge this load with the one of the return pc below, and the verifier refuses loads from
        // "modified ctx ptr"; black_box keeps them apart.
        // SAFETY: as above.
        core::hint::black_box(unsafe { arch::pc(ctx.ctx) })
    } else {
        if has(sf::USER_ONLY) {
            return Outcome::KernelExcluded;
        }
        mode = row_flags::KERNEL_MODE;
        if has(sf::KERNEL_ONLY) {
            mode |= row_flags::KERNEL_PC;
            // SAFETY: as above.
            core::hint::black_box(unsafe { arch::pc(ctx.ctx) })
        } else {
            user_pc_behind_kernel(ctx.ctx)
        }
    };
    // A kernel thread has no frame to return to: its pc reads as 0 or as an address of the kernel.
    if mode & row_flags::KERNEL_PC == 0 && (pc == 0 || pc as i64 <= 0) {
        return Outcome::NoUserPc;
    }
    // SAFETY: the pointer comes from the lookup of this run; each is one aligned word.
    let (image, flags_and_slot) = unsafe {
        (
            core::ptr::read_volatile(&raw const (*known.process).image),
            core::ptr::read_volatile((&raw const (*known.process).flags).cast::<u64>()),
        )
    };
    // One load, as it is one store of the loader: a tick between two calls of its process counts for one or the other.
    let (flags, slot) = (flags_and_slot as u32, (flags_and_slot >> 32) as u32);
    let outcome = if LANES && flags & process_flags::LANES != 0 {
        add_to_lane(counters, known, slot, pc)
    } else if flags & process_flags::DENSE != 0 && add_to_bin(known, slot, pc) {
        Outcome::Binned
    } else if has(sf::STRAYS) {
        let tid = if has(sf::PER_THREAD) { tid } else { 0 };
        add_to_row(counters, cpu, &RowKey { image, pc, tid, flags: mode })
    } else {
        Outcome::Outside
    };
    if has(sf::RECORDING) {
        let record = TickRecord { image, pc, tid, outcome: outcome as u32 };
        // A full ring shows as a recording with fewer ticks than the counters.
        let _full = maps::RECORDING.output(record, 0);
    }
    outcome
}

/// The pc that the current thread will return to from the kernel; 0 when there is none.
#[inline(always)]
fn user_pc_behind_kernel(ctx: *mut bpf_perf_event_data) -> u64 {
    if has(sf::HAS_TASK_PT_REGS) {
        // SAFETY: both helpers take and return the current task, which outlives the program.
        unsafe {
            let regs = bpf_task_pt_regs(bpf_get_current_task_btf()) as *const pt_regs;
            return core::hint::black_box(arch::return_pc(regs));
        }
    }
    // Before 5.15: the first entry of the user stack is the return pc.
    let mut pc = 0u64;
    // BPF_F_USER_STACK.
    const USER_STACK: u64 = 1 << 8;
    // SAFETY: the buffer is the 8 bytes of pc.
    let bytes = unsafe { bpf_get_stack(ctx.cast(), (&raw mut pc).cast(), 8, USER_STACK) };
    if bytes == 8 { pc } else { 0 }
}

/// The bin of a pc among those of its process, and the chunk of the pool in which these begin.
#[inline(always)]
fn bin_of(known: Known, slot: u32, pc: u64) -> Option<(u32, u32)> {
    if has(sf::SINGLE) {
        // Constants of the load: no page is touched for them, and the shifts are by numbers.
        let region = Region {
            offset: setting!(single.offset),
            nbins: setting!(single.nbins),
            multiplier: setting!(single.multiplier),
            pre_shift: setting!(single.pre_shift),
            post_shift: setting!(single.post_shift),
            reserved: 0,
        };
        return Some((region.bin_of(pc)?, 0));
    }
    if let Some(near) = known.near(slot) {
        // SAFETY: into a live element; the loader changes it only when no tick can be under way that found it valid.
        return unsafe { Some(((*near).bin_of(pc)?, (*near).first_chunk.into())) };
    }
    // SAFETY: the loader writes a table before it sets DENSE, and not again before it has cleared DENSE and waited for a
    // grace period.
    unsafe {
        let table = maps::RANGES.get_ptr(slot)?;
        Some(((*table).bin_of(pc)?, (*table).first_chunk))
    }
}

/// Adds one to the bin of a pc; false when the pc is in no region of the slot.
#[inline(always)]
fn add_to_bin(known: Known, slot: u32, pc: u64) -> bool {
    let Some((bin, first_chunk)) = bin_of(known, slot, pc) else {
        return false;
    };
    let (chunk, place) = BinChunk::place(bin);
    let chunk = if has(sf::SINGLE) || first_chunk != 0 {
        maps::POOL.get_ptr_mut(first_chunk + chunk)
    } else {
        maps::BINS.get_value_ptr_mut(slot, &chunk)
    };
    let Some(chunk) = chunk else {
        return false;
    };
    // SAFETY: the chunk is a live element, the place is below its number of bins, and both words are aligned.
    unsafe {
        atomic::add_u32((&raw mut (*chunk).bins).cast::<u32>().add(place as usize), 1);
        // Set after the count: a drain that clears it first can then read too early, but never too late.
        core::ptr::write_volatile(&raw mut (*chunk).dirty, 1);
    }
    true
}

/// Adds one to the lane of a pc.
#[inline(always)]
fn add_to_lane(counters: *mut Counters, known: Known, slot: u32, pc: u64) -> Outcome {
    let Some((bin, _)) = bin_of(known, slot, pc) else {
        return Outcome::Outside;
    };
    let Some(word) = maps::LANES.get_value_ptr_mut(slot, &(bin / 4)) else {
        return Outcome::Outside;
    };
    // SAFETY: a live element; elements are words.
    if !unsafe { atomic::add_to_lane(word, bin % 4) } {
        return Outcome::Dropped;
    }
    // SAFETY: see `run`.
    unsafe { (*counters).in_lanes += 1 };
    Outcome::Binned
}

/// Adds one to a row of the half of the sparse table that is being filled.
#[inline(always)]
fn add_to_row(counters: *mut Counters, cpu: u32, key: &RowKey) -> Outcome {
    // SAFETY: this CPU's own element; an aligned word that the loader writes.
    let epoch = unsafe { core::ptr::read_volatile(&raw const (*counters).epoch) };
    if add_to_front(FrontRow::first_of(cpu, epoch as u32 & 1), key) {
        return Outcome::Stray;
    }
    if epoch & 1 == 0 { add_to_half(&maps::ROWS_0, counters, key) } else { add_to_half(&maps::ROWS_1, counters, key) }
}

/// Adds one to the row in this CPU's front rows, which begin at `first`; false when another row has its place.
#[inline(always)]
fn add_to_front(first: u32, key: &RowKey) -> bool {
    let Some(row) = maps::FRONT.get_ptr_mut(first + FrontRow::place(key)) else {
        return false;
    };
    // SAFETY: a live element that is this CPU's own, as its counters are; the loader empties it only while the other half
    // is being filled, a grace period after the flip.
    unsafe {
        let count = (*row).count;
        if count == 0 {
            (*row).key = *key;
        } else if (*row).key != *key {
            return false;
        }
        (*row).count = count + 1;
    }
    true
}

#[inline(always)]
fn add_to_half<const ENTRIES: usize>(
    rows: &aya_ebpf::btf_maps::HashMap<RowKey, u64, ENTRIES>,
    counters: *mut Counters,
    key: &RowKey,
) -> Outcome {
    if let Some(count) = rows.get_ptr_mut(key) {
        // SAFETY: rows are deleted only from the half that is not being filled, a grace period after the flip.
        unsafe { atomic::add_u64(count, 1) };
        return Outcome::Stray;
    }
    match rows.insert(key, 1, BPF_NOEXIST.into()) {
        Ok(()) => {
            // SAFETY: see `run`.
            unsafe { (*counters).rows += 1 };
            Outcome::Stray
        }
        // Another CPU inserted the same row in between.
        Err(EEXIST) => match rows.get_ptr_mut(key) {
            Some(count) => {
                // SAFETY: as above.
                unsafe { atomic::add_u64(count, 1) };
                Outcome::Stray
            }
            None => Outcome::Dropped,
        },
        Err(_) => Outcome::Dropped,
    }
}

/// Time for events, on the clock that the perf rings use as well.
#[inline(always)]
pub fn now_ns() -> u64 {
    // SAFETY: a helper without arguments.
    unsafe { bpf_ktime_get_ns() }
}
