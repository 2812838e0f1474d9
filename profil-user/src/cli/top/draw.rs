//! The screen: header, tabs, table, and the keys at the bottom.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

use super::lines::{self, Lines};
use super::state::{Focus, State};
use super::zoom::{Picture, Zoom};
use crate::printable::printable;
use crate::profile::Profile;
use crate::report::Group;
use crate::report::color::{Paint, Tone};
use crate::report::column::cut;
use crate::top::{Model, Modes, Order, Pace, Tab};

/// Lines above the rows: two of the header, the tabs, the headings.
const ABOVE: u16 = 4;

/// The keys, and what they do.
const KEYS: [(&str, &str); 12] = [
    ("Tab, 1 2 3", "functions, processes, CPUs"),
    ("Up, Down, PgUp, PgDn, Home, End", "move"),
    ("Enter", "look into a function; back"),
    ("s", "sort: by what runs now, by ticks since the start, by name or address"),
    ("/", "show only names that match a pattern; Enter keeps it, Esc drops it"),
    ("k", "ticks in the kernel on or off"),
    ("p, Space", "pause; ticks go on, and are shown when the view goes on"),
    ("Esc", "back; without a filter, and the cursor at the top"),
    ("Ctrl-L", "draw again"),
    ("Ctrl-Z", "suspend"),
    ("? or h", "these keys"),
    ("q, Ctrl-C", "quit"),
];

/// What there is to draw.
#[derive(Clone, Copy)]
pub struct Scene<'s> {
    /// The table.
    pub model: &'s Model,
    /// The profile behind it.
    pub profile: &'s Profile,
    /// The function at close range.
    pub zoom: &'s Zoom,
    /// Colours.
    pub paint: Paint,
}

/// Draws the screen.
pub fn draw(frame: &mut Frame<'_>, scene: Scene<'_>, state: &mut State) {
    let Scene { model, profile, zoom, paint } = scene;
    let area = frame.area();
    let page = area.height.saturating_sub(ABOVE + 1);
    state.set_page(page.into());
    let width = usize::from(area.width);
    let shown = model.shown(&state.view);
    let mut at = Pen { frame, area, line: 0 };
    for line in lines::header(model, &profile.title, state.view.modes) {
        at.write(cut(&line, width), Style::new());
    }
    match &state.focus {
        Focus::Table => {
            at.put(tabs(state));
            let selected = state.selected(&shown);
            let first = selected.map_or(0, |selected| first_shown(selected, page.into(), shown.len()));
            let last = (first + usize::from(page)).min(shown.len());
            let table = Lines::of_view(&shown, first..last, Some(width));
            at.table(&table, selected.map(|selected| selected - first), paint);
            if shown.is_empty() {
                at.write(nothing(state, model), Style::new());
            }
        }
        Focus::Function(function) => match zoom.picture(function) {
            Some(Picture::Code(lines)) => {
                // The headings of the table are among its lines.
                state.scroll = state.scroll.min(lines.len().saturating_sub(1));
                for line in lines.iter().skip(state.scroll) {
                    at.write(cut(&line.text, width), style(line.tone, paint));
                }
            }
            picture => {
                at.write(cut(&title(function), width), heading());
                if let Some(Picture::NoCode(why)) = picture {
                    why.iter().for_each(|line| at.write(cut(&printable(line), width), Style::new()));
                }
                let table = function_lines(model, profile, function, state, width);
                state.scroll = state.scroll.min(table.rows.len().saturating_sub(1));
                let rows = table.rows.into_iter().skip(state.scroll).collect();
                at.table(&Lines { rows, ..table }, None, paint);
            }
        },
        Focus::Help => {
            at.write("Keys".to_owned(), heading());
            for (key, what) in KEYS {
                at.write(cut(&format!("{key:>16}  {what}"), width), Style::new());
            }
        }
    }
    at.bottom(footer(state));
}

/// First row that is shown, so that the cursor is: pages do not move under it.
fn first_shown(selected: usize, page: usize, rows: usize) -> usize {
    let page = page.max(1);
    (selected / page * page).min(rows.saturating_sub(1))
}

/// Where the next line goes.
struct Pen<'f, 'b> {
    frame: &'f mut Frame<'b>,
    area: Rect,
    line: u16,
}

