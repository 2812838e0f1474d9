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
    /// With [`DENSE`]: the bins are 16-bit lanes of an array that the process has mapped over its own buffer.
    pub const LANES: u32 = 1 << 5;
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

/// A place for one process, at the [`seat_index`] of its tgid.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seat {
    /// The process that sits here, or [`Seat::NEVER_TAKEN`] or [`Seat::FREE`].
    pub owner: u32,
    /// Always 0.
    pub reserved: u32,
    /// What the tick knows about it; valid while it has an owner.
    pub process: Process,
}

impl Seat {
    /// Nobody ever sat here: no known process has such a tgid, which is certain without a look into the table.
    pub const NEVER_TAKEN: u32 = 0;
    /// Whoever sat here is gone; others may have found it taken, and be in the table.
    pub const FREE: u32 = u32::MAX;
}

/// The seat of a process.
#[inline(always)]
pub const fn seat_index(tgid: u32) -> u32 {
    tgid & (crate::limits::SEATS - 1)
}
