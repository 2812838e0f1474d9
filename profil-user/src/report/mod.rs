//! A profile as a table of shares: rows grouped, sorted, and given their uncertainty.
//!
//! Shares are of the ticks that have a place in the code (`binned` and `stray`), so that they add up to 100 % and agree
//! with what other pprof readers print; ticks without a place are in the tally beside them.

pub mod color;
pub mod column;
pub mod machine;
pub mod summary;
pub mod table;

mod group;
mod interval;

use std::collections::HashMap;

pub(crate) use group::Index;
pub use group::{By, Group};
pub(crate) use group::{base_name, function as function_name, object as object_name};
pub use interval::{Interval, wilson_95};

use crate::profile::{Mode, Profile};
use crate::tally::Tally;

/// A group's ticks and what follows from them.
#[derive(Clone, Debug, PartialEq)]
pub struct ReportRow {
    /// What the ticks have in common.
    pub group: Group,
    /// Ticks.
    pub ticks: u64,
    /// Ticks as a share of all ticks of the report, percent.
    pub percent: f64,
    /// Share of this row and those above it, percent.
    pub cumulative_percent: f64,
    /// CPU time that the ticks stand for, seconds; `None` when the profile states no period.
    pub seconds: Option<f64>,
    /// Part of the row's ticks that was taken in the kernel, percent.
    pub kernel_percent: f64,
    /// Where the true share lies with 95 % confidence, percent.
    pub interval: Interval,
}

/// A profile by groups, the largest first.
#[derive(Clone, Debug)]
pub struct Report {
    /// What the rows are grouped by.
    pub by: By,
    /// Ticks that have a place in the code: what shares are shares of, whether their row is kept or not.
    pub counted: u64,
    /// The account of the run.
    pub tally: Tally,
    /// Name of the clock; empty when the profile does not say.
    pub clock: String,
    /// Command line or targets; empty when the profile does not say.
    pub title: String,
    /// Rows.
    pub rows: Vec<ReportRow>,
}

impl Report {
    /// The rows of a profile, grouped; those whose name `keep` refuses are left out, but stay in the whole that shares
    /// are of.
    pub fn new(profile: &Profile, by: By, keep: impl Fn(&str) -> bool) -> Report {
        let mut groups = group_ticks(profile, by);
        groups.sort_by(|(a, a_ticks), (b, b_ticks)| b_ticks.all.cmp(&a_ticks.all).then_with(|| a.cmp(b)));
        let counted = groups.iter().fold(0u64, |sum, (_, ticks)| sum.saturating_add(ticks.all));
        let period_seconds = Some(profile.period.as_secs_f64()).filter(|period| *period > 0.0);
        let mut above = 0u64;
        let row = |(group, Ticks { all: ticks, kernel })| {
            above = above.saturating_add(ticks);
            ReportRow {
                group,
                ticks,
                percent: percent(ticks, counted),
                cumulative_percent: percent(above, counted),
                seconds: period_seconds.map(|period| period * ticks as f64),
                kernel_percent: percent(kernel, ticks),
                interval: wilson_95(ticks, counted),
            }
        };
        let rows = groups.into_iter().filter(|(group, _)| keep(&group.name(by))).map(row).collect();
        let Profile { tally, clock, title, .. } = profile;
        Report { by, counted, tally: *tally, clock: clock.clone(), title: title.clone(), rows }
    }
}

/// Part of a whole in percent; 0 of nothing.
pub(crate) fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 * 100.0 }
}

/// Ticks of a group, and those among them taken in the kernel.
#[derive(Clone, Copy, Default)]
struct Ticks {
    all: u64,
    kernel: u64,
}

/// Adds ticks up in two steps: first by indexes, so that names are made once for each place and not once for each row.
fn group_ticks(profile: &Profile, by: By) -> Vec<(Group, Ticks)> {
    let mut by_index: HashMap<_, Ticks> = HashMap::new();
    for row in &profile.rows {
        let ticks = by_index.entry(by.index(row)).or_default();
        ticks.all = ticks.all.saturating_add(row.ticks);
        if row.mode == Mode::Kernel {
            ticks.kernel = ticks.kernel.saturating_add(row.ticks);
        }
    }
    let mut groups: HashMap<Group, Ticks> = HashMap::new();
    for (index, more) in by_index {
        let ticks = groups.entry(by.group(profile, index)).or_default();
        ticks.all = ticks.all.saturating_add(more.all);
        ticks.kernel = ticks.kernel.saturating_add(more.kernel);
    }
    groups.retain(|_, ticks| ticks.all > 0);
    groups.into_iter().collect()
}

#[cfg(test)]
pub(crate) mod sample;
#[cfg(test)]
mod tests;