impl Pen<'_, '_> {
    fn write(&mut self, text: String, style: Style) {
        self.put(Line::styled(text, style));
    }

    fn put(&mut self, line: Line<'_>) {
        // The last line is the footer's.
        if self.line + 1 < self.area.height {
            self.put_at(self.line, line);
            self.line += 1;
        }
    }

    fn put_at(&mut self, y: u16, line: Line<'_>) {
        let area = Rect { x: 0, y, width: self.area.width, height: 1 }.intersection(self.area);
        self.frame.render_widget(line, area);
    }

    fn table(&mut self, table: &Lines, selected: Option<usize>, paint: Paint) {
        self.write(table.heading.clone(), heading());
        for (index, (share, row)) in table.rows.iter().enumerate() {
            let width = usize::from(self.area.width);
            if selected == Some(index) {
                self.write(format!("{row:width$}"), Style::new().add_modifier(Modifier::REVERSED));
            } else {
                self.write(row.clone(), style(Tone::of_percent(*share), paint));
            }
        }
    }

    fn bottom(&mut self, line: Line<'_>) {
        if let Some(last) = self.area.height.checked_sub(1) {
            self.put_at(last, line);
        }
    }
}

fn heading() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

fn style(tone: Tone, paint: Paint) -> Style {
    match (paint, tone) {
        (_, Tone::Heading) => heading(),
        (Paint::Ansi, Tone::Hot) => Style::new().fg(Color::Red),
        (Paint::Ansi, Tone::Warm) => Style::new().fg(Color::Green),
        _ => Style::new(),
    }
}

fn tabs(state: &State) -> Line<'static> {
    let name = |tab| match tab {
        Tab::Function => " 1 Functions ",
        Tab::Process => " 2 Processes ",
        Tab::Cpu => " 3 CPUs ",
    };
    let style = |tab| if tab == state.view.tab { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() };
    let mut spans: Vec<Span<'static>> = Tab::ALL.into_iter().map(|tab| Span::styled(name(tab), style(tab))).collect();
    spans.push(Span::raw(format!("  sort: {}", state.view.order.name())));
    if state.view.modes == Modes::User {
        spans.push(Span::raw("  kernel: off"));
    }
    if state.view.filter.is_some() && !state.typing {
        spans.push(Span::raw(format!("  filter: {}", printable(&state.filter_text))));
    }
    if state.pace == Pace::Paused {
        spans.push(Span::raw("  "));
        spans.push(Span::styled("PAUSED", heading()));
    }
    Line::from(spans)
}

fn nothing(state: &State, model: &Model) -> String {
    let all_pass = state.view.filter.is_none();
    match (all_pass, model.tally().ticks) {
        (false, _) => "no name matches the filter; Esc drops it".to_owned(),
        (true, 0) => "no ticks yet: the targets use no CPU time".to_owned(),
        (true, _) => "no ticks to show".to_owned(),
    }
}

fn title(function: &Group) -> String {
    let object = function.object.as_deref().unwrap_or_default();
    format!("{} in {}", printable(function.function.as_deref().unwrap_or_default()), printable(object))
}

fn function_lines(model: &Model, profile: &Profile, function: &Group, state: &State, width: usize) -> Lines {
    let mut places = model.places(profile, function, state.view.modes);
    match state.view.order {
        Order::Now => places.sort_by(|a, b| b.now_hz.total_cmp(&a.now_hz)),
        Order::Total => places.sort_by_key(|place| std::cmp::Reverse(place.ticks)),
        Order::Name => {}
    }
    Lines::of_places(&places, Some(width))
}

fn footer(state: &State) -> Line<'static> {
    if state.typing {
        return Line::raw(format!("/{}_   Enter keeps the filter, Esc drops it", printable(&state.filter_text)));
    }
    Line::raw(match state.focus {
        Focus::Table => "q quit  Tab next  Enter zoom  s sort  / filter  p pause  k kernel  ? help",
        Focus::Function(_) => "q quit  Esc back  s sort  p pause  k kernel  ? help",
        Focus::Help => "q quit  any other key: back",
    })
}

#[cfg(test)]
mod tests;
