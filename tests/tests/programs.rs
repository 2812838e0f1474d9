//! Programs that no one here wrote, or that are built and run in another way than most.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Output};

use profil_tests::profil::binary;
use profil_tests::{Daemon, Run, Scratch, Truth, feature};

/// Folder of libprofil.so, which lies beside the program.
fn library_folder() -> String {
    let folder = binary().canonicalize().expect("the program is there");
    folder.parent().expect("it is in a folder").to_str().expect("UTF-8").to_owned()
}

fn output(command: &mut Command) -> (Truth, String) {
    let Output { status, stdout, stderr } = command.output().expect("the target runs");
    let stderr = String::from_utf8_lossy(&stderr).into_owned();
    assert!(status.success(), "{command:?}: {status}: {stderr}");
    (Truth::read(&String::from_utf8_lossy(&stdout)), stderr)
}

#[test]
fn ltp_s_profil01_finds_its_pc() {
    let scratch = Scratch::new();
    let truth = Run::at(100, "glibc").tell(scratch.build("ltp_profil"), &[] as &[&str]);
    assert_eq!((truth.of("on"), truth.of("off")), (0.0, 0.0));
    let due = truth.of("cpu") * 100.0;
    assert!((truth.of("counted") - due).abs() < 0.02 * due + 3.0, "{truth:?}");
    // The loop is in main, whose first call told its pc.
    assert!(truth.of("from_pc") >= 0.0 && truth.of("to_pc") < 256.0, "{truth:?}");
}

#[test]
fn gcl_s_own_profiler_counts() {
    const TEST: &str = "gcl_s_own_profiler_counts";
    if !feature::has_program(TEST, "gcl") {
        return;
    }
    let scratch = Scratch::new();
    // Its array is one of characters; a counter is two of them.
    let program = "(setq si::*profile-array* (make-array 4000000 :element-type 'character :static t \
                   :initial-element (code-char 0)))\n\
                   (si::profile 65536 128)\n\
                   (dotimes (i 3) (sort (mapcar (lambda (x) (random 1000000)) (make-list 100000)) #'<))\n\
                   (si::profile 0 0)\n\
                   (defun byte-of (i) (logand 255 (char-code (aref si::*profile-array* i))))\n\
                   (let ((sum 0))\n\
                     (dotimes (i 2000000) (setq sum (+ sum (byte-of (* 2 i)) (* 256 (byte-of (+ 1 (* 2 i)))))))\n\
                     (format t \"counted ~a~%\" sum))\n";
    let file = scratch.path("profile.lsp");
    fs::write(&file, program).expect("our own folder");
    let arguments = ["-batch", "-load", file.to_str().expect("UTF-8")];
    let ran = Run::at(1000, "glibc").launch("gcl", &arguments);
    assert!(ran.status.success(), "{ran:?}");
    assert!(ran.binned() > 50, "{ran:?}");
    assert_eq!(ran.truth().of("counted"), ran.binned() as f64, "{ran:?}");
}

#[test]
fn gdb_profiles_itself() {
    const TEST: &str = "gdb_profiles_itself";
    if !feature::has_program(TEST, "gdb") {
        return;
    }
    let scratch = Scratch::new();
    let script = scratch.path("script");
    let loop_of_its_own = "set $i = 0\nwhile $i < 60000\nset $i = $i + 1\nend\n";
    let profiled = format!("maint set profile on\n{loop_of_its_own}maint set profile off\n");
    fs::write(&script, &profiled).expect("our own folder");
    let arguments = ["-nx", "-batch", "-x", script.to_str().expect("UTF-8")];
    let ran = Run::at(1000, "glibc").in_folder(scratch.path("")).launch("gdb", &arguments);
    assert!(ran.status.success(), "{ran:?}");
    let gmon = fs::read(scratch.path("gmon.out")).expect("gdb writes gmon.out");
    let number = |at: usize| u32::from_ne_bytes(gmon[at..at + 4].try_into().expect("4 bytes"));
    let (nbins, rate) = (number(37) as usize, number(41));
    assert_eq!((&gmon[..8], gmon[20], rate), (&b"gmon\x01\0\0\0"[..], 0, 1000));
    let bins = gmon[61..61 + 2 * nbins].chunks_exact(2);
    let ticks: u64 = bins.map(|bin| u64::from(u16::from_ne_bytes([bin[0], bin[1]]))).sum();
    assert!(ticks > 50, "{ran:?}");
    assert_eq!(ticks, ran.binned(), "{ran:?}");
}

