//! Warnings about clients, so few of them that a client cannot fill the log.

use std::cell::Cell;
use std::fmt;
use std::time::{Duration, Instant};

/// Warnings that may follow one another at once.
const BURST: u32 = 10;

/// How long it takes until one more may come.
const REFILL: Duration = Duration::from_secs(1);

/// Passes warnings on to the [`log`] facade, and counts those that are too many.
#[derive(Debug)]
pub(super) struct Hush {
    allowed: Cell<u32>,
    refilled: Cell<Instant>,
    kept_back: Cell<u64>,
}

impl Default for Hush {
    fn default() -> Hush {
        Hush { allowed: Cell::new(BURST), refilled: Cell::new(Instant::now()), kept_back: Cell::new(0) }
    }
}

impl Hush {
    pub(super) fn warn(&self, message: fmt::Arguments<'_>) {
        if !self.may_speak(Instant::now()) {
            self.kept_back.set(self.kept_back.get() + 1);
            return;
        }
        match self.kept_back.take() {
            0 => log::warn!("{message}"),
            kept_back => log::warn!("{message} (and {kept_back} warnings before it)"),
        }
    }

    fn may_speak(&self, now: Instant) -> bool {
        let refills = now.saturating_duration_since(self.refilled.get()).as_nanos() / REFILL.as_nanos();
        if refills > 0 {
            self.refilled.set(now);
            self.allowed.set((u128::from(self.allowed.get()) + refills).min(BURST.into()) as u32);
        }
        match self.allowed.get().checked_sub(1) {
            Some(allowed) => {
                self.allowed.set(allowed);
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_of_warnings_is_cut_and_later_ones_pass_again() {
        let hush = Hush::default();
        let now = Instant::now();
        let said = (0..100).filter(|_| hush.may_speak(now)).count();
        assert_eq!(said, BURST as usize);
        assert!(hush.may_speak(now + 2 * REFILL));
    }
}
