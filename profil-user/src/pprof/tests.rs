//! Writer against reader, and the reader against damage.

use std::io::Write;
use std::time::{Duration, SystemTime};

use flate2::Compression;
use flate2::write::GzEncoder;
use profil_common::Outcome;
use proptest::prelude::*;
use prost::Message;

use super::{Found, ReadError, read, wire};
use crate::build_id::BuildId;
use crate::printable::printable;
use crate::profile::{Frame, Location, Mapping, MappingKind, Mode, ProcessInfo, Profile, Row};
use crate::sink::pprof::{encode, write};
use crate::tally::Tally;

fn written(profile: &Profile) -> Vec<u8> {
    let mut file = Vec::new();
    write(profile, &mut file).expect("a vector takes everything");
    file
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(bytes).expect("a vector takes everything");
    gzip.finish().expect("a vector takes everything")
}

/// A row with everything that it refers to, independent of the order of the tables.
type FlatRow = (Option<Mapping>, u64, Vec<Frame>, Option<ProcessInfo>, Option<u32>, Mode, u64);

fn flat(profile: &Profile) -> Vec<FlatRow> {
    let row = |row: &Row| {
        let Location { mapping, address, frames } = profile.locations[row.location].clone();
        let mapping = mapping.map(|mapping| profile.mappings[mapping].clone());
        let process = row.process.map(|process| profile.processes[process].clone());
        (mapping, address, frames, process, row.tid, row.mode, row.ticks)
    };
    profile.rows.iter().filter(|row| row.ticks > 0).map(row).collect()
}

/// What the writer may change: control characters, and a system name or file that says nothing.
fn normalised(mut profile: Profile) -> Profile {
    let show = |text: &mut String| *text = printable(text).into_owned();
    show(&mut profile.title);
    profile.processes.iter_mut().for_each(|process| show(&mut process.comm));
    for frame in profile.locations.iter_mut().flat_map(|location| &mut location.frames) {
        show(&mut frame.function);
        frame.system_name.iter_mut().for_each(show);
        if frame.system_name.as_deref().is_some_and(|name| name.is_empty() || name == frame.function) {
            frame.system_name = None;
        }
        frame.file.iter_mut().for_each(show);
    }
    profile
}

fn mappings() -> impl Strategy<Value = Vec<Mapping>> {
    let object = prop_oneof![
        Just(("/usr/bin/burn", MappingKind::File)),
        Just(("[kernel]", MappingKind::Kernel)),
        Just(("[vdso]", MappingKind::Vdso)),
        Just(("[anon]", MappingKind::Anonymous)),
    ];
    let build_id = proptest::option::of(prop::array::uniform20(1u8..));
    let mapping =
        (object, build_id, any::<[u32; 3]>(), any::<bool>()).prop_map(|((object, kind), id, numbers, stale)| {
            let [start, length, offset] = numbers.map(u64::from);
            let build_id = id.and_then(|id| BuildId::new(&id));
            Mapping { kind, object: object.into(), build_id, start, limit: start + length, file_offset: offset, stale }
        });
    prop::collection::vec(mapping, 1..5)
}

fn frames() -> impl Strategy<Value = Vec<Frame>> {
    let frame = (
        "\\PC{1,8}|[a\n\x1b]{1,3}",
        proptest::option::of("[_a-z]{1,9}"),
        proptest::option::of("[/a-z]{1,9}"),
        any::<u32>(),
    );
    let frame = frame.prop_map(|(function, system_name, file, line)| Frame { function, system_name, file, line });
    prop::collection::vec(frame, 0..4)
}

fn profiles() -> impl Strategy<Value = Profile> {
    let location = (proptest::option::of(any::<prop::sample::Index>()), any::<u64>(), frames());
    let process = (any::<u32>(), 1u32..9, ".{0,15}", proptest::option::of("[a-z.]{1,9}"));
    let row = (
        any::<prop::sample::Index>(),
        proptest::option::of(any::<prop::sample::Index>()),
        proptest::option::of(any::<u32>()),
        any::<bool>(),
        0u64..1 << 40,
    );
    let lists = (
        mappings(),
        prop::collection::vec(location, 1..9),
        prop::collection::vec(process, 1..4),
        prop::collection::vec(row, 0..20),
    );
    let rest = (1u64..1 << 30, any::<u32>(), proptest::option::of(0.0f64..1e9), 0.1f64..1e5, ".{0,20}");
    (lists, rest).prop_map(|((mappings, locations, processes, rows), (period_ns, other, cpu_seconds, hz, title))| {
        let locations: Vec<_> = locations
            .into_iter()
            .map(|(mapping, address, frames)| Location {
                mapping: mapping.map(|index| index.index(mappings.len())),
                address,
                frames,
            })
            .collect();
        let processes: Vec<_> = processes
            .into_iter()
            .map(|(pid, generation, comm, service)| ProcessInfo { pid, generation, comm, service })
            .collect();
        let rows: Vec<_> = rows
            .into_iter()
            .map(|(location, process, tid, kernel, ticks)| Row {
                location: location.index(locations.len()),
                process: process.map(|index| index.index(processes.len())),
                tid,
                mode: if kernel { Mode::Kernel } else { Mode::User },
                ticks,
            })
            .collect();
        let stray = rows.iter().map(|row| row.ticks).sum();
        let mut outcomes = [0; 6];
        outcomes[Outcome::Stray as usize] = stray;
        outcomes[Outcome::NoUserPc as usize] = u64::from(other);
        Profile {
            tally: Tally { ticks: stray + u64::from(other), outcomes, cpu_seconds, hz },
            period: Duration::from_nanos(period_ns),
            clock: "cpu-clock".into(),
            start: SystemTime::UNIX_EPOCH + Duration::from_nanos(u64::from(other) << 20),
            duration: Duration::from_nanos(u64::from(other)),
            title,
            mappings,
            locations,
            processes,
            rows,
        }
    })
}

