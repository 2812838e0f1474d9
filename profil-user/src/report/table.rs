//! A report as a table for people.

use std::io::{self, Write};

use super::color::{Paint, Tone};
use super::column::{self, Column, cut};
use super::group::{By, Group};
use super::summary::{counted, rate, thousands};
use super::{Report, ReportRow};
use crate::printable::printable;

/// How a table is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Most rows; `None` shows all.
    pub limit: Option<usize>,
    /// Columns of the terminal; `None`, for files and pipes, cuts nothing.
    pub width: Option<usize>,
    /// Colours.
    pub paint: Paint,
}

/// Writes the table: a line about the run, a heading, the rows, and what the limit hides.
///
/// # Errors
/// Those of `to`.
pub fn write(report: &Report, layout: Layout, to: &mut dyn Write) -> io::Result<()> {
    writeln!(to, "{}", cut(&headline(report), layout.width.unwrap_or(usize::MAX)))?;
    if report.rows.is_empty() {
        return Ok(());
    }
    let shown = &report.rows[..layout.limit.unwrap_or(usize::MAX).min(report.rows.len())];
    let columns = columns(report.by, shown, layout.width);
    writeln!(to, "{}", layout.paint.show(Tone::Heading, column::heading_line(&columns)))?;
    for (index, row) in shown.iter().enumerate() {
        writeln!(to, "{}", layout.paint.show(Tone::of_percent(row.percent), column::row_line(&columns, index)))?;
    }
    let hidden = &report.rows[shown.len()..];
    if !hidden.is_empty() {
        let ticks = hidden.iter().map(|row| row.ticks).sum();
        let share = super::percent(ticks, report.counted);
        writeln!(
            to,
            "and {} more with {} ({share:.2} %); --limit 0 shows all",
            thousands(hidden.len() as u64),
            counted(ticks, "tick")
        )?;
    }
    Ok(())
}

/// The line about the run.
pub fn headline(report: &Report) -> String {
    let Report { counted: places, tally, clock, title, .. } = report;
    let mut line = counted(tally.ticks, "tick");
    if *places != tally.ticks {
        line += &format!(", {} with a place in the code (100 % here)", thousands(*places));
    }
    if !clock.is_empty() {
        line += &format!("; {clock}");
    }
    if tally.hz > 0.0 {
        line += &format!("; {} Hz", rate(tally.hz));
    }
    if let Some(seconds) = tally.cpu_seconds {
        line += &format!("; {seconds:.2} CPU s");
    }
    if !title.is_empty() {
        line += &format!("; {}", printable(title));
    }
    line
}

fn columns(by: By, rows: &[ReportRow], width: Option<usize>) -> Vec<Column> {
    let mut columns = vec![
        Column::numbers("TICKS", rows, |row| thousands(row.ticks)),
        Column::numbers("SECONDS", rows, |row| row.seconds.map_or("-".into(), |seconds| format!("{seconds:.3}"))),
        Column::numbers("%", rows, |row| format!("{:.2}", row.percent)),
        Column::numbers("CUM%", rows, |row| format!("{:.2}", row.cumulative_percent)),
        Column::numbers("SYS%", rows, |row| format!("{:.1}", row.kernel_percent)),
        Column::numbers("95% RANGE", rows, |row| format!("{:.2}-{:.2}", row.interval.low, row.interval.high)),
    ];
    let groups: Vec<&Group> = rows.iter().map(|row| &row.group).collect();
    columns.extend(column::name_columns(by, &groups));
    if let Some(width) = width {
        column::fit(&mut columns, width);
    }
    columns
}
