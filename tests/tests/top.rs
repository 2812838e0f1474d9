//! The live view: on a terminal, with its keys, and as frames of text.

use std::fs;
use std::process::{Command, Output, Stdio};

use profil_tests::profil::binary;
use profil_tests::{Running, Scratch, Tmux, feature};

/// Three functions that use 60, 30 and 10 percent, for as long as it takes.
fn target(scratch: &Scratch) -> Running {
    let mut target = Running::start(scratch.build("shares"), &["600"]);
    target.go();
    target
}

/// `profil top` on a terminal that is there, with the shell's line for it.
fn start(tmux: &Tmux, arguments: &str) {
    tmux.line(&format!("clear; {} top --interval 200ms {arguments}; echo status=$?", binary().display()));
}

/// The numbers before a name in a table: now, total, ticks.
fn numbers(screen: &str, name: &str) -> Option<[f64; 3]> {
    let line = screen.lines().find(|line| line.split_whitespace().any(|word| word == name))?;
    let mut numbers = line.split_whitespace().map(|word| word.replace(',', "").parse::<f64>());
    Some([numbers.next()?.ok()?, numbers.next()?.ok()?, numbers.next()?.ok()?])
}

/// Ticks of the account: the number before a word, as in `12,345 ticks`.
fn number_before(text: &str, word: &str) -> Option<u64> {
    let before = text.split_once(word)?.0;
    before.rsplit([' ', '(', '\n']).next()?.replace(',', "").parse().ok()
}

/// Waits for the end of a run, and checks that the terminal is as it was.
fn check_restored(tmux: &Tmux, modes: &str) -> String {
    let after = tmux.until_screen("profil has ended", |screen| screen.contains("status="));
    assert_eq!(tmux.variable("alternate_on"), "0", "{after}");
    assert_eq!(tmux.variable("cursor_flag"), "1", "{after}");
    tmux.line("clear; echo modes=$(stty -g)");
    let screen = tmux.until_screen("the modes", |screen| screen.contains("\nmodes=") || screen.starts_with("modes="));
    assert!(screen.contains(modes), "{modes}: {screen}");
    after
}

/// The modes of the terminal.
fn modes(tmux: &Tmux) -> String {
    tmux.line("clear; echo modes=$(stty -g)");
    let has_modes = |line: &&str| line.starts_with("modes=") && line.contains(':');
    let screen = tmux.until_screen("the modes", |screen| screen.lines().any(|line| has_modes(&line)));
    screen.lines().find(has_modes).expect("just seen").to_owned()
}

/// PID of the profil that looks at a target.
fn pid_of_top(target: &Running) -> i32 {
    let wanted = target.pid().to_string();
    let is_top = |pid: &i32| {
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words: Vec<_> = words.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
        words.iter().any(|word| word == "top") && words.iter().any(|word| *word == wanted)
    };
    let entries = fs::read_dir("/proc").expect("a list of processes").flatten();
    let mut pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.find(is_top).expect("profil runs")
}

