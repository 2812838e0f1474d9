//! `profil export`: each format is read by the tool that owns it, and says what the profile says.

mod support_export;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use profil_tests::{Profil, Scratch, feature};
use profil_user::{pprof, sink};
use serde_json::Value;
use support_export::{done, export, export_to, has, is_in, recorded, stdout, ticks};

/// Ticks by function, as gprof counts them: with a rate of 1 its seconds are ticks.
fn gprof(object: &Path, file: &Path) -> BTreeMap<String, f64> {
    let mut bytes = fs::read(file).expect("the file is there");
    let mut at = 20;
    while at < bytes.len() {
        // Tag, low, high, number of bins, rate, dimension; then the bins.
        let bins = u32::from_le_bytes(bytes[at + 17..at + 21].try_into().expect("four bytes"));
        bytes[at + 21..at + 25].copy_from_slice(&1u32.to_le_bytes());
        at += 41 + 2 * bins as usize;
    }
    let slow = file.with_extension("slow");
    fs::write(&slow, bytes).expect("our own folder");
    // Names are as they are in the object: they may be no UTF-8.
    let text = done(Command::new("gprof").args(["-b", "-p"]).args([object, &slow])).stdout;
    let text = String::from_utf8_lossy(&text);
    let line = |line: &str| {
        let words: Vec<_> = line.split_whitespace().collect();
        Some((words.get(3..)?.last()?.to_string(), words.get(2)?.parse().ok()?))
    };
    text.lines().filter_map(line).collect()
}

#[test]
fn gprof_charges_each_tick_to_the_function_that_the_profile_says() {
    let recorded = recorded();
    let directory = export_to("gmon", &["-f", "gmon"]);
    let shares = ["sixty", "thirty", "ten"].as_slice();
    for (name, functions) in [("pie", shares), ("fixed", shares), ("libplugin.so", &["burn"])] {
        let object = recorded.path(name);
        let file = directory.join(format!("gmon.{name}.{}.out", recorded.build_id(&object)));
        let charged = gprof(&object, &file);
        for function in functions {
            let ticks = recorded.in_function(&object, function);
            assert!(ticks > 50, "{name}: {function}: {ticks}");
            assert_eq!(charged.get(*function), Some(&(ticks as f64)), "{name}: {function}: {charged:?}");
        }
        let rate =
            u32::from_le_bytes(fs::read(&file).expect("the file is there")[41..45].try_into().expect("four bytes"));
        assert_eq!(rate, 1999);
    }
}

#[test]
fn gprof_adds_up_counts_that_16_bits_do_not_hold() {
    let recorded = recorded();
    let mut profile = pprof::read_file(&recorded.file).expect("profil wrote it");
    profile.rows.iter_mut().for_each(|row| row.ticks *= 1000);
    let file = recorded.path("thousandfold.pb.gz");
    sink::pprof::write(&profile, fs::File::create(&file).expect("our own folder")).expect("our own folder");
    let directory = recorded.path("thousandfold");
    stdout(export(&["-f", "gmon", "-o", directory.to_str().expect("UTF-8")], &file));
    let object = recorded.path("pie");
    let charged = gprof(&object, &directory.join(format!("gmon.pie.{}.out", recorded.build_id(&object))));
    let ticks = 1000 * recorded.in_function(&object, "sixty");
    assert!(ticks > 3 * 65_535, "{ticks}");
    assert_eq!(charged.get("sixty"), Some(&(ticks as f64)), "{charged:?}");
}

