//! The layouts of perf script, as perf 6.1 printed them, and as names try to break them.

use super::*;

fn read_all(text: &[u8]) -> Result<Profile, InputError> {
    read(Lines::new(text, u64::MAX))
}

/// Comm, function, object, mode, ticks of each row.
fn rows(text: &[u8]) -> Vec<String> {
    let profile = read_all(text).unwrap_or_else(|error| panic!("{error}: {}", text.escape_ascii()));
    let row = |row: &crate::profile::Row| {
        let location = &profile.locations[row.location];
        let process = &profile.processes[row.process.expect("perf tells the command")];
        let object = location.mapping.map_or("-", |mapping| profile.mappings[mapping].object.as_str());
        let names: Vec<_> = location.frames.iter().map(|frame| frame.function.as_str()).collect();
        let mode = if row.mode == Mode::Kernel { "k" } else { "u" };
        let tid = row.tid.unwrap_or(0);
        format!(
            "{:?} {}/{tid} {} {:?} {object} {mode} {}",
            process.comm,
            process.pid,
            format_args!("{:#x}", location.address),
            names.join("<"),
            row.ticks
        )
    };
    profile.rows.iter().map(row).collect()
}

#[test]
fn an_event_on_one_line() {
    let text = b"               a 12333   414.321758:    1001001 cpu-clock:      55d029d57139 hot+0x10 (/tmp/a)\n               a 12333   414.322718:    1001001 cpu-clock:      55d029d57139 hot+0x10 (/tmp/a)\n           mandb 12399 [000]   418.394959:   1001001 cpu-clock:  ffffffff816d6057 vfs_read+0x2a7 ([kernel.kallsyms])\n";
    assert_eq!(
        rows(text),
        [
            "\"a\" 0/12333 0x55d029d57139 \"hot\" /tmp/a u 2",
            "\"mandb\" 0/12399 0xffffffff816d6057 \"vfs_read\" [kernel] k 1"
        ]
    );
}

#[test]
fn the_first_entry_of_a_call_chain() {
    let text = b"a b 10/11 [001]   416.810070:    1001001 cpu-clock: \n\t            1139 hot+0x10 (/tmp/a)\n\t            1200 main+0x10 (/tmp/a)\n\na b 10/12   416.811070:    1001001 cpu-clock: \n\t            2000 inner (inlined)\n\t            2000 outer+0x3 (/tmp/a)\n\t            1200 main+0x10 (/tmp/a)\n\n";
    assert_eq!(
        rows(text),
        ["\"a b\" 10/11 0x1139 \"hot\" /tmp/a u 1", "\"a b\" 10/12 0x2000 \"inner<outer\" /tmp/a u 1"]
    );
}

#[test]
fn objects_that_are_no_files_and_names_that_are_unknown() {
    let line = |rest: &str| rows(format!("x 1 2.000000: 1 cycles:u: {rest}\n").as_bytes())[0].clone();
    assert_eq!(line("7f00 [unknown] (/usr/lib/x.so)"), "\"x\" 0/1 0x7f00 \"[unknown]\" /usr/lib/x.so u 1");
    assert_eq!(line("7f00 [unknown] ([unknown])"), "\"x\" 0/1 0x7f00 \"\" - u 1");
    assert_eq!(line("7f00 __vdso_gettimeofday+0x1f ([vdso])"), "\"x\" 0/1 0x7f00 \"__vdso_gettimeofday\" [vdso] u 1");
    assert_eq!(line("7f00 f+0x1 (/tmp/a b (deleted))"), "\"x\" 0/1 0x7f00 \"f\" /tmp/a b u 1");
    assert_eq!(line("7f00 [unknown] (/tmp/a (1)/b)"), "\"x\" 0/1 0x7f00 \"[unknown]\" /tmp/a (1)/b u 1");
    assert_eq!(line("7f00 Foo.bar+0x1 (/tmp/perf-12.map)"), "\"x\" 0/1 0x7f00 \"Foo.bar\" /tmp/perf-12.map u 1");
    assert_eq!(line("7f00 [unknown] (//anon)"), "\"x\" 0/1 0x7f00 \"\" [anon] u 1");
    assert_eq!(
        line("ffffffffc0001000 ext4_read+0x1 ([ext4])"),
        "\"x\" 0/1 0xffffffffc0001000 \"ext4_read\" [ext4] k 1"
    );
}

