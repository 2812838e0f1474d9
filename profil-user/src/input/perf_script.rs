//! The text that `perf script` prints, in its usual layouts: an event on one line, or with its call chain on the lines
//! after it. An event is one tick, at its innermost entry.
//!
//! ```text
//!           comm 1234/1235 [001]   414.321758:    1001001 cpu-clock:      55d029d57139 hot+0x10 (/usr/bin/comm)
//! comm 1235   414.321758:    1001001 cpu-clock:
//!             1139 hot+0x10 (/usr/bin/comm)
//! ```
//!
//! Addresses are as perf prints them: those of the process, or in a call chain those of the file. The file has no build
//! IDs, so names are perf's. The process number is there only if perf was asked for it; a lone number is the thread's.
//!
//! # Source
//! `tools/perf/builtin-script.c` and `tools/perf/util/evsel_fprintf.c` of Linux 6.1.

use std::io::BufRead;
use std::time::Duration;

use profil_common::Outcome;

use super::error::{InputError, LineFault};
use super::gathering::{Gathering, Place, Run, Ticker};
use super::lines::Lines;
use crate::printable::readable;
use crate::profile::{Frame, Mapping, MappingKind, Mode, ProcessInfo, Profile};
use crate::symbols::demangle;

/// Longest command name, bytes; the kernel's limit.
pub(super) const COMM_BYTES: usize = 15;

/// Function of an address that perf knows no symbol for, in its own word.
const UNKNOWN: &[u8] = b"[unknown]";

/// Most functions inlined at one address.
const MAX_INLINED: usize = 64;

/// Reads what `perf script` printed.
///
/// # Errors
/// The stream fails, a line is of no usual layout, or there are several events.
pub fn read(lines: Lines<impl BufRead>) -> Result<Profile, InputError> {
    let mut lines = lines.of("the text of perf script");
    let mut reading = Reading::default();
    while let Some(line) = lines.next_line()? {
        let fault = reading.take(line);
        let number = lines.number();
        fault.map_err(|fault| lines.fault(fault))?;
        reading.gather(number)?;
    }
    if !lines.has_newline() {
        return Err(lines.fault(LineFault::Cut));
    }
    if !reading.part_of_comm.is_empty() {
        return Err(lines.fault(LineFault::NoEvent));
    }
    reading.end_event();
    reading.gather(lines.number())?;
    let run = reading.run();
    Ok(reading.gathering.finish(Outcome::Stray, run))
}

/// Whether a line begins an event.
pub(super) fn is_event(line: &[u8]) -> bool {
    Event::parse(line).is_some()
}

/// What was read so far.
#[derive(Default)]
struct Reading {
    gathering: Gathering,
    /// The event whose call chain is being read.
    open: Option<(Ticker, Entries)>,
    /// An event that is complete.
    done: Option<(Ticker, Place)>,
    /// Lines that can only be the beginning of a command name with newlines.
    part_of_comm: Vec<u8>,
    /// The first event's name as it stands, and what it is compared by.
    name: Option<(String, String)>,
    /// The period of all events so far; `None` when they differ, or have none.
    period: Option<Option<u64>>,
    first_ns: Option<u64>,
    last_ns: u64,
}

impl Reading {
    fn take(&mut self, line: &[u8]) -> Result<(), LineFault> {
        if line.trim_ascii().is_empty() {
            self.end_event();
            return if self.part_of_comm.is_empty() { Ok(()) } else { Err(LineFault::NoEvent) };
        }
        if let Some(event) = Event::parse(line) {
            self.end_event();
            return self.begin_event(event);
        }
        // Lines of --header.
        if line.starts_with(b"#") && self.open.is_none() {
            return Ok(());
        }
        match &mut self.open {
            Some((_, entries)) if line[0].is_ascii_whitespace() => match Entry::parse(line) {
                Some(entry) => {
                    entries.add(entry);
                    return Ok(());
                }
                None if line.starts_with(b"\t") => return Err(LineFault::NoAddress),
                None => {}
            },
            _ => {}
        }
        // The first part of a name is padded from the left.
        let part = if self.part_of_comm.is_empty() { line.trim_ascii_start() } else { line };
        if self.part_of_comm.len() + part.len() >= COMM_BYTES {
            return Err(LineFault::NoEvent);
        }
        self.end_event();
        self.part_of_comm.extend(part);
        self.part_of_comm.push(b'\n');
        Ok(())
    }

