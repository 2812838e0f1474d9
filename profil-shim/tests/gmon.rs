//! Programs built with -pg: arcs from libc, ticks from the service.

mod support;

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use profil_common::wire::{Area, CallKind, Reply};
use support::program::{Programs, Run};
use support::service::{Answer, OFF, Received, Service, obliging};
use tempfile::TempDir;

const SERVED: &str = "start: 0 default 0";

/// Bytes of gmon.out before the bins, and where the rate is in them.
const HEADER_BYTES: usize = 20 + 41;
const RATE: std::ops::Range<usize> = 41..45;

/// programs/profiled.c, built with -pg, and the folder it runs in.
struct Profiled {
    program: PathBuf,
    folder: TempDir,
    _programs: Programs,
}

impl Profiled {
    fn build(flags: &[&str]) -> Profiled {
        let programs = Programs::new();
        let program = programs.build("profiled", &[&["-pg"], flags].concat());
        Profiled { program, folder: TempDir::new().expect("a folder"), _programs: programs }
    }

    fn run(&self, service: &Service) -> Run {
        self.run_without_service().env("PROFIL_SOCKET", service.socket())
    }

    fn run_without_service(&self) -> Run {
        Run::preloaded(&self.program).with(|command| _ = command.current_dir(self.folder.path()))
    }

    /// Where a function is in the text.
    fn offset_of(&self, function: &str) -> u64 {
        let output = Command::new("nm").arg(&self.program).output().expect("binutils");
        let text = String::from_utf8(output.stdout).expect("text");
        let symbols: HashMap<_, _> = text
            .lines()
            .filter_map(|line| line.split_once(' '))
            .filter_map(|(value, rest)| Some((&rest[2..], u64::from_str_radix(value, 16).ok()?)))
            .collect();
        symbols[function] - symbols["__executable_start"]
    }

    /// A service that puts so many ticks on `hot` when profiling is turned off.
    fn ticking(&self, ticks: u32, period_ns: u64) -> Service {
        let hot = self.offset_of("hot") + 4;
        let mut areas: HashMap<i32, Area> = HashMap::new();
        Service::start(move |received| {
            assert_eq!((received.kind(), received.call.width), (CallKind::Sprofil, 4));
            if let Some(area) = received.areas.first() {
                areas.insert(received.pid, *area);
                return Answer::Reply(Reply { period_ns, ..support::service::ON });
            }
            let area = areas.remove(&received.pid).expect("it was on");
            received.write(area.buffer + hot / 4 * 4, &ticks.to_ne_bytes());
            Answer::Reply(OFF)
        })
    }

    fn gmon_out(&self) -> PathBuf {
        self.folder.path().join("gmon.out")
    }

    /// Self seconds and calls of `hot`, as gprof has them.
    fn gprof(&self, file: &Path) -> (f64, u64) {
        self.row_of("hot", file)
    }

    /// Self seconds and calls of a function, as gprof has them.
    fn row_of(&self, function: &str, file: &Path) -> (f64, u64) {
        let output = Command::new("gprof").args(["-b", "-p"]).arg(&self.program).arg(file).output().expect("binutils");
        let text = String::from_utf8(output.stdout).expect("text");
        let row = text.lines().find(|line| line.split_whitespace().last() == Some(function));
        let row = row.unwrap_or_else(|| panic!("{text}{}", String::from_utf8_lossy(&output.stderr)));
        let columns: Vec<_> = row.split_whitespace().collect();
        (columns[2].parse().expect("seconds"), columns[3].parse().expect("calls"))
    }
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").file_name());
    entries.map(|name| name.into_string().expect("text")).collect()
}

#[test]
fn gprof_shows_arcs_and_the_ticks_of_the_service() {
    for flags in [["-pie", "-fPIE"], ["-no-pie", "-fno-pie"]] {
        let profiled = Profiled::build(&flags);
        let service = profiled.ticking(25, 10_000_000);
        assert_eq!(profiled.run(&service).lines(), [SERVED], "{flags:?}");
        assert_eq!(profiled.gprof(&profiled.gmon_out()), (0.25, 1000), "{flags:?}");
        assert_eq!(service.received().len(), 2);
    }
}

