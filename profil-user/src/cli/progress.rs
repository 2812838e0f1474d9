//! The progress line: on a terminal only.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use crate::report::summary::thousands;

/// How much is said while a recording goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verbosity {
    /// Nothing.
    Quiet,
    /// A line that is rewritten.
    Normal,
}

/// The line that tells a person that something is going on.
pub struct Progress {
    shown: bool,
    wanted: bool,
    next: Duration,
}

impl Progress {
    /// Shows nothing when told to be quiet, or where no person looks.
    pub fn new(verbosity: Verbosity) -> Progress {
        let wanted = verbosity == Verbosity::Normal && io::stderr().is_terminal();
        Progress { shown: false, wanted, next: Duration::from_secs(1) }
    }

    /// Says how it stands, once a second.
    pub fn show(&mut self, elapsed: Duration, ticks: u64) {
        if !self.wanted || elapsed < self.next {
            return;
        }
        self.next += Duration::from_secs(1);
        self.shown = true;
        let ticks = thousands(ticks);
        // A terminal that is gone needs no progress.
        let _ = write!(io::stderr(), "\r\x1b[Kprofil: {} s, {ticks} ticks; Ctrl-C stops", elapsed.as_secs());
    }

    /// Takes the line away again.
    pub fn clear(&mut self) {
        if std::mem::take(&mut self.shown) {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}
