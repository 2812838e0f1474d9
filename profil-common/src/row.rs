/// Bits of [`RowKey::flags`].
pub mod row_flags {
    /// The tick was taken in the kernel.
    pub const KERNEL_MODE: u32 = 1 << 0;
    /// `pc` is an address in the kernel, not the user pc that the kernel will return to.
    pub const KERNEL_PC: u32 = 1 << 1;
}

/// Key of a row of the sparse table; the value is a 64-bit count of ticks.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RowKey {
    /// [`Process::image`](crate::Process::image) at the tick.
    pub image: u64,
    /// The pc (AVMA).
    pub pc: u64,
    /// Thread in the initial PID namespace, or 0 when threads are not told apart.
    pub tid: u32,
    /// [`row_flags`].
    pub flags: u32,
}

/// One tick of a recording: what the oracle of the bin formula is run over.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TickRecord {
    /// [`Process::image`](crate::Process::image) at the tick.
    pub image: u64,
    /// The pc (AVMA).
    pub pc: u64,
    /// Thread in the initial PID namespace.
    pub tid: u32,
    /// The [`Outcome`](crate::Outcome) that the tick had.
    pub outcome: u32,
}
