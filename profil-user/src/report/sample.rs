//! A small profile with one of everything, for tests.

use std::time::{Duration, SystemTime};

use crate::build_id::BuildId;
use crate::profile::{Frame, Location, Mapping, MappingKind, Mode, ProcessInfo, Profile, Row};
use crate::tally::Tally;

fn frame(function: &str, file: Option<&str>, line: u32) -> Frame {
    Frame { function: function.into(), system_name: None, file: file.map(Into::into), line }
}

/// 1,000 ticks of two processes: resolved, inlined, unresolved, kernel, anonymous, stale, and in no mapping.
pub(crate) fn profile() -> Profile {
    let mapping = |kind, object: &str, id: u8, start: u64, file_offset, stale| Mapping {
        kind,
        object: object.into(),
        build_id: BuildId::new(&[id; 4]),
        start,
        limit: start + 0x10_0000,
        file_offset,
        stale,
    };
    let location = |mapping, address, frames| Location { mapping, address, frames };
    let row =
        |location, process, tid, mode, ticks| Row { location, process: Some(process), tid: Some(tid), mode, ticks };
    let rows = vec![
        row(0, 0, 11, Mode::User, 500),
        row(0, 0, 12, Mode::Kernel, 100),
        row(1, 0, 11, Mode::User, 150),
        row(2, 0, 11, Mode::User, 90),
        row(3, 1, 21, Mode::Kernel, 70),
        row(4, 1, 21, Mode::User, 40),
        row(5, 1, 21, Mode::User, 24),
        row(6, 1, 21, Mode::User, 16),
        row(7, 1, 21, Mode::User, 10),
    ];
    let outcomes = [0, 1000, 0, 20, 0, 0];
    Profile {
        tally: Tally { ticks: 1020, outcomes, cpu_seconds: Some(10.25), hz: 100.0 },
        period: Duration::from_millis(10),
        clock: "cpu-clock".into(),
        start: SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000),
        duration: Duration::from_secs(11),
        title: "-- ./burn 10".into(),
        mappings: vec![
            mapping(MappingKind::File, "/opt/bin/burn", 0xb1, 0x1000, 0x1000, false),
            mapping(MappingKind::File, "/usr/lib/libz.so.1", 0xb2, 0x3000, 0x2000, true),
            mapping(MappingKind::Kernel, "[kernel]", 0, 0xffff_ffff_8100_0000, 0, false),
            mapping(MappingKind::Anonymous, "[anon]", 0, 0x7f00_0000_0000, 0, false),
        ],
        locations: vec![
            location(Some(0), 0x1100, vec![frame("spin", Some("/src/burn.c"), 12)]),
            location(
                Some(0),
                0x1200,
                vec![frame("core::hash<u8, \"x\">", None, 0), frame("main", Some("/src/burn.c"), 40)],
            ),
            location(Some(1), 0x3456, vec![]),
            location(Some(2), 0xffff_ffff_8100_1234, vec![frame("do_syscall_64", None, 0)]),
            location(Some(3), 0x7f00_0000_1000, vec![]),
            location(Some(3), 0x7f00_0000_2000, vec![]),
            location(None, 0xdead_0000, vec![]),
            location(None, 0xdead_1000, vec![]),
        ],
        processes: vec![
            ProcessInfo { pid: 10, generation: 1, comm: "burn".into(), service: Some("burn.service".into()) },
            ProcessInfo { pid: 10, generation: 2, comm: "ju st\nin".into(), service: None },
        ],
        rows,
    }
}