    fn begin_event(&mut self, event: Event<'_>) -> Result<(), LineFault> {
        let Event { comm, pid, tid, time_ns, period, name, rest } = event;
        let comm = [&std::mem::take(&mut self.part_of_comm), comm].concat();
        let full = readable(name);
        let base = base_name(&full).to_owned();
        match &self.name {
            None => self.name = Some((full, base)),
            Some((_, first)) if *first == base => {}
            Some((first, _)) => return Err(LineFault::SecondEvent { first: first.clone(), other: full }),
        }
        self.period = Some(match self.period {
            None => period,
            Some(before) => before.filter(|before| Some(*before) == period),
        });
        self.first_ns.get_or_insert(time_ns);
        self.last_ns = self.last_ns.max(time_ns);
        let process = ProcessInfo { pid: pid.unwrap_or(0), generation: 1, comm: readable(&comm), service: None };
        let ticker = Ticker { process: Some(process), tid: Some(tid), mode: Mode::User };
        let mut entries = Entries::default();
        let rest = rest.trim_ascii();
        match Entry::parse(rest) {
            Some(entry) => {
                entries.add(entry);
                self.open = Some((ticker, entries));
                self.end_event();
            }
            // What a tracepoint says of itself stands where others have their address.
            None if rest.is_empty() || is_tracepoint(name) => self.open = Some((ticker, entries)),
            None => return Err(LineFault::NoAddress),
        }
        Ok(())
    }

    fn end_event(&mut self) {
        if let Some((mut ticker, entries)) = self.open.take() {
            let place = entries.place();
            if place.mapping.as_ref().is_some_and(|mapping| mapping.kind == MappingKind::Kernel) {
                ticker.mode = Mode::Kernel;
            }
            self.done = Some((ticker, place));
        }
    }

    fn gather(&mut self, line: u64) -> Result<(), InputError> {
        match self.done.take() {
            Some((ticker, place)) => self.gathering.add(place, ticker, 1, line),
            None => Ok(()),
        }
    }

    fn run(&self) -> Run {
        let name = self.name.as_ref().map(|(name, _)| name.clone()).unwrap_or_default();
        let base = self.name.as_ref().map_or("", |(_, base)| base);
        // The periods of other events are cycles, instructions, or times that something happened.
        let is_time = matches!(base, "cpu-clock" | "task-clock");
        let period = self.period.flatten().filter(|_| is_time).map(Duration::from_nanos).unwrap_or_default();
        let duration = Duration::from_nanos(self.last_ns.saturating_sub(self.first_ns.unwrap_or(0)));
        Run { period, clock: name, duration }
    }
}

/// The first line of an event.
#[derive(Debug, PartialEq, Eq)]
struct Event<'a> {
    comm: &'a [u8],
    pid: Option<u32>,
    tid: u32,
    time_ns: u64,
    period: Option<u64>,
    name: &'a [u8],
    /// What follows the event's name.
    rest: &'a [u8],
}

