//! The parsers, what they are fed, and what they promise.

use profil_common::limits::MAX_BINS;
use profil_common::wire::{Area, Call, CallKind, MAGIC, VERSION};
use profil_user::maps;
use profil_user::profile::Frame;
use profil_user::service::{Layout, Plan};
use profil_user::symbols::perf_map::PerfMap;
use profil_user::symbols::reader::wire::{self, Gathering, Reply};
use profil_user::symbols::symbol_table::Symbol;
use profil_user::symbols::symbolizer::{Names, Unnamed};

/// What a parser made of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is in the form that it should have.
    Taken,
    /// It is not.
    Refused,
}

/// A parser.
pub struct Target {
    /// Its name on the command line.
    pub name: &'static str,
    /// Good inputs.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Parses an input, and panics when a promise is broken.
    pub run: fn(&[u8]) -> Verdict,
}

/// All of them.
pub const TARGETS: [Target; 4] = [
    Target { name: "wire", seeds: calls, run: wire },
    Target { name: "maps", seeds: maps_texts, run: parse_maps },
    Target { name: "perf-map", seeds: perf_maps, run: parse_perf_map },
    Target { name: "names", seeds: replies, run: parse_reply },
];

fn calls() -> Vec<Vec<u8>> {
    let call = |kind: CallKind, convention, width, areas: &[Area]| {
        let kind = kind as u32;
        let areas_count = areas.len() as u32;
        let call = Call {
            magic: MAGIC,
            version: VERSION,
            nonce: 7,
            kind,
            convention,
            width,
            hz: 100,
            flags: 1,
            areas: areas_count,
        };
        let areas = areas.iter().flat_map(Area::to_bytes);
        call.to_bytes().into_iter().chain(areas).collect::<Vec<u8>>()
    };
    let area =
        |n: u64| Area { buffer: 0x7000_0000 + (n << 16), bytes: 4096, offset: 0x40_0000 + n * 0x700, scale: 65_536 };
    let areas = |count| (0..count).map(area).collect::<Vec<_>>();
    let overflow = Area { buffer: 0x7100_0000, bytes: 4, offset: 0, scale: 2 };
    let conventions = (0..4).map(|convention| call(CallKind::Profil, convention, 2, &areas(1)));
    let others = [
        call(CallKind::Sprofil, 3, 2, &areas(2)),
        call(CallKind::Sprofil, 3, 4, &[areas(3), vec![overflow]].concat()),
        call(CallKind::Sprofil, 3, 4, &areas(33)),
        call(CallKind::Sprofil, 3, 2, &[]),
        call(CallKind::Flush, 3, 2, &[]),
    ];
    conventions.chain(others).collect()
}

fn wire(bytes: &[u8]) -> Verdict {
    let Ok(call) = Call::from_bytes(bytes) else {
        return Verdict::Refused;
    };
    let areas: Vec<Area> = Call::areas(bytes).collect();
    let again: Vec<u8> = call.to_bytes().into_iter().chain(areas.iter().flat_map(Area::to_bytes)).collect();
    assert_eq!(again, bytes, "a call is written as it was read");
    match Plan::of(&call, &areas) {
        Ok(Plan::On(layout)) => assert_is_sound(&layout),
        Ok(Plan::Unchanged { .. } | Plan::Off | Plan::Flush) => {}
        Ok(Plan::Refused { errno }) => panic!("who calls is judged elsewhere: {errno}"),
        Err(error) => assert!(error.errno() > 0),
    }
    Verdict::Taken
}

fn assert_is_sound(layout: &Layout) {
    let Layout { ranges, buffers, .. } = layout;
    let table = ranges;
    assert!((1..=MAX_BINS).contains(&table.nbins), "{} bins", table.nbins);
    let ranges = &table.ranges[..table.len as usize];
    assert!(ranges.iter().all(|range| range.low <= range.high), "{ranges:?}");
    assert!(ranges.windows(2).all(|pair| pair[0].high < pair[1].low), "{ranges:?}");
    let edges = ranges.iter().flat_map(|range| [range.low, range.low / 2 + range.high / 2, range.high]);
    for pc in edges.chain([0, 1 << 47, u64::MAX]) {
        assert!(table.bin_of(pc).is_none_or(|bin| bin < table.nbins), "bin of {pc:#x}");
    }
    let mut bins = 0;
    for buffer in buffers {
        assert_eq!(buffer.first_bin, bins, "each bin goes to one buffer");
        bins += buffer.nbins;
    }
    assert_eq!(bins, table.nbins);
}

