//! Threads and processes that come and go: none of them is missed, and none is counted that was not asked for.

use profil_tests::{By, Profil, Recorded, Report, Running, Scratch, Truth};

/// Records `family` in one of its ways, attached before it goes on.
fn family(scratch: &Scratch, way: &str, options: &[&str]) -> (Recorded, Truth) {
    let mut target = Running::start(scratch.build("family"), &[way, "0.7"]);
    let pid = target.pid().to_string();
    let options = [&["-F", "1999", "-p", &pid], options].concat();
    let recording = Profil::record(scratch, &options).start();
    target.go();
    let (status, truth) = target.finish();
    assert!(status.success(), "{status}");
    (recording.wait(), truth)
}

/// Asserts that the ticks are those of the CPU time, as nearly as chance lets them be on a machine that is shared.
fn complete(report: &Report, cpu_seconds: f64) {
    let ratio = report.ratio(cpu_seconds);
    let tolerance = 0.02 + 3.0 / (report.ticks as f64).sqrt();
    assert!((ratio - 1.0).abs() <= tolerance, "{ratio:.3} of the ticks due: {report:?}");
}

#[test]
fn a_storm_of_threads_has_all_its_ticks() {
    let scratch = Scratch::new();
    let mut target = Running::start(scratch.build("storm"), &["3000"]);
    let pid = target.pid().to_string();
    let recording = Profil::record(&scratch, &["-F", "9997", "-p", &pid]).start();
    target.go();
    let (_, truth) = target.finish();
    let ratio = recording.wait().report(By::Function).ratio(truth.of("cpu"));
    assert!((0.98..=1.02).contains(&ratio), "{ratio:.4}");
}

#[test]
fn a_storm_of_threads_of_a_command_has_all_its_ticks() {
    let scratch = Scratch::new();
    let recorded = Profil::record(&scratch, &["-F", "9997"]).launch(scratch.build("storm"), &["3000"]).run();
    let ratio = recorded.report(By::Function).ratio(recorded.truth().of("cpu"));
    assert!((0.98..=1.02).contains(&ratio), "{ratio:.4}");
}

#[test]
fn threads_that_a_worker_creates_after_the_attach_are_counted() {
    let scratch = Scratch::new();
    let (recorded, truth) = family(&scratch, "thread", &[]);
    let report = recorded.report(By::Function);
    complete(&report, truth.of("cpu"));
    assert!(report.share("burn") > 0.95, "{report:?}");
}

#[test]
fn workers_are_counted_when_the_main_thread_is_gone() {
    let scratch = Scratch::new();
    let (recorded, truth) = family(&scratch, "headless", &[]);
    complete(&recorded.report(By::Function), truth.of("cpu"));
}

#[test]
fn children_of_an_attached_process_are_counted_apart() {
    let scratch = Scratch::new();
    for way in ["fork", "exec"] {
        let (recorded, truth) = family(&scratch, way, &[]);
        complete(&recorded.report(By::Function), truth.of("cpu"));
        let report = recorded.report(By::Process);
        for name in ["pid", "child"] {
            let ticks = report.ticks_of(|row| row.pid == Some(truth.of(name) as u32));
            let share = ticks as f64 / report.ticks as f64;
            assert!((0.4..=0.6).contains(&share), "{way}: {name} has {share:.3}: {report:?}");
        }
    }
}

#[test]
fn no_inherit_leaves_children_out() {
    let scratch = Scratch::new();
    for way in ["fork", "exec"] {
        let (recorded, truth) = family(&scratch, way, &["-i"]);
        let report = recorded.report(By::Process);
        let of = |name| report.ticks_of(|row| row.pid == Some(truth.of(name) as u32));
        assert!(of("pid") > 1000, "{way}: {report:?}");
        assert_eq!(of("child"), 0, "{way}: {report:?}");
        assert_eq!(report.rows.len(), 1, "{way}: {report:?}");
    }
}

#[test]
fn no_inherit_leaves_children_of_a_command_out() {
    let scratch = Scratch::new();
    let recorded = Profil::record(&scratch, &["-i"]).launch(scratch.build("family"), &["fork", "0.7"]).run();
    let (report, truth) = (recorded.report(By::Process), recorded.truth());
    assert_eq!(report.rows.len(), 1, "{report:?}");
    assert_eq!(report.rows[0].pid, Some(truth.of("pid") as u32), "{report:?}");
}

/// Ticks of short children against those that their CPU time, as the system sums it up, demands.
fn short_children(options: &[&str], program: &str, function: &str, under_all: bool) {
    let scratch = Scratch::new();
    let short = scratch.build("short");
    let program = if program == "fork" { program.to_owned() } else { short.display().to_string() };
    let parent = scratch.build("children");
    let arguments = [program.as_str(), "1000", "0.005"];
    let options = [&["-F", "1999"], options].concat();
    let (recorded, truth) = if under_all {
        let mut target = Running::start(&parent, &arguments);
        let recording = Profil::record(&scratch, &options).start();
        target.go();
        let (_, truth) = target.finish();
        (recording.stop(), truth)
    } else {
        let recorded = Profil::record(&scratch, &options).launch(&parent, &arguments).run();
        let truth = recorded.truth();
        (recorded, truth)
    };
    let report = recorded.report(By::Address);
    let hz = report.hz.expect("the profile says its rate");
    let file = if program == "fork" { &parent } else { &short };
    let is_theirs = |name: &str| name == function || name == "burn";
    let attributed =
        report.ticks_of(|row| row.object.as_deref() == file.to_str() && row.function.as_deref().is_some_and(is_theirs));
    let largest = || report.rows.iter().take(20).collect::<Vec<_>>();
    // Each child burns 5 ms by its own clock; that leaves out fork, exec, the dynamic linker and exit.
    let ratio = attributed as f64 / (1000.0 * 0.005 * hz);
    assert!(ratio >= 0.95, "{ratio:.3} in {function}: {:?}", largest());
    // The CPU time that the system sums up has them all; so have files that are known.
    let known = report.ticks_of(|row| row.object.as_deref().is_some_and(|object| object != "[unknown]"));
    let ratio = known as f64 / (truth.of("children") * hz);
    assert!(ratio >= 0.95, "{ratio:.3} in known files: {:?}", largest());
}

#[test]
fn a_thousand_forked_children_of_a_command_are_counted_in_the_right_place() {
    short_children(&[], "fork", "short_life", false);
}

#[test]
fn a_thousand_executed_children_of_a_command_are_counted_in_the_right_place() {
    short_children(&[], "exec", "short_exec", false);
}

#[test]
fn a_thousand_forked_children_of_the_system_are_counted_in_the_right_place() {
    short_children(&["-a"], "fork", "short_life", true);
}

#[test]
fn a_thousand_executed_children_of_the_system_are_counted_in_the_right_place() {
    short_children(&["-a"], "exec", "short_exec", true);
}
