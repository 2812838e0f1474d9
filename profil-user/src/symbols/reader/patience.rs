//! How long the process may take over a file.

use std::time::Duration;

/// CPU time for a file without debug information.
const CPU: Duration = Duration::from_secs(5);
/// CPU time on top of that for each 100 MB of debug information, of which a slow machine reads 10 MB in a second.
const CPU_PER_100_MB: Duration = Duration::from_secs(10);
/// Time without any CPU time while it does not wait for a CPU: stopped, or waiting for a file system that does not answer.
const IDLE: Duration = Duration::from_secs(10);
/// What is left at the least.
const LEAST: Duration = Duration::from_secs(1);

/// What one answer may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// CPU time.
    pub cpu: Duration,
    /// Time that it may sleep at a stretch.
    pub idle: Duration,
}

/// How patient to be. Each file that took too long halves it, so that a thousand of them do not take hours.
#[derive(Clone, Copy, Debug, Default)]
pub struct Patience {
    abused: u32,
}

impl Patience {
    /// What naming a file with so much debug information may take.
    pub fn for_bytes(self, debug_info_bytes: u64) -> Allowance {
        let hundreds = u32::try_from(debug_info_bytes / 100_000_000).unwrap_or(u32::MAX).min(100);
        let reduced = |time: Duration| (time / 2u32.saturating_pow(self.abused)).max(LEAST);
        Allowance { cpu: reduced(CPU + CPU_PER_100_MB * hundreds), idle: reduced(IDLE) }
    }

    /// A file took too long.
    pub fn was_abused(&mut self) {
        self.abused = (self.abused + 1).min(16);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_files_have_more_time_and_abuse_costs_half_of_it() {
        let mut patience = Patience::default();
        assert_eq!(patience.for_bytes(0), Allowance { cpu: CPU, idle: IDLE });
        assert_eq!(patience.for_bytes(300_000_000).cpu, CPU + 3 * CPU_PER_100_MB);
        assert_eq!(patience.for_bytes(u64::MAX).cpu, CPU + 100 * CPU_PER_100_MB);
        patience.was_abused();
        assert_eq!(patience.for_bytes(0), Allowance { cpu: CPU / 2, idle: IDLE / 2 });
        (0..100).for_each(|_| patience.was_abused());
        assert_eq!(patience.for_bytes(0), Allowance { cpu: LEAST, idle: LEAST });
    }
}
