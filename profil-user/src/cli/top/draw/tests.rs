use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::super::state::Reaction;
use super::*;
use crate::record::{CpuWindow, LiveWindow};
use crate::report::{By, sample};
use crate::symbols::debug_files::DebugFiles;
use crate::top::View;

/// A view of the sample profile: all of it came in one window of ten seconds.
struct Shop {
    model: Model,
    profile: Profile,
    state: State,
    zoom: Zoom,
}

impl Shop {
    fn new() -> Shop {
        let profile = sample::profile();
        let rows = profile.rows.iter().enumerate().map(|(index, row)| (index, row.ticks)).collect();
        let cpu = |cpu, millis| CpuWindow {
            cpu,
            ticks: millis / 10,
            targets: Duration::from_millis(millis),
            others: Duration::from_millis(500),
        };
        let length = Duration::from_secs(10);
        let window = LiveWindow { rows, cpus: vec![cpu(0, 6000), cpu(1, 4000)], length, ..LiveWindow::default() };
        let mut model = Model::new(By::Process);
        model.take(&profile, &window);
        Shop { model, profile, state: State::new(View::default()), zoom: Zoom::new(DebugFiles::default()) }
    }

    fn buffer(&mut self, width: u16, height: u16) -> Buffer {
        self.painted(width, height, Paint::Ansi)
    }

    fn painted(&mut self, width: u16, height: u16, paint: Paint) -> Buffer {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        let Shop { model, profile, state, zoom } = self;
        if let Focus::Function(function) = &state.focus {
            zoom.look(profile, function);
        }
        terminal.draw(|frame| draw(frame, Scene { model, profile, zoom, paint }, state)).unwrap();
        terminal.backend().buffer().clone()
    }

    fn text(&mut self, width: u16, height: u16) -> String {
        let buffer = self.buffer(width, height);
        let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
        (0..height).map(line).collect::<Vec<_>>().join("\n")
    }

    fn press(&mut self, code: KeyCode) -> Reaction {
        let shown = self.model.shown(&self.state.view);
        let reaction = self.state.press(KeyEvent::new(code, KeyModifiers::NONE), &shown);
        if let Reaction::Pace(pace) = reaction {
            self.model.set_pace(pace, &self.profile);
        }
        reaction
    }

    fn type_text(&mut self, text: &str) {
        for letter in text.chars() {
            self.press(KeyCode::Char(letter));
        }
    }
}

