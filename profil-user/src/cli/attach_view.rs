//! Bins as a table and as JSON.

use std::io::{self, Write};

use profil_common::{Outcome, Region};
use serde::Serialize;

use crate::attach::AttachReport;
use crate::cli::region::Resolved;
use crate::printable::printable;
use crate::report::summary::thousands;
use crate::target_object::TargetObject;

/// Bins that the table shows.
const TABLE_ROWS: usize = 30;

/// A bin with ticks.
#[derive(Clone, Debug, Serialize)]
pub struct BinRow {
    /// Its number.
    bin: u32,
    /// First address (AVMA), hexadecimal.
    low: String,
    /// Last address, hexadecimal.
    high: String,
    /// Ticks.
    ticks: u64,
    /// Percent of the binned ticks.
    percent: f64,
    /// Function at the first address, and at the last one where it is another.
    function: Option<String>,
}

/// What an attachment found, ready to be shown.
#[derive(Clone, Debug, Serialize)]
pub struct View {
    ticks: u64,
    expected: Option<u64>,
    missed: Option<u64>,
    outcomes: serde_json::Map<String, serde_json::Value>,
    hz: f64,
    cpu_seconds: Option<f64>,
    convention: &'static str,
    object: Option<String>,
    offset: String,
    scale: u32,
    bufsiz: u64,
    width: u32,
    nbins: u32,
    /// Ticks that were added to the target's buffer; null when there is none.
    written: Option<u64>,
    /// Bins with ticks, in ascending order of address.
    bins: Vec<BinRow>,
}

impl View {
    /// The view of a report; functions are looked up in the object.
    pub fn new(report: &AttachReport, resolved: &Resolved, mut object: Option<&mut TargetObject>) -> View {
        let AttachReport { region, histogram, tally, written, .. } = report;
        let binned = tally.outcome(Outcome::Binned).max(1);
        let counted = histogram.bins().iter().zip(0u32..).filter(|(ticks, _)| **ticks > 0);
        let spans: Vec<_> = counted.filter_map(|(ticks, bin)| Some((bin, region.addrs_of(bin)?, *ticks))).collect();
        let ends: Vec<u64> = spans.iter().flat_map(|(_, span, _)| [*span.start(), *span.end()]).collect();
        let names = match object.as_deref_mut() {
            Some(object) => object.functions(&ends),
            None => vec![None; ends.len()],
        };
        let bins = spans
            .iter()
            .zip(names.chunks_exact(2))
            .map(|((bin, span, ticks), names)| BinRow {
                bin: *bin,
                low: format!("{:#x}", span.start()),
                high: format!("{:#x}", span.end()),
                ticks: *ticks,
                percent: *ticks as f64 * 100.0 / binned as f64,
                function: function(&names[0], &names[1]),
            })
            .collect();
        let Resolved { convention, request, .. } = *resolved;
        View {
            ticks: tally.ticks,
            expected: tally.expected(),
            missed: tally.missed(),
            outcomes: Outcome::ALL
                .map(|outcome| (outcome.name().to_owned(), tally.outcome(outcome).into()))
                .into_iter()
                .collect(),
            hz: tally.hz,
            cpu_seconds: tally.cpu_seconds,
            convention: convention.name(),
            object: object.map(|object| object.path().display().to_string()),
            offset: format!("{:#x}", request.offset),
            scale: request.scale,
            bufsiz: request.bufsiz,
            width: request.width,
            nbins: region.nbins,
            written: *written,
            bins,
        }
    }
}

/// Functions of the two ends of a bin.
fn function(first: &Option<String>, last: &Option<String>) -> Option<String> {
    match (first, last) {
        (Some(first), Some(last)) if first != last => Some(format!("{first} .. {last}")),
        (first, last) => first.clone().or(last.clone()),
    }
}

/// Bytes of text that a bin of a request stands for, as a fraction where it is none.
pub fn bytes_per_bin(resolved: &Resolved) -> String {
    let region = Region::new(resolved.convention, resolved.request).ok().flatten();
    match region.map(|region| region.addrs_of(0)) {
        Some(Some(span)) => (span.end() - span.start()).saturating_add(1).to_string(),
        _ => "no".to_owned(),
    }
}

/// Writes the bins with most ticks as a table.
///
/// # Errors
/// Those of `to`.
pub fn write_table(view: &View, to: &mut dyn Write) -> io::Result<()> {
    let mut rows: Vec<&BinRow> = view.bins.iter().collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.ticks));
    let hidden = rows.len().saturating_sub(TABLE_ROWS);
    rows.truncate(TABLE_ROWS);
    if rows.is_empty() {
        return Ok(());
    }
    let ticks_width = rows.iter().map(|row| thousands(row.ticks).len()).max().unwrap_or(0).max(5);
    let span_width = rows.iter().map(|row| row.low.len() + row.high.len() + 1).max().unwrap_or(0);
    writeln!(to, "{:>ticks_width$}  {:>6}  {:<span_width$}  FUNCTION", "TICKS", "%", "ADDRESSES")?;
    for row in rows {
        let span = format!("{}-{}", row.low, row.high);
        let function = row.function.as_deref().unwrap_or("[unknown]");
        writeln!(
            to,
            "{:>ticks_width$}  {:>6.2}  {span:<span_width$}  {}",
            thousands(row.ticks),
            row.percent,
            printable(function)
        )?;
    }
    if hidden > 0 {
        writeln!(to, "and {} more; --json shows all", thousands(hidden as u64))?;
    }
    Ok(())
}

/// Writes all of it as JSON.
///
/// # Errors
/// Those of `to`.
pub fn write_json(view: &View, to: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer(&mut *to, view)?;
    writeln!(to)
}