#[test]
fn functions_are_shown_with_their_shares_and_keys_do_what_the_footer_says() {
    let test = "functions_are_shown_with_their_shares_and_keys_do_what_the_footer_says";
    if !feature::has_program(test, "tmux") {
        return;
    }
    let scratch = Scratch::new();
    let target = target(&scratch);
    let tmux = Tmux::start(&scratch);
    let modes = modes(&tmux);
    start(&tmux, &format!("-p {}", target.pid()));
    let many = |screen: &str| numbers(screen, "sixty").is_some_and(|[_, _, ticks]| ticks >= 1000.0);
    let screen = tmux.until_screen("a thousand ticks in `sixty`", many);
    for (name, share) in [("sixty", 60.0), ("thirty", 30.0), ("ten", 10.0)] {
        let [now, total, _] = numbers(&screen, name).unwrap_or_else(|| panic!("no {name}: {screen}"));
        assert!((total - share).abs() < 6.0 && (now - share).abs() < 12.0, "{name}: {screen}");
    }
    assert_eq!(tmux.variable("alternate_on"), "1");
    assert!(screen.contains("997 Hz asked") && screen.contains("missed") && screen.contains("CPU"), "{screen}");

    tmux.key("s");
    tmux.until_screen("the order by totals", |screen| screen.contains("sort: total"));
    tmux.text("/thir");
    tmux.until_screen("the filter", |screen| numbers(screen, "thirty").is_some() && !screen.contains("sixty"));
    tmux.key("Enter");
    tmux.until_screen("the filter is kept", |screen| screen.contains("filter: thir"));
    tmux.key("Escape");
    tmux.until_screen("the filter is dropped", |screen| screen.contains("sixty") && !screen.contains("filter: "));
    tmux.key("Tab");
    let pid = target.pid().to_string();
    tmux.until_screen("processes", |screen| screen.contains("PROCESS") && screen.contains(&pid));
    tmux.key("3");
    tmux.until_screen("CPUs", |screen| screen.contains("TARGETS%") && screen.contains("IDLE%"));
    tmux.key("1");
    tmux.key("k");
    tmux.until_screen("without the kernel", |screen| screen.contains("kernel: off") && screen.contains("sixty"));
    tmux.key("p");
    let paused = tmux.until_screen("pause", |screen| screen.contains("PAUSED"));
    // Keys are taken in order: when the help has come and gone, frames have been due.
    tmux.key("?");
    tmux.until_screen("help", |screen| screen.contains("PgUp"));
    tmux.key("?");
    let still = tmux.until_screen("the table again", |screen| screen.contains("sixty"));
    assert_eq!(numbers(&still, "sixty"), numbers(&paused, "sixty"), "{paused}\n{still}");
    tmux.key("p");
    tmux.until_screen("more ticks", |screen| numbers(screen, "sixty") > numbers(&still, "sixty"));
    tmux.key("Home");
    tmux.key("Enter");
    let annotated = |screen: &str| screen.contains("sixty: ") && screen.contains("shares.c:") && screen.contains("jne");
    tmux.until_screen("the function's code", annotated);
    tmux.key("Escape");
    tmux.until_screen("the table", |screen| screen.contains("thirty"));
    tmux.key("q");
    let after = check_restored(&tmux, &modes);
    assert!(after.contains("status=0"), "{after}");
    assert!(!after.contains("sixty"), "nothing but the account is left: {after}");
    let flat = after.replace('\n', "");
    assert!(flat.contains("profil: ") && flat.contains("997 Hz asked") && flat.contains("missed"), "{after}");
}

#[test]
fn any_size_of_the_window_will_do() {
    let test = "any_size_of_the_window_will_do";
    if !feature::has_program(test, "tmux") {
        return;
    }
    let scratch = Scratch::new();
    let target = target(&scratch);
    let tmux = Tmux::start(&scratch);
    start(&tmux, &format!("-p {}", target.pid()));
    let footer_is_last = |screen: &str| screen.lines().last().is_some_and(|line| line.starts_with("q quit"));
    tmux.until_screen("the view", |screen| footer_is_last(screen) && screen.contains("sixty"));
    for (columns, lines) in [(120, 40), (30, 8), (1, 1), (2, 3), (200, 50), (80, 24)] {
        tmux.resize(columns, lines);
        let shown = |screen: &str| match (columns, lines) {
            (30.., 8..) => {
                screen.lines().count() == usize::from(lines) && footer_is_last(screen) && screen.contains("sixty")
            }
            // The footer's beginning is in the last line, be it ever so short.
            _ => screen.lines().last().is_some_and(|line| line.starts_with('q')),
        };
        tmux.until_screen(&format!("the view at {columns}x{lines}"), shown);
    }
    tmux.key("q");
    tmux.until_screen("the end", |screen| screen.contains("status=0"));
}