proptest! {
    #[test]
    fn what_is_written_reads_back(profile in profiles()) {
        let back = read(&written(&profile)[..]).expect("own files are read");
        let profile = normalised(profile);
        prop_assert_eq!(flat(&back), flat(&profile));
        prop_assert_eq!(back.tally, profile.tally);
        prop_assert_eq!((back.period, back.clock, back.title), (profile.period, profile.clock, profile.title));
        prop_assert_eq!((back.start, back.duration), (profile.start, profile.duration));
    }

    #[test]
    fn a_damaged_file_gives_a_profile_or_an_error(profile in profiles(), damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6), cut in any::<prop::sample::Index>()) {
        let mut plain = encode(&profile).encode_to_vec();
        for (place, byte) in &damage {
            let place = place.index(plain.len());
            plain[place] ^= byte;
        }
        // Both forms: damage under intact gzip reaches the protocol buffer, damage of the gzip data does not.
        let _ = read(&plain[..]);
        let _ = read(&plain[..cut.index(plain.len())]);
        let mut zipped = written(&profile);
        for (place, byte) in &damage {
            let place = place.index(zipped.len());
            zipped[place] ^= byte;
        }
        let _ = read(&zipped[..]);
    }

    #[test]
    fn any_bytes_give_a_profile_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = read(&bytes[..]);
        let _ = read(&gzip(&bytes)[..]);
    }
}

