//! What one flush carries.

use profil_common::Counters;

use crate::bins::Run;

/// What was counted between two flushes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Window {
    /// Bins that were counted into, ascending.
    pub runs: Vec<Run>,
    /// Counters of the window.
    pub counters: Counters,
}

impl Window {
    /// Ticks that the runs hold.
    pub fn binned(&self) -> u64 {
        self.runs.iter().flat_map(|run| &run.added).map(|added| u64::from(*added)).sum()
    }
}