#[test]
fn the_terminal_is_restored_however_it_ends() {
    let test = "the_terminal_is_restored_however_it_ends";
    if !feature::has_program(test, "tmux") {
        return;
    }
    let scratch = Scratch::new();
    let target = target(&scratch);
    let tmux = Tmux::start(&scratch);
    let modes = modes(&tmux);
    let signals = [("C-c", None), ("", Some(libc::SIGTERM)), ("", Some(libc::SIGINT)), ("", Some(libc::SIGHUP))];
    for (key, signal) in signals {
        start(&tmux, &format!("-p {}", target.pid()));
        tmux.until_screen("the view", |screen| screen.contains("sixty"));
        match signal {
            // SAFETY: the process is the one whose view is on the screen.
            Some(signal) => assert_eq!(unsafe { libc::kill(pid_of_top(&target), signal) }, 0),
            None => tmux.key(key),
        }
        let after = check_restored(&tmux, &modes);
        assert!(after.contains("status=0") && after.contains("ticks"), "{signal:?}: {after}");
    }
}

#[test]
fn a_command_on_a_screen_is_hidden_and_leaves_its_table_and_status() {
    let test = "a_command_on_a_screen_is_hidden_and_leaves_its_table_and_status";
    if !feature::has_program(test, "tmux") {
        return;
    }
    let scratch = Scratch::new();
    let tmux = Tmux::start(&scratch);
    let program = scratch.build("shares");
    let evil = scratch.path("\u{1b}[31mevil");
    fs::copy(&program, &evil).expect("a copy in our folder");
    let script = scratch.path("script");
    let text = format!("echo garbage; echo garbage >&2; '{}' 600 & wait $!; exit 7", evil.display());
    fs::write(&script, text).expect("a file in our folder");
    start(&tmux, &format!("--by process -- sh {}", script.display()));
    // The name of the file is that of the process: its escape sequence is not obeyed.
    let screen = tmux.until_screen("the process", |screen| screen.contains("\u{fffd}[31mevil"));
    assert!(!screen.contains("garbage"), "{screen}");
    let pid = screen.lines().find(|line| line.contains("evil")).and_then(|line| line.split_whitespace().nth(4));
    let pid: i32 = pid.and_then(|pid| pid.split('#').next()?.parse().ok()).unwrap_or_else(|| panic!("{screen}"));
    tmux.until_screen("some ticks", |screen| {
        screen.lines().any(|line| line.contains("evil") && line.split_whitespace().nth(2).is_some_and(|n| n.len() > 2))
    });
    // SAFETY: the process is the command's child, whose ticks are on the screen.
    assert_eq!(unsafe { libc::kill(pid, libc::SIGTERM) }, 0);
    let after = tmux.until_screen("the end", |screen| screen.contains("status="));
    assert!(after.contains("status=7") && after.contains("sixty") && !after.contains("garbage"), "{after}");
    assert_eq!(tmux.variable("alternate_on"), "0");
}

/// Runs `profil top` with its output in a pipe.
fn piped(arguments: &[&str]) -> Output {
    let mut command = Command::new(binary());
    command.arg("top").args(arguments).stdin(Stdio::null()).env_remove("CLICOLOR_FORCE");
    command.output().expect("profil runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8 from profil")
}