/// A profile as other tools write it: stacks, string labels, two types, no comments.
fn foreign() -> wire::Profile {
    let strings = ["", "cpu", "nanoseconds", "samples", "count", "main", "/bin/x", "work", "pid"];
    wire::Profile {
        sample_type: vec![wire::ValueType { r#type: 3, unit: 4 }, wire::ValueType { r#type: 1, unit: 2 }],
        sample: vec![wire::Sample {
            location_id: vec![77, 5],
            value: vec![3, 30_000_000],
            label: vec![wire::Label { key: 8, str: 0, num: 42, num_unit: 0 }],
        }],
        mapping: vec![wire::Mapping {
            id: 9,
            memory_start: 0x1000,
            memory_limit: 0x2000,
            filename: 6,
            ..Default::default()
        }],
        location: vec![
            wire::Location {
                id: 5,
                mapping_id: 9,
                address: 0x1100,
                line: vec![wire::Line { function_id: 1, line: 3 }],
            },
            wire::Location {
                id: 77,
                mapping_id: 9,
                address: 0x1200,
                line: vec![wire::Line { function_id: 2, line: 8 }],
            },
        ],
        function: vec![
            wire::Function { id: 1, name: 5, ..Default::default() },
            wire::Function { id: 2, system_name: 7, ..Default::default() },
        ],
        string_table: strings.map(String::from).to_vec(),
        period_type: Some(wire::ValueType { r#type: 1, unit: 2 }),
        period: 10_000_000,
        ..Default::default()
    }
}

#[test]
fn a_stack_counts_for_its_leaf() {
    let profile = read(&foreign().encode_to_vec()[..]).unwrap();
    let [row] = &profile.rows[..] else { panic!("one row: {:?}", profile.rows) };
    assert_eq!(row.ticks, 3);
    assert_eq!(profile.locations[row.location].frames[0].function, "work");
    assert_eq!(profile.processes[row.process.unwrap()].pid, 42);
    assert_eq!((profile.tally.ticks, profile.tally.hz), (3, 100.0));
}

#[test]
fn without_a_count_the_time_is_divided_by_the_period() {
    let mut profile = foreign();
    profile.sample_type.remove(0);
    profile.sample[0].value.remove(0);
    assert_eq!(read(&profile.encode_to_vec()[..]).unwrap().rows[0].ticks, 3);
    profile.period = 0;
    assert!(matches!(read(&profile.encode_to_vec()[..]), Err(ReadError::NoTicks { .. })));
}

/// Check that what Go's runtime writes of memory, waits and goroutines is not shown as ticks.
#[test]
fn counts_that_are_no_ticks_are_refused_by_their_names() {
    let kinds = |types: &[(&str, &str)], period: (&str, &str)| {
        let mut profile = foreign();
        let mut index = |text: &str| {
            profile.string_table.push(text.to_owned());
            profile.string_table.len() as i64 - 1
        };
        let mut kind = |(name, unit)| wire::ValueType { r#type: index(name), unit: index(unit) };
        let (types, period): (Vec<_>, _) = (types.iter().copied().map(&mut kind).collect(), kind(period));
        profile.sample[0].value = vec![3; types.len()];
        (profile.sample_type, profile.period_type) = (types, Some(period));
        read(&profile.encode_to_vec()[..])
    };
    let heap =
        [("alloc_objects", "count"), ("alloc_space", "bytes"), ("inuse_objects", "count"), ("inuse_space", "bytes")];
    let others = [
        kinds(&heap, ("space", "bytes")),
        kinds(&[("objects", "count"), ("space", "bytes")], ("space", "bytes")),
        kinds(&[("contentions", "count"), ("delay", "nanoseconds")], ("contentions", "count")),
        kinds(&[("goroutine", "count")], ("goroutine", "count")),
    ];
    for read in others {
        let error = read.expect_err("no ticks");
        assert!(matches!(error, ReadError::NoTicks { .. }), "{error:?}");
        assert!(error.to_string().contains("/count") && error.to_string().contains("go tool pprof"), "{error}");
    }
    let ours = [
        kinds(&[("samples", "count"), ("cpu", "nanoseconds")], ("cpu", "nanoseconds")),
        kinds(&[("cycles_event", "count"), ("cycles_sample", "count")], ("cycles", "count")),
        kinds(&[("inuse_space", "bytes"), ("samples", "count")], ("cpu", "nanoseconds")),
    ];
    for read in ours {
        assert_eq!(read.expect("ticks").tally.ticks, 3);
    }
}

#[test]
fn names_come_as_they_are_and_errors_are_safe_to_show() {
    let mut profile = foreign();
    profile.string_table[7] = "a\nb;\x1b\"".into();
    let frames = &read(&profile.encode_to_vec()[..]).unwrap().locations[1].frames;
    assert_eq!(frames[0].function, "a\nb;\x1b\"");
    profile.string_table[3] = "alloc\x1b[31m".into();
    profile.sample_type.pop();
    let error = read(&profile.encode_to_vec()[..]).unwrap_err().to_string();
    assert!(error.contains("alloc\u{fffd}[31m/count"), "{error:?}");
}

#[test]
fn a_reference_to_nothing_is_named() {
    let mut profile = foreign();
    profile.location[1].mapping_id = 8;
    let error = read(&profile.encode_to_vec()[..]).unwrap_err();
    insta::assert_snapshot!(error, @"cannot read the profile: a location refers to mapping 8, which the file lacks");
}

#[test]
fn what_is_no_profile_is_named() {
    let found = |bytes: &[u8]| match read(bytes) {
        Err(ReadError::NotAProfile { found }) => found,
        other => panic!("{other:?}"),
    };
    assert_eq!(found(b"hello, world\n"), Found::Text);
    assert_eq!(found(b"gmon\x01\0\0\0"), Found::Gmon);
    assert_eq!(found(b"\x7fELF\x02"), Found::Elf);
    assert_eq!(found(b"PERFILE2xxxxxx"), Found::PerfData);
    assert_eq!(found(&gzip(b"main;work 3\n")), Found::Text);
    assert_eq!(found(&[0; 40]), Found::Other);
    assert!(matches!(read(&b""[..]), Err(ReadError::Empty)));
    assert!(matches!(read(&gzip(b"")[..]), Err(ReadError::Empty)));
}

#[test]
fn a_file_cut_short_says_where() {
    let whole = gzip(&foreign().encode_to_vec());
    let error = read(&whole[..whole.len() - 9]).unwrap_err();
    assert!(matches!(error, ReadError::Gzip { .. }), "{error:?}");
    let plain = foreign().encode_to_vec();
    let error = read(&plain[..plain.len() - 1]).unwrap_err();
    assert!(matches!(error, ReadError::Truncated { field: 12, .. }), "{error:?}");
}

#[test]
fn a_name_repeated_without_end_is_refused() {
    let mut profile = foreign();
    profile.string_table[7] = "x".repeat(1 << 20);
    let line = wire::Line { function_id: 2, line: 1 };
    profile.location[1].line = vec![line; 1100];
    assert!(matches!(read(&profile.encode_to_vec()[..]), Err(ReadError::TooLarge { what: "bytes of names", .. })));
}

#[test]
fn comments_that_disagree_with_the_samples_are_not_believed() {
    let mut profile = read(&foreign().encode_to_vec()[..]).unwrap();
    profile.tally.ticks = 100;
    profile.tally.outcomes = [0, 100, 0, 0, 0, 0];
    assert_eq!(read(&written(&profile)[..]).unwrap().tally.ticks, 3);
}
