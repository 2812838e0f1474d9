//! However a run ends, the file is there and the exit status says what happened.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use profil_tests::{By, Profil, Recorded, Report, Running, Scratch, feature, patience};

/// Records a command that ends in some way after 0.2 CPU seconds.
fn ended(scratch: &Scratch, options: &[&str], how: &[&str]) -> Recorded {
    let words = [&["0.2"], how].concat();
    Profil::record(scratch, options).launch(scratch.build("ends"), &words).run()
}

fn has_names(recorded: &Recorded) {
    let report = recorded.report(By::Function);
    assert!(report.in_function("burn") > 100, "{report:?}");
}

#[test]
fn the_status_of_the_command_is_passed_on_with_a_file() {
    let scratch = Scratch::new();
    for status in ["0", "7", "255"] {
        let recorded = ended(&scratch, &[], &["exit", status]);
        assert_eq!(recorded.code().to_string(), status, "{recorded:?}");
        has_names(&recorded);
    }
}

#[test]
fn a_signal_of_the_command_is_told_as_a_shell_does() {
    let scratch = Scratch::new();
    for signal in [libc::SIGKILL, libc::SIGSEGV] {
        let recorded = ended(&scratch, &[], &["kill", &signal.to_string()]);
        assert_eq!(recorded.code(), 128 + signal, "{recorded:?}");
        has_names(&recorded);
    }
}

#[test]
fn commands_that_cannot_be_run_are_told_apart() {
    let scratch = Scratch::new();
    let launch = |program: &Path| Profil::record(&scratch, &[] as &[&str]).launch(program, &[] as &[&str]).run();
    let missing = launch(Path::new("no-such-program-anywhere"));
    assert_eq!(missing.code(), 127, "{missing:?}");
    let text = scratch.path("text");
    fs::write(&text, "no program\n").expect("a file in our folder");
    let refused = launch(&text);
    assert_eq!(refused.code(), 126, "{refused:?}");
    for recorded in [missing, refused] {
        assert!(!recorded.file.exists(), "{recorded:?}");
        assert!(recorded.stderr.starts_with("profil: cannot "), "{recorded:?}");
    }
}

#[test]
fn an_unwritable_output_is_told_before_anything_runs() {
    let scratch = Scratch::new();
    let mark = scratch.path("mark");
    let file = scratch.path("no/such/folder/profile.pb.gz");
    let recorded = Profil::record_to(file, &[] as &[&str]).launch("touch", &[&mark]).run();
    assert_eq!(recorded.code(), 125, "{recorded:?}");
    assert!(recorded.stderr.contains("no/such/folder"), "{recorded:?}");
    assert!(!mark.exists(), "the command has run");
}

#[test]
fn a_command_outlives_its_time_only_if_it_is_to_be_kept() {
    let scratch = Scratch::new();
    let recorded = ended(&scratch, &["-d", "500ms"], &["run"]);
    assert!(recorded.stdout.contains("terminated 1"), "it got SIGTERM: {recorded:?}");
    assert_eq!(recorded.code(), libc::SIGTERM, "its own status: {recorded:?}");
    has_names(&recorded);

    // A command that is kept keeps our pipes open as well: it must have others.
    let target = scratch.build("ends");
    let pid = scratch.path("pid");
    let script = format!("echo $$ > {}; exec {} 0.1 run > /dev/null 2>&1", pid.display(), target.display());
    let recorded = Profil::record(&scratch, &["-d", "500ms", "--keep"]).launch("sh", &["-c", &script]).run();
    assert_eq!(recorded.code(), 0, "{recorded:?}");
    has_names(&recorded);
    let pid = fs::read_to_string(pid).expect("the PID that the script wrote");
    let command = fs::read_to_string(format!("/proc/{}/cmdline", pid.trim())).expect("it runs on");
    assert!(command.contains("ends"), "{command}");
    // SAFETY: the process is the one whose command line was just read.
    unsafe { libc::kill(pid.trim().parse().expect("a PID"), libc::SIGKILL) };
}

