//! A profile as a picture: the histogram of each object over its addresses, as profil(2) counts it, in one SVG.
//!
//! The SVG stands alone: no script, no font, no other file. Bars carry their numbers as titles, which browsers show
//! under the pointer. It is as large as its bars are many, at most [`panel::MOST_BINS`] an object, whatever the size of the
//! code.

pub mod axis;
pub mod label;
pub mod panel;
mod svg;

use std::io::{self, Write};

use unicode_width::UnicodeWidthStr;

use crate::report::base_name;
use crate::report::column::cut;
use crate::report::summary::{counted, thousands};
use axis::{Scale, TickAxis, address_marks};
use label::{Place, Wanted};
use panel::{Bin, Extent, Panel, Panels};
use svg::{escaped, px};

/// Width of the picture, pixels.
const WIDTH: f64 = 1200.0;
/// Left edge of the bars.
const LEFT: f64 = 84.0;
/// Right edge of the bars.
const RIGHT: f64 = 1160.0;
/// Height of the bars of a panel.
const BARS: f64 = 170.0;
/// Height of a row of names.
const NAME_ROW: f64 = 15.0;
/// Most rows of names.
const NAME_ROWS: usize = 5;
/// Width of a column of the monospaced font at its size.
const COLUMN: f64 = 6.65;
/// Height of the page's heading.
const HEADING: f64 = 78.0;
/// Height of what a panel has above its names.
const PANEL_HEADING: f64 = 30.0;
/// Height of what a panel has below its bars, with the space to the next.
const PANEL_FOOT: f64 = 66.0;
/// Longest name at a bar, columns.
const LONGEST_LABEL: usize = 34;
/// Longest name in a title, columns.
const LONGEST_NAME: usize = 80;
/// Most functions named in a title.
const NAMED: usize = 3;
/// Most functions of a panel that get a name at their bar.
const LABELS: usize = 32;
/// Part of a panel's ticks from which on a function gets a name at its bar.
const LABEL_FROM: f64 = 0.005;

/// What is said of the profile as a whole.
#[derive(Clone, Debug)]
pub struct Caption {
    /// Command line or targets; empty when the profile does not say.
    pub title: String,
    /// The line about the run.
    pub headline: String,
    /// Ticks that have a place in the code: 100 %.
    pub counted: u64,
}

/// Writes the picture.
///
/// # Errors
/// Those of `to`.
pub fn write(panels: &Panels, caption: &Caption, scale: Scale, to: &mut dyn Write) -> io::Result<()> {
    let drawn: Vec<Drawn> = panels.list.iter().map(|panel| Drawn::new(panel, caption.counted, scale)).collect();
    let more = if panels.more_objects > 0 { 24.0 } else { 0.0 };
    let height = HEADING + drawn.iter().map(Drawn::height).sum::<f64>() + more;
    writeln!(
        to,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" \
         style=\"max-width:100%;height:auto\" role=\"img\">"
    )?;
    let title = if caption.title.is_empty() { "profil" } else { &caption.title };
    writeln!(to, "<title>{}</title>", escaped(title))?;
    writeln!(to, "<style>{}</style>", svg::style())?;
    writeln!(to, "<rect class=\"p\" width=\"100%\" height=\"100%\"/>")?;
    let across = (WIDTH - 48.0) / 9.5;
    let shown_title = cut(title, across as usize);
    writeln!(to, "<text x=\"24\" y=\"34\" font-size=\"18\" font-weight=\"600\">{}</text>", escaped(&shown_title))?;
    writeln!(to, "<text class=\"f\" x=\"24\" y=\"56\">{}</text>", escaped(&caption.headline))?;
    legend(panels, scale, to)?;
    let mut top = HEADING;
    for drawn in &drawn {
        drawn.write(top, to)?;
        top += drawn.height();
    }
    if panels.more_objects > 0 {
        let objects = counted(panels.more_objects as u64, "object");
        let share = percent(panels.more_ticks, caption.counted);
        let ticks = counted(panels.more_ticks, "tick");
        writeln!(to, "<text class=\"f\" x=\"24\" y=\"{}\">and {objects} more with {ticks} ({share})</text>", px(top))?;
    }
    writeln!(to, "</svg>")
}

