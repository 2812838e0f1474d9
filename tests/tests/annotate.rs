//! `profil annotate` shows the instructions and lines that the ticks fell on, of the build that ran and of no other.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use profil_tests::annotation::{Annotation, annotate, number};
use profil_tests::profil::binary;
use profil_tests::{By, Profil, Recorded, Scratch, feature};

/// Records a target for some CPU seconds, which are its last argument.
fn record(scratch: &Scratch, target: &Path, arguments: &[&str]) -> Recorded {
    let recorded = Profil::record(scratch, &["-F", "1999"]).launch(target, arguments).run();
    assert_eq!(recorded.code(), 0, "{recorded:?}");
    recorded
}

/// Compiles a file of `targets` by another compiler than gcc.
fn compile(compiler: &Path, arguments: &[&str], source: &str, program: &Path) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("targets").join(source);
    let mut command = Command::new(compiler);
    command.args(arguments).arg("-o").arg(program).arg(source);
    let output = command.output().expect("the compiler runs");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8 from profil")
}

/// Asserts that there is no annotation but an error, and returns it.
fn refused(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(output.stdout.is_empty(), "{output:?}");
    text(&output.stderr)
}

/// The build ID of a file, as `.build-id` directories have it: the first byte, and the others.
fn build_id(file: &Path) -> (String, String) {
    let output = Command::new("readelf").arg("-n").arg(file).output().expect("readelf runs");
    let text = text(&output.stdout);
    let id = text.lines().find_map(|line| line.trim().strip_prefix("Build ID: ")).expect("a build ID");
    (id[..2].to_owned(), id[2..].to_owned())
}

const NONE: &[&str] = &[];

#[test]
fn each_line_has_its_share_in_every_layout() {
    let scratch = Scratch::new();
    for (name, flags) in [("pie", &["-pie", "-fPIE"] as &[_]), ("no-pie", &["-no-pie"]), ("static", &["-static"])] {
        let target = scratch.build_as("lines", name, flags);
        let recorded = record(&scratch, &target, &["0.6"]);
        let annotation = Annotation::of("two_lines", &recorded.file, NONE);
        assert_eq!(annotation.ticks, recorded.report(By::Function).in_function("two_lines"), "{name}");
        for (source, share) in [("LOOP(300000);", 75.0), ("LOOP(100000);", 25.0)] {
            let found = annotation.lines.iter().filter(|line| line.source.as_deref().map(str::trim) == Some(source));
            let found: f64 = found.map(|line| line.percent).sum();
            assert!((found - share).abs() < 6.0, "{name}: {source}: {found}: {annotation:?}");
        }
        annotation.agrees_with_objdump(&target);
    }
}

#[test]
fn an_address_stands_for_the_function_around_it() {
    let scratch = Scratch::new();
    let target = scratch.build("lines");
    let file = record(&scratch, &target, &["0.3"]).file;
    let by_name = Annotation::of("two_lines", &file, NONE);
    let by_address = Annotation::of(&by_name.hottest().address, &file, NONE);
    assert_eq!((&by_address.function, by_address.ticks), (&by_name.function, by_name.ticks));
    let error = refused(&annotate("0x123456789abc", &file, NONE));
    assert!(error.contains("no code of the profile is there"), "{error}");
    // _start has run, but no tick can be expected there.
    let output = Command::new("nm").arg(&target).output().expect("nm runs");
    let start = text(&output.stdout).lines().find_map(|line| line.strip_suffix(" T _start").map(str::to_owned));
    let output = annotate(&format!("0x{}", start.expect("a _start")), &file, NONE);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
}

#[test]
fn both_parts_of_a_split_function_have_their_lines() {
    let scratch = Scratch::new();
    let target = scratch.build_as("parts", "parts", &["-O2", "-freorder-blocks-and-partition"]);
    let file = record(&scratch, &target, &["0.4"]).file;
    let annotation = Annotation::of("split", &file, NONE);
    let parts: BTreeSet<_> = annotation.rows.iter().filter_map(|row| row.symbol.clone()).collect();
    assert_eq!(parts, BTreeSet::from(["split".to_owned(), "split.cold".to_owned()]), "{annotation:?}");
    for source in ["LOOP(100000);", "LOOP(200000);"] {
        let found = annotation.lines.iter().filter(|line| line.source.as_deref().map(str::trim) == Some(source));
        let found: f64 = found.map(|line| line.percent).sum();
        // A third and two thirds of the rounds; but what a round takes depends on where the loop lies.
        assert!(found > 5.0, "{source}: {found}: {annotation:?}");
    }
}

