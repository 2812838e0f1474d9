//! sprofil(3): several regions at once.

use profil_tests::{Run, Scratch, Truth};

const HZ: u32 = 1000;

fn told(arguments: &[&str]) -> Truth {
    let scratch = Scratch::new();
    Run::at(HZ, "glibc").tell(scratch.build("sprofil"), arguments)
}

fn assert_ticks(case: &str, ticks: f64, cpu_seconds: f64) {
    let due = cpu_seconds * f64::from(HZ);
    assert!((ticks - due).abs() < 0.05 * due + 5.0, "{case}: {ticks} ticks of {due:.0}");
}

/// With counters of a width, by the flags.
fn assert_width(flags: &str) {
    let truth = told(&["widths", flags]);
    assert_eq!((truth.of("on"), truth.of("off")), (0.0, 0.0));
    assert_ticks("low", truth.of("low"), 0.3);
    assert_ticks("high", truth.of("high"), 0.2);
    assert_eq!(truth.of("beyond"), 0.0, "counted only where the bin is below pr_size / width");
    assert_eq!(truth.of("late"), 0.0, "n = 0 turns it off");
}

#[test]
fn prof_ushort_counts_in_sixteen_bits_for_each_two_bytes() {
    assert_width("0");
}

#[test]
fn prof_uint_counts_in_thirty_two_bits_for_each_four_bytes() {
    assert_width("1");
}

#[test]
fn prof_fast_has_no_effect() {
    assert_width("2");
    assert_width("3");
}

#[test]
fn tvp_receives_the_true_period() {
    let scratch = Scratch::new();
    let target = scratch.build("sprofil");
    for (hz, period_us) in [(100, 10_000.0), (250, 4000.0), (1000, 1000.0)] {
        let truth = Run::at(hz, "glibc").tell(&target, &["widths", "0"]);
        assert!((truth.of("period_us") / period_us - 1.0).abs() < 0.01, "{hz} Hz: {truth:?}");
        let rate = (truth.of("low") + truth.of("high")) / 0.5;
        let due = 1e6 / truth.of("period_us");
        assert!((rate - due).abs() < 0.03 * due + 10.0, "and ticks come at it: {rate} of {due}");
    }
}

#[test]
fn counters_saturate() {
    let truth = told(&["saturate"]);
    assert_eq!((truth.of("first"), truth.of("second")), (65_535.0, 0.0));
    assert_eq!((truth.of("wide_first"), truth.of("wide_second")), (4_294_967_295.0, 0.0));
}

#[test]
fn where_regions_overlap_the_one_with_the_higher_start_keeps_its_range() {
    let truth = told(&["overlap"]);
    assert_eq!((truth.of("on"), truth.of("off")), (0.0, 0.0));
    assert_ticks("low", truth.of("low"), 0.2);
    assert_ticks("high", truth.of("high"), 0.3);
    assert_eq!(truth.of("high_in_low"), 0.0);
}

#[test]
fn the_first_bin_of_the_overflow_entry_takes_ticks_that_match_no_region() {
    let truth = told(&["rest"]);
    assert_ticks("low", truth.of("low"), 0.1);
    assert_ticks("high", truth.of("high"), 0.1);
    assert_ticks("elsewhere", truth.of("overflow"), 0.4);
    assert_eq!(truth.of("overflow_rest"), 0.0);
}

#[test]
fn a_pc_below_the_lowest_region_is_outside_and_harmless() {
    let truth = told(&["below"]);
    assert_eq!([truth.of("on"), truth.of("off"), truth.of("counted")], [0.0; 3]);
}

#[test]
fn ticks_after_a_change_of_region_are_filed_rightly() {
    let truth = told(&["switches"]);
    // A tick a millisecond in stretches of one or two: the shares are binomial.
    let ticks = truth.of("low") + truth.of("high");
    let due = truth.of("low_cpu") / (truth.of("low_cpu") + truth.of("high_cpu"));
    let share = truth.of("low") / ticks;
    assert!((share - due).abs() < 4.0 * (due * (1.0 - due) / ticks).sqrt(), "{share:.3} of {due:.3}: {truth:?}");
    assert_ticks("both", ticks, truth.of("low_cpu") + truth.of("high_cpu"));
}

#[test]
fn a_second_call_works_and_so_does_any_later_one() {
    let truth = told(&["second"]);
    assert_eq!((truth.of("second"), truth.of("failed")), (0.0, 0.0));
    assert_ticks("first", truth.of("first"), 0.2);
    assert_eq!(truth.of("first_later"), 0.0);
    assert_ticks("next", truth.of("next"), 0.3);
    assert_ticks("again", truth.of("again"), 0.2);
}

#[test]
fn more_than_sixty_four_regions_after_flattening_are_einval() {
    let truth = told(&["too_many"]);
    assert_eq!(truth.of("of_64"), 0.0);
    let einval = f64::from(libc::EINVAL);
    for (result, errno) in [("of_65", "errno"), ("flattened", "errno_flattened")] {
        assert_eq!((truth.of(result), truth.of(errno)), (-1.0, einval), "{result}");
    }
}

#[test]
fn a_call_that_is_refused_leaves_profiling_as_it_was() {
    let truth = told(&["too_many"]);
    let einval = f64::from(libc::EINVAL);
    for (result, errno) in [("flags", "errno_flags"), ("negative", "errno_negative")] {
        assert_eq!((truth.of(result), truth.of(errno)), (-1.0, einval), "{result}");
    }
    assert_ticks("what was on", truth.of("counted"), 0.3);
}
