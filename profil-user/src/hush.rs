//! Warnings about clients, so few of them that a client cannot fill the log.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Warnings that may follow one another at once.
const BURST: u32 = 10;

/// How long it takes until one more may come.
const REFILL: Duration = Duration::from_secs(1);

/// Passes warnings on to the [`log`] facade, and counts those that are too many.
#[derive(Debug)]
pub(crate) struct Hush {
    account: Mutex<Account>,
}

#[derive(Debug)]
struct Account {
    allowed: u32,
    refilled: Instant,
    kept_back: u64,
}

impl Default for Hush {
    fn default() -> Hush {
        Hush { account: Mutex::new(Account { allowed: BURST, refilled: Instant::now(), kept_back: 0 }) }
    }
}

impl Hush {
    /// Says something, or keeps it back and says with the next warning how many were.
    pub(crate) fn warn(&self, message: fmt::Arguments<'_>) {
        // Whoever panicked had not taken half of it.
        let verdict = self.account.lock().unwrap_or_else(PoisonError::into_inner).ask(Instant::now());
        match verdict {
            None => {}
            Some(0) => log::warn!("{message}"),
            Some(kept_back) => log::warn!("{message} (and {kept_back} warnings before it)"),
        }
    }
}

impl Account {
    /// How many were kept back before one that may be said now; `None` keeps it back.
    fn ask(&mut self, now: Instant) -> Option<u64> {
        let refills = now.saturating_duration_since(self.refilled).as_nanos() / REFILL.as_nanos();
        if refills > 0 {
            self.refilled = now;
            self.allowed = (u128::from(self.allowed) + refills).min(BURST.into()) as u32;
        }
        match self.allowed.checked_sub(1) {
            Some(allowed) => {
                self.allowed = allowed;
                Some(std::mem::take(&mut self.kept_back))
            }
            None => {
                self.kept_back += 1;
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_of_warnings_is_cut_and_later_ones_pass_again() {
        let now = Instant::now();
        let mut account = Account { allowed: BURST, refilled: now, kept_back: 0 };
        let said = (0..100).filter_map(|_| account.ask(now)).count();
        assert_eq!(said, BURST as usize);
        assert_eq!(account.ask(now + 2 * REFILL), Some(100 - u64::from(BURST)));
    }
}
