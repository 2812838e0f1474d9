//! What a session chooses by.

use std::sync::OnceLock;

use super::perf::Event;
use super::support::{self, Helper, MapUse};

/// What the kernel has and this user may use, found by trying.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    /// bpf_get_current_task_btf and bpf_task_pt_regs: a tick in the kernel finds the user pc (5.15).
    pub has_task_pt_regs: bool,
    /// Atomic fetch-and-add and compare-and-exchange in BPF (5.12).
    pub has_fetch_atomics: bool,
    /// The PROCMAP_QUERY ioctl of /proc/PID/maps (6.11).
    pub has_procmap_query: bool,
    /// Events inherited by threads and not by processes (5.13).
    pub has_inherit_thread: bool,
    /// Build IDs in the MMAP2 records of perf (5.12).
    pub has_mmap2_build_id: bool,
    /// BPF ring buffers (5.8).
    pub has_ringbuf: bool,
    /// bpf_find_vma, with which a tick finds the file it is in (5.17).
    pub has_find_vma: bool,
    /// membarrier(MEMBARRIER_CMD_GLOBAL), which waits until no program sees what was removed.
    pub has_membarrier_global: bool,
}

impl Features {
    /// The features of this kernel for this user; tried once per process.
    ///
    /// What this user may not try counts as not there.
    pub fn of_this_kernel() -> &'static Features {
        static FEATURES: OnceLock<Features> = OnceLock::new();
        FEATURES.get_or_init(|| Features {
            has_task_pt_regs: [Helper::CurrentTaskBtf, Helper::TaskPtRegs]
                .into_iter()
                .all(|helper| support::helper(helper).works()),
            has_fetch_atomics: support::fetch_atomics().works(),
            has_procmap_query: support::procmap_query().works(),
            has_inherit_thread: support::event(Event::TaskClockOfThreads).works(),
            has_mmap2_build_id: support::event(Event::MappingsWithBuildIds).works(),
            has_ringbuf: support::map(MapUse::RingBuf).works() && support::helper(Helper::RingbufReserve).works(),
            has_find_vma: support::helper(Helper::FindVma).works(),
            has_membarrier_global: support::membarrier_global().works(),
        })
    }
}
