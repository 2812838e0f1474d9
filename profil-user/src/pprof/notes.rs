//! The tally of a run as comments of a pprof file: `profil: KEY=VALUE`.
//!
//! | key | value |
//! |---|---|
//! | `ticks` | ticks of the targets |
//! | `binned` ... `dropped` | ticks by outcome |
//! | `hz` | ticks asked for per second of CPU time |
//! | `cpu_seconds` | CPU time of the targets, where known |
//! | `expected`, `missed` | for people: they follow from `cpu_seconds`, `hz` and `ticks`, and are not read back |
//! | `clock`, `title` | as in [`Profile`] |
//! | `stale` | id of a mapping whose file was another build; once for each |

use std::fmt::Display;

use profil_common::Outcome;

use super::COMMENT_PREFIX;
use crate::profile::Profile;
use crate::tally::Tally;

/// What the comments of a profil file say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Notes {
    /// The account of the run; `None` when it is incomplete or stated twice, as merged files have it.
    pub tally: Option<Tally>,
    /// Name of the clock.
    pub clock: Option<String>,
    /// Command line or targets.
    pub title: Option<String>,
    /// Ids of stale mappings.
    pub stale: Vec<u64>,
}

/// The comments for a profile; mapping ids are indexes plus 1.
pub fn comments(profile: &Profile) -> Vec<String> {
    let Tally { ticks, outcomes: _, cpu_seconds, hz } = profile.tally;
    let note = |key: &str, value: &dyn Display| format!("{COMMENT_PREFIX}{key}={value}");
    let mut comments = vec![note("ticks", &ticks)];
    comments.extend(Outcome::ALL.map(|outcome| note(outcome.name(), &profile.tally.outcome(outcome))));
    comments.push(note("hz", &hz));
    comments.extend(cpu_seconds.map(|seconds| note("cpu_seconds", &seconds)));
    comments.extend(profile.tally.expected().map(|expected| note("expected", &expected)));
    comments.extend(profile.tally.missed().map(|missed| note("missed", &missed)));
    comments.push(note("clock", &profile.clock));
    comments.push(note("title", &profile.title));
    let stale = profile.mappings.iter().enumerate().filter(|(_, mapping)| mapping.stale);
    comments.extend(stale.map(|(index, _)| note("stale", &(index + 1))));
    comments
}

/// What comments say; those of other tools are passed over.
pub fn parse<'a>(comments: impl IntoIterator<Item = &'a str>) -> Notes {
    let mut notes = Notes::default();
    let mut draft = Draft::default();
    for comment in comments {
        let Some((key, value)) = comment.strip_prefix(COMMENT_PREFIX).and_then(|note| note.split_once('=')) else {
            continue;
        };
        match key {
            "clock" => notes.clock = Some(value.to_owned()),
            "title" => notes.title = Some(value.to_owned()),
            "stale" => notes.stale.extend(value.parse::<u64>()),
            "ticks" => put(&mut draft.ticks, value.parse().ok(), &mut draft.twice),
            "hz" => put(&mut draft.hz, finite(value), &mut draft.twice),
            "cpu_seconds" => put(&mut draft.cpu_seconds, finite(value), &mut draft.twice),
            _ => {
                if let Some(outcome) = Outcome::ALL.into_iter().find(|outcome| outcome.name() == key) {
                    put(&mut draft.outcomes[outcome as usize], value.parse().ok(), &mut draft.twice);
                }
            }
        }
    }
    notes.tally = draft.tally();
    notes
}

/// A tally as its parts come in.
#[derive(Default)]
struct Draft {
    ticks: Option<u64>,
    outcomes: [Option<u64>; 6],
    cpu_seconds: Option<f64>,
    hz: Option<f64>,
    /// A key came twice with different values.
    twice: bool,
}

impl Draft {
    fn tally(self) -> Option<Tally> {
        let Draft { ticks, outcomes, cpu_seconds, hz, twice } = self;
        let mut counts = [0; 6];
        for (count, outcome) in counts.iter_mut().zip(outcomes) {
            *count = outcome?;
        }
        let tally = Tally { ticks: ticks?, outcomes: counts, cpu_seconds, hz: hz? };
        let sum = counts.iter().try_fold(0u64, |sum, count| sum.checked_add(*count))?;
        (!twice && sum == tally.ticks).then_some(tally)
    }
}

fn put<T: PartialEq>(slot: &mut Option<T>, value: Option<T>, twice: &mut bool) {
    *twice |= slot.is_some() && *slot != value;
    *slot = value;
}

fn finite(value: &str) -> Option<f64> {
    value.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: [&str; 9] = [
        "profil: ticks=10",
        "profil: binned=0",
        "profil: stray=8",
        "profil: outside=0",
        "profil: no_user_pc=2",
        "profil: kernel_excluded=0",
        "profil: dropped=0",
        "profil: hz=997",
        "profil: title=-- sh -c a=b",
    ];

    #[test]
    fn a_tally_reads_back_beside_other_tools_comments() {
        let notes = parse(WHOLE.into_iter().chain(["made by hand", "profil: unheard=1"]));
        let tally = Tally { ticks: 10, outcomes: [0, 8, 0, 2, 0, 0], cpu_seconds: None, hz: 997.0 };
        assert_eq!(notes.tally, Some(tally));
        assert_eq!(notes.title.as_deref(), Some("-- sh -c a=b"));
    }

    #[test]
    fn a_tally_stated_twice_or_in_part_is_none() {
        assert_eq!(parse(WHOLE.into_iter().chain(["profil: ticks=11"])).tally, None);
        assert_eq!(parse(WHOLE.into_iter().skip(1)).tally, None);
        assert_eq!(parse([]).tally, None);
    }

    #[test]
    fn a_tally_that_does_not_add_up_is_none() {
        let changed =
            WHOLE.map(|note| if note.ends_with("stray=8") { "profil: stray=18446744073709551615" } else { note });
        assert_eq!(parse(changed).tally, None);
    }
}