impl<'a> Event<'a> {
    /// Takes a line apart from its time on, which is the one thing in it that has a form of its own: names may have blanks
    /// and numbers.
    fn parse(line: &'a [u8]) -> Option<Event<'a>> {
        let mut at = 0;
        while let Some((start, end)) = next_word(line, at) {
            at = end;
            let Some(time_ns) = time_of(&line[start..end]) else { continue };
            let Some((comm, pid, tid)) = ticker(&line[..start]) else { continue };
            let (first, after) = next_word(line, at)?;
            let period = number(&line[first..after]);
            let (first, after) = if period.is_some() { next_word(line, after)? } else { (first, after) };
            let Some(name) = line[first..after].strip_suffix(b":").filter(|name| !name.is_empty()) else { continue };
            return Some(Event { comm, pid, tid, time_ns, period, name, rest: &line[after..] });
        }
        None
    }
}

/// Command name, process and thread, from what stands before the time: `COMM PID/TID [CPU]`, of which PID and CPU may be
/// missing.
fn ticker(text: &[u8]) -> Option<(&[u8], Option<u32>, u32)> {
    let (mut rest, mut word) = last_word(text)?;
    if let [b'[', cpu @ .., b']'] = word {
        number(cpu)?;
        (rest, word) = last_word(rest)?;
    }
    let id = |text: &[u8]| number(text).and_then(|id| u32::try_from(id).ok());
    let (pid, tid) = match word.iter().position(|byte| *byte == b'/') {
        Some(slash) => (Some(id(&word[..slash])?), id(&word[slash + 1..])?),
        // A thread whose number is no longer known has -1.
        None if word == b"-1" => (None, 0),
        None => (None, id(word)?),
    };
    let comm = rest.trim_ascii();
    (comm.len() <= 2 * COMM_BYTES).then_some((comm, pid, tid))
}

/// Start and end of the next word of a line.
fn next_word(line: &[u8], from: usize) -> Option<(usize, usize)> {
    let start = from + line[from..].iter().position(|byte| !byte.is_ascii_whitespace())?;
    let length = line[start..].iter().position(u8::is_ascii_whitespace).unwrap_or(line.len() - start);
    Some((start, start + length))
}

/// The last word of a text, and what is before it.
fn last_word(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let text = text.trim_ascii_end();
    let start = text.iter().rposition(u8::is_ascii_whitespace).map_or(0, |blank| blank + 1);
    (start < text.len()).then_some((&text[..start], &text[start..]))
}

/// Nanoseconds of `414.321758:`, of six or nine decimals.
fn time_of(word: &[u8]) -> Option<u64> {
    let word = word.strip_suffix(b":")?;
    let dot = word.iter().position(|byte| *byte == b'.')?;
    let (seconds, fraction) = (number(&word[..dot])?, &word[dot + 1..]);
    let scale = match fraction.len() {
        6 => 1000,
        9 => 1,
        _ => return None,
    };
    seconds.checked_mul(1_000_000_000)?.checked_add(number(fraction)? * scale)
}

/// A decimal number and nothing else.
fn number(text: &[u8]) -> Option<u64> {
    let is_number = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(text).ok().filter(|_| is_number)?.parse().ok()
}

/// What an event is without its modifiers and the PMU that counted it: the cores of one machine may have two.
fn base_name(name: &str) -> &str {
    let name = match name.split_once('/') {
        Some((_, rest)) => rest.split('/').next().unwrap_or(rest),
        None => name,
    };
    match name.rsplit_once(':') {
        Some((base, modifiers)) if modifiers.bytes().all(|byte| MODIFIERS.contains(&byte)) => base,
        _ => name,
    }
}

/// Letters after an event's name that say when it counts; perf-list(1).
const MODIFIERS: &[u8] = b"ukhIGHpPSDWeb";

fn is_tracepoint(name: &[u8]) -> bool {
    let colon = name.iter().rposition(|byte| *byte == b':');
    colon.is_some_and(|colon| !name[colon + 1..].iter().all(|byte| MODIFIERS.contains(byte)))
}

/// A line of a call chain, or what a line has in its place: `ADDRESS SYMBOL+OFFSET (OBJECT)`.
#[derive(Debug, PartialEq, Eq)]
struct Entry<'a> {
    address: u64,
    /// `None` where perf knows none.
    symbol: Option<&'a [u8]>,
    /// `None` where perf knows none.
    object: Option<&'a [u8]>,
    /// The function is inlined into that of the next line.
    inlined: bool,
}

