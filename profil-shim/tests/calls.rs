//! What a service is told by profil(3) and sprofil(3), and what their callers get back.

mod support;

use std::fs::File;
use std::process::Command;

use profil_common::wire::{Area, CallKind, Reply, reply_flags};
use support::program::{Programs, Run};
use support::service::{Answer, OFF, ON, Received, Service, obliging};

/// Runs `programs/calls.c`: what it printed, and what the service received.
fn run(
    answer: impl FnMut(&Received) -> Answer + Send + 'static,
    settings: &[(&str, &str)],
    arguments: &str,
) -> (Vec<String>, Vec<Received>) {
    let service = Service::start(answer);
    let run = Run::calls().args(arguments).env("PROFIL_SOCKET", service.socket());
    let lines = settings.iter().fold(run, |run, (name, value)| run.env(name, value)).lines();
    (lines, service.received())
}

/// The addresses of buffer, wide and pages.
fn places(line: &str) -> [u64; 3] {
    let places = line.strip_prefix("where: ").expect("the line of `where`").split(' ');
    let places: Vec<_> = places.map(|place| u64::from_str_radix(&place[2..], 16).expect("an address")).collect();
    places.try_into().expect("three places")
}

#[test]
fn a_call_carries_the_arguments_of_profil() {
    let (lines, received) = run(obliging, &[], "where profil buf 512 0x401000 32821");
    assert_eq!(lines[1], "profil: 0 77");
    let [received] = &received[..] else { panic!("{received:?}") };
    let buffer = places(&lines[0])[0];
    assert_eq!(received.areas, [Area { buffer, bytes: 512, offset: 0x40_1000, scale: 32_821 }]);
    assert_eq!((received.kind(), received.call.width, received.call.flags), (CallKind::Profil, 2, 0));
    assert_eq!((received.call.convention, received.call.hz), (3, 100));
}

#[test]
fn each_convention_passes_arguments_on_as_they_are() {
    for (number, convention) in ["bsd", "linux", "clix", "glibc"].into_iter().enumerate() {
        let settings = [("PROFIL_CONVENTION", convention), ("PROFIL_HZ", "250")];
        let calls = "profil buf 512 0x1000 65535 profil buf 0 0 0 profil null 512 1 1 profil buf 4 0 0x20000";
        let (_, received) = run(obliging, &settings, calls);
        let areas: Vec<_> = received.iter().map(|received| received.areas[0]).collect();
        let rest: Vec<_> = areas.iter().map(|area| (area.buffer != 0, area.bytes, area.offset, area.scale)).collect();
        let wanted = [(true, 512, 0x1000, 65_535), (true, 0, 0, 0), (false, 512, 1, 1), (true, 4, 0, 0x2_0000)];
        assert_eq!(rest, wanted, "{convention}");
        for received in received {
            assert_eq!((received.call.convention as usize, received.call.hz), (number, 250), "{convention}");
        }
    }
}

#[test]
fn settings_out_of_range_are_the_defaults_and_named_with_debug() {
    let service = Service::start(obliging);
    let run = Run::calls().args("on").env("PROFIL_SOCKET", service.socket());
    let run = run.env("PROFIL_CONVENTION", "sysv").env("PROFIL_HZ", "10001").env("PROFIL_DEBUG", "");
    let stderr = String::from_utf8(run.output().stderr).expect("text");
    let [received] = &service.received()[..] else { panic!("one call") };
    assert_eq!((received.call.convention, received.call.hz), (3, 100));
    assert!(stderr.contains("PROFIL_CONVENTION") && stderr.contains("PROFIL_HZ"), "{stderr}");
    assert_eq!(stderr.lines().count(), 2, "{stderr}");
}

#[test]
fn the_errno_of_the_reply_is_the_callers() {
    let refuse = |_: &Received| Answer::Reply(Reply { errno: 22, ..OFF });
    assert_eq!(run(refuse, &[], "on off").0, ["on: -1 22", "off: -1 22"]);
}

#[test]
fn errno_is_kept_by_calls_that_succeed() {
    assert_eq!(run(obliging, &[], "on on off off").0, ["on: 0 77", "on: 0 77", "off: 0 77", "off: 0 77"]);
}

