//! profil(2) for another process: every tick in its bin, and every bin in the target's own buffer.

#[path = "../../profil-common/tests/oracle/mod.rs"]
mod oracle;
mod support_attach;

use std::time::Duration;

use oracle::{Verdict, verdict};
use profil_common::{Convention, Outcome, Request, TickRecord};
use profil_user::attach::{AttachConfig, AttachReport, Attachment, Recording};
use profil_user::rate::Rate;
use support_attach::{
    BYTES, Profil, Target, build, fixed_target, freeze, let_run, movable_target, profil_or_skip, thaw, until,
};

/// An attachment with its recording.
struct Recorded {
    attachment: Attachment,
    ticks: Vec<TickRecord>,
}

impl Recorded {
    fn start(target: &Target, convention: Convention, request: Request) -> Recorded {
        let (process, space) = target.open();
        let config = AttachConfig {
            convention,
            request,
            buffer: Some(target.address("buf")),
            rate: Rate::new(2000.0).expect("a good rate"),
            recording: Recording::On,
        };
        let attachment = Attachment::start(process, space, &config).expect("a good request");
        Recorded { attachment, ticks: Vec::new() }
    }

    fn flush(&mut self) {
        self.attachment.flush();
        self.attachment.session_mut().drain_recording(|tick| self.ticks.push(*tick));
    }

    /// Stops; the target must be frozen, so that no tick comes between the last look at the recording and the end.
    fn stop(mut self) -> (AttachReport, Vec<TickRecord>) {
        self.flush();
        let report = self.attachment.stop().expect("the clock stops");
        (report, self.ticks)
    }
}

/// The oracle's bins over a recording, and the ticks that it puts outside.
fn count_again(convention: Convention, request: Request, ticks: &[TickRecord]) -> (Vec<u64>, u64) {
    let mut bins = vec![0; (request.bufsiz / u64::from(request.width)) as usize];
    let mut outside = 0;
    for tick in ticks {
        match verdict(convention, request, tick.pc) {
            Verdict::Bin(bin) => bins[bin as usize] += 1,
            Verdict::Outside => outside += 1,
            off => panic!("{convention:?} {request:?} is {off:?}"),
        }
    }
    (bins, outside)
}

/// Check two targets at once, each with a buffer of its own, by every convention, width and kind of scale.
#[test]
fn bins_of_two_targets_equal_the_oracle_one_for_one() {
    let name = "bins_of_two_targets_equal_the_oracle_one_for_one";
    if profil_or_skip(name).is_none() {
        return;
    }
    let scales = |convention| match convention {
        Convention::Bsd => [65536, 65535, 32821, 1000],
        // One bin a byte, two, a scale that is no power of two, and all into the first bin.
        Convention::Clix => [0xffff, 0x7fff, 32821, 2],
        Convention::Linux | Convention::Glibc => [65536, 131_072, 32821, 0],
    };
    // A whole program in a few bins. A scale of 1 turns `clix` off.
    let small = |convention| match convention {
        Convention::Clix => [1000, 65, 64],
        _ => [64, 2, 1],
    };
    for convention in Convention::ALL {
        for width in [2, 4] {
            let more = small(convention).into_iter().filter(|_| width == 2);
            for scale in scales(convention).into_iter().chain(more) {
                let targets = [Target::start(&fixed_target()), Target::start(&movable_target())];
                let requests = targets.each_ref().map(|target| {
                    let (hot, cold) = (target.address("hot"), target.address("cold"));
                    // The region begins within `hot` and ends within `cold`, so that ticks fall out at both ends.
                    let offset = hot + 9;
                    let bytes = (cold + 24 - offset) * u64::from(scale) / 65536;
                    let bufsiz = if convention == Convention::Clix { bytes * u64::from(width) } else { bytes };
                    Request { offset, scale, bufsiz: bufsiz.clamp(64, BYTES), width }
                });
                let mut recorded = [0, 1].map(|index| Recorded::start(&targets[index], convention, requests[index]));
                until("both targets have ticked", || {
                    recorded.iter_mut().for_each(Recorded::flush);
                    recorded.iter().all(|recorded| recorded.ticks.len() > 150)
                });
                targets.iter().for_each(|target| freeze(target.pid()));
                for ((recorded, target), request) in recorded.into_iter().zip(&targets).zip(requests) {
                    let (report, ticks) = recorded.stop();
                    let case = format!("{convention:?} {request:?}");
                    let (bins, outside) = count_again(convention, request, &ticks);
                    assert!(report.adds_up(), "{case} {report:?}");
                    assert_eq!(report.histogram.bins(), bins, "{case}");
                    assert_eq!(report.tally.outcome(Outcome::Outside), outside, "{case}");
                    assert_eq!(report.tally.ticks, ticks.len() as u64, "{case}");
                    assert_eq!(report.written, Some(report.tally.outcome(Outcome::Binned)), "{case}");
                    assert!(report.histogram.total() > 0, "{case}");
                    let buffer: Vec<u64> = match width {
                        2 => target.counters().into_iter().map(u64::from).collect(),
                        _ => target.wide_counters().into_iter().map(u64::from).collect(),
                    };
                    assert_eq!(buffer[..bins.len()], bins, "{case}");
                    assert!(buffer[bins.len()..].iter().all(|counter| *counter == 0), "{case}");
                    thaw(target.pid());
                }
            }
        }
    }
}