/// What the colours mean; without ticks in the kernel there is nothing to tell apart.
fn legend(panels: &Panels, scale: Scale, to: &mut dyn Write) -> io::Result<()> {
    let has_kernel = panels.list.iter().any(|panel| panel.kernel > 0);
    let (how, end) = match (scale, has_kernel) {
        (Scale::Linear, _) => ("", RIGHT),
        (Scale::Log, false) => ("logarithmic", RIGHT),
        (Scale::Log, true) => ("logarithmic; colours divide a bar by share:", RIGHT - 216.0),
    };
    if !how.is_empty() {
        writeln!(to, "<text class=\"f e\" x=\"{}\" y=\"56\">{how}</text>", px(end))?;
    }
    if has_kernel {
        for (class, from_right, text) in [("u", 204.0, "in user code"), ("k", 98.0, "in the kernel")] {
            writeln!(
                to,
                "<rect class=\"{class}\" x=\"{}\" y=\"46\" width=\"11\" height=\"11\"/><text class=\"f\" x=\"{}\" y=\"56\">{text}</text>",
                px(RIGHT - from_right),
                px(RIGHT - from_right + 17.0),
            )?;
        }
    }
    Ok(())
}

/// A panel with the decisions about its axis and names.
struct Drawn<'a> {
    panel: &'a Panel,
    counted: u64,
    axis: TickAxis,
    labels: Vec<Label>,
    rows: usize,
}

/// A name above the bars.
struct Label {
    text: String,
    wanted: Wanted,
    place: Place,
    peak: usize,
}

