//! Single questions to the kernel, each answered by trying.

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

use super::bpf::{self, Instruction, LoadFailure, MapKind, MapSpec, ProgramKind};
use super::perf::{self, Event};

/// What trying a feature showed.
#[derive(Debug)]
pub enum Support {
    /// It works.
    Works,
    /// The kernel does not know it.
    Absent,
    /// This user may not try it, so nothing is known.
    Refused(io::Error),
}

impl Support {
    /// Whether the feature can be used.
    pub fn works(&self) -> bool {
        matches!(self, Support::Works)
    }

    /// What the outcome of trying says: EPERM and EACCES are about the user, everything else about the kernel.
    fn of<T>(outcome: io::Result<T>) -> Support {
        match outcome {
            Ok(_) => Support::Works,
            Err(error) if is_refusal(&error) => Support::Refused(error),
            Err(_) => Support::Absent,
        }
    }
}

/// Whether an error says that the user lacks a right.
pub fn is_refusal(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EPERM | libc::EACCES))
}

/// A helper that the eBPF programs call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Helper {
    /// `bpf_ktime_get_ns`.
    KtimeGetNs = 5,
    /// `bpf_get_stack`.
    GetStack = 67,
    /// `bpf_get_current_ancestor_cgroup_id`.
    AncestorCgroupId = 123,
    /// `bpf_probe_read_kernel`.
    ProbeReadKernel = 113,
    /// `bpf_ringbuf_reserve`.
    RingbufReserve = 131,
    /// `bpf_get_current_task_btf`.
    CurrentTaskBtf = 158,
    /// `bpf_ktime_get_coarse_ns`, not called: it came with 5.11 and tells that kernel.
    KtimeGetCoarseNs = 160,
    /// `bpf_task_pt_regs`.
    TaskPtRegs = 175,
    /// `bpf_find_vma`.
    FindVma = 180,
}

impl Helper {
    /// The helper's name in the kernel.
    pub fn name(self) -> &'static str {
        match self {
            Helper::KtimeGetNs => "bpf_ktime_get_ns",
            Helper::GetStack => "bpf_get_stack",
            Helper::AncestorCgroupId => "bpf_get_current_ancestor_cgroup_id",
            Helper::ProbeReadKernel => "bpf_probe_read_kernel",
            Helper::RingbufReserve => "bpf_ringbuf_reserve",
            Helper::CurrentTaskBtf => "bpf_get_current_task_btf",
            Helper::KtimeGetCoarseNs => "bpf_ktime_get_coarse_ns",
            Helper::TaskPtRegs => "bpf_task_pt_regs",
            Helper::FindVma => "bpf_find_vma",
        }
    }
}

/// Whether programs at a perf event may call a helper.
pub fn helper(helper: Helper) -> Support {
    let program = [Instruction::call(helper as i32), Instruction::exit()];
    // Not all kernels lend this one to programs at perf events, and libbpf asks for it by a socket filter too.
    let kind = match helper {
        Helper::KtimeGetCoarseNs => ProgramKind::SocketFilter,
        _ => ProgramKind::PerfEvent,
    };
    match bpf::load_program(kind, &program, 0) {
        Ok(_) => Support::Works,
        Err(LoadFailure { error, log }) => {
            // Whoever is refused before the verifier runs gets no log.
            if log.is_empty() {
                return if is_refusal(&error) { Support::Refused(error) } else { Support::Absent };
            }
            // The call lacks its arguments, so the verifier complains in any case; of a helper that it does not know, it
            // says so first. libbpf goes by the same words (src/libbpf_probes.c).
            let unknown = ["invalid func ", "unknown func ", "program of this type cannot use helper "];
            let absent = unknown.iter().any(|words| log.contains(words));
            if absent { Support::Absent } else { Support::Works }
        }
    }
}

/// Whether the smallest perf_event program loads.
pub fn perf_event_program() -> Support {
    Support::of(trivial(ProgramKind::PerfEvent))
}

/// Whether BPF has 32-bit and 64-bit fetch-and-add and compare-and-exchange (5.12; the JIT of some machines later).
pub fn fetch_atomics() -> Support {
    const DOUBLE: u8 = 0xdb;
    const WORD: u8 = 0xc3;
    const FETCH_ADD: i32 = 0x01;
    const CMPXCHG: i32 = 0xf1;
    let mut program = vec![Instruction::set(0, 0), Instruction::store(10, 0, -8)];
    for code in [DOUBLE, WORD] {
        for operation in [FETCH_ADD, CMPXCHG] {
            program.extend([
                Instruction::set(0, 0),
                Instruction::set(1, 1),
                Instruction::new(code, 10, 1, -8, operation),
            ]);
        }
    }
    program.extend([Instruction::set(0, 0), Instruction::exit()]);
    Support::of(bpf::load_program(ProgramKind::PerfEvent, &program, 0).map_err(|failure| failure.error))
}

/// A map that the eBPF programs use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapUse {
    /// An array that user space maps (5.5).
    MmapableArray,
    /// An array of arrays of different sizes (5.10).
    ArraysOfAnySize,
    /// A hash.
    Hash,
    /// A ring of records (5.8).
    RingBuf,
}

