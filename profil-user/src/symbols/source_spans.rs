//! Where the code of functions is in the source, as compilers that optimise by profiles ask for it: by functions that
//! were inlined into each other, lines counted from where each function begins, and discriminators.
//!
//! [`super::symbolizer`] names addresses for people. Here whole functions are read, code without ticks too: that nothing
//! happened in it is what a compiler wants to know.
//!
//! Like names, it is read by the process for that (see [`super::reader`]). What is malformed ends the unit that it is in.
//!
//! # Source
//! DWARF 5; `DILocation::getBaseDiscriminatorFromDiscriminator` and `FunctionSamples::getOffset` of LLVM 22.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use gimli::{AttributeValue, Unit, UnitOffset};

use super::dwarf::{Dwarf, Sections, Slice};
use super::object_file::ObjectFile;
use super::reader::{Reader, Sources};
use super::symbolizer::Unnamed;

/// Most hops from a function to what it was made from: an inlined one, its origin, its declaration.
const HOPS: usize = 8;

/// A stretch of code that has one place in the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// Its addresses (SVMA).
    pub addresses: Range<u64>,
    /// The function that it is in, then those inlined, the innermost last. Each but the last is at its call.
    pub path: Vec<Site>,
    /// Whether the function is entered here.
    pub is_entry: bool,
}

/// A place in a function.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Site {
    /// Linkage name of the function.
    pub function: Arc<str>,
    /// Lines from the line where the function is declared, modulo 2^16.
    pub line_offset: u16,
    /// Tells code of one line apart; 0 where there is nothing to tell.
    pub discriminator: u32,
}

/// The debug information of an object cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the debug information of {path}: {why:?}")]
pub struct SpanError {
    /// The object.
    path: String,
    /// Why.
    why: Unnamed,
}

/// The spans of all functions that have one of the addresses (SVMA, ascending), in ascending order.
///
/// # Errors
/// The file cannot be read.
pub fn spans(file: &ObjectFile, svmas: &[u64]) -> Result<Vec<Span>, SpanError> {
    let sources = Sources { object: file, debug: None, shared: None };
    Reader::new().spans(&sources, svmas).map_err(|why| SpanError { path: file.display_path.clone(), why })
}

/// The same, of sections.
pub(super) fn read(sections: &Sections<'_>, svmas: &[u64]) -> Vec<Span> {
    let mut spans = Units::new(sections.dwarf()).spans(svmas);
    spans.sort_by_key(|span| (span.addresses.start, span.addresses.end));
    spans
}

/// A function or an inlined one, as far as it has code.
struct Function {
    name: Arc<str>,
    line: u64,
    /// Where it is entered.
    entry: u64,
    ranges: Vec<Range<u64>>,
    inlined: Vec<Inlined>,
}

/// A range of code that a call was replaced by.
struct Inlined {
    addresses: Range<u64>,
    /// Depth in the tree of entries: what is inlined into it lies deeper.
    depth: isize,
    name: Arc<str>,
    line: u64,
    call_line: u64,
    call_discriminator: u32,
}

/// A row of the line table.
struct Line {
    addresses: Range<u64>,
    line: u64,
    discriminator: u32,
}

/// How a compiler writes discriminators.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Discriminators {
    /// As LLVM: the low bits hold the number, others what optimisers did.
    Llvm,
    /// As nobody else reads them.
    Other,
}

impl Discriminators {
    /// The number that the front end gave.
    fn base(self, discriminator: u64) -> u32 {
        match self {
            // A prefix code: a low bit of 1 is no number at all, else five bits, or twelve when the sixth is set.
            Discriminators::Llvm if discriminator & 1 == 0 => {
                let bits = (discriminator >> 1) as u32;
                if bits & 0x20 == 0 { bits & 0x1f } else { (bits >> 1) & 0xfe0 | bits & 0x1f }
            }
            Discriminators::Llvm | Discriminators::Other => 0,
        }
    }
}

/// Name and line of a function; none where debug information has none.
type Described = Option<(Arc<str>, u64)>;

struct Units<'a> {
    dwarf: Dwarf<'a>,
    units: Vec<Unit<Slice<'a>>>,
    /// What was read of origins, which many inlined functions share.
    described: HashMap<(usize, UnitOffset), Described>,
}

