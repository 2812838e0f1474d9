//! What becomes of profiling in the children of a program.

mod support;

use profil_common::wire::{CallKind, Reply};
use support::program::Run;
use support::service::{Answer, OFF, Received, Service, obliging};

fn run(
    answer: impl FnMut(&Received) -> Answer + Send + 'static,
    convention: &str,
    arguments: &str,
) -> (Vec<String>, Vec<Received>) {
    let service = Service::start(answer);
    let run = Run::calls().env("PROFIL_SOCKET", service.socket());
    let lines = run.env("PROFIL_CONVENTION", convention).args(arguments).lines();
    (lines, service.received())
}

fn kinds(received: &[Received]) -> Vec<CallKind> {
    received.iter().map(Received::kind).collect()
}

#[test]
fn child_of_fork_is_profiled_into_its_copy_in_bsd_and_clix() {
    for convention in ["bsd", "clix"] {
        let (lines, received) = run(obliging, convention, "on fork");
        // errno is the parent's, although calls were made.
        assert_eq!(lines, ["on: 0 77", "child: 77", "parent: 0"]);
        assert_eq!(kinds(&received), [CallKind::Profil, CallKind::Flush, CallKind::Profil], "{convention}");
        let [on, flush, again] = &received[..] else { unreachable!() };
        assert_eq!((on.pid, &on.areas), (flush.pid, &again.areas));
        assert_ne!(on.pid, again.pid);
        assert_eq!((on.call.convention, on.call.hz), (again.call.convention, again.call.hz));
    }
}

#[test]
fn child_of_fork_is_not_profiled_in_linux_and_glibc() {
    for convention in ["linux", "glibc"] {
        let (lines, received) = run(obliging, convention, "on fork");
        assert_eq!(lines, ["on: 0 77", "child: 77", "parent: 0"]);
        assert_eq!(kinds(&received), [CallKind::Profil], "{convention}");
    }
}

#[test]
fn a_child_repeats_the_last_call_that_turned_profiling_on() {
    let (_, received) = run(obliging, "bsd", "on profil buf 64 0x2000 1024 fork");
    assert_eq!(received.last().expect("calls").areas, received[1].areas);
    let (_, received) = run(obliging, "bsd", "on sprofil 256 1 fork");
    let [.., sprofil, _, again] = &received[..] else { panic!("{received:?}") };
    assert_eq!((again.kind(), again.call.width), (CallKind::Sprofil, 4));
    assert_eq!((again.areas.len(), &again.areas), (256, &sprofil.areas));
}

#[test]
fn a_refused_call_is_not_repeated() {
    // As bsd's EINVAL: what was on stays on.
    let answer = |received: &Received| match received.areas.first() {
        Some(area) if area.scale > 65_536 => Answer::Reply(Reply { errno: 22, ..support::service::ON }),
        _ => obliging(received),
    };
    let (lines, received) = run(answer, "bsd", "on profil buf 64 0 65537 fork");
    assert_eq!(lines[1], "profil: -1 22");
    assert_eq!(received.last().expect("calls").areas, received[0].areas);
}

#[test]
fn nothing_is_asked_at_a_fork_while_profiling_is_off() {
    let off_at_scale_0 = |received: &Received| match received.areas.first() {
        Some(area) if area.scale == 0 => Answer::Reply(OFF),
        _ => obliging(received),
    };
    let (_, received) = run(off_at_scale_0, "bsd", "fork on");
    assert_eq!(kinds(&received), [CallKind::Profil]);
    let (_, received) = run(off_at_scale_0, "bsd", "on profil buf 64 0 0 fork");
    assert_eq!(kinds(&received), [CallKind::Profil, CallKind::Profil]);
}

#[test]
fn a_grandchild_is_profiled_as_well() {
    let (_, received) = run(obliging, "bsd", "on fork fork");
    let profil = received.iter().filter(|received| received.kind() == CallKind::Profil);
    let mut pids: Vec<_> = profil.map(|received| received.pid).collect();
    assert_eq!(pids.len(), 3);
    pids.sort_unstable();
    pids.dedup();
    assert_eq!(pids.len(), 3);
}

#[test]
fn a_child_that_cannot_be_profiled_runs_on() {
    let mut calls = 0;
    let refuse_later = move |received: &Received| {
        calls += 1;
        if calls == 1 { obliging(received) } else { Answer::Close }
    };
    let (lines, _) = run(refuse_later, "bsd", "on fork off");
    // Nothing is on in the child, so its off is libc's.
    assert_eq!(lines, ["on: 0 77", "child: 77", "off: 0 77", "parent: 0"]);
}

#[test]
fn fork_keeps_errno_when_the_service_is_gone() {
    let service = Service::start(obliging);
    let run = Run::calls().env("PROFIL_SOCKET", service.socket()).env("PROFIL_CONVENTION", "bsd");
    let lines = run.args(&format!("on unlink {} fork", service.socket().display())).lines();
    assert_eq!(lines, ["on: 0 77", "child: 77", "parent: 0"]);
}

#[test]
fn child_of_vfork_asks_nothing() {
    let (_, received) = run(obliging, "bsd", "on vfork off");
    assert_eq!(kinds(&received), [CallKind::Profil, CallKind::Profil]);
}
