//! Waiting for a condition, on a machine of any speed.

use std::time::{Duration, Instant};

/// Longer than any condition takes on a machine that works.
const LONGEST: Duration = Duration::from_secs(60);

/// Waits until `condition` holds, and returns what it gave.
///
/// # Panics
///
/// If that takes longer than a minute.
pub fn until<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let since = Instant::now();
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(since.elapsed() < LONGEST, "waited a minute for this: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
