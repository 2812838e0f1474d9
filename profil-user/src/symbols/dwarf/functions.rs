//! The functions of a unit that cover addresses, and those inlined into them.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use gimli::{AttributeValue, UnitOffset};

use super::extent::{Extent, indices_in};
use super::lines::{Lines, Place};
use super::origins::Origins;
use super::{DEPTH_LIMIT, UnitRef};
use crate::profile::Frame;
use crate::symbols::demangle;

/// A function, or one that is inlined.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    offset: UnitOffset,
    /// How deep it is in the tree of entries.
    depth: isize,
    /// Bytes of the range that covers the address.
    bytes: u64,
    /// Where it is called, if it is inlined.
    call: Place,
}

/// The functions that cover an address, the outermost first.
pub type Chain = Vec<Call>;

/// Finds the chain of each address of a unit, in one pass over its entries. Where that is malformed it ends, and the
/// chains found so far stay.
pub fn chains(unit: UnitRef<'_, '_>, svmas: &[u64]) -> Vec<Chain> {
    let mut chains = vec![Chain::new(); svmas.len()];
    let _malformed = walk(unit, svmas, &mut chains);
    chains
}

fn walk(unit: UnitRef<'_, '_>, svmas: &[u64], chains: &mut [Chain]) -> Result<(), gimli::Error> {
    // Functions around the current entry.
    let mut around: Vec<(isize, UnitOffset)> = Vec::new();
    let mut entries = unit.entries_raw(None)?;
    while !entries.is_empty() {
        let (offset, depth) = (entries.next_offset(), entries.next_depth());
        let Some(abbreviation) = entries.read_abbreviation()? else { continue };
        while around.last().is_some_and(|(outer, _)| *outer >= depth) {
            around.pop();
        }
        let is_inlined = match abbreviation.tag() {
            gimli::DW_TAG_subprogram => false,
            gimli::DW_TAG_inlined_subroutine => true,
            _ => {
                entries.skip_attributes(abbreviation.attributes())?;
                continue;
            }
        };
        let (mut extent, mut call) = (Extent::default(), Place::default());
        for attribute in abbreviation.attributes() {
            let attribute = entries.read_attribute(*attribute)?;
            match attribute.name() {
                gimli::DW_AT_call_file => {
                    call.file = match attribute.value() {
                        AttributeValue::FileIndex(index) => Some(index),
                        value => value.udata_value(),
                    };
                }
                gimli::DW_AT_call_line => call.line = attribute.udata_value().unwrap_or(0) as u32,
                _ => extent.take(&attribute, unit)?,
            }
        }
        if !is_inlined {
            around.push((depth, offset));
        }
        let function = around.last().map(|(_, function)| *function);
        extent.for_each(unit, |range| {
            let bytes = range.end - range.start;
            for index in indices_in(svmas, &range) {
                let (chain, call) = (&mut chains[index], Call { offset, depth, bytes, call });
                if is_inlined { inline(chain, function, call) } else { begin(chain, call) }
            }
        })?;
    }
    Ok(())
}

/// Of functions that share code, which assemblers and linkers make, the smallest gives the name, and the last of several.
fn begin(chain: &mut Chain, function: Call) {
    if chain.first().is_none_or(|known| function.bytes <= known.bytes) {
        chain.clear();
        chain.push(function);
    }
}

/// Goes one step further in, if what the chain ends with is around the function.
fn inline(chain: &mut Chain, function: Option<UnitOffset>, inlined: Call) {
    let is_in_chain = chain.first().is_some_and(|outermost| Some(outermost.offset) == function);
    if is_in_chain && chain.len() < DEPTH_LIMIT && chain.last().is_some_and(|last| last.depth < inlined.depth) {
        chain.push(inlined);
    }
}

/// The names of the functions of a unit.
pub struct Names<'a, 'o, 'd> {
    unit: UnitRef<'a, 'd>,
    origins: &'a mut Origins<'o, 'd>,
    /// Frames without a place, by entry.
    known: HashMap<UnitOffset, Option<Frame>>,
    files: HashMap<u64, Option<String>>,
}

impl<'a, 'o, 'd> Names<'a, 'o, 'd> {
    pub fn new(unit: UnitRef<'a, 'd>, origins: &'a mut Origins<'o, 'd>) -> Names<'a, 'o, 'd> {
        Names { unit, origins, known: HashMap::new(), files: HashMap::new() }
    }

    /// The frames of a chain, the innermost first, which is at a place; none if the function has no name.
    pub fn frames(&mut self, chain: &[Call], place: Place) -> Vec<Frame> {
        if chain.first().is_none_or(|function| self.frame(function.offset).is_none()) {
            return Vec::new();
        }
        let mut place = place;
        let mut frames = Vec::with_capacity(chain.len());
        for Call { offset, call, .. } in chain.iter().rev() {
            if let Some(frame) = self.frame(*offset) {
                let file = place.file.and_then(|file| self.file(file));
                frames.push(Frame { line: if file.is_some() { place.line } else { 0 }, file, ..frame });
            }
            place = *call;
        }
        frames
    }

    fn frame(&mut self, offset: UnitOffset) -> Option<Frame> {
        if let Some(frame) = self.known.get(&offset) {
            return frame.clone();
        }
        let name = self.origins.name(self.unit, offset).filter(|name| !name.is_empty());
        let frame = name.map(|name| demangle::frame(&name.to_string_lossy()));
        self.known.insert(offset, frame.clone());
        frame
    }

    fn file(&mut self, index: u64) -> Option<String> {
        match self.files.entry(index) {
            Entry::Occupied(known) => known.get().clone(),
            Entry::Vacant(empty) => empty.insert(Lines::file(self.unit, index)).clone(),
        }
    }
}