impl<'a> Units<'a> {
    fn new(dwarf: Dwarf<'a>) -> Units<'a> {
        let mut headers = dwarf.units();
        let mut units = Vec::new();
        while let Ok(Some(header)) = headers.next() {
            units.extend(dwarf.unit(header));
        }
        Units { dwarf, units, described: HashMap::new() }
    }

    fn spans(&mut self, svmas: &[u64]) -> Vec<Span> {
        let mut spans = Vec::new();
        for unit in 0..self.units.len() {
            // What was read before an error holds.
            let _ = self.spans_of_unit(unit, svmas, &mut spans);
        }
        spans
    }

    fn spans_of_unit(&mut self, unit: usize, svmas: &[u64], spans: &mut Vec<Span>) -> gimli::Result<()> {
        let mut ranges = self.dwarf.unit_ranges(&self.units[unit])?;
        let mut is_wanted = false;
        while let Some(range) = ranges.next()? {
            is_wanted |= has_any(svmas, &(range.begin..range.end));
        }
        if !is_wanted {
            return Ok(());
        }
        let discriminators = self.discriminators(unit)?;
        let functions = self.functions(unit, svmas, discriminators)?;
        let lines = self.lines(unit, discriminators)?;
        for function in functions {
            add_spans(function, &lines, spans);
        }
        Ok(())
    }

    fn discriminators(&self, unit: usize) -> gimli::Result<Discriminators> {
        let unit = &self.units[unit];
        let mut entries = unit.entries();
        let producer = entries.next_dfs()?.and_then(|root| root.attr_value(gimli::DW_AT_producer));
        let producer = producer.and_then(|producer| self.dwarf.attr_string(unit, producer).ok());
        // rustc names LLVM as well.
        let is_llvm =
            producer.is_some_and(|text| ["clang", "LLVM"].iter().any(|name| text.to_string_lossy().contains(name)));
        Ok(if is_llvm { Discriminators::Llvm } else { Discriminators::Other })
    }

    /// The functions of a unit that have one of the addresses.
    fn functions(
        &mut self,
        unit: usize,
        svmas: &[u64],
        discriminators: Discriminators,
    ) -> gimli::Result<Vec<Function>> {
        let mut done = Vec::new();
        // Functions can be nested (GNU C); those that nobody asked for are none.
        let mut open: Vec<(isize, Option<Function>)> = Vec::new();
        // The cursor borrows its unit, and origins are looked up in others meanwhile.
        let abbreviations = Arc::clone(&self.units[unit].abbreviations);
        let header = self.units[unit].header;
        let mut entries = header.entries(&abbreviations);
        while let Some(entry) = entries.next_dfs()? {
            let depth = entry.depth();
            while open.last().is_some_and(|(outer, _)| *outer >= depth) {
                done.extend(open.pop().and_then(|(_, function)| function));
            }
            let is_function = entry.tag() == gimli::DW_TAG_subprogram;
            let outer = match open.last_mut() {
                Some((_, Some(outer))) if entry.tag() == gimli::DW_TAG_inlined_subroutine => Some(outer),
                _ if is_function => None,
                _ => continue,
            };
            let mut ranges = Vec::new();
            let mut iterator = self.dwarf.die_ranges(&self.units[unit], entry)?;
            while let Some(range) = iterator.next()? {
                ranges.extend((range.begin < range.end).then_some(range.begin..range.end));
            }
            let wanted = outer.is_some() || ranges.iter().any(|range| has_any(svmas, range));
            let described = if wanted { self.describe(unit, entry)? } else { None };
            let number = |name| entry.attr_value(name).and_then(|value| value.udata_value());
            match (outer, described) {
                (Some(outer), Some((name, line))) => {
                    let call_line = number(gimli::DW_AT_call_line).unwrap_or(0);
                    let call_discriminator = discriminators.base(number(gimli::DW_AT_GNU_discriminator).unwrap_or(0));
                    outer.inlined.extend(ranges.into_iter().map(|addresses| {
                        let name = Arc::clone(&name);
                        Inlined { addresses, depth, name, line, call_line, call_discriminator }
                    }));
                }
                (None, Some((name, line))) => {
                    let entry = ranges.first().map_or(0, |range| range.start);
                    open.push((depth, Some(Function { name, line, entry, ranges, inlined: Vec::new() })));
                }
                (None, None) => open.push((depth, None)),
                (Some(_), None) => {}
            }
        }
        done.extend(open.into_iter().filter_map(|(_, function)| function));
        Ok(done)
    }

    /// Linkage name and line of a function: its own, or else those of what it was made from.
    fn describe(
        &mut self,
        unit: usize,
        entry: &gimli::DebuggingInformationEntry<Slice<'a>>,
    ) -> gimli::Result<Described> {
        let origin = |entry: &gimli::DebuggingInformationEntry<Slice<'a>>| {
            entry.attr_value(gimli::DW_AT_abstract_origin).or_else(|| entry.attr_value(gimli::DW_AT_specification))
        };
        let key = match origin(entry) {
            Some(AttributeValue::UnitRef(offset)) if entry.tag() == gimli::DW_TAG_inlined_subroutine => {
                Some((unit, offset))
            }
            _ => None,
        };
        if let Some(described) = key.and_then(|key| self.described.get(&key)) {
            return Ok(described.clone());
        }
        let (mut linkage_name, mut name, mut line) = (None, None, None);
        let (mut at, mut entry) = (unit, entry.clone());
        for _ in 0..HOPS {
            let text = |name| {
                let value = entry.attr_value(name)?;
                self.dwarf.attr_string(&self.units[at], value).ok().filter(|text| !text.is_empty())
            };
            linkage_name = linkage_name
                .or_else(|| text(gimli::DW_AT_linkage_name))
                .or_else(|| text(gimli::DW_AT_MIPS_linkage_name));
            name = name.or_else(|| text(gimli::DW_AT_name));
            line = line.or_else(|| entry.attr_value(gimli::DW_AT_decl_line)?.udata_value());
            let place = match origin(&entry) {
                Some(AttributeValue::UnitRef(offset)) => Some((at, offset)),
                Some(AttributeValue::DebugInfoRef(offset)) => self
                    .units
                    .iter()
                    .enumerate()
                    .find_map(|(index, unit)| Some((index, offset.to_unit_offset(&unit.header)?))),
                _ => None,
            };
            let Some((next, offset)) = place else { break };
            at = next;
            entry = self.units[at].entry(offset)?;
        }
        let name = linkage_name.or(name).map(|name| Arc::from(&*name.to_string_lossy()));
        let described = name.zip(line);
        if let Some(key) = key {
            self.described.insert(key, described.clone());
        }
        Ok(described)
    }

