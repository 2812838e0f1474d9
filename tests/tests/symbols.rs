//! Ticks have the names that a person knows their code by, whatever kind of file it comes from.

use std::fs;
use std::process::Command;

use profil_tests::{By, Profil, Recorded, Running, Scratch, Truth, feature};

/// Asserts that the functions of `shares` have, in this object, the shares that the target measured.
fn has_shares(recorded: &Recorded, object: &str) {
    let (report, truth) = (recorded.report(By::Function), recorded.truth());
    for function in ["sixty", "thirty", "ten"] {
        let ticks =
            report.ticks_of(|row| row.function.as_deref() == Some(function) && row.object.as_deref() == Some(object));
        let found = ticks as f64 / report.ticks as f64;
        let share = truth.of(function) / truth.of("all");
        assert!((found - share).abs() < 0.05, "{function}: {found:.3}, {share:.3} true: {report:?}");
    }
}

#[test]
fn each_layout_of_an_executable_has_names() {
    let scratch = Scratch::new();
    for (name, flags) in [
        ("pie", &["-pie", "-fPIE"] as &[_]),
        ("no-pie", &["-no-pie"]),
        ("static", &["-static"]),
        ("static-pie", &["-static-pie", "-fPIE"]),
        ("no-separate-code", &["-Wl,-z,noseparate-code"]),
        ("lld", &["-fuse-ld=lld"]),
        ("mold", &["-B/usr/libexec/mold"]),
    ] {
        if flags[0] == "-fuse-ld=lld" && !feature::has_program("lld layout", "ld.lld")
            || name == "mold" && !feature::has_file("mold layout", "/usr/libexec/mold/ld")
        {
            continue;
        }
        let target = scratch.build_as("shares", name, flags);
        let recorded = Profil::record(&scratch, &["-F", "1999"]).launch(&target, &["0.6"]).run();
        has_shares(&recorded, target.to_str().expect("UTF-8"));
    }
}

#[test]
fn a_stripped_program_is_told_by_offsets_in_its_file() {
    let scratch = Scratch::new();
    let target = scratch.build_as("shares", "stripped", &["-s"]);
    let recorded = Profil::record(&scratch, &["-F", "1999"]).launch(&target, &["0.6"]).run();
    let report = recorded.report(By::Function);
    let prefix = "stripped+0x";
    let told = report.ticks_of(|row| row.function.as_deref().is_some_and(|name| name.contains(prefix)));
    assert!(told as f64 > 0.9 * report.ticks as f64, "{report:?}");
    assert!(recorded.stderr.contains("stripped"), "says why, and what to do: {}", recorded.stderr);
}

/// Attaches to a target, and lets it go on.
fn attached(scratch: &Scratch, mut target: Running) -> (Recorded, Truth) {
    let recording = Profil::record(scratch, &["-F", "1999", "-p", &target.pid().to_string()]).start();
    target.go();
    let (status, truth) = target.finish();
    assert!(status.success(), "{status}");
    (recording.wait(), truth)
}

#[test]
fn a_library_loaded_after_the_attach_has_names() {
    let scratch = Scratch::new();
    let library = scratch.build_as("plugin", "libplugin.so", &["-shared", "-fPIC"]);
    let library = library.to_str().expect("UTF-8");
    let target = Running::start(scratch.build("loader"), &[library, "0.6"]);
    let report = attached(&scratch, target).0.report(By::Function);
    let ticks =
        report.ticks_of(|row| row.object.as_deref() == Some(library) && row.function.as_deref() == Some("burn"));
    assert!(ticks as f64 > 0.9 * report.ticks as f64, "{report:?}");
}

#[test]
fn the_vdso_has_names() {
    let scratch = Scratch::new();
    let recorded = Profil::record(&scratch, &["-F", "1999"]).launch(scratch.build("vdso"), &["0.6"]).run();
    let report = recorded.report(By::Function);
    let ticks = report.ticks_of(|row| row.object.as_deref() == Some("[vdso]"));
    assert!(ticks as f64 > 0.3 * report.ticks as f64, "{report:?}");
    let named = report.ticks_of(|row| {
        row.object.as_deref() == Some("[vdso]") && row.function.as_deref().is_some_and(|name| name.contains("gettime"))
    });
    assert!(named as f64 > 0.9 * ticks as f64, "{report:?}");
}

#[test]
fn code_made_at_run_time_has_the_names_of_its_perf_map() {
    let scratch = Scratch::new();
    let program = scratch.build("jit");
    let recorded = Profil::record(&scratch, &["-F", "1999"]).launch(&program, &["0.6"]).run();
    for entry in fs::read_dir("/tmp").expect("/tmp").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_ours = name.starts_with("perf-") && name.ends_with(".map");
        if is_ours && fs::read_to_string(entry.path()).is_ok_and(|text| text.contains(" made_at_run_time\n")) {
            fs::remove_file(entry.path()).expect("the target's own file");
        }
    }
    assert!(recorded.report(By::Function).share("made_at_run_time") > 0.9, "{recorded:?}");
    // A process that tidies up takes the names with it, and no tick.
    let report = attached(&scratch, Running::start(&program, &["0.6", "unlink"])).0.report(By::Function);
    assert!(report.ticks > 1000, "{report:?}");
}

