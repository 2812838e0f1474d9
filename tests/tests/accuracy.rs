//! Ticks are where the CPU time is: in the right function, in the right thread, as many as the rate says.

use std::collections::BTreeMap;

use profil_tests::{By, Profil, Recorded, Running, Scratch, Truth};

/// CPUs that are online.
fn cpus() -> f64 {
    std::thread::available_parallelism().expect("the number of CPUs").get() as f64
}

/// Three standard deviations of a count of `ticks` that a clock of each CPU takes of targets which have `busy` of it.
///
/// A target that is never preempted is met by each tick; one that shares its CPU is met by chance.
fn three_sigma(ticks: f64, busy: f64) -> f64 {
    3.0 * (ticks * (1.0 - busy).clamp(0.0, 1.0)).sqrt()
}

#[test]
fn shares_of_functions_are_those_of_their_cpu_time() {
    let scratch = Scratch::new();
    let target = scratch.build("shares");
    let recorded = Profil::record(&scratch, &["-F", "9997"]).launch(target, &["3"]).run();
    let (report, truth) = (recorded.report(By::Function), recorded.truth());
    assert!(report.ticks >= 20_000, "{} ticks", report.ticks);
    for function in ["sixty", "thirty", "ten"] {
        let share = truth.of(function) / truth.of("all");
        let sigma = (share * (1.0 - share) / report.ticks as f64).sqrt();
        let found = report.share(function);
        assert!((found - share).abs() <= 3.0 * sigma + 0.003, "{function}: {found:.4} found, {share:.4} true");
    }
}

#[test]
fn shares_are_right_after_an_attach_as_well() {
    let scratch = Scratch::new();
    let mut target = Running::start(scratch.build("shares"), &["3"]);
    let recording = Profil::record(&scratch, &["-F", "9997", "-p", &target.pid().to_string()]).start();
    target.go();
    let (_, truth) = target.finish();
    let report = recording.wait().report(By::Function);
    assert!(report.ticks >= 20_000, "{} ticks", report.ticks);
    for function in ["sixty", "thirty", "ten"] {
        let share = truth.of(function) / truth.of("all");
        let sigma = (share * (1.0 - share) / report.ticks as f64).sqrt();
        let found = report.share(function);
        assert!((found - share).abs() <= 3.0 * sigma + 0.003, "{function}: {found:.4} found, {share:.4} true");
    }
}

/// Records threads that existed before the attach.
fn threads(count: &str, wall_seconds: &str, how: &str, hz: &str) -> (Recorded, Truth) {
    let scratch = Scratch::new();
    let mut target = Running::start(scratch.build("threads"), &[count, wall_seconds, how]);
    let pid = target.pid().to_string();
    let recording = Profil::record(&scratch, &["-F", hz, "--per-thread", "-p", &pid]).start();
    target.go();
    let (_, truth) = target.finish();
    let recorded = recording.wait();
    // The folder goes with this function: what is needed of the file is read now.
    let report = recorded.report(By::Thread);
    let ticks: BTreeMap<u32, u64> = report.rows.iter().filter_map(|row| Some((row.tid?, row.ticks))).collect();
    let hz = report.hz.expect("the profile says its rate");
    for (tid, used) in truth.all("tid.") {
        let tid: u32 = tid.parse().expect("a tid");
        let (ticks, due) = (ticks.get(&tid).copied().unwrap_or(0) as f64, used * hz);
        // Each start and stop of a thread can cost or win one tick: the count is one of chance.
        let tolerance = 0.02 * due + 4.0 * due.sqrt() + 3.0;
        assert!((ticks - due).abs() <= tolerance, "thread {tid}: {ticks} ticks, {due:.0} due by its CPU time");
    }
    let (all, due) = (report.ticks as f64, truth.of("cpu") * hz);
    let busy = truth.of("cpu") / (truth.of("wall") * cpus());
    let tolerance = 0.02 * due + three_sigma(due, busy);
    assert!((all - due).abs() <= tolerance, "{all} ticks, {due:.0} due by the process's CPU time");
    (recorded, truth)
}

#[test]
fn each_of_8_threads_has_the_ticks_of_its_own_cpu_time() {
    let (_, truth) = threads("8", "4", "unlike", "4999");
    assert_eq!(truth.all("tid.").count(), 8);
}

#[test]
fn each_of_200_threads_has_the_ticks_of_its_own_cpu_time() {
    let (_, truth) = threads("200", "5", "unlike", "4999");
    assert_eq!(truth.all("tid.").count(), 200);
}

#[test]
fn ticks_that_sleepers_evade_are_told_as_missed() {
    let scratch = Scratch::new();
    // A thread that a timer wakes tends to run between two ticks: the kernel's clocks see too little of it, those of
    // perf as well. That cannot be helped here; that it is not hidden, can.
    let recorded =
        Profil::record(&scratch, &["-F", "997"]).launch(scratch.build("threads"), &["8", "4", "sleepy"]).run();
    let (report, due) = (recorded.report(By::Function), recorded.truth().of("cpu") * 997.0);
    let told = report.ticks as f64 + report.missed.expect("it is known how many are missed") as f64;
    assert!((told / due - 1.0).abs() < 0.1, "{told} told, {due:.0} due: {report:?}");
}

#[test]
fn equal_threads_have_equal_ticks() {
    let scratch = Scratch::new();
    let mut target = Running::start(scratch.build("threads"), &["10", "5", "alike"]);
    let pid = target.pid().to_string();
    let recording = Profil::record(&scratch, &["-F", "997", "--per-thread", "-p", &pid]).start();
    target.go();
    let (_, truth) = target.finish();
    let report = recording.wait().report(By::Thread);
    let used: f64 = truth.all("tid.").map(|(_, used)| used).sum();
    let all: f64 = report.ticks as f64;
    let chi_square: f64 = truth
        .all("tid.")
        .map(|(tid, own)| {
            let tid: u32 = tid.parse().expect("a tid");
            // The scheduler does not give them quite the same: what each had is what its ticks are held against.
            let due = all * own / used;
            let ticks = report.ticks_of(|row| row.tid == Some(tid)) as f64;
            (ticks - due).powi(2) / due
        })
        .sum();
    // 9 degrees of freedom: 27.9 is passed by chance once in 1,000 runs.
    assert!(chi_square < 27.9, "chi-square {chi_square:.1}: {:?}", report.rows);
}

#[test]
fn ticks_are_cpu_time_by_rate_at_100_997_and_9997_hz() {
    let scratch = Scratch::new();
    let mut target = Running::start(scratch.build("threads"), &["2", "10", "alike"]);
    let pid = target.pid().to_string();
    // All at once on one target: each has a clock of its own.
    let recordings: Vec<_> = ["100", "997", "9997"]
        .map(|hz| {
            let file = scratch.path(&format!("{hz}.pb.gz"));
            (hz, Profil::record_to(file, &["-F", hz, "-p", &pid]).start())
        })
        .into();
    target.go();
    let (_, truth) = target.finish();
    let cpu_seconds = truth.of("cpu");
    let busy = cpu_seconds / (truth.of("wall") * cpus());
    for (hz, recording) in recordings {
        let report = recording.wait().report(By::Function);
        let (ticks, due) = (report.ticks as f64, cpu_seconds * hz.parse::<f64>().expect("a number"));
        let tolerance = 0.01 * due + 1.0 + three_sigma(due, busy);
        assert!((ticks - due).abs() <= tolerance, "{hz} Hz: {ticks} ticks of {due:.0}, {busy:.2} busy");
    }
}
