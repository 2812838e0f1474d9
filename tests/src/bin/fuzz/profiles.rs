//! The readers of profiles.

use std::io::BufRead;

use profil_user::input::{self, InputError, Lines, Origin, folded, gmon, perf_script};
use profil_user::pprof::{self, wire};
use profil_user::profile::Profile;
use profil_user::report::color::Paint;
use profil_user::report::table::Layout;
use profil_user::report::{By, Report, machine, table};
use profil_user::sink::gmon::GmonHistogram;
use profil_user::sink::{gmon as gmon_sink, pprof as pprof_sink};
use prost::Message as _;

use super::targets::{Target, Verdict};

/// All of them.
pub const TARGETS: [Target; 4] = [
    Target { name: "pprof", seeds: pprofs, run: read_pprof },
    Target { name: "gmon", seeds: gmons, run: read_gmon },
    Target { name: "perf-script", seeds: perf_scripts, run: read_perf_script },
    Target { name: "folded", seeds: foldeds, run: read_folded },
];

const FOLDED: &[&[u8]] = &[
    b"sh;main;work 3\nsh;main 2\nsh;write_[k] 5\nvm;Foo.bar_[j] 1\nmain;outer;inner_[i] 2\n",
    b"a;operator new(unsigned long) 1\na;x\\x3by\\x0az 12\na;x\\;y 1\r\n\na;App\\Models 1\n",
    b"x;_ZNSt6vectorIiSaIiEE9push_backERKi 18446744073709551615\nx;_RNvC6_123foo3bar 0\n",
];

const PERF_SCRIPT: &[&[u8]] = &[
    b"               a 12333   414.321758:    1001001 cpu-clock:      55d029d57139 hot+0x10 (/tmp/a)\n           mandb 12399 [000]   418.394959:   10101010 cpu-clock:  ffffffff816d6057 vfs_read+0x2a7 ([kernel.kallsyms])\n",
    b"# ========\n# cmdline : perf\n#\na b 10/11 [001]   416.810070:    1001001 cpu-clock:ppp: \n\t            1139 hot+0x10 (/tmp/a)\n\t            1200 main+0x10 (/tmp/a)\n\na b 10/12   416.811070:    1001001 cpu-clock:ppp: \n\t            2000 inner (inlined)\n\t            2000 outer+0x3 (/tmp/a b (deleted))\n\n",
    b"ju\nst in -1 [3] 2.000000001: 1 cpu_core/cycles/P: 7f00 [unknown] ([vdso])\nx 1 [0] 2.000000: 1 cpu_atom/cycles/P:\n\tffffffff81000000 schedule+0x1 ([kernel.kallsyms])\n\n",
    b"x 1 [0] 2.000000: sched:sched_switch: prev_comm=a prev_pid=1\n\tffffffff81000000 _ZN3foo3barEi+0x1 ([ext4])\n\n",
];

/// What the reader makes of good files: profiles to make others of.
fn profiles() -> Vec<Profile> {
    let texts = FOLDED.iter().chain(PERF_SCRIPT);
    texts
        .map(|text| input::read(*text, Origin::default()).unwrap_or_else(|error| panic!("a good seed: {error}")))
        .collect()
}

fn pprofs() -> Vec<Vec<u8>> {
    let mut seeds: Vec<Vec<u8>> = Vec::new();
    for profile in profiles() {
        let message = pprof_sink::encode(&profile);
        // Others write stacks, and the time alone.
        let mut foreign: wire::Profile = message.clone();
        for sample in &mut foreign.sample {
            sample.location_id = foreign.location.iter().map(|location| location.id).collect();
            sample.value.remove(0);
        }
        foreign.sample_type.remove(0);
        foreign.period = 1_000_000;
        foreign.comment.clear();
        seeds.extend([message.encode_to_vec(), foreign.encode_to_vec()]);
        let mut gzipped = Vec::new();
        pprof_sink::write(&profile, &mut gzipped).expect("a vector takes everything");
        seeds.push(gzipped);
    }
    seeds
}

