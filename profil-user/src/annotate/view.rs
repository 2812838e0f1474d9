//! An annotation for people.

use std::fmt::Write;

use unicode_width::UnicodeWidthStr;

use super::{Annotation, InstructionRow, NoCode, Part, Place, SourceLine, Ticks};
use crate::printable::printable;
use crate::report::color::Tone;
use crate::report::summary::{counted, thousands};

/// Most source lines in the list above the code.
const HOTTEST_LINES: usize = 10;

/// How much is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// How many instructions are shown before and after each with ticks; `None` shows the whole function.
    pub context: Option<usize>,
}

/// A line of text: without control characters, without colour, as wide as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// What it is.
    pub tone: Tone,
    /// The text.
    pub text: String,
}

/// The lines of an annotation: what it is about, the hottest source lines, and the code.
pub fn lines(annotation: &Annotation, extent: Extent) -> Vec<Line> {
    let mut lines = heading(annotation);
    hottest_lines(annotation, &mut lines);
    let columns = Columns::of(annotation);
    for part in &annotation.parts {
        lines.push(plain(String::new()));
        if let Some(title) = title(annotation, part) {
            lines.push(Line { tone: Tone::Heading, text: title });
        }
        lines.push(Line { tone: Tone::Heading, text: columns.heading() });
        listing(annotation, part, &columns, extent, &mut lines);
    }
    lines
}

fn plain(text: String) -> Line {
    Line { tone: Tone::Plain, text }
}

fn heading(annotation: &Annotation) -> Vec<Line> {
    let Annotation { function, object, build_id, ticks, profile_ticks, code, .. } = annotation;
    let share = ticks.percent_of(*profile_ticks);
    let mut first = format!("{}: {}, {share:.2} % of the profile", printable(function), counted(ticks.all, "tick"));
    if ticks.kernel > 0 {
        let _ = write!(first, "; {} in the kernel", thousands(ticks.kernel));
    }
    let mut second = printable(object).into_owned();
    if let Some(build_id) = build_id {
        let _ = write!(second, "; build ID {build_id}");
    }
    match code {
        Ok(path) if path.as_os_str() != object.as_str() => {
            let _ = write!(second, "; read from {}", printable(&path.to_string_lossy()));
        }
        Ok(_) => {}
        Err(why) => {
            let _ = write!(second, "; {}", no_instructions(*why));
        }
    }
    vec![Line { tone: Tone::Heading, text: first }, plain(second)]
}

/// Why there are addresses only.
pub fn no_instructions(why: NoCode) -> &'static str {
    match why {
        NoCode::Kernel => "no instructions: the kernel patches its code while it runs, and no file holds what ran",
        NoCode::MadeAtRunTime => "no instructions: the code was made at run time and is gone with its process",
        NoCode::Unknown => "no instructions: the profile does not say which file the code is in",
    }
}

/// The list of source lines with most ticks.
fn hottest_lines(annotation: &Annotation, to: &mut Vec<Line>) {
    let all = &annotation.lines;
    if all.is_empty() {
        return;
    }
    let shown = &all[..all.len().min(HOTTEST_LINES)];
    let names: Vec<String> = shown.iter().map(|line| name(&line.place)).collect();
    let width = names.iter().map(|name| name.width()).max().unwrap_or(0);
    to.push(plain(String::new()));
    to.push(Line { tone: Tone::Heading, text: format!("{:>10} {:>6}  {}", "TICKS", "%", "LINE") });
    for (SourceLine { place, ticks, percent }, name) in shown.iter().zip(&names) {
        let pad = " ".repeat(width - name.width());
        let source = annotation.source(place).map_or(String::new(), |text| printable(text.trim()).into_owned());
        let text = format!("{:>10} {percent:>6.2}  {name}{pad}  {source}", thousands(ticks.all));
        to.push(Line { tone: Tone::of_percent(*percent), text: text.trim_end().to_owned() });
    }
    let hidden = &all[shown.len()..];
    if !hidden.is_empty() {
        let ticks = hidden.iter().fold(Ticks::default(), |sum, line| sum + line.ticks);
        let share = ticks.percent_of(annotation.ticks.all);
        let lines = counted(hidden.len() as u64, "line");
        to.push(plain(format!("and {lines} more with {} ({share:.2} %)", counted(ticks.all, "tick"))));
    }
}

