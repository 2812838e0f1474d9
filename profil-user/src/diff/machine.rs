//! A comparison for programs: JSON and CSV.

use std::io::{self, Write};

use serde::Serialize;

use super::{Diff, DiffRow, ERROR_RATE, MatchedBy, Run, Side};
use crate::report::machine::{JsonGroup, JsonOutcomes, rounded};

/// A comparison as JSON has it:
/// `{"before":{RUN},"after":{RUN},"error_rate":X,"rows":[{ABOUT,"matched_by":..,"before":{SIDE},"after":{SIDE},
/// "change_points":X,"change_seconds":X,"change_seconds_per_cpu_second":X,"probability":X,"corrected":X,
/// "significant":BOOL}]}`, where ABOUT is what a row of `profil report --json --by ..` is about. Times are in seconds,
/// addresses are hexadecimal strings, shares are in percent; null is what is not known.
#[derive(Debug, Serialize)]
pub struct JsonDiff<'a> {
    /// The run before.
    pub before: JsonRun,
    /// The run after.
    pub after: JsonRun,
    /// Part of the rows called significant that may be so by chance alone.
    pub error_rate: f64,
    /// Rows, the largest change of a share first.
    pub rows: Vec<JsonDiffRow<'a>>,
}

/// The account of a run, with the keys that `profil report --json` has.
#[derive(Debug, Serialize)]
pub struct JsonRun {
    /// Ticks of the targets, whether they have a place in the code or not.
    pub ticks: u64,
    /// Ticks that the CPU time asks for.
    pub expected: Option<u64>,
    /// Ticks that are missing from those.
    pub missed: Option<u64>,
    /// Ticks by outcome; shares are of `binned` and `stray`.
    pub outcomes: JsonOutcomes,
    /// Rate asked for.
    pub hz: Option<f64>,
    /// CPU time of the targets.
    pub cpu_seconds: Option<f64>,
}

/// A row: first what it is about, then its numbers.
#[derive(Debug, Serialize)]
pub struct JsonDiffRow<'a> {
    /// What the row is about.
    #[serde(flatten)]
    pub group: JsonGroup<'a>,
    /// `build_id`, `process` or `name`: what the two sides were matched by; null when one of them has no ticks.
    pub matched_by: Option<&'static str>,
    /// The run before.
    pub before: JsonSide,
    /// The run after.
    pub after: JsonSide,
    /// Change of the share, percentage points.
    pub change_points: f64,
    /// Change of the time.
    pub change_seconds: Option<f64>,
    /// Change of the time for each second of CPU time.
    pub change_seconds_per_cpu_second: Option<f64>,
    /// Probability of such a change by chance alone.
    pub probability: f64,
    /// The same, corrected for the number of rows.
    pub corrected: f64,
    /// Whether that is less than the error rate.
    pub significant: bool,
}

/// A row in one of the runs.
#[derive(Debug, Serialize)]
pub struct JsonSide {
    /// Ticks.
    pub ticks: u64,
    /// Share, percent.
    pub percent: f64,
    /// CPU time that the ticks stand for.
    pub seconds: Option<f64>,
    /// That time for each second of CPU time of the run.
    pub seconds_per_cpu_second: Option<f64>,
}

impl<'a> JsonDiff<'a> {
    /// A comparison's JSON form with its first `limit` rows.
    pub fn new(diff: &'a Diff, limit: Option<usize>) -> JsonDiff<'a> {
        let row = |row: &'a DiffRow| JsonDiffRow {
            group: JsonGroup::new(&row.group, diff.by),
            matched_by: row.matched_by.map(word),
            before: JsonSide::new(row.before),
            after: JsonSide::new(row.after),
            change_points: rounded(row.points()),
            change_seconds: row.seconds().map(fine),
            change_seconds_per_cpu_second: row.seconds_per_cpu_second().map(fine),
            probability: four_digits(row.probability),
            corrected: four_digits(row.corrected),
            significant: row.is_significant(),
        };
        JsonDiff {
            before: JsonRun::new(&diff.before),
            after: JsonRun::new(&diff.after),
            error_rate: ERROR_RATE,
            rows: diff.rows.iter().take(limit.unwrap_or(usize::MAX)).map(row).collect(),
        }
    }
}

impl JsonRun {
    fn new(run: &Run) -> JsonRun {
        let tally = &run.tally;
        JsonRun {
            ticks: tally.ticks,
            expected: tally.expected(),
            missed: tally.missed(),
            outcomes: JsonOutcomes::new(tally),
            hz: Some(tally.hz).filter(|hz| *hz > 0.0),
            cpu_seconds: tally.cpu_seconds,
        }
    }
}

impl JsonSide {
    fn new(side: Side) -> JsonSide {
        let Side { ticks, percent, seconds, seconds_per_cpu_second } = side;
        JsonSide {
            ticks,
            percent: rounded(percent),
            seconds: seconds.map(fine),
            seconds_per_cpu_second: seconds_per_cpu_second.map(fine),
        }
    }
}

fn word(matched_by: MatchedBy) -> &'static str {
    match matched_by {
        MatchedBy::Build => "build_id",
        MatchedBy::Process => "process",
        MatchedBy::Name => "name",
    }
}

/// Four significant digits of a probability, which may be very small.
fn four_digits(probability: f64) -> f64 {
    format!("{probability:.3e}").parse().unwrap_or(probability)
}

/// Microseconds.
fn fine(seconds: f64) -> f64 {
    (seconds * 1e6).round() / 1e6
}

/// Writes the comparison as one line of JSON.
///
/// # Errors
/// Those of `to`.
pub fn write_json(diff: &Diff, limit: Option<usize>, to: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer(&mut *to, &JsonDiff::new(diff, limit))?;
    writeln!(to)
}

/// Writes the rows as CSV with a heading.
///
/// # Errors
/// Those of `to`.
///
/// # Source
/// RFC 4180, with LF for CRLF.
pub fn write_csv(diff: &Diff, limit: Option<usize>, to: &mut dyn Write) -> io::Result<()> {
    writeln!(
        to,
        "{},before_ticks,before_percent,before_seconds,after_ticks,after_percent,after_seconds,change_points,\
         change_seconds,change_seconds_per_cpu_second,probability,corrected,significant",
        JsonGroup::headings(diff.by)
    )?;
    let number = |number: Option<f64>| number.map(|number| number.to_string()).unwrap_or_default();
    for row in JsonDiff::new(diff, limit).rows {
        let side =
            |JsonSide { ticks, percent, seconds, .. }: JsonSide| format!("{ticks},{percent},{}", number(seconds));
        writeln!(
            to,
            "{},{},{},{},{},{},{:?},{:?},{}",
            row.group.cells(),
            side(row.before),
            side(row.after),
            row.change_points,
            number(row.change_seconds),
            number(row.change_seconds_per_cpu_second),
            row.probability,
            row.corrected,
            row.significant
        )?;
    }
    Ok(())
}