#[test]
fn one_signal_stops_and_writes() {
    let scratch = Scratch::new();
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        let mut target = Running::start(scratch.build("ends"), &["0.1", "run"]);
        target.go();
        // Under nohup(1), which the tests may run under, a hangup is to be ignored.
        let runner = ["env", "--default-signal=HUP"];
        let recording = Profil::by(&runner, &scratch, &["-F", "1999", "-p", &target.pid().to_string()]).start();
        patience::until("some ticks", || {
            recording.signal(libc::SIGUSR1);
            std::thread::sleep(std::time::Duration::from_millis(100));
            let report = Command::new(profil_tests::profil::binary()).arg("report").arg(recording.file()).output();
            report.is_ok_and(|report| report.status.success()).then_some(())
        });
        recording.signal(signal);
        let recorded = recording.wait();
        assert_eq!(recorded.code(), 0, "{recorded:?}");
        assert!(recorded.report(By::Function).in_function("burn") > 0, "{recorded:?}");
        let state = fs::read_to_string(format!("/proc/{}/stat", target.pid())).expect("the target lives");
        assert!(!state.contains(") Z "), "the target runs on: {state}");
    }
}

#[test]
fn a_command_that_has_stopped_itself_is_ended_when_its_time_is_up() {
    let scratch = Scratch::new();
    let script = "kill -STOP $$; sleep 600";
    let recorded = Profil::record(&scratch, &["-d", "500ms"]).launch("sh", &["-c", script]).run();
    assert_eq!(recorded.code(), 128 + libc::SIGTERM, "{recorded:?}");
    assert!(recorded.file.exists(), "{recorded:?}");
}

