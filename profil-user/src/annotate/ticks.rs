//! Ticks, and those of them taken in the kernel.

use std::ops::{Add, AddAssign};

use crate::profile::{Mode, Profile};

/// A number of ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticks {
    /// All.
    pub all: u64,
    /// Those taken in the kernel.
    pub kernel: u64,
}

impl Add for Ticks {
    type Output = Ticks;

    fn add(self, other: Ticks) -> Ticks {
        Ticks { all: self.all.saturating_add(other.all), kernel: self.kernel.saturating_add(other.kernel) }
    }
}

impl AddAssign for Ticks {
    fn add_assign(&mut self, other: Ticks) {
        *self = *self + other;
    }
}

impl Ticks {
    /// Their share of a whole, percent; 0 of nothing.
    pub fn percent_of(self, whole: u64) -> f64 {
        if whole == 0 { 0.0 } else { self.all as f64 / whole as f64 * 100.0 }
    }
}

/// The ticks of each location of a profile, over all processes.
#[derive(Clone, Debug)]
pub(super) struct TicksAt(Vec<Ticks>);

impl TicksAt {
    pub(super) fn of(profile: &Profile) -> TicksAt {
        let mut ticks = vec![Ticks::default(); profile.locations.len()];
        for row in &profile.rows {
            ticks[row.location] +=
                Ticks { all: row.ticks, kernel: if row.mode == Mode::Kernel { row.ticks } else { 0 } };
        }
        TicksAt(ticks)
    }

    pub(super) fn at(&self, location: usize) -> Ticks {
        self.0[location]
    }

    /// All ticks that have a location.
    pub(super) fn sum(&self) -> u64 {
        self.0.iter().fold(Ticks::default(), |sum, ticks| sum + *ticks).all
    }
}
