//! Programs built with -pg: libc's arcs, the kernel's ticks.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use profil_tests::{By, Profil, Ran, Run, Scratch, Truth, feature};

const HEADER: usize = 20;
const HIST_HEADER: usize = 1 + 8 + 8 + 4 + 4 + 15 + 1;

/// A gmon.out, taken apart.
#[derive(Debug)]
struct Gmon {
    header: Vec<u8>,
    histograms: Vec<Histogram>,
    /// Caller, callee, times.
    arcs: Vec<(u64, u64, u32)>,
}

#[derive(Debug, PartialEq)]
struct Histogram {
    text: (u64, u64),
    rate: u32,
    bins: Vec<u16>,
}

impl Gmon {
    fn read(path: &Path) -> Gmon {
        let bytes = fs::read(path).unwrap_or_else(|error| panic!("no {}: {error}", path.display()));
        let u64_at = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        let u32_at = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
        let mut gmon = Gmon { header: bytes[..HEADER].to_vec(), histograms: Vec::new(), arcs: Vec::new() };
        let mut at = HEADER;
        while at < bytes.len() {
            match bytes[at] {
                0 => {
                    assert_eq!(&bytes[at + 25..at + 41], b"seconds\0\0\0\0\0\0\0\0s");
                    let end = at + HIST_HEADER + 2 * u32_at(at + 17) as usize;
                    let counters = bytes[at + HIST_HEADER..end].chunks_exact(2);
                    let bins = counters.map(|counter| u16::from_ne_bytes([counter[0], counter[1]])).collect();
                    let text = (u64_at(at + 1), u64_at(at + 9));
                    gmon.histograms.push(Histogram { text, rate: u32_at(at + 21), bins });
                    at = end;
                }
                1 => {
                    gmon.arcs.push((u64_at(at + 1), u64_at(at + 9), u32_at(at + 17)));
                    at += 1 + 8 + 8 + 4;
                }
                tag => panic!("a record with tag {tag} at {at}"),
            }
        }
        gmon.arcs.sort_unstable();
        gmon
    }

    fn ticks(&self) -> u64 {
        self.histograms.iter().flat_map(|histogram| &histogram.bins).map(|bin| u64::from(*bin)).sum()
    }
}

/// Self seconds and calls by function, as gprof prints them.
fn by_gprof(program: &Path, gmon: &Path) -> HashMap<String, (f64, Option<u64>)> {
    let output = Command::new("gprof").args(["-b", "-p"]).args([program, gmon]).output().expect("gprof runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    // %time, cumulative, self; calls and two times per call where there are any; name.
    let rows = text.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let seconds = words.get(2)?.parse().ok()?;
        let calls = (words.len() == 7).then(|| words[3].parse().expect("calls"));
        Some((words.last()?.to_string(), (seconds, calls)))
    });
    rows.collect()
}

/// The target with -pg, twice: position-independent, and not.
fn targets(scratch: &Scratch) -> [PathBuf; 2] {
    [("pie", "-pie"), ("fixed", "-no-pie")].map(|(name, flag)| scratch.build_as("gmon", name, &["-pg", flag]))
}

/// Runs a target under us; gmon.out is in the scratch folder.
fn run(scratch: &Scratch, run: Run, target: &Path, seconds: &str) -> Ran {
    run_with(scratch, run, target, &[seconds])
}

fn run_with(scratch: &Scratch, run: Run, target: &Path, arguments: &[&str]) -> Ran {
    let ran = run.in_folder(scratch.path("")).launch(target, arguments);
    assert!(ran.status.success(), "{ran:?}");
    ran
}

#[test]
fn gprof_shows_arcs_and_self_times_of_pie_and_of_fixed_programs() {
    const TEST: &str = "gprof_shows_arcs_and_self_times_of_pie_and_of_fixed_programs";
    if !feature::has_program(TEST, "gprof") {
        return;
    }
    let scratch = Scratch::new();
    for target in targets(&scratch) {
        let truth = run(&scratch, Run::at(1000, "glibc"), &target, "2").truth();
        let rows = by_gprof(&target, &scratch.path("gmon.out"));
        let (seconds, calls): (Vec<f64>, Vec<Option<u64>>) =
            ["seventy", "thirty", "twice"].map(|name| rows[name]).into_iter().unzip();
        let rounds = truth.of("rounds") as u64;
        assert_eq!(calls, [Some(2 * rounds), Some(2 * rounds), Some(2 * rounds)], "{target:?}");
        let all = truth.of("seventy_cpu") + truth.of("thirty_cpu");
        assert!((seconds[0] + seconds[1] - all).abs() < 0.03 * all, "{seconds:?}: {truth:?}");
        let (share, due) = (seconds[0] / (seconds[0] + seconds[1]), truth.of("seventy_cpu") / all);
        assert!((share - due).abs() < 0.045, "4 sigma of 2,000 ticks: {share:.3} of {due:.3}");
    }
}

