//! Grouping and the forms of a report, on one small profile.

use super::color::Paint;
use super::table::Layout;
use super::{By, Report, machine, sample, table};

fn report(by: By) -> Report {
    Report::new(&sample::profile(), by, |_| true)
}

fn shown(report: &Report, limit: Option<usize>, width: Option<usize>) -> String {
    let mut text = Vec::new();
    table::write(report, Layout { limit, width, paint: Paint::Plain }, &mut text).unwrap();
    String::from_utf8(text).unwrap()
}

fn csv(report: &Report) -> String {
    let mut text = Vec::new();
    machine::write_csv(report, None, &mut text).unwrap();
    String::from_utf8(text).unwrap()
}

#[test]
fn functions_in_a_table() {
    insta::assert_snapshot!(shown(&report(By::Function), None, None), @"");
}

#[test]
fn a_narrow_terminal_cuts_names_and_a_limit_says_what_it_hides() {
    insta::assert_snapshot!(shown(&report(By::Function), Some(2), Some(80)), @"");
}

#[test]
fn objects_in_a_table() {
    insta::assert_snapshot!(shown(&report(By::Object), None, None), @"");
}

#[test]
fn threads_in_a_table() {
    insta::assert_snapshot!(shown(&report(By::Thread), None, None), @"");
}

#[test]
fn lines_in_csv() {
    insta::assert_snapshot!(csv(&report(By::Line)), @"");
}

#[test]
fn addresses_in_csv() {
    insta::assert_snapshot!(csv(&report(By::Address)), @"");
}

#[test]
fn functions_in_json() {
    let mut text = Vec::new();
    machine::write_json(&report(By::Function), Some(2), &mut text).unwrap();
    insta::assert_snapshot!(String::from_utf8(text).unwrap(), @"");
}

#[test]
fn what_is_not_known_is_null_in_json() {
    let mut profile = sample::profile();
    profile.tally.cpu_seconds = None;
    profile.tally.hz = 0.0;
    profile.rows.clear();
    let json =
        serde_json::to_value(machine::JsonReport::new(&Report::new(&profile, By::Process, |_| true), None)).unwrap();
    for key in ["expected", "missed", "hz", "cpu_seconds"] {
        assert!(json[key].is_null(), "{key}: {json}");
    }
}

#[test]
fn every_grouping_keeps_every_tick() {
    for by in <By as clap::ValueEnum>::value_variants() {
        let report = report(*by);
        assert_eq!(report.rows.iter().map(|row| row.ticks).sum::<u64>(), 1000, "{by:?}");
        assert_eq!(report.rows.last().unwrap().cumulative_percent, 100.0, "{by:?}");
    }
}

#[test]
fn a_filter_hides_rows_and_leaves_shares_as_they_are() {
    let report = Report::new(&sample::profile(), By::Function, |name| name.contains("hash"));
    assert_eq!(report.rows.len(), 1);
    assert_eq!((report.rows[0].percent, report.counted), (15.0, 1000));
}

#[test]
fn builds_of_one_path_are_kept_apart() {
    let mut profile = sample::profile();
    profile.mappings[1].object = "/opt/bin/burn".into();
    profile.mappings[1].stale = false;
    let objects = Report::new(&profile, By::Object, |_| true);
    assert_eq!(objects.rows.iter().filter(|row| row.group.object.as_deref() == Some("/opt/bin/burn")).count(), 2);
}

#[test]
fn colour_marks_hot_rows_only_when_asked_for() {
    let mut text = Vec::new();
    let layout = Layout { limit: None, width: None, paint: Paint::Ansi };
    table::write(&report(By::Object), layout, &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(text.lines().nth(2).unwrap().starts_with("\x1b[31m"), "{text:?}");
    assert!(!shown(&report(By::Object), None, None).contains('\x1b'));
}
