//! `profil report`: each grouping of a recording, and the files of other tools.

use std::collections::HashMap;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use profil_tests::{By, Profil, Report, Row, Running, Scratch, feature, profil};

/// What `profil report` says of a file: its JSON, and what went to standard error.
fn report(arguments: &[&str], file: &Path) -> (Report, String) {
    let mut command = Command::new(profil::binary());
    let output = command.args(["report", "--json"]).args(arguments).arg(file).output().expect("profil runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{command:?}: {said}");
    (Report::read(&output.stdout), said)
}

/// What `profil report` says of a text that comes through a pipe.
fn report_of_pipe(text: &[u8], arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(profil::binary());
    command.arg("report").args(arguments).arg("-").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("profil runs");
    // It may refuse the text before it has read all of it.
    let _ = child.stdin.take().expect("a piped stdin").write_all(text);
    let output = child.wait_with_output().expect("a child can be waited for");
    let shown = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("UTF-8 from profil");
    (output.status.code(), shown(&output.stdout), shown(&output.stderr))
}

#[test]
fn each_grouping_of_a_recording_has_all_ticks_and_says_what_they_are_of() {
    let scratch = Scratch::new();
    let program = scratch.build("threads");
    let recorded =
        Profil::record(&scratch, &["-F", "1999", "--per-thread"]).launch(&program, &["2", "0.6", "alike"]).run();
    let truth = recorded.truth();
    let all = recorded.report(By::Process);
    let of = |by: &str| report(&["--limit", "0", "--by", by], &recorded.file).0;
    let groupings = ["function", "line", "object", "process", "thread", "service", "build-id", "address"];
    for by in groupings {
        let grouped = of(by);
        let percent: f64 = grouped.rows.iter().map(|row| row.percent).sum();
        assert!((percent - 100.0).abs() < 0.1, "{by}: {percent} %");
        assert_eq!((grouped.ticks, grouped.expected, grouped.missed), (all.ticks, all.expected, all.missed), "{by}");
        assert!(grouped.rows.iter().all(|row| row.low <= row.percent && row.percent <= row.high), "{grouped:?}");
    }
    let path = program.to_str().expect("UTF-8");
    let largest = |by: &str| of(by).rows[0].clone();
    assert_eq!(largest("function").function.as_deref(), Some("work"));
    let line = largest("line");
    assert!(line.file.as_deref().is_some_and(|file| file.ends_with("targets/threads.c")), "{line:?}");
    let source = fs::read_to_string(line.file.as_deref().expect("a file")).expect("the source is there");
    let number = line.line.expect("a line") as usize;
    assert!(source.lines().nth(number - 1).is_some_and(|line| line.contains("LOOP(")), "line {number}");
    assert_eq!(largest("object").object.as_deref(), Some(path));
    let build_id = build_id(&program);
    assert_eq!(largest("build-id").build_id.as_deref(), Some(build_id.as_str()));
    assert_eq!(largest("process").process.as_deref(), Some("threads"));
    assert_eq!(largest("address").function.as_deref(), Some("work"));
    let threads = of("thread");
    for (tid, seconds) in truth.all("tid.") {
        let ticks = threads.ticks_of(|row| row.tid.is_some_and(|found| found.to_string() == tid));
        let (found, due) = (ticks as f64 / threads.ticks as f64, seconds / truth.of("cpu"));
        assert!((found - due).abs() < 0.06, "thread {tid}: {found:.3} of {due:.3}");
    }
}