/// What stands above a part: needed where there are several, or where the symbol has another name than the function.
fn title(annotation: &Annotation, part: &Part) -> Option<String> {
    let Annotation { function, system_name, parts, .. } = annotation;
    let own = part.symbol == *function || system_name.as_deref() == Some(&part.symbol);
    if part.symbol.is_empty() || own && parts.len() == 1 {
        return None;
    }
    let ticks = counted(part.ticks.all, "tick");
    Some(format!("{} at {:#x}: {ticks}", printable(&part.symbol), part.addresses.start))
}

/// Widths of the columns, in characters.
struct Columns {
    address: usize,
    /// Whether there is one for ticks in the kernel.
    kernel: bool,
}

impl Columns {
    fn of(annotation: &Annotation) -> Columns {
        let last = annotation.parts.iter().map(|part| part.addresses.end).max().unwrap_or(0);
        Columns { address: format!("{last:x}").len().max("ADDRESS".len()), kernel: annotation.ticks.kernel > 0 }
    }

    fn heading(&self) -> String {
        let kernel = if self.kernel { format!("{:>10} ", "KERNEL") } else { String::new() };
        format!("{:>10} {:>6} {kernel} {:>width$}   {}", "TICKS", "%", "ADDRESS", "INSTRUCTION", width = self.address)
    }

    fn row(&self, row: &InstructionRow) -> String {
        let or_blank = |number: u64| if number == 0 { String::new() } else { thousands(number) };
        let percent = if row.ticks.all == 0 { String::new() } else { format!("{:.2}", row.percent) };
        let kernel = if self.kernel { format!("{:>10} ", or_blank(row.ticks.kernel)) } else { String::new() };
        let instruction = row.instruction.as_deref().map_or(String::new(), |text| printable(text).into_owned());
        let mark = row.system_call.map_or(String::new(), |at| format!("   <- in the kernel, called at {at:x}"));
        let ticks = or_blank(row.ticks.all);
        let width = self.address;
        let text = format!("{ticks:>10} {percent:>6} {kernel} {:>width$x}   {instruction}{mark}", row.address);
        text.trim_end().to_owned()
    }

    /// Blanks up to the column of the instructions.
    fn indent(&self) -> String {
        let kernel = if self.kernel { 11 } else { 0 };
        " ".repeat(10 + 1 + 6 + 1 + kernel + 1 + self.address + 1)
    }
}

/// The rows of a part, with the source line above the first instruction of each.
fn listing(annotation: &Annotation, part: &Part, columns: &Columns, extent: Extent, to: &mut Vec<Line>) {
    let mut place: Option<&Place> = None;
    let mut gap = false;
    let wanted = near_ticks(&part.rows, extent);
    for (row, is_wanted) in part.rows.iter().zip(wanted) {
        if !is_wanted {
            gap = true;
            place = None;
            continue;
        }
        if std::mem::take(&mut gap) {
            to.push(plain(format!("{}  ...", columns.indent())));
        }
        if row.place.is_some() && row.place.as_ref() != place {
            place = row.place.as_ref();
            to.extend(place.map(|place| source_line(annotation, row, place, columns)));
        }
        to.push(Line { tone: Tone::of_percent(row.percent), text: columns.row(row) });
    }
    if gap {
        to.push(plain(format!("{}  ...", columns.indent())));
    }
}

fn source_line(annotation: &Annotation, row: &InstructionRow, place: &Place, columns: &Columns) -> Line {
    let mut text = columns.indent() + &name(place);
    let inlined: Vec<_> = row.inlined().map(printable).collect();
    if !inlined.is_empty() {
        let _ = write!(text, " (inlined {})", inlined.join(" in "));
    }
    if let Some(source) = annotation.source(place) {
        let _ = write!(text, ": {}", printable(source));
    }
    Line { tone: Tone::Heading, text: text.trim_end().to_owned() }
}

