//! The view as lines of text, for the screen and for frames alike.

use std::ops::Range;

use crate::printable::printable;
use crate::report::column::{self, Column};
use crate::report::summary::{counted, rate, thousands};
use crate::report::{By, Group};
use crate::top::{Model, Modes, PlaceRow, Shown};

/// Widths that keep number columns where they are while the numbers grow.
const PERCENT_WIDTH: usize = 6;
const TICKS_WIDTH: usize = 9;

/// Columns that a narrow screen does without, first the first: what it is about is needed more than all its numbers.
const DISPENSABLE: [&str; 6] = ["SYS%", "OBJECT", "TICKS", "TOTAL%", "OTHERS%", "IDLE%"];

/// A table: its headings, its rows, and the share that decides the colour of each.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lines {
    /// The line of headings.
    pub heading: String,
    /// The rows.
    pub rows: Vec<(f64, String)>,
}

impl Lines {
    fn new(mut columns: Vec<Column>, shares: Vec<f64>, width: Option<usize>) -> Lines {
        if let Some(width) = width {
            for heading in DISPENSABLE {
                if column::narrowest(&columns) > width {
                    columns.retain(|column| column.heading != heading);
                }
            }
            column::fit(&mut columns, width);
        }
        let row = |(index, share)| (share, column::row_line(&columns, index));
        Lines { heading: column::heading_line(&columns), rows: shares.into_iter().enumerate().map(row).collect() }
    }

    /// Some rows of a view.
    pub fn of_view(shown: &Shown<'_>, range: Range<usize>, width: Option<usize>) -> Lines {
        match shown {
            Shown::Groups { by, rows } => {
                let rows = rows.get(range).unwrap_or_default();
                let mut columns = vec![
                    Column::numbers("NOW%", rows, |row| format!("{:.2}", row.now_percent)).at_least(PERCENT_WIDTH),
                    Column::numbers("TOTAL%", rows, |row| format!("{:.2}", row.percent)).at_least(PERCENT_WIDTH),
                    Column::numbers("TICKS", rows, |row| thousands(row.ticks)).at_least(TICKS_WIDTH),
                    Column::numbers("SYS%", rows, |row| format!("{:.1}", row.kernel_percent)).at_least(PERCENT_WIDTH),
                ];
                let groups: Vec<&Group> = rows.iter().map(|row| row.group).collect();
                columns.extend(column::name_columns(*by, &groups));
                Lines::new(columns, rows.iter().map(|row| row.now_percent).collect(), width)
            }
            Shown::Cpus(rows) => {
                let rows = rows.get(range).unwrap_or_default();
                let percent = |number: f64| format!("{number:.1}");
                let columns = vec![
                    Column::numbers("CPU", rows, |row| row.cpu.to_string()),
                    Column::numbers("TARGETS%", rows, |row| percent(row.targets_percent)),
                    Column::numbers("OTHERS%", rows, |row| percent(row.others_percent)),
                    Column::numbers("IDLE%", rows, |row| percent(row.idle_percent)).at_least(PERCENT_WIDTH),
                    Column::numbers("TICKS/S", rows, |row| format!("{:.1}", row.now_hz)).at_least(TICKS_WIDTH),
                    Column::numbers("TICKS", rows, |row| thousands(row.ticks)).at_least(TICKS_WIDTH),
                ];
                Lines::new(columns, rows.iter().map(|row| row.targets_percent).collect(), width)
            }
        }
    }

    /// The places of a function.
    pub fn of_places(rows: &[PlaceRow], width: Option<usize>) -> Lines {
        let mut columns = vec![
            Column::numbers("NOW%", rows, |row| format!("{:.2}", row.now_percent)).at_least(PERCENT_WIDTH),
            Column::numbers("TOTAL%", rows, |row| format!("{:.2}", row.percent)).at_least(PERCENT_WIDTH),
            Column::numbers("TICKS", rows, |row| thousands(row.ticks)).at_least(TICKS_WIDTH),
        ];
        let groups: Vec<&Group> = rows.iter().map(|row| &row.group).collect();
        let [address, ..] = &mut column::name_columns(By::Address, &groups)[..] else {
            return Lines::default();
        };
        columns.push(address.clone());
        columns.push(Column::text("LINE", rows, |row| row.source_line.clone().unwrap_or_default()));
        Lines::new(columns, rows.iter().map(|row| row.now_percent).collect(), width)
    }
}

/// Two lines about the run: what ticks how fast and for how long, and the account of the ticks that are shown.
pub fn header(model: &Model, title: &str, modes: Modes) -> [String; 2] {
    let tally = model.tally();
    let mut first = format!("profil top {}; {} s", printable(title), model.elapsed().as_secs());
    if tally.hz > 0.0 {
        first += &format!("; {} Hz asked", rate(tally.hz));
    }
    if let Some(real) = tally.real_hz() {
        first += &format!(", {} real", rate(real));
    }
    first += &format!("; {}", counted(model.cpus() as u64, "CPU"));
    let mut second = counted(tally.ticks, "tick");
    if let (Some(expected), Some(missed)) = (tally.expected(), tally.missed()) {
        let share = missed as f64 / expected.max(1) as f64 * 100.0;
        second += &format!(", {} expected, {} missed ({share:.1} %)", thousands(expected), thousands(missed));
    }
    second += &format!("; {:.0}/s now", model.now_hz(modes));
    let without = tally.ticks.saturating_sub(model.ticks(Modes::UserAndKernel));
    if without > 0 {
        second += &format!("; {} without a place in the code", thousands(without));
    }
    [first, second]
}
