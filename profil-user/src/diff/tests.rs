//! Comparison of small profiles, and what chance does to large ones.

use std::time::{Duration, SystemTime};

use proptest::prelude::*;

use super::names::UNNAMED;
use super::table::Rows;
use super::*;
use crate::build_id::BuildId;
use crate::profile::{Frame, Location, Mapping, MappingKind, Mode, ProcessInfo, Row};
use crate::report::color::Paint;
use crate::report::sample;
use crate::report::table::Layout;

/// Code at an address of an object: path, build, address, name, ticks.
type Place = (&'static str, Option<u8>, u64, Option<&'static str>, u64);

fn profile(places: &[Place], hz: f64) -> Profile {
    let (mut mappings, mut locations, mut rows) = (Vec::new(), Vec::new(), Vec::new());
    for (path, build, address, function, ticks) in places {
        let mapping = Mapping {
            kind: MappingKind::File,
            object: (*path).to_owned(),
            build_id: build.and_then(|build| BuildId::new(&[build])),
            start: 0,
            limit: 1 << 20,
            file_offset: 0,
            stale: false,
        };
        let at = mappings.iter().position(|there| *there == mapping).unwrap_or_else(|| {
            mappings.push(mapping);
            mappings.len() - 1
        });
        let frame =
            |name: &str| Frame { function: name.to_owned(), system_name: None, file: Some("x.c".into()), line: 1 };
        rows.push(Row { location: locations.len(), process: Some(0), tid: None, mode: Mode::User, ticks: *ticks });
        let frames = function.iter().map(|name| frame(name)).collect();
        locations.push(Location { mapping: Some(at), address: *address, frames });
    }
    let ticks = places.iter().map(|(.., ticks)| ticks).sum();
    Profile {
        tally: Tally { ticks, outcomes: [0, ticks, 0, 0, 0, 0], cpu_seconds: Some(ticks as f64 / hz), hz },
        period: Duration::from_secs_f64(1.0 / hz),
        clock: "cpu-clock".into(),
        start: SystemTime::UNIX_EPOCH,
        duration: Duration::from_secs(1),
        title: "-- ./a".into(),
        mappings,
        locations,
        processes: vec![ProcessInfo { pid: 7, generation: 1, comm: "a".into(), service: None }],
        rows,
    }
}

fn diff(before: &[Place], after: &[Place]) -> Diff {
    Diff::new(profile(before, 1000.0), profile(after, 1000.0), By::Function, |_| true)
}

/// Function, ticks before, ticks after and what they were matched by, in the order of the functions.
fn pairs(diff: &Diff) -> Vec<(String, u64, u64, Option<MatchedBy>)> {
    let mut pairs: Vec<_> = diff
        .rows
        .iter()
        .map(|row| {
            let function = row.group.function.clone().unwrap_or_default();
            (function, row.before.ticks, row.after.ticks, row.matched_by)
        })
        .collect();
    pairs.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.cmp(&b.1)));
    pairs
}

fn pair(function: &str, before: u64, after: u64, by: MatchedBy) -> (String, u64, u64, Option<MatchedBy>) {
    (function.to_owned(), before, after, Some(by).filter(|_| before > 0 && after > 0))
}

#[test]
fn a_build_is_known_by_its_id_wherever_its_file_is() {
    let found = diff(&[("/a/old", Some(1), 9, Some("f"), 5)], &[("/b/new", Some(1), 7, Some("f"), 6)]);
    assert_eq!(pairs(&found), [pair("f", 5, 6, MatchedBy::Build)]);
}

#[test]
fn other_builds_are_known_by_the_names_of_file_and_function() {
    let found = diff(
        &[
            ("/v1/prog", Some(1), 9, Some("f"), 5),
            ("/v1/prog", Some(1), 19, Some("g"), 3),
            ("/lib", None, 1, Some("f"), 2),
        ],
        &[("/v2/prog", Some(2), 7, Some("f"), 6), ("/lib", Some(3), 8, Some("f"), 4)],
    );
    let by = MatchedBy::Name;
    assert_eq!(pairs(&found), [pair("f", 2, 4, by), pair("f", 5, 6, by), pair("g", 3, 0, by)]);
}

