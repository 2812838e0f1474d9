//! `profil attach` as a command: what it refuses and in which words, how it reads numbers and symbols, what it
//! writes, and with which status it ends.

mod support_attach;

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use support_attach::{
    BYTES, Left, Profil, Target, build, fixed_target, let_run, movable_target, profil_or_skip, scratch, skip,
};

/// Runs to the end, which `-d` makes a soon one should a request not be refused.
fn attach(profil: &Path, target: &Target, arguments: &[&str]) -> Left {
    let arguments: Vec<&str> = arguments.iter().copied().chain(["-d", "200ms"]).collect();
    Profil::attach(profil, target.pid(), &arguments).wait()
}

fn hex(number: u64) -> String {
    format!("{number:#x}")
}

#[test]
fn bad_buffers_are_refused_with_what_the_convention_makes_of_them() {
    let name = "bad_buffers_are_refused_with_what_the_convention_makes_of_them";
    let Some(profil) = profil_or_skip(name) else { return };
    let mut target = Target::start(&fixed_target());
    let offset = hex(target.address("hot"));
    let verdicts = [
        ("bsd", "EFAULT (bsd), profiling off"),
        ("netbsd", "EFAULT (bsd), profiling off"),
        ("linux", "profiling off (linux: the call returns 0)"),
        ("clix", "profiling off (clix: no result is defined)"),
        ("glibc", "profiling off (glibc: the call returns 0)"),
    ];
    let mut buffers = vec![
        (target.address("shared"), 4096, "lies in shared memory"),
        (target.address("readonly"), 4096, "is not all writable"),
        (target.address("half"), 8192, "is not all mapped"),
        (target.address("half") + 4094, 4, "is not all mapped"),
        (0x1000, 4096, "is not all mapped"),
        (0, 4096, "is not all mapped"),
        (u64::MAX - 99, 4096, "runs over the end of the address space"),
        (target.address("hot") & !0xfff, 64, "is not all writable"),
    ];
    // 0 where the kernel lacks userfaultfd or forbids it.
    match target.address("served") {
        0 => skip(name, "the userfaultfd part: the target cannot open one"),
        served => buffers.push((served, 4096, "is served by userfaultfd")),
    }
    for (convention, verdict) in verdicts {
        for (buffer, bufsiz, reason) in &buffers {
            let (buffer, bufsiz) = (hex(*buffer), bufsiz.to_string());
            let request = ["--buf", &buffer, "--bufsiz", &bufsiz, "--offset", &offset, "--scale", "65535"];
            let left = attach(&profil, &target, &[&request[..], &["--convention", convention]].concat());
            assert_eq!(left.status, 1, "{left:?}");
            assert!(left.stderr.contains(verdict) && left.stderr.contains(reason), "{reason}: {left:?}");
            assert_eq!(left.stderr.lines().count(), 1, "{left:?}");
        }
    }
    target.assert_unharmed();
}

#[test]
fn scales_are_refused_or_turn_off_as_each_convention_says() {
    let name = "scales_are_refused_or_turn_off_as_each_convention_says";
    let Some(profil) = profil_or_skip(name) else { return };
    let target = Target::start(&fixed_target());
    let off = |scale, convention| format!("scale {scale} turns profiling off in convention {convention}");
    let cases = [
        ("bsd", "0", off(0, "bsd")),
        ("bsd", "65537", "EINVAL (bsd): scale 65537 is above 65536".to_owned()),
        ("minix", "0x20000", "EINVAL (bsd): scale 131072 is above 65536".to_owned()),
        ("clix", "0", off(0, "clix")),
        ("clix", "01", off(1, "clix")),
        ("clix", "0200000", "EINVAL (clix): scale 65536 is above 65535".to_owned()),
    ];
    for (convention, scale, words) in cases {
        let left = attach(&profil, &target, &["--buf", "buf", "--scale", scale, "--convention", convention]);
        assert_eq!(left.status, 1, "{left:?}");
        assert!(left.stderr.contains(&words), "{words}: {left:?}");
    }
    assert_eq!(target.sum(), 0);
    // Accepted: all into the first bin, a bin for each byte, and two bins for each counter's width of text.
    for (convention, scale) in
        [("linux", "0"), ("glibc", "0"), ("clix", "02"), ("clix", "0177777"), ("glibc", "131072")]
    {
        let request = ["--buf", "buf", "--offset", "hot", "--scale", scale, "--convention", convention];
        let running = Profil::attach(&profil, target.pid(), &[&request[..], &["--json", "-F", "1000"]].concat());
        running.until_counting(&target);
        let left = running.stop();
        left.assert_all_written();
        assert_eq!(left.status, 0, "{left:?}");
        let last = left.bins().into_keys().max().expect("there are ticks");
        assert_eq!(last == 0, matches!(scale, "0" | "02"), "{left:?}");
    }
}