/// Which rows are wanted: all, or those near to one with ticks.
fn near_ticks(rows: &[InstructionRow], extent: Extent) -> Vec<bool> {
    let Some(context) = extent.context else { return vec![true; rows.len()] };
    let mut wanted = vec![false; rows.len()];
    for (index, _) in rows.iter().enumerate().filter(|(_, row)| row.ticks.all > 0) {
        let end = index.saturating_add(context).saturating_add(1).min(rows.len());
        wanted[index.saturating_sub(context)..end].fill(true);
    }
    wanted
}

/// Base name and line: paths are long, and rarely in doubt.
fn name(place: &Place) -> String {
    let base = place.file.rsplit('/').next().unwrap_or_default();
    format!("{}:{}", printable(base), place.line)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::annotate::{RowFrame, Sources};

    fn annotation() -> Annotation {
        let file: Arc<str> = "/src/a\x1bb.c".into();
        let frame = |function: &str| RowFrame { function: function.into(), place: None };
        let row = |address, all, kernel, text: Option<&str>, line| InstructionRow {
            address,
            ticks: Ticks { all, kernel },
            percent: all as f64,
            instruction: text.map(Into::into),
            system_call: (kernel > 0).then_some(address - 2),
            frames: if line == 7 { vec![frame("in\nner"), frame("own")] } else { vec![frame("own")] },
            place: Some(Place { file: Arc::clone(&file), line }),
        };
        let rows = vec![
            row(0x1139, 0, 0, Some("xor    %eax,%eax"), 6),
            row(0x113b, 60, 0, Some("inc    %eax"), 7),
            row(0x113d, 0, 0, Some("syscall"), 7),
            row(0x113f, 40, 40, Some("ret"), 8),
        ];
        let ticks = Ticks { all: 100, kernel: 40 };
        Annotation {
            function: "spin\x1b[31m".into(),
            system_name: None,
            object: "/opt/burn".into(),
            build_id: None,
            ticks,
            profile_ticks: 1000,
            code: Ok("/debug/burn".into()),
            parts: vec![Part { symbol: "spin.cold".into(), addresses: 0x1139..0x1140, ticks, rows }],
            lines: vec![SourceLine { place: Place { file, line: 7 }, ticks, percent: 100.0 }],
            sources: Sources::default(),
            remarks: Vec::new(),
        }
    }

    fn text(extent: Extent) -> String {
        lines(&annotation(), extent).into_iter().map(|line| line.text + "\n").collect()
    }

    #[test]
    fn instructions_stand_below_their_lines_with_their_ticks() {
        insta::assert_snapshot!(text(Extent::default()), @r"
        spin�[31m: 100 ticks, 10.00 % of the profile; 40 in the kernel
        /opt/burn; read from /debug/burn

             TICKS      %  LINE
               100 100.00  a�b.c:7

        spin.cold at 0x1139: 100 ticks
             TICKS      %     KERNEL  ADDRESS   INSTRUCTION
                                              a�b.c:6
                                         1139   xor    %eax,%eax
                                              a�b.c:7 (inlined in�ner)
                60  60.00                113b   inc    %eax
                                         113d   syscall
                                              a�b.c:8
                40  40.00         40     113f   ret   <- in the kernel, called at 113d
        ");
    }

    #[test]
    fn context_leaves_out_what_is_far_from_ticks() {
        insta::assert_snapshot!(text(Extent { context: Some(0) }).lines().skip(8).collect::<Vec<_>>().join("\n"), @r"
                                        ...
                                      a�b.c:7 (inlined in�ner)
        60  60.00                113b   inc    %eax
                                        ...
                                      a�b.c:8
        40  40.00         40     113f   ret   <- in the kernel, called at 113d
        ");
    }

    #[test]
    fn what_is_hot_has_the_tone_of_it() {
        let lines = lines(&annotation(), Extent::default());
        let tone = |part: &str| lines.iter().find(|line| line.text.contains(part)).map(|line| line.tone);
        assert_eq!((tone("inc "), tone("xor ")), (Some(Tone::Hot), Some(Tone::Plain)));
    }
}
