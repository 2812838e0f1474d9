//! What became of the ticks of a run, and how many there should have been.

use profil_common::{Counters, Outcome};

/// CPU time that clocks such as `/proc/stat` (10 ms for each CPU) may be off by, seconds.
const CLOCK_RESOLUTION_SECONDS: f64 = 0.03;

/// Ticks that may be missing of any number of them, however small.
const MISSED_BY_CHANCE: u64 = 10;

/// The account of a run: every tick by outcome, beside the number that an independent clock asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tally {
    /// Ticks of the targets.
    pub ticks: u64,
    /// Ticks by outcome, indexed by [`Outcome`]; their sum is `ticks`.
    pub outcomes: [u64; 6],
    /// CPU time of the targets, seconds, from a clock that does not depend on ticks; `None` where there is no such clock.
    pub cpu_seconds: Option<f64>,
    /// Ticks asked for, per second of CPU time.
    pub hz: f64,
}

impl Tally {
    /// A tally of counters.
    pub fn new(counters: &Counters, hz: f64, cpu_seconds: Option<f64>) -> Tally {
        Tally { ticks: counters.ticks, outcomes: counters.outcomes, cpu_seconds, hz }
    }

    /// The tally of a file that tells nothing but its ticks, all with one outcome, and their rate; 0 where it does not.
    pub fn of_counted(outcome: Outcome, ticks: u64, hz: f64) -> Tally {
        let mut outcomes = [0; 6];
        outcomes[outcome as usize] = ticks;
        Tally { ticks, outcomes, cpu_seconds: None, hz }
    }

    /// Ticks with one outcome.
    pub fn outcome(&self, outcome: Outcome) -> u64 {
        self.outcomes[outcome as usize]
    }

    /// Ticks that the CPU time asks for at the rate.
    pub fn expected(&self) -> Option<u64> {
        self.cpu_seconds.map(|seconds| (seconds * self.hz).round() as u64)
    }

    /// Ticks that never reached the program: expected less ticks, and 0 where there were more.
    pub fn missed(&self) -> Option<u64> {
        self.expected().map(|expected| expected.saturating_sub(self.ticks))
    }

    /// Whether more than 2 % of the ticks, and more than chance explains, were missed.
    ///
    /// Chance is where the CPU time begins and ends between two ticks, for each stretch of it, and what sleeps take: of few
    /// ticks a handful may be missing, and of `n` about the root of `n`.
    pub fn misses_matter(&self) -> bool {
        match (self.expected(), self.missed()) {
            // The clocks that `expected` comes from have a resolution of their own: let a little pass.
            (Some(expected), Some(missed)) => {
                missed > MISSED_BY_CHANCE
                    && missed * 50 > expected
                    && missed.saturating_mul(missed) > expected
                    && missed as f64 / self.hz > CLOCK_RESOLUTION_SECONDS
            }
            _ => false,
        }
    }

    /// Ticks per second of CPU time as they came.
    pub fn real_hz(&self) -> Option<f64> {
        self.cpu_seconds.filter(|seconds| *seconds > 0.0).map(|seconds| self.ticks as f64 / seconds)
    }

    /// Whether every tick has exactly one outcome.
    pub fn adds_up(&self) -> bool {
        self.outcomes.iter().sum::<u64>() == self.ticks
    }
}
