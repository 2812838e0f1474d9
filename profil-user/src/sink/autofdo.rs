//! Writes ticks as a sample profile in text, by which clang optimises: `-fprofile-sample-use=FILE`.
//!
//! A compiler wants to know how often code was executed; ticks say how long it took. So a count is ticks by bytes of
//! code: a line of many instructions is no hotter than one of few that is executed as often. Code of a function with
//! ticks that had none itself is written with a count of 0: the compiler moves it out of the way.
//!
//! The format quotes nothing, and takes any name that does not begin as something else does: others are left out.
//!
//! # Source
//! "Sample Profile Format" of the manual of clang; `llvm/lib/ProfileData/SampleProfReader.cpp` of LLVM 22.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Arc;

use crate::symbols::source_spans::{Site, Span};

/// Counts for a tick in each byte of a place: large enough that a single tick in much code is more than nothing.
const SCALE: u64 = 1000;

/// The functions of a profile, with their counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceProfile {
    /// Ticks in them.
    pub ticks: u64,
    /// By linkage name.
    functions: BTreeMap<Arc<str>, Function>,
}

/// A function, or what a call of it was replaced by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Function {
    code: BTreeMap<Place, Code>,
    inlined: BTreeMap<(Place, Arc<str>), Function>,
    /// Counts of the code that it begins with.
    entered: u64,
}

/// Line offset and discriminator.
type Place = (u16, u32);

/// The code of a place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Code {
    ticks: u64,
    bytes: u64,
}

impl Code {
    fn count(self) -> u64 {
        if self.ticks == 0 { 0 } else { (self.ticks.saturating_mul(SCALE) / self.bytes.max(1)).max(1) }
    }
}

impl SourceProfile {
    /// Puts ticks, by address, where the spans (ascending) say that they are.
    pub fn new(spans: &[Span], ticks: &BTreeMap<u64, u64>) -> SourceProfile {
        let mut profile = SourceProfile::default();
        for Span { addresses, path, is_entry } in spans {
            if addresses.is_empty() || !path.iter().all(|site| is_carried(&site.function)) {
                continue;
            }
            let here = ticks.range(addresses.clone()).fold(0u64, |sum, (_, ticks)| sum.saturating_add(*ticks));
            let more = Code { ticks: here, bytes: addresses.end - addresses.start };
            profile.add(path, more, *is_entry);
        }
        profile.functions.retain(|_, function| function.total() > 0);
        profile
    }

    fn add(&mut self, path: &[Site], more: Code, is_entry: bool) {
        let Some((last, calls)) = path.split_last() else { return };
        self.ticks = self.ticks.saturating_add(more.ticks);
        let outermost = calls.first().unwrap_or(last);
        let mut function = self.functions.entry(Arc::clone(&outermost.function)).or_default();
        if is_entry {
            function.entered = function.entered.saturating_add(more.count());
        }
        for (call, callee) in calls.iter().zip(&path[1..]) {
            let place = (call.line_offset, call.discriminator);
            function = function.inlined.entry((place, Arc::clone(&callee.function))).or_default();
        }
        let code = function.code.entry((last.line_offset, last.discriminator)).or_default();
        code.ticks = code.ticks.saturating_add(more.ticks);
        code.bytes = code.bytes.saturating_add(more.bytes);
    }

    /// Writes the functions, those with the largest counts first.
    ///
    /// # Errors
    /// Those of `to`.
    pub fn write(&self, mut to: impl Write) -> io::Result<()> {
        let mut functions: Vec<_> =
            self.functions.iter().map(|(name, function)| (function.total(), name, function)).collect();
        functions.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(b.1)));
        for (total, name, function) in functions {
            writeln!(to, "{name}:{total}:{}", function.entered)?;
            function.write(1, &mut to)?;
        }
        Ok(())
    }
}

impl Function {
    fn total(&self) -> u64 {
        let code = self.code.values().map(|code| code.count());
        let inlined = self.inlined.values().map(Function::total);
        code.chain(inlined).fold(0, u64::saturating_add)
    }

    /// Writes the places in their order, each line indented by its depth.
    fn write(&self, depth: usize, to: &mut impl Write) -> io::Result<()> {
        for (place, code) in &self.code {
            writeln!(to, "{:depth$}{}: {}", "", shown(*place), code.count())?;
        }
        for ((place, name), function) in &self.inlined {
            let total = function.total();
            // An inlined call without a tick says nothing that its absence does not.
            if total > 0 {
                writeln!(to, "{:depth$}{}: {name}:{total}", "", shown(*place))?;
                function.write(depth + 1, to)?;
            }
        }
        Ok(())
    }
}

fn shown((line_offset, discriminator): Place) -> String {
    match discriminator {
        0 => line_offset.to_string(),
        discriminator => format!("{line_offset}.{discriminator}"),
    }
}

/// Whether the reader takes the name for one: not for a count, a comment, a context or metadata.
fn is_carried(name: &str) -> bool {
    let misread = |first: char| first.is_ascii_digit() || " #[!<".contains(first);
    !name.is_empty() && !name.starts_with(misread) && !name.contains(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(addresses: std::ops::Range<u64>, path: &[(&str, u16, u32)]) -> Span {
        let site = |(function, line_offset, discriminator): &(&str, u16, u32)| Site {
            function: (*function).into(),
            line_offset: *line_offset,
            discriminator: *discriminator,
        };
        Span { is_entry: addresses.start == 0x100, addresses, path: path.iter().map(site).collect() }
    }

    fn text(spans: &[Span], ticks: &[(u64, u64)]) -> String {
        let mut text = Vec::new();
        SourceProfile::new(spans, &ticks.iter().copied().collect()).write(&mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn counts_are_ticks_by_bytes_and_totals_are_their_sums() {
        let spans = [
            span(0x100..0x104, &[("main", 1, 0)]),
            span(0x104..0x10c, &[("main", 2, 3)]),
            span(0x10c..0x110, &[("main", 4, 0), ("callee", 1, 0)]),
            span(0x110..0x114, &[("main", 4, 0), ("callee", 2, 0), ("ns::f<a b>", 0, 0)]),
            span(0x114..0x118, &[("main", 9, 0)]),
            span(0x118..0x11c, &[("main", 2, 3)]),
            span(0x200..0x204, &[("cold", 1, 0)]),
        ];
        let ticks = [(0x100, 2), (0x107, 10), (0x10b, 1), (0x10d, 8), (0x113, 1), (0x118, 1), (0x300, 5)];
        insta::assert_snapshot!(text(&spans, &ticks), @r"
        main:3750:500
         1: 500
         2.3: 1000
         9: 0
         4: callee:2250
          1: 2000
          2: ns::f<a b>:250
           0: 250
        ");
    }

    #[test]
    fn names_that_the_reader_would_take_for_something_else_are_left_out() {
        let names = ["1st", " x", "#x", "[x]", "!x", "<vtable> x", "", "a\nb", "operator new(a b):c", "größe"];
        let spans: Vec<Span> = (0x100..).zip(&names).map(|(at, name)| span(at..at + 1, &[(name, 1, 0)])).collect();
        let ticks: Vec<(u64, u64)> = spans.iter().map(|span| (span.addresses.start, 1)).collect();
        let text = text(&spans, &ticks);
        let heads: Vec<&str> = text.lines().filter(|line| !line.starts_with(' ')).collect();
        assert_eq!(heads, ["größe:1000:0", "operator new(a b):c:1000:0"]);
    }
}
