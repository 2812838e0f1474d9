//! The table in the kernel is finite: what does not fit is counted as dropped, and draining loses nothing.

use profil_tests::{By, Profil, Running, Scratch};

/// `misses` is what the report says is missing; chance decides where the last tick of each run on a CPU falls.
fn complete(ticks: u64, due: f64) {
    let tolerance = 0.02 * due + 3.0 * due.sqrt();
    assert!((ticks as f64 - due).abs() <= tolerance, "{ticks} ticks of {due:.0}");
}

#[test]
fn a_full_table_drops_what_is_missing_and_says_so() {
    let scratch = Scratch::new();
    let target = scratch.build("places");
    let recorded = Profil::record(&scratch, &["-F", "9997", "--table-rows", "16"]).launch(target, &["2"]).run();
    let (report, truth) = (recorded.report(By::Address), recorded.truth());
    // That rows and outcomes add up is asserted by every report.
    assert!(report.outcomes.dropped > 0, "{:?}", report.outcomes);
    assert!(report.outcomes.stray > 0, "{:?}", report.outcomes);
    complete(report.ticks, truth.of("cpu") * 9997.0);
    assert!(recorded.stderr.contains("dropped"), "{}", recorded.stderr);
}

#[test]
fn draining_under_load_loses_no_tick() {
    let scratch = Scratch::new();
    let mut target = Running::start(scratch.build("places"), &["3"]);
    let pid = target.pid().to_string();
    // A few thousand rows fill up several times; each interim file drains as well, twice.
    let recording = Profil::record(&scratch, &["-F", "9997", "--table-rows", "4096", "-p", &pid]).start();
    target.go();
    for _ in 0..10 {
        recording.signal(libc::SIGUSR1);
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let (_, truth) = target.finish();
    let recorded = recording.wait();
    let report = recorded.report(By::Address);
    assert_eq!(report.outcomes.dropped, 0, "{:?}", report.outcomes);
    assert!(report.rows.len() > 4096, "{} rows: the table has been filled more than once", report.rows.len());
    complete(report.ticks, truth.of("cpu") * 9997.0);
    assert!(!recorded.stderr.contains("fault of profil"), "{}", recorded.stderr);
}
