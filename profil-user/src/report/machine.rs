//! A report for programs: JSON and CSV.

use std::io::{self, Write};

use profil_common::Outcome;
use serde::Serialize;

use super::group::{By, Group};
use super::{Report, ReportRow};
use crate::tally::Tally;

/// A report as JSON has it. Times are in seconds, addresses are hexadecimal strings, shares are in percent.
#[derive(Debug, Serialize)]
pub struct JsonReport<'a> {
    /// Ticks of the targets, whether they have a place in the code or not.
    pub ticks: u64,
    /// Ticks that the CPU time asks for; null when that is not known.
    pub expected: Option<u64>,
    /// Ticks that are missing from those; null when that is not known.
    pub missed: Option<u64>,
    /// Ticks by outcome; shares are of `binned` and `stray`.
    pub outcomes: JsonOutcomes,
    /// Rate asked for; null when the profile does not say.
    pub hz: Option<f64>,
    /// CPU time of the targets; null when that is not known.
    pub cpu_seconds: Option<f64>,
    /// Rows, the largest first.
    pub rows: Vec<JsonRow<'a>>,
}

/// Ticks by outcome.
#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "the fields are named after `Outcome`, which documents them")]
pub struct JsonOutcomes {
    pub binned: u64,
    pub stray: u64,
    pub outside: u64,
    pub no_user_pc: u64,
    pub kernel_excluded: u64,
    pub dropped: u64,
}

/// A row: first what it is about, then its numbers.
#[derive(Debug, Serialize)]
pub struct JsonRow<'a> {
    /// What the row is about.
    #[serde(flatten)]
    pub group: JsonGroup<'a>,
    /// Ticks.
    pub ticks: u64,
    /// Share, percent.
    pub percent: f64,
    /// Part of the row's ticks taken in the kernel, percent.
    pub kernel_percent: f64,
    /// Lower bound of the share (95 %), percent.
    pub low: f64,
    /// Upper bound of the share (95 %), percent.
    pub high: f64,
}

/// What a row is about, by what the report is grouped by. Null: not known.
#[derive(Debug, Serialize)]
#[serde(untagged)]
#[expect(missing_docs, reason = "the fields are those of `Group`, which documents them")]
pub enum JsonGroup<'a> {
    Function {
        function: &'a Option<String>,
        object: &'a Option<String>,
        build_id: &'a Option<String>,
    },
    Object {
        object: &'a Option<String>,
        build_id: &'a Option<String>,
    },
    Process {
        process: &'a Option<String>,
        pid: Option<u32>,
        generation: Option<u32>,
    },
    Thread {
        process: &'a Option<String>,
        pid: Option<u32>,
        generation: Option<u32>,
        tid: Option<u32>,
    },
    Address {
        address: Option<String>,
        function: &'a Option<String>,
        object: &'a Option<String>,
        build_id: &'a Option<String>,
    },
    Line {
        file: &'a Option<String>,
        line: Option<u32>,
        function: &'a Option<String>,
        object: &'a Option<String>,
        build_id: &'a Option<String>,
    },
}

impl JsonOutcomes {
    /// The outcomes of a tally.
    pub fn new(tally: &Tally) -> JsonOutcomes {
        JsonOutcomes {
            binned: tally.outcome(Outcome::Binned),
            stray: tally.outcome(Outcome::Stray),
            outside: tally.outcome(Outcome::Outside),
            no_user_pc: tally.outcome(Outcome::NoUserPc),
            kernel_excluded: tally.outcome(Outcome::KernelExcluded),
            dropped: tally.outcome(Outcome::Dropped),
        }
    }
}

