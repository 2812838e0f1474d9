//! Files are taken apart by a process that has nothing to lose: what they do to it costs the names of one object.

use std::fs;
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, SystemTime};

use profil_tests::patience::until;
use profil_tests::profil::binary;
use profil_tests::{By, Profil, Report, Running, Scratch};
use profil_user::build_id::BuildId;
use profil_user::jail::filter;
use profil_user::process::cpu_time;
use profil_user::profile::{Frame, Location, Mapping, MappingKind, Mode, Profile, Row};
use profil_user::sink;
use profil_user::tally::Tally;

/// A unit whose functions each have three hundred thousand ranges: a reader that looks at all of them needs hours.
const ENDLESS: &str = r#"
    .section .debug_abbrev, "", @progbits
    .uleb128 1; .uleb128 0x11; .byte 1; .uleb128 0x55; .uleb128 0x17; .uleb128 0x11; .uleb128 0x01; .byte 0, 0
    .uleb128 2; .uleb128 0x2e; .byte 0; .uleb128 0x55; .uleb128 0x17; .byte 0, 0
    .byte 0
    .section .debug_info, "", @progbits
    .long end - begin
begin:
    .short 4
    .long 0
    .byte 8
    .uleb128 1
    .long ranges
    .quad 0
    .rept 100000
    .uleb128 2
    .long ranges
    .endr
    .byte 0
end:
    .section .debug_ranges, "", @progbits
ranges:
    .rept 300000
    .quad 0x1000, 0x7fffffff
    .endr
    .quad 0, 0
"#;

/// A unit with a hundred thousand functions inlined into one another, none of which ends.
const DEEP: &str = r#"
    .section .debug_abbrev, "", @progbits
    .uleb128 1; .uleb128 0x11; .byte 1; .uleb128 0x11; .uleb128 0x01; .uleb128 0x12; .uleb128 0x07; .byte 0, 0
    .uleb128 2; .uleb128 0x2e; .byte 1; .uleb128 0x03; .uleb128 0x08; .uleb128 0x11; .uleb128 0x01; .uleb128 0x12; .uleb128 0x07; .byte 0, 0
    .uleb128 3; .uleb128 0x1d; .byte 1; .uleb128 0x03; .uleb128 0x08; .uleb128 0x11; .uleb128 0x01; .uleb128 0x12; .uleb128 0x07; .byte 0, 0
    .byte 0
    .section .debug_info, "", @progbits
    .long end - begin
begin:
    .short 4
    .long 0
    .byte 8
    .uleb128 1
    .quad 0x1000, 0x7ffff000
    .uleb128 2
    .asciz "outermost"
    .quad 0x1000, 0x7ffff000
    .rept 100000
    .uleb128 3
    .asciz "inlined"
    .quad 0x1000, 0x7ffff000
    .endr
end:
"#;

/// Builds a program whose debug information is what an assembly source says.
fn build(scratch: &Scratch, name: &str, assembly: &str) -> PathBuf {
    let source = scratch.path(&format!("{name}.s"));
    fs::write(&source, assembly).expect("our own folder");
    let object = scratch.path(&format!("{name}.o"));
    let status = Command::new("gcc").arg("-c").arg(&source).arg("-o").arg(&object).status().expect("gcc runs");
    assert!(status.success(), "{name}");
    scratch.build_as("shares", name, &["-g0", object.to_str().expect("UTF-8")])
}

/// The address (SVMA) of a function, as nm(1) tells it.
fn address_of(program: &Path, function: &str) -> u64 {
    let output = Command::new("nm").arg(program).output().expect("nm runs");
    let text = String::from_utf8(output.stdout).expect("text");
    let line = text.lines().find(|line| line.ends_with(&format!(" {function}"))).expect("the function");
    u64::from_str_radix(line.split(' ').next().expect("an address"), 16).expect("hexadecimal")
}

