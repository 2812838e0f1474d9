//! The service goes on with the capabilities that serving takes, and no others; the command of `profil run` has all of its
//! own.

use std::fs;
use std::process::{Command, Stdio};

use profil_tests::patience::until;
use profil_tests::{Daemon, Scratch, feature, profil};

/// CAP_KILL, CAP_SETGID, CAP_SETUID, CAP_SETPCAP, CAP_SYS_PTRACE and CAP_BPF.
const ALWAYS: u64 = 1 << 5 | 1 << 6 | 1 << 7 | 1 << 8 | 1 << 19 | 1 << 39;

/// CAP_DAC_OVERRIDE and CAP_SYS_ADMIN.
const AT_TIMES: u64 = 1 << 1 | 1 << 21;

/// A line of `/proc/PID/status`, in hexadecimal.
fn field(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(":\t"));
    u64::from_str_radix(line.unwrap_or_else(|| panic!("no {name} in {status}")), 16).expect("a number")
}

#[track_caller]
fn assert_reduced(status: &str) {
    let fields = ["CapEff", "CapPrm", "CapBnd", "CapInh", "CapAmb", "NoNewPrivs"];
    assert_eq!(
        fields.map(|name| (name, field(status, name))),
        [
            ("CapEff", ALWAYS),
            ("CapPrm", ALWAYS | AT_TIMES),
            ("CapBnd", ALWAYS | AT_TIMES),
            ("CapInh", 0),
            ("CapAmb", 0),
            ("NoNewPrivs", 1)
        ]
    );
}

#[test]
fn the_daemon_keeps_only_the_capabilities_that_serving_takes() {
    let scratch = Scratch::new();
    let daemon = Daemon::start(&scratch);
    // Each thread has its own: those that look at callers too.
    let threads = fs::read_dir(format!("/proc/{}/task", daemon.pid())).expect("the service runs");
    for thread in threads {
        let status = thread.expect("it stays").path().join("status");
        assert_reduced(&fs::read_to_string(status).expect("the service runs"));
    }
    daemon.stop();
}

#[test]
fn the_service_of_run_keeps_only_the_capabilities_that_serving_takes_and_the_command_has_all() {
    let script = "grep -v Threads /proc/self/status; \
                  until grep -q 'NoNewPrivs:.1' /proc/$PPID/status; do :; done; \
                  for thread in /proc/$PPID/task/*/status; do echo THREAD; cat $thread; done";
    let output =
        Command::new(profil::binary()).args(["run", "-q", "--", "sh", "-c", script]).output().expect("profil runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let (command, threads) = text.split_once("THREAD\n").expect("both");
    threads.split("THREAD\n").for_each(assert_reduced);
    let own = fs::read_to_string("/proc/self/status").expect("own status");
    for name in ["CapEff", "CapPrm", "CapBnd", "NoNewPrivs"] {
        assert_eq!(field(command, name), field(&own, name), "{name}");
    }
}

#[test]
fn a_command_of_another_user_is_ended_by_the_reduced_service() {
    const TEST: &str = "a_command_of_another_user_is_ended_by_the_reduced_service";
    if !feature::has_program(TEST, "setpriv") {
        return;
    }
    let mut command = Command::new(profil::binary());
    command.args(["run", "-q", "--", "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "sleep", "60"]);
    let mut child = command.stdin(Stdio::null()).spawn().expect("profil runs");
    until("the command is another user's", || {
        let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", child.id())).ok()?;
        let status = fs::read_to_string(format!("/proc/{}/status", children.trim())).ok()?;
        (status.starts_with("Name:\tsleep") && status.contains("Uid:\t65534")).then_some(())
    });
    // SAFETY: the child has not been waited for, so the PID is its own.
    unsafe { libc::kill(child.id() as i32, libc::SIGTERM) };
    assert_eq!(child.wait().expect("a child can be waited for").code(), Some(128 + libc::SIGTERM));
}
