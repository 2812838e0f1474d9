//! What a program gets where there is no service, or none that answers as it should.

mod support;

use std::os::unix::process::CommandExt as _;
use std::process::Command;

use support::program::{Programs, Run, is_root};
use support::service::{Answer, Greeting, ON, Service, obliging};

/// A user that is neither root nor, as a rule, anybody.
const NOBODY: u32 = 65_534;

#[test]
fn without_a_service_libc_counts() {
    let lines = Run::calls().args("timer on-all timer burn off timer counted").lines();
    let wanted = ["timer: 0", "on-all: 0 77", "timer: 10000", "off: 0 77", "timer: 0", "counted: 1"];
    assert_eq!(lines, wanted);
}

#[test]
fn with_a_service_no_timer_is_armed() {
    let service = Service::start(obliging);
    let run = Run::calls().env("PROFIL_SOCKET", service.socket());
    assert_eq!(run.args("on timer off timer").lines(), ["on: 0 77", "timer: 0", "off: 0 77", "timer: 0"]);
}

#[test]
fn sprofil_of_libc_is_turned_off_as_well() {
    let run = Run::calls();
    let lines = run.args("sprofil 1 0 timer off timer").lines();
    assert_ne!(lines[1], "timer: 0");
    assert_eq!(lines[2..], ["off: 0 77", "timer: 0"]);
}

#[test]
fn what_the_convention_calls_off_is_off_to_libc() {
    for (convention, off) in [("bsd", "profil buf 512 0 0"), ("clix", "profil buf 512 0 1"), ("linux", "off")] {
        let run = Run::calls().env("PROFIL_CONVENTION", convention);
        let lines = run.args(&format!("on timer {off} timer")).lines();
        assert_eq!(lines[1], "timer: 10000", "{convention}");
        assert_eq!(lines[3], "timer: 0", "{convention}");
    }
}

#[test]
fn a_call_without_effect_has_none_on_libc() {
    let run = Run::calls().env("PROFIL_CONVENTION", "clix");
    assert_eq!(run.args("profil buf 0 0 2 timer").lines(), ["profil: 0 77", "timer: 0"]);
}

#[test]
fn a_constructor_may_call_before_ours_has_run() {
    let programs = Programs::new();
    let early = programs.build("early", &["-shared", "-fPIC"]);
    // The loader runs the constructors of what it loaded last first.
    let preload = format!("{} {}", support::program::library().display(), early.display());
    assert_eq!(Run::calls().env("LD_PRELOAD", preload).args("off").lines(), ["early: 0 10000", "off: 0 77"]);
}

#[test]
fn one_line_says_why_libc_is_asked() {
    let run = Run::calls().env("PROFIL_DEBUG", "1").args("on");
    let stderr = String::from_utf8(run.output().stderr).expect("text");
    assert_eq!(stderr, "libprofil.so: no service, so libc is asked: errno 2\n");
    assert_eq!(Run::calls().args("on").output().stderr, b"");
}

#[test]
fn a_program_that_may_open_no_socket_is_left_to_libc() {
    let service = Service::start(obliging);
    let run = Run::calls().env("PROFIL_SOCKET", service.socket()).args("no-sockets on timer off timer");
    assert_eq!(run.lines(), ["on: 0 77", "timer: 10000", "off: 0 77", "timer: 0"]);
    let run = Run::calls().env("PROFIL_SOCKET", service.socket()).args("on no-sockets off");
    assert_eq!(run.lines(), ["on: 0 77", "off: -1 1"]);
}

#[test]
fn a_path_too_long_for_a_socket_is_no_service() {
    let path = "/".repeat(200);
    let lines = Run::calls().env("PROFIL_SOCKET", path).args("on timer").lines();
    assert_eq!(lines, ["on: 0 77", "timer: 10000"]);
}

#[test]
fn a_service_that_greets_wrongly_is_none() {
    let next_version = b"PRFL\x02\0\0\0nonceyes";
    let garbage: [&[u8]; 5] = [b"x", &[0; 16], &[0xff; 64], &[0x41; 4096], next_version];
    let greetings = garbage.into_iter().map(Greeting::Bytes).chain([Greeting::Close]);
    for greeting in greetings {
        let service = Service::start_as(None, greeting, obliging);
        let run = Run::calls().env("PROFIL_SOCKET", service.socket());
        let lines = run.args("on timer off timer").lines();
        assert_eq!(lines, ["on: 0 77", "timer: 10000", "off: 0 77", "timer: 0"], "{greeting:?}");
    }
}