#[test]
fn a_buffer_too_small_for_a_counter_has_no_effect_and_an_odd_byte_is_not_used() {
    let name = "a_buffer_too_small_for_a_counter_has_no_effect_and_an_odd_byte_is_not_used";
    let Some(profil) = profil_or_skip(name) else { return };
    let target = Target::start(&fixed_target());
    let clean = |bufsiz: &'static str| ["--buf", "buf", "--offset", "hot", "--scale", "2", "--bufsiz", bufsiz];
    for (bufsiz, width) in [("0", "2"), ("1", "2"), ("3", "4")] {
        let left = attach(&profil, &target, &[&clean(bufsiz)[..], &["--width", width]].concat());
        assert_eq!(left.status, 1, "{left:?}");
        assert!(left.stderr.contains("no effect (glibc): a buffer of"), "{left:?}");
    }
    let left = attach(&profil, &target, &[&clean("8")[..], &["--width", "3"]].concat());
    assert_eq!(left.status, 2, "{left:?}");
    assert!(left.stderr.contains("width 3 is neither 2 nor 4 bytes"), "{left:?}");
    // The page behind the end of `half` is not mapped: the odd last byte of the buffer must not be asked for.
    let half = hex(target.address("half") + 4096 - 2);
    let request = ["--buf", &half, "--bufsiz", "3", "--offset", "hot", "--scale", "2", "--json", "-F", "1000"];
    let left = attach(&profil, &target, &request);
    left.assert_all_written();
    assert_eq!((left.status, left.number("nbins")), (0, 1), "{left:?}");
    let counter = target.read(target.address("half") + 4096 - 2, 2);
    assert_eq!(u64::from(u16::from_ne_bytes([counter[0], counter[1]])), left.number("written"));
}

#[test]
fn more_bins_than_the_kernel_keeps_are_refused() {
    let name = "more_bins_than_the_kernel_keeps_are_refused";
    let Some(profil) = profil_or_skip(name) else { return };
    let target = Target::start(&fixed_target());
    let left = attach(&profil, &target, &["--offset", "hot", "--scale", "65536", "--bufsiz", "0x2000000"]);
    assert_eq!(left.status, 1, "{left:?}");
    assert!(left.stderr.contains("16777216 bins are more than 4194304"), "{left:?}");
    let left = attach(&profil, &target, &["--offset", "hot", "--scale", "65536", "--bufsiz", "0xffffffffffff"]);
    assert!(left.stderr.contains("EINVAL (glibc)"), "{left:?}");
}

/// Check a region of as many bins as there may be, without a buffer: all of it is flushed, and adds up.
#[test]
fn the_largest_region_adds_up() {
    let name = "the_largest_region_adds_up";
    let Some(profil) = profil_or_skip(name) else { return };
    let target = Target::start(&fixed_target());
    let request = ["--offset", "hot", "--scale", "65536", "--bufsiz", "8388608", "--json", "-F", "2000"];
    let left = attach(&profil, &target, &request);
    left.assert_conserved();
    assert_eq!((left.status, left.number("nbins")), (0, 4 << 20), "{left:?}");
    assert!(left.json["written"].is_null() && left.number("ticks") > 0, "{left:?}");
    assert!(!left.stderr.contains("not written"), "{left:?}");
}