#[test]
fn files_of_one_name_at_two_paths_stay_apart() {
    let found = diff(
        &[("/x/main", Some(1), 1, Some("f"), 10), ("/y/main", Some(2), 1, Some("f"), 20)],
        &[("/x/main", Some(3), 1, Some("f"), 11), ("/y/main", Some(4), 1, Some("f"), 21)],
    );
    assert_eq!(pairs(&found), [pair("f", 10, 11, MatchedBy::Name), pair("f", 20, 21, MatchedBy::Name)]);
}

#[test]
fn a_build_that_runs_on_beside_its_successor_is_not_taken_for_it() {
    let found = diff(
        &[("/prog", Some(1), 1, Some("f"), 10)],
        &[("/prog", Some(1), 1, Some("f"), 4), ("/prog", Some(2), 1, Some("f"), 6)],
    );
    assert_eq!(pairs(&found), [pair("f", 0, 6, MatchedBy::Name), pair("f", 10, 4, MatchedBy::Build)]);
}

#[test]
fn code_without_a_name_is_matched_by_offset_in_one_build_only() {
    let same = diff(&[("/a/p", Some(1), 16, None, 5)], &[("/b/q", Some(1), 16, None, 6)]);
    assert_eq!(pairs(&same), [pair("q+0x10", 5, 6, MatchedBy::Build)]);
    for other in [Some(2), None] {
        let found =
            diff(&[("/a/p", Some(1), 16, None, 5), ("/a/p", Some(1), 32, None, 7)], &[("/a/p", other, 16, None, 6)]);
        assert_eq!(pairs(&found), [pair(UNNAMED, 12, 6, MatchedBy::Name)]);
    }
}

#[test]
fn an_address_is_that_of_the_other_run_in_one_build_only() {
    let rows = |build: u8| {
        let before = profile(&[("/p", Some(1), 16, Some("f"), 5), ("/p", Some(1), 32, Some("f"), 7)], 1000.0);
        let after = profile(&[("/p", Some(build), 32, Some("f"), 6)], 1000.0);
        let diff = Diff::new(before, after, By::Address, |_| true);
        let mut rows: Vec<_> =
            diff.rows.iter().map(|row| (row.group.address, row.before.ticks, row.after.ticks)).collect();
        rows.sort_unstable();
        rows
    };
    assert_eq!(rows(1), [(Some(16), 5, 0), (Some(32), 7, 6)]);
    assert_eq!(rows(2), [(None, 12, 6)]);
}

#[test]
fn processes_are_known_by_number_while_they_live_and_by_name_afterwards() {
    let mut before = sample::profile();
    let mut after = sample::profile();
    before.processes[1] = ProcessInfo { pid: 11, generation: 1, comm: "x".into(), service: None };
    after.processes[1] = ProcessInfo { pid: 12, generation: 1, comm: "x".into(), service: None };
    let diff = Diff::new(before, after, By::Process, |_| true);
    let rows: Vec<_> = diff.rows.iter().map(|row| (row.group.pid, row.matched_by, row.points())).collect();
    assert_eq!(rows, [(Some(10), Some(MatchedBy::Process), 0.0), (Some(12), Some(MatchedBy::Name), 0.0)]);
}

#[test]
fn runs_of_two_rates_are_compared_by_time() {
    let places =
        |factor: u64| [("/p", Some(1), 1, Some("f"), 300 * factor), ("/p", Some(1), 2, Some("g"), 700 * factor)];
    let diff = Diff::new(profile(&places(1), 100.0), profile(&places(10), 1000.0), By::Function, |_| true);
    for row in &diff.rows {
        assert_eq!((row.points(), row.probability), (0.0, 1.0), "{row:?}");
        assert!(row.seconds().is_some_and(|seconds| seconds.abs() < 1e-9), "{row:?}");
        assert!(row.seconds_per_cpu_second().is_some_and(|seconds| seconds.abs() < 1e-9), "{row:?}");
    }
}