#[test]
fn an_inlined_function_is_shown_where_it_is_inlined() {
    let scratch = Scratch::new();
    let file = record(&scratch, &scratch.build("lines"), &["0.3"]).file;
    let annotation = Annotation::of("inlined_loop", &file, NONE);
    assert_eq!(annotation.function, "surrounding");
    let inlined: u64 = annotation.rows.iter().filter(|row| row.inlined == ["inlined_loop"]).map(|row| row.ticks).sum();
    assert!(inlined as f64 > 0.95 * annotation.ticks as f64, "{annotation:?}");
}

#[test]
fn ticks_in_the_kernel_are_at_their_system_call() {
    let scratch = Scratch::new();
    let file = record(&scratch, &scratch.build("modes"), &["ids", "0.4"]).file;
    let annotation = Annotation::of("syscall", &file, &["--in", "libc.so.6"]);
    assert!(annotation.kernel_ticks as f64 > 0.3 * annotation.ticks as f64, "{annotation:?}");
    let marked = annotation.rows.iter().filter(|row| row.system_call.is_some());
    let (mut ticks, mut sites) = (0, Vec::new());
    for row in marked {
        ticks += row.kernel_ticks;
        sites.extend(annotation.rows.iter().filter(|site| Some(&site.address) == row.system_call.as_ref()));
    }
    assert!(ticks as f64 > 0.9 * annotation.kernel_ticks as f64, "{annotation:?}");
    let is_call = |text: &str| text.starts_with("syscall") || text.starts_with("svc");
    assert!(sites.iter().all(|site| site.instruction.as_deref().is_some_and(is_call)), "{sites:?}");
    let shown = text(&annotate("syscall", &file, &["--in", "libc.so.6"]).stdout);
    assert!(shown.contains("<- in the kernel, called at"), "{shown}");
    annotation.agrees_with_objdump(Path::new(&annotation.object));
}

#[test]
fn a_library_is_annotated() {
    let scratch = Scratch::new();
    let library = scratch.build_as("plugin", "libplugin.so", &["-shared", "-fPIC"]);
    let arguments = [library.to_str().expect("UTF-8"), "0.4"];
    let recorded = record(&scratch, &scratch.build("loader"), &arguments);
    let annotation = Annotation::of("burn", &recorded.file, &["--in", "libplugin.so"]);
    assert_eq!(annotation.object, library.to_str().expect("UTF-8"));
    annotation.agrees_with_objdump(&library);
}

#[test]
fn instances_of_a_template_are_told_apart() {
    const TEST: &str = "instances_of_a_template_are_told_apart";
    if !feature::has_program(TEST, "g++") {
        return;
    }
    let scratch = Scratch::new();
    let target = scratch.path("templates");
    compile(Path::new("g++"), &["-O1", "-g", "-Wl,--build-id"], "templates.cc", &target);
    let file = record(&scratch, &target, &["0.4"]).file;
    let error = refused(&annotate("sum", &file, NONE));
    assert!(
        error.contains("shapes::sum<double>(long)") && error.contains("shapes::sum<unsigned int>(long)"),
        "{error}"
    );
    let annotation = Annotation::of("shapes::sum<double>", &file, NONE);
    assert!(annotation.function.contains("shapes::sum<double>(long)"), "{annotation:?}");
    annotation.agrees_with_objdump(&target);
    let multiplies =
        annotation.rows.iter().any(|row| row.instruction.as_deref().is_some_and(|text| text.contains("sd")));
    assert!(multiplies || cfg!(not(target_arch = "x86_64")), "{annotation:?}");
}

#[test]
fn rust_is_annotated() {
    const TEST: &str = "rust_is_annotated";
    // Under sudo, PATH is another one: the compiler lies beside the cargo that runs this.
    let cargo = std::env::var_os("CARGO").map(PathBuf::from);
    let Some(rustc) = cargo.map(|cargo| cargo.with_file_name("rustc")).filter(|rustc| rustc.exists()) else {
        feature::skip(TEST, "no rustc beside cargo");
        return;
    };
    let scratch = Scratch::new();
    let target = scratch.path("spin");
    compile(&rustc, &["-O", "-g", "--edition", "2024", "-C", "link-arg=-Wl,--build-id"], "spin.rs", &target);
    let file = record(&scratch, &target, &["0.4"]).file;
    let annotation = Annotation::of("spin", &file, &["--in", "spin"]);
    assert_eq!(annotation.function, "spin::spin");
    let hottest = annotation.lines.first().and_then(|line| line.source.as_deref()).expect("a source line");
    assert!(["black_box", "round"].iter().any(|word| hottest.contains(word)), "{annotation:?}");
    assert!(annotation.rows.iter().any(|row| row.inlined.iter().any(|name| name.contains("step"))));
    annotation.agrees_with_objdump(&target);
}