fn maps_texts() -> Vec<Vec<u8>> {
    let own = std::fs::read("/proc/self/maps").unwrap_or_default();
    let lines = b"55d0a8a00000-55d0a8a21000 rw-p 00000000 00:00 0                          [heap]\n\
        7f10-7f20 r-xs 00001000 fd:01 123 /usr/lib/a b\\012c (deleted)\n\
        ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]\n";
    vec![own, lines.to_vec(), b"1000-2000 rw-p 00000000 00:00 0 \n".to_vec()]
}

fn parse_maps(bytes: &[u8]) -> Verdict {
    let Ok(entries) = maps::parse(bytes) else {
        return Verdict::Refused;
    };
    for entry in &entries {
        assert!(entry.start <= entry.end, "{entry:?}");
        let _backing = entry.backing();
    }
    assert!(entries.len() <= bytes.split(|byte| *byte == b'\n').count());
    Verdict::Taken
}

/// What the process that reads symbols answers.
fn replies() -> Vec<Vec<u8>> {
    let frame = |function: &str| Frame {
        function: function.into(),
        system_name: Some("_Z1fv".into()),
        file: Some("/src/a.cc".into()),
        line: 7,
    };
    let frames = vec![vec![frame("f"), frame("g()")], Vec::new(), vec![frame("h")]];
    let names = Names { frames, unnamed: Some(Unnamed::NoSymbol) };
    let found = Reply::Found(Some(Symbol { svma: 0x1000, size: 16 }));
    wire::replies(names).chain([found, Reply::Ready, Reply::NotElf]).map(|reply| reply.to_bytes()).collect()
}

fn parse_reply(bytes: &[u8]) -> Verdict {
    let Some(reply) = Reply::from_bytes(bytes) else { return Verdict::Refused };
    assert_eq!(reply.to_bytes(), bytes, "a message is written as it was read");
    if let Reply::Frames(frames) = reply {
        let mut gathering = Gathering::new(3);
        if gathering.add(frames).is_none() {
            return Verdict::Refused;
        }
        assert_eq!(gathering.finish(None).frames.len(), 3);
    }
    Verdict::Taken
}

fn perf_maps() -> Vec<Vec<u8>> {
    let texts: [&[u8]; 4] = [
        b"7f0000001000 40 LazyCompile:*main /app/index.js:1:1\n7f0000001040 0x80 py::f:/app/a.py\n",
        b"0x1000 100 outer\n1010 10 inner\n1008 10 later\nfff ffffffffffffffff all\n",
        b"1000 10 _ZNSt6vectorIiSaIiEE9push_backERKi\n1010 10 _RNvC6_123foo3bar\n1020 10 _ZN4core3fmt5Write17h0123456789abcdefE\n",
        b"1000 10 _ZSt4moveIRSt8functionIFvvEEEONSt16remove_referenceIT_E4typeEOS5_\n",
    ];
    texts.map(<[u8]>::to_vec).to_vec()
}

fn parse_perf_map(bytes: &[u8]) -> Verdict {
    let map = PerfMap::parse(bytes);
    let lines = bytes.split(|byte| *byte == b'\n').count();
    assert!(map.len() <= 2 * lines, "each function begins or goes on at most once");
    for pc in [0, 0xfff, 0x1000, 0x1008, 0x1015, 0x1025, 0x7f00_0000_1010, u64::MAX - 1, u64::MAX] {
        let frames = map.frames(pc);
        assert_eq!(frames.len(), usize::from(map.name_of(pc).is_some()));
    }
    if map.is_empty() { Verdict::Refused } else { Verdict::Taken }
}