#[test]
fn names_with_blanks_brackets_numbers_and_odd_bytes() {
    let comm = |comm: &[u8]| {
        rows(&[comm, b" 7 [003]  2.000000001: 1 cpu-clock:  10 f(int, A (*)(B))+0x1f (/a)\n"].concat())[0].clone()
    };
    for (given, shown) in [
        (&b"   tokio-rt 12 3"[..], "tokio-rt 12 3"),
        (b"a;b \"c\"", "a;b \\\"c\\\""),
        (b"ju st\nin", "ju st\\nin"),
        (b"#x", "#x"),
        (b":-1", ":-1"),
        (b"\xff\xfe", "\\\\xff\\\\xfe"),
    ] {
        assert_eq!(comm(given), format!("\"{shown}\" 0/7 0x10 \"f(int, A (*)(B))\" /a u 1"));
    }
    let symbol = |symbol: &str| rows(format!("x 1 2.000000: 1 cycles: 10 {symbol} (/a)\n").as_bytes())[0].clone();
    assert_eq!(symbol("operator+(A (&)[2])+0x3"), "\"x\" 0/1 0x10 \"operator+(A (&)[2])\" /a u 1");
    assert_eq!(symbol("<A as B<(C, D)>>::f+0x3"), "\"x\" 0/1 0x10 \"<A as B<(C, D)>>::f\" /a u 1");
    assert_eq!(symbol("f(int, A (*)(B))"), "\"x\" 0/1 0x10 \"f(int, A (*)(B))\" /a u 1");
}

#[test]
fn the_rate_is_told_by_clocks_of_one_period_only() {
    let hz = |first: &str, second: &str| {
        let text = format!("x 1 2.000000: {first}: 10 f+0x1 (/a)\nx 1 3.000000: {second}: 10 f+0x1 (/a)\n");
        let profile = read_all(text.as_bytes()).expect("two events");
        assert_eq!(
            (profile.tally.ticks, profile.tally.cpu_seconds, profile.duration),
            (2, None, Duration::from_secs(1))
        );
        profile.tally.hz
    };
    assert_eq!(hz("1000000 cpu-clock", "1000000 cpu-clock:u"), 1000.0);
    assert_eq!(hz("1000000 cpu-clock", "2000000 cpu-clock"), 0.0);
    assert_eq!(hz("cpu-clock", "cpu-clock"), 0.0);
    assert_eq!(hz("1000000 cpu_core/cycles/P", "1000000 cpu_atom/cycles/P"), 0.0);
}

#[test]
fn tracepoints_tick_where_their_call_chain_begins() {
    let text = b"x 1 [0] 2.000000: sched:sched_switch: prev_comm=a prev_pid=1\n\tffffffff81000000 schedule+0x1 ([kernel.kallsyms])\n\n";
    assert_eq!(rows(text), ["\"x\" 0/1 0xffffffff81000000 \"schedule\" [kernel] k 1"]);
}

#[test]
fn what_is_not_of_the_layout_is_told_by_its_line() {
    let error = |text: &[u8]| read_all(text).expect_err("damaged").to_string();
    let good = "x 1 2.000000: 1 cpu-clock: 10 f+0x1 (/a)\n";
    insta::assert_snapshot!(error(format!("{good}this is a long line of something else\n").as_bytes()), @"cannot read the text of perf script: line 2 is not `COMM TID [CPU] TIME: PERIOD EVENT: ADDRESS SYMBOL (OBJECT)` or a line of a call chain; was perf script called with -F?");
    insta::assert_snapshot!(error(format!("{good}x 1 2.000000: 1 cpu-clock: hot\n").as_bytes()), @"cannot read the text of perf script: line 2 has no `ADDRESS SYMBOL (OBJECT)` after the event");
    insta::assert_snapshot!(error(format!("{good}x 1 2.000000: 1 cycles: 10 f+0x1 (/a)\n").as_bytes()), @"cannot read the text of perf script: line 2 is of the event cycles, those before are of cpu-clock; record one event");
    let odd = error(format!("{good}x 1 2.000000: 1 cyc\x7fles\x1b: 10 f+0x1 (/a)\n").as_bytes());
    assert!(odd.contains("cyc\u{fffd}les\u{fffd}"), "{odd:?}");
    insta::assert_snapshot!(error(good.trim_end().as_bytes()), @"cannot read the text of perf script: line 1 has no end: the text is cut short");
    insta::assert_snapshot!(error(format!("{good}ju\n").as_bytes()), @"cannot read the text of perf script: line 2 is not `COMM TID [CPU] TIME: PERIOD EVENT: ADDRESS SYMBOL (OBJECT)` or a line of a call chain; was perf script called with -F?");
}
