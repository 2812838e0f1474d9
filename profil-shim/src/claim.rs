//! A value that one call at a time may use.

use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicBool, Ordering};

/// A value of which nobody waits for another to be done with it.
///
/// A lock would deadlock where a signal handler interrupts its owner, or where a child is forked while another thread
/// has it. Who comes second does without: what that means is said at each claim. So does everybody after a call that was
/// left by longjmp(3), in a handler that interrupted it just then.
#[derive(Debug)]
pub struct Claim<T> {
    taken: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: `taken` lets one owner at a time have the value, and hands it on in order.
unsafe impl<T: Send> Sync for Claim<T> {}

impl<T> Claim<T> {
    /// A value that nobody has claimed.
    pub const fn new(value: T) -> Claim<T> {
        Claim { taken: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    /// The value, unless another call has it.
    pub fn claim(&self) -> Option<Claimed<'_, T>> {
        let free = self.taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed);
        free.is_ok().then_some(Claimed { claim: self })
    }
}

/// A value that is ours until this goes.
#[derive(Debug)]
pub struct Claimed<'c, T> {
    claim: &'c Claim<T>,
}

impl<T> Deref for Claimed<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: `taken` was false and we set it: no other `Claimed` exists.
        unsafe { &*self.claim.value.get() }
    }
}

impl<T> DerefMut for Claimed<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`, and `self` is borrowed mutably.
        unsafe { &mut *self.claim.value.get() }
    }
}

impl<T> Drop for Claimed<'_, T> {
    fn drop(&mut self) {
        self.claim.taken.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_comes_second_goes_without() {
        let claim = Claim::new(1);
        let mut first = claim.claim().expect("nobody has it");
        *first = 2;
        assert!(claim.claim().is_none());
        drop(first);
        assert_eq!(claim.claim().as_deref(), Some(&2));
    }
}
