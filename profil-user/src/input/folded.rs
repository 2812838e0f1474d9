//! Folded stacks, as FlameGraph's tools and those after them write: `a;b;c 12` is 12 ticks in `c`, called by `b`.
//!
//! Nothing else is in such a file: no process, no address, no rate. `_[k]` marks functions of the kernel, `_[j]` code made
//! at run time, and `_[i]` a function inlined into the one before it. `\xNN` in a name is a byte, so that names with a
//! semicolon (`\x3b`) or a newline (`\x0a`) can be written; `\;` is a semicolon too.
//!
//! # Source
//! `stackcollapse-perf.pl` and `flamegraph.pl` of github.com/brendangregg/FlameGraph.

use std::io::BufRead;

use profil_common::Outcome;

use super::error::{InputError, LineFault};
use super::gathering::{Gathering, Place, Run, Ticker};
use super::lines::Lines;
use crate::printable::readable;
use crate::profile::{Frame, Mapping, MappingKind, Mode, Profile};
use crate::symbols::demangle;

/// Most inlined functions of one leaf: as many as compilers make, and no more than that of a hostile line.
const MAX_INLINED: usize = 64;

/// Reads folded stacks; blank lines are passed over.
///
/// # Errors
/// The stream fails, or a line is no stack with a number of ticks.
pub fn read(lines: Lines<impl BufRead>) -> Result<Profile, InputError> {
    let mut lines = lines.of("folded stacks");
    let mut gathering = Gathering::default();
    while let Some(line) = lines.next_line()? {
        if line.trim_ascii().is_empty() {
            continue;
        }
        let parsed = split(line).map(|(stack, ticks)| (leaf(stack), ticks));
        let ((place, mode), ticks) = parsed.map_err(|fault| lines.fault(fault))?;
        gathering.add(place, Ticker { process: None, tid: None, mode }, ticks, lines.number())?;
    }
    Ok(gathering.finish(Outcome::Stray, Run::default()))
}

/// The stack of a line and its number of ticks.
pub(super) fn split(line: &[u8]) -> Result<(&[u8], u64), LineFault> {
    let line = line.trim_ascii();
    let space = line.iter().rposition(u8::is_ascii_whitespace);
    let (stack, count) = match space {
        Some(space) => (line[..space].trim_ascii(), &line[space + 1..]),
        None => (&line[..0], line),
    };
    let text = std::str::from_utf8(count).ok().filter(|text| text.bytes().any(|byte| byte.is_ascii_digit()));
    let text = text.filter(|text| text.bytes().all(|byte| byte.is_ascii_digit() || b".-+eE".contains(&byte)));
    let text = text.ok_or(LineFault::NoCount)?;
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    let ticks = text.parse().ok().filter(|_| is_number);
    let ticks = ticks.ok_or_else(|| LineFault::NoTicks { count: text.chars().take(40).collect() })?;
    if stack.is_empty() { Err(LineFault::NoFunction) } else { Ok((stack, ticks)) }
}

/// The leaf of a stack, with the functions that it is inlined into.
fn leaf(stack: &[u8]) -> (Place, Mode) {
    let mut names = Names { rest: Some(stack) };
    let mut frames = Vec::new();
    let mut kind = None;
    for name in names.by_ref().take(MAX_INLINED) {
        let (name, mark) = marked(name);
        frames.push(demangle::frame(&readable(&unescaped(name))));
        match mark {
            Some(b'k') => kind = Some(MappingKind::Kernel),
            Some(b'j') => kind = Some(MappingKind::Anonymous),
            Some(b'i') => continue,
            _ => {}
        }
        break;
    }
    // Tools that know an object but no function write `[unknown]` or `[libc.so.6]`: names like any other.
    let mapping = kind.map(|kind| match kind {
        MappingKind::Kernel => Mapping::kernel("[kernel]"),
        kind => Mapping::whole(kind, "[anon]"),
    });
    let mode = if kind == Some(MappingKind::Kernel) { Mode::Kernel } else { Mode::User };
    if frames.iter().all(|frame: &Frame| frame.function.is_empty()) {
        frames.clear();
    }
    (Place { mapping, address: 0, frames }, mode)
}

/// A name without its mark, and the letter of the mark.
fn marked(name: &[u8]) -> (&[u8], Option<u8>) {
    match name {
        [name @ .., b'_', b'[', mark @ (b'k' | b'j' | b'i'), b']'] => (name, Some(*mark)),
        name => (name, None),
    }
}

/// Names of a stack, the leaf first.
struct Names<'a> {
    rest: Option<&'a [u8]>,
}

