//! Atomic additions, which every CPU sees whole.
//!
//! Those to words of their own are `lock xadd` and return nothing: instructions that return the earlier value came with
//! Linux 5.12, and one of them anywhere in a program keeps older kernels from loading it. [`add_to_lane`] needs one, and
//! so is only for programs that an older kernel can do without.

use core::intrinsics::{AtomicOrdering, atomic_cxchg, atomic_xadd};

/// Tries of [`add_to_lane`]: each failure means that another CPU has just added to the same word.
const TRIES: u32 = 16;

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

/// Adds one to a 16-bit lane of a word, which wraps without a carry into the next lane; false when other CPUs were
/// faster every time.
///
/// # Safety
/// As for [`add_u64`]. User space may write the word as well, and does what it likes.
#[inline(always)]
pub unsafe fn add_to_lane(word: *mut u64, lane: u32) -> bool {
    let shift = (lane & 3) * 16;
    let mask = 0xffff_u64 << shift;
    for _ in 0..TRIES {
        // SAFETY: the caller's promise.
        let old = unsafe { core::ptr::read_volatile(word) };
        let new = (old & !mask) | (old.wrapping_add(1 << shift) & mask);
        // SAFETY: the caller's promise.
        let (_, done) =
            unsafe { atomic_cxchg::<u64, { AtomicOrdering::SeqCst }, { AtomicOrdering::SeqCst }>(word, old, new) };
        if done {
            return true;
        }
    }
    false
}
