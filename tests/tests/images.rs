//! A PID is not a program: exec, PIDs that are used again, and PID namespaces.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use profil_tests::{By, Profil, Report, Running, Scratch, feature};

/// Ticks of each image of a PID, in the order of the images.
fn images_of(report: &Report, pid: u32) -> Vec<u64> {
    let mut rows: Vec<_> = report.rows.iter().filter(|row| row.pid == Some(pid)).collect();
    rows.sort_by_key(|row| row.generation);
    rows.iter().map(|row| row.ticks).collect()
}

#[test]
fn an_exec_in_mid_run_makes_two_images() {
    let scratch = Scratch::new();
    let mut target = Running::start(scratch.build("family"), &["again", "0.7"]);
    let pid = target.pid();
    let recording = Profil::record(&scratch, &["-F", "1999", "-p", &pid.to_string()]).start();
    target.go();
    let (status, _) = target.finish();
    assert!(status.success(), "{status}");
    let recorded = recording.wait();
    let report = recorded.report(By::Process);
    let images = images_of(&report, pid);
    assert_eq!(images.len(), 2, "{report:?}");
    // 0.7 s of CPU time in each.
    for ticks in images {
        assert!((1300..1600).contains(&ticks), "{report:?}");
    }
}

/// Check that a process has its own name and that of what it execs, whichever of its threads ticks and execs.
#[test]
fn a_process_is_not_called_by_the_name_of_its_thread() {
    let scratch = Scratch::new();
    let short = scratch.build("short");
    let words = ["0.5", short.to_str().expect("UTF-8"), "0.5"];
    let program = scratch.build("worker_exec");
    for of_all in [false, true] {
        let mut target = Running::start(&program, &words);
        let pid = target.pid().to_string();
        let targets = if of_all { vec!["-a"] } else { vec!["-p", &pid] };
        let recording = Profil::record(&scratch, &[&["-F", "1999"], &targets[..]].concat()).start();
        target.go();
        let (status, _) = target.finish();
        assert!(status.success(), "{status}");
        let recorded = if of_all { recording.stop() } else { recording.wait() };
        let report = recorded.report(By::Process);
        let mut rows: Vec<_> =
            report.rows.iter().filter(|row| row.pid.map(|pid| pid.to_string()) == Some(pid.clone())).collect();
        rows.sort_by_key(|row| row.generation);
        let names: Vec<_> = rows.iter().map(|row| row.process.as_deref().unwrap_or_default()).collect();
        assert_eq!(names, ["worker_exec", "short"], "{report:?}");
        assert!(rows.iter().all(|row| row.ticks > 800), "{report:?}");
    }
}

/// Ticks of the child that a user without rights makes exec a program of that mode.
fn executed_as_nobody(mode: u32) {
    let test = format!("an_exec_of_an_image_of_mode_{mode:o}_is_still_counted");
    if !feature::has_program(&test, "setpriv") {
        return;
    }
    let scratch = Scratch::new();
    let short = scratch.build("short");
    fs::set_permissions(&short, fs::Permissions::from_mode(mode)).expect("chmod of our own file");
    let target = scratch.build("family");
    let short = short.to_str().expect("UTF-8");
    // The path of the child's program is the third argument; its own argument is the second.
    let words =
        ["--reuid=65534", "--regid=65534", "--clear-groups", target.to_str().expect("UTF-8"), "exec", "0.7", short];
    let recorded = Profil::record(&scratch, &["-F", "1999"]).launch("setpriv", &words).run();
    let (report, truth) = (recorded.report(By::Process), recorded.truth());
    let child = images_of(&report, truth.of("child") as u32);
    // The fork's own image may have a tick or two before the exec.
    assert!(child.last().is_some_and(|ticks| *ticks > 600), "{report:?} {recorded:?}");
    let ratio = report.ratio(truth.of("cpu"));
    assert!(ratio > 0.95, "{ratio:.3}: {report:?}");
    let by_object = recorded.report(By::Object);
    assert!(by_object.ticks_of(|row| row.object.as_deref() == Some(short)) > 600, "{by_object:?}");
}

#[test]
fn an_exec_of_a_setuid_image_is_still_counted() {
    executed_as_nobody(0o4755);
}