#[test]
fn the_file_is_that_of_libc_but_for_counts_and_rate() {
    let profiled = Profiled::build(&["-no-pie", "-fno-pie"]);
    profiled.run_without_service().lines();
    let of_libc = fs::read(profiled.gmon_out()).expect("gmon.out");
    let service = profiled.ticking(25, 4_000_000);
    profiled.run(&service).env("PROFIL_HZ", "250").lines();
    let ours = fs::read(profiled.gmon_out()).expect("gmon.out");

    assert_eq!(service.received()[0].call.hz, 250);
    assert_eq!((&of_libc[RATE], &ours[RATE]), (&100_u32.to_ne_bytes()[..], &250_u32.to_ne_bytes()[..]));
    assert_eq!((&of_libc[..RATE.start], of_libc.len()), (&ours[..RATE.start], ours.len()));
    let nbins = u32::from_ne_bytes(ours[37..41].try_into().expect("four bytes")) as usize;
    let arcs = HEADER_BYTES + 2 * nbins;
    assert_eq!((&of_libc[RATE.end..HEADER_BYTES], &of_libc[arcs..]), (&ours[RATE.end..HEADER_BYTES], &ours[arcs..]));
    assert_eq!(gprof_ticks(&ours[HEADER_BYTES..arcs]), 25);
}

fn gprof_ticks(bins: &[u8]) -> u32 {
    bins.chunks_exact(2).map(|bin| u32::from(u16::from_ne_bytes([bin[0], bin[1]]))).sum()
}

#[test]
fn gprof_adds_up_counts_that_a_bin_cannot_hold() {
    let profiled = Profiled::build(&[]);
    let service = profiled.ticking(150_000, 1_000_000);
    profiled.run(&service).env("PROFIL_HZ", "1000").lines();
    let (seconds, calls) = profiled.gprof(&profiled.gmon_out());
    // gprof itself is off by as much as the bins are more than the text.
    assert!((150.0..151.0).contains(&seconds), "{seconds}");
    assert_eq!(calls, 1000);
}

#[test]
fn without_a_service_libc_profiles_as_ever() {
    let profiled = Profiled::build(&[]);
    let refusing = Service::start(|_| Answer::Reply(Reply { errno: 12, ..OFF }));
    for run in [profiled.run_without_service(), profiled.run(&refusing)] {
        assert_eq!(run.lines(), ["start: 10000 other 0"]);
        assert_eq!(profiled.gprof(&profiled.gmon_out()).1, 1000);
        fs::remove_file(profiled.gmon_out()).expect("gmon.out");
    }
}

#[test]
fn a_timer_of_the_programs_own_is_left_alone() {
    let profiled = Profiled::build(&[]);
    let service = Service::start(obliging);
    let lines = profiled.run(&service).args("own-timer moncontrol signals again signals").lines();
    let own = ["moncontrol(0)", "moncontrol(1)", "_mcleanup", "monstartup"].map(|when| format!("{when}: 20000 own 0"));
    assert_eq!((lines[0].as_str(), &lines[1..]), (SERVED, &own[..]));
}

#[test]
fn a_signal_that_was_pending_before_stays_pending() {
    let profiled = Profiled::build(&[]);
    let service = Service::start(obliging);
    let lines = profiled.run(&service).args("pend pending again pending").lines();
    let wanted = ["pending: 1", "_mcleanup: 0 own 1", "monstartup: 0 own 1", "pending: 1"];
    assert_eq!((lines[0].as_str(), &lines[1..]), (SERVED, &wanted.map(str::to_owned)[..]));
}

#[test]
fn moncontrol_stops_arcs_and_ticks_and_lets_them_go_on() {
    let profiled = Profiled::build(&[]);
    let service = Service::start(obliging);
    profiled.run(&service).args("moncontrol").lines();
    let received = service.received();
    let are_on: Vec<_> = received.iter().map(|received| !received.turns_off()).collect();
    assert_eq!(are_on, [true, false, true, false]);
    assert_eq!(received[0].areas, received[2].areas);
    // 500 more calls of cold() were made while it was off.
    assert_eq!(profiled.row_of("cold", &profiled.gmon_out()).1, 1);
    assert_eq!(profiled.row_of("hot", &profiled.gmon_out()).1, 1000);
}