#[test]
fn callgrind_annotate_shows_the_ticks_beside_their_source_lines() {
    const TEST: &str = "callgrind_annotate_shows_the_ticks_beside_their_source_lines";
    if !feature::has_program(TEST, "callgrind_annotate") {
        return;
    }
    let recorded = recorded();
    let file = export_to("profile.callgrind", &[]);
    let text = stdout(done(Command::new("callgrind_annotate").args(["--auto=yes", "--threshold=100"]).arg(&file)));
    let count = |line: &str| -> u64 {
        line.split_whitespace().next().expect("a count").replace(',', "").parse().expect("a count")
    };
    let line_with =
        |wanted: &str| text.lines().find(|line| line.contains(wanted)).unwrap_or_else(|| panic!("{wanted}: {text}"));
    assert_eq!(count(line_with("PROGRAM TOTALS")), recorded.ticks(|_| true));
    let pie = recorded.path("pie");
    let function = line_with(&format!("shares.c:sixty [{}]", pie.display()));
    assert_eq!(count(function), recorded.in_function(&pie, "sixty"), "{function}");
    // The loop is one line; the fixed program has no lines, and is not in it.
    let on_line = recorded.ticks(|row| is_in(row, &pie) && row["function"] == "sixty" && row["line"] == 4);
    assert_eq!(count(line_with("static NOINLINE void sixty(void) { LOOP(600000); }")), on_line);
}

#[test]
fn inferno_draws_the_folded_stacks() {
    let recorded = recorded();
    let text = fs::read_to_string(export_to("profile.folded", &[])).expect("UTF-8");
    let ticks = |line: &str| line.rsplit_once(' ').expect("a count").1.parse::<u64>().expect("a count");
    assert_eq!(text.lines().map(ticks).sum::<u64>(), recorded.ticks(|_| true));
    let line = text.lines().find(|line| line.starts_with("pie;sixty ")).expect(&text);
    assert_eq!(ticks(line), recorded.in_function(&recorded.path("pie"), "sixty"));
    let drawn = flame_graph(&text);
    assert!(drawn.contains("<title>sixty (") && drawn.contains("<title>pie ("), "{drawn}");
}

fn flame_graph(folded: &str) -> String {
    let mut drawn = Vec::new();
    let mut options = inferno::flamegraph::Options::default();
    inferno::flamegraph::from_lines(&mut options, folded.lines(), &mut drawn).expect("folded stacks");
    String::from_utf8(drawn).expect("UTF-8")
}

#[test]
fn go_s_pprof_reads_the_exported_profile() {
    const TEST: &str = "go_s_pprof_reads_the_exported_profile";
    if !feature::has_program(TEST, "go") {
        return;
    }
    let recorded = recorded();
    let text = go_top(&export_to("exported.pb.gz", &["-f", "pprof"]));
    let line =
        text.lines().find(|line| line.trim_end().ends_with(" late_function") || line.trim_end().ends_with(" burn"));
    let flat: u64 = line.expect(&text).split_whitespace().next().expect("a number").parse().expect("a number");
    assert_eq!(flat, recorded.ticks(|row| row["function"] == "burn"), "{text}");
}

fn go_top(file: &Path) -> String {
    let mut pprof = Command::new("go");
    pprof.args(["tool", "pprof", "-top", "-symbolize=none", "-nodefraction=0", "-sample_index=0"]);
    stdout(done(pprof.arg(file).env("HOME", recorded().path(""))))
}

#[test]
fn csv_has_the_rows_of_json() {
    let recorded = recorded();
    let csv = export_to("profile.csv", &[]);
    let script = "import csv, json, sys; print(json.dumps(list(csv.DictReader(open(sys.argv[1], newline='')))))";
    let rows = stdout(done(Command::new("python3").args(["-c", script]).arg(csv)));
    let rows: Vec<BTreeMap<String, String>> = serde_json::from_str(&rows).expect("JSON");
    assert_eq!(rows.len(), recorded.rows.len());
    for (row, json) in rows.iter().zip(&recorded.rows) {
        for (name, cell) in row {
            let wanted = match &json[name] {
                Value::Null => String::new(),
                Value::String(text) => text.clone(),
                number => number.to_string(),
            };
            assert_eq!(*cell, wanted, "{name}: {json}");
        }
    }
}