#[test]
fn sprofil_carries_every_entry_and_tells_the_period() {
    let answer = |_: &Received| Answer::Reply(Reply { period_ns: 1_003_009, ..ON });
    let (lines, received) = run(answer, &[("PROFIL_CONVENTION", "bsd")], "where sprofil 256 1 sprofil 3 2");
    assert_eq!(lines[1..], ["sprofil: 0 77 0.001003", "sprofil: 0 77 0.001003"]);
    let wide = places(&lines[0])[1];
    let area = |i: u64| Area { buffer: wide + 4 * i, bytes: 8 + i, offset: 0x1000 * i, scale: 65_536 - i };
    assert_eq!(received[0].areas, (0..256).map(area).collect::<Vec<_>>());
    assert_eq!(received[1].areas, (0..3).map(area).collect::<Vec<_>>());
    // PROF_UINT; PROF_FAST, which has no effect. Its convention is glibc, whatever that of profil is.
    let calls = received.iter().map(|received| (received.kind(), received.call.width, received.call.convention));
    assert_eq!(calls.collect::<Vec<_>>(), [(CallKind::Sprofil, 4, 3), (CallKind::Sprofil, 2, 3)]);
}

#[test]
fn sprofil_of_no_entries_turns_profiling_off() {
    let (lines, received) = run(obliging, &[], "sprofil 1 0 sprofil 0 0");
    assert_eq!(lines, ["sprofil: 0 77 0.010000", "sprofil: 0 77 0.010000"]);
    assert!(received[1].areas.is_empty() && received[1].kind() == CallKind::Sprofil);
}

#[test]
fn sprofil_refuses_what_cannot_be_without_asking() {
    let (lines, received) = run(obliging, &[], "sprofil 257 0 sprofil -1 0 sprofil 1 4 sprofil-fault");
    let refused = "sprofil: -1 22 -1.-00001";
    assert_eq!(lines, [refused, refused, refused, "sprofil-fault: -1 14"]);
    assert_eq!(received.len(), 0);
}

#[test]
fn a_program_that_closed_its_first_descriptors_is_served() {
    // Each call arrives whole: the service checks it. What the program prints meanwhile is not sent.
    let (lines, received) = run(obliging, &[], "close012");
    assert_eq!((lines, received.len()), (vec!["close012: 0".to_owned()], 200));
}

#[test]
fn a_thousand_calls_leak_no_descriptor() {
    assert_eq!(run(obliging, &[], "thousand").0, ["thousand: 0 0"]);
}

#[test]
fn descriptors_nobody_asked_for_are_closed() {
    let reply = Reply { flags: reply_flags::ON | reply_flags::ZERO_COPY, ..ON };
    let gift = move |_: &Received| Answer::WithDescriptor(reply, File::open("/dev/null").expect("a file").into());
    assert_eq!(run(gift, &[], "sprofil 0 0 thousand").0[1], "thousand: 0 0");
}

#[test]
fn a_handler_may_call_while_a_call_is_interrupted() {
    let (lines, received) = run(obliging, &[], "interrupt");
    // Every call arrives: none is given up because of a signal.
    assert_eq!(lines, [format!("interrupt: 0 {}", received.len())]);
}

#[test]
fn a_handler_may_leave_a_call_by_longjmp() {
    assert_eq!(run(obliging, &[], "leave off").0, ["leave: 0 77", "off: 0 77"]);
}

#[test]
fn valgrind_finds_nothing() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        return;
    }
    let service = Service::start(obliging);
    let calls = Run::calls().args("on on-pages sprofil 256 1 fork off").env("PROFIL_SOCKET", service.socket());
    let run = calls.env("PROFIL_CONVENTION", "bsd").below("valgrind", &["-q", "--error-exitcode=9", "--track-fds=no"]);
    let lines = run.lines();
    assert_eq!((lines.last().expect("lines").as_str(), service.received().len()), ("parent: 0", 6));
}

#[test]
fn threads_may_call_at_the_same_time() {
    let (lines, received) = run(obliging, &[], "threads");
    assert_eq!((lines, received.len()), (vec!["threads: 0".to_owned()], 400));
}

#[test]
fn a_call_is_no_cancellation_point() {
    assert_eq!(run(obliging, &[], "cancelled").0, ["cancelled: 0 77"]);
}

#[test]
fn a_program_linked_with_the_library_is_served() {
    let (programs, service) = (Programs::new(), Service::start(obliging));
    let folder = support::program::library().parent().expect("a folder").to_owned();
    let (search, run_path) = (format!("-L{}", folder.display()), format!("-Wl,-rpath,{}", folder.display()));
    let program = programs.build("calls", &[&search, "-lprofil", &run_path]);
    let lines = Run::bare(&program).env("PROFIL_SOCKET", service.socket()).args("on off").lines();
    assert_eq!((lines, service.received().len()), (vec!["on: 0 77".to_owned(), "off: 0 77".to_owned()], 2));
}
