//! `-v` and `-vv`: more on standard error.

use std::io::Write;
use std::sync::atomic::{AtomicU8, Ordering};

use log::{LevelFilter, Log, Metadata, Record};

/// How many `-v` were given.
static VERBOSITY: AtomicU8 = AtomicU8::new(0);

/// Sets how much is said, once, before anything is.
pub fn start(verbosity: u8) {
    VERBOSITY.store(verbosity, Ordering::Relaxed);
    if log::set_logger(&StandardError).is_ok() {
        log::set_max_level(if verbosity > 1 { LevelFilter::Debug } else { LevelFilter::Warn });
    }
}

/// Whether details of failures are wanted: `-v`.
pub fn wants_details() -> bool {
    VERBOSITY.load(Ordering::Relaxed) > 0
}

/// Writes log records, those of the eBPF programs among them, to standard error.
struct StandardError;

impl Log for StandardError {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        // The loader's library talks through the same facade, about relocations and the like.
        !metadata.target().starts_with("aya")
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            // A standard error that is gone has nobody to tell.
            let _ = writeln!(std::io::stderr(), "profil: {}", record.args());
        }
    }

    fn flush(&self) {}
}
