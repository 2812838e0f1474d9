//! `profil export` for the tools that rebuild a program: they take the profile, use it, and change no result.

mod support_export;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use profil_tests::{Profil, Scratch, feature};
use profil_user::sink::autofdo::SourceProfile;
use profil_user::symbols::source_spans::{Site, Span};
use serde_json::Value;
use support_export::{build_branchy, done, export, export_to, is_in, recorded, stdout};

#[test]
fn perf2bolt_finds_the_function_of_every_tick_and_llvm_bolt_lays_them_out() {
    const TEST: &str = "perf2bolt_finds_the_function_of_every_tick_and_llvm_bolt_lays_them_out";
    if !feature::has_program(TEST, "perf2bolt-22") || !feature::has_program(TEST, "clang-22") {
        return;
    }
    let recorded = recorded();
    let program = recorded.path("branchy");
    // By its path: that of the fixed program would be as good a default.
    let preagg = export_to("branchy.preagg", &["--in", program.to_str().expect("UTF-8")]);
    let fdata = recorded.path("branchy.fdata");
    let mut perf2bolt = Command::new("perf2bolt-22");
    let said = stdout(done(perf2bolt.args(["-pa", "-ba", "-p"]).args([&preagg, Path::new("-o"), &fdata, &program])));
    assert!(said.contains("out of range samples recorded in unknown regions: 0 (0.0%)"), "{said}");
    let text = fs::read_to_string(&fdata).expect("perf2bolt wrote it");
    let mut found: BTreeMap<&str, u64> = BTreeMap::new();
    for line in text.lines().skip(1) {
        // 1, function, offset, count; a static function is FUNCTION/FILE/NUMBER.
        let words: Vec<&str> = line.split_whitespace().collect();
        *found.entry(words[1].split('/').next().expect("a name")).or_default() +=
            words[3].parse::<u64>().expect("a count");
    }
    let user = |row: &Value| is_in(row, &program) && row["mode"] == "user";
    for step in ["step0", "step7"] {
        assert!(found.get(step).is_some_and(|ticks| *ticks > 10), "{step}: {found:?}");
    }
    // What perf2bolt finds in no function that it knows: the procedure linkage table.
    assert!(found.values().sum::<u64>() as f64 > 0.95 * recorded.ticks(user) as f64, "{found:?}");

    let faster = recorded.path("branchy-bolt");
    let mut bolt = Command::new("llvm-bolt-22");
    bolt.arg(&program).arg("-o").arg(&faster).arg("--data").arg(&fdata);
    let said = stdout(done(bolt.args(["--reorder-blocks=ext-tsp", "--split-functions", "--split-all-cold"])));
    let moved = said.lines().find(|line| line.contains("basic block reordering modified layout of")).expect(&said);
    assert!(!moved.contains(" of 0 functions"), "{moved}");
    assert_same_result(&program, &faster);
}

/// Both compute the same.
fn assert_same_result(one: &Path, other: &Path) {
    let result = |program: &Path| {
        let text = stdout(done(Command::new(program).arg("10000")));
        text.lines().find(|line| line.starts_with("sum ")).expect("the target prints a sum").to_owned()
    };
    assert_eq!(result(one), result(other));
}

#[test]
fn clang_optimises_by_the_counts_of_the_source_lines() {
    const TEST: &str = "clang_optimises_by_the_counts_of_the_source_lines";
    if !feature::has_program(TEST, "clang-22") {
        return;
    }
    let recorded = recorded();
    let program = recorded.path("branchy");
    let profile = export_to("branchy.prof", &["-f", "autofdo", "--in", "branchy"]);
    let text = fs::read_to_string(&profile).expect("UTF-8");
    assert!(text.lines().any(|line| line.starts_with("step3:")), "{text}");

    // -Werror: clang warns where a profile does not fit the source.
    let faster = recorded.path("branchy-autofdo");
    let using = format!("-fprofile-sample-use={}", profile.display());
    let said = build_branchy(&faster, &[&using, "-Rpass=sample-profile-inline", "-Rpass=inline"]);
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(said.contains("'mix' inlined into 'step3'"), "{said}");
    assert_same_result(&program, &faster);
    let ir = recorded.path("branchy.ll");
    build_branchy(&ir, &[&using, "-S", "-emit-llvm", "-Wno-unused-command-line-argument"]);
    let ir = fs::read_to_string(ir).expect("UTF-8");
    assert!(ir.contains("!\"SampleProfile\"") && ir.contains("branch_weights"), "no profile in the code");

    // The next generation: what was a call is inlined by now, and its lines are those of its own function still.
    let file = recorded.path("faster.pb.gz");
    let profil = Profil::record_to(file.clone(), &["-F", "1999"]).launch(&faster, &["6000000"]).run();
    assert_eq!(profil.code(), 0, "{}", profil.stderr);
    let next = stdout(export(&["-f", "autofdo"], &file));
    // In step3: ` 16: mix:TOTAL`, and below it the lines of mix.
    let step = next.lines().skip_while(|line| !line.starts_with("step3:")).skip(1);
    let inlined: Vec<&str> = step
        .take_while(|line| line.starts_with(' '))
        .skip_while(|line| !line.contains(": mix:"))
        .skip(1)
        .take_while(|line| line.starts_with("  "))
        .collect();
    let lines =
        |line: &&&str| line.trim().split(['.', ':']).next().is_some_and(|offset| ["6", "7", "8"].contains(&offset));
    assert!(inlined.iter().filter(lines).count() >= 2, "{next}");
    let second = recorded.path("second.prof");
    fs::write(&second, next).expect("our own folder");
    let twice = recorded.path("branchy-twice");
    build_branchy(&twice, &[&format!("-fprofile-sample-use={}", second.display())]);
    assert_same_result(&program, &twice);
}

#[test]
fn clang_takes_names_with_blanks_and_colons() {
    const TEST: &str = "clang_takes_names_with_blanks_and_colons";
    if !feature::has_program(TEST, "clang-22") {
        return;
    }
    let scratch = Scratch::new();
    let site = |function: &str| Site { function: function.into(), line_offset: 1, discriminator: 2 };
    let span = |start, path: &[&str]| Span {
        addresses: start..start + 4,
        path: path.iter().map(|function| site(function)).collect(),
        is_entry: true,
    };
    let spans = [span(0, &["main", "a b:c 1:2", "ns::f<int, char const*>"]), span(4, &["1st"]), span(8, &["[x]:1:2"])];
    let mut text = Vec::new();
    let profile = SourceProfile::new(&spans, &(0..12).map(|address| (address, 9)).collect());
    profile.write(&mut text).expect("a buffer");
    let (source, file) = (scratch.path("main.c"), scratch.path("names.prof"));
    fs::write(&file, text).expect("our own folder");
    fs::write(&source, "int main(void)\n{ return 0; }\n").expect("our own folder");
    let using = format!("-fprofile-sample-use={}", file.display());
    let object = scratch.path("main.o");
    done(Command::new("clang-22").args(["-O2", "-g", "-Werror", "-c", &using, "-o"]).args([&object, &source]));
    // A file that is none is refused: the compiler does read it.
    fs::write(&file, "main:1:x\n").expect("our own folder");
    let refused = Command::new("clang-22").args(["-O2", "-g", "-c", &using, "-o"]).args([&object, &source]).output();
    assert!(!refused.expect("clang runs").status.success());
}