#[test]
fn self_times_agree_with_record_of_the_same_program() {
    const TEST: &str = "self_times_agree_with_record_of_the_same_program";
    if !feature::has_program(TEST, "gprof") {
        return;
    }
    let scratch = Scratch::new();
    for target in targets(&scratch) {
        // Both at once: `record` of a `run`, and of what it launches.
        let words = ["run", "-F", "1000", "--", target.to_str().expect("UTF-8"), "2"];
        let recording = Profil::record(&scratch, &["-F", "1999"]).launch(profil_tests::profil::binary(), &words);
        let recorded = recording.in_folder(scratch.path("")).run();
        assert_eq!(recorded.code(), 0, "{recorded:?}");
        let report = recorded.report(By::Function);
        let rows = by_gprof(&target, &scratch.path("gmon.out"));
        let recorded = |name: &str| report.in_function(name) as f64 / report.hz.expect("its rate");
        let both = recorded("seventy") + recorded("thirty");
        for name in ["seventy", "thirty"] {
            let difference = rows[name].0 - recorded(name);
            assert!(difference.abs() < 0.05 * both, "{name}: {:?} by gprof, {}", rows[name], recorded(name));
        }
    }
}

#[test]
fn gmon_out_without_us_is_the_same_but_for_the_counts() {
    let scratch = Scratch::new();
    for target in targets(&scratch) {
        // The shortest there is: one round, so that calls are the same in both runs.
        run(&scratch, Run::at(100, "glibc"), &target, "0");
        let with = Gmon::read(&scratch.path("gmon.out"));
        fs::remove_file(scratch.path("gmon.out")).expect("it was written");
        let alone = Command::new(&target).arg("0").current_dir(scratch.path("")).status();
        assert!(alone.expect("the target runs").success());
        let without = Gmon::read(&scratch.path("gmon.out"));
        assert_eq!(with.header, without.header);
        assert_eq!(with.header, [&b"gmon"[..], &1_u32.to_ne_bytes(), &[0; 12]].concat());
        assert_eq!(with.arcs, without.arcs);
        assert!(!with.arcs.is_empty());
        assert_eq!((with.histograms.len(), without.histograms.len()), (1, 1));
        let (with, without) = (&with.histograms[0], &without.histograms[0]);
        assert_eq!((with.text, with.rate, with.bins.len()), (without.text, without.rate, without.bins.len()));
    }
}

#[test]
fn the_histogram_states_the_real_rate_and_holds_every_tick_of_the_text() {
    let scratch = Scratch::new();
    let [target, _] = targets(&scratch);
    for hz in [100, 997] {
        let ran = run(&scratch, Run::at(hz, "glibc"), &target, "1");
        let gmon = Gmon::read(&scratch.path("gmon.out"));
        assert_eq!(gmon.histograms[0].rate, hz);
        assert_eq!(gmon.ticks(), ran.binned(), "{ran:?}");
        assert!(gmon.ticks() as f64 > 0.9 * f64::from(hz), "{ran:?}");
    }
}

#[test]
fn a_bin_of_more_than_65535_ticks_is_spread_over_records_that_gprof_adds_up() {
    const TEST: &str = "a_bin_of_more_than_65535_ticks_is_spread_over_records_that_gprof_adds_up";
    if !feature::has_program(TEST, "gprof") {
        return;
    }
    let scratch = Scratch::new();
    let [target, _] = targets(&scratch);
    let ran = run(&scratch, Run::at(10_000, "glibc"), &target, "14");
    let gmon = Gmon::read(&scratch.path("gmon.out"));
    assert_eq!(gmon.ticks(), ran.binned());
    let full = gmon.histograms.iter().flat_map(|histogram| &histogram.bins).filter(|bin| **bin == u16::MAX).count();
    assert_eq!(gmon.histograms.len(), 2, "{full} full bins");
    assert!(full >= 1);
    assert_eq!(gmon.histograms[0].text, gmon.histograms[1].text);
    let rows = by_gprof(&target, &scratch.path("gmon.out"));
    let seconds: f64 = rows.values().map(|(seconds, _)| seconds).sum();
    assert!((seconds / (gmon.ticks() as f64 / 10_000.0) - 1.0).abs() < 0.01, "{seconds}: {rows:?}");
}