#[test]
fn a_file_deleted_while_it_runs_has_names() {
    let scratch = Scratch::new();
    let program = scratch.build("shares");
    let target = Running::start(&program, &["0.6"]);
    fs::remove_file(&program).expect("our own file");
    let (recorded, truth) = attached(&scratch, target);
    let report = recorded.report(By::Function);
    for function in ["sixty", "thirty"] {
        let share = truth.of(function) / truth.of("all");
        assert!((report.share(function) - share).abs() < 0.05, "{function}: {share:.3} true: {report:?}");
    }
}

#[test]
fn a_file_replaced_while_it_runs_is_not_named_by_its_successor() {
    let scratch = Scratch::new();
    let program = scratch.build("shares");
    let target = Running::start(&program, &["0.6"]);
    fs::remove_file(&program).expect("our own file");
    let other = scratch.build_as("places", "other", &[]);
    fs::rename(other, &program).expect("our own files");
    let (recorded, truth) = attached(&scratch, target);
    let report = recorded.report(By::Function);
    assert_eq!(report.in_function("many_places"), 0, "{report:?}");
    let share = truth.of("sixty") / truth.of("all");
    assert!((report.share("sixty") - share).abs() < 0.05, "{share:.3} true: {report:?}");
}

#[test]
fn go_s_pprof_reads_the_file_and_agrees() {
    const TEST: &str = "go_s_pprof_reads_the_file_and_agrees";
    if !feature::has_program(TEST, "go") {
        return;
    }
    let scratch = Scratch::new();
    let recorded = Profil::record(&scratch, &["-F", "1999"]).launch(scratch.build("shares"), &["0.6"]).run();
    let report = recorded.report(By::Function);
    let mut pprof = Command::new("go");
    pprof.args(["tool", "pprof", "-top", "-symbolize=none", "-nodefraction=0", "-sample_index=0"]);
    let output = pprof.arg(&recorded.file).env("HOME", scratch.path("")).output().expect("go runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for function in ["sixty", "thirty", "ten"] {
        let line = text.lines().find(|line| line.trim_end().ends_with(&format!(" {function}"))).expect(&text);
        let flat: u64 = line.split_whitespace().next().expect("a number").parse().expect(line);
        assert_eq!(flat, report.in_function(function), "{line}");
    }
}

/// Check that what is mapped while the kernel has no room to tell of it has names all the same.
#[test]
fn code_mapped_in_a_burst_of_thirty_thousand_mappings_has_names() {
    let scratch = Scratch::new();
    let library = scratch.build_as("plugin", "libplugin.so", &["-shared", "-fPIC"]);
    let library = library.to_str().expect("UTF-8");
    let target = Running::start(scratch.build("burst"), &[library, "0.7", "30000"]);
    let (recorded, truth) = attached(&scratch, target);
    assert!(recorded.stderr.contains("of mappings lost"), "the kernel had room for all: {}", recorded.stderr);
    let report = recorded.report(By::Function);
    let ticks =
        report.ticks_of(|row| row.object.as_deref() == Some(library) && row.function.as_deref() == Some("burn"));
    let due = truth.of("after") * report.hz.expect("the profile says its rate");
    assert!(ticks as f64 > 0.95 * due, "{ticks} of {due}: {report:?}");
}

#[test]
fn libraries_that_take_turns_at_one_address_are_told_of_and_lose_no_tick() {
    let scratch = Scratch::new();
    let build = |name: &str| {
        let flag = format!("-DNAME={name}");
        scratch.build_as("turn", &format!("lib{name}.so"), &["-shared", "-fPIC", &flag]).display().to_string()
    };
    let (first, second) = (build("turn_of_a"), build("turn_of_b"));
    let target = Running::start(scratch.build("replaced"), &[first.as_str(), second.as_str(), "0.3", "6"]);
    let (recorded, truth) = attached(&scratch, target);
    assert_eq!(truth.of("moved"), 0.0, "the second library is loaded where the first one was");
    assert!(recorded.stderr.contains("code was mapped over other code"), "{}", recorded.stderr);
    assert!(!recorded.stderr.contains("stale") && !recorded.stderr.contains("fault of profil"), "{}", recorded.stderr);
    let report = recorded.report(By::Function);
    assert!(report.rows.iter().all(|row| !row.object.as_deref().unwrap_or_default().contains("stale")), "{report:?}");
    // Ticks of a moment around each change may be shown at either.
    let ticks = report.in_function("turn_of_a") + report.in_function("turn_of_b");
    let due = (truth.of("first") + truth.of("second")) * report.hz.expect("the profile says its rate");
    assert!(ticks as f64 > 0.95 * due, "{ticks} of {due}: {report:?}");
    let ratio = report.ratio(truth.of("cpu"));
    assert!((ratio - 1.0).abs() < 0.02 + 3.0 / (report.ticks as f64).sqrt(), "{ratio:.3}: {report:?}");
}
