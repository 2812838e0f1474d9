//! What cannot be done is refused with the right exit status and in words that say why and what to do.

use std::process::{Command, Output};

use profil_tests::{Running, Scratch, feature, profil};

fn run(arguments: &[&str]) -> (i32, String) {
    let scratch = Scratch::new();
    told(Command::new(profil::binary()).current_dir(scratch.path("")).args(arguments).output())
}

fn told(output: std::io::Result<Output>) -> (i32, String) {
    let output = output.expect("profil runs");
    (output.status.code().expect("an exit status"), String::from_utf8(output.stderr).expect("UTF-8"))
}

#[test]
fn call_graphs_are_a_usage_error_that_names_who_has_them() {
    let (status, text) = run(&["record", "-g", "-p", "1"]);
    assert_eq!(status, 2, "{text}");
    assert!(text.contains("perf record -g"), "{text}");
}

#[test]
fn two_kinds_of_targets_are_a_usage_error() {
    for arguments in [
        &["record", "-p", "1", "-a"] as &[_],
        &["record", "-t", "1", "-p", "1"],
        &["record", "-a", "--", "true"],
        &["record"],
    ] {
        let (status, text) = run(arguments);
        assert_eq!(status, 2, "{arguments:?}: {text}");
    }
}

#[test]
fn what_is_no_process_is_named_for_what_it_is() {
    // PID 2 is kthreadd wherever the kernel's threads are to be seen.
    if std::fs::read_to_string("/proc/2/comm").is_ok_and(|comm| comm == "kthreadd\n") {
        let (status, text) = run(&["record", "-p", "2", "-d", "100ms"]);
        assert_eq!(status, 1, "{text}");
        assert!(text.contains("kernel thread"), "{text}");
    }
    let (status, text) = run(&["record", "-p", "4194300", "-d", "100ms"]);
    assert_eq!(status, 1, "{text}");
    assert!(text.contains("4194300"), "{text}");
}

#[test]
fn a_zombie_is_named_as_one() {
    let mut child = Command::new("true").spawn().expect("true runs");
    let pid = child.id();
    profil_tests::patience::until("the child is a zombie", || {
        std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| stat.contains(") Z ")).then_some(())
    });
    let (status, text) = run(&["record", "-p", &pid.to_string(), "-d", "100ms"]);
    child.wait().expect("a child can be waited for");
    assert_eq!(status, 1, "{text}");
    assert!(text.contains(&pid.to_string()) && (text.contains("zombie") || text.contains("ended")), "{text}");
}

#[test]
fn a_thread_given_as_a_process_is_named_as_one() {
    let scratch = Scratch::new();
    let target = Running::start(scratch.build("threads"), &["1", "1", "alike"]);
    let pid = target.pid();
    let tid = std::fs::read_dir(format!("/proc/{pid}/task"))
        .expect("its threads")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("a tid"))
        .find(|tid| *tid != pid.to_string())
        .expect("a second thread");
    let (status, text) = run(&["record", "-p", &tid, "-d", "100ms"]);
    assert_eq!(status, 1, "{text}");
    assert!(text.contains("thread") && text.contains(&pid.to_string()), "names the process: {text}");
}

#[test]
fn a_user_without_rights_is_told_which_are_missing() {
    const TEST: &str = "a_user_without_rights_is_told_which_are_missing";
    if !feature::has_program(TEST, "setpriv") {
        return;
    }
    // The program's own folder may be closed to others.
    let scratch = Scratch::new();
    let copy = scratch.path("profil");
    std::fs::copy(profil::binary(), &copy).expect("a copy of the program");
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&copy);
    command.args(["record", "-a", "-d", "100ms", "-o", "/dev/null"]);
    let (status, text) = told(command.output());
    assert_eq!(status, 3, "{text}");
    assert!(text.contains("CAP_"), "{text}");
}

#[test]
fn a_rate_that_the_kernel_does_not_allow_is_refused_by_the_name_of_its_limit() {
    let path = "/proc/sys/kernel/perf_event_max_sample_rate";
    let limit: u64 = std::fs::read_to_string(path).expect("a sysctl").trim().parse().expect("a number");
    let (status, text) = run(&["record", "-F", &(limit + 1).to_string(), "-p", "1", "-d", "100ms"]);
    assert_eq!(status, 1, "{text}");
    assert!(text.contains("perf_event_max_sample_rate"), "{text}");
}