fn gmons() -> Vec<Vec<u8>> {
    let histogram = |low_pc, bins: &[u64]| GmonHistogram { low_pc, bytes_per_bin: 4, bins: bins.to_vec() };
    let file = |histograms: &[GmonHistogram]| {
        let mut file = Vec::new();
        gmon_sink::write(histograms, 100, &mut file).expect("histograms that go together");
        file
    };
    let one = file(&[histogram(0x1000, &[0, 1, 2, 0, 65_535])]);
    let several = file(&[histogram(0x1000, &[3; 40]), histogram(0x8000, &[0, 200_000]), histogram(0x4000, &[1])]);
    let mut all = several.clone();
    // An arc, and two basic blocks.
    all.push(1);
    all.extend([7; 20]);
    all.extend([2, 2, 0, 0, 0]);
    all.extend([9; 32]);
    all.extend(&one[20..20]);
    vec![one, several, all]
}

fn perf_scripts() -> Vec<Vec<u8>> {
    PERF_SCRIPT.iter().map(|text| text.to_vec()).collect()
}

fn foldeds() -> Vec<Vec<u8>> {
    FOLDED.iter().map(|text| text.to_vec()).collect()
}

fn read_pprof(bytes: &[u8]) -> Verdict {
    let whole = judged(input::read(bytes, Origin::default()), bytes);
    // Inside gzip the mutations hit its own checksum: the message below it is reached without.
    if let Ok(profile) = pprof::read(bytes) {
        assert_is_sound(&profile, bytes.len());
    }
    whole
}

fn read_gmon(bytes: &[u8]) -> Verdict {
    if let Ok(gmon) = gmon::read(bytes) {
        assert!(gmon.bins.iter().all(|bin| bin.start < bin.end && bin.ticks > 0), "{gmon:?}");
        assert!(gmon.ranges.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{:?}", gmon.ranges);
        assert!(gmon.bins.len() <= bytes.len() / 2);
    }
    judged(input::read(bytes, Origin::default()), bytes)
}

fn read_perf_script(bytes: &[u8]) -> Verdict {
    by_lines(bytes, perf_script::read)
}

fn read_folded(bytes: &[u8]) -> Verdict {
    by_lines(bytes, folded::read)
}

fn by_lines<'a>(bytes: &'a [u8], read: impl Fn(Lines<&'a [u8]>) -> Result<Profile, InputError>) -> Verdict {
    // What is no longer recognised goes to the reader all the same.
    let _recognised = judged(input::read(bytes, Origin::default()), bytes);
    judged(read(Lines::new(bytes, u64::MAX)), bytes)
}

fn judged(read: Result<Profile, InputError>, bytes: &[u8]) -> Verdict {
    match read {
        Ok(profile) => {
            assert_is_sound(&profile, bytes.len());
            Verdict::Taken
        }
        Err(error) => {
            let text = error.to_string();
            assert!(text.starts_with("cannot "), "{text}");
            assert!(!text.contains(|c: char| c.is_control()), "{text:?} of {} bytes", bytes.len());
            Verdict::Refused
        }
    }
}

/// Everything in it is where it says, no tick has vanished, and a report of it can be made and shown: by the `nth` grouping,
/// round and round, for all of them take ten times as long as the reading.
fn assert_is_sound(profile: &Profile, nth: usize) {
    let Profile { tally, mappings, locations, processes, rows, .. } = profile;
    assert!(locations.iter().all(|location| location.mapping.is_none_or(|mapping| mapping < mappings.len())));
    assert!(rows.iter().all(|row| row.location < locations.len()));
    assert!(rows.iter().all(|row| row.process.is_none_or(|process| process < processes.len())));
    let in_rows = rows.iter().fold(0u64, |sum, row| sum.saturating_add(row.ticks));
    assert!(in_rows <= tally.ticks, "{in_rows} ticks in rows, {tally:?}");
    let groupings = <By as clap::ValueEnum>::value_variants();
    let by = groupings[nth % groupings.len()];
    let report = Report::new(profile, by, |_| true);
    let mut shown = Vec::new();
    let layout = Layout { limit: Some(2), width: Some(80), paint: Paint::Plain };
    table::write(&report, layout, &mut shown).expect("a vector takes everything");
    let is_shown_safely =
        |bytes: &[u8]| bytes.lines().all(|line| line.is_ok_and(|line| !line.contains(char::is_control)));
    assert!(is_shown_safely(&shown), "{}", shown.escape_ascii());
    let mut json = Vec::new();
    machine::write_json(&report, None, &mut json).expect("a vector takes everything");
    assert!(is_shown_safely(&json), "{}", json.escape_ascii());
    serde_json::from_slice::<serde_json::Value>(&json).expect("JSON");
    let mut csv = Vec::new();
    machine::write_csv(&report, None, &mut csv).expect("a vector takes everything");
}