#[test]
fn symbols_with_offsets_numbers_and_defaults_name_the_same_request() {
    let name = "symbols_with_offsets_numbers_and_defaults_name_the_same_request";
    let Some(profil) = profil_or_skip(name) else { return };
    for program in [fixed_target(), movable_target()] {
        let target = Target::start(&program);
        let (buf, hot) = (target.address("buf"), target.address("hot"));
        // Symbol, and symbol with an offset in three kinds of number, against the address itself.
        for (text, bytes) in [("buf", 0), ("buf+16", 16), ("buf+0x10", 16), ("buf+020", 16)] {
            target.obey(b'c', 0);
            let left = attach(
                &profil,
                &target,
                &["--buf", text, "--offset", "hot", "--scale", "0200000", "--json", "-F", "1000"],
            );
            left.assert_all_written();
            assert_eq!(left.json["offset"], hex(hot));
            assert_eq!((left.number("scale"), left.number("bufsiz")), (65536, BYTES - bytes));
            let counters = target.counters();
            let first = bytes as usize / 2;
            let bins = left.bins();
            assert!(!bins.is_empty(), "{left:?}");
            assert!(counters.iter().enumerate().all(|(index, counter)| {
                let ticks = index.checked_sub(first).and_then(|bin| bins.get(&bin)).copied().unwrap_or(0);
                u64::from(*counter) == ticks
            }));
        }
        let number = [hex(buf), hex(hot + 2)];
        let request = ["--buf", &number[0], "--bufsiz", "1024", "--offset", &number[1], "--scale", "32768", "--json"];
        let left = attach(&profil, &target, &request);
        left.assert_all_written();
        assert_eq!(left.json["offset"], number[1]);
        // The default: all of the text, at the finest power of two; said on standard error and nowhere else.
        let left = attach(&profil, &target, &["--buf", "buf", "--json"]);
        left.assert_all_written();
        assert!(left.stderr.starts_with("profil: scale 65536: 2 bytes of text a bin\n"), "{left:?}");
        let left = attach(&profil, &target, &["--buf", "buf", "--bufsiz", "256", "--json", "--width", "4"]);
        let scale = left.number("scale");
        assert!(scale < 65536 && scale.is_power_of_two(), "{left:?}");
        assert!(
            left.stderr.starts_with(&format!("profil: scale {scale}: {} bytes of text a bin\n", 4 * 65536 / scale)),
            "{left:?}"
        );
        assert_eq!(
            left.json["outcomes"]["outside"].as_u64().map(|outside| outside * 2 < left.number("ticks")),
            Some(true)
        );
    }
}

#[test]
fn usage_errors_end_with_2_and_failures_with_1() {
    let name = "usage_errors_end_with_2_and_failures_with_1";
    let Some(profil) = profil_or_skip(name) else { return };
    let mut target = Target::start(&fixed_target());
    let cases: [(&[&str], i32, &str); 8] = [
        (&["--buf", "0x400000"], 2, "--bufsiz is needed"),
        (&["--buf", "089"], 2, "is no number"),
        (&["--scale", "0x100000000"], 2, "more than 32 bits"),
        (&["--convention", "sysv"], 2, "sysv"),
        (&["--format", "json"], 2, "--output"),
        (&["--buf", "nobody"], 1, "no symbol `nobody`"),
        (&["--object", "libnobody.so"], 1, "no code of `libnobody.so`"),
        (&["--buf", "buf", "--bufsiz", "2", "--offset", "0xffffffffffff0000"], 2, "is behind the text"),
    ];
    for (arguments, status, words) in cases {
        let left = attach(&profil, &target, arguments);
        assert_eq!(left.status, status, "{left:?}");
        assert!(left.stderr.contains(words), "{words}: {left:?}");
    }
    // Stopped, it does not tick.
    support_attach::freeze(target.pid());
    let left = attach(&profil, &target, &["--buf", "buf", "--json"]);
    left.assert_all_written();
    assert_eq!((left.status, left.number("ticks")), (4, 0), "{left:?}");
    target.kill();
    let left = attach(&profil, &target, &[]);
    assert_eq!(left.status, 1, "{left:?}");
    assert!(left.stderr.contains("there is no such process"), "{left:?}");
}

#[test]
fn the_table_names_functions_and_the_file_holds_the_json() {
    let name = "the_table_names_functions_and_the_file_holds_the_json";
    let Some(profil) = profil_or_skip(name) else { return };
    let target = Target::start(&movable_target());
    let file = scratch("bins.json");
    let path = file.to_str().expect("a path in UTF-8");
    let left = attach(&profil, &target, &["-F", "1000", "-o", path]);
    assert_eq!(left.status, 0, "{left:?}");
    let mut lines = left.stdout.lines();
    assert!(
        lines.next().is_some_and(|line| line.split_whitespace().eq(["TICKS", "%", "ADDRESSES", "FUNCTION"])),
        "{left:?}"
    );
    assert!(lines.next().is_some_and(|line| line.ends_with(" hot") || line.ends_with(" cold")), "{left:?}");
    let json: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&file).expect("the file was written")).expect("the file is JSON");
    let from_file = Left { json, ..left };
    from_file.assert_conserved();
    let bins = from_file.json["bins"].as_array().expect("bins");
    let low = |bin: &serde_json::Value| bin["low"].as_str().and_then(|low| u64::from_str_radix(&low[2..], 16).ok());
    assert!(bins.windows(2).all(|pair| low(&pair[0]) < low(&pair[1])), "{bins:?}");
    assert!(from_file.stderr.lines().last().is_some_and(|line| line.contains("; wrote ")), "{from_file:?}");
}

