//! How long a call may wait.

use libc::{c_int, timespec};

use crate::{errno, syscall};

const NS_PER_SECOND: i64 = 1_000_000_000;

/// A point of `CLOCK_MONOTONIC`.
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    at_ns: i64,
}

impl Deadline {
    /// So many seconds from now.
    ///
    /// # Errors
    /// The errno when there is no clock.
    pub fn in_seconds(seconds: i64) -> Result<Deadline, c_int> {
        Ok(Deadline { at_ns: now_ns()?.saturating_add(seconds.saturating_mul(NS_PER_SECOND)) })
    }

    /// What is left of the time.
    ///
    /// # Errors
    /// `ETIMEDOUT` when nothing is.
    pub fn remaining(self) -> Result<timespec, c_int> {
        let remaining_ns = self.at_ns.saturating_sub(now_ns()?);
        if remaining_ns <= 0 {
            return Err(libc::ETIMEDOUT);
        }
        Ok(timespec { tv_sec: remaining_ns / NS_PER_SECOND, tv_nsec: remaining_ns % NS_PER_SECOND })
    }

    /// Waits for so long, or until the deadline, or for a signal.
    ///
    /// # Errors
    /// `ETIMEDOUT` when no time is left.
    pub fn pause(self, pause_ns: i64) -> Result<(), c_int> {
        let mut pause = self.remaining()?;
        if pause.tv_sec > 0 || pause.tv_nsec > pause_ns {
            pause = timespec { tv_sec: 0, tv_nsec: pause_ns };
        }
        // No descriptor at all.
        let mut nothing = libc::pollfd { fd: -1, events: 0, revents: 0 };
        let _interrupted = syscall::ppoll(&mut nothing, &mut pause);
        Ok(())
    }
}

fn now_ns() -> Result<i64, c_int> {
    let mut now = timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is valid for writes.
    if unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) } != 0 {
        return Err(errno::get());
    }
    Ok(now.tv_sec.saturating_mul(NS_PER_SECOND).saturating_add(now.tv_nsec))
}