/// Check drains without a pause while two CPUs count: no tick may fall between a drain and the next.
#[test]
fn drains_at_full_speed_lose_no_tick_of_two_threads() {
    let name = "drains_at_full_speed_lose_no_tick_of_two_threads";
    if profil_or_skip(name).is_none() {
        return;
    }
    let target = Target::start(&build("attach_threads.c", "threads", &["-no-pie", "-pthread"]));
    let request = Request { offset: target.address("hot"), scale: 65536, bufsiz: BYTES, width: 2 };
    let mut recorded = Recorded::start(&target, Convention::Glibc, request);
    while recorded.ticks.len() < 8000 {
        recorded.flush();
    }
    freeze(target.pid());
    let (report, ticks) = recorded.stop();
    let (bins, outside) = count_again(Convention::Glibc, request, &ticks);
    assert!(report.adds_up(), "{report:?}");
    assert_eq!(report.histogram.bins(), bins);
    assert_eq!((report.tally.outcome(Outcome::Outside), report.tally.ticks), (outside, ticks.len() as u64));
    assert_eq!(target.sum(), bins.iter().sum::<u64>());
    let threads: std::collections::BTreeSet<u32> = ticks.iter().map(|tick| tick.tid).collect();
    assert_eq!(threads.len(), 2, "both threads tick: {threads:?}");
    thaw(target.pid());
}

#[test]
fn counts_are_added_to_what_is_there_and_wrap() {
    let name = "counts_are_added_to_what_is_there_and_wrap";
    let Some(profil) = profil_or_skip(name) else { return };
    const BEFORE: u16 = 65530;
    let target = Target::start(&movable_target());
    target.obey(b'f', BEFORE.into());
    let running = Profil::attach(&profil, target.pid(), &["--buf", "buf", "--json", "-F", "1000"]);
    until("a counter has wrapped", || target.counters().iter().any(|counter| *counter < 100));
    let left = running.stop();
    left.assert_all_written();
    let bins = left.bins();
    assert!(bins.values().any(|ticks| *ticks > 6), "{bins:?}");
    for (bin, counter) in target.counters().into_iter().enumerate() {
        let ticks = bins.get(&bin).copied().unwrap_or(0) as u16;
        assert_eq!(counter, BEFORE.wrapping_add(ticks), "{bin}");
    }
}

#[test]
fn a_buffer_that_the_target_clears_counts_from_there() {
    let name = "a_buffer_that_the_target_clears_counts_from_there";
    let Some(profil) = profil_or_skip(name) else { return };
    let target = Target::start(&fixed_target());
    let running = Profil::attach(&profil, target.pid(), &["--buf", "buf", "--json", "-F", "1000"]);
    until("there is something to clear", || target.sum() > 50);
    // While profil stands still, nothing comes between the target's look at the counters and its clearing them.
    freeze(running.pid());
    target.obey(b'c', 0);
    assert_eq!(target.sum(), 0);
    thaw(running.pid());
    running.until_counting(&target);
    let left = running.stop();
    left.assert_all_written();
    assert_eq!(target.sum() + target.long("sum_before"), left.number("written"));
    assert!(target.long("sum_before") > 50);
}

/// Check that the target can count into the bins of code that never runs while profil adds to those on both sides.
#[test]
fn only_bins_with_ticks_are_written() {
    let name = "only_bins_with_ticks_are_written";
    let Some(profil) = profil_or_skip(name) else { return };
    let target = Target::start(&fixed_target());
    let arguments = ["--buf", "buf", "--offset", "hot", "--scale", "65536", "--json", "-F", "1000"];
    let running = Profil::attach(&profil, target.pid(), &arguments);
    running.until_counting(&target);
    for _ in 0..20 {
        target.obey(b'b', 20_000_000);
    }
    let left = running.stop();
    left.assert_all_written();
    let spacer = ((target.address("spacer") - target.address("hot")) / 2) as usize;
    let bins = left.bins();
    assert!(!bins.contains_key(&spacer), "spacer runs: {bins:?}");
    assert!(bins.keys().any(|bin| *bin < spacer) && bins.keys().any(|bin| *bin > spacer), "{bins:?}");
    assert_eq!(target.counters()[spacer], target.long("neighbours") as u16);
}