#[test]
fn no_timer_is_armed_in_a_program_built_with_pg() {
    let scratch = Scratch::new();
    let [target, _] = targets(&scratch);
    let truth = run(&scratch, Run::at(100, "glibc"), &target, "0").truth();
    assert_eq!(truth.of("armed"), 0.0);
    let alone = Command::new(&target).arg("0").current_dir(scratch.path("")).output().expect("the target runs");
    let alone = Truth::read(&String::from_utf8_lossy(&alone.stdout));
    assert_eq!(alone.of("armed"), 1.0, "libc itself does arm one");
}

#[test]
fn moncontrol_stops_arcs_and_ticks_and_lets_them_go_on() {
    const TEST: &str = "moncontrol_stops_arcs_and_ticks_and_lets_them_go_on";
    if !feature::has_program(TEST, "gprof") {
        return;
    }
    let scratch = Scratch::new();
    for target in targets(&scratch) {
        let ran = run_with(&scratch, Run::at(1000, "glibc"), &target, &["0.6", "pause"]);
        let truth = ran.truth();
        assert_eq!((truth.of("armed_in_pause"), truth.of("armed_afterwards")), (0.0, 0.0));
        let rows = by_gprof(&target, &scratch.path("gmon.out"));
        let (seconds, calls) = rows["seventy"];
        assert_eq!(calls, Some(2 * truth.of("rounds") as u64), "those in the pause are not counted");
        let due = [truth.of("seventy_cpu"), truth.of("thirty_cpu")];
        // Four standard deviations of 600 ticks in turn.
        assert!((seconds - due[0]).abs() < 0.06, "{seconds} of {}", due[0]);
        assert!((rows["thirty"].0 - due[1]).abs() < 0.06, "{:?} of {}", rows["thirty"], due[1]);
    }
}

#[test]
fn gmon_out_prefix_names_the_file() {
    let scratch = Scratch::new();
    let [target, _] = targets(&scratch);
    let prefix = scratch.path("mine");
    let ran = run(&scratch, Run::at(100, "glibc").env("GMON_OUT_PREFIX", &prefix), &target, "0.5");
    let name = scratch.path(&format!("mine.{}", ran.truth().of("pid")));
    assert_eq!(Gmon::read(&name).ticks(), ran.binned());
    assert!(ran.binned() > 40, "{ran:?}");
    assert!(!scratch.path("gmon.out").exists());
}

#[test]
fn profdir_names_the_folder_in_bsd_only() {
    let scratch = Scratch::new();
    let [target, _] = targets(&scratch);
    let folder = scratch.path("profdir");
    fs::create_dir(&folder).expect("a folder of our own");
    let ran = run(&scratch, Run::at(100, "bsd").env("PROFDIR", &folder), &target, "0.5");
    let name = folder.join(format!("{}.pie", ran.truth().of("pid")));
    assert_eq!(Gmon::read(&name).ticks(), ran.binned());
    assert_eq!(fs::read_dir(&folder).expect("it is there").count(), 1);
    assert!(!scratch.path("gmon.out").exists());

    run(&scratch, Run::at(100, "bsd").env("PROFDIR", ""), &target, "0");
    assert!(!scratch.path("gmon.out").exists(), "an empty PROFDIR: no file is wanted");

    run(&scratch, Run::at(100, "glibc").env("PROFDIR", &folder), &target, "0");
    assert!(scratch.path("gmon.out").exists(), "glibc does not know it");
}

#[test]
fn a_program_that_cannot_write_its_file_ends_as_without_us() {
    let scratch = Scratch::new();
    let [target, _] = targets(&scratch);
    let folder = scratch.path("read-only");
    fs::create_dir(&folder).expect("a folder of our own");
    let mut command = Run::at(100, "glibc").in_folder(&folder).of("setpriv", &["--reuid=65534", "--clear-groups"]);
    command.arg(&target).arg("0");
    let ended = command.output().expect("profil runs");
    let text = String::from_utf8_lossy(&ended.stdout).into_owned();
    assert!(text.contains("pid "), "the program itself came to its end: {ended:?}");
    assert_eq!(fs::read_dir(&folder).expect("it is there").count(), 0);
}