#[test]
fn the_screen_has_account_tabs_functions_and_keys() {
    let mut shop = Shop::new();
    insta::assert_snapshot!(shop.text(80, 12), @r#"
    profil top -- ./burn 10; 11 s; 100 Hz asked, 99.5 real; 2 CPUs
    1,020 ticks, 1,025 expected, 5 missed (0.5 %); 100/s now; 20 without a place in…
     1 Functions  2 Processes  3 CPUs   sort: now
      NOW%  TOTAL%      TICKS    SYS%  FUNCTION             OBJECT
     60.00   60.00        600    16.7  spin                 burn
     15.00   15.00        150     0.0  core::hash<u8, "x">  burn
      9.00    9.00         90     0.0  libz.so.1+0x2456     libz.so.1 [stale]
      7.00    7.00         70   100.0  do_syscall_64 [k]    [kernel]
      6.40    6.40         64     0.0  [anon]               [anon]
      2.60    2.60         26     0.0  [unknown]            [unknown]

    q quit  Tab next  Enter zoom  s sort  / filter  p pause  k kernel  ? help
    "#);
    let words = |text: &str| -> Vec<String> {
        let rows = text.lines().skip(3).take(3);
        rows.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    };
    shop.press(KeyCode::Tab);
    assert_eq!(
        words(&shop.text(80, 10)),
        [
            "NOW% TOTAL% TICKS SYS% PID PROCESS",
            "84.00 84.00 840 11.9 10 burn",
            "16.00 16.00 160 43.8 10#2 ju st\u{fffd}in"
        ]
    );
    shop.press(KeyCode::Char('3'));
    assert_eq!(
        words(&shop.text(80, 10)),
        ["CPU TARGETS% OTHERS% IDLE% TICKS/S TICKS", "0 60.0 5.0 35.0 60.0 600", "1 40.0 5.0 55.0 40.0 400"]
    );
}

#[test]
fn no_size_is_too_small_to_draw_in_any_state() {
    let keys = [KeyCode::Tab, KeyCode::Tab, KeyCode::Tab, KeyCode::End, KeyCode::Enter, KeyCode::PageDown]
        .into_iter()
        .chain([KeyCode::Char('?'), KeyCode::Esc, KeyCode::Char('/'), KeyCode::Char('x'), KeyCode::Char(' ')]);
    let mut shop = Shop::new();
    for key in keys {
        shop.press(key);
        for (width, height) in [(1, 1), (1, 2), (2, 1), (3, 3), (10, 4), (16, 5), (500, 200)] {
            shop.text(width, height);
        }
    }
}

#[test]
fn a_narrow_screen_shows_names_before_numbers() {
    let mut shop = Shop::new();
    let text = shop.text(30, 8);
    assert!(text.contains(" 60.00  spin"), "{text}");
    assert!(shop.text(40, 8).contains(" 60.00   60.00  spin"), "{}", shop.text(40, 8));
}

#[test]
fn names_of_strangers_cannot_write_on_the_terminal() {
    let mut shop = Shop::new();
    shop.profile.title = "-- evil\x1b[2J".into();
    let mut evil = shop.profile.clone();
    evil.processes[0].comm = "a\x1b]0;x\x07b".into();
    evil.locations[0].frames[0].function = "f\x1b[31m\u{202e}g".into();
    let rows = evil.rows.iter().enumerate().map(|(index, row)| (index, row.ticks)).collect();
    shop.model = Model::new(By::Process);
    let window = LiveWindow { rows, length: Duration::from_secs(1), ..LiveWindow::default() };
    shop.model.take(&evil, &window);
    for tab in ['1', '2'] {
        shop.press(KeyCode::Char(tab));
        let text = shop.text(100, 24);
        assert!(!text.contains(['\x1b', '\x07', '\u{202e}']), "{text:?}");
        assert!(text.contains('\u{fffd}'), "{text}");
    }
    shop.press(KeyCode::Char('1'));
    shop.press(KeyCode::Enter);
    assert!(!shop.text(100, 24).contains(['\x1b', '\u{202e}']));
    shop.press(KeyCode::Esc);
    shop.press(KeyCode::Char('/'));
    shop.type_text("\u{9b}");
    assert!(!shop.text(100, 24).contains('\u{9b}'));
}

#[test]
fn the_filter_is_typed_kept_and_dropped() {
    let mut shop = Shop::new();
    shop.press(KeyCode::Char('/'));
    shop.type_text("spq");
    shop.press(KeyCode::Backspace);
    let text = shop.text(80, 24);
    assert!(text.contains("/sp_") && text.contains("spin") && !text.contains("do_syscall_64"), "{text}");
    shop.press(KeyCode::Enter);
    assert!(shop.text(80, 24).contains("filter: sp"));
    // A letter is a key again.
    assert_eq!(shop.press(KeyCode::Char('q')), Reaction::Quit);
    shop.press(KeyCode::Esc);
    let text = shop.text(80, 24);
    assert!(text.contains("do_syscall_64") && !text.contains("filter:"), "{text}");
    shop.press(KeyCode::Char('/'));
    shop.type_text("nothing has this name");
    assert!(shop.text(80, 24).contains("no name matches the filter"));
}

#[test]
fn the_cursor_goes_with_its_row_when_the_order_changes() {
    let mut shop = Shop::new();
    shop.press(KeyCode::Down);
    let row_of_cursor = |shop: &mut Shop| {
        let buffer = shop.buffer(80, 24);
        let reversed = |y: &u16| buffer[(0, *y)].modifier.contains(Modifier::REVERSED);
        let y = (ABOVE..23).find(reversed).expect("a row with the cursor");
        (0..80).map(|x| buffer[(x, y)].symbol()).collect::<String>()
    };
    let before = row_of_cursor(&mut shop);
    shop.press(KeyCode::Char('s'));
    shop.press(KeyCode::Char('s'));
    assert_eq!(row_of_cursor(&mut shop), before);
    shop.press(KeyCode::End);
    shop.press(KeyCode::Down);
    assert!(row_of_cursor(&mut shop).contains("spin"), "the last by name");
    // On a screen with room for one row, it is the cursor's.
    assert!(shop.text(80, ABOVE + 2).contains("spin"));
}

#[test]
fn enter_looks_into_a_function_and_back() {
    let mut shop = Shop::new();
    shop.press(KeyCode::Enter);
    let text = shop.text(80, 24);
    assert!(text.contains("spin in /opt/bin/burn") && text.contains("0x1100") && text.contains("burn.c:12"), "{text}");
    shop.press(KeyCode::Esc);
    assert!(shop.text(80, 24).contains("do_syscall_64"));
    // There is nothing to look into elsewhere.
    shop.press(KeyCode::Char('2'));
    assert_eq!(shop.press(KeyCode::Enter), Reaction::None);
}

#[test]
fn pause_kernel_and_sort_are_shown() {
    let mut shop = Shop::new();
    for key in [' ', 'k', 's'] {
        shop.press(KeyCode::Char(key));
    }
    let text = shop.text(80, 24);
    assert!(text.contains("PAUSED") && text.contains("kernel: off") && text.contains("sort: total"), "{text}");
    assert!(!text.contains("do_syscall_64"), "{text}");
    for key in ['p', 'k'] {
        shop.press(KeyCode::Char(key));
    }
    let text = shop.text(80, 24);
    assert!(!text.contains("PAUSED") && !text.contains("kernel: off") && text.contains("do_syscall_64"), "{text}");
}

#[test]
fn help_names_every_key_and_any_key_leads_back() {
    let mut shop = Shop::new();
    shop.press(KeyCode::Char('?'));
    let text = shop.text(80, 24);
    for (key, _) in KEYS {
        assert!(text.contains(key), "{key}: {text}");
    }
    assert_eq!(shop.press(KeyCode::Char('x')), Reaction::Redraw);
    assert!(shop.text(80, 24).contains("spin"));
}

#[test]
fn without_colour_nothing_is_coloured() {
    let mut shop = Shop::new();
    let plain = |cell: &ratatui::buffer::Cell| cell.fg == Color::Reset && cell.bg == Color::Reset;
    assert!(shop.painted(80, 24, Paint::Plain).content().iter().all(plain));
    assert!(shop.buffer(80, 24).content().iter().any(|cell| cell.fg == Color::Red));
}

#[test]
fn ctrl_c_quits_even_while_a_filter_is_typed() {
    let mut shop = Shop::new();
    shop.press(KeyCode::Char('/'));
    let shown = shop.model.shown(&shop.state.view);
    let key = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(shop.state.press(key, &shown), Reaction::Quit);
}
