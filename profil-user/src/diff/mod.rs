//! Two profiles side by side: what takes more of the time than it did, and how much of that chance explains.
//!
//! Shares of CPU time are compared, each of the ticks of its own run, so that the runs may differ in rate and length.
//! [`chance`] says how certain a change is, and [`matching`] which row of one run is which of the other.

pub mod chance;
pub mod machine;
pub mod matching;
pub mod names;
pub mod table;

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use crate::profile::Profile;
use crate::report::{By, Group, Report};
use crate::tally::Tally;
use chance::Share;
use matching::{Key, Matching, Owner};

/// Part of the rows called changed that may be so by chance alone: 5 %.
pub const ERROR_RATE: f64 = 0.05;

/// One of the two runs.
#[derive(Clone, Debug)]
pub struct Run {
    /// Ticks that have a place in the code: what shares are shares of.
    pub counted: u64,
    /// The account of the run.
    pub tally: Tally,
    /// Name of the clock; empty when the profile does not say.
    pub clock: String,
    /// Command line or targets; empty when the profile does not say.
    pub title: String,
    /// CPU time that one tick stands for; zero when the profile does not say.
    pub period: Duration,
}

/// A row in one of the two runs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Side {
    /// Ticks.
    pub ticks: u64,
    /// Ticks as a share of those of the run, percent.
    pub percent: f64,
    /// CPU time that the ticks stand for, seconds; `None` when the profile states no period.
    pub seconds: Option<f64>,
    /// That time for each second of CPU time of the run; `None` when the CPU time is not known.
    pub seconds_per_cpu_second: Option<f64>,
}

/// What a row of one run was recognised by in the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatchedBy {
    /// The build is the same.
    Build,
    /// The process is the same.
    Process,
    /// Names are.
    Name,
}

/// A row of both runs.
#[derive(Clone, Debug, PartialEq)]
pub struct DiffRow {
    /// What the ticks have in common: as the run after has it, if it has it.
    pub group: Group,
    /// What the two sides were matched by; `None` when one run has no ticks there.
    pub matched_by: Option<MatchedBy>,
    /// The run before.
    pub before: Side,
    /// The run after.
    pub after: Side,
    /// Probability of such a change, or a greater one, by chance alone.
    pub probability: f64,
    /// The same, corrected for the number of rows: see [`chance::corrected`].
    pub corrected: f64,
}

impl DiffRow {
    /// Change of the share, percentage points.
    pub fn points(&self) -> f64 {
        self.after.percent - self.before.percent
    }

    /// Change of the time, seconds for each second of CPU time.
    pub fn seconds_per_cpu_second(&self) -> Option<f64> {
        Some(self.after.seconds_per_cpu_second? - self.before.seconds_per_cpu_second?)
    }

    /// Change of the time, seconds: meaningful where both runs had the same work to do.
    pub fn seconds(&self) -> Option<f64> {
        Some(self.after.seconds? - self.before.seconds?)
    }

    /// Whether it takes more to explain the change than chance.
    pub fn is_significant(&self) -> bool {
        self.corrected < ERROR_RATE
    }
}

/// What changed from one run to another, the largest change of a share first.
#[derive(Clone, Debug)]
pub struct Diff {
    /// What the rows are grouped by.
    pub by: By,
    /// The run before.
    pub before: Run,
    /// The run after.
    pub after: Run,
    /// Rows, with those that did not change.
    pub rows: Vec<DiffRow>,
}

