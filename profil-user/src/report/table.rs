//! A report as a table for people.

use std::io::{self, Write};

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::color::{Paint, Tone};
use super::group::{By, Group, base_name};
use super::summary::{counted, rate, thousands};
use super::{Report, ReportRow};
use crate::printable::printable;

/// Narrowest that a name is cut to, columns.
const NARROWEST_NAME: usize = 16;

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
    let heading: Vec<_> = columns.iter().map(|column| column.pad(column.heading)).collect();
    writeln!(to, "{}", layout.paint.show(Tone::Heading, heading.join("  ").trim_end()))?;
    for (index, row) in shown.iter().enumerate() {
        let cells: Vec<_> = columns.iter().map(|column| column.pad(&column.cells[index])).collect();
        writeln!(to, "{}", layout.paint.show(Tone::of_percent(row.percent), cells.join("  ").trim_end()))?;
    }
    let hidden = &report.rows[shown.len()..];
    if !hidden.is_empty() {
        let ticks = hidden.iter().fold(0u64, |sum, row| sum.saturating_add(row.ticks));
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
fn headline(report: &Report) -> String {
    let Report { counted: places, tally, clock, title, .. } = report;
    let mut line = counted(tally.ticks, "tick");
    if *places != tally.ticks {
        line += &format!(", {} with a place in the code (100 % here)", thousands(*places));
    }
    if !clock.is_empty() {
        line += &format!("; {}", printable(clock));
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

/// A column and its cells.
struct Column {
    heading: &'static str,
    align: Align,
    cells: Vec<String>,
    width: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Align {
    /// Names; the end is cut off where there is no room.
    Left,
    Right,
}

impl Column {
    fn new(heading: &'static str, align: Align, cells: Vec<String>) -> Column {
        let width = cells.iter().map(|cell| cell.width()).chain([heading.width()]).max().unwrap_or(0);
        Column { heading, align, cells, width }
    }

    fn numbers(heading: &'static str, rows: &[ReportRow], cell: impl Fn(&ReportRow) -> String) -> Column {
        Column::new(heading, Align::Right, rows.iter().map(cell).collect())
    }

    fn names(heading: &'static str, rows: &[ReportRow], cell: impl Fn(&Group) -> String) -> Column {
        let cells = rows.iter().map(|row| printable(&cell(&row.group)).into_owned()).collect();
        Column::new(heading, Align::Left, cells)
    }

    fn pad(&self, cell: &str) -> String {
        let cell = cut(cell, self.width);
        let space = " ".repeat(self.width.saturating_sub(cell.width()));
        match self.align {
            Align::Left => cell + &space,
            Align::Right => space + &cell,
        }
    }
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
    columns.extend(name_columns(by, rows));
    if let Some(width) = width {
        fit(&mut columns, width);
    }
    columns
}

fn name_columns(by: By, rows: &[ReportRow]) -> Vec<Column> {
    let function = || Column::names("FUNCTION", rows, function);
    let object = || Column::names("OBJECT", rows, |group| base_name(known(&group.object)).to_owned());
    let build_id = || Column::names("BUILD ID", rows, |group| known(&group.build_id).to_owned());
    let process = || Column::names("PROCESS", rows, |group| known(&group.process).to_owned());
    let pid = || Column::numbers("PID", rows, |row| pid(&row.group));
    match by {
        By::Function => vec![function(), object()],
        By::Object => vec![Column::names("OBJECT", rows, |group| known(&group.object).to_owned()), build_id()],
        By::BuildId => vec![build_id(), object()],
        By::Process => vec![pid(), process()],
        By::Service => vec![Column::names("SERVICE", rows, |group| known(&group.service).to_owned())],
        By::Thread => {
            vec![
                pid(),
                Column::numbers("TID", rows, |row| row.group.tid.map_or("-".into(), |tid| tid.to_string())),
                process(),
            ]
        }
        By::Address => {
            let address =
                |row: &ReportRow| row.group.address.map_or_else(String::new, |address| format!("{address:#x}"));
            vec![Column::numbers("ADDRESS", rows, address), function(), object()]
        }
        By::Line => vec![Column::names("LINE", rows, Group::source_line), function(), object()],
    }
}

fn known(name: &Option<String>) -> &str {
    name.as_deref().unwrap_or("-")
}

/// The function, marked as perf marks the kernel's.
fn function(group: &Group) -> String {
    let mark = if group.in_kernel { " [k]" } else { "" };
    format!("{}{mark}", known(&group.function))
}

/// The PID, and which image of it when it had several.
fn pid(group: &Group) -> String {
    match (group.pid, group.generation) {
        (Some(pid), Some(generation @ 2..)) => format!("{pid}#{generation}"),
        (Some(pid), _) => pid.to_string(),
        (None, _) => "-".into(),
    }
}

/// Narrows the name columns, the widest first, until the table fits.
fn fit(columns: &mut [Column], width: usize) {
    loop {
        let total: usize = columns.iter().map(|column| column.width + 2).sum::<usize>() - 2;
        let excess = total.saturating_sub(width);
        let widest = columns
            .iter_mut()
            .filter(|column| column.align == Align::Left && column.width > NARROWEST_NAME)
            .max_by_key(|column| column.width);
        let (Some(widest), 1..) = (widest, excess) else { return };
        widest.width = widest.width.saturating_sub(excess).max(NARROWEST_NAME);
    }
}

/// The text, its end replaced by `…` where it is wider than `width` columns.
fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut room = width.saturating_sub(1);
    let fits = |c: &char| {
        let columns = c.width().unwrap_or(0);
        let fits = columns <= room;
        room = room.saturating_sub(columns);
        fits
    };
    text.chars().take_while(fits).chain(['…']).collect()
}