#[test]
fn valgrind_finds_no_fault_in_the_library() {
    const TEST: &str = "valgrind_finds_no_fault_in_the_library";
    if !feature::has_program(TEST, "valgrind") {
        return;
    }
    let scratch = Scratch::new();
    let (calls, conventions) = (scratch.build("calls"), scratch.build("conventions"));
    let sprofil = scratch.build("sprofil");
    let zero_copy = scratch.build("zero_copy");
    for (program, what) in [
        (&calls, "quiet"),
        (&conventions, "fork"),
        (&conventions, "replace"),
        (&sprofil, "second"),
        (&zero_copy, "fork"),
    ] {
        let program = program.to_str().expect("UTF-8");
        for (convention, more) in [("glibc", "--quiet"), ("bsd", "--zero-copy")] {
            let options = ["--convention", convention, more];
            let words = ["-q", "--error-exitcode=9", "--leak-check=full", program, what];
            let ran = Run::new(&options).launch("valgrind", &words);
            assert!(ran.status.success(), "{what}: {ran:?}");
            assert!(!ran.stderr.contains("=="), "{what}: valgrind has something to say: {ran:?}");
        }
    }
}

#[test]
fn programs_with_address_sanitizer_run_and_are_counted() {
    let scratch = Scratch::new();
    // The sanitizer wants to be the first library; linked in, it is.
    let flags = ["-fsanitize=address", "-static-libasan"];
    let conventions = scratch.build_as("conventions", "conventions", &flags);
    for convention in ["glibc", "bsd"] {
        let truth = Run::at(1000, convention).tell(&conventions, &["shares"]);
        assert!(truth.of("all") > 900.0, "{truth:?}");
        for what in ["fork", "replace", "wrap"] {
            Run::at(1000, convention).tell(&conventions, &[what]);
        }
    }
    for (source, whats) in
        [("sprofil", ["second", "overlap"]), ("calls", ["final_off", "handler"]), ("ticks", ["threads", "hammer"])]
    {
        let target = scratch.build_as(source, source, &flags);
        for what in whats {
            Run::at(100, "glibc").tell(&target, &[what]);
        }
    }
}

#[test]
fn a_static_program_is_left_to_its_own_libc() {
    let scratch = Scratch::new();
    let target = scratch.build_as("conventions", "static", &["-static"]);
    let ran = Run::at(100, "glibc").launch(target, &["shares"]);
    assert!(ran.status.success(), "{ran:?}");
    assert!(ran.stderr.contains("no call of profil(3) came"), "{ran:?}");
    assert!(ran.truth().of("all") > 70.0, "libc counts by itself: {ran:?}");
}

/// Check that a program of another libc runs as if it were not profiled. Depends on a preloaded library that only glibc
/// finds: musl's loader ends programs for what such a library lacks.
#[test]
fn a_program_of_another_libc_runs_as_without_us() {
    const TEST: &str = "a_program_of_another_libc_runs_as_without_us";
    if !feature::has_program(TEST, "musl-gcc") {
        return;
    }
    let scratch = Scratch::new();
    let source = scratch.path("status.c");
    fs::write(&source, "int main(void) { return 7; }\n").expect("our own folder");
    for flags in [&["-static"] as &[&str], &[]] {
        let program = scratch.path("status");
        let mut gcc = Command::new("musl-gcc");
        let status = gcc.args(flags).arg("-o").arg(&program).arg(&source).status().expect("musl-gcc runs");
        assert!(status.success(), "{flags:?}");
        let ran = Run::at(100, "glibc").launch(&program, &[] as &[&str]);
        assert_eq!(ran.status.code(), Some(7), "{flags:?}: {ran:?}");
        let lines: Vec<&str> = ran.stderr.lines().collect();
        assert!(lines.len() == 1 && lines[0].contains("no call of profil(3) came"), "{flags:?}: {ran:?}");
    }
}