/// Ticks of each function as gprof reads them, from seconds and the rate in the file.
fn by_gprof(object: &Path, gmon: &Path) -> HashMap<String, u64> {
    let bytes = std::fs::read(gmon).expect("the file was written");
    // Header, tag, two addresses, number of bins: then the rate.
    let hz = u32::from_ne_bytes(bytes[41..45].try_into().expect("4 bytes"));
    let output = Command::new("gprof").args(["-b", "-p"]).arg(object).arg(gmon).output().expect("gprof is installed");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let rows = text.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [percent, _, seconds, .., function] = words[..] else { return None };
        percent.parse::<f64>().ok()?;
        Some((function.to_owned(), (seconds.parse::<f64>().ok()? * f64::from(hz)).round() as u64))
    });
    rows.filter(|(_, ticks)| *ticks > 0).collect()
}

/// Check that the memory of a target is open only where bins go into it.
#[test]
fn without_a_buffer_the_memory_of_the_target_is_not_opened() {
    let name = "without_a_buffer_the_memory_of_the_target_is_not_opened";
    let Some(profil) = profil_or_skip(name) else { return };
    let target = Target::start(&movable_target());
    for (arguments, expected) in [(&[] as &[_], false), (&["--buf", "buf"], true)] {
        let running = Profil::attach(&profil, target.pid(), arguments);
        let files = || {
            let entries = std::fs::read_dir(format!("/proc/{}/fd", running.pid())).expect("profil runs");
            entries.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok()).collect::<Vec<_>>()
        };
        let is_open = |name: &str| files().contains(&format!("/proc/{}/{name}", target.pid()).into());
        support_attach::until("the maps are open", || is_open("maps"));
        // A clock is opened after all that is read of the target.
        support_attach::until("it ticks", || files().iter().any(|file| file.ends_with("anon_inode:[perf_event]")));
        assert_eq!(is_open("mem"), expected, "{arguments:?}: {:?}", files());
        assert!(matches!(running.stop().status, 0 | 4), "{arguments:?}");
    }
}

#[test]
fn an_object_may_be_given_by_a_link_to_it() {
    let name = "an_object_may_be_given_by_a_link_to_it";
    let Some(profil) = profil_or_skip(name) else { return };
    let program = movable_target();
    let target = Target::start(&program);
    let link = scratch("link-to-it");
    std::os::unix::fs::symlink(&program, &link).expect("a link in our folder");
    let left = attach(&profil, &target, &["--object", link.to_str().expect("UTF-8"), "--json", "-F", "1000"]);
    std::fs::remove_file(&link).expect("our link");
    assert_eq!(left.status, 0, "{left:?}");
    left.assert_conserved();
    assert_eq!(left.json["object"], program.to_str().expect("UTF-8"));
}

#[test]
fn gprof_agrees_to_the_tick() {
    let name = "gprof_agrees_to_the_tick";
    let Some(profil) = profil_or_skip(name) else { return };
    let library = build("attach_library.c", "libhot.so", &["-shared", "-fPIC"]);
    let directory = library.parent().expect("a file is in a directory");
    let link = [library.to_str().expect("UTF-8"), &format!("-Wl,-rpath,{}", directory.display())];
    let user = build("attach_library_user.c", "library-user", &link);
    let file_name = library.file_name().expect("a name").to_str().expect("UTF-8").to_owned();
    let (fixed, movable) = (fixed_target(), movable_target());
    let cases: [(&Path, &Path, Vec<&str>); 4] = [
        (&fixed, &fixed, vec![]),
        (&movable, &movable, vec![]),
        (&movable, &movable, vec!["--convention", "clix"]),
        (&user, &library, vec!["--object", &file_name]),
    ];
    for (program, object, arguments) in cases {
        let target = Target::start(program);
        let gmon = scratch("gmon.out");
        // gprof prints hundredths of a second: a tick is told from its neighbours at real rates below 100 Hz only.
        let fixed_arguments = ["--json", "-F", "80", "-o", gmon.to_str().expect("UTF-8")];
        let running = Profil::attach(&profil, target.pid(), &[&fixed_arguments[..], &arguments].concat());
        let_run(target.pid(), Duration::from_millis(1500));
        let left = running.stop();
        left.assert_conserved();
        assert_eq!(left.status, 0, "{left:?}");
        let functions = left.functions();
        // The two that work; a tick in the loop that calls them is rare.
        assert!(functions.len() >= 2, "{functions:?}");
        assert_eq!(by_gprof(object, &gmon), functions, "{}", object.display());
    }
}
