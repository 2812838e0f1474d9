//! What cannot be done is refused with the right exit status and in words that say why and what to do.

use std::path::Path;
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
    let as_nobody = |program: &Path| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(program);
        command
    };
    let ends = scratch.build("ends");
    let of_root = Running::start(&ends, &["0.1", "run"]);
    let mut command = as_nobody(&ends);
    command.args(["0.1", "run"]);
    let of_nobody = Running::of(command);
    let (root_s, nobody_s) = (of_root.pid().to_string(), of_nobody.pid().to_string());
    for (arguments, missing) in [
        (&["record", "-a", "-d", "100ms", "-o", "/dev/null"] as &[_], "CAP_"),
        (&["attach", "-d", "100ms", "-p", &root_s], "CAP_SYS_PTRACE"),
        (&["attach", "-d", "100ms", "-p", &nobody_s], "CAP_BPF"),
        (&["daemon", "--service-only", "--socket", "/nowhere/socket"], "CAP_BPF"),
    ] {
        let (status, text) = told(as_nobody(&copy).args(arguments).output());
        assert_eq!(status, 3, "{arguments:?}: {text}");
        assert!(text.contains(missing) && text.contains("; "), "with what to do: {arguments:?}: {text}");
    }
}

#[test]
fn values_that_are_none_are_usage_errors_before_anything_runs() {
    for (arguments, words) in [
        (&["--table-rows", "0", "--", "true"] as &[_], "0 rows"),
        (&["--table-rows", "4000000000", "--", "true"], "4000000000 rows"),
        (&["-C", "60000", "--", "true"], "online"),
        (&["-C", "60000", "-a"], "online"),
        (&["-F", "0", "--", "true"], "0 Hz"),
        (&["attach", "-p", "1", "-F", "0"], "0 Hz"),
        (&["attach", "-p", "1", "--width", "3"], "width 3"),
        (&["recrod", "-p", "1"], "'record'"),
        (&["python3", "work.py"], "'profil -- python3'"),
    ] {
        let (status, text) = run(arguments);
        assert_eq!(status, 2, "{arguments:?}: {text}");
        assert!(text.contains(words), "{arguments:?}: {text}");
    }
}

#[test]
fn the_cpus_that_are_online_are_named() {
    let online = std::fs::read_to_string("/sys/devices/system/cpu/online").expect("the list of CPUs");
    let (_, text) = run(&["-C", "0,60000", "-a"]);
    assert!(text.contains("60000: not online") && text.contains(online.trim()), "{text}");
}

#[test]
fn a_thread_that_is_not_there_is_called_a_thread() {
    let (status, text) = run(&["record", "-t", "4194300", "-d", "100ms"]);
    assert_eq!(status, 1, "{text}");
    assert!(text.contains("thread 4194300") && !text.contains("process"), "{text}");
}

#[test]
fn a_lack_of_descriptors_names_its_limit() {
    let scratch = Scratch::new();
    let target = Running::start(scratch.build("ends"), &["0.1", "run"]);
    let pid = target.pid().to_string();
    for limit in [16, 24, 32] {
        for arguments in [&["record", "-d", "100ms", "-p", &pid] as &[_], &["attach", "-d", "100ms", "-p", &pid]] {
            let script = format!("ulimit -n {limit}; exec \"$@\"");
            let mut command = Command::new("sh");
            command.args(["-c", &script, "sh"]).arg(profil::binary()).args(arguments).current_dir(scratch.path(""));
            let (status, text) = told(command.output());
            // Whether the larger ones do is a matter of the number of CPUs.
            if limit == 16 || status == 1 {
                assert_eq!(status, 1, "{limit} {arguments:?}: {text}");
                assert!(text.contains(&format!("RLIMIT_NOFILE is {limit}")), "{limit} {arguments:?}: {text}");
                assert!(text.contains("ulimit -n") && !text.contains("mount"), "{limit} {arguments:?}: {text}");
            }
        }
    }
}

/// Check that profil does not take the processes of the host for those of its own namespace.
#[test]
fn a_proc_of_another_pid_namespace_is_refused_and_told_by_doctor() {
    const TEST: &str = "a_proc_of_another_pid_namespace_is_refused_and_told_by_doctor";
    if !feature::has_program(TEST, "unshare") {
        return;
    }
    let scratch = Scratch::new();
    let inside = |arguments: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork"]).arg(profil::binary()).args(arguments).current_dir(scratch.path(""));
        command.output().expect("unshare runs")
    };
    for (arguments, expected) in [
        (&["-d", "100ms", "-p", "1"] as &[_], 1),
        (&["-d", "100ms", "-t", "1"], 1),
        (&["-d", "100ms", "-a"], 1),
        (&["attach", "-d", "100ms", "-p", "1"], 1),
        (&["--", "true"], 125),
    ] {
        let (status, text) = told(Ok(inside(arguments)));
        assert_eq!(status, expected, "{arguments:?}: {text}");
        assert!(text.contains("another PID namespace") && text.contains("mount -t proc"), "{arguments:?}: {text}");
    }
    for arguments in [&["doctor"] as &[_], &["doctor", "-p", "1"]] {
        let output = inside(arguments);
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains("another PID namespace") && text.contains("mount -t proc"), "{arguments:?}: {text}");
        // What is said of our own user namespace is about us, and not about the process that has our number outside.
        assert!(!text.contains("rootless"), "{text}");
    }
}

#[test]
fn a_rate_that_the_kernel_does_not_allow_is_refused_by_the_name_of_its_limit() {
    let path = "/proc/sys/kernel/perf_event_max_sample_rate";
    let limit: u64 = std::fs::read_to_string(path).expect("a sysctl").trim().parse().expect("a number");
    let (status, text) = run(&["record", "-F", &(limit + 1).to_string(), "-p", "1", "-d", "100ms"]);
    assert_eq!(status, 1, "{text}");
    assert!(text.contains("perf_event_max_sample_rate"), "{text}");
}

#[test]
fn names_in_errors_do_nothing_to_a_terminal() {
    const NAME: &str = "no\u{1b}[31m\u{202e}such";
    for arguments in [
        &["report", NAME] as &[_],
        &["annotate", "main", NAME],
        &["diff", NAME, NAME],
        &["plot", NAME],
        &["export", "-f", "folded", NAME],
        &["record", "-q", "--", NAME],
    ] {
        let (status, text) = run(arguments);
        assert!(status != 0 && text.contains("[31m"), "{arguments:?}: {text}");
        assert!(!text.contains(['\u{1b}', '\u{202e}']), "{arguments:?}: {text:?}");
    }
}
