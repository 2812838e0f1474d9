//! Fork, exec, exit and free: the table of known processes is kept right here, in the kernel, because user space
//! hears of them too late.
//!
//! All four are raw tracepoints: a perf-attached tracepoint program would blind the tick while it runs.

use aya_ebpf::EbpfContext;
use aya_ebpf::helpers::generated::{bpf_get_current_task, bpf_get_smp_processor_id, bpf_probe_read_kernel};
use aya_ebpf::helpers::{bpf_get_current_comm, bpf_get_current_pid_tgid};
use aya_ebpf::macros::raw_tracepoint;
use aya_ebpf::programs::RawTracePointContext;
use aya_log_ebpf::debug;
use profil_common::limits::COMM_BYTES;
use profil_common::{Counters, Event, EventKind, Process, process_flags as pf};

use crate::processes::Known;
use crate::settings::setting;
use crate::{atomic, maps, processes, tick};

/// A new process or thread: the child of a known process that is followed is known before it first runs.
#[raw_tracepoint(tracepoint = "sched_process_fork")]
pub fn fork(ctx: RawTracePointContext) -> u32 {
    let child = ctx.arg::<u64>(1);
    let parent_tgid = (bpf_get_current_pid_tgid() >> 32) as u32;
    let Some(tgid) = read::<u32>(child, setting!(fields.task_tgid)) else {
        return 0;
    };
    if tgid == parent_tgid {
        return 0;
    }
    let parent = processes::find(parent_tgid);
    // SAFETY: the lookup returned a live value, and each field is read as one aligned word.
    let parent = parent.map(|parent| unsafe { *parent.process });
    match parent {
        Some(parent) if parent.flags & pf::FOLLOW != 0 => {
            let flags = parent.flags & (pf::SELECTED | pf::FOLLOW | pf::FROM_EXEC);
            let process = Process { image: new_image(cpu()), flags, ..Process::default() };
            let comm = read::<[u8; COMM_BYTES]>(child, setting!(fields.task_comm)).unwrap_or_default();
            if processes::enter(tgid, &process).is_err() {
                add_to_counter(|counters| &raw mut counters.unfollowed);
                debug!(&ctx, "the table of processes is full: process {} is not counted", tgid);
                return 0;
            }
            announce(
                EventKind::Fork,
                tgid,
                &process,
                Details { other_image: parent.image, task: child, comm, cpu_ns: 0 },
            );
            debug!(&ctx, "process {} is a child of {}", tgid, parent_tgid);
        }
        // The PID is used again by a process that nobody asked for: forget the one that had it.
        _ => processes::forget(tgid),
    }
    0
}

/// A known process runs another program: its image changes and its bins are off.
#[raw_tracepoint(tracepoint = "sched_process_exec")]
pub fn exec(ctx: RawTracePointContext) -> u32 {
    let tgid = ctx.tgid();
    let Some(Known { process, .. }) = processes::find(tgid) else {
        return 0;
    };
    let image = new_image(cpu());
    let own_periods = setting!(period_ns) == 0;
    // SAFETY: the lookup returned a live value; only this thread changes the image of its process, since exec has
    // ended all others, and each field is one aligned word.
    let (old_image, flags) = unsafe {
        let old_image = core::ptr::read_volatile(&raw const (*process).image);
        let mut flags = core::ptr::read_volatile(&raw const (*process).flags) & !(pf::DENSE | pf::LANES);
        if flags & pf::FROM_EXEC != 0 {
            flags = flags & !pf::FROM_EXEC | pf::SELECTED;
        }
        if own_periods {
            // Only its bins gave it a period.
            flags &= !pf::SELECTED;
        }
        core::ptr::write_volatile(&raw mut (*process).flags, flags);
        core::ptr::write_volatile(&raw mut (*process).image, image);
        (old_image, flags)
    };
    let process = Process { image, flags, ..Process::default() };
    announce(EventKind::Exec, tgid, &process, Details { other_image: old_image, ..Details::of_current() });
    debug!(&ctx, "process {} runs another program", tgid);
    0
}

/// The last thread of a known process begins to exit. It still uses CPU time, so the entry stays until [`free`].
#[raw_tracepoint(tracepoint = "sched_process_exit")]
pub fn exit(ctx: RawTracePointContext) -> u32 {
    let tgid = ctx.tgid();
    let Some(Known { process, .. }) = processes::find(tgid) else {
        return 0;
    };
    // SAFETY: a helper without arguments.
    let task = unsafe { bpf_get_current_task() };
    let Some(signal) = read::<u64>(task, setting!(fields.task_signal)) else {
        return 0;
    };
    if read::<u32>(signal, setting!(fields.signal_live)) != Some(0) {
        return 0;
    }
    // What the threads before it used, and what it used itself.
    let cpu_ns = read::<u64>(signal, setting!(fields.signal_runtime)).unwrap_or(0)
        + read::<u64>(task, setting!(fields.task_runtime)).unwrap_or(0);
    // SAFETY: the lookup returned a live value; the last thread is the only one left to change it.
    let process = unsafe {
        let flags = core::ptr::read_volatile(&raw const (*process).flags) | pf::EXITED;
        core::ptr::write_volatile(&raw mut (*process).flags, flags);
        *process
    };
    announce(EventKind::Exit, tgid, &process, Details { task, cpu_ns, ..Details::of_current() });
    debug!(&ctx, "process {} exits", tgid);
    0
}