impl<'a> JsonReport<'a> {
    /// A report's JSON form with its first `limit` rows.
    pub fn new(report: &'a Report, limit: Option<usize>) -> JsonReport<'a> {
        let tally = &report.tally;
        let row = |row: &'a ReportRow| JsonRow {
            group: JsonGroup::new(&row.group, report.by),
            ticks: row.ticks,
            percent: rounded(row.percent),
            kernel_percent: rounded(row.kernel_percent),
            low: rounded(row.interval.low),
            high: rounded(row.interval.high),
        };
        JsonReport {
            ticks: tally.ticks,
            expected: tally.expected(),
            missed: tally.missed(),
            outcomes: JsonOutcomes::new(tally),
            hz: Some(tally.hz).filter(|hz| *hz > 0.0),
            cpu_seconds: tally.cpu_seconds,
            rows: report.rows.iter().take(limit.unwrap_or(usize::MAX)).map(row).collect(),
        }
    }
}

impl<'a> JsonGroup<'a> {
    /// What a row of that group is about.
    pub fn new(group: &'a Group, by: By) -> JsonGroup<'a> {
        let Group { function, object, build_id, in_kernel: _, process, pid, generation, tid, address, file, line } =
            group;
        let (pid, generation, tid, line) = (*pid, *generation, *tid, *line);
        match by {
            By::Function => JsonGroup::Function { function, object, build_id },
            By::Object | By::BuildId => JsonGroup::Object { object, build_id },
            By::Process => JsonGroup::Process { process, pid, generation },
            By::Thread => JsonGroup::Thread { process, pid, generation, tid },
            By::Address => {
                let address = address.map(|address| format!("{address:#x}"));
                JsonGroup::Address { address, function, object, build_id }
            }
            By::Line => JsonGroup::Line { file, line, function, object, build_id },
        }
    }

    /// Headings of the cells in CSV.
    pub fn headings(by: By) -> &'static str {
        match by {
            By::Function => "function,object,build_id",
            By::Object | By::BuildId => "object,build_id",
            By::Process => "process,pid,generation",
            By::Thread => "process,pid,generation,tid",
            By::Address => "address,function,object,build_id",
            By::Line => "file,line,function,object,build_id",
        }
    }

    /// The cells in CSV, with commas between them.
    pub fn cells(&self) -> String {
        let number = |number: Option<u32>| number.map(|number| number.to_string()).unwrap_or_default();
        let cells = match self {
            JsonGroup::Function { function, object, build_id } => vec![text(function), text(object), text(build_id)],
            JsonGroup::Object { object, build_id } => vec![text(object), text(build_id)],
            JsonGroup::Process { process, pid, generation } => vec![text(process), number(*pid), number(*generation)],
            JsonGroup::Thread { process, pid, generation, tid } => {
                vec![text(process), number(*pid), number(*generation), number(*tid)]
            }
            JsonGroup::Address { address, function, object, build_id } => {
                vec![text(address), text(function), text(object), text(build_id)]
            }
            JsonGroup::Line { file, line, function, object, build_id } => {
                vec![text(file), number(*line), text(function), text(object), text(build_id)]
            }
        };
        cells.join(",")
    }
}

/// Four decimals: a ten-thousandth of a percent is below one tick in a million.
pub(crate) fn rounded(percent: f64) -> f64 {
    (percent * 1e4).round() / 1e4
}

/// Writes the report as one line of JSON.
///
/// # Errors
/// Those of `to`.
pub fn write_json(report: &Report, limit: Option<usize>, to: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer(&mut *to, &JsonReport::new(report, limit))?;
    writeln!(to)
}

/// Writes the rows as CSV with a heading, the same columns as JSON has keys.
///
/// # Errors
/// Those of `to`.
///
/// # Source
/// RFC 4180, with LF for CRLF.
pub fn write_csv(report: &Report, limit: Option<usize>, to: &mut dyn Write) -> io::Result<()> {
    writeln!(to, "{},ticks,percent,kernel_percent,low,high", JsonGroup::headings(report.by))?;
    for row in JsonReport::new(report, limit).rows {
        let JsonRow { group, ticks, percent, kernel_percent, low, high } = row;
        writeln!(to, "{},{ticks},{percent},{kernel_percent},{low},{high}", group.cells())?;
    }
    Ok(())
}

/// A cell of CSV, quoted where it must be.
fn text(value: &Option<String>) -> String {
    let value = value.as_deref().unwrap_or("");
    if value.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", value.replace('"', "\"\""))
    } else {
        value.to_owned()
    }
}