fn build_id_of(program: &Path) -> BuildId {
    let output = Command::new("readelf").arg("-n").arg(program).output().expect("readelf runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let hex = text.lines().find_map(|line| line.trim().strip_prefix("Build ID: ")).expect("a build ID");
    BuildId::from_hex(hex).expect("a build ID")
}

/// Writes a profile: three ticks at each place, which all have the same frames.
fn profile_at(scratch: &Scratch, places: &[(&Path, BuildId, u64)], frames: &[Frame]) -> PathBuf {
    const TICKS: u64 = 3;
    let ticks = TICKS * places.len() as u64;
    let mut tally = Tally { ticks, hz: 1000.0, ..Tally::default() };
    tally.outcomes[profil_common::Outcome::Stray as usize] = ticks;
    let mapping = |(path, build_id, _): &(&Path, BuildId, u64)| Mapping {
        kind: MappingKind::File,
        object: path.display().to_string(),
        build_id: Some(build_id.clone()),
        start: 0,
        limit: 1 << 40,
        file_offset: 0,
        stale: false,
    };
    let location = |(index, (.., address)): (usize, &(&Path, BuildId, u64))| Location {
        mapping: Some(index),
        address: *address,
        frames: frames.to_vec(),
    };
    let row = |location| Row { location, process: None, tid: None, mode: Mode::User, ticks: TICKS };
    let profile = Profile {
        tally,
        period: Duration::from_millis(1),
        clock: "cpu-clock".into(),
        start: SystemTime::now(),
        duration: Duration::from_secs(1),
        title: "test".into(),
        mappings: places.iter().map(mapping).collect(),
        locations: places.iter().enumerate().map(location).collect(),
        processes: Vec::new(),
        rows: (0..places.len()).map(row).collect(),
    };
    let path = scratch.path("made.pb.gz");
    let mut file = fs::File::create(&path).expect("our own folder");
    sink::pprof::write(&profile, &mut file).and_then(|()| file.flush()).expect("written");
    path
}

/// A report under way.
struct Reporting(Child);

impl Reporting {
    fn start(profile: &Path) -> Reporting {
        let mut report = Command::new(binary());
        report.args(["report", "--json", "--limit", "0"]).arg(profile).stdout(Stdio::piped()).stderr(Stdio::piped());
        Reporting(report.spawn().expect("profil runs"))
    }

    /// The process that reads for it, once it is at work.
    fn busy_reader(&self) -> u32 {
        busy_reader_of(self.0.id())
    }

    /// The report and what was said.
    fn finish(self) -> (Report, String) {
        let Output { status, stdout, stderr } = self.0.wait_with_output().expect("waited for");
        let said = String::from_utf8_lossy(&stderr).into_owned();
        assert_eq!(status.code(), Some(0), "{said}");
        (Report::read(&stdout), said)
    }
}

/// The reader of a profil, once it has used so much CPU time that it must be at work on a file.
fn busy_reader_of(profil: u32) -> u32 {
    until("a reader is at work", || {
        let is_reader = |pid: &u32| {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            status.starts_with("Name:\tprofil-reader\n") && status.contains(&format!("\nPPid:\t{profil}\n"))
        };
        let processes = fs::read_dir("/proc").expect("proc is mounted").flatten();
        let mut processes = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let reader = processes.find(is_reader)?;
        (cpu_time::of_process(reader).ok()? > Duration::from_millis(200)).then_some(reader)
    })
}

fn signal(pid: u32, signal: i32) {
    // SAFETY: the process is the child of a profil that waits for it, so the PID is its own.
    unsafe { libc::kill(pid as i32, signal) };
}

fn is_gone(pid: u32) -> bool {
    !Path::new(&format!("/proc/{pid}")).exists()
}

/// A file that keeps its reader busy, one that has names, and a profile of both.
struct Stage {
    endless: PathBuf,
    profile: PathBuf,
    _scratch: Scratch,
}

impl Stage {
    fn new() -> Stage {
        let scratch = Scratch::new();
        let endless = build(&scratch, "endless", ENDLESS);
        let fine = scratch.build_as("shares", "fine", &[]);
        let place = |path| (path, build_id_of(path), address_of(path, "sixty") + 4);
        let profile = profile_at(&scratch, &[place(&endless), place(&fine)], &[]);
        Stage { endless, profile, _scratch: scratch }
    }
}

/// Asserts that one object has its name, and that the other one is told to have lost it, for a reason.
fn has_lost_one(report: &Report, said: &str, why: &str) {
    let named = |object: &str| {
        let row = report.rows.iter().find(|row| row.object.as_deref().is_some_and(|path| path.ends_with(object)));
        row.and_then(|row| row.function.clone()).expect("a row of each object")
    };
    assert_eq!(named("/fine"), "sixty", "{report:?}");
    assert!(named("/endless").contains("endless+0x"), "{report:?}");
    let line = said.lines().find(|line| line.contains("/endless: names lost")).expect(said);
    assert!(line.contains(why), "{line}");
}

#[test]
fn a_file_cut_short_while_it_is_read_costs_its_own_names_only() {
    let stage = Stage::new();
    let report = Reporting::start(&stage.profile);
    let reader = report.busy_reader();
    signal(reader, libc::SIGSTOP);
    fs::File::options().write(true).open(&stage.endless).expect("our own file").set_len(0).expect("cut");
    signal(reader, libc::SIGCONT);
    let (report, said) = report.finish();
    has_lost_one(&report, &said, "ended");
    assert!(is_gone(reader));
}

#[test]
fn a_reader_that_is_killed_costs_the_names_of_the_file_that_it_read() {
    let stage = Stage::new();
    let report = Reporting::start(&stage.profile);
    let reader = report.busy_reader();
    signal(reader, libc::SIGKILL);
    let (report, said) = report.finish();
    has_lost_one(&report, &said, "ended");
}

#[test]
fn a_file_that_keeps_its_reader_busy_for_ever_costs_its_own_names_only() {
    let stage = Stage::new();
    let report = Reporting::start(&stage.profile);
    let reader = report.busy_reader();
    let (report, said) = report.finish();
    has_lost_one(&report, &said, "took too long");
    assert!(is_gone(reader));
}

#[test]
fn a_reader_that_is_stopped_is_killed() {
    let stage = Stage::new();
    let report = Reporting::start(&stage.profile);
    let reader = report.busy_reader();
    signal(reader, libc::SIGSTOP);
    let (report, said) = report.finish();
    has_lost_one(&report, &said, "took too long");
    assert!(is_gone(reader));
}

#[test]
fn a_reader_ends_with_the_profil_that_it_reads_for() {
    let stage = Stage::new();
    let mut report = Reporting::start(&stage.profile);
    let reader = report.busy_reader();
    report.0.kill().and_then(|()| report.0.wait()).expect("our own child");
    until("the reader ends", || is_gone(reader).then_some(()));
}

#[test]
fn a_reader_has_no_rights_and_no_files_but_those_it_reads() {
    let stage = Stage::new();
    let mut report = Reporting::start(&stage.profile);
    let reader = report.busy_reader();
    let status = fs::read_to_string(format!("/proc/{reader}/status")).expect("it is there");
    let field = |name: &str| {
        let value = status.lines().find_map(|line| line.strip_prefix(name)).expect("a field of the status");
        value.split_ascii_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(field("Seccomp:"), ["2"]);
    assert_eq!(field("NoNewPrivs:"), ["1"]);
    for set in ["CapEff:", "CapPrm:", "CapInh:", "CapAmb:"] {
        assert_eq!(field(set), ["0000000000000000"], "{set}");
    }
    assert_eq!((field("Uid:"), field("Gid:")), (vec!["65534".to_owned(); 4], vec!["65534".to_owned(); 4]));
    assert_eq!(field("Groups:"), [""; 0]);
    assert_eq!(field("Threads:"), ["1"]);
    let files = fs::read_dir(format!("/proc/{reader}/fd")).expect("it is there").flatten();
    for file in files {
        let target = fs::read_link(file.path()).expect("an open file").display().to_string();
        assert!(target.starts_with("socket:") || target == "/dev/null", "{target}: files are mapped and closed");
    }
    let root = fs::read_link(format!("/proc/{reader}/root")).expect("it is there");
    assert!(root.ends_with("fdinfo"), "{}", root.display());
    report.0.kill().and_then(|()| report.0.wait()).expect("our own child");
}

#[test]
fn a_limited_process_can_open_connect_execute_and_signal_nothing() {
    let path = c"/etc/passwd".as_ptr();
    let calls: [(&str, i64, [i64; 4]); 9] = [
        ("openat", libc::SYS_openat, [i64::from(libc::AT_FDCWD), path as i64, 0, 0]),
        ("socket", libc::SYS_socket, [1, 1, 0, 0]),
        ("socketpair", libc::SYS_socketpair, [1, 1, 0, 0]),
        ("execve", libc::SYS_execve, [path as i64, 0, 0, 0]),
        ("kill", libc::SYS_kill, [1, 0, 0, 0]),
        ("clone", libc::SYS_clone, [17, 0, 0, 0]),
        ("ptrace", libc::SYS_ptrace, [0, 0, 0, 0]),
        ("prctl", libc::SYS_prctl, [4, 1, 0, 0]),
        ("mmap of code", libc::SYS_mmap, [0, 4096, 7, 0x22]),
    ];
    let ends = |call: i64, [a, b, c, d]: [i64; 4]| {
        // SAFETY: the child calls only what is meant for a process of one thread, and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let limited = filter::limit().is_ok();
            // SAFETY: the calls are refused or harmless; their pointers are to constants.
            unsafe { libc::syscall(call, a, b, c, d) };
            // SAFETY: the child has nothing to clean up.
            unsafe { libc::_exit(if limited { 7 } else { 8 }) };
        }
        let mut status = 0;
        // SAFETY: the child is ours, and the status is written by the kernel.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        std::process::ExitStatus::from_raw(status)
    };
    for (name, call, arguments) in calls {
        assert_eq!(ends(call, arguments).signal(), Some(libc::SIGSYS), "{name}");
    }
    assert_eq!(ends(libc::SYS_mmap, [0, 4096, 3, 0x22]).code(), Some(7), "memory may be had");
}

/// Names the code of one file.
fn report_of(scratch: &Scratch, program: &Path, build_id: BuildId, address: u64) -> (Report, String) {
    Reporting::start(&profile_at(scratch, &[(program, build_id, address)], &[])).finish()
}

#[test]
fn functions_inlined_without_end_cost_neither_the_name_nor_the_reader() {
    let scratch = Scratch::new();
    let program = build(&scratch, "deep", DEEP);
    let (report, said) = report_of(&scratch, &program, build_id_of(&program), address_of(&program, "sixty") + 4);
    assert!(!said.contains("lost"), "{said}");
    assert_eq!(report.rows[0].function.as_deref(), Some("inlined"), "{report:?}");
}

#[test]
fn sections_that_lie_about_their_size_cost_names_only() {
    let scratch = Scratch::new();
    let program = scratch.build_as("shares", "honest", &["-gz=zlib"]);
    let (build_id, address) = (build_id_of(&program), address_of(&program, "sixty") + 4);
    let original = fs::read(&program).expect("built");
    let word = |at: usize| u64::from_le_bytes(original[at..at + 8].try_into().expect("8 bytes")) as usize;
    let (table, count) = (word(0x28), usize::from(u16::from_le_bytes([original[0x3c], original[0x3d]])));
    let header = |section: usize| table + section * 64;
    let is_compressed = |section: &usize| original[header(*section) + 9] & 8 != 0;
    let sizes = [0, 1, 1 << 30, 1 << 40, u64::MAX];
    let in_headers = (0..count).map(|section| header(section) + 32);
    // What a compressed section unfolds to, behind the kind and padding of its own header.
    let unfolded = (0..count).filter(is_compressed).map(|section| word(header(section) + 24) + 8);
    assert!(unfolded.clone().count() > 3, "sections are compressed");
    let lies = in_headers.chain(unfolded).flat_map(|at| sizes.map(|size| (at, size)));
    let liars: Vec<PathBuf> = lies
        .enumerate()
        .map(|(index, (at, size))| {
            let mut bytes = original.clone();
            bytes[at..at + 8].copy_from_slice(&size.to_le_bytes());
            let liar = scratch.path(&format!("liar-{index}"));
            fs::write(&liar, bytes).expect("our own folder");
            liar
        })
        .collect();
    let files = liars.iter().chain([&program]);
    let places: Vec<_> = files.map(|path| (path.as_path(), build_id.clone(), address)).collect();
    let (report, said) = Reporting::start(&profile_at(&scratch, &places, &[])).finish();
    assert!(!said.contains("lost"), "{said}");
    let named = |path: &Path| {
        let is_it = |row: &&profil_tests::Row| {
            row.object.as_deref() == path.to_str() && row.function.as_deref() == Some("sixty")
        };
        report.rows.iter().any(|row| is_it(&row))
    };
    assert!(named(&program), "{report:?}");
    // Only lies about the tables of symbols take the name.
    let unnamed = liars.iter().filter(|liar| !named(liar)).count();
    assert!(unnamed < liars.len() / 4, "{unnamed} of {}", liars.len());
}

#[test]
fn a_recording_keeps_its_ticks_and_its_status_when_the_names_of_its_program_are_lost() {
    let scratch = Scratch::new();
    let program = build(&scratch, "endless", ENDLESS);
    let recording = Profil::record(&scratch, &["-F", "1999"]).launch(&program, &["0.3"]).spawn();
    signal(busy_reader_of(recording.pid()), libc::SIGKILL);
    let recorded = recording.wait();
    assert_eq!(recorded.code(), 0, "{}", recorded.stderr);
    assert!(recorded.stderr.contains("names lost"), "{}", recorded.stderr);
    let report = recorded.report(By::Object);
    let ticks = report.ticks_of(|row| row.object.as_deref().is_some_and(|path| path.ends_with("/endless")));
    assert!(ticks > 100, "{report:?}");
}

#[test]
fn attach_finds_symbols_through_a_reader() {
    let scratch = Scratch::new();
    let program = scratch.build("shares");
    let target = Running::start(&program, &["5"]);
    let pid = target.pid().to_string();
    let attach = |symbol: &str| {
        let mut attach = Command::new(binary());
        attach.args(["attach", "-d", "100ms", "--bufsiz", "64", "--offset", symbol, "-p", &pid]);
        attach.output().expect("profil runs")
    };
    let found = attach("sixty");
    assert!(matches!(found.status.code(), Some(0 | 4)), "{}", String::from_utf8_lossy(&found.stderr));
    let missing = attach("no_such_function");
    assert_eq!(missing.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&missing.stderr).contains("has no symbol `no_such_function`"));
}

#[test]
fn a_reader_is_started_only_for_code_without_a_name() {
    let scratch = Scratch::new();
    let program = scratch.build("shares");
    let place = [(program.as_path(), build_id_of(&program), address_of(&program, "sixty") + 4)];
    let profil = scratch.path("profil");
    fs::copy(binary(), &profil).expect("a copy that every user may execute");
    // A user who may have no more processes.
    let said = |profile: &Path| {
        let mut report = Command::new("setpriv");
        report.args(["--reuid", "65534", "--clear-groups", "prlimit", "--nproc=0"]);
        report.arg(&profil).args(["report", "--json"]).arg(profile);
        let output = report.output().expect("setpriv runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{said}");
        said
    };
    let frame = Frame { function: "sixty".into(), system_name: None, file: None, line: 0 };
    assert!(said(&profile_at(&scratch, &place, &[])).contains("names lost: the process that reads symbols cannot be"));
    assert!(!said(&profile_at(&scratch, &place, &[frame])).contains("names lost"));
}