    /// The line table of a unit, in ascending order, without overlaps.
    fn lines(&self, unit: usize, discriminators: Discriminators) -> gimli::Result<Vec<Line>> {
        let Some(program) = self.units[unit].line_program.clone() else { return Ok(Vec::new()) };
        let mut rows = program.rows();
        let mut lines: Vec<Line> = Vec::new();
        let mut before: Option<Line> = None;
        while let Some((_, row)) = rows.next_row()? {
            if let Some(mut line) = before.take() {
                line.addresses.end = row.address();
                lines.extend(Some(line).filter(|line| !line.addresses.is_empty()));
            }
            if !row.end_sequence() {
                before = Some(Line {
                    addresses: row.address()..row.address(),
                    line: row.line().map_or(0, |line| line.get()),
                    discriminator: discriminators.base(row.discriminator()),
                });
            }
        }
        lines.sort_by_key(|line| line.addresses.start);
        let mut end = 0;
        lines.retain(|line| {
            let follows = line.addresses.start >= end;
            end = if follows { line.addresses.end } else { end };
            follows
        });
        Ok(lines)
    }
}

/// Whether one of the ascending addresses is in the range.
fn has_any(svmas: &[u64], range: &Range<u64>) -> bool {
    let first = svmas.partition_point(|svma| *svma < range.start);
    svmas.get(first).is_some_and(|svma| *svma < range.end)
}

