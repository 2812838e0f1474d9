//! `profil diff`: two recordings of programs whose difference is known.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use profil_tests::profil::binary;
use profil_tests::{Profil, Recorded, Scratch, Truth};
use serde::Deserialize;

#[derive(Debug, Deserialize)]
struct Diff {
    before: Run,
    after: Run,
    rows: Vec<DiffRow>,
}

#[derive(Debug, Deserialize)]
struct Run {
    ticks: u64,
    hz: f64,
    cpu_seconds: f64,
}

#[derive(Debug, Deserialize)]
struct DiffRow {
    function: String,
    matched_by: Option<String>,
    before: Side,
    after: Side,
    change_points: f64,
    change_seconds_per_cpu_second: f64,
    corrected: f64,
    significant: bool,
}

#[derive(Debug, Deserialize)]
struct Side {
    ticks: u64,
    percent: f64,
}

fn run(arguments: &[&str], files: &[&Path]) -> Output {
    Command::new(binary()).arg("diff").args(arguments).args(files).stdin(Stdio::null()).output().expect("profil runs")
}

fn diff(files: &[&Path]) -> Diff {
    let output = run(&["--json"], files);
    assert!(output.status.success(), "{output:?}");
    let diff: Diff = serde_json::from_slice(&output.stdout).expect("JSON");
    for (run, sum) in [
        (&diff.before, diff.rows.iter().map(|row| row.before.ticks).sum::<u64>()),
        (&diff.after, diff.rows.iter().map(|row| row.after.ticks).sum()),
    ] {
        assert_eq!(run.ticks, sum, "every tick is in a row: {diff:?}");
    }
    diff
}

impl Diff {
    fn row(&self, function: &str) -> &DiffRow {
        self.rows.iter().find(|row| row.function == function).unwrap_or_else(|| panic!("no {function}: {self:?}"))
    }
}

/// Builds and records the target whose function takes FACTOR times as long; its program has the same name in any scratch.
fn recorded(scratch: &Scratch, factor: u32, hz: &str) -> Recorded {
    // Where its loops begin decides how fast they are: the builds are to differ in nothing but the number.
    let flags = ["-pie", "-fPIE", "-falign-functions=64", "-falign-loops=64", &format!("-DFACTOR={factor}")];
    let target = scratch.build_as("slower", "slower", &flags);
    Profil::record(scratch, &["-F", hz]).launch(target, &["1.2"]).run()
}

fn share(truth: &Truth, function: &str) -> f64 {
    truth.of(function) / truth.of("all") * 100.0
}

#[test]
fn a_function_that_got_slower_is_told_from_those_that_did_not() {
    let (one, other) = (Scratch::new(), Scratch::new());
    let (before, after) = (recorded(&one, 1, "1999"), recorded(&other, 2, "1999"));
    let diff = diff(&[&before.file, &after.file]);
    let (was, is) = (before.truth(), after.truth());
    for function in ["changed", "rest", "steady_three", "steady_two"] {
        let row = diff.row(function);
        // Another build at another path and, as it is position-independent, at another address: names match.
        assert_eq!(row.matched_by.as_deref(), Some("name"), "{row:?}");
        let change = share(&is, function) - share(&was, function);
        assert!((row.change_points - change).abs() < 6.0, "{change:.2} points in truth: {row:?}");
        assert!((row.change_seconds_per_cpu_second * 100.0 - change).abs() < 6.5, "{change:.2} in truth: {row:?}");
    }
    for function in ["changed", "rest"] {
        let row = diff.row(function);
        assert!(row.significant && row.corrected < 1e-6, "{row:?}");
    }
    for row in diff.rows.iter().filter(|row| !["changed", "rest"].contains(&&*row.function)) {
        // One in twenty is taken for changed by chance; a test that fails as often would be of no use. And a machine whose
        // speed changes between two runs does change them, a little.
        assert!(row.corrected > 1e-5 || row.change_points.abs() < 4.0, "{row:?}");
    }
    assert!(["changed", "rest"].contains(&&*diff.rows[0].function), "the largest change comes first: {diff:?}");

    let table = run(&["--color", "always"], &[&before.file, &after.file]);
    let stdout = String::from_utf8_lossy(&table.stdout);
    let line = |name: &str| stdout.lines().find(|line| line.contains(name)).unwrap_or_else(|| panic!("{stdout}"));
    assert!(line(" changed ").starts_with("\x1b[31m+"), "{stdout}");
    assert!(line(" rest ").contains("<0.01 %"), "{stdout}");
    let stderr = String::from_utf8_lossy(&table.stderr);
    assert_eq!(stderr.lines().filter(|line| line.contains(" ticks (")).count(), 2, "the accounts of both: {stderr}");
}

#[test]
fn one_build_at_two_addresses_and_two_rates_has_not_changed() {
    let scratch = Scratch::new();
    let target = scratch.build_as("slower", "slower", &["-pie", "-fPIE", "-s"]);
    let file = scratch.path("profile.pb.gz");
    // The second recording keeps the first as .old, which is what diff looks for.
    for hz in ["499", "1999"] {
        let recorded = Profil::record(&scratch, &["-F", hz]).launch(&target, &["1.2"]).run();
        assert_eq!(recorded.code(), 0, "{recorded:?}");
    }
    let diff = diff(&[&file]);
    assert_eq!((diff.before.hz.round(), diff.after.hz.round()), (499.0, 1999.0));
    assert!((diff.before.cpu_seconds / diff.after.cpu_seconds - 1.0).abs() < 0.3, "{diff:?}");
    let told = diff.rows.iter().filter(|row| row.function.contains("slower+0x") && row.matched_by.is_some());
    let told: Vec<_> = told.inspect(|row| assert_eq!(row.matched_by.as_deref(), Some("build_id"), "{row:?}")).collect();
    // Loops of two instructions: few addresses, which both runs meet, wherever the program was loaded.
    assert!(told.iter().map(|row| row.after.percent).sum::<f64>() > 80.0, "{diff:?}");
    for row in &diff.rows {
        assert!(row.corrected > 1e-5 || row.change_points.abs() < 4.0, "{row:?}");
    }
}

#[test]
fn what_cannot_be_compared_is_said_with_its_exit_status() {
    let scratch = Scratch::new();
    let mut sleeper = Command::new("sleep").arg("60").spawn().expect("sleep");
    let empty = Profil::record(&scratch, &["-d", "0.2", "-p", &sleeper.id().to_string()]).run();
    sleeper.kill().expect("our own child");
    sleeper.wait().expect("our own child");
    assert_eq!(empty.code(), 4, "{empty:?}");

    let status = |files: &[&Path]| {
        let output = run(&[], files);
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, stderr) = status(&[&empty.file]);
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stderr.contains("profile.pb.gz.old; record to the same file once more"), "{stderr}");
    assert_eq!(status(&[&empty.file, &empty.file]).0, Some(4));
    assert_eq!(status(&[&PathBuf::from("a"), &PathBuf::from("b"), &PathBuf::from("c")]).0, Some(2));
}