impl<'a> Iterator for Names<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = self.rest?;
        let mut end = rest.len();
        loop {
            let Some(at) = rest[..end].iter().rposition(|byte| *byte == b';') else {
                self.rest = None;
                return Some(rest);
            };
            if rest[..at].last() == Some(&b'\\') {
                end = at;
                continue;
            }
            self.rest = Some(&rest[..at]);
            return Some(&rest[at + 1..]);
        }
    }
}

/// A name with its escapes undone. Others than `\xNN` and `\;` are left: names of PHP have backslashes.
fn unescaped(name: &[u8]) -> Vec<u8> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name;
    while let Some((first, after)) = rest.split_first() {
        let (byte, after) = match (first, after) {
            (b'\\', [b';', after @ ..]) => (b';', after),
            (b'\\', [b'x', high, low, after @ ..]) => match (digit(high), digit(low)) {
                (Some(high), Some(low)) => ((high * 16 + low) as u8, after),
                _ => (*first, &rest[1..]),
            },
            _ => (*first, after),
        };
        bytes.push(byte);
        rest = after;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_all(text: &[u8]) -> Result<Profile, InputError> {
        read(Lines::new(text, u64::MAX))
    }

    /// Function of the leaf, object, mode, ticks.
    fn rows(text: &[u8]) -> Vec<(String, String, Mode, u64)> {
        let profile = read_all(text).expect("folded stacks");
        let row = |row: &crate::profile::Row| {
            let location = &profile.locations[row.location];
            let object = location.mapping.map(|mapping| profile.mappings[mapping].object.clone()).unwrap_or_default();
            let names: Vec<_> = location.frames.iter().map(|frame| frame.function.as_str()).collect();
            (names.join("<"), object, row.mode, row.ticks)
        };
        profile.rows.iter().map(row).collect()
    }

    #[test]
    fn the_leaf_has_the_ticks() {
        let text = b"sh;main;work 3\n\nsh;main 2\nsh;other;work 4\r\nsh;write_[k] 5\nvm;Foo.bar_[j] 1";
        let user = |name: &str, ticks| (name.to_owned(), String::new(), Mode::User, ticks);
        assert_eq!(
            rows(text),
            [
                user("work", 7),
                user("main", 2),
                ("write".into(), "[kernel]".into(), Mode::Kernel, 5),
                ("Foo.bar".into(), "[anon]".into(), Mode::User, 1),
            ]
        );
    }

    #[test]
    fn an_inlined_leaf_is_in_the_function_that_holds_it() {
        assert_eq!(rows(b"main;outer;middle_[i];inner_[i] 2\n")[0].0, "inner<middle<outer");
    }

    #[test]
    fn names_keep_their_spaces_escapes_and_odd_bytes() {
        let names = |text: &[u8]| rows(text)[0].0.clone();
        assert_eq!(
            names(b"a;operator new(unsigned long, char const*) 1\n"),
            "operator new(unsigned long, char const*)"
        );
        assert_eq!(names(b"a;x\\x3by\\x0az 1\n"), "x;y\nz");
        assert_eq!(names(b"a;x\\;y 1\n"), "x;y");
        assert_eq!(names(b"a;App\\Models\\new 1\n"), "App\\Models\\new");
        assert_eq!(names(b"a;say \"\xff\" 1\n"), "say \"\\xff\"");
    }

    #[test]
    fn nothing_is_claimed_that_the_file_does_not_tell() {
        let profile = read_all(b"a;b 7\n").expect("folded stacks");
        assert_eq!((profile.tally.ticks, profile.tally.hz, profile.tally.expected()), (7, 0.0, None));
        assert!(profile.processes.is_empty() && profile.clock.is_empty() && profile.period.is_zero());
    }

    #[test]
    fn a_line_that_is_no_stack_is_told_by_its_number() {
        let error = |text: &[u8]| read_all(text).expect_err("no folded stacks").to_string();
        insta::assert_snapshot!(error(b"a;b 1\na;b\n"), @"cannot read folded stacks: line 2 does not end in a number of ticks");
        insta::assert_snapshot!(error(b"a;b 1.5\n"), @"cannot read folded stacks: line 1 ends in 1.5, which is no number of ticks");
        insta::assert_snapshot!(error(b"a;b 99999999999999999999\n"), @"cannot read folded stacks: line 1 ends in 99999999999999999999, which is no number of ticks");
        insta::assert_snapshot!(error(b"a;b 1\n 5\n"), @"cannot read folded stacks: line 2 has a number of ticks, but no function");
        insta::assert_snapshot!(error(b"a;b 1\na\0;b 5\n"), @"cannot read folded stacks: line 2 has a zero byte, which no text has");
    }
}