#[test]
fn a_filter_hides_rows_and_makes_none_more_certain() {
    let before = || profile(&[("/p", Some(1), 1, Some("f"), 300), ("/p", Some(1), 2, Some("g"), 700)], 1000.0);
    let after = || profile(&[("/p", Some(1), 1, Some("f"), 330), ("/p", Some(1), 2, Some("g"), 670)], 1000.0);
    let whole = Diff::new(before(), after(), By::Function, |_| true);
    let part = Diff::new(before(), after(), By::Function, |name| name == "f");
    assert_eq!(part.rows.len(), 1);
    assert!(whole.rows.contains(&part.rows[0]), "{part:?}");
}

#[test]
fn a_run_without_ticks_says_nothing_of_the_other() {
    let diff = diff(&[], &[("/p", Some(1), 1, Some("f"), 100)]);
    assert_eq!((diff.before.counted, diff.rows[0].is_significant()), (0, false));
}

fn shown(diff: &Diff, rows: Rows, limit: Option<usize>) -> String {
    let mut text = Vec::new();
    table::write(diff, rows, Layout { limit, width: None, paint: Paint::Plain }, &mut text).unwrap();
    String::from_utf8(text).unwrap()
}

fn slower() -> Diff {
    diff(
        &[
            ("/v1/p", Some(1), 1, Some("f"), 300),
            ("/v1/p", Some(1), 2, Some("g"), 500),
            ("/v1/p", Some(1), 3, Some("h"), 200),
            ("/c", Some(9), 4, Some("gone"), 10),
            ("/c", Some(9), 5, Some("same"), 50),
        ],
        &[
            ("/v2/p", Some(2), 1, Some("f"), 900),
            ("/v2/p", Some(2), 2, Some("g"), 800),
            ("/v2/p", Some(2), 3, Some("h"), 319),
            ("/c", Some(9), 5, Some("same"), 98),
        ],
    )
}