/// Cuts a function where its line or what is inlined changes.
fn add_spans(function: Function, lines: &[Line], spans: &mut Vec<Span>) {
    let Function { name, line: declared, entry, mut ranges, mut inlined } = function;
    ranges.sort_by_key(|range| range.start);
    inlined.sort_by_key(|inlined| (inlined.addresses.start, inlined.depth));
    let mut begun = inlined.iter().peekable();
    let mut active: Vec<&Inlined> = Vec::new();
    for range in &ranges {
        let first = lines.partition_point(|line| line.addresses.end <= range.start);
        for line in lines[first..].iter().take_while(|line| line.addresses.start < range.end) {
            let mut at = line.addresses.start.max(range.start);
            let end = line.addresses.end.min(range.end);
            while at < end {
                active.retain(|inlined| inlined.addresses.end > at);
                while let Some(inlined) = begun.next_if(|inlined| inlined.addresses.start <= at) {
                    active.extend((inlined.addresses.end > at).then_some(inlined));
                    active.sort_by_key(|inlined| inlined.depth);
                }
                let changes = active.iter().map(|inlined| inlined.addresses.end);
                let changes = changes.chain(begun.peek().map(|inlined| inlined.addresses.start));
                let until = changes.fold(end, u64::min);
                if line.line > 0 {
                    let path = path(&name, declared, &active, line);
                    spans.push(Span { addresses: at..until, path, is_entry: at == entry });
                }
                at = until;
            }
        }
    }
}

fn path(name: &Arc<str>, declared: u64, inlined: &[&Inlined], line: &Line) -> Vec<Site> {
    let site = |(name, declared): (&Arc<str>, u64), (line, discriminator): (u64, u32)| Site {
        function: Arc::clone(name),
        line_offset: line.wrapping_sub(declared) as u16,
        discriminator,
    };
    let functions =
        std::iter::once((name, declared)).chain(inlined.iter().map(|inlined| (&inlined.name, inlined.line)));
    let calls = inlined.iter().map(|inlined| (inlined.call_line, inlined.call_discriminator));
    let places = calls.chain(std::iter::once((line.line, line.discriminator)));
    functions.zip(places).map(|(function, place)| site(function, place)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_discriminator_of_llvm_is_a_prefix_code() {
        let base = |discriminator| Discriminators::Llvm.base(discriminator);
        assert_eq!([base(0), base(1), base(2), base(4), base(0x3e)], [0, 0, 1, 2, 31]);
        // 32: the sixth bit says that there are twelve, the low five of which come first.
        assert_eq!(base(0xc0), 32);
        assert_eq!(Discriminators::Other.base(2), 0);
    }

    #[test]
    fn a_function_is_cut_where_its_line_or_what_is_inlined_changes() {
        let inlined = |start, end, depth, name: &str, line, call_line| Inlined {
            addresses: start..end,
            depth,
            name: name.into(),
            line,
            call_line,
            call_discriminator: 0,
        };
        let function = Function {
            name: "outer".into(),
            line: 10,
            entry: 0x100,
            ranges: vec![0x100..0x120, 0x80..0x84],
            inlined: vec![inlined(0x108, 0x118, 2, "middle", 30, 12), inlined(0x10c, 0x110, 4, "inner", 50, 31)],
        };
        let line = |start, end, line| Line { addresses: start..end, line, discriminator: 0 };
        let lines = [
            line(0x80, 0x84, 19),
            line(0x100, 0x108, 11),
            line(0x108, 0x10c, 31),
            line(0x10c, 0x114, 52),
            line(0x114, 0x11c, 0),
            line(0x11c, 0x130, 8),
        ];
        let mut spans = Vec::new();
        add_spans(function, &lines, &mut spans);
        let shown = spans.iter().map(|Span { addresses, path, is_entry }| {
            let path = path.iter().map(|site| format!("{}+{}", site.function, site.line_offset)).collect::<Vec<_>>();
            format!("{addresses:#x?} {}{}", path.join(" "), if *is_entry { " entry" } else { "" })
        });
        assert_eq!(
            shown.collect::<Vec<_>>(),
            [
                "0x80..0x84 outer+9",
                "0x100..0x108 outer+1 entry",
                "0x108..0x10c outer+2 middle+1",
                "0x10c..0x110 outer+2 middle+1 inner+2",
                "0x110..0x114 outer+2 middle+22",
                // 2 lines before the function: modulo 2^16, as LLVM counts.
                "0x11c..0x120 outer+65534",
            ]
        );
    }
}
