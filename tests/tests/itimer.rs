//! profil(3) delivers nothing to a process: timers, signals and calls that wait are as without it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use profil_tests::{Run, Scratch, feature};

#[test]
fn a_program_s_own_itimer_prof_and_profil_are_both_right_within_2_percent() {
    let scratch = Scratch::new();
    let target = scratch.build("itimer");
    let mut ratios = Vec::new();
    // The kernel looks at CPU timers once in its own tick, so other work on the machine makes signals too few: one of
    // three runs must have both right, which none has where the one disturbs the other.
    for _ in 0..3 {
        let truth = Run::at(100, "glibc").tell(&target, &["both", "4"]);
        let due = truth.of("cpu") * 100.0;
        let ratio = (truth.of("handled") / due, truth.of("counted") / due);
        if (ratio.0 - 1.0).abs() < 0.02 && (ratio.1 - 1.0).abs() < 0.02 {
            return;
        }
        ratios.push(ratio);
    }
    panic!("(signals, bins) of what is due: {ratios:?}");
}

#[test]
fn getitimer_shows_the_same_interval_before_during_and_after() {
    let scratch = Scratch::new();
    let truth = Run::at(1000, "glibc").tell(scratch.build("itimer"), &["both", "0.4"]);
    assert!(truth.of("counted") > 350.0, "{truth:?}");
    for when in ["interval_before", "interval_during", "interval_after"] {
        assert_eq!(truth.of(when), 10_000.0, "{when}");
    }
}

#[test]
fn timers_signal_actions_masks_and_pending_signals_stay() {
    let scratch = Scratch::new();
    let ran = Run::at(1000, "glibc").launch(scratch.build("itimer"), &["unchanged"]);
    let shown = |when: &str| {
        let line = ran.stdout.lines().find_map(|line| line.strip_prefix(when));
        line.unwrap_or_else(|| panic!("no {when} in {ran:?}")).to_owned()
    };
    let before = shown("before:");
    assert!(before.matches("notify:").count() == 3, "timer_create's three timers are seen: {before}");
    assert_eq!(shown("during:"), before);
    assert_eq!(shown("after:"), before);
    assert!(ran.truth().of("counted") > 250.0, "there were ticks: {ran:?}");
    assert_eq!(ran.truth().of("handled"), 0.0, "{ran:?}");
}

#[test]
fn read_poll_nanosleep_and_clone_are_never_interrupted() {
    let scratch = Scratch::new();
    let target = scratch.build("itimer");
    for convention in ["glibc", "bsd"] {
        let truth = Run::at(4000, convention).tell(&target, &["waits"]);
        assert!(truth.of("counted") > 1500.0, "there were ticks that could have interrupted: {truth:?}");
        assert_eq!((truth.of("interrupted"), truth.of("failed")), (0.0, 0.0), "{convention}");
    }
}

#[test]
fn forks_of_a_process_of_1_gib_go_on_as_unprofiled() {
    let scratch = Scratch::new();
    let target = scratch.build("itimer");
    for convention in ["glibc", "bsd"] {
        let truth = Run::at(1000, convention).tell(&target, &["forks", "1024"]);
        assert!(truth.of("counted") > 50.0, "ticks came in the midst of forks: {truth:?}");
        assert_eq!(truth.of("failed"), 0.0, "{convention}");
    }
}

/// An instance of the kernel's tracing that records signals; gone when dropped.
struct Tracing(PathBuf);

impl Tracing {
    fn start(test: &str) -> Option<Tracing> {
        let root = Path::new("/sys/kernel/tracing");
        if !root.join("instances").exists() {
            // Best effort: what comes of it is looked at next.
            let _ = Command::new("mount").args(["-t", "tracefs", "nodev"]).arg(root).status();
        }
        let instance = root.join(format!("instances/profil-test-{}", std::process::id()));
        if let Err(error) = fs::create_dir(&instance) {
            feature::skip(test, &format!("no tracefs: cannot make {}: {error}", instance.display()));
            return None;
        }
        let tracing = Tracing(instance);
        let event = tracing.0.join("events/signal/signal_generate/enable");
        fs::write(&event, "1").expect("the event can be turned on");
        Some(tracing)
    }

    fn lines(&self) -> Vec<String> {
        let trace = fs::read_to_string(self.0.join("trace")).expect("the trace can be read");
        trace.lines().filter(|line| line.contains("signal_generate:")).map(str::to_owned).collect()
    }
}

impl Drop for Tracing {
    fn drop(&mut self) {
        // An instance that stays behind is seen by whoever makes the next one of that name.
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn the_kernel_generates_no_signal_for_a_profiled_process() {
    const TEST: &str = "the_kernel_generates_no_signal_for_a_profiled_process";
    let Some(tracing) = Tracing::start(TEST) else { return };
    let scratch = Scratch::new();
    // A name that no other process has.
    let target = scratch.build_as("itimer", "no-signal-here", &[]);
    let truth = Run::at(4000, "glibc").tell(target, &["signals"]);
    assert!(truth.of("counted") > 1000.0, "{truth:?}");
    let lines = tracing.lines();
    let for_target: Vec<_> = lines.iter().filter(|line| line.contains("comm=no-signal-here")).collect();
    assert_eq!(for_target.len(), 1, "the one that it sends itself: {for_target:#?}");
    assert!(for_target[0].contains(&format!("sig={} ", libc::SIGUSR2)), "{for_target:?}");
}
