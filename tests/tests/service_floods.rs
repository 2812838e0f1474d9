//! A client that dies, stops, or asks for all that it can leaves others unharmed: they go on being counted and served.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::time::{Duration, Instant};

use profil_tests::attacker::{self, Attack, Attacker};
use profil_tests::{Daemon, Scratch, Truth, profil};

/// User of the bystander.
const BYSTANDER_UID: u32 = 65_533;

/// How long the bystander is watched, seconds.
const WATCHED_SECONDS: &str = "3";

/// How long a call of libprofil.so waits for the service, seconds.
const PATIENCE_SECONDS: f64 = 10.0;

/// Warnings that the service may give at once, and how many more each second.
const WARNINGS_AT_ONCE: usize = 10;

/// Who warns, each with such a limit of its own: the service and its copiers.
const HUSHES: usize = 2;

/// Lines that the service says in any case, at its beginning and end.
const SAID_OTHERWISE: usize = 4;

/// A service, somebody who attacks it, and somebody who only uses it.
struct Scene {
    scratch: Scratch,
    daemon: Daemon,
    attacker: Attacker,
    since: Instant,
}

impl Scene {
    fn new() -> Scene {
        let scratch = Scratch::new();
        let daemon = Daemon::start(&scratch);
        let attacker = Attacker::new(&scratch, env!("CARGO_BIN_EXE_attacker"), daemon.socket());
        scratch.build("bystander");
        let library = profil::binary().with_file_name("libprofil.so");
        fs::copy(library, scratch.path("libprofil.so")).expect("libprofil.so beside the program");
        Scene { scratch, daemon, attacker, since: Instant::now() }
    }

    /// Lets the bystander use the service for some seconds, and sees that it was served and counted.
    #[expect(clippy::print_stdout, reason = "the latencies are wanted")]
    fn bystand(&self, attack: &str) {
        let mut command = Command::new(self.scratch.path("bystander"));
        command.arg(WATCHED_SECONDS).uid(BYSTANDER_UID).gid(BYSTANDER_UID);
        command.env("LD_PRELOAD", self.scratch.path("libprofil.so"));
        command.env("PROFIL_SOCKET", self.daemon.socket()).env("PROFIL_HZ", "1000");
        let output = command.output().expect("the bystander runs");
        let truth = Truth::read(&String::from_utf8_lossy(&output.stdout));
        let ms = |name| truth.of(name) * 1e3;
        println!(
            "LATENCY {attack}: on p50 {:.2} p99 {:.2} max {:.2} ms, off p50 {:.2} p99 {:.2} max {:.2} ms; \
             {} rounds, {} ticks in {:.3} CPU s",
            ms("on_p50"),
            ms("on_p99"),
            ms("on_max"),
            ms("off_p50"),
            ms("off_p99"),
            ms("off_max"),
            truth.of("rounds"),
            truth.of("ticks"),
            truth.of("cpu"),
        );
        assert_eq!((truth.of("failed"), truth.of("by_libc")), (0.0, 0.0), "every call is served: {truth:?}");
        assert!(truth.of("on_max").max(truth.of("off_max")) < PATIENCE_SECONDS, "{truth:?}");
        // A tick for each millisecond of CPU time, less those that fall on a CPU that is busy with bpf(2).
        assert!(truth.of("ticks") > truth.of("cpu") * 1000.0 * 0.6, "counted: {truth:?}");
    }

    /// Sees that nothing of the attacker is left, and that the service has not said too much.
    fn end(mut self, before: profil_tests::daemon::Descriptors) -> String {
        self.daemon.await_calm(before);
        let log = self.daemon.stop();
        let lines = log.lines().count();
        let allowed = SAID_OTHERWISE + HUSHES * (WARNINGS_AT_ONCE + self.since.elapsed().as_secs() as usize + 1);
        assert!(lines <= allowed, "at most {allowed} lines: {log}");
        log
    }
}

/// Makes a flood, and returns how often it came and what the service said.
#[expect(clippy::print_stdout, reason = "the number is wanted")]
fn flood(name: &str) -> String {
    let scene = Scene::new();
    let before = scene.daemon.descriptors();
    let flood: Attack = scene.attacker.start(attacker::UID, &["flood", name]);
    scene.bystand(name);
    let rounds = flood.end().all("rounds");
    println!("FLOOD {name}: {rounds:?} rounds");
    scene.end(before)
}

#[test]
fn a_bystander_is_served_when_nobody_attacks() {
    let scene = Scene::new();
    let before = scene.daemon.descriptors();
    scene.bystand("nothing");
    scene.end(before);
}

#[test]
fn a_flood_of_connections_leaves_others_unharmed() {
    flood("connections");
}

#[test]
fn a_flood_of_connections_that_are_kept_leaves_others_unharmed() {
    let log = flood("greedy-connections");
    assert!(log.contains("put off a connection of user 65534"), "{log}");
}

#[test]
fn a_flood_of_calls_leaves_others_unharmed() {
    flood("calls");
}

#[test]
fn a_flood_of_bins_of_ever_new_sizes_leaves_others_unharmed() {
    flood("sizes");
}

#[test]
fn a_flood_of_clients_that_end_leaves_others_unharmed() {
    flood("clients");
}

#[test]
fn a_flood_of_bad_messages_leaves_others_unharmed_and_the_log_short() {
    let log = flood("malformed");
    assert!(log.contains("refused a call") && log.contains("warnings before it"), "{log}");
}

#[test]
fn a_client_that_forks_a_thousand_times_a_second_leaves_others_unharmed() {
    flood("forks");
}

#[test]
fn a_flood_of_copiers_that_are_killed_leaves_others_unharmed_and_the_log_short() {
    // A copier writes for microseconds of each flush: whether one was killed in the midst of it, chance decides.
    flood("copiers");
}

#[test]
fn clients_that_die_at_every_step_leave_nothing_behind() {
    let scene = Scene::new();
    let before = scene.daemon.descriptors();
    std::thread::scope(|scope| {
        let deaths = scope.spawn(|| scene.attacker.run(&["deaths"]));
        scene.bystand("deaths");
        assert_eq!(deaths.join().expect("the attacker ends").one("done"), 0);
    });
    scene.end(before);
}

#[test]
fn clients_that_stop_at_every_step_leave_others_unharmed() {
    let scene = Scene::new();
    let before = scene.daemon.descriptors();
    let stopped = scene.attacker.start(attacker::UID, &["stops"]);
    scene.bystand("stops");
    stopped.end();
    let log = scene.end(before);
    assert!(log.contains("no call came within 2 s"), "{log}");
}

#[test]
fn a_service_that_was_stopped_answers_those_who_waited() {
    let scene = Scene::new();
    let before = scene.daemon.descriptors();
    scene.daemon.freeze();
    let waiting = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| scene.attacker.run(&["too-large"]));
        std::thread::sleep(Duration::from_millis(300));
        scene.daemon.signal(libc::SIGCONT);
        waiting.join().expect("the attacker ends")
    });
    assert_eq!(waiting.one("all_memory"), i64::from(libc::ENOMEM));
    scene.end(before);
}