impl<'a> Drawn<'a> {
    fn new(panel: &'a Panel, counted: u64, scale: Scale) -> Drawn<'a> {
        let labels = labels(panel, counted);
        let rows = labels.iter().map(|label| label.place.row + 1).max().unwrap_or(0);
        Drawn { panel, counted, axis: TickAxis::new(scale, panel.most(), 4), labels, rows }
    }

    fn height(&self) -> f64 {
        PANEL_HEADING + self.rows as f64 * NAME_ROW + BARS + PANEL_FOOT
    }

    fn write(&self, top: f64, to: &mut dyn Write) -> io::Result<()> {
        let floor = top + self.height() - PANEL_FOOT;
        writeln!(to, "<g class=\"panel\">")?;
        self.heading(top, to)?;
        self.tick_axis(floor, to)?;
        self.address_axis(floor, to)?;
        for (index, bin) in self.panel.bins.iter().enumerate().filter(|(_, bin)| bin.ticks > 0) {
            self.bar(index, bin, floor, to)?;
        }
        for label in &self.labels {
            self.label(label, floor, to)?;
        }
        writeln!(to, "</g>")
    }

    fn heading(&self, top: f64, to: &mut dyn Write) -> io::Result<()> {
        let Panel { object, build_id, ticks, kernel, bin_bytes, .. } = self.panel;
        let (folder, name) = object.split_at(object.len() - base_name(object).len());
        let mut about = format!("{} ({})", counted(*ticks, "tick"), percent(*ticks, self.counted));
        if *kernel > 0 {
            about += &format!(", {} in the kernel", percent(*kernel, *ticks));
        }
        about += &format!("; {} of code a bar", bytes(*bin_bytes));
        if let Some(build_id) = build_id {
            about += &format!("; build {}", cut(&build_id.to_string(), 17));
        }
        let room = ((RIGHT - 24.0 - about.len() as f64 * 7.0) / 8.0) as usize;
        let name = cut(name, room);
        let folder = if name.width() + folder.width() <= room { folder } else { "" };
        writeln!(
            to,
            "<text x=\"24\" y=\"{y}\" font-size=\"13\"><tspan>{}</tspan><tspan font-weight=\"600\">{}</tspan></text>\
             <text class=\"f e\" x=\"{}\" y=\"{y}\">{}</text>",
            escaped(folder),
            escaped(&name),
            px(RIGHT),
            escaped(&about),
            y = px(top + 14.0),
        )
    }

    fn tick_axis(&self, floor: f64, to: &mut dyn Write) -> io::Result<()> {
        for mark in &self.axis.marks {
            let y = if *mark == 0 { floor } else { floor - self.axis.height(*mark) * BARS };
            writeln!(
                to,
                "<path class=\"g s\" d=\"M{LEFT} {y}H{RIGHT}\"/><text class=\"f m e\" x=\"{}\" y=\"{}\">{}</text>",
                px(LEFT - 8.0),
                px(y + 4.0),
                thousands(*mark),
                y = px(y),
            )?;
        }
        Ok(())
    }

    fn address_axis(&self, floor: f64, to: &mut dyn Write) -> io::Result<()> {
        writeln!(to, "<path class=\"l s\" d=\"M{LEFT} {y}H{RIGHT}\"/>", y = px(floor))?;
        self.strip(floor, to)?;
        let (first, last) = (self.panel.start, self.panel.last());
        let longest = (format!("{last:#x}").len() as f64 + 4.0) * COLUMN;
        for mark in address_marks(first, last, ((RIGHT - LEFT) / longest) as u64) {
            let x = self.x((mark - first) as f64 / self.panel.bin_bytes as f64);
            writeln!(
                to,
                "<path class=\"l s\" d=\"M{x} {}v5\"/><text class=\"f m c\" x=\"{x}\" y=\"{}\">{mark:#x}</text>",
                px(floor + 12.0),
                px(floor + 29.0),
                x = px(x),
            )?;
        }
        Ok(())
    }

    /// The functions below the axis, from the first to the last tick of each; those too narrow to be seen are left out.
    fn strip(&self, floor: f64, to: &mut dyn Write) -> io::Result<()> {
        let bin_of = |address: u64| ((address - self.panel.start) / self.panel.bin_bytes) as usize;
        let mut taken = LEFT;
        let mut class = "v";
        for Extent { function, first, last, ticks, .. } in &self.panel.functions {
            let (left, right) = (self.x(bin_of(*first) as f64).max(taken), self.x(bin_of(*last) as f64 + 1.0));
            if right - left < 2.0 {
                continue;
            }
            taken = right;
            class = if class == "v" { "o" } else { "v" };
            writeln!(
                to,
                "<path class=\"{class}\" d=\"M{} {}h{}v8h-{w}z\"><title>{}: {} from {first:#x} to {last:#x}</title></path>",
                px(left),
                px(floor + 3.0),
                px(right - left),
                escaped(&cut(function, LONGEST_NAME)),
                counted(*ticks, "tick"),
                w = px(right - left),
            )?;
        }
        Ok(())
    }

    /// A bar: its title, an area as high as the panel to point at, user code from below, the kernel on top.
    fn bar(&self, index: usize, bin: &Bin, floor: f64, to: &mut dyn Write) -> io::Result<()> {
        let (left, width) = (self.x(index as f64), self.x(1.0) - LEFT);
        // A gap where there is room for one.
        let (x, w) = (px(left), px(if width >= 4.0 { width - 1.0 } else { width }));
        let height = (self.axis.height(bin.ticks) * BARS).max(1.0);
        let kernel = height * bin.kernel as f64 / bin.ticks as f64;
        let part = |class: &str, bottom: f64, height: f64| match height > 0.0 {
            true => format!("<path class=\"{class}\" d=\"M{x} {}h{w}v-{h}h-{w}z\"/>", px(bottom), h = px(height)),
            false => String::new(),
        };
        let area = format!("<path class=\"h\" d=\"M{x} {}h{w}v{BARS}h-{w}z\"/>", px(floor - BARS));
        let user = part("u", floor, height - kernel);
        let kernel = part("k", floor - (height - kernel), kernel);
        writeln!(to, "<g class=\"b\"><title>{}</title>{area}{user}{kernel}</g>", escaped_lines(&self.title(index, bin)))
    }

    /// The numbers of a bar: addresses; ticks; functions.
    fn title(&self, index: usize, bin: &Bin) -> String {
        let Bin { ticks, kernel, functions } = bin;
        let (first, last) = self.panel.addresses(index);
        let mut title =
            format!("{first:#x}-{last:#x}\n{} ({})", counted(*ticks, "tick"), percent(*ticks, self.counted));
        if *kernel > 0 {
            title += &format!(", {} in the kernel", thousands(*kernel));
        }
        for (function, of_function) in functions.iter().take(NAMED) {
            let name = function.as_deref().map_or("code without a name".into(), |name| cut(name, LONGEST_NAME));
            title += &match functions.len() {
                1 => format!("\n{name}"),
                _ => format!("\n{name}: {}", thousands(*of_function)),
            };
        }
        let more = functions.len().saturating_sub(NAMED);
        if more > 0 {
            title += &format!("\nand {}", counted(more as u64, "function"));
            title += " more";
        }
        title
    }

    fn label(&self, label: &Label, floor: f64, to: &mut dyn Write) -> io::Result<()> {
        let Label { text, wanted, place, peak } = label;
        let base = floor - BARS - 6.0 - place.row as f64 * NAME_ROW;
        let bar = floor - self.axis.height(self.panel.bins[*peak].ticks) * BARS;
        writeln!(
            to,
            "<path class=\"l s\" d=\"M{x} {}V{}\"/><text class=\"m n\" x=\"{}\" y=\"{}\" textLength=\"{}\">{}</text>",
            px(base + 3.0),
            px(bar),
            px(place.left),
            px(base),
            px(wanted.width),
            escaped(text),
            x = px(wanted.x),
        )
    }

    /// Horizontal position of a number of bins from the start.
    fn x(&self, bins: f64) -> f64 {
        position(self.panel, bins)
    }
}

fn position(panel: &Panel, bins: f64) -> f64 {
    LEFT + bins / panel.bins.len() as f64 * (RIGHT - LEFT)
}

/// The names of the functions with the most ticks, as far as there is room.
fn labels(panel: &Panel, counted: u64) -> Vec<Label> {
    let mut functions: Vec<&Extent> =
        panel.functions.iter().filter(|function| function.ticks as f64 >= panel.ticks as f64 * LABEL_FROM).collect();
    functions.sort_by(|a, b| b.ticks.cmp(&a.ticks).then_with(|| a.first.cmp(&b.first)));
    functions.truncate(LABELS);
    let named = functions.iter().map(|function| {
        let name = cut(&function.function, LONGEST_LABEL);
        let text = format!("{name} {}", percent(function.ticks, counted));
        let wanted = Wanted { x: position(panel, function.peak as f64 + 0.5), width: text.width() as f64 * COLUMN };
        (text, wanted)
    });
    let (texts, wanted): (Vec<_>, Vec<_>) = named.unzip();
    let places = label::place(&wanted, LEFT, RIGHT, NAME_ROWS);
    let placed = texts.into_iter().zip(wanted).zip(functions).zip(places);
    placed
        .filter_map(|(((text, wanted), function), place)| {
            Some(Label { text, wanted, place: place?, peak: function.peak })
        })
        .collect()
}

/// Lines, escaped one by one: in one piece, line feeds would be taken for part of a name.
fn escaped_lines(text: &str) -> String {
    text.lines().map(escaped).collect::<Vec<_>>().join("\n")
}

fn percent(part: u64, whole: u64) -> String {
    format!("{:.1} %", part as f64 / whole.max(1) as f64 * 100.0)
}

/// A power of two of bytes.
fn bytes(number: u64) -> String {
    const UNITS: [&str; 7] = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let unit = (number.max(1).ilog2() / 10) as usize;
    format!("{} {}", number >> (unit * 10), UNITS[unit])
}

#[cfg(test)]
mod tests;