impl Diff {
    /// Compares two profiles; rows whose name in neither run pleases `keep` are left out, but stay in the whole that
    /// shares are of, and in the number that probabilities are corrected for.
    pub fn new(mut before: Profile, mut after: Profile, by: By, keep: impl Fn(&str) -> bool) -> Diff {
        let builds = names::shared_builds(&before, &after);
        names::align(&mut before, &mut after, &builds);
        let builds = builds.iter().map(ToString::to_string).collect();
        let (before_run, after_run) = (Report::new(&before, by, |_| true), Report::new(&after, by, |_| true));
        let pairs = pair(&before_run, &after_run, builds);
        let (before, after) = (run(&before, &before_run), run(&after, &after_run));
        let share = |pair: &Pair, run: &Run, ticks: fn(&Pair) -> u64| Share { hits: ticks(pair), all: run.counted };
        let probabilities: Vec<f64> = pairs
            .values()
            .map(|pair| {
                chance::probability(share(pair, &before, |pair| pair.before), share(pair, &after, |pair| pair.after))
            })
            .collect();
        let corrected = chance::corrected(&probabilities);
        let mut rows: Vec<DiffRow> = Vec::new();
        for ((key, pair), (probability, corrected)) in pairs.into_iter().zip(probabilities.into_iter().zip(corrected)) {
            if !pair.names.iter().any(|name| keep(name)) {
                continue;
            }
            rows.push(DiffRow {
                matched_by: (pair.before > 0 && pair.after > 0).then(|| matched_by(&key.owner)),
                before: side(pair.before, &before),
                after: side(pair.after, &after),
                group: pair.group,
                probability,
                corrected,
            });
        }
        rows.sort_by(|a, b| b.points().abs().total_cmp(&a.points().abs()).then_with(|| a.group.cmp(&b.group)));
        Diff { by, before, after, rows }
    }
}

/// What two runs have of one key.
struct Pair {
    group: Group,
    names: HashSet<String>,
    before: u64,
    after: u64,
}

/// Adds the rows of two runs up by what they are matched by.
fn pair(before: &Report, after: &Report, builds: HashSet<String>) -> BTreeMap<Key, Pair> {
    let groups = |report: &'_ Report| report.rows.iter().map(|row| row.group.clone()).collect::<Vec<_>>();
    let (before_groups, after_groups) = (groups(before), groups(after));
    let matching = Matching::new(before.by, builds, before_groups.iter(), after_groups.iter());
    let mut pairs = BTreeMap::new();
    // The run after comes first, and its largest rows: the first name stays.
    for (report, ticks_of) in
        [(after, (|pair| &mut pair.after) as fn(&mut Pair) -> &mut u64), (before, |pair| &mut pair.before)]
    {
        for row in &report.rows {
            let key = matching.key(&row.group);
            let has_address = key.has_address();
            let pair = pairs.entry(key).or_insert_with(|| {
                let mut group = row.group.clone();
                if !has_address {
                    group.address = None;
                }
                Pair { group, names: HashSet::new(), before: 0, after: 0 }
            });
            pair.names.insert(row.group.name(report.by).into_owned());
            let ticks = ticks_of(pair);
            *ticks = ticks.saturating_add(row.ticks);
        }
    }
    pairs
}

fn run(profile: &Profile, report: &Report) -> Run {
    let Profile { tally, clock, title, period, .. } = profile;
    Run { counted: report.counted, tally: *tally, clock: clock.clone(), title: title.clone(), period: *period }
}

fn side(ticks: u64, run: &Run) -> Side {
    let seconds = (!run.period.is_zero()).then_some(ticks as f64 * run.period.as_secs_f64());
    let cpu_seconds = run.tally.cpu_seconds.filter(|seconds| *seconds > 0.0);
    Side {
        ticks,
        percent: if run.counted == 0 { 0.0 } else { ticks as f64 / run.counted as f64 * 100.0 },
        seconds,
        seconds_per_cpu_second: seconds.zip(cpu_seconds).map(|(seconds, all)| seconds / all),
    }
}

fn matched_by(owner: &Owner) -> MatchedBy {
    match owner {
        Owner::Build(_) => MatchedBy::Build,
        Owner::Same(_) => MatchedBy::Process,
        Owner::Path(_) | Owner::Name(_) | Owner::Command(_) | Owner::Service(_) => MatchedBy::Name,
    }
}

#[cfg(test)]
mod tests;
