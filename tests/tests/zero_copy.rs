//! Buffers that the kernel's own array takes the place of.

use profil_tests::{Run, Running, Scratch, Truth};

const HZ: u32 = 1000;

fn run(convention: &str) -> Run {
    Run::new(&["-F", &HZ.to_string(), "--zero-copy", "--convention", convention])
}

fn told(convention: &str, what: &str) -> Truth {
    let scratch = Scratch::new();
    run(convention).tell(scratch.build("zero_copy"), &[what])
}

fn assert_ticks(case: &str, ticks: f64, cpu_seconds: f64) {
    let due = cpu_seconds * f64::from(HZ);
    assert!((ticks - due).abs() < 0.05 * due + 5.0, "{case}: {ticks} ticks of {due:.0}");
}

#[test]
fn the_kernel_counts_while_the_service_is_stopped() {
    let scratch = Scratch::new();
    let mut target = Running::of(run("glibc").of(scratch.build("zero_copy"), &["rising"]));
    target.signal(libc::SIGSTOP);
    target.go();
    let risen = target.line();
    target.signal(libc::SIGCONT);
    assert_eq!(Truth::read(&risen).of("risen"), 50.0, "increments that a loop without system calls saw");
    target.go();
    let (status, truth) = target.finish();
    assert!(status.success());
    assert!(truth.of("counted") >= 50.0, "{truth:?}");
}

#[test]
fn counts_are_added_to_what_was_there_and_stay_after_off() {
    for convention in ["bsd", "linux", "clix", "glibc"] {
        let truth = told(convention, "life");
        assert_eq!((truth.of("on"), truth.of("off")), (0.0, 0.0), "{convention}");
        assert_eq!((truth.of("shared_on"), truth.of("shared_off")), (1.0, 0.0), "{convention}: {truth:?}");
        assert_ticks(convention, truth.of("counted"), truth.of("cpu"));
        assert_eq!(truth.of("late"), 0.0, "{convention}");
        assert_ticks(convention, truth.of("again"), 0.3);
    }
}

#[test]
fn a_counter_of_the_kernel_s_array_wraps_and_carries_nowhere() {
    let truth = told("glibc", "wrap");
    assert_ticks("wrapped", truth.of("first") + 6.0, 0.3);
    assert_eq!(truth.of("rest"), 5.0);
}

#[test]
fn a_forked_child_does_not_share_the_array() {
    for convention in ["bsd", "linux", "clix", "glibc"] {
        let truth = told(convention, "fork");
        assert_eq!([truth.of("status"), truth.of("off"), truth.of("child_off")], [0.0; 3], "{convention}");
        assert_eq!((truth.of("shared"), truth.of("child_shared")), (0.0, 0.0), "{convention}");
        assert_ticks(convention, truth.of("child_start"), 0.3);
        assert_ticks(convention, truth.of("counted"), 0.4);
        if matches!(convention, "bsd" | "clix") {
            assert_ticks(convention, truth.of("child_counted"), 0.2);
        } else {
            assert_eq!(truth.of("child_counted"), 0.0, "{convention}");
        }
    }
}

#[test]
fn a_second_call_gives_the_pages_back_with_their_counts() {
    let truth = told("glibc", "replace");
    assert_eq!((truth.of("second"), truth.of("shared"), truth.of("late")), (0.0, 0.0, 0.0));
    assert_ticks("first", truth.of("first"), 0.2);
    assert_ticks("next", truth.of("next"), 0.3);
}
