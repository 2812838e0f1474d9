//! The tally of a run as comments of a pprof file, each after `profil: `.
//!
//! | comment | meaning |
//! |---|---|
//! | `ticks=N binned=N ... dropped=N hz=X cpu_seconds=X expected=N missed=N` | the tally: ticks, ticks by outcome, the rate asked, and the CPU time where known; `expected` and `missed` are for people, they follow from the others and are not read back |
//! | `clock=TEXT`, `title=TEXT` | as in [`Profile`] |
//! | `stale=ID` | id of a mapping whose file was another build; once for each |
//!
//! The tally is one comment because `go tool pprof` prints every comment above its tables.

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
    let pair = |key: &str, value: &dyn Display| format!("{key}={value}");
    let note = |key: &str, value: &dyn Display| format!("{COMMENT_PREFIX}{key}={value}");
    let mut pairs = vec![note("ticks", &ticks)];
    pairs.extend(Outcome::ALL.map(|outcome| pair(outcome.name(), &profile.tally.outcome(outcome))));
    pairs.push(pair("hz", &hz));
    pairs.extend(cpu_seconds.map(|seconds| pair("cpu_seconds", &seconds)));
    pairs.extend(profile.tally.expected().map(|expected| pair("expected", &expected)));
    pairs.extend(profile.tally.missed().map(|missed| pair("missed", &missed)));
    let mut comments = vec![pairs.join(" ")];
    comments.push(note("clock", &profile.clock));
    comments.push(note("title", &profile.title));
    let stale = profile.mappings.iter().enumerate().filter(|(_, mapping)| mapping.stale);
    comments.extend(stale.map(|(index, _)| note("stale", &(index + 1))));
    comments
}

/// What comments say; those of other tools are passed over.
pub fn parse<'a>(comments: impl IntoIterator<Item = &'a str>) -> Notes {
    let mut notes = Notes::default();
    let mut tallies = Vec::new();
    for comment in comments {
        let Some(note) = comment.strip_prefix(COMMENT_PREFIX) else { continue };
        match note.split_once('=') {
            Some(("ticks", _)) => tallies.push(parse_tally(note)),
            Some(("clock", clock)) => notes.clock = Some(clock.to_owned()),
            Some(("title", title)) => notes.title = Some(title.to_owned()),
            Some(("stale", id)) => notes.stale.extend(id.parse::<u64>()),
            _ => {}
        }
    }
    if let [tally] = tallies[..] {
        notes.tally = tally;
    }
    notes
}

/// The tally in a comment; `None` when a part is missing or they do not add up.
fn parse_tally(note: &str) -> Option<Tally> {
    let pairs = || note.split_ascii_whitespace().filter_map(|pair| pair.split_once('='));
    let value = |key: &str| pairs().find(|(name, _)| *name == key).map(|(_, value)| value);
    let count = |key: &str| value(key)?.parse::<u64>().ok();
    let number = |key: &str| value(key)?.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0);
    let mut outcomes = [0; 6];
    for outcome in Outcome::ALL {
        outcomes[outcome as usize] = count(outcome.name())?;
    }
    let tally = Tally { ticks: count("ticks")?, outcomes, cpu_seconds: number("cpu_seconds"), hz: number("hz")? };
    let sum = outcomes.iter().try_fold(0u64, |sum, count| sum.checked_add(*count))?;
    (sum == tally.ticks).then_some(tally)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TALLY: &str = "profil: ticks=10 binned=0 stray=8 outside=0 no_user_pc=2 kernel_excluded=0 dropped=0 hz=997";

    #[test]
    fn a_tally_reads_back_beside_other_tools_comments() {
        let notes = parse(["made by hand", TALLY, "profil: unheard=1", "profil: title=-- sh -c a=b"]);
        let tally = Tally { ticks: 10, outcomes: [0, 8, 0, 2, 0, 0], cpu_seconds: None, hz: 997.0 };
        assert_eq!(notes.tally, Some(tally));
        assert_eq!(notes.title.as_deref(), Some("-- sh -c a=b"));
    }

    #[test]
    fn a_tally_stated_twice_or_in_part_is_none() {
        assert_eq!(parse([TALLY, "profil: ticks=11"]).tally, None);
        assert_eq!(parse([TALLY.replace("outside=0", "").as_str()]).tally, None);
        assert_eq!(parse([]).tally, None);
    }

    #[test]
    fn a_tally_that_does_not_add_up_is_none() {
        assert_eq!(parse([TALLY.replace("stray=8", "stray=18446744073709551615").as_str()]).tally, None);
    }
}
