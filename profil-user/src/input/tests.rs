//! Files of all formats, and files of none.

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use profil_common::Outcome;

use super::*;
use crate::report::sample;
use crate::sink::gmon::{self as gmon_sink, GmonHistogram};
use crate::sink::pprof as pprof_sink;

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(bytes).expect("a vector takes everything");
    gzip.finish().expect("a vector takes everything")
}

fn read_bytes(bytes: &[u8]) -> Result<Profile, InputError> {
    read(bytes, Origin::default())
}

fn error(bytes: &[u8]) -> String {
    read_bytes(bytes).expect_err("no profile").to_string()
}

const PERF_SCRIPT: &[u8] = b"x 1 2.000000: 1000000 cpu-clock: 10 f+0x1 (/a)\n";

fn gmon_out() -> Vec<u8> {
    let mut file = Vec::new();
    let histogram = GmonHistogram { low_pc: 0x1000, bytes_per_bin: 4, bins: vec![1, 2, 3] };
    gmon_sink::write(&[histogram], 100, &mut file).expect("one histogram");
    file
}

#[test]
fn each_format_is_recognised_by_its_content_gzipped_or_not() {
    let mut pprof = Vec::new();
    pprof_sink::write(&sample::profile(), &mut pprof).expect("a vector takes everything");
    assert_eq!(read_bytes(&pprof).expect("pprof").tally, sample::profile().tally);
    for (file, ticks, outcome) in [
        (gmon_out(), 6, Outcome::Binned),
        (PERF_SCRIPT.to_vec(), 1, Outcome::Stray),
        (b"a;b 9\n".to_vec(), 9, Outcome::Stray),
    ] {
        for bytes in [gzip(&file), file] {
            let tally = read_bytes(&bytes).expect("a format").tally;
            assert_eq!((tally.ticks, tally.outcome(outcome), tally.expected()), (ticks, ticks, None));
        }
    }
}

#[test]
fn a_format_is_recognised_in_a_pipe_that_gives_a_byte_at_a_time() {
    struct Drip(Vec<u8>);
    impl Read for Drip {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            if self.0.is_empty() || into.is_empty() {
                return Ok(0);
            }
            into[0] = self.0.remove(0);
            Ok(1)
        }
    }
    let profile = read(BufReader::with_capacity(1, Drip(PERF_SCRIPT.to_vec())), Origin::default());
    assert_eq!(profile.expect("perf script").tally.hz, 1000.0);
}

#[test]
fn perf_script_begins_after_the_lines_of_its_header_and_of_a_name() {
    let header = [b"# ========\n# captured on: today\n#\n\n", PERF_SCRIPT].concat();
    assert_eq!(read_bytes(&header).expect("a header").tally.ticks, 1);
    let name = [b"   a\nb\n", PERF_SCRIPT].concat();
    let profile = read_bytes(&name).expect("a name of three lines");
    assert_eq!(profile.processes[0].comm, "a\nb\nx");
}

#[test]
fn other_text_is_told_from_folded_stacks() {
    insta::assert_snapshot!(error(b"nr_free_pages 1234\nnr_zone_inactive_anon 0\n"), @"cannot read the profile: the file is text, but its lines are `NAME NUMBER` without one `;`: folded stacks have `a;b;c COUNT`; what can be read: pprof (plain or gzip), gmon.out, the text of `perf script`, and folded stacks");
    insta::assert_snapshot!(error(b"a;b 1\nint main(void) { return 0; }\n"), @"cannot read the profile: the file is text, but line 2 (`int main(void) { return 0; }`) is neither an event of `perf script` nor `a;b;c COUNT`; what can be read: pprof (plain or gzip), gmon.out, the text of `perf script`, and folded stacks");
    insta::assert_snapshot!(error(b"a;b 1 2\na;c 3 4\n"), @"cannot read the profile: the file is text, but its lines end in two numbers, as differences of folded stacks do; read one of the two; what can be read: pprof (plain or gzip), gmon.out, the text of `perf script`, and folded stacks");
    insta::assert_snapshot!(error(b"\n \n"), @"cannot read the profile: the file is text, but all of it is blank; what can be read: pprof (plain or gzip), gmon.out, the text of `perf script`, and folded stacks");
    for text in ["{\"a\": 5}\n", "a,b;c,5\n", "<html>\n", "1 2 3\n", "main 5\n", "%!PS;x 3\nfoo\n"] {
        assert!(matches!(read_bytes(text.as_bytes()), Err(InputError::UnknownText { .. })), "{text}");
    }
}

#[test]
fn what_begins_like_folded_stacks_and_goes_on_otherwise_is_told_by_its_line() {
    let mut text = b"a;b 1\n".repeat(100_000);
    text.extend(b"and so on\n");
    assert_eq!(error(&text), "cannot read folded stacks: line 100001 does not end in a number of ticks");
}

#[test]
fn one_endless_line_takes_a_line_of_memory() {
    struct Endless(u64);
    impl Read for Endless {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            self.0 += into.len() as u64;
            assert!(self.0 < 4 << 20, "read on after the limit");
            into.fill(b'a');
            Ok(into.len())
        }
    }
    let first = read(BufReader::new(Endless(0)), Origin::default()).expect_err("no line").to_string();
    assert!(first.contains("its first line has no end within 1048576 bytes"), "{first}");
    let later = read(BufReader::new(b"a;b 1\n".chain(Endless(0))), Origin::default()).expect_err("no line");
    assert_eq!(later.to_string(), "cannot read folded stacks: line 2 has more than 1048576 bytes");
    let perf = read(BufReader::new(PERF_SCRIPT.chain(Endless(0))), Origin::default()).expect_err("no line");
    assert_eq!(perf.to_string(), "cannot read the text of perf script: line 2 has more than 1048576 bytes");
}

#[test]
fn zeros_without_end_are_refused_at_the_first() {
    let zeros = || io::repeat(0).take(1 << 30);
    let unknown = read(BufReader::new(zeros()), Origin::default());
    assert!(matches!(unknown, Err(InputError::Unknown { found: Found::Other })), "{unknown:?}");
    let gmon = read(BufReader::new(b"gmon".chain(zeros())), Origin::default());
    assert!(matches!(gmon, Err(InputError::Gmon { offset: 4, fault: GmonFault::Version { version: 0 } })), "{gmon:?}");
    let text = read(BufReader::new(b"a;b 1\n".chain(zeros())), Origin::default());
    assert!(text.is_err());
}

#[test]
fn a_program_is_named_for_a_gmon_out_only() {
    let origin = Origin { path: None, object: Some(Path::new("/proc/self/exe")) };
    assert!(matches!(read(&b"a;b 1\n"[..], origin), Err(InputError::ObjectNotWanted)));
}

#[test]
fn a_gmon_out_without_a_program_has_addresses_only() {
    let profile = read_bytes(&gmon_out()).expect("gmon.out");
    assert_eq!(profile.mappings.len(), 1);
    assert_eq!((profile.mappings[0].object.as_str(), &profile.mappings[0].build_id), (UNNAMED_OBJECT, &None));
    let addresses: Vec<u64> = profile.locations.iter().map(|location| location.address).collect();
    assert_eq!(addresses, [0x1000, 0x1004, 0x1008]);
    assert_eq!((profile.tally.hz, profile.tally.cpu_seconds), (100.0, None));
}
