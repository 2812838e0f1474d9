//! Writes a profile in the format of callgrind, for callgrind_annotate and KCachegrind.
//!
//! Each line of cost is an address and a source line of a function; inlined functions stand for themselves, as in our
//! reports. There are no calls: a flat profile knows none. Names are numbered where they first appear, as callgrind does
//! it, so that a name that begins like a number is not taken for one. Control characters become U+FFFD.
//!
//! # Source
//! "Callgrind Format Specification" of the manual of valgrind.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::io::{self, Write};

use crate::printable::printable;
use crate::profile::Profile;
use crate::report::{function_name, object_name};

/// What stands for a file that is not known, as callgrind writes it.
const UNKNOWN: &str = "???";

/// A function: its object, source file and name.
type Function = (String, String, String);

/// Writes a profile.
///
/// # Errors
/// Those of `to`.
pub fn write(profile: &Profile, mut to: impl Write) -> io::Result<()> {
    let functions = functions(profile);
    let total = functions.values().flat_map(BTreeMap::values).fold(0u64, |sum, ticks| sum.saturating_add(*ticks));
    writeln!(to, "# callgrind format\nversion: 1\ncreator: profil {}", env!("CARGO_PKG_VERSION"))?;
    if !profile.title.is_empty() {
        writeln!(to, "cmd: {}", printable(&profile.title))?;
    }
    writeln!(to, "positions: instr line\nevents: Ticks\nsummary: {total}")?;
    let (mut objects, mut files, mut names) = (Names::new("ob"), Names::new("fl"), Names::new("fn"));
    for ((object, file, function), costs) in &functions {
        writeln!(to)?;
        objects.write(object, &mut to)?;
        files.write(file, &mut to)?;
        names.write(function, &mut to)?;
        for ((address, line), ticks) in costs {
            writeln!(to, "{address:#x} {line} {ticks}")?;
        }
    }
    writeln!(to, "\ntotals: {total}")
}

/// Ticks of each function by address and line (0 where it is not known).
fn functions(profile: &Profile) -> BTreeMap<Function, BTreeMap<(u64, u32), u64>> {
    let mut by_location: BTreeMap<usize, u64> = BTreeMap::new();
    for row in profile.rows.iter().filter(|row| row.ticks > 0) {
        let ticks = by_location.entry(row.location).or_default();
        *ticks = ticks.saturating_add(row.ticks);
    }
    let mut functions: BTreeMap<Function, BTreeMap<(u64, u32), u64>> = BTreeMap::new();
    for (location, more) in by_location {
        let location = &profile.locations[location];
        let mapping = location.mapping.map(|mapping| &profile.mappings[mapping]);
        let frame = location.frames.first();
        let file = frame.and_then(|frame| frame.file.clone()).unwrap_or_else(|| UNKNOWN.to_owned());
        let function = (object_name(mapping), file, function_name(frame, mapping, location.address));
        let place = (location.address, frame.map_or(0, |frame| frame.line));
        let ticks = functions.entry(function).or_default().entry(place).or_default();
        *ticks = ticks.saturating_add(more);
    }
    functions
}

/// The numbers of the names of one kind.
struct Names {
    kind: &'static str,
    numbers: HashMap<String, usize>,
}

impl Names {
    fn new(kind: &'static str) -> Names {
        Names { kind, numbers: HashMap::new() }
    }

    fn write(&mut self, name: &str, to: &mut impl Write) -> io::Result<()> {
        let Names { kind, numbers } = self;
        let name = printable(name);
        // A number without a name would refer to one that was never given.
        let name = if name.trim().is_empty() { UNKNOWN } else { &name };
        match numbers.get(name) {
            Some(number) => writeln!(to, "{kind}=({number})"),
            None => {
                let number = numbers.len() + 1;
                numbers.insert(name.to_owned(), number);
                writeln!(to, "{kind}=({number}) {name}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    #[test]
    fn costs_are_by_address_and_line_of_each_function_and_add_up() {
        let mut profile = sample::profile();
        profile.rows.truncate(4);
        let mut text = Vec::new();
        write(&profile, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap().replace(env!("CARGO_PKG_VERSION"), "VERSION");
        insta::assert_snapshot!(text, @r#"
        # callgrind format
        version: 1
        creator: profil VERSION
        cmd: -- ./burn 10
        positions: instr line
        events: Ticks
        summary: 840

        ob=(1) /opt/bin/burn
        fl=(1) /src/burn.c
        fn=(1) spin
        0x1100 12 600

        ob=(1)
        fl=(2) ???
        fn=(2) core::hash<u8, "x">
        0x1200 0 150

        ob=(2) /usr/lib/libz.so.1 [stale]
        fl=(2)
        fn=(3) libz.so.1+0x2456
        0x3456 0 90

        totals: 840
        "#);
    }

    #[test]
    fn names_that_look_like_the_format_are_kept_apart_from_it() {
        let mut names = Names::new("fn");
        let mut text = Vec::new();
        for name in ["(2) x", "(2)", "a\nfn=(1)", " ", "(2) x"] {
            names.write(name, &mut text).unwrap();
        }
        let text = String::from_utf8(text).unwrap();
        assert_eq!(text, "fn=(1) (2) x\nfn=(2) (2)\nfn=(3) a\u{fffd}fn=(1)\nfn=(4) ???\nfn=(1)\n");
    }
}