#[test]
fn a_service_that_breaks_off_leaves_the_program_to_libc_and_fails_its_off() {
    let answers: [fn() -> Answer; 4] = [
        || Answer::Close,
        || Answer::Bytes(vec![b'x']),
        || Answer::Bytes(vec![0; 24]),
        || Answer::Bytes(ON.to_bytes().into_iter().chain([0]).collect()),
    ];
    for answer in answers {
        let service = Service::start(move |_| answer());
        let run = Run::calls().env("PROFIL_SOCKET", service.socket());
        // Whether the service counts is not known: who must not have the buffer written to is told so.
        let errno = if matches!(answer(), Answer::Close) { 104 } else { 71 };
        let lines = run.args("on timer off timer").lines();
        assert_eq!(lines, ["on: 0 77", "timer: 10000", &format!("off: -1 {errno}"), "timer: 0"]);
    }
}

#[test]
fn off_fails_once_when_the_service_that_counted_is_gone() {
    let service = Service::start(obliging);
    let socket = service.socket();
    let run = Run::calls().env("PROFIL_SOCKET", &socket);
    let run = run.args(&format!("on unlink {} off off", socket.display()));
    assert_eq!(run.lines(), ["on: 0 77", "off: -1 2", "off: 0 77"]);
}

#[test]
fn a_busy_service_is_asked_again() {
    let service = Service::start_as(None, Greeting::Busy(20), obliging);
    let run = Run::calls().env("PROFIL_SOCKET", service.socket());
    assert_eq!(run.args("on timer").lines(), ["on: 0 77", "timer: 0"]);
    assert_eq!(service.received().len(), 1);
}

#[test]
fn a_service_that_hangs_costs_ten_seconds_and_then_libc_counts() {
    let service = Service::start_as(None, Greeting::Hang, obliging);
    let run = Run::calls().env("PROFIL_SOCKET", service.socket());
    let start = std::time::Instant::now();
    assert_eq!(run.args("on timer").lines(), ["on: 0 77", "timer: 10000"]);
    assert!(start.elapsed().as_secs() >= 10);
}

#[test]
fn off_times_out_when_the_service_does_not_answer() {
    let service = Service::start(|received| if received.turns_off() { Answer::Hang } else { Answer::Reply(ON) });
    let run = Run::calls().env("PROFIL_SOCKET", service.socket());
    assert_eq!(run.args("on off").lines(), ["on: 0 77", "off: -1 110"]);
}

#[test]
fn a_service_of_another_user_is_not_trusted() {
    if !is_root() {
        return;
    }
    let service = Service::start_as(Some(NOBODY), Greeting::Hello, obliging);
    let run = Run::calls().env("PROFIL_SOCKET", service.socket());
    assert_eq!(run.args("on timer").lines(), ["on: 0 77", "timer: 10000"]);
    assert_eq!(service.received().len(), 0);
}

#[test]
fn a_service_of_root_or_of_the_own_user_is_trusted() {
    if !is_root() {
        return;
    }
    let as_nobody = |command: &mut Command| {
        command.uid(NOBODY).gid(NOBODY);
    };
    let library = readable_library();
    for user in [None, Some(NOBODY)] {
        let service = Service::start_as(user, Greeting::Hello, obliging);
        let run = Run::calls().env("PROFIL_SOCKET", service.socket());
        let run = run.env("LD_PRELOAD", library.path().join("libprofil.so"));
        assert_eq!(run.with(as_nobody).args("on timer").lines(), ["on: 0 77", "timer: 0"], "{user:?}");
        assert_eq!(service.received().len(), 1);
    }
}

#[test]
fn a_set_uid_program_is_not_sent_to_the_service_of_its_caller() {
    if !is_root() {
        return;
    }
    let (programs, library) = (Programs::new(), readable_library());
    let service = Service::start_as(Some(NOBODY), Greeting::Hello, obliging);
    let (search, run_path) =
        (format!("-L{}", library.path().display()), format!("-Wl,-rpath,{}", library.path().display()));
    let program = programs.build("calls", &[&search, "-lprofil", &run_path]);
    let asked = |mode: u32| {
        std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(mode)).expect("chmod");
        let as_nobody = |command: &mut Command| {
            command.uid(NOBODY).gid(NOBODY);
        };
        let run = Run::bare(&program).env("PROFIL_SOCKET", service.socket()).env("PROFIL_DEBUG", "1").with(as_nobody);
        let output = run.args("on").output();
        assert!(output.status.success(), "{output:?}");
        (service.received().len(), output.stderr)
    };
    assert_eq!(asked(0o755).0, 1);
    let (calls, stderr) = asked(0o4755);
    assert_eq!((calls, stderr.as_slice()), (0, &b""[..]));
}

/// The library where any user can read it.
fn readable_library() -> tempfile::TempDir {
    let folder = tempfile::TempDir::with_prefix("profil-shim-").expect("a folder");
    let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder.path(), permissions).expect("our own folder");
    std::fs::copy(support::program::library(), folder.path().join("libprofil.so")).expect("a copy");
    folder
}
