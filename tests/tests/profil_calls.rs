//! Calls of profil(3) that turn it on and off: what holds when they return, wherever they come from.

use std::fs;
use std::path::Path;

use profil_tests::{Run, Running, Scratch, Truth, patience};

const HZ: u32 = 1000;

fn told(convention: &str, what: &str) -> Truth {
    let scratch = Scratch::new();
    Run::at(HZ, convention).tell(scratch.build("calls"), &[what])
}

/// Checks that profiling works as if nothing had happened.
fn assert_counts(truth: &Truth) {
    assert_eq!((truth.of("on"), truth.of("off")), (0.0, 0.0), "{truth:?}");
    let counted = truth.of("counted");
    assert!((280.0..320.0).contains(&counted), "300 ticks are due: {truth:?}");
}

#[test]
fn after_off_every_tick_before_it_is_there_and_none_comes_later() {
    for convention in ["bsd", "linux", "clix", "glibc"] {
        let truth = told(convention, "final_off");
        assert_eq!(truth.of("late"), 0.0, "{convention}: {truth:?}");
        let (counted, due) = (truth.of("counted"), truth.of("used") * f64::from(HZ));
        assert!((counted / due - 1.0).abs() < 0.05, "{convention}: {counted} of {due:.0}");
    }
}

#[test]
fn calls_in_a_signal_handler_that_interrupts_calls_do_not_deadlock() {
    for convention in ["glibc", "bsd"] {
        let truth = told(convention, "handler");
        assert_eq!(truth.of("failed"), 0.0, "{truth:?}");
        assert_counts(&truth);
    }
}

#[test]
fn a_jump_out_of_a_call_does_no_harm_to_the_next() {
    for convention in ["glibc", "bsd"] {
        let truth = told(convention, "jumps");
        assert_eq!(truth.of("failed"), 0.0, "{truth:?}");
        assert_counts(&truth);
    }
}

#[test]
fn a_process_whose_first_thread_has_ended_is_profiled_on() {
    let truth = told("glibc", "leader_ends");
    assert_eq!(truth.of("off"), 0.0);
    assert!((270.0..=320.0).contains(&truth.of("counted")), "300 ticks are due: {truth:?}");
}

#[test]
fn threads_that_call_at_the_same_time_leave_profiling_in_order() {
    let truth = told("glibc", "racing");
    assert_eq!(truth.of("failed"), 0.0);
    assert_counts(&truth);
}

#[test]
fn a_process_may_end_while_its_threads_are_inside_calls() {
    let scratch = Scratch::new();
    let target = scratch.build("calls");
    for _ in 0..5 {
        Run::at(HZ, "glibc").tell(&target, &["exit"]);
    }
}

#[test]
fn errno_stays_and_a_call_is_no_cancellation_point() {
    let truth = told("glibc", "quiet");
    assert_eq!((truth.of("changed"), truth.of("cancelled")), (0.0, 0.0));
}

/// Files, mappings, threads and children of a process.
fn held(pid: u32) -> [usize; 4] {
    let entries = |name: &str| fs::read_dir(format!("/proc/{pid}/{name}")).expect("it runs").count();
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).expect("it runs");
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).expect("it runs");
    [entries("fd"), maps.lines().count(), entries("task"), children.split_whitespace().count()]
}

/// What a target tells before it says that it is done, and waits.
fn told_until_done(target: &mut Running) -> Truth {
    let mut told = String::new();
    loop {
        match target.line() {
            line if line == "done" => return Truth::read(&told),
            line => told = format!("{told}{line}\n"),
        }
    }
}

fn resident_kib(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

#[test]
fn a_thousand_starts_and_stops_leave_nothing_behind_on_either_side() {
    let scratch = Scratch::new();
    let mut target = Running::of(Run::at(100, "glibc").of(scratch.build("calls"), &["thousand"]));
    let service = target.pid();
    let (before, resident_before) = (held(service), resident_kib(service));
    target.go();
    let truth = told_until_done(&mut target);
    // Bins that are kept for the next call: how many depends on how fast calls come, not on how many have come.
    let after = held(service);
    assert!(after.iter().zip(before).all(|(after, before)| *after < before + 50), "{before:?} became {after:?}");
    let grown_kib = resident_kib(service).saturating_sub(resident_before);
    assert!(grown_kib < 1024, "the service has grown by {grown_kib} KiB: 1 KiB a call");
    target.go();
    for name in ["fds", "maps", "threads", "pages"] {
        assert_eq!(truth.of(name), 0.0, "{name} of the target: {truth:?}");
    }
    assert!(target.finish().0.success());
}

#[test]
fn profiled_children_that_end_without_a_word_leave_nothing_in_the_service() {
    let scratch = Scratch::new();
    for convention in ["bsd", "clix"] {
        let mut target = Running::of(Run::at(HZ, convention).of(scratch.build("calls"), &["children"]));
        let service = target.pid();
        let before = held(service);
        target.go();
        assert_eq!(told_until_done(&mut target).of("failed"), 0.0, "{convention}");
        patience::until("the service has let go of the children", || {
            held(service).iter().zip(before).all(|(now, before)| *now < before + 50).then_some(())
        });
        target.go();
        let (status, truth) = target.finish();
        assert!(status.success());
        assert_eq!(truth.of("off"), 0.0, "{convention}: and the parent is served on");
    }
}

#[test]
fn a_hundred_and_twenty_eight_callers_at_once_are_all_served() {
    let scratch = Scratch::new();
    let ran = Run::at(HZ, "glibc").launch(scratch.build("calls"), &["crowd"]);
    let truth = ran.truth();
    assert_eq!((truth.of("failed"), truth.of("by_libc")), (0.0, 0.0), "{ran:?}");
}

#[test]
fn a_run_that_is_killed_leaves_nothing_behind_once_another_has_come() {
    let command = Run::at(HZ, "glibc").of("sh", &["-c", "echo ready; echo $PROFIL_SOCKET; read nothing"]);
    let mut killed = Running::of(command);
    let socket = killed.line();
    let folder = Path::new(&socket).parent().expect("a folder of its own").to_owned();
    assert!(folder.exists());
    drop(killed);
    Run::at(HZ, "glibc").launch("true", &[] as &[&str]);
    assert!(!folder.exists(), "{}", folder.display());
}

#[test]
fn a_rate_that_no_call_can_have_is_refused() {
    let ran = Run::at(10_001, "glibc").launch("true", &[] as &[&str]);
    assert_eq!(ran.status.code(), Some(2), "{ran:?}");
    assert!(ran.stderr.contains("gets at most 10000"), "{ran:?}");
}
