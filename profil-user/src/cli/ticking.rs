//! How the targets tick: rate, modes, what follows them.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::cli::selection::FilterArgs;
use crate::cli::{talk, values};
use crate::rate::{DEFAULT_HZ, Rate, RateError};
use crate::record::{Follow, Idle, ModeFilter, RecordConfig, Rows, Selection};
use crate::session::HookLog;

/// Arguments on how to tick.
#[derive(clap::Args, Clone, Debug)]
pub struct TickArgs {
    /// Ticks per second of CPU time [default: 997]
    #[arg(short = 'F', long = "freq", visible_short_alias = 'r', visible_alias = "rate", value_name = "HZ", value_parser = values::hz)]
    pub freq: Option<f64>,
    /// Only ticks in user mode
    #[arg(short = 'U', long, conflicts_with = "kernel")]
    pub user: bool,
    /// Only ticks in the kernel, at the kernel's own addresses
    #[arg(short = 'K', long)]
    pub kernel: bool,
    /// Do not record the processes that the targets create
    #[arg(short = 'i', long)]
    pub no_inherit: bool,
    /// Tell threads apart
    #[arg(long)]
    pub per_thread: bool,
    /// Directory with debug files, laid out like /usr/lib/debug; may be given several times
    #[arg(long, value_name = "DIR")]
    pub debug_dir: Vec<PathBuf>,
    /// Rows that the kernel can hold between two drains
    #[arg(long, value_name = "N", default_value_t = profil_common::limits::DEFAULT_ROWS, value_parser = values::table_rows, hide_short_help = true)]
    pub table_rows: u32,
}

impl TickArgs {
    /// A recording of targets: without idle time, and with silent hooks.
    ///
    /// # Errors
    /// The rate cannot be had.
    pub fn config(&self, selection: Selection, filters: &FilterArgs, title: String) -> anyhow::Result<RecordConfig> {
        Ok(RecordConfig {
            selection,
            filters: filters.filters(),
            rate: self.rate()?,
            follow: if self.no_inherit { Follow::Threads } else { Follow::Descendants },
            mode: match (self.user, self.kernel) {
                (true, _) => ModeFilter::User,
                (_, true) => ModeFilter::Kernel,
                _ => ModeFilter::Both,
            },
            idle: Idle::Excluded,
            rows: if self.per_thread { Rows::PerThread } else { Rows::PerProcess },
            table_rows: self.table_rows,
            log: HookLog::Off,
            title,
        })
    }

    fn rate(&self) -> anyhow::Result<Rate> {
        if let Some(hz) = self.freq {
            return Ok(Rate::within_limit(hz)?);
        }
        match Rate::within_limit(DEFAULT_HZ) {
            Err(RateError::Throttled { largest, found, .. }) => {
                let hz = (largest as f64).max(1.0);
                talk::say(format_args!(
                    "ticking at {hz} Hz: kernel.perf_event_max_sample_rate is {found}; -F asks for another rate"
                ));
                Ok(Rate::within_limit(hz)?)
            }
            rate => Ok(rate?),
        }
    }
}

/// What a launched command is called in the profile.
pub fn title(command: &[OsString]) -> String {
    command.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}