#[test]
fn gmon_out_prefix_names_the_file() {
    let profiled = Profiled::build(&[]);
    let service = profiled.ticking(25, 10_000_000);
    profiled.run(&service).env("GMON_OUT_PREFIX", "profile").lines();
    let name = format!("profile.{}", service.received()[0].pid);
    assert_eq!(names_in(profiled.folder.path()), [name.as_str()]);
    assert_eq!(profiled.gprof(&profiled.folder.path().join(name)), (0.25, 1000));
}

#[test]
fn profdir_names_a_folder_in_bsd() {
    let (profiled, profiles) = (Profiled::build(&[]), TempDir::new().expect("a folder"));
    fs::write(profiled.gmon_out(), "of an earlier run").expect("a file");
    let service = profiled.ticking(25, 10_000_000);
    let run = profiled.run(&service).env("PROFIL_CONVENTION", "bsd").env("PROFDIR", profiles.path());
    run.env("GMON_OUT_PREFIX", "unused").lines();
    let name = format!("{}.profiled", service.received()[0].pid);
    assert_eq!(names_in(profiles.path()), [name.as_str()]);
    assert_eq!(profiled.gprof(&profiles.path().join(name)), (0.25, 1000));
    assert_eq!(fs::read(profiled.gmon_out()).expect("the old file"), b"of an earlier run");
}

#[test]
fn an_empty_profdir_means_no_file_in_bsd() {
    let profiled = Profiled::build(&[]);
    let service = Service::start(obliging);
    let run = profiled.run(&service).env("PROFIL_CONVENTION", "bsd").env("PROFDIR", "");
    run.lines();
    assert!(names_in(profiled.folder.path()).is_empty());
    assert_eq!(service.received().len(), 2);
}

#[test]
fn profdir_means_nothing_in_glibc() {
    let (profiled, profiles) = (Profiled::build(&[]), TempDir::new().expect("a folder"));
    let service = Service::start(obliging);
    profiled.run(&service).env("PROFDIR", profiles.path()).lines();
    assert!(names_in(profiles.path()).is_empty() && profiled.gmon_out().exists());
}

#[test]
fn a_forked_child_has_a_file_of_its_own_in_bsd() {
    let (profiled, profiles) = (Profiled::build(&[]), TempDir::new().expect("a folder"));
    let service = Service::start(obliging);
    let run = profiled.run(&service).env("PROFIL_CONVENTION", "bsd").env("PROFDIR", profiles.path());
    run.args("fork").lines();
    let received: Vec<Received> = service.received();
    let on = received.iter().filter(|received| !received.areas.is_empty());
    let mut wanted: Vec<_> = on.map(|received| format!("{}.profiled", received.pid)).collect();
    let mut names = names_in(profiles.path());
    wanted.sort_unstable();
    names.sort_unstable();
    assert_eq!((wanted.len(), names), (2, wanted));
}

#[test]
fn a_forked_child_is_off_in_glibc_and_has_its_arcs() {
    let profiled = Profiled::build(&[]);
    let service = Service::start(obliging);
    profiled.run(&service).env("GMON_OUT_PREFIX", "profile").args("fork").lines();
    let received = service.received();
    assert_eq!((received.len(), received[0].pid), (2, received[1].pid));
    let names = names_in(profiled.folder.path());
    assert_eq!(names.len(), 2);
    for name in names {
        assert_eq!(profiled.gprof(&profiled.folder.path().join(name)), (0.0, 1000));
    }
}

#[test]
fn a_file_that_is_not_the_expected_one_is_left_alone() {
    let profiled = Profiled::build(&[]);
    let service = profiled.ticking(25, 10_000_000);
    // libc follows no link either, and so writes nothing.
    let elsewhere = profiled.folder.path().join("elsewhere");
    fs::write(&elsewhere, "precious").expect("a file");
    std::os::unix::fs::symlink(&elsewhere, profiled.gmon_out()).expect("a link");
    let output = profiled.run(&service).env("PROFIL_DEBUG", "1").output();
    let stderr = String::from_utf8(output.stderr).expect("text");
    assert!(stderr.contains("libprofil.so: gmon.out has no ticks: errno 40\n"), "{stderr}");
    assert_eq!(fs::read(elsewhere).expect("the file"), b"precious");
}
