//! A comparison as a table for people.

use std::io::{self, Write};

use super::{Diff, DiffRow, ERROR_RATE, Run, Side};
use crate::printable::printable;
use crate::report::Group;
use crate::report::color::Tone;
use crate::report::column::{self, Column, cut};
use crate::report::summary::{counted, rate, thousands};
use crate::report::table::Layout;

/// Which rows a table has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    /// Those whose change takes more than chance to explain.
    Changed,
    /// All.
    All,
}

/// Writes the table: a line about each run, a heading, the rows, and what is not shown.
///
/// # Errors
/// Those of `to`.
pub fn write(diff: &Diff, rows: Rows, layout: Layout, to: &mut dyn Write) -> io::Result<()> {
    let wide = layout.width.unwrap_or(usize::MAX);
    writeln!(to, "{}", cut(&headline("before", &diff.before), wide))?;
    writeln!(to, "{}", cut(&headline("after ", &diff.after), wide))?;
    let wanted: Vec<&DiffRow> = diff.rows.iter().filter(|row| rows == Rows::All || row.is_significant()).collect();
    let shown = &wanted[..layout.limit.unwrap_or(usize::MAX).min(wanted.len())];
    if !shown.is_empty() {
        let columns = columns(diff, shown, layout.width);
        writeln!(to, "{}", layout.paint.show(Tone::Heading, column::heading_line(&columns)))?;
        for (index, row) in shown.iter().enumerate() {
            writeln!(to, "{}", layout.paint.show(tone(row), column::row_line(&columns, index)))?;
        }
    }
    let more = wanted.len() - shown.len();
    if more > 0 {
        writeln!(to, "and {} more; --limit 0 shows all", thousands(more as u64))?;
    }
    let noise = diff.rows.len() - wanted.len();
    if noise > 0 {
        let rows = counted(noise as u64, "row");
        if shown.is_empty() {
            writeln!(to, "no change that two runs of the same code would not show; --all shows {rows}")?;
        } else {
            writeln!(to, "and {rows} with no more change than two runs of the same code show; --all shows them")?;
        }
    }
    Ok(())
}

fn headline(which: &str, run: &Run) -> String {
    let Run { counted: places, tally, clock: _, title, period: _ } = run;
    let mut line = format!("{which} {}", counted(*places, "tick"));
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

fn columns(diff: &Diff, rows: &[&DiffRow], width: Option<usize>) -> Vec<Column> {
    let mut columns = vec![
        Column::numbers("CHANGE", rows, |row| format!("{:+.2}", row.points())),
        Column::numbers("BEFORE%", rows, |row| percent(row.before)),
        Column::numbers("AFTER%", rows, |row| percent(row.after)),
        Column::numbers("MS/CPU S", rows, |row| signed(row.seconds_per_cpu_second().map(|seconds| seconds * 1e3), 1)),
        Column::numbers("SECONDS", rows, |row| signed(row.seconds(), 3)),
        Column::numbers("BY CHANCE", rows, |row| by_chance(row.corrected)),
    ];
    let groups: Vec<&Group> = rows.iter().map(|row| &row.group).collect();
    columns.extend(column::name_columns(diff.by, &groups));
    if let Some(width) = width {
        column::fit(&mut columns, width);
    }
    columns
}

/// A share; a dash where there is none at all.
fn percent(side: Side) -> String {
    if side.ticks == 0 { "-".into() } else { format!("{:.2}", side.percent) }
}

fn signed(number: Option<f64>, digits: usize) -> String {
    number.map_or("-".into(), |number| format!("{number:+.digits$}"))
}

/// How likely two runs of the same code differ as much, as a person reads it.
fn by_chance(corrected: f64) -> String {
    if corrected >= ERROR_RATE {
        "noise".into()
    } else if corrected < 1e-4 {
        "<0.01 %".into()
    } else {
        format!("{:.2} %", corrected * 100.0)
    }
}

fn tone(row: &DiffRow) -> Tone {
    match row.is_significant() {
        true if row.points() > 0.0 => Tone::Worse,
        true => Tone::Better,
        false => Tone::Plain,
    }
}
