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
    insta::assert_snapshot!(shown(&report(By::Function), None, None), @r#"
    1,020 ticks, 1,000 with a place in the code (100 % here); cpu-clock; 100 Hz; 10.25 CPU s; -- ./burn 10
    TICKS  SECONDS      %    CUM%   SYS%    95% RANGE  FUNCTION             OBJECT
      600    6.000  60.00   60.00   16.7  56.93-62.99  spin                 burn
      150    1.500  15.00   75.00    0.0  12.92-17.35  core::hash<u8, "x">  burn
       90    0.900   9.00   84.00    0.0   7.38-10.93  libz.so.1+0x2456     libz.so.1 [stale]
       70    0.700   7.00   91.00  100.0    5.58-8.75  do_syscall_64 [k]    [kernel]
       64    0.640   6.40   97.40    0.0    5.04-8.09  [anon]               [anon]
       26    0.260   2.60  100.00    0.0    1.78-3.78  [unknown]            [unknown]
    "#);
}

#[test]
fn a_narrow_terminal_cuts_names_and_a_limit_says_what_it_hides() {
    insta::assert_snapshot!(shown(&report(By::Function), Some(2), Some(80)), @r#"
    1,020 ticks, 1,000 with a place in the code (100 % here); cpu-clock; 100 Hz; 10…
    TICKS  SECONDS      %   CUM%  SYS%    95% RANGE  FUNCTION             OBJECT
      600    6.000  60.00  60.00  16.7  56.93-62.99  spin                 burn
      150    1.500  15.00  75.00   0.0  12.92-17.35  core::hash<u8, "x">  burn
    and 4 more with 250 ticks (25.00 %); --limit 0 shows all
    "#);
}

#[test]
fn objects_in_a_table() {
    insta::assert_snapshot!(shown(&report(By::Object), None, None), @"
    1,020 ticks, 1,000 with a place in the code (100 % here); cpu-clock; 100 Hz; 10.25 CPU s; -- ./burn 10
    TICKS  SECONDS      %    CUM%   SYS%    95% RANGE  OBJECT                      BUILD ID
      750    7.500  75.00   75.00   13.3  72.22-77.58  /opt/bin/burn               b1b1b1b1
       90    0.900   9.00   84.00    0.0   7.38-10.93  /usr/lib/libz.so.1 [stale]  b2b2b2b2
       70    0.700   7.00   91.00  100.0    5.58-8.75  [kernel]                    -
       64    0.640   6.40   97.40    0.0    5.04-8.09  [anon]                      -
       26    0.260   2.60  100.00    0.0    1.78-3.78  [unknown]                   -
    ");
}

#[test]
fn threads_in_a_table() {
    insta::assert_snapshot!(shown(&report(By::Thread), None, None), @"
    1,020 ticks, 1,000 with a place in the code (100 % here); cpu-clock; 100 Hz; 10.25 CPU s; -- ./burn 10
    TICKS  SECONDS      %    CUM%   SYS%    95% RANGE   PID  TID  PROCESS
      740    7.400  74.00   74.00    0.0  71.19-76.62    10   11  burn
      160    1.600  16.00   90.00   43.8  13.86-18.40  10#2   21  ju st�in
      100    1.000  10.00  100.00  100.0   8.29-12.02    10   12  burn
    ");
}

#[test]
fn lines_in_csv() {
    insta::assert_snapshot!(csv(&report(By::Line)), @r#"
    file,line,function,object,build_id,ticks,percent,kernel_percent,low,high
    /src/burn.c,12,spin,/opt/bin/burn,b1b1b1b1,600,60,16.6667,56.9309,62.9925
    ,,"core::hash<u8, ""x"">",/opt/bin/burn,b1b1b1b1,150,15,0,12.921,17.3469
    ,,libz.so.1+0x2456,/usr/lib/libz.so.1 [stale],b2b2b2b2,90,9,0,7.3796,10.9342
    ,,do_syscall_64,[kernel],,70,7,100,5.5776,8.7515
    ,,[anon],[anon],,64,6.4,0,5.0436,8.0901
    ,,[unknown],[unknown],,26,2.6,0,1.7804,3.7824
    "#);
}

#[test]
fn addresses_in_csv() {
    insta::assert_snapshot!(csv(&report(By::Address)), @r#"
    address,function,object,build_id,ticks,percent,kernel_percent,low,high
    0x1100,spin,/opt/bin/burn,b1b1b1b1,600,60,16.6667,56.9309,62.9925
    0x1200,"core::hash<u8, ""x"">",/opt/bin/burn,b1b1b1b1,150,15,0,12.921,17.3469
    0x3456,libz.so.1+0x2456,/usr/lib/libz.so.1 [stale],b2b2b2b2,90,9,0,7.3796,10.9342
    0xffffffff81001234,do_syscall_64,[kernel],,70,7,100,5.5776,8.7515
    0x7f0000001000,[anon],[anon],,40,4,0,2.9511,5.401
    0x7f0000002000,[anon],[anon],,24,2.4,0,1.618,3.5463
    0xdead0000,[unknown],[unknown],,16,1.6,0,0.9872,2.5832
    0xdead1000,[unknown],[unknown],,10,1,0,0.5441,1.8309
    "#);
}

#[test]
fn functions_in_json() {
    let mut text = Vec::new();
    machine::write_json(&report(By::Function), Some(2), &mut text).unwrap();
    insta::assert_snapshot!(String::from_utf8(text).unwrap(), @r#"{"ticks":1020,"expected":1025,"missed":5,"outcomes":{"binned":0,"stray":1000,"outside":0,"no_user_pc":20,"kernel_excluded":0,"dropped":0},"hz":100.0,"cpu_seconds":10.25,"rows":[{"function":"spin","object":"/opt/bin/burn","build_id":"b1b1b1b1","ticks":600,"percent":60.0,"kernel_percent":16.6667,"low":56.9309,"high":62.9925},{"function":"core::hash<u8, \"x\">","object":"/opt/bin/burn","build_id":"b1b1b1b1","ticks":150,"percent":15.0,"kernel_percent":0.0,"low":12.921,"high":17.3469}]}"#);
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
fn what_a_file_says_of_its_run_is_made_safe_to_show() {
    let mut profile = sample::profile();
    profile.clock = "cpu\x1b[31m\nclock".into();
    profile.title = "-- \x07".into();
    let text = shown(&Report::new(&profile, By::Object, |_| true), Some(1), None);
    assert!(text.starts_with("1,020 ticks, 1,000 with a place"), "{text:?}");
    assert!(text.contains("cpu\u{fffd}[31m\u{fffd}clock") && text.contains("-- \u{fffd}"), "{text:?}");
}

#[test]
fn one_build_at_two_paths_is_one_row_by_build_id() {
    let mut profile = sample::profile();
    profile.mappings[1].build_id = profile.mappings[0].build_id.clone();
    let builds = Report::new(&profile, By::BuildId, |_| true);
    let of_build: Vec<_> = builds.rows.iter().filter(|row| row.group.build_id.is_some()).collect();
    assert_eq!((of_build.len(), of_build[0].ticks), (1, 840));
    assert_eq!(of_build[0].group.object.as_deref(), Some("/opt/bin/burn"));
}

#[test]
fn services_in_a_table_and_commands_where_there_is_none() {
    insta::assert_snapshot!(shown(&report(By::Service), None, None), @"
    1,020 ticks, 1,000 with a place in the code (100 % here); cpu-clock; 100 Hz; 10.25 CPU s; -- ./burn 10
    TICKS  SECONDS      %    CUM%  SYS%    95% RANGE  SERVICE
      840    8.400  84.00   84.00  11.9  81.60-86.14  burn.service
      160    1.600  16.00  100.00  43.8  13.86-18.40  ju st�in
    ");
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
