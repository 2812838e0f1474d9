//! What the person at the keys has chosen: keys in, a view out.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use crate::report::Group;
use crate::top::{Filter, Modes, Pace, Shown, Tab, View};

/// What the screen shows.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Focus {
    /// The table.
    #[default]
    Table,
    /// One function.
    Function(Group),
    /// The keys.
    Help,
}

/// What a key asks of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reaction {
    /// Nothing has changed.
    None,
    /// Draw what has changed.
    Redraw,
    /// Draw everything again.
    Clear,
    /// The pace has changed.
    Pace(Pace),
    /// Stop.
    Quit,
    /// Give the terminal back until we are continued.
    Suspend,
}

/// The row that the cursor is on.
#[derive(Clone, Debug, Default)]
struct Cursor {
    index: usize,
    /// The cursor goes with its row when the order changes; it is on no group until it is moved.
    group: Option<Group>,
}

/// All that was chosen.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// The table.
    pub view: View,
    /// What is shown.
    pub focus: Focus,
    /// The filter as it is typed.
    pub filter_text: String,
    /// Whether it is being typed.
    pub typing: bool,
    /// Whether the view goes on.
    pub pace: Pace,
    cursor: Cursor,
    /// First line shown of a function.
    pub scroll: usize,
    /// Rows that the screen had room for when it was last drawn.
    page: usize,
}

impl State {
    /// The state at the start.
    pub fn new(view: View) -> State {
        State { view, page: 1, ..State::default() }
    }

    /// Remembers how many rows there is room for.
    pub fn set_page(&mut self, page: usize) {
        self.page = page.max(1);
    }

    /// The row that the cursor is on, by its index; `None` where there is no row.
    pub fn selected(&self, shown: &Shown<'_>) -> Option<usize> {
        let last = shown.len().checked_sub(1)?;
        let found = match (shown, &self.cursor.group) {
            (Shown::Groups { rows, .. }, Some(group)) => rows.iter().position(|row| row.group == group),
            _ => None,
        };
        Some(found.unwrap_or(self.cursor.index).min(last))
    }

    /// Takes in a key, pressed while `shown` was on the screen.
    pub fn press(&mut self, key: KeyEvent, shown: &Shown<'_>) -> Reaction {
        if key.kind == KeyEventKind::Release {
            return Reaction::None;
        }
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('c') => Reaction::Quit,
                KeyCode::Char('z') => Reaction::Suspend,
                // Terminals are asked so when something else has written on them.
                KeyCode::Char('l') => Reaction::Clear,
                _ => Reaction::None,
            };
        }
        if self.typing {
            return self.type_filter(key.code);
        }
        match key.code {
            KeyCode::Char('q') => return Reaction::Quit,
            KeyCode::Char(' ' | 'p') => {
                self.pace = if self.pace == Pace::Running { Pace::Paused } else { Pace::Running };
                return Reaction::Pace(self.pace);
            }
            KeyCode::Char('?' | 'h') => {
                self.focus = if self.focus == Focus::Help { Focus::Table } else { Focus::Help };
            }
            KeyCode::Char('s') => self.view.order = self.view.order.next(),
            KeyCode::Char('k') => {
                self.view.modes = match self.view.modes {
                    Modes::UserAndKernel => Modes::User,
                    Modes::User => Modes::UserAndKernel,
                };
            }
            code => match self.focus {
                Focus::Table => return self.press_in_table(code, shown),
                Focus::Function(_) => return self.press_in_function(code),
                Focus::Help => self.focus = Focus::Table,
            },
        }
        Reaction::Redraw
    }

    fn type_filter(&mut self, code: KeyCode) -> Reaction {
        match code {
            KeyCode::Enter => self.typing = false,
            KeyCode::Esc => {
                self.typing = false;
                self.filter_text.clear();
            }
            KeyCode::Backspace => {
                self.filter_text.pop();
            }
            KeyCode::Char(letter) => self.filter_text.push(letter),
            _ => return Reaction::None,
        }
        self.view.filter = Filter::new(&self.filter_text);
        Reaction::Redraw
    }

    fn press_in_table(&mut self, code: KeyCode, shown: &Shown<'_>) -> Reaction {
        match code {
            KeyCode::Char('/') => self.typing = true,
            KeyCode::Esc => {
                self.filter_text.clear();
                self.view.filter = None;
                self.cursor = Cursor::default();
            }
            KeyCode::Tab | KeyCode::Right => self.turn_to(self.view.tab.next()),
            KeyCode::BackTab | KeyCode::Left => self.turn_to(self.view.tab.previous()),
            KeyCode::Char('1') => self.turn_to(Tab::Function),
            KeyCode::Char('2') => self.turn_to(Tab::Process),
            KeyCode::Char('3') => self.turn_to(Tab::Cpu),
            KeyCode::Enter => return self.zoom(shown),
            code => match self.moved(code, self.selected(shown).unwrap_or(0)) {
                Some(index) => self.move_to(index, shown),
                None => return Reaction::None,
            },
        }
        Reaction::Redraw
    }

    fn press_in_function(&mut self, code: KeyCode) -> Reaction {
        match code {
            KeyCode::Esc | KeyCode::Enter | KeyCode::Backspace | KeyCode::Left => self.focus = Focus::Table,
            code => match self.moved(code, self.scroll) {
                Some(line) => self.scroll = line,
                None => return Reaction::None,
            },
        }
        Reaction::Redraw
    }

    /// Where a key leads from a line; `None` for a key that does not move.
    fn moved(&self, code: KeyCode, line: usize) -> Option<usize> {
        Some(match code {
            KeyCode::Up => line.saturating_sub(1),
            KeyCode::Down => line.saturating_add(1),
            KeyCode::PageUp => line.saturating_sub(self.page),
            KeyCode::PageDown => line.saturating_add(self.page),
            KeyCode::Home => 0,
            KeyCode::End => usize::MAX,
            _ => return None,
        })
    }

    fn move_to(&mut self, index: usize, shown: &Shown<'_>) {
        let index = index.min(shown.len().saturating_sub(1));
        let group = match shown {
            Shown::Groups { rows, .. } => rows.get(index).map(|row| row.group.clone()),
            Shown::Cpus(_) => None,
        };
        self.cursor = Cursor { index, group };
    }

    fn turn_to(&mut self, tab: Tab) {
        self.view.tab = tab;
        self.cursor = Cursor::default();
    }

    fn zoom(&mut self, shown: &Shown<'_>) -> Reaction {
        let selected = self.selected(shown);
        match (self.view.tab, shown, selected) {
            (Tab::Function, Shown::Groups { rows, .. }, Some(selected)) => {
                self.focus = Focus::Function(rows[selected].group.clone());
                self.scroll = 0;
                Reaction::Redraw
            }
            _ => Reaction::None,
        }
    }
}
