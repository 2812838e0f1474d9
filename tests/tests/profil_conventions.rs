//! The four conventions of profil(3), each through a program that calls it: what differs between them, and what does not.
//!
//! Which bin a pc belongs to is pinned by the vectors of profil-common.

use profil_common::Convention;
use profil_tests::{Run, Scratch, Truth};

/// Ticks per second of CPU time in these tests.
const HZ: u32 = 1000;

/// What the target told of each convention.
fn in_each(arguments: &[&str]) -> Vec<(&'static str, Truth)> {
    in_each_at(HZ, arguments)
}

fn in_each_at(hz: u32, arguments: &[&str]) -> Vec<(&'static str, Truth)> {
    let scratch = Scratch::new();
    let target = scratch.build_as("conventions", "conventions", &["-no-pie"]);
    let told = |convention: Convention| (convention.name(), Run::at(hz, convention.name()).tell(&target, arguments));
    Convention::ALL.map(told).into()
}

/// Checks ticks against CPU time; the odd tick is in a clock call or in the code around the loop.
fn assert_ticks(case: &str, ticks: f64, cpu_seconds: f64) {
    let due = cpu_seconds * f64::from(HZ);
    assert!((ticks - due).abs() < 0.05 * due + 5.0, "{case}: {ticks} ticks of {due:.0}");
}

#[test]
fn each_convention_tells_seventy_from_thirty_percent() {
    // Four standard deviations of a share of 4,000 ticks are 3 %.
    for (convention, truth) in in_each_at(4000, &["shares"]) {
        let due = truth.of("seventy_cpu") / (truth.of("seventy_cpu") + truth.of("thirty_cpu"));
        for (name, due) in [("seventy", due), ("thirty", 1.0 - due)] {
            let share = truth.of(name) / truth.of("all");
            assert!((share - due).abs() < 0.03, "{convention}: {share:.3} of {due:.3} in {name}");
        }
        assert_eq!((truth.of("on"), truth.of("off")), (0.0, 0.0), "{convention}: the result is 0");
    }
}

#[test]
fn counts_are_added_to_what_is_there_and_nothing_is_zeroed() {
    for (convention, truth) in in_each(&["shares"]) {
        assert_eq!(truth.of("less"), 0.0, "{convention}");
        assert_ticks(convention, truth.of("all"), truth.of("seventy_cpu") + truth.of("thirty_cpu"));
    }
}

/// What a second call does to profiling.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Then {
    Off,
    On,
    AllInTheFirstBin,
}

/// A second call, after one that turned profiling on: its buffer, bytes and scale; its result and errno; what follows.
type Again = (&'static str, [&'static str; 3], (i32, i32), Then);

fn check_again(rows: &[Again]) {
    let scratch = Scratch::new();
    let target = scratch.build("conventions");
    for (convention, [buffer, bytes, scale], result, then) in rows {
        let case = format!("{convention}: profil({buffer}, {bytes}, offset, {scale})");
        let truth = Run::at(HZ, convention).tell(&target, &["again", buffer, bytes, scale]);
        assert!(truth.of("before") > 25.0, "{case}: the first call counts: {truth:?}");
        let got = (truth.of("result") as i32, truth.of("errno") as i32);
        assert_eq!(got, *result, "{case}");
        assert_eq!(truth.of("bad"), 0.0, "{case}: a bad buffer is never written");
        match then {
            Then::Off => assert_eq!(truth.of("later"), 0.0, "{case}"),
            Then::On => assert_ticks(&case, truth.of("later"), 0.3),
            Then::AllInTheFirstBin => {
                assert_ticks(&case, truth.of("first"), 0.3);
                assert_eq!(truth.of("first"), truth.of("later"), "{case}");
            }
        }
    }
}

#[test]
fn each_convention_is_turned_off_in_its_own_way() {
    check_again(&[
        ("bsd", ["bins", "65536", "0"], (0, 0), Then::Off),
        ("linux", ["null", "65536", "65536"], (0, 0), Then::Off),
        ("glibc", ["null", "65536", "65536"], (0, 0), Then::Off),
        ("clix", ["bins", "65536", "0"], (0, 0), Then::Off),
        ("clix", ["bins", "65536", "1"], (0, 0), Then::Off),
    ]);
}

#[test]
fn a_clix_call_with_bufsiz_0_has_no_effect() {
    check_again(&[("clix", ["bins", "0", "65535"], (0, 0), Then::On), ("clix", ["bins", "0", "0"], (0, 0), Then::On)]);
}

#[test]
fn a_scale_that_is_too_large_is_refused_accepted_or_turns_profiling_off() {
    check_again(&[
        ("bsd", ["bins", "65536", "65537"], (-1, libc::EINVAL), Then::On),
        ("linux", ["bins", "65536", "131072"], (0, 0), Then::On),
        ("glibc", ["bins", "65536", "131072"], (0, 0), Then::On),
        ("clix", ["bins", "65536", "0200000"], (0, 0), Then::Off),
        ("clix", ["bins", "65536", "0xffffffff"], (0, 0), Then::Off),
    ]);
}

