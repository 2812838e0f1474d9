/// Bits of [`Process::flags`].
pub mod process_flags {
    /// Ticks of the process are wanted.
    pub const SELECTED: u32 = 1 << 0;
    /// The process has a [`RangeTable`](crate::RangeTable) and bins at [`Process::slot`](crate::Process::slot).
    pub const DENSE: u32 = 1 << 1;
    /// Children born while this bit is set are selected as well.
    pub const FOLLOW: u32 = 1 << 2;
    /// The last thread has begun to exit; the entry goes when the kernel frees the process.
    pub const EXITED: u32 = 1 << 3;
    /// The process has yet to exec the program that is meant: its exec turns this bit into `SELECTED`.
    pub const FROM_EXEC: u32 = 1 << 4;
}

/// What the tick knows about a process (thread group), keyed by its tgid in the initial PID namespace.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// Identity of the program image: changes at fork and at exec, and is never used again within a session,
    /// so that an old image, a new one and a reused PID never merge.
    pub image: u64,
    /// CPU time that the clock has counted, ns; ticks are due at its multiples of the period.
    pub clocked_ns: u64,
    /// [`process_flags`].
    pub flags: u32,
    /// Slot of the dense bins; valid with [`process_flags::DENSE`].
    pub slot: u32,
}