#[test]
fn ticks_of_a_second_in_which_profil_is_stopped_all_arrive() {
    let name = "ticks_of_a_second_in_which_profil_is_stopped_all_arrive";
    let Some(profil) = profil_or_skip(name) else { return };
    let target = Target::start(&fixed_target());
    let running = Profil::attach(&profil, target.pid(), &["--buf", "buf", "--json", "-F", "1000"]);
    running.until_counting(&target);
    freeze(running.pid());
    let before = target.sum();
    let_run(target.pid(), Duration::from_secs(1));
    assert_eq!(target.sum(), before, "a stopped process writes nothing");
    thaw(running.pid());
    until("the second has arrived", || target.sum() >= before + 900);
    let left = running.stop();
    left.assert_all_written();
    assert_eq!(target.sum(), left.number("written"));
    let (expected, missed) = (left.number("expected"), left.number("missed"));
    assert!(missed * 20 <= expected, "{missed} of {expected}");
}

/// Check that a tick reaches the buffer while profil runs: no look at the clock, only at the order of things.
#[test]
fn the_target_sees_its_counters_grow_while_it_runs() {
    let name = "the_target_sees_its_counters_grow_while_it_runs";
    let Some(profil) = profil_or_skip(name) else { return };
    let target = Target::start(&fixed_target());
    let running = Profil::attach(&profil, target.pid(), &["--buf", "buf", "--json"]);
    for _ in 0..10 {
        running.until_counting(&target);
    }
    running.stop().assert_all_written();
}

#[test]
fn nothing_is_written_after_the_end() {
    let name = "nothing_is_written_after_the_end";
    let Some(profil) = profil_or_skip(name) else { return };
    let target = Target::start(&fixed_target());
    for _ in 0..5 {
        let running = Profil::attach(&profil, target.pid(), &["--buf", "buf", "--json", "-F", "1000"]);
        running.until_counting(&target);
        running.stop().assert_all_written();
        target.obey(b'c', 0);
        let_run(target.pid(), Duration::from_millis(300));
        assert_eq!(target.sum(), 0);
    }
}

#[test]
fn no_system_call_of_the_target_is_interrupted() {
    let name = "no_system_call_of_the_target_is_interrupted";
    let Some(profil) = profil_or_skip(name) else { return };
    let target = Target::start(&fixed_target());
    let running = Profil::attach(&profil, target.pid(), &["--buf", "buf", "--json", "-F", "1000"]);
    running.until_counting(&target);
    target.obey(b's', 3000);
    let left = running.stop();
    left.assert_all_written();
    assert!(left.number("ticks") > 0);
    assert_eq!(target.long("interrupted"), 0);
}

/// Numbers of the eBPF programs and maps that a process holds, by the `fdinfo` of its descriptors.
fn held(pid: u32) -> (Vec<u32>, Vec<u32>) {
    let (mut programs, mut maps) = (Vec::new(), Vec::new());
    let directory = std::fs::read_dir(format!("/proc/{pid}/fdinfo")).expect("the process is there");
    for entry in directory.filter_map(Result::ok) {
        let text = std::fs::read_to_string(entry.path()).unwrap_or_default();
        for (field, number) in text.lines().filter_map(|line| line.split_once(':')) {
            match (field, number.trim().parse()) {
                ("prog_id", Ok(id)) => programs.push(id),
                ("map_id", Ok(id)) => maps.push(id),
                _ => {}
            }
        }
    }
    (programs, maps)
}

/// Whether none of these programs and maps is loaded. Others' come and go.
fn are_gone((programs, maps): &(Vec<u32>, Vec<u32>)) -> bool {
    let mut loaded = aya::programs::loaded_programs().filter_map(Result::ok);
    let mut loaded_maps = aya::maps::loaded_maps().filter_map(Result::ok);
    !loaded.any(|program| programs.contains(&program.id())) && !loaded_maps.any(|map| maps.contains(&map.id()))
}

#[test]
fn a_killed_profil_leaves_nothing_behind() {
    let name = "a_killed_profil_leaves_nothing_behind";
    let Some(profil) = profil_or_skip(name) else { return };
    let mut target = Target::start(&fixed_target());
    let mut runs_that_held_something = 0;
    // Moments that no two runs share: xorshift, seeded by the process.
    let mut random = std::process::id() | 1;
    for _ in 0..20 {
        let running = Profil::attach(&profil, target.pid(), &["--buf", "buf", "-F", "1000"]);
        random ^= random << 13;
        random ^= random >> 17;
        random ^= random << 5;
        std::thread::sleep(Duration::from_micros(u64::from(random % 600_000)));
        freeze(running.pid());
        let held = held(running.pid());
        runs_that_held_something += u32::from(!held.0.is_empty() && !held.1.is_empty());
        running.kill();
        until("the kernel has freed everything", || are_gone(&held));
        target.assert_unharmed();
    }
    assert!(runs_that_held_something > 0, "no run came so far as to load anything");
    let sum = target.sum();
    let_run(target.pid(), Duration::from_millis(200));
    assert_eq!(target.sum(), sum);
    target.assert_unharmed();
}