#[test]
fn changes_in_a_table() {
    insta::assert_snapshot!(shown(&slower(), Rows::Changed, Some(2)), @"
    before 1,060 ticks; 1000 Hz; 1.06 CPU s; -- ./a
    after  2,117 ticks; 1000 Hz; 2.12 CPU s; -- ./a
    CHANGE  BEFORE%  AFTER%  MS/CPU S  SECONDS  BY CHANCE  FUNCTION  OBJECT
    +14.21    28.30   42.51    +142.1   +0.600    <0.01 %  f         p
     -9.38    47.17   37.79     -93.8   +0.300    <0.01 %  g         p
    and 2 more; --limit 0 shows all
    and 1 row with no more change than two runs of the same code show; --all shows them
    ");
    insta::assert_snapshot!(shown(&slower(), Rows::All, None), @"
    before 1,060 ticks; 1000 Hz; 1.06 CPU s; -- ./a
    after  2,117 ticks; 1000 Hz; 2.12 CPU s; -- ./a
    CHANGE  BEFORE%  AFTER%  MS/CPU S  SECONDS  BY CHANCE  FUNCTION  OBJECT
    +14.21    28.30   42.51    +142.1   +0.600    <0.01 %  f         p
     -9.38    47.17   37.79     -93.8   +0.300    <0.01 %  g         p
     -3.80    18.87   15.07     -38.0   +0.119     0.79 %  h         p
     -0.94     0.94       -      -9.4   -0.010    <0.01 %  gone      c
     -0.09     4.72    4.63      -0.9   +0.048      noise  same      c
    ");
}

#[test]
fn no_change_in_a_table() {
    let places = [("/p", Some(1), 1, Some("f"), 300)];
    insta::assert_snapshot!(shown(&diff(&places, &places), Rows::Changed, None), @"
    before 300 ticks; 1000 Hz; 0.30 CPU s; -- ./a
    after  300 ticks; 1000 Hz; 0.30 CPU s; -- ./a
    no change that two runs of the same code would not show; --all shows 1 row
    ");
}

#[test]
fn changes_in_json_and_csv() {
    let mut text = Vec::new();
    machine::write_json(&slower(), Some(1), &mut text).unwrap();
    insta::assert_snapshot!(String::from_utf8(text).unwrap(), @r#"{"before":{"ticks":1060,"expected":1060,"missed":0,"outcomes":{"binned":0,"stray":1060,"outside":0,"no_user_pc":0,"kernel_excluded":0,"dropped":0},"hz":1000.0,"cpu_seconds":1.06},"after":{"ticks":2117,"expected":2117,"missed":0,"outcomes":{"binned":0,"stray":2117,"outside":0,"no_user_pc":0,"kernel_excluded":0,"dropped":0},"hz":1000.0,"cpu_seconds":2.117},"error_rate":0.05,"rows":[{"function":"f","object":"/v2/p","build_id":"02","matched_by":"name","before":{"ticks":300,"percent":28.3019,"seconds":0.3,"seconds_per_cpu_second":0.283019},"after":{"ticks":900,"percent":42.513,"seconds":0.9,"seconds_per_cpu_second":0.42513},"change_points":14.2111,"change_seconds":0.6,"change_seconds_per_cpu_second":0.142111,"probability":6.683e-15,"corrected":3.342e-14,"significant":true}]}"#);
    let mut text = Vec::new();
    machine::write_csv(&slower(), Some(2), &mut text).unwrap();
    insta::assert_snapshot!(String::from_utf8(text).unwrap(), @"
    function,object,build_id,before_ticks,before_percent,before_seconds,after_ticks,after_percent,after_seconds,change_points,change_seconds,change_seconds_per_cpu_second,probability,corrected,significant
    f,/v2/p,02,300,28.3019,0.3,900,42.513,0.9,14.2111,0.6,0.142111,6.683e-15,3.342e-14,true
    g,/v2/p,02,500,47.1698,0.5,800,37.7893,0.8,-9.3805,0.3,-0.093805,3.969e-7,9.924e-7,true
    ");
}

#[test]
fn colour_tells_worse_from_better() {
    let mut text = Vec::new();
    let layout = Layout { limit: None, width: None, paint: Paint::Ansi };
    table::write(&slower(), Rows::All, layout, &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let line = |function: &str| text.lines().find(|line| line.contains(function)).unwrap();
    assert!(line("  f ").starts_with("\x1b[31m"), "{text:?}");
    assert!(line("  g ").starts_with("\x1b[32m"), "{text:?}");
}

/// A generator of random numbers, the same on every run of the tests.
struct Random(u64);

impl Random {
    /// From 0 up to 1.
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Ticks by function, of `all` that fall with the shares given.
    fn ticks(&mut self, shares: &[f64], all: u64) -> Vec<u64> {
        let mut sum = 0.0;
        let ends: Vec<f64> = shares
            .iter()
            .map(|share| {
                sum += share;
                sum
            })
            .collect();
        let mut ticks = vec![0; shares.len()];
        for _ in 0..all {
            let at = self.next();
            ticks[ends.partition_point(|end| *end <= at).min(shares.len() - 1)] += 1;
        }
        ticks
    }
}

#[test]
fn two_runs_of_the_same_code_differ_significantly_as_seldom_as_is_said() {
    // Shares as programs have them: a few large ones, many small ones.
    let weights: Vec<f64> = (1..=60).map(|rank| 1.0 / f64::from(rank)).collect();
    let shares: Vec<f64> = weights.iter().map(|weight| weight / weights.iter().sum::<f64>()).collect();
    let mut random = Random(1);
    const RUNS: usize = 1000;
    let (mut large, mut large_flagged, mut runs_flagged) = (0u32, 0u32, 0u32);
    for _ in 0..RUNS {
        let (n1, n2) = (2000, 1500);
        let (one, other) = (random.ticks(&shares, n1), random.ticks(&shares, n2));
        let probabilities: Vec<f64> = one
            .iter()
            .zip(&other)
            .map(|(a, b)| chance::probability(Share { hits: *a, all: n1 }, Share { hits: *b, all: n2 }))
            .collect();
        large += 5;
        large_flagged += probabilities[..5].iter().map(|p| u32::from(*p < 0.05)).sum::<u32>();
        runs_flagged += u32::from(chance::corrected(&probabilities).iter().any(|p| *p < ERROR_RATE));
    }
    // 5,000 tests at 5 %: 3.7 to 6.3 % is four standard deviations; they are not quite independent.
    let rate = f64::from(large_flagged) / f64::from(large);
    assert!((0.037..0.063).contains(&rate), "{rate} of the large rows were taken for changed");
    // Of runs without any change, 5 % may be told to have one; exact tests of small rows make it fewer.
    let rate = f64::from(runs_flagged) / RUNS as f64;
    assert!((0.01..0.078).contains(&rate), "{rate} of the runs were told of a change");
}

#[test]
fn a_change_of_a_quarter_in_a_row_of_a_fifth_is_found_in_a_few_thousand_ticks() {
    let mut random = Random(2);
    let (before, after) = ([0.2, 0.3, 0.3, 0.2], [0.25, 0.3, 0.3, 0.15]);
    let found = (0..200).filter(|_| {
        let (one, other) = (random.ticks(&before, 5000), random.ticks(&after, 5000));
        chance::probability(Share { hits: one[0], all: 5000 }, Share { hits: other[0], all: 5000 }) < 1e-4
    });
    assert!(found.count() > 190);
}

fn places() -> impl Strategy<Value = Vec<Place>> {
    let path = prop::sample::select(vec!["/a/p", "/b/p", "/a/q", "/c/r"]);
    let name = prop::sample::select(vec![None, Some("f"), Some("g"), Some("h")]);
    let place = (path, prop::option::of(1u8..4), 0u64..64, name, 1u64..500);
    prop::collection::vec(place, 1..12)
}

fn by() -> impl Strategy<Value = By> {
    prop::sample::select(<By as clap::ValueEnum>::value_variants().to_vec())
}

proptest! {
    #[test]
    fn the_other_way_round_every_change_is_its_opposite(before in places(), after in places(), by in by()) {
        let changes = |diff: &Diff, sign: f64| {
            let mut changes: Vec<_> = diff.rows.iter().map(|row| (row.points() * sign, row.corrected)).collect();
            changes.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
            changes
        };
        let there = Diff::new(profile(&before, 997.0), profile(&after, 100.0), by, |_| true);
        let back = Diff::new(profile(&after, 100.0), profile(&before, 997.0), by, |_| true);
        let (there, back) = (changes(&there, 1.0), changes(&back, -1.0));
        prop_assert_eq!(there.len(), back.len());
        for (there, back) in there.iter().zip(&back) {
            prop_assert!((there.0 - back.0).abs() < 1e-9 && (there.1 - back.1).abs() < 1e-9, "{:?} {:?}", there, back);
        }
    }

    #[test]
    fn a_run_does_not_differ_from_itself(places in places(), by in by()) {
        let diff = Diff::new(profile(&places, 997.0), profile(&places, 997.0), by, |_| true);
        for row in &diff.rows {
            prop_assert_eq!((row.points(), row.seconds(), row.probability), (0.0, Some(0.0), 1.0));
        }
    }

    #[test]
    fn every_tick_of_both_runs_is_in_a_row(before in places(), after in places(), by in by()) {
        let diff = Diff::new(profile(&before, 997.0), profile(&after, 100.0), by, |_| true);
        prop_assert_eq!(diff.rows.iter().map(|row| row.before.ticks).sum::<u64>(), diff.before.counted);
        prop_assert_eq!(diff.rows.iter().map(|row| row.after.ticks).sum::<u64>(), diff.after.counted);
        prop_assert!(diff.rows.iter().map(DiffRow::points).sum::<f64>().abs() < 1e-6);
    }
}
