//! Atomic additions: compiled to `lock xadd`, which every CPU sees whole.
//!
//! None returns the earlier value: the instructions that do came with Linux 5.12, and one of them anywhere in an
//! object keeps older kernels from loading it.

use core::intrinsics::{AtomicOrdering, atomic_xadd};

/// Adds to a counter that other CPUs add to as well.
///
/// # Safety
/// `counter` points into a live value of a BPF map and is naturally aligned.
#[inline(always)]
pub unsafe fn add_u64(counter: *mut u64, count: u64) {
    // SAFETY: the caller's promise; the verifier has proved the bounds.
    unsafe { atomic_xadd::<u64, u64, { AtomicOrdering::Relaxed }>(counter, count) };
}

/// Adds to a 32-bit counter that other CPUs add to as well.
///
/// # Safety
/// As for [`add_u64`].
#[inline(always)]
pub unsafe fn add_u32(counter: *mut u32, count: u32) {
    // SAFETY: the caller's promise; the verifier has proved the bounds.
    unsafe { atomic_xadd::<u32, u32, { AtomicOrdering::Relaxed }>(counter, count) };
}