fn build_id(program: &Path) -> String {
    let output = Command::new("readelf").arg("-n").arg(program).output().expect("readelf runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let id = text.lines().find_map(|line| line.trim().strip_prefix("Build ID: ").map(str::to_owned));
    id.unwrap_or_else(|| panic!("no build ID: {text}"))
}

/// A control group of systemd's or version 2's hierarchy, which goes away with the test.
struct Group(std::path::PathBuf);

impl Group {
    /// Makes one of that name; `None` where no hierarchy is mounted that names services.
    fn new(name: &str) -> Option<Group> {
        let roots = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup/systemd", "/sys/fs/cgroup"];
        let path = Path::new(roots.into_iter().find(|root| Path::new(root).join("cgroup.procs").exists())?).join(name);
        fs::create_dir(&path).ok()?;
        Some(Group(path))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // It cannot go before the last process in it is gone, which the test has waited for.
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn a_process_in_a_units_control_group_is_of_that_service_and_another_of_its_command() {
    const TEST: &str = "a_process_in_a_units_control_group_is_of_that_service_and_another_of_its_command";
    let unit = format!("profil-test-{}.service", std::process::id());
    let Some(group) = Group::new(&unit) else {
        feature::skip(TEST, "no control group can be made");
        return;
    };
    let scratch = Scratch::new();
    let program = scratch.build("shares");
    // It is moved after its exec, as `cgexec` would do before it, and known by what /proc says when it is first seen.
    let inside = Running::start(&program, &["0.6"]);
    fs::write(group.0.join("cgroup.procs"), inside.pid().to_string()).expect("root may move a process");
    let outside = Running::start(&program, &["0.6"]);
    let pids = format!("{},{}", inside.pid(), outside.pid());
    let recording = Profil::record(&scratch, &["-F", "1999", "-p", &pids]).start();
    let going = [inside, outside].map(|mut running| {
        running.go();
        running
    });
    for running in going {
        running.finish();
    }
    let recorded = recording.wait();
    let (report, _) = report(&["--by", "service"], &recorded.file);
    let share =
        |service: &str| report.ticks_of(|row| row.service.as_deref() == Some(service)) as f64 / report.ticks as f64;
    assert!((share(&unit) - 0.5).abs() < 0.1, "{report:?}");
    // The test itself may run in a unit.
    let rest: f64 = report.rows.iter().filter(|row| row.service.as_deref() != Some(&unit)).map(|row| row.percent).sum();
    assert!((rest - 50.0).abs() < 10.0, "{report:?}");
    assert!(
        report.rows.iter().all(|row| row.service.as_deref().is_some_and(|service| !service.is_empty())),
        "{report:?}"
    );
}

/// Ticks of functions, as gprof shows them: a hundredth of a second each.
fn by_gprof(program: &Path, gmon: &Path) -> HashMap<String, u64> {
    let output = Command::new("gprof").args(["-b", "-p"]).args([program, gmon]).output().expect("gprof runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let row = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let seconds: f64 = words.get(2)?.parse().ok()?;
        let ticks = (seconds * 100.0).round() as u64;
        (ticks > 0).then(|| (words.last().map(|word| (*word).to_owned()).unwrap_or_default(), ticks))
    };
    text.lines().filter_map(row).collect()
}

#[test]
fn a_gmon_out_of_a_pg_program_has_the_ticks_that_gprof_shows() {
    const TEST: &str = "a_gmon_out_of_a_pg_program_has_the_ticks_that_gprof_shows";
    if !feature::has_program(TEST, "gprof") {
        return;
    }
    let scratch = Scratch::new();
    for (name, flag) in [("pie", "-pie"), ("fixed", "-no-pie")] {
        let program = scratch.build_as("gmon", name, &["-pg", flag]);
        let ran = Command::new(&program).arg("0.7").current_dir(scratch.path("")).output().expect("the target runs");
        assert!(ran.status.success(), "{ran:?}");
        let gmon = scratch.path("gmon.out");
        let object = program.to_str().expect("UTF-8");
        let (report, said) = report(&["--limit", "0", "--object", object], &gmon);
        let expected = by_gprof(&program, &gmon);
        let found: HashMap<String, u64> =
            report.rows.iter().map(|row| (row.function.clone().unwrap_or_default(), row.ticks)).collect();
        assert!(expected["seventy"] > 0, "{expected:?}");
        assert_eq!(found, expected, "{name}");
        assert_eq!((report.hz, report.expected, report.missed, report.cpu_seconds), (Some(100.0), None, None, None));
        assert_eq!(report.outcomes.binned, report.ticks);
        assert!(said.contains("binned") && !said.contains("expected"), "{said}");
    }
}

#[test]
fn a_gmon_out_is_joined_to_its_program_by_build_id_and_to_no_other() {
    let scratch = Scratch::new();
    let program = scratch.build_as("gmon", "burner", &["-pg"]);
    let other = scratch.build("shares");
    let ran = Command::new(&program).arg("0.2").current_dir(scratch.path("")).output().expect("the target runs");
    assert!(ran.status.success(), "{ran:?}");
    let plain = scratch.path("gmon.out");
    let named = scratch.path(&format!("gmon.burner.{}.out", build_id(&program)));
    fs::copy(&plain, &named).expect("a copy");
    let (by_name, _) = report(&[], &named);
    assert!(by_name.in_function("seventy") > 0, "{by_name:?}");
    let (addresses, said) = report(&[], &plain);
    assert!(addresses.rows.iter().all(|row| row.function.as_deref().is_some_and(|name| name.contains("+0x"))));
    assert!(said.contains("--object PATH"), "{said}");
    let refused = Command::new(profil::binary()).arg("report").arg("--object").args([&other, &named]).output();
    let refused = refused.expect("profil runs");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains(&build_id(&other)) && said.contains(&build_id(&program)), "{said}");
}

#[test]
fn the_text_of_perf_script_has_the_ticks_that_perf_report_shows() {
    const TEST: &str = "the_text_of_perf_script_has_the_ticks_that_perf_report_shows";
    if !feature::has_program(TEST, "perf") {
        return;
    }
    let scratch = Scratch::new();
    let program = scratch.build_as("shares", "sha res", &[]);
    let perf = |arguments: &[&str]| {
        let output = Command::new("perf").args(arguments).current_dir(scratch.path("")).output().expect("perf runs");
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    for (file, chains) in [("flat.data", &[] as &[&str]), ("chains.data", &["-g"])] {
        let record = ["record", "-q", "-e", "cpu-clock", "-F", "999", "-o", file];
        let target = ["--", program.to_str().expect("UTF-8"), "0.4"];
        if !perf(&[&record[..], chains, &target].concat()).0 {
            feature::skip(TEST, "perf record does not work with this kernel");
            return;
        }
        let (_, text) = perf(&["script", "-i", file]);
        let (code, json, said) = report_of_pipe(text.as_bytes(), &["--json", "--limit", "0"]);
        assert_eq!(code, Some(0), "{said}");
        let report = Report::read(json.as_bytes());
        let (_, shown) =
            perf(&["report", "-i", file, "--stdio", "--no-children", "-g", "none", "-s", "symbol", "-n", "-t", "|"]);
        let of_perf = |name: &str| {
            let mut rows = shown.lines().map(|line| line.split('|').map(str::trim).collect::<Vec<_>>());
            let row = rows.find(|row| row.get(2).is_some_and(|symbol| *symbol == format!("[.] {name}")));
            let ticks = row.and_then(|row| row[1].parse::<u64>().ok());
            ticks.unwrap_or_else(|| panic!("perf shows no {name}: {shown}"))
        };
        for name in ["sixty", "thirty", "ten"] {
            assert_eq!(report.in_function(name), of_perf(name), "{name} in {file}");
        }
        assert!(report.hz.is_some_and(|hz| (hz - 999.0).abs() < 1.0), "{:?}", report.hz);
        assert_eq!((report.expected, report.cpu_seconds), (None, None));
        let (_, json, _) = report_of_pipe(text.as_bytes(), &["--json", "--by", "process"]);
        assert_eq!(Report::read(json.as_bytes()).rows[0].process.as_deref(), Some("sha res"));
    }
}

#[test]
fn odd_names_come_through_every_form_and_none_reaches_the_terminal_bare() {
    let folded = b"sh;say \"a;b\\x3b, c\\x0ad\\x1b[31m\\xff\" 3\nsh;plain 1\n";
    let name = "b;, c\nd\u{1b}[31m\\xff\"";
    let (code, json, said) = report_of_pipe(folded, &["--json"]);
    assert_eq!(code, Some(0), "{said}");
    let report = Report::read(json.as_bytes());
    assert_eq!(report.rows[0].function.as_deref(), Some(name));
    let (_, csv, _) = report_of_pipe(folded, &["--csv"]);
    let cell = format!("\"{}\"", name.replace('"', "\"\""));
    assert!(csv.contains(&cell), "{csv:?}");
    let (_, table, _) = report_of_pipe(folded, &["--filter", "^b;"]);
    assert!(table.contains("b;, c\u{fffd}d\u{fffd}[31m\\xff\""), "{table:?}");
    assert!(!table.contains("plain"), "{table}");
}

#[test]
fn what_is_no_profile_is_refused_by_name_and_place() {
    for (text, reasons) in [
        (&b"nr_free_pages 12\nnr_zone 3\n"[..], &["`;`", "folded stacks", "pprof"][..]),
        (b"a;b 1\nwhat else\n", &["line 2", "`what else`"]),
        (b"gmon\x01\0\0\0", &["gmon.out", "byte 8"]),
        (b"\x1f\x8b\x08\0\0\0\0\0", &["gzip data are cut short", "byte 0"]),
        (
            b"x 1 2.000000: 1 cpu-clock: 10 f+0x1 (/a)\nx 1 2.000000: 1 cpu-clock: 10 f+0x1 (/a",
            &["line 2", "cut short"],
        ),
        (b"", &["empty"]),
    ] {
        let (code, shown, said) = report_of_pipe(text, &[]);
        assert_eq!((code, shown.as_str()), (Some(1), ""), "{said}");
        assert!(reasons.iter().all(|reason| said.contains(reason)), "{said}");
    }
}

#[test]
fn a_row_of_a_recording_has_what_the_command_line_promises_of_its_json() {
    let scratch = Scratch::new();
    let program = scratch.build("shares");
    let recorded = Profil::record(&scratch, &["-F", "997"]).launch(&program, &["0.2"]).run();
    let mut command = Command::new(profil::binary());
    let output = command.args(["report", "--json"]).arg(&recorded.file).output().expect("profil runs");
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let keys = |value: &serde_json::Value| {
        let mut keys: Vec<String> = value.as_object().expect("an object").keys().cloned().collect();
        keys.sort();
        keys
    };
    assert_eq!(keys(&json), ["cpu_seconds", "expected", "hz", "missed", "outcomes", "rows", "ticks"]);
    let row: Row = serde_json::from_value(json["rows"][0].clone()).expect("a row");
    assert!(row.ticks > 0 && row.build_id.is_some(), "{row:?}");
    assert_eq!(
        keys(&json["rows"][0]),
        ["build_id", "function", "high", "kernel_percent", "low", "object", "percent", "ticks"]
    );
}