/// Whether a map that the programs use can be made.
pub fn map(wanted: MapUse) -> Support {
    let array = |entries, flags| {
        bpf::create_map(&MapSpec { kind: MapKind::Array, key_bytes: 4, value_bytes: 8, entries, flags, inner: None })
    };
    Support::of(match wanted {
        MapUse::MmapableArray => array(1, bpf::MMAPABLE),
        MapUse::Hash => bpf::create_map(&MapSpec {
            kind: MapKind::Hash,
            key_bytes: 8,
            value_bytes: 8,
            entries: 1,
            flags: 0,
            inner: None,
        }),
        // The smallest ring on every machine: a page of 64 KiB at most.
        MapUse::RingBuf => bpf::create_map(&MapSpec {
            kind: MapKind::RingBuf,
            key_bytes: 0,
            value_bytes: 0,
            entries: 64 * 1024,
            flags: 0,
            inner: None,
        }),
        MapUse::ArraysOfAnySize => array(1, bpf::MMAPABLE | bpf::INNER_MAP).and_then(|shape| {
            let outer = bpf::create_map(&MapSpec {
                kind: MapKind::ArrayOfMaps,
                key_bytes: 4,
                value_bytes: 4,
                entries: 1,
                flags: 0,
                inner: Some(shape.as_fd()),
            })?;
            let larger = array(7, bpf::MMAPABLE | bpf::INNER_MAP)?;
            bpf::put_map(outer.as_fd(), 0, larger.as_fd())?;
            Ok(outer)
        }),
    })
}

/// Whether a program attaches to a raw tracepoint.
pub fn raw_tracepoint(name: &CStr) -> Support {
    let attached =
        trivial(ProgramKind::RawTracepoint).and_then(|program| bpf::attach_raw_tracepoint(name, program.as_fd()));
    Support::of(attached)
}

/// Whether a perf event opens.
pub fn event(event: Event) -> Support {
    Support::of(perf::open(event))
}

/// Whether a program attaches to a task-clock event.
pub fn attach_to_event() -> Support {
    let attached = trivial(ProgramKind::PerfEvent)
        .and_then(|program| perf::attach(perf::open(Event::TaskClock)?.as_fd(), program.as_fd()));
    Support::of(attached)
}

/// Whether MEMBARRIER_CMD_GLOBAL, which waits for an RCU grace period, is there (4.3; not with nohz_full).
pub fn membarrier_global() -> Support {
    let global = rustix::thread::MembarrierCommand::Global;
    if rustix::thread::membarrier_query().contains_command(global) { Support::Works } else { Support::Absent }
}

/// Whether /proc/PID/maps answers the PROCMAP_QUERY ioctl (6.11).
///
/// # Source
/// include/uapi/linux/fs.h of Linux 6.11, `struct procmap_query`.
pub fn procmap_query() -> Support {
    /// `struct procmap_query`.
    #[repr(C)]
    #[derive(Default)]
    struct Query {
        size: u64,
        query_flags: u64,
        query_addr: u64,
        found: [u64; 6],
        device: [u32; 2],
        name_and_build_id_sizes: [u32; 2],
        name_and_build_id_addrs: [u64; 2],
    }
    /// `PROCMAP_QUERY_COVERING_OR_NEXT_VMA`.
    const COVERING_OR_NEXT: u64 = 0x10;
    /// `_IOWR('f', 17, struct procmap_query)`.
    const PROCMAP_QUERY: u32 = 3 << 30 | (size_of::<Query>() as u32) << 16 | (b'f' as u32) << 8 | 17;
    let answered = File::open("/proc/self/maps").and_then(|maps| {
        let mut query = Query { size: size_of::<Query>() as u64, query_flags: COVERING_OR_NEXT, ..Query::default() };
        // SAFETY: the kernel reads and writes query.size bytes of the query, which is ours; it asks for no strings.
        let result = unsafe { libc::ioctl(maps.as_raw_fd(), PROCMAP_QUERY as _, &mut query) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    });
    Support::of(answered)
}

fn trivial(kind: ProgramKind) -> io::Result<std::os::fd::OwnedFd> {
    let program = [Instruction::set(0, 0), Instruction::exit()];
    bpf::load_program(kind, &program, 0).map_err(|failure| failure.error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tracepoint_that_does_not_exist_never_works() {
        assert!(!raw_tracepoint(c"profil_has_no_such_tracepoint").works());
    }

    #[test]
    fn refusals_are_told_from_absence() {
        let support = |code| Support::of::<()>(Err(io::Error::from_raw_os_error(code)));
        assert!(matches!(support(libc::EPERM), Support::Refused(_)));
        assert!(matches!(support(libc::EACCES), Support::Refused(_)));
        assert!(matches!(support(libc::EINVAL), Support::Absent));
        assert!(matches!(support(libc::E2BIG), Support::Absent));
    }

    /// Check that helpers every kernel has since 5.8 are found, where the user may load programs.
    #[test]
    fn old_helpers_work_wherever_programs_load() {
        if perf_event_program().works() {
            for old in [Helper::KtimeGetNs, Helper::GetStack, Helper::RingbufReserve] {
                assert!(helper(old).works(), "{}", old.name());
            }
        }
    }
}