#[test]
fn a_program_that_nobody_may_look_into_is_left_to_libc() {
    let scratch = Scratch::new();
    let mut daemon = Daemon::start(&scratch);
    let before = daemon.descriptors();
    let library = scratch.path("libprofil.so");
    fs::copy(binary().with_file_name("libprofil.so"), &library).expect("libprofil.so beside the program");
    let mut command = Command::new(scratch.build("undumpable"));
    command.uid(65_534).gid(65_534).env("LD_PRELOAD", &library).env("PROFIL_SOCKET", daemon.socket());
    let (truth, stderr) = output(command.env("PROFIL_DEBUG", "1"));
    assert_eq!((truth.of("on"), truth.of("off")), (0.0, 0.0), "{stderr}");
    assert!(truth.of("counted") > 35.0, "{truth:?}");
    assert!(stderr.contains(&format!("no service, so libc is asked: errno {}", libc::EPERM)), "{stderr}");
    // What the service counted before is off, and can be turned off.
    assert_eq!((truth.of("on_before"), truth.of("off_after")), (0.0, 0.0), "{stderr}");
    assert!(truth.of("counted_before") > 15.0, "{truth:?}");
    daemon.await_calm(before);
    daemon.stop();
}

#[test]
fn a_program_that_may_not_make_sockets_is_left_to_libc() {
    let scratch = Scratch::new();
    let target = scratch.build("locked");
    let ran = Run::at(100, "glibc").env("PROFIL_DEBUG", "1").launch(target, &[] as &[&str]);
    assert!(ran.status.success(), "{ran:?}");
    assert!(ran.stderr.contains(&format!("no service, so libc is asked: errno {}", libc::EPERM)), "{ran:?}");
    let truth = ran.truth();
    assert_eq!((truth.of("on"), truth.of("off")), (0.0, 0.0));
    assert!(truth.of("counted") > 35.0, "{truth:?}");
}

#[test]
fn without_a_service_libc_counts_and_only_profil_debug_makes_a_word_of_it() {
    let scratch = Scratch::new();
    let target = scratch.build("conventions");
    let alone = |debug: bool| {
        let mut command = Command::new(&target);
        command.arg("shares").env("LD_PRELOAD", Path::new(&library_folder()).join("libprofil.so"));
        command.env("PROFIL_SOCKET", scratch.path("nobody-listens"));
        if debug {
            command.env("PROFIL_DEBUG", "1");
        }
        output(&mut command)
    };
    let (truth, stderr) = alone(false);
    assert_eq!(stderr, "");
    assert!(truth.of("all") > 70.0, "{truth:?}");
    let (truth, stderr) = alone(true);
    assert!(stderr.lines().all(|line| line.starts_with("libprofil.so: no service, so libc is asked")), "{stderr}");
    assert!(!stderr.is_empty());
    assert!(truth.of("all") > 70.0, "{truth:?}");
}

#[test]
fn a_program_linked_with_lprofil_asks_the_daemon() {
    let scratch = Scratch::new();
    let folder = library_folder();
    let (search, run_path) = (format!("-L{folder}"), format!("-Wl,-rpath,{folder}"));
    let flags = [&*search, "-Wl,--no-as-needed", "-lprofil", &run_path];
    let target = scratch.build_as("conventions", "linked", &flags);
    let daemon = Daemon::start(&scratch);
    for convention in ["bsd", "glibc"] {
        let mut command = Command::new(&target);
        command.arg("shares").env("PROFIL_SOCKET", daemon.socket());
        command.env("PROFIL_CONVENTION", convention).env("PROFIL_HZ", "1000");
        let (truth, stderr) = output(command.env("PROFIL_DEBUG", "1"));
        assert_eq!(stderr, "", "libc is not asked");
        assert!((truth.of("all") - 1000.0).abs() < 50.0, "{convention}: {truth:?}");
    }
}
