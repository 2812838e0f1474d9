//! How often the clock expires, and how often that makes a tick.

use std::fs;
use std::time::Duration;

/// Ticks per second of CPU time of a recording when none are asked for: no multiple of what programs wake up on.
pub const DEFAULT_HZ: f64 = 997.0;

/// Ticks per second of CPU time, and the clock that makes them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// CPU time between two ticks, ns.
    pub period_ns: u64,
    /// CPU time between two expiries of the clock, ns; at most `period_ns`.
    pub clock_ns: u64,
}

/// A rate that cannot be had.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RateError {
    /// Zero, negative, not a number, or beyond what a clock in nanoseconds can do.
    #[error("cannot tick at {hz} Hz: the rate must lie between 0.001 and 1000000")]
    OutOfRange {
        /// Rate asked for.
        hz: f64,
    },
    /// The kernel would throttle the clock.
    #[error(
        "cannot tick at {hz} Hz: kernel.perf_event_max_sample_rate is {found}, and above half of it the kernel drops \
         ticks; ask for at most {largest} Hz, or `sysctl kernel.perf_event_max_sample_rate={needed}`"
    )]
    Throttled {
        /// Rate asked for.
        hz: f64,
        /// Value of the sysctl.
        found: u64,
        /// Largest rate that it allows.
        largest: u64,
        /// Value that would do.
        needed: u64,
    },
}

/// Clock period, ns, for slow rates: no divisor of a millisecond, so that a program that wakes up on round times is
/// not always, or never, met asleep (a 10 ms period found 3 % of such a program's time; 997 µs found all of it).
const ODD_CLOCK_NS: u64 = 997_000;

/// A second, ns, twice: above half of its limit the kernel drops ticks.
const EXPIRY_PAIR_NS: u64 = 2_000_000_000;

/// Where the kernel says how often a perf event may expire.
const MAX_SAMPLE_RATE: &str = "/proc/sys/kernel/perf_event_max_sample_rate";

impl Rate {
    /// The rate of `hz` ticks per second of CPU time.
    ///
    /// A slow rate runs on a faster clock, and the program counts each process's CPU time up to the period: that is
    /// what makes a hundred threads of 5 ms each give fifty ticks of 10 ms, where a timer per thread gives none.
    ///
    /// # Errors
    /// [`RateError::OutOfRange`].
    pub fn new(hz: f64) -> Result<Rate, RateError> {
        if !(0.001..=1_000_000.0).contains(&hz) {
            return Err(RateError::OutOfRange { hz });
        }
        let period_ns = (1e9 / hz).round() as u64;
        let clock_ns = match period_ns {
            1_500_001.. => ODD_CLOCK_NS,
            round if 10_000_000 % round == 0 => round * 997 / 1000,
            odd => odd,
        };
        Ok(Rate { period_ns, clock_ns })
    }

    /// As [`Rate::new`], with the kernel's limit heeded.
    ///
    /// # Errors
    /// [`RateError::Throttled`] when the limit is too low for the clock of this rate.
    pub fn within_limit(hz: f64) -> Result<Rate, RateError> {
        let rate = Rate::new(hz)?;
        max_sample_rate().map_or(Ok(rate), |found| rate.under(found))
    }

    /// Smallest kernel.perf_event_max_sample_rate that leaves the clock of this rate as it is.
    pub fn limit_needed(&self) -> u64 {
        EXPIRY_PAIR_NS.div_ceil(self.clock_ns)
    }

    /// The rate on a clock that a kernel with this limit does not throttle: as fast as it may be, where the one that
    /// was chosen is too fast.
    ///
    /// # Errors
    /// [`RateError::Throttled`] when not even a clock as slow as the ticks would do.
    pub fn under(self, found: u64) -> Result<Rate, RateError> {
        let fastest_ns = EXPIRY_PAIR_NS.div_ceil(found.max(1));
        let Rate { period_ns, clock_ns } = self;
        if clock_ns >= fastest_ns {
            return Ok(self);
        }
        if period_ns < fastest_ns {
            let needed = EXPIRY_PAIR_NS.div_ceil(period_ns);
            return Err(RateError::Throttled { hz: self.hz(), found, largest: found / 2, needed });
        }
        // A little under the period, so that a round one is not in step with what wakes on round times.
        let slower_ns = (period_ns * 997 / 1000).max(fastest_ns);
        Ok(Rate { period_ns, clock_ns: if period_ns > 2 * fastest_ns { fastest_ns } else { slower_ns } })
    }

    /// Ticks per second of CPU time.
    pub fn hz(&self) -> f64 {
        1e9 / self.period_ns as f64
    }

    /// Expiries of the clock per second of CPU time.
    pub fn clock_hz(&self) -> f64 {
        1e9 / self.clock_ns as f64
    }

    /// CPU time of one tick.
    pub fn period(&self) -> Duration {
        Duration::from_nanos(self.period_ns)
    }
}

/// `kernel.perf_event_max_sample_rate`, expiries per second; `None` where it cannot be read.
pub fn max_sample_rate() -> Option<u64> {
    fs::read_to_string(MAX_SAMPLE_RATE).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_clock_never_divides_a_millisecond() {
        for hz in [19.0, 49.0, 99.0, 100.0, 250.0, 500.0, 997.0, 1000.0, 2000.0, 4000.0, 10_000.0] {
            let rate = Rate::new(hz).expect("a plain rate");
            assert_ne!(10_000_000 % rate.clock_ns, 0, "{hz} Hz runs on a clock of {} ns", rate.clock_ns);
            assert!(rate.clock_ns <= rate.period_ns);
        }
    }

    #[test]
    fn a_low_limit_slows_the_clock_and_refuses_only_rates_above_half_of_it() {
        for found in [100, 1000, 2000, 2006, 2007, 100_000] {
            for hz in [1.0, 19.0, 100.0, 499.0, 500.0, 997.0, 1000.0, 49_999.0, 50_000.0] {
                let rate = Rate::new(hz).expect("a plain rate");
                match rate.under(found) {
                    Ok(Rate { period_ns, clock_ns }) => {
                        assert!(hz <= found as f64 / 2.0 * 1.000_1, "{hz} Hz at {found}");
                        assert!(clock_ns <= period_ns && clock_ns * found >= 2_000_000_000, "{hz} Hz at {found}");
                        assert_eq!(period_ns, rate.period_ns);
                    }
                    Err(RateError::Throttled { largest, needed, .. }) => {
                        assert!(hz > found as f64 / 2.0 * 0.999_9, "{hz} Hz at {found}");
                        assert!(
                            Rate::new(largest as f64).expect("a rate").under(found).is_ok(),
                            "{largest} at {found}"
                        );
                        assert!(rate.under(needed).is_ok(), "{hz} Hz at {needed}");
                    }
                    Err(error) => panic!("{error}"),
                }
            }
        }
    }

    #[test]
    fn the_limit_that_a_rate_needs_is_the_smallest_that_leaves_its_clock_alone() {
        for hz in [19.0, 100.0, DEFAULT_HZ, 1000.0, 9997.0] {
            let rate = Rate::new(hz).expect("a plain rate");
            let needed = rate.limit_needed();
            assert_eq!(rate.under(needed), Ok(rate));
            assert_ne!(rate.under(needed - 1), Ok(rate));
        }
    }

    #[test]
    fn rates_that_are_none_are_refused() {
        for hz in [0.0, -1.0, f64::NAN, f64::INFINITY, 2e6] {
            assert!(Rate::new(hz).is_err(), "{hz}");
        }
    }
}