#[test]
fn go_is_annotated_unless_the_file_has_changed() {
    const TEST: &str = "go_is_annotated_unless_the_file_has_changed";
    if !feature::has_program(TEST, "go") {
        return;
    }
    let scratch = Scratch::new();
    let target = scratch.path("spin");
    // Without the cache of a user, who may be none.
    let cache = format!("GOCACHE={}", scratch.path("cache").display());
    compile(Path::new("env"), &[&cache, "CGO_ENABLED=0", "go", "build"], "spin.go", &target);
    let file = record(&scratch, &target, &["0.4"]).file;
    let annotation = Annotation::of("main.spin", &file, NONE);
    let hottest = annotation.lines.first().and_then(|line| line.source.as_deref()).expect("a source line");
    assert!(["sum", "round"].iter().any(|word| hottest.contains(word)), "{annotation:?}");
    annotation.agrees_with_objdump(&target);

    // Debian's Go writes no GNU build ID: only that the file is older than the profile speaks for it.
    let mut readelf = Command::new("readelf");
    if !text(&readelf.arg("-n").arg(&target).output().expect("readelf runs").stdout).contains("NT_GNU_BUILD_ID") {
        let said = text(&annotate("main.spin", &file, NONE).stderr);
        assert!(said.contains("has no build ID"), "{said}");
        fs::copy(&target, scratch.path("again")).expect("our own files");
        fs::rename(scratch.path("again"), &target).expect("our own files");
        let error = refused(&annotate("main.spin", &file, NONE));
        assert!(error.contains("has changed since the profile was recorded"), "{error}");
    }
}

#[test]
fn a_program_that_has_moved_is_found_by_its_build_id() {
    let scratch = Scratch::new();
    let target = scratch.build("lines");
    let file = record(&scratch, &target, &["0.3"]).file;
    let here = Annotation::of("two_lines", &file, NONE);
    let (first, rest) = build_id(&target);
    let moved = scratch.path("elsewhere");
    fs::rename(&target, &moved).expect("our own file");

    let error = refused(&annotate("two_lines", &file, NONE));
    assert!(error.contains("is not on this machine") && error.contains("--debug-dir"), "{error}");
    // A debug file has the names, and not the code.
    let directory = scratch.path("debug");
    let place = directory.join(".build-id").join(&first);
    fs::create_dir_all(&place).expect("our own folder");
    let debug = place.join(format!("{rest}.debug"));
    let split = Command::new("objcopy").arg("--only-keep-debug").arg(&moved).arg(&debug).status();
    assert!(split.expect("objcopy runs").success());
    let option = ["--debug-dir", directory.to_str().expect("UTF-8")];
    let error = refused(&annotate("two_lines", &file, &option));
    assert!(error.contains("is not on this machine"), "{error}");

    symlink(&moved, place.join(&rest)).expect("our own folder");
    let by_build_id = Annotation::of("two_lines", &file, &option);
    assert_eq!((by_build_id.ticks, by_build_id.rows.len()), (here.ticks, here.rows.len()));
    assert_eq!(by_build_id.code.as_deref(), place.join(&rest).to_str());
    // A folder with the program alone will do, if it is the right one.
    let alone = scratch.path("alone");
    fs::create_dir(&alone).expect("our own folder");
    let option = ["--debug-dir", alone.to_str().expect("UTF-8")];
    scratch.build_as("shares", "alone/lines", &[]);
    let error = refused(&annotate("two_lines", &file, &option));
    assert!(error.contains("is not on this machine"), "{error}");
    fs::copy(&moved, alone.join("lines")).expect("our own files");
    assert_eq!(Annotation::of("two_lines", &file, &option).rows.len(), here.rows.len());
}

#[test]
fn another_build_is_not_taken_apart() {
    let scratch = Scratch::new();
    let target = scratch.build("lines");
    let file = record(&scratch, &target, &["0.3"]).file;
    fs::remove_file(&target).expect("our own file");
    scratch.build_as("lines", "lines", &["-O2"]);
    let error = refused(&annotate("two_lines", &file, NONE));
    assert!(error.contains("the file there is build") && error.contains("--debug-dir"), "{error}");
}

