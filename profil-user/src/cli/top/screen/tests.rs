use std::process::Command;

use super::*;

/// Set for the process that is to panic.
const VARIABLE: &str = "PROFIL_TEST_PANIC_ON_SCREEN";

#[test]
fn a_panic_gives_the_terminal_back_and_is_told_afterwards() {
    if std::env::var_os(VARIABLE).is_some() {
        let mut screen = Screen::take().unwrap();
        let caught = panic::catch_unwind(|| panic!("a caught one"));
        assert!(caught.is_err());
        screen.draw(|frame| frame.render_widget("what was drawn", frame.area())).unwrap();
        panic!("these are the last words");
    }
    let own = std::env::current_exe().unwrap();
    let test = "cli::top::screen::tests::a_panic_gives_the_terminal_back_and_is_told_afterwards";
    let script =
        format!("stty cols 80 rows 24; '{}' --exact {test} --nocapture --test-threads=1; stty -a", own.display());
    let mut terminal = Command::new("script");
    terminal
        .args(["--quiet", "--return", "--command", &script, "/dev/null"])
        .env(VARIABLE, "1")
        .env("SHELL", "/bin/sh");
    let output = terminal.stdin(std::process::Stdio::null()).output().expect("script of bsdutils makes a terminal");
    let text = String::from_utf8_lossy(&output.stdout);
    let (drawn, after) = text.split_once("\x1b[?1049l").unwrap_or_else(|| panic!("the screen was not left: {text}"));
    assert!(drawn.contains("\x1b[?1049h") && drawn.contains("what"), "{text:?}");
    assert!(!drawn.contains("last words"), "{text:?}");
    assert!(after.contains("these are the last words"), "{text:?}");
    assert!(!text.contains("a caught one"), "{text:?}");
    let modes: Vec<&str> = after.split([' ', ';', '\r', '\n']).collect();
    assert!(modes.contains(&"icanon") && modes.contains(&"echo") && modes.contains(&"isig"), "{text:?}");
    assert!(after.contains("\x1b[?25h"), "the cursor is shown: {text:?}");
}