impl<'a> Entry<'a> {
    fn parse(line: &'a [u8]) -> Option<Entry<'a>> {
        let (start, end) = next_word(line, 0)?;
        let word = std::str::from_utf8(&line[start..end]).ok()?;
        let digits = word.strip_prefix("0x").unwrap_or(word);
        if digits.starts_with('+') {
            return None;
        }
        let address = u64::from_str_radix(digits, 16).ok()?;
        let rest = line[end..].trim_ascii();
        let (symbol, object) = split_object(rest);
        let inlined = object == Some(b"inlined");
        let object = object.filter(|_| !inlined).filter(|object| *object != UNKNOWN && !object.is_empty());
        let symbol = Some(without_offset(symbol)).filter(|symbol| !symbol.is_empty() && *symbol != UNKNOWN);
        Some(Entry { address, symbol, object, inlined })
    }
}

/// `SYMBOL+0x10` and `/a/path` of `SYMBOL+0x10 (/a/path)`. Both may have blanks and brackets.
fn split_object(text: &[u8]) -> (&[u8], Option<&[u8]>) {
    let Some(inner) = text.strip_suffix(b")") else { return (text, None) };
    let opens = || inner.windows(2).enumerate().filter(|(_, pair)| *pair == b" (").map(|(at, _)| at);
    let after_offset = opens().find(|at| without_offset(&inner[..*at]).len() < *at || &inner[..*at] == UNKNOWN);
    let open = after_offset.or_else(|| balanced(inner)).or_else(|| inner.starts_with(b"(").then_some(0));
    match open {
        Some(open) => {
            (text[..open].trim_ascii(), Some(inner[open..].trim_ascii_start().strip_prefix(b"(").unwrap_or(&[])))
        }
        None => (text, None),
    }
}

/// The blank before the bracket that the end of a text closes.
fn balanced(inner: &[u8]) -> Option<usize> {
    let mut depth = 1usize;
    for at in (1..inner.len()).rev() {
        match inner[at] {
            b')' => depth += 1,
            b'(' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return (inner[at - 1] == b' ').then_some(at - 1);
        }
    }
    None
}

/// `hot` of `hot+0x10`.
fn without_offset(symbol: &[u8]) -> &[u8] {
    let plus = symbol.windows(3).rposition(|part| part == b"+0x");
    match plus {
        Some(plus) if symbol.len() > plus + 3 && symbol[plus + 3..].iter().all(u8::is_ascii_hexdigit) => {
            &symbol[..plus]
        }
        _ => symbol,
    }
}

/// The innermost entry of a call chain, and the functions that it is inlined into.
#[derive(Default)]
struct Entries {
    frames: Vec<Frame>,
    address: Option<u64>,
    mapping: Option<Mapping>,
    is_complete: bool,
}

impl Entries {
    fn add(&mut self, entry: Entry<'_>) {
        if self.is_complete {
            return;
        }
        let Entry { address, symbol, object, inlined } = entry;
        let address = *self.address.get_or_insert(address);
        self.is_complete = !inlined || self.frames.len() == MAX_INLINED;
        self.frames.extend(symbol.map(|symbol| demangle::frame(&readable(symbol))));
        if !inlined {
            self.mapping = object.map(|object| mapping(&readable(object), address));
        }
    }

    fn place(self) -> Place {
        let Entries { mut frames, address, mapping, is_complete: _ } = self;
        // Without a symbol and its file there is no offset in the file to show: only perf's word for it.
        if frames.is_empty() && mapping.as_ref().is_some_and(|mapping| mapping.kind == MappingKind::File) {
            frames.push(demangle::frame(&readable(UNKNOWN)));
        }
        Place { mapping, address: address.unwrap_or(0), frames }
    }
}

/// The mapping that perf's name of an object stands for.
fn mapping(object: &str, address: u64) -> Mapping {
    let object = object.strip_suffix(" (deleted)").unwrap_or(object);
    let is_jit = object.starts_with("/tmp/perf-") && object.ends_with(".map");
    match MappingKind::of_object(object, address) {
        MappingKind::Kernel if object.starts_with("[kernel") => Mapping::kernel("[kernel]"),
        MappingKind::Kernel => Mapping::kernel(object),
        MappingKind::File if is_jit => Mapping::whole(MappingKind::Anonymous, object),
        MappingKind::Anonymous if object == "//anon" => Mapping::whole(MappingKind::Anonymous, "[anon]"),
        kind => Mapping::whole(kind, object),
    }
}

#[cfg(test)]
mod tests;