#[test]
fn so_many_frames_as_asked_for_are_printed_and_the_last_has_all_ticks() {
    let scratch = Scratch::new();
    let target = target(&scratch);
    let pid = target.pid().to_string();
    let output = piped(&["-p", &pid, "-n", "2", "--interval", "500ms", "--limit", "0"]);
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert!(!stdout.contains('\x1b'), "{stdout:?}");
    let frames: Vec<&str> = stdout.split_terminator("\n\n").collect();
    assert_eq!(frames.len(), 2, "{stdout}");
    let account = number_before(&stderr, " ticks").unwrap_or_else(|| panic!("{stderr}"));
    let stray = number_before(&stderr, " stray").unwrap_or_else(|| panic!("{stderr}"));
    let of_frame = |frame: &str| number_before(frame, " ticks").unwrap_or_else(|| panic!("{frame}"));
    assert_eq!(of_frame(frames[1]), account, "{stdout}{stderr}");
    assert!(of_frame(frames[0]) < account, "{stdout}");
    let rows = frames[1].lines().skip(3);
    let ticks = rows.map(|row| row.split_whitespace().nth(2).expect("ticks").replace(',', ""));
    assert_eq!(ticks.map(|ticks| ticks.parse::<u64>().expect("a number")).sum::<u64>(), stray, "{stdout}{stderr}");
    let [_, total, _] = numbers(frames[1], "sixty").unwrap_or_else(|| panic!("{stdout}"));
    assert!((total - 60.0).abs() < 12.0, "{stdout}");
}

#[test]
fn frames_in_json_are_lines_whose_rows_add_up() {
    let scratch = Scratch::new();
    let target = target(&scratch);
    let pid = target.pid().to_string();
    for (by, name) in [("function", "function"), ("process", "pid"), ("cpu", "cpu")] {
        let output = piped(&["-p", &pid, "-n", "3", "--interval", "200ms", "--json", "--by", by]);
        let lines: Vec<serde_json::Value> =
            text(&output.stdout).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        assert_eq!(lines.len(), 3, "{lines:?}");
        for frame in lines {
            let rows = frame["rows"].as_array().expect("rows");
            assert!(rows.iter().all(|row| !row[name].is_null()), "{frame}");
            let sum: u64 = rows.iter().filter_map(|row| row["ticks"].as_u64()).sum();
            let stray = frame["outcomes"]["stray"].as_u64().expect("an outcome");
            let ticks = frame["ticks"].as_u64().expect("ticks");
            // The counters of CPUs are read a moment after the rows, and know of ticks without a place.
            match by {
                "cpu" => assert!(sum >= ticks && sum <= ticks + ticks / 5 + 20, "{frame}"),
                _ => assert_eq!(sum, stray, "{frame}"),
            }
        }
    }
}

#[test]
fn without_a_terminal_frames_come_until_the_targets_end() {
    let scratch = Scratch::new();
    let program = scratch.build("ends");
    let program = program.to_str().expect("a plain path");
    let output = piped(&["--interval", "200ms", "--", program, "0.7", "exit", "5"]);
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(5), "{stderr}");
    let frames: Vec<&str> = stdout.split_terminator("\n\n").collect();
    assert!(frames.len() >= 2, "{stdout}");
    let last = frames.last().expect("just counted");
    assert_eq!(number_before(last, " ticks"), number_before(&stderr, " ticks"), "{stdout}{stderr}");
    assert!(numbers(last, "burn").is_some_and(|[_, total, _]| total > 80.0), "{stdout}");
    // Time is up: the same, and the command is ended.
    let output = piped(&["-d", "300ms", "-q", "--", program, "0.1", "run"]);
    assert_eq!(output.status.code(), Some(libc::SIGTERM), "{output:?}");
    assert_eq!(text(&output.stdout).matches("profil top").count(), 1, "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
}

#[test]
fn a_reader_that_has_seen_enough_ends_it_quietly() {
    let scratch = Scratch::new();
    let target = target(&scratch);
    let script = format!("{} top -p {} --interval 200ms | head -n 1", binary().display(), target.pid());
    let output = Command::new("sh").args(["-c", &script]).output().expect("sh runs");
    assert!(text(&output.stdout).starts_with("profil top -p "), "{output:?}");
    assert!(!text(&output.stderr).contains("cannot"), "{output:?}");
}

#[test]
fn frames_that_cannot_be_had_are_refused() {
    for arguments in [&["-n", "0"][..], &["--interval", "1ms"], &["-p", "1", "-a"], &["--filter", "["]] {
        let output = piped(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {output:?}");
    }
}
