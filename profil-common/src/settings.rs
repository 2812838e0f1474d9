use crate::Region;
use crate::limits::COMM_BYTES;

/// Bits of [`Settings::flags`].
pub mod settings_flags {
    /// Every process is a target, known or not; [`Settings::all_flags`](crate::Settings::all_flags) is what
    /// a newly seen one gets.
    pub const ALL_PROCESSES: u32 = 1 << 0;
    /// A pc outside all regions becomes a row of the sparse table.
    pub const STRAYS: u32 = 1 << 1;
    /// Ticks taken in the kernel are not wanted.
    pub const USER_ONLY: u32 = 1 << 2;
    /// Ticks taken in user mode are not wanted, and rows carry the kernel's own pc.
    pub const KERNEL_ONLY: u32 = 1 << 3;
    /// Rows tell threads apart.
    pub const PER_THREAD: u32 = 1 << 4;
    /// Only threads in the table of threads.
    pub const FILTER_TID: u32 = 1 << 5;
    /// Only threads in the control group [`Settings::cgroup`](crate::Settings::cgroup) or below it.
    pub const FILTER_CGROUP: u32 = 1 << 6;
    /// Only threads of user [`Settings::uid`](crate::Settings::uid).
    pub const FILTER_UID: u32 = 1 << 7;
    /// Only threads named [`Settings::comm`](crate::Settings::comm).
    pub const FILTER_COMM: u32 = 1 << 8;
    /// Only the CPUs in [`Settings::cpus`](crate::Settings::cpus).
    pub const FILTER_CPU: u32 = 1 << 9;
    /// Each tick that is binned, a stray or outside is also written to the recording ring, with its pc.
    pub const RECORDING: u32 = 1 << 10;
    /// One process has dense bins, of one region: both are found without a look-up by slot.
    pub const SINGLE: u32 = 1 << 12;
    /// The kernel has bpf_get_current_task_btf and bpf_task_pt_regs (5.15).
    pub const HAS_TASK_PT_REGS: u32 = 1 << 11;
}

/// Largest CPU number that a filter can name, plus one.
pub const FILTER_CPUS: usize = 1024;

/// Constants of one load of the eBPF object, in its read-only data: branches on them cost nothing at the tick.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// CPU time between two ticks of a process, ns; 0 when each process has its own, with its ranges.
    pub period_ns: u64,
    /// CPU time between two expiries of the clock, ns; at most any period.
    pub clock_ns: u64,
    /// Inode number of the control group (v2) that is the filter.
    pub cgroup: u64,
    /// Depth of that control group below the root, which is 0.
    pub cgroup_level: u32,
    /// User that is the filter.
    pub uid: u32,
    /// [`settings_flags`].
    pub flags: u32,
    /// [`process_flags`](crate::process_flags) of a process that its first tick makes known.
    pub all_flags: u32,
    /// Inode number of the PID namespace whose numbers events carry beside the initial one's; 0 for the initial one.
    pub pid_namespace: u32,
    /// Always 0.
    pub reserved: u32,
    /// Region of the one process with bins; valid with [`settings_flags::SINGLE`].
    pub single: Region,
    /// Name that is the filter, NUL padded.
    pub comm: [u8; COMM_BYTES],
    /// CPUs that are the filter, one bit each.
    pub cpus: [u64; FILTER_CPUS / 64],
    /// Offsets of kernel fields, from the kernel's BTF.
    pub fields: Fields,
}

/// Offsets, in bytes, of the kernel fields that the hooks read, looked up in the kernel's BTF by the loader.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    /// `task_struct.pid`.
    pub task_pid: u32,
    /// `task_struct.tgid`.
    pub task_tgid: u32,
    /// `task_struct.signal`.
    pub task_signal: u32,
    /// `task_struct.comm`.
    pub task_comm: u32,
    /// `task_struct.se.sum_exec_runtime`.
    pub task_runtime: u32,
    /// `signal_struct.live`.
    pub signal_live: u32,
    /// `signal_struct.sum_sched_runtime`.
    pub signal_runtime: u32,
    /// `signal_struct.pids`.
    pub signal_pids: u32,
    /// `pid.level`.
    pub pid_level: u32,
    /// `pid.numbers`.
    pub pid_numbers: u32,
    /// `pid_namespace.ns.inum`.
    pub namespace_inum: u32,
    /// Always 0.
    pub reserved: u32,
}

impl Settings {
    /// Settings that select nothing; every field is meant to be set by the loader.
    pub const NONE: Settings = Settings {
        period_ns: 1,
        clock_ns: 1,
        cgroup: 0,
        cgroup_level: 0,
        uid: 0,
        flags: 0,
        all_flags: 0,
        pid_namespace: 0,
        reserved: 0,
        single: Region { offset: 0, nbins: 0, multiplier: 0, pre_shift: 0, post_shift: 0, reserved: 0 },
        comm: [0; COMM_BYTES],
        cpus: [0; FILTER_CPUS / 64],
        fields: Fields {
            task_pid: 0,
            task_tgid: 0,
            task_signal: 0,
            task_comm: 0,
            task_runtime: 0,
            signal_live: 0,
            signal_runtime: 0,
            signal_pids: 0,
            pid_level: 0,
            pid_numbers: 0,
            namespace_inum: 0,
            reserved: 0,
        },
    };

    /// Whether a bit of [`settings_flags`] is set.
    #[inline(always)]
    pub const fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }
}
