//! What a tick of profil(3) is: how often it comes, where it counts, and whose it is.

use profil_tests::{Run, Scratch, Truth};

const CONVENTIONS: [&str; 4] = ["bsd", "linux", "clix", "glibc"];

fn told(hz: u32, convention: &str, arguments: &[&str]) -> Truth {
    let scratch = Scratch::new();
    Run::at(hz, convention).tell(scratch.build_as("ticks", "ticks", &["-no-pie"]), arguments)
}

/// Checks ticks against the CPU time that asks for them, and a few more.
fn assert_ticks(case: &str, ticks: f64, due: f64) {
    assert!((ticks - due).abs() < 0.03 * due + 5.0, "{case}: {ticks} ticks of {due:.0}");
}

#[test]
fn a_tick_comes_every_10_ms_of_user_and_system_time_of_all_threads() {
    let scratch = Scratch::new();
    // No option: 100 a second is what programs expect.
    let truth = Run::new::<&str>(&[]).tell(scratch.build("ticks"), &["all_time"]);
    assert!(truth.of("cpu") > 2.4, "{truth:?}");
    assert_ticks("100 Hz", truth.of("counted"), truth.of("cpu") * 100.0);
}

#[test]
fn the_rate_is_selectable() {
    for hz in [50, 997, 4000] {
        let truth = told(hz, "glibc", &["all_time"]);
        assert_ticks(&format!("{hz} Hz"), truth.of("counted"), truth.of("cpu") * f64::from(hz));
    }
}

#[test]
fn a_tick_in_kernel_mode_counts_at_the_user_pc_after_the_system_call() {
    let truth = told(1000, "glibc", &["in_kernel"]);
    assert!(truth.of("all") > 400.0, "{truth:?}");
    assert!(truth.of("after") > 0.9 * truth.of("all"), "{truth:?}");
}

#[test]
fn every_thread_counts_into_the_process_s_one_buffer() {
    for convention in CONVENTIONS {
        let truth = told(1000, convention, &["threads"]);
        // The early one has used some time before profiling was on.
        assert!(truth.of("early") > 400.0, "{convention}: {truth:?}");
        assert_ticks(convention, truth.of("late"), 300.0);
    }
}

#[test]
fn eight_threads_that_hammer_one_counter_lose_nothing() {
    let scratch = Scratch::new();
    let target = scratch.build("ticks");
    for more in [&["-F", "4000"][..], &["-F", "4000", "--zero-copy"]] {
        let ran = Run::new(more).launch(&target, &["hammer"]);
        let truth = ran.truth();
        assert_ticks("due", truth.of("first"), 8.0 * 0.4 * 4000.0);
        assert_eq!(truth.of("rest"), 0.0);
        assert_eq!(truth.of("first"), ran.binned() as f64, "{more:?}: what the kernel counted: {ran:?}");
        assert_eq!(ran.binned(), ran.ticks(), "{more:?}: no pc is outside: {ran:?}");
    }
}

/// The small one has its bins in the pool, which has no room for the large one; each call takes the place of the one before
/// it while ticks are under way.
#[test]
fn calls_that_follow_each_other_share_the_ticks_whatever_their_size() {
    let scratch = Scratch::new();
    let ran = Run::at(1000, "glibc").launch(scratch.build_as("ticks", "ticks", &["-no-pie"]), &["in_turns"]);
    let truth = ran.truth();
    assert_ticks("small", truth.of("small"), truth.of("small_cpu") * 1000.0);
    assert_ticks("large", truth.of("large"), truth.of("large_cpu") * 1000.0);
    assert_eq!(truth.of("all"), ran.binned() as f64, "what the kernel counted: {ran:?}");
}

#[test]
fn a_hundred_threads_of_5_ms_count_what_their_cpu_time_demands() {
    let truth = told(100, "glibc", &["short_threads"]);
    let due = truth.of("cpu") * 100.0;
    assert!((truth.of("counted") - due).abs() < 3.0 * due.sqrt(), "3 sigma: {truth:?}");
}

#[test]
fn a_hundred_stretches_of_5_ms_count_what_their_cpu_time_demands() {
    let truth = told(100, "glibc", &["stretches"]);
    let due = truth.of("cpu") * 100.0;
    assert!((truth.of("counted") - due).abs() < 3.0 * due.sqrt(), "3 sigma: {truth:?}");
}

fn is_not_profiled(how: &str) {
    for convention in CONVENTIONS {
        let truth = told(1000, convention, &["child", how]);
        assert_eq!(truth.of("status"), 0.0, "{convention}: the child saw no counts: {truth:?}");
        assert_eq!(truth.of("of_child"), 0.0, "{convention}");
        assert_ticks(convention, truth.of("of_parent"), 300.0);
    }
}

#[test]
fn a_child_of_vfork_that_shares_memory_is_not_profiled() {
    is_not_profiled("vfork");
}

#[test]
fn a_child_of_vfork_that_execs_is_off() {
    is_not_profiled("vfork_exec");
}

#[test]
fn a_child_of_posix_spawn_is_off() {
    is_not_profiled("spawn");
}

#[test]
fn a_child_of_raw_clone_is_not_profiled() {
    is_not_profiled("clone");
}
