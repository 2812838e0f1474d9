//! The addresses that are looked up, and those that units and functions cover.

use std::ops::Range;

use gimli::{Attribute, AttributeValue, RangeListsOffset};

use super::{Answer, Slice, UnitRef};
use crate::profile::Frame;

/// The addresses (SVMA) that are looked up, in ascending order, and what is known of each.
pub struct Wanted {
    svmas: Vec<u64>,
    answers: Vec<Answer>,
    /// Addresses without a function so far.
    open: usize,
}

impl Wanted {
    pub fn new(svmas: &[u64]) -> Wanted {
        let mut svmas = svmas.to_vec();
        svmas.sort_unstable();
        svmas.dedup();
        Wanted { answers: vec![Answer::default(); svmas.len()], open: svmas.len(), svmas }
    }

    /// Whether each address has a function.
    pub fn is_done(&self) -> bool {
        self.open == 0
    }

    /// The addresses in an extent that have no function yet, in ascending order.
    ///
    /// # Errors
    /// The ranges are malformed.
    pub fn open_in(&self, extent: &Extent, unit: UnitRef<'_, '_>) -> Result<Vec<u64>, gimli::Error> {
        let is_open = |index: &usize| self.answers[*index].frames.is_empty();
        if extent.is_unknown() {
            // Some compilers say of the functions only where they are: such a unit may have any address.
            return Ok((0..self.svmas.len()).filter(is_open).map(|index| self.svmas[index]).collect());
        }
        let mut indices = Vec::new();
        extent.for_each(unit, |range| indices.extend(indices_in(&self.svmas, &range).filter(is_open)))?;
        indices.sort_unstable();
        indices.dedup();
        Ok(indices.into_iter().map(|index| self.svmas[index]).collect())
    }

    /// Takes an answer in; the first that has a function stays.
    pub fn answer(&mut self, svma: u64, frames: Vec<Frame>, place: impl FnOnce() -> Option<(String, u32)>) {
        let Ok(index) = self.svmas.binary_search(&svma) else { return };
        let answer = &mut self.answers[index];
        if !frames.is_empty() {
            answer.frames = frames;
            self.open -= 1;
        } else if answer.place.is_none() {
            answer.place = place();
        }
    }

    /// The answers, in the order of a list of addresses.
    pub fn answers(mut self, svmas: &[u64]) -> Vec<Answer> {
        let mut left: Vec<u32> = vec![0; self.svmas.len()];
        let indices: Vec<Option<usize>> = svmas.iter().map(|svma| self.svmas.binary_search(svma).ok()).collect();
        indices.iter().flatten().for_each(|index| left[*index] += 1);
        let mut take = |index: usize| {
            left[index] -= 1;
            if left[index] == 0 { std::mem::take(&mut self.answers[index]) } else { self.answers[index].clone() }
        };
        indices.into_iter().map(|index| index.map(&mut take).unwrap_or_default()).collect()
    }
}

/// Indices of the addresses, which ascend, that are in a range.
pub fn indices_in(svmas: &[u64], range: &Range<u64>) -> Range<usize> {
    let start = svmas.partition_point(|svma| *svma < range.start);
    start..start + svmas[start..].partition_point(|svma| *svma < range.end)
}

/// The attributes of an entry that say where its code is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Extent {
    low: Option<u64>,
    high: Option<u64>,
    size: Option<u64>,
    ranges: Option<RangeListsOffset<usize>>,
}

impl Extent {
    /// That of a whole unit.
    ///
    /// # Errors
    /// Its first entry is malformed.
    pub fn of_unit(unit: UnitRef<'_, '_>) -> Result<Extent, gimli::Error> {
        let mut extent = Extent::default();
        let mut entries = unit.entries_raw(None)?;
        if let Some(abbreviation) = entries.read_abbreviation()? {
            for attribute in abbreviation.attributes() {
                extent.take(&entries.read_attribute(*attribute)?, unit)?;
            }
        }
        Ok(extent)
    }

    /// Takes an attribute in, if it is one of those.
    ///
    /// # Errors
    /// It refers to something that is not there.
    pub fn take<'d>(&mut self, attribute: &Attribute<Slice<'d>>, unit: UnitRef<'_, 'd>) -> Result<(), gimli::Error> {
        match (attribute.name(), attribute.value()) {
            (gimli::DW_AT_low_pc, AttributeValue::Addr(address)) => self.low = Some(address),
            (gimli::DW_AT_low_pc, AttributeValue::DebugAddrIndex(index)) => self.low = Some(unit.address(index)?),
            (gimli::DW_AT_high_pc, AttributeValue::Addr(address)) => self.high = Some(address),
            (gimli::DW_AT_high_pc, AttributeValue::DebugAddrIndex(index)) => self.high = Some(unit.address(index)?),
            (gimli::DW_AT_high_pc, value) => self.size = value.udata_value(),
            (gimli::DW_AT_ranges, value) => self.ranges = unit.attr_ranges_offset(value)?,
            _ => {}
        }
        Ok(())
    }

    /// Whether nothing is said of it.
    pub fn is_unknown(&self) -> bool {
        self.ranges.is_none() && (self.low.is_none() || (self.high.is_none() && self.size.is_none()))
    }

    /// Calls with each range.
    ///
    /// # Errors
    /// The list of ranges is malformed.
    pub fn for_each<'d>(&self, unit: UnitRef<'_, 'd>, mut with: impl FnMut(Range<u64>)) -> Result<(), gimli::Error> {
        // What the linker threw away stays in the debug information, at address 0 or at the end of all addresses.
        let mut take = |start: u64, end: u64| {
            if start != 0 && start < end {
                with(start..end);
            }
        };
        if let Some(ranges) = self.ranges {
            let mut ranges = unit.ranges(ranges)?;
            while let Some(range) = ranges.next()? {
                take(range.begin, range.end);
            }
        } else if let Some(low) = self.low {
            let end = self.high.or_else(|| low.checked_add(self.size?));
            take(low, end.unwrap_or(low));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_answered_once_and_told_in_the_order_asked() {
        let mut wanted = Wanted::new(&[30, 10, 30, 20]);
        let frame = |name: &str| Frame { function: name.into(), system_name: None, file: None, line: 0 };
        wanted.answer(30, vec![frame("thirty")], || None);
        wanted.answer(20, Vec::new(), || Some(("a.c".into(), 7)));
        wanted.answer(20, Vec::new(), || Some(("b.c".into(), 8)));
        assert!(!wanted.is_done());
        let answers = wanted.answers(&[30, 10, 30, 20]);
        let names: Vec<_> = answers.iter().map(|answer| answer.frames.first().map(|f| f.function.as_str())).collect();
        assert_eq!(names, [Some("thirty"), None, Some("thirty"), None]);
        assert_eq!(answers[3].place, Some(("a.c".into(), 7)));
    }

    #[test]
    fn a_range_holds_its_start_and_not_its_end() {
        assert_eq!(indices_in(&[1, 2, 3, 4], &(2..4)), 1..3);
        assert_eq!(indices_in(&[1, 2, 3, 4], &(5..9)), 4..4);
        assert_eq!(indices_in(&[], &(0..9)), 0..0);
    }
}