#[test]
fn scale_0_of_linux_and_glibc_counts_every_pc_in_the_first_bin() {
    check_again(&[
        ("linux", ["bins", "65536", "0"], (0, 0), Then::AllInTheFirstBin),
        ("glibc", ["bins", "65536", "0"], (0, 0), Then::AllInTheFirstBin),
    ]);
}

#[test]
fn scale_2_of_clix_counts_every_pc_in_the_first_bin() {
    check_again(&[("clix", ["bins", "2", "2"], (0, 0), Then::AllInTheFirstBin)]);
}

#[test]
fn a_bad_buffer_turns_profiling_off_and_only_bsd_says_so() {
    check_again(&[
        ("bsd", ["bad", "65536", "65536"], (-1, libc::EFAULT), Then::Off),
        ("bsd", ["null", "65536", "65536"], (-1, libc::EFAULT), Then::Off),
        ("linux", ["bad", "65536", "65536"], (0, 0), Then::Off),
        ("clix", ["bad", "65536", "65535"], (0, 0), Then::Off),
        ("clix", ["null", "65536", "65535"], (0, 0), Then::Off),
        ("glibc", ["bad", "65536", "65536"], (0, 0), Then::Off),
    ]);
}

#[test]
fn a_buffer_that_is_lost_later_turns_profiling_off_silently() {
    for (convention, truth) in in_each(&["lost"]) {
        assert_eq!(truth.of("written"), 0.0, "{convention}: what lies there afterwards is not the buffer");
        assert_eq!([truth.of("off"), truth.of("on"), truth.of("off_again")], [0.0; 3], "{convention}");
        assert_ticks(convention, truth.of("counted"), 0.3);
    }
}

#[test]
fn a_counter_at_65535_wraps_and_carries_nowhere() {
    for (convention, truth) in in_each(&["wrap"]) {
        assert_ticks(convention, truth.of("first"), 0.3 - 6.0 / f64::from(HZ));
        assert_eq!((truth.of("second"), truth.of("rest")), (5.0, 0.0), "{convention}");
    }
}

#[test]
fn a_forked_child_of_bsd_and_clix_counts_into_its_own_copy() {
    for (convention, truth) in in_each(&["fork"]) {
        assert_eq!((truth.of("child_status"), truth.of("child_off"), truth.of("off")), (0.0, 0.0, 0.0));
        let case = format!("{convention}: the parent");
        assert_ticks(&case, truth.of("low"), 0.3);
        assert_ticks(&case, truth.of("high"), 0.2);
        if matches!(convention, "bsd" | "clix") {
            assert_ticks(&format!("{convention}: the child"), truth.of("child_high"), 0.4);
        }
    }
}

#[test]
fn a_forked_child_of_linux_and_glibc_is_not_profiled() {
    for (convention, truth) in in_each(&["fork"]) {
        if matches!(convention, "linux" | "glibc") {
            assert_eq!(truth.of("child_high"), truth.of("child_start_high"), "{convention}");
            assert_eq!(truth.of("child_low"), truth.of("child_start"), "{convention}");
        }
    }
}

#[test]
fn a_forked_child_starts_with_the_buffer_as_it_stood_at_the_fork() {
    for (convention, truth) in in_each(&["fork"]) {
        if matches!(convention, "bsd" | "clix") {
            // The library has the last ticks written before it forks.
            assert_ticks(convention, truth.of("child_start"), 0.3);
            assert_eq!(truth.of("child_low"), truth.of("child_start"), "{convention}: and keeps it");
        } else {
            assert!(truth.of("child_start") > 0.19 * f64::from(HZ), "{convention}: 100 ms may be missing: {truth:?}");
        }
    }
}

#[test]
fn exec_turns_profiling_off_and_the_next_image_is_not_written() {
    for (convention, truth) in in_each(&["exec"]) {
        assert_eq!([truth.of("written"), truth.of("off"), truth.of("written_at_off")], [0.0; 3], "{convention}");
        assert_ticks(convention, truth.of("counted"), 0.3);
    }
}

#[test]
fn a_second_call_replaces_all_of_the_first_at_once() {
    for (convention, truth) in in_each(&["replace"]) {
        assert_eq!(truth.of("second"), 0.0, "{convention}");
        assert_ticks(convention, truth.of("old"), 0.3);
        assert_eq!(truth.of("old_later"), truth.of("old"), "{convention}: the first buffer is left alone");
        assert_ticks(convention, truth.of("new"), 0.4);
        assert_eq!(truth.of("new_beyond"), 0.0, "{convention}: and its size holds");
    }
}

#[test]
fn bytes_past_the_buffer_and_a_last_odd_byte_are_never_written() {
    for (convention, truth) in in_each(&["bounds"]) {
        assert_ticks(convention, truth.of("low"), 0.2);
        assert_eq!(truth.of("changed"), 0.0, "{convention}");
    }
}

#[test]
fn a_pc_below_offset_is_outside() {
    for (convention, truth) in in_each(&["bounds"]) {
        assert_ticks(convention, truth.of("above"), 0.2);
        assert!(truth.of("all") < truth.of("above") + 5.0, "{convention}: {truth:?}");
    }
}
