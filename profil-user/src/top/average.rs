//! Exponential averages of what comes in windows of any length.

use std::time::Duration;

/// After this time what was counts for 1/e, 37 %.
pub const MEMORY: Duration = Duration::from_secs(5);

/// The weights of a window: how much it counts, and how much has been counted so far.
///
/// An average that starts at zero is too small by what it has not seen yet; dividing by the weight that it has seen mends
/// that, and the first window is shown as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Weight {
    seen: f64,
}

/// One window's part in an average.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    part: f64,
    seconds: f64,
}

impl Weight {
    /// Takes in a window; `None` for one of no length, in which nothing has a rate.
    pub fn step(&mut self, length: Duration) -> Option<Step> {
        let seconds = length.as_secs_f64();
        if seconds <= 0.0 {
            return None;
        }
        let part = 1.0 - (-seconds / MEMORY.as_secs_f64()).exp();
        self.seen += part * (1.0 - self.seen);
        Some(Step { part, seconds })
    }

    /// An average as it is to be shown.
    pub fn show(&self, average: f64) -> f64 {
        if self.seen > 0.0 { average / self.seen } else { 0.0 }
    }
}

impl Step {
    /// What is left of an average after the window.
    pub fn fade(&self, average: &mut f64) {
        *average *= 1.0 - self.part;
    }

    /// Adds what the window brought, to an average that has faded.
    pub fn add(&self, average: &mut f64, amount: f64) {
        *average += self.part * amount / self.seconds;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn average(windows: &[(u64, f64)]) -> f64 {
        let (mut weight, mut average) = (Weight::default(), 0.0);
        for (millis, amount) in windows {
            let step = weight.step(Duration::from_millis(*millis)).unwrap();
            step.fade(&mut average);
            step.add(&mut average, *amount);
        }
        weight.show(average)
    }

    #[test]
    fn the_first_window_is_shown_as_it_is() {
        assert!((average(&[(500, 100.0)]) - 200.0).abs() < 1e-9);
    }

    #[test]
    fn a_steady_rate_is_its_own_average_however_it_is_cut_into_windows() {
        for windows in [&[(1000, 10.0); 3][..], &[(250, 2.5), (3000, 30.0), (10, 0.1)], &[(60_000, 600.0)]] {
            assert!((average(windows) - 10.0).abs() < 1e-9, "{windows:?}");
        }
    }

    #[test]
    fn what_was_counts_for_less_and_less() {
        let memory = MEMORY.as_millis() as u64;
        // Long steady, then one memory's length of nothing: 1/e is left.
        let left = average(&[(100 * memory, 100.0 * memory as f64), (memory, 0.0)]);
        assert!((left / 1000.0 - (-1.0f64).exp()).abs() < 1e-6, "{left}");
        // Cut into pieces, the same.
        let pieces = average(&[(100 * memory, 100.0 * memory as f64), (memory / 2, 0.0), (memory / 2, 0.0)]);
        assert!((left - pieces).abs() < 1e-9, "{left} {pieces}");
    }

    #[test]
    fn a_window_of_no_length_changes_nothing() {
        assert_eq!(Weight::default().step(Duration::ZERO), None);
        assert_eq!(Weight::default().show(5.0), 0.0);
    }
}
