//! Columns of a table for people.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::group::{By, Group, base_name};
use crate::printable::printable;

/// Narrowest that a name is cut to, columns.
const NARROWEST_NAME: usize = 16;

/// A column and its cells.
#[derive(Clone, Debug)]
pub struct Column {
    /// Heading.
    pub heading: &'static str,
    /// Cells, one for each row.
    pub cells: Vec<String>,
    align: Align,
    width: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Align {
    /// Names; the end is cut off where there is no room.
    Left,
    Right,
}

impl Column {
    /// A column of numbers, which is never cut.
    pub fn numbers<R>(heading: &'static str, rows: &[R], cell: impl Fn(&R) -> String) -> Column {
        Column::new(heading, Align::Right, rows.iter().map(cell).collect())
    }

    /// A column of names that others chose; they are cut where there is no room.
    pub fn text<R>(heading: &'static str, rows: &[R], cell: impl Fn(&R) -> String) -> Column {
        let cells = rows.iter().map(|row| printable(&cell(row)).into_owned()).collect();
        Column::new(heading, Align::Left, cells)
    }

    /// The same column, at least so wide: where it is shown again and again, it does not jump.
    pub fn at_least(mut self, width: usize) -> Column {
        self.width = self.width.max(width);
        self
    }

    fn names(heading: &'static str, groups: &[&Group], cell: impl Fn(&Group) -> String) -> Column {
        let cells = groups.iter().map(|group| printable(&cell(group)).into_owned()).collect();
        Column::new(heading, Align::Left, cells)
    }

    fn new(heading: &'static str, align: Align, cells: Vec<String>) -> Column {
        let width = cells.iter().map(|cell| cell.width()).chain([heading.width()]).max().unwrap_or(0);
        Column { heading, cells, align, width }
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

/// The line of headings.
pub fn heading_line(columns: &[Column]) -> String {
    line(columns, |column| column.heading)
}

/// The line of a row.
pub fn row_line(columns: &[Column], row: usize) -> String {
    line(columns, |column| &column.cells[row])
}

fn line<'a>(columns: &'a [Column], cell: impl Fn(&'a Column) -> &'a str) -> String {
    let cells: Vec<_> = columns.iter().map(|column| column.pad(cell(column))).collect();
    cells.join("  ").trim_end().to_owned()
}

/// The columns that say what rows are about.
pub fn name_columns(by: By, groups: &[&Group]) -> Vec<Column> {
    let function = || Column::names("FUNCTION", groups, function);
    let object = || Column::names("OBJECT", groups, |group| base_name(known(&group.object)).to_owned());
    let build_id = || Column::names("BUILD ID", groups, |group| known(&group.build_id).to_owned());
    let process = || Column::names("PROCESS", groups, |group| known(&group.process).to_owned());
    let pid = || Column::numbers("PID", groups, |group| pid(group));
    match by {
        By::Function => vec![function(), object()],
        By::Object => vec![Column::names("OBJECT", groups, |group| known(&group.object).to_owned()), build_id()],
        By::BuildId => vec![build_id(), object()],
        By::Process => vec![pid(), process()],
        By::Service => vec![Column::names("SERVICE", groups, |group| known(&group.service).to_owned())],
        By::Thread => {
            let tid = |group: &&Group| group.tid.map_or("-".into(), |tid| tid.to_string());
            vec![pid(), Column::numbers("TID", groups, tid), process()]
        }
        By::Address => {
            let address = |group: &&Group| group.address.map_or_else(String::new, |address| format!("{address:#x}"));
            vec![Column::numbers("ADDRESS", groups, address), function(), object()]
        }
        By::Line => vec![Column::names("LINE", groups, Group::source_line), function(), object()],
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

/// Columns that the table takes when it is as narrow as it can be.
pub fn narrowest(columns: &[Column]) -> usize {
    let width = |column: &Column| match column.align {
        Align::Left => column.width.min(NARROWEST_NAME),
        Align::Right => column.width,
    };
    columns.iter().map(|column| width(column) + 2).sum::<usize>().saturating_sub(2)
}

/// Narrows the name columns, the widest first, until the table fits.
pub fn fit(columns: &mut [Column], width: usize) {
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
pub fn cut(text: &str, width: usize) -> String {
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