/// Check that a standard error which nobody can read takes neither the profile nor the exit status along.
#[test]
fn a_standard_error_that_cannot_be_written_changes_nothing() {
    let scratch = Scratch::new();
    let ends = scratch.build("ends");
    let full = || Stdio::from(fs::File::options().write(true).open("/dev/full").expect("/dev/full"));
    let broken = || Stdio::from(std::io::pipe().expect("a pipe").1);
    for (name, stderr) in [("full", full()), ("broken", broken())] {
        let file = scratch.path(name);
        let mut command = Command::new(profil_tests::profil::binary());
        command.args(["-F", "1999", "-o"]).arg(&file).arg("--").arg(&ends).args(["0.2", "exit", "7"]);
        let status = command.stderr(stderr).status().expect("profil runs");
        assert_eq!(status.code(), Some(7), "{name}");
        let report = Command::new(profil_tests::profil::binary()).args(["report", "--json"]).arg(&file).output();
        let report = Report::read(&report.expect("profil runs").stdout);
        assert!(report.in_function("burn") > 100, "{name}: {report:?}");
    }
    for (name, stderr) in [("full", full()), ("broken", broken())] {
        let mut command = Command::new(profil_tests::profil::binary());
        let status = command.args(["-p", "4194300"]).stderr(stderr).status().expect("profil runs");
        assert_eq!(status.code(), Some(1), "{name}");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    for arguments in [&["completions", "bash"] as &[_], &["doctor"], &["--help"]] {
        let mut command = Command::new(profil_tests::profil::binary());
        command.args(arguments).stdout(std::io::pipe().expect("a pipe").1).stderr(Stdio::piped());
        let output = command.output().expect("profil runs");
        assert!(matches!(output.status.code(), Some(0 | 1)), "{arguments:?}: {output:?}");
        assert!(output.stderr.is_empty(), "{arguments:?}: {output:?}");
    }
}

#[test]
fn a_target_that_is_killed_leaves_a_file_with_names() {
    let scratch = Scratch::new();
    let mut target = Running::start(scratch.build("ends"), &["0.3", "kill", "9"]);
    let recording = Profil::record(&scratch, &["-F", "1999", "-p", &target.pid().to_string()]).start();
    target.go();
    let (status, _) = target.finish();
    assert!(!status.success(), "{status}");
    let recorded = recording.wait();
    assert_eq!(recorded.code(), 0, "a target that ends is no failure: {recorded:?}");
    let report = recorded.report(By::Function);
    assert!(report.share("burn") > 0.95, "{report:?}");
}

/// Check that the first signal does not abort a profil that is writing already, because its targets have ended.
#[test]
fn a_signal_that_comes_while_the_file_is_written_loses_nothing() {
    let scratch = Scratch::new();
    for round in 0..20 {
        let mut target = Running::start(scratch.build("ends"), &["0.05", "exit", "0"]);
        let recording = Profil::record(&scratch, &["-F", "1999", "-p", &target.pid().to_string()]).start();
        target.go();
        target.finish();
        std::thread::sleep(std::time::Duration::from_millis(round * 7 % 60));
        let recorded = recording.stop();
        assert_eq!(recorded.code(), 0, "{recorded:?}");
        assert!(recorded.report(By::Function).ticks > 0, "{recorded:?}");
    }
}

#[test]
fn no_ticks_are_an_error_of_an_attach_and_a_warning_of_a_launch() {
    let scratch = Scratch::new();
    let target = Running::start(scratch.build("ends"), &["0.1", "exit", "0"]);
    // It waits for the word to go on, and uses no CPU time.
    let pid = target.pid().to_string();
    let recorded = Profil::record(&scratch, &["-F", "1", "-d", "300ms", "-p", &pid]).run();
    assert_eq!(recorded.code(), 4, "{recorded:?}");
    assert!(recorded.stderr.contains("no ticks"), "{recorded:?}");
    let recorded = Profil::record(&scratch, &["-F", "1"]).launch("true", &[] as &[&str]).run();
    assert_eq!(recorded.code(), 0, "{recorded:?}");
    assert!(recorded.stderr.contains("no ticks"), "{recorded:?}");
    assert_eq!(recorded.report(By::Function).ticks, 0);
}

/// Identities of the programs, maps and links that the kernel holds.
fn kernel_objects() -> BTreeSet<String> {
    let list = |kind: &str| {
        let output = Command::new("bpftool").args([kind, "list"]).output().expect("bpftool runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let name =
            |line: &str| line.split_once(':').filter(|(id, _)| id.parse::<u32>().is_ok()).map(|(id, _)| id.to_owned());
        text.lines().filter_map(name).map(|id| format!("{kind} {id}")).collect::<Vec<_>>()
    };
    ["prog", "map", "link"].iter().flat_map(|kind| list(kind)).collect()
}

#[test]
fn profil_killed_at_any_moment_leaves_the_target_alone_and_nothing_behind() {
    const TEST: &str = "profil_killed_at_any_moment_leaves_the_target_alone_and_nothing_behind";
    if !feature::has_program(TEST, "bpftool") {
        return;
    }
    let scratch = Scratch::new();
    let program = scratch.build("ends");
    let before = kernel_objects();
    let mine = || {
        let now = kernel_objects();
        now.difference(&before).filter(|object| is_of_profil(object)).cloned().collect::<Vec<_>>()
    };
    let idle = Running::start(&program, &["0.1", "exit", "5"]);
    let recording = Profil::record_to(scratch.path(".seen"), &["-p", &idle.pid().to_string()]).start();
    assert!(mine().len() > 5, "what is looked for can be seen while it is there: {:?}", mine());
    drop(recording);
    for moment in 0..20 {
        let mut target = Running::start(&program, &["0.1", "exit", "5"]);
        let recording = Profil::record(&scratch, &["-F", "9997", "-p", &target.pid().to_string()]).spawn();
        target.go();
        // From before it has loaded anything to the middle of its run.
        std::thread::sleep(std::time::Duration::from_millis(moment * 23 % 200));
        recording.signal(libc::SIGKILL);
        drop(recording);
        let (status, truth) = target.finish();
        assert_eq!(status.code(), Some(5), "moment {moment}");
        assert_eq!(truth, Default::default(), "the target prints what it always does");
    }
    // The kernel frees them when a grace period has passed. Other programs may come and go meanwhile.
    patience::until("the kernel frees what profil had loaded", || mine().is_empty().then_some(()));
    let files: BTreeSet<_> = fs::read_dir(scratch.path(""))
        .expect("our folder")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .filter(|name| name != "ends" && !name.starts_with('.'))
        .collect();
    assert_eq!(files, BTreeSet::new(), "no half-written file has the name of a whole one");
}

/// Whether a program, map or link has a name that ours have.
fn is_of_profil(object: &str) -> bool {
    let (kind, id) = object.split_once(' ').expect("kind and id");
    let output = Command::new("bpftool").args([kind, "show", "id", id]).output().expect("bpftool runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    ["name tick", "name fork", "name exec", "name exit", "name free", "name PROCESSES", "name ROWS_", "name COUNTERS"]
        .iter()
        .any(|name| text.contains(name))
}