#[test]
fn an_exec_of_an_image_that_nobody_may_read_is_still_counted() {
    executed_as_nobody(0o711);
}

#[test]
fn a_pid_that_is_used_again_is_another_process() {
    let scratch = Scratch::new();
    let recorded = Profil::record(&scratch, &["-F", "1999"]).launch(scratch.build("reuse"), &["0.5"]).run();
    let (report, truth) = (recorded.report(By::Process), recorded.truth());
    assert_eq!(truth.of("first"), truth.of("second"), "the kernel gives the PID that is asked for");
    let images = images_of(&report, truth.of("first") as u32);
    assert_eq!(images.len(), 2, "{report:?}");
    for ticks in images {
        assert!((900..1200).contains(&ticks), "{report:?}");
    }
    let report = recorded.report(By::Function);
    for function in ["in_first", "in_second"] {
        assert!(report.in_function(function) > 900, "{report:?}");
    }
}

#[test]
fn a_pid_used_again_by_a_stranger_is_not_counted() {
    let scratch = Scratch::new();
    let mut target = Running::start(scratch.build("reuse"), &["0.5", "apart"]);
    let first: u32 = target.line().strip_prefix("first ").expect("its PID").parse::<f64>().expect("a PID") as u32;
    let recording = Profil::record(&scratch, &["-F", "1999", "-p", &first.to_string()]).start();
    target.go();
    let (_, truth) = target.finish();
    let recorded = recording.stop();
    assert_eq!(truth.of("second") as u32, first, "the kernel gives the PID that is asked for");
    let report = recorded.report(By::Function);
    assert_eq!(report.in_function("in_second"), 0, "{report:?}");
    assert!(report.in_function("in_first") > 900, "{report:?}");
}

#[test]
fn processes_in_nested_pid_namespaces_are_known_by_the_numbers_of_the_user() {
    const TEST: &str = "processes_in_nested_pid_namespaces_are_known_by_the_numbers_of_the_user";
    if !feature::has_program(TEST, "unshare") {
        return;
    }
    let scratch = Scratch::new();
    let target = scratch.build("modes");
    let namespace = ["unshare", "--pid", "--fork", "--mount-proc"];
    // profil in a namespace, its target in a child of that one.
    let target = target.to_str().expect("UTF-8");
    let words = [&namespace[1..], &[target, "user", "0.7"]].concat();
    let recorded = Profil::by(&namespace, &scratch, &["-F", "1999"]).launch("unshare", &words).run();
    assert_eq!(recorded.code(), 0, "{recorded:?}");
    let (report, truth) = (recorded.report(By::Object), recorded.truth());
    assert!(report.ticks_of(|row| row.object.as_deref() == Some(target)) > 1300, "{report:?}");
    assert!(report.ratio(truth.of("cpu")) > 0.95, "{report:?}");
    assert_eq!(truth.of("pid"), 1.0, "it is the first process of its own namespace");
    let by_process = recorded.report(By::Process);
    let modes = by_process.rows.iter().find(|row| row.process.as_deref() == Some("modes")).expect("a row of it");
    assert!(modes.pid.is_some_and(|pid| pid > 1 && pid < 50), "numbered as profil's own namespace does: {modes:?}");
}

#[test]
fn a_process_in_a_child_namespace_can_be_attached_to() {
    const TEST: &str = "a_process_in_a_child_namespace_can_be_attached_to";
    if !feature::has_program(TEST, "unshare") {
        return;
    }
    let scratch = Scratch::new();
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--mount-proc"]).arg(scratch.build("modes")).args(["user", "0.7"]);
    let mut target = Running::of(command);
    let parent = target.pid();
    let children = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).expect("children of unshare");
    let pid = children.trim();
    let recording = Profil::record(&scratch, &["-F", "1999", "-p", pid]).start();
    target.go();
    let (_, truth) = target.finish();
    let report = recording.wait().report(By::Process);
    assert!(report.ratio(truth.of("cpu")) > 0.95, "{report:?}");
    assert_eq!(report.rows[0].pid.map(|pid| pid.to_string()).as_deref(), Some(pid), "{report:?}");
}
