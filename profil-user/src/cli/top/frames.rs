//! Frames of text or JSON, for files, pipes, and who asks for a number of them.

use std::io::{self, Write};

use serde::Serialize;

use super::lines::{self, Lines};
use crate::report::By;
use crate::report::color::{Paint, Tone};
use crate::report::column::cut;
use crate::report::machine::{JsonGroup, JsonOutcomes, rounded};
use crate::top::{CpuRow, Model, Shown, TopRow, View};

/// How frames of text are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Most rows; `None` shows all.
    pub limit: Option<usize>,
    /// Columns of the terminal; `None`, for files and pipes, cuts nothing.
    pub width: Option<usize>,
    /// Colours.
    pub paint: Paint,
}

/// Writes a frame: the header, the table, and an empty line.
///
/// # Errors
/// Those of `to`.
pub fn write_text(model: &Model, title: &str, view: &View, layout: Layout, to: &mut dyn Write) -> io::Result<()> {
    let Layout { limit, width, paint } = layout;
    for line in lines::header(model, title, view.modes) {
        writeln!(to, "{}", cut(&line, width.unwrap_or(usize::MAX)))?;
    }
    let shown = model.shown(view);
    let Lines { heading, rows } = Lines::of_view(&shown, 0..limit.unwrap_or(usize::MAX).min(shown.len()), width);
    writeln!(to, "{}", paint.show(Tone::Heading, heading))?;
    for (share, row) in rows {
        writeln!(to, "{}", paint.show(Tone::of_percent(share), row))?;
    }
    writeln!(to)
}

/// A frame in JSON. Times are in seconds, shares in percent, rates in Hz.
#[derive(Debug, Serialize)]
struct JsonFrame<'m> {
    /// Wall time since the start.
    seconds: f64,
    /// Ticks of the targets since the start.
    ticks: u64,
    expected: Option<u64>,
    missed: Option<u64>,
    outcomes: JsonOutcomes,
    /// Rate asked for.
    hz: f64,
    /// Rate by the CPU time of the targets.
    real_hz: Option<f64>,
    cpu_seconds: Option<f64>,
    /// Ticks with a place in the code per second, averaged.
    now_hz: f64,
    rows: Vec<JsonRow<'m>>,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum JsonRow<'m> {
    Group {
        #[serde(flatten)]
        group: JsonGroup<'m>,
        now_hz: f64,
        now_percent: f64,
        ticks: u64,
        percent: f64,
        kernel_percent: f64,
    },
    Cpu {
        cpu: u32,
        targets_percent: f64,
        others_percent: f64,
        idle_percent: f64,
        now_hz: f64,
        ticks: u64,
    },
}

/// Writes a frame as one line of JSON.
///
/// # Errors
/// Those of `to`.
pub fn write_json(model: &Model, view: &View, limit: Option<usize>, to: &mut dyn Write) -> io::Result<()> {
    let shown = model.shown(view);
    let limit = limit.unwrap_or(usize::MAX);
    let rows = match &shown {
        Shown::Groups { by, rows } => rows.iter().take(limit).map(|row| group_row(row, *by)).collect(),
        Shown::Cpus(rows) => rows.iter().take(limit).map(cpu_row).collect(),
    };
    let tally = model.tally();
    let frame = JsonFrame {
        seconds: rounded(model.elapsed().as_secs_f64()),
        ticks: tally.ticks,
        expected: tally.expected(),
        missed: tally.missed(),
        outcomes: JsonOutcomes::new(tally),
        hz: rounded(tally.hz),
        real_hz: tally.real_hz().map(rounded),
        cpu_seconds: tally.cpu_seconds,
        now_hz: rounded(model.now_hz(view.modes)),
        rows,
    };
    serde_json::to_writer(&mut *to, &frame)?;
    writeln!(to)
}

fn group_row<'m>(row: &TopRow<'m>, by: By) -> JsonRow<'m> {
    let TopRow { group, now_hz, now_percent, ticks, percent, kernel_percent } = *row;
    JsonRow::Group {
        group: JsonGroup::new(group, by),
        now_hz: rounded(now_hz),
        now_percent: rounded(now_percent),
        ticks,
        percent: rounded(percent),
        kernel_percent: rounded(kernel_percent),
    }
}

fn cpu_row<'m>(row: &CpuRow) -> JsonRow<'m> {
    let CpuRow { cpu, targets_percent, others_percent, idle_percent, now_hz, ticks } = *row;
    JsonRow::Cpu {
        cpu,
        targets_percent: rounded(targets_percent),
        others_percent: rounded(others_percent),
        idle_percent: rounded(idle_percent),
        now_hz: rounded(now_hz),
        ticks,
    }
}