/// The kernel frees the thread that a process is named by, its last: CPU time is final, and the entry goes.
#[raw_tracepoint(tracepoint = "sched_process_free")]
pub fn free(ctx: RawTracePointContext) -> u32 {
    let task = ctx.arg::<u64>(0);
    let (Some(tid), Some(tgid)) =
        (read::<u32>(task, setting!(fields.task_pid)), read::<u32>(task, setting!(fields.task_tgid)))
    else {
        return 0;
    };
    if tid != tgid {
        return 0;
    }
    let Some(Known { process, .. }) = processes::find(tgid) else {
        return 0;
    };
    // SAFETY: the lookup returned a live value; a copy of aligned words.
    let process = unsafe { *process };
    // A PID that is used again has a new entry, which has not exited: leave it alone.
    if process.flags & pf::EXITED != 0 {
        // Each thread has added its CPU time here as it was released, this one as the last.
        let cpu_ns = read::<u64>(task, setting!(fields.task_signal))
            .and_then(|signal| read::<u64>(signal, setting!(fields.signal_runtime)))
            .unwrap_or(0);
        let comm = read::<[u8; COMM_BYTES]>(task, setting!(fields.task_comm)).unwrap_or_default();
        announce(EventKind::Free, tgid, &process, Details { other_image: 0, task, comm, cpu_ns });
        processes::forget(tgid);
    }
    0
}

/// A number for an image that no other image of the session has: the time of its birth, and the CPU to tell apart
/// those of one nanosecond.
#[inline(always)]
pub fn new_image(cpu: u32) -> u64 {
    (tick::now_ns() << 10) | (cpu as u64 & 1023)
}

/// What an event tells beside the process.
pub struct Details {
    /// The other image that the event is about, or 0.
    pub other_image: u64,
    /// Address of a `task_struct` of the process.
    pub task: u64,
    /// Command name.
    pub comm: [u8; COMM_BYTES],
    /// CPU time of the process, ns, when it is final.
    pub cpu_ns: u64,
}

impl Details {
    /// The current task and its name.
    #[inline(always)]
    pub fn of_current() -> Details {
        // SAFETY: a helper without arguments.
        let task = unsafe { bpf_get_current_task() };
        Details { other_image: 0, task, comm: bpf_get_current_comm().unwrap_or_default(), cpu_ns: 0 }
    }
}

/// Puts an event into the ring. A full ring loses it, and counts it.
#[inline(always)]
pub fn announce(kind: EventKind, tgid: u32, process: &Process, details: Details) {
    let Details { other_image, task, comm, cpu_ns } = details;
    let event = Event {
        time_ns: tick::now_ns(),
        image: process.image,
        other_image,
        cpu_ns,
        kind: kind as u32,
        tgid,
        flags: process.flags,
        pid: pid_for_loader(task, tgid),
        comm,
    };
    if maps::EVENTS.output(event, 0).is_err() {
        add_to_counter(|counters| &raw mut counters.unannounced);
    }
}

/// Adds one to a counter of this CPU. Atomic, because a hook can be interrupted by the tick, which counts as well.
#[inline(always)]
fn add_to_counter(counter: impl FnOnce(&mut Counters) -> *mut u64) {
    if let Some(counters) = maps::COUNTERS.get_ptr_mut(cpu()) {
        // SAFETY: the element is live, and only its address is used; the addition is atomic.
        unsafe { atomic::add_u64(counter(&mut *counters), 1) };
    }
}

/// Levels of PID namespaces that are searched; container engines nest two.
const NAMESPACE_LEVELS: u32 = 8;

/// Bytes of `struct upid { int nr; struct pid_namespace *ns; }`.
const UPID_BYTES: u64 = 16;

/// The process's number in the PID namespace of the loader; 0 when it is not visible there.
#[inline(always)]
fn pid_for_loader(task: u64, tgid: u32) -> u32 {
    let namespace = setting!(pid_namespace);
    if namespace == 0 {
        return tgid;
    }
    // signal_struct.pids is indexed by enum pid_type, in which PIDTYPE_TGID is 1.
    let pid = read::<u64>(task, setting!(fields.task_signal))
        .and_then(|signal| read::<u64>(signal, setting!(fields.signal_pids) + size_of::<u64>() as u32));
    let Some(pid) = pid else {
        return 0;
    };
    let deepest = read::<u32>(pid, setting!(fields.pid_level)).unwrap_or(0);
    for level in 0..NAMESPACE_LEVELS {
        if level > deepest {
            break;
        }
        let number = pid + setting!(fields.pid_numbers) as u64 + level as u64 * UPID_BYTES;
        let inum = read::<u64>(number, 8).and_then(|ns| read::<u32>(ns, setting!(fields.namespace_inum)));
        if inum == Some(namespace) {
            return read::<u32>(number, 0).unwrap_or(0);
        }
    }
    0
}

/// Reads a field of a kernel structure; `None` when the address is bad.
#[inline(always)]
fn read<T: Copy>(structure: u64, offset: u32) -> Option<T> {
    let mut value = core::mem::MaybeUninit::<T>::uninit();
    let address = structure.wrapping_add(offset as u64) as *const core::ffi::c_void;
    // SAFETY: the buffer has the size of T; the helper checks the source itself and fills all of the buffer.
    let failed = unsafe { bpf_probe_read_kernel(value.as_mut_ptr().cast(), size_of::<T>() as u32, address) };
    // SAFETY: the helper has filled the buffer, and T is made of integers only.
    (failed == 0).then(|| unsafe { value.assume_init() })
}

#[inline(always)]
fn cpu() -> u32 {
    // SAFETY: a helper without arguments.
    unsafe { bpf_get_smp_processor_id() }
}