#[test]
fn what_a_format_needs_and_lacks_is_said_and_nothing_is_written() {
    let recorded = recorded();
    let refused = |arguments: &[&str], status: i32| {
        let path = recorded.path("refused.prof");
        let output = export(&[arguments, &["-o", path.to_str().expect("UTF-8")]].concat(), &recorded.file);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(status), "{said}");
        assert!(!path.exists() && output.stdout.is_empty(), "{said}");
        said
    };
    let said = refused(&["-f", "autofdo", "--in", "fixed"], 1);
    assert!(said.contains("has no debug information; compile with -g"), "{said}");
    let said = refused(&["-f", "bolt", "--in", "nothing"], 1);
    assert!(said.contains("cannot choose the object nothing: no tick fell in it; there are "), "{said}");
    assert!(refused(&[], 2).contains("name one with -f"));
    assert!(refused(&["-f", "json", "--in", "fixed"], 2).contains("only -f bolt and -f autofdo"));
    let output = export(&["-f", "gmon"], &recorded.file);
    assert_eq!(output.status.code(), Some(2));
}

/// Check that names which no format is made for reach its reader: of a function with a blank, a semicolon, a newline, a
/// byte that is no UTF-8 and a number at its end, and of a process like it.
#[test]
fn names_made_to_be_misread_reach_the_readers_of_all_formats() {
    use std::os::unix::ffi::OsStrExt;
    let scratch = Scratch::new();
    let built = scratch.build_as("shares", "plain", &["-g0"]);
    let program = scratch.path("a;b 7\n");
    let rename = [b"sixty=six; ty\n\xff 60".as_slice(), b"thirty=(3) thirty"];
    let mut objcopy = Command::new("objcopy");
    objcopy.args(
        rename.iter().flat_map(|name| [std::ffi::OsStr::new("--redefine-sym"), std::ffi::OsStr::from_bytes(name)]),
    );
    done(objcopy.arg(&built).arg(&program));
    let profil = Profil::record(&scratch, &["-F", "1999"]).launch(&program, &["0.3"]).run();
    let to = |name: &str, arguments: &[&str]| {
        let path = scratch.path(name);
        stdout(export(&[arguments, &["-o", path.to_str().expect("UTF-8")]].concat(), &profil.file));
        path
    };
    let rows: Value = serde_json::from_str(&stdout(export(&["-f", "json"], &profil.file))).expect("JSON");
    let rows = rows["rows"].as_array().expect("an array");
    let in_function = |name: &str| rows.iter().filter(|row| row["function"] == name).map(ticks).sum::<u64>();
    let sixty = in_function("six; ty\u{fffd}\u{fffd} 60");
    assert!(sixty > 50 && rows.iter().any(|row| row["process"] == "a;b 7\u{fffd}"), "{rows:?}");

    let folded = fs::read_to_string(to("p.folded", &[])).expect("UTF-8");
    assert!(folded.contains(&format!("a:b 7\u{fffd};six: ty\u{fffd}\u{fffd}_60 {sixty}\n")), "{folded}");
    assert!(flame_graph(&folded).contains("six: ty\u{fffd}\u{fffd}_60 ("), "{folded}");

    let callgrind = to("p.callgrind", &[]);
    let annotated = stdout(done(Command::new("callgrind_annotate").arg("--threshold=100").arg(callgrind)));
    for function in ["???:six; ty\u{fffd}\u{fffd} 60 [", "???:(3) thirty ["] {
        assert!(annotated.contains(function), "{annotated}");
    }

    if has("go") {
        assert!(go_top(&to("p.pb.gz", &["-f", "pprof"])).contains("six; ty\u{fffd}\u{fffd} 60"));
    }

    let gmon = to("gmon", &["-f", "gmon"]);
    let files = fs::read_dir(&gmon).expect("profil made it").map(|entry| entry.expect("a file").path());
    let file =
        files.into_iter().find(|path| path.display().to_string().contains("/gmon.a;b 7\u{fffd}.")).expect("a file");
    assert_eq!(gprof(&program, &file).get("ten"), Some(&(in_function("ten") as f64)));

    let csv = to("p.csv", &[]);
    let script = "import csv, sys; print(sum(int(row['ticks']) for row in csv.DictReader(open(sys.argv[1], newline='')) if row['function'].endswith(' 60')))";
    assert_eq!(stdout(done(Command::new("python3").args(["-c", script]).arg(csv))).trim(), sixty.to_string());

    assert!(fs::read_to_string(to("p.preagg", &[])).expect("UTF-8").starts_with("E cpu-clock\nS "));
}