#[test]
fn source_files_are_looked_for_and_told_when_they_are_newer() {
    let scratch = Scratch::new();
    for folder in ["src", "kept"] {
        fs::create_dir(scratch.path(folder)).expect("our own folder");
    }
    let targets = Path::new(env!("CARGO_MANIFEST_DIR")).join("targets");
    for name in ["lines.c", "target.h"] {
        fs::copy(targets.join(name), scratch.path("src").join(name)).expect("our own files");
    }
    let source = scratch.path("src/lines.c");
    let target = scratch.compile(&source, "lines", &[]);
    let file = record(&scratch, &target, &["0.3"]).file;
    let output = annotate("two_lines", &file, NONE);
    assert!(text(&output.stdout).contains("LOOP(300000);"), "{output:?}");
    assert!(!text(&output.stderr).contains("newer than the program"), "{output:?}");

    fs::rename(&source, scratch.path("kept/lines.c")).expect("our own files");
    let output = annotate("two_lines", &file, NONE);
    assert!(!text(&output.stdout).contains("LOOP(300000);"), "{output:?}");
    assert!(text(&output.stderr).contains("source files not found"), "{output:?}");
    let option = ["--source-dir", scratch.path("kept").to_str().expect("UTF-8")].map(str::to_owned);
    let output = annotate("two_lines", &file, &option);
    assert!(text(&output.stdout).contains("LOOP(300000);"), "{output:?}");

    let changed = fs::read(scratch.path("kept/lines.c")).expect("our own file");
    fs::write(scratch.path("kept/lines.c"), changed).expect("our own file");
    let output = annotate("two_lines", &file, &option);
    assert!(text(&output.stderr).contains("newer than the program"), "{output:?}");
    let quiet = annotate("two_lines", &file, &[option.as_slice(), &["-q".to_owned()]].concat());
    assert!(quiet.stderr.is_empty(), "{quiet:?}");
}

#[test]
fn functions_of_the_kernel_have_addresses() {
    let scratch = Scratch::new();
    let recorded = Profil::record(&scratch, &["-F", "1999", "--kernel"]);
    let recorded = recorded.launch(scratch.build("modes"), &["zeros", "0.3"]).run();
    let report = recorded.report(By::Function);
    let function = report.rows.first().and_then(|row| row.function.clone()).expect("a function of the kernel");
    let annotation = Annotation::of(&function, &recorded.file, NONE);
    assert_eq!((annotation.code.as_deref(), annotation.ticks), (None, report.in_function(&function)));
    assert!(annotation.rows.iter().all(|row| row.instruction.is_none() && row.ticks > 0), "{annotation:?}");
    let shown = text(&annotate(&function, &recorded.file, NONE).stdout);
    assert!(shown.contains("no instructions: the kernel"), "{shown}");
    let by_address = Annotation::of(&annotation.hottest().address, &recorded.file, NONE);
    assert_eq!(by_address.function, function);
}

#[test]
fn the_vdso_is_annotated() {
    let scratch = Scratch::new();
    let file = record(&scratch, &scratch.build("vdso"), &["0.4"]).file;
    let annotation = Annotation::of("gettime", &file, &["--in", "[vdso]"]);
    assert!(annotation.rows.iter().all(|row| row.instruction.is_some()), "{annotation:?}");
    assert!(annotation.hottest().ticks > 0 && number(&annotation.hottest().address) < 1 << 20, "{annotation:?}");
}

#[test]
fn colour_and_context_are_as_asked_for() {
    let scratch = Scratch::new();
    let file = record(&scratch, &scratch.build("lines"), &["0.3"]).file;
    let plain = text(&annotate("two_lines", &file, NONE).stdout);
    assert!(!plain.contains('\x1b'), "{plain}");
    let coloured = text(&annotate("two_lines", &file, &["--color", "always"]).stdout);
    assert!(coloured.contains("\x1b[31m"), "{coloured}");
    let narrow = text(&annotate("two_lines", &file, &["--context", "0"]).stdout);
    assert!(narrow.contains("  ...") && narrow.lines().count() < plain.lines().count(), "{narrow}");
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let scratch = Scratch::new();
    let file = record(&scratch, &scratch.build("lines"), &["0.3"]).file;
    let mut command = Command::new(binary());
    command.args(["annotate", "two_lines"]).arg(&file).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("profil runs");
    drop(child.stdout.take());
    let mut said = String::new();
    child.stderr.take().expect("a pipe").read_to_string(&mut said).expect("UTF-8 from profil");
    assert!(child.wait().expect("a child can be waited for").success(), "{said}");
    assert_eq!(said, "");
}

#[test]
fn a_profile_without_ticks_says_so() {
    let scratch = Scratch::new();
    let recorded = Profil::record(&scratch, &["-F", "1"]).launch("true", NONE).run();
    let output = annotate("main", &recorded.file, NONE);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
}
