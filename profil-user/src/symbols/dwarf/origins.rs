//! The names of functions, which are often those of another entry: of a declaration, or of what was inlined.

use std::collections::HashMap;
use std::rc::Rc;

use gimli::{AttributeValue, DebugInfoOffset, UnitOffset};

use super::{Dwarf, Slice, UnitRef};

/// Most entries that are followed from a function to its name.
const STEPS: usize = 16;
/// Most units that are kept for the next reference into them.
const KEPT_UNITS: usize = 32;

type Unit<'d> = gimli::Unit<Slice<'d>>;

/// The units that others refer to: link-time optimisation and dwz(1) make such references.
pub struct Origins<'o, 'd> {
    main: Referred<'o, 'd>,
    /// The file that dwz(1) moved shared entries to.
    supplementary: Option<Referred<'o, 'd>>,
}

/// Where an entry refers to.
enum Target {
    SameUnit(UnitOffset),
    OtherUnit(DebugInfoOffset),
    Supplementary(DebugInfoOffset),
}

impl<'o, 'd> Origins<'o, 'd> {
    pub fn new(dwarf: &'o Dwarf<'d>) -> Origins<'o, 'd> {
        Origins { main: Referred::new(dwarf), supplementary: dwarf.sup().map(Referred::new) }
    }

    /// The name of an entry: the one that linkers use where there is one, or else the one in the source.
    pub fn name(&mut self, unit: UnitRef<'_, 'd>, offset: UnitOffset) -> Option<Slice<'d>> {
        let (mut name, mut target) = read(unit, offset)?;
        let mut here: Option<(Rc<Unit<'d>>, &'o Dwarf<'d>)> = None;
        for _ in 0..STEPS {
            let found = match (name, target) {
                (Named::Linked(name), _) => return Some(name),
                (Named::Plain(_) | Named::Not, Some(target)) => match (target, &here) {
                    (Target::SameUnit(offset), None) => read(unit, offset),
                    (Target::SameUnit(offset), Some((other, dwarf))) => read(other.unit_ref(dwarf), offset),
                    (Target::OtherUnit(offset), _) => {
                        let from_supplementary =
                            here.as_ref().is_some_and(|(_, dwarf)| !std::ptr::eq(*dwarf, self.main.dwarf));
                        let referred =
                            if from_supplementary { self.supplementary.as_mut() } else { Some(&mut self.main) };
                        referred.and_then(|referred| referred.step(offset, &mut here))
                    }
                    (Target::Supplementary(offset), _) => {
                        self.supplementary.as_mut().and_then(|referred| referred.step(offset, &mut here))
                    }
                },
                (Named::Plain(_) | Named::Not, None) => None,
            };
            let Some((next, next_target)) = found else { break };
            name = match (name, next) {
                (Named::Plain(name), Named::Plain(_) | Named::Not) => Named::Plain(name),
                (_, next) => next,
            };
            target = next_target;
        }
        match name {
            Named::Linked(name) | Named::Plain(name) => Some(name),
            Named::Not => None,
        }
    }
}

/// The name that an entry has itself.
#[derive(Clone, Copy)]
enum Named<'d> {
    Linked(Slice<'d>),
    Plain(Slice<'d>),
    Not,
}

/// Reads an entry: its name, and where it goes on.
fn read<'d>(unit: UnitRef<'_, 'd>, offset: UnitOffset) -> Option<(Named<'d>, Option<Target>)> {
    let mut entries = unit.entries_raw(Some(offset)).ok()?;
    let abbreviation = entries.read_abbreviation().ok()??;
    let (mut name, mut target) = (Named::Not, None);
    for attribute in abbreviation.attributes() {
        let attribute = entries.read_attribute(*attribute).ok()?;
        let text = || unit.attr_string(attribute.value()).ok();
        match attribute.name() {
            gimli::DW_AT_linkage_name | gimli::DW_AT_MIPS_linkage_name => {
                name = text().map_or(name, Named::Linked);
            }
            gimli::DW_AT_name if matches!(name, Named::Not) => name = text().map_or(name, Named::Plain),
            gimli::DW_AT_abstract_origin | gimli::DW_AT_specification => {
                target = match attribute.value() {
                    AttributeValue::UnitRef(offset) => Some(Target::SameUnit(offset)),
                    AttributeValue::DebugInfoRef(offset) => Some(Target::OtherUnit(offset)),
                    AttributeValue::DebugInfoRefSup(offset) => Some(Target::Supplementary(offset)),
                    _ => None,
                };
            }
            _ => {}
        }
    }
    Some((name, target))
}

/// The units of a file, found by the offsets of entries in them.
struct Referred<'o, 'd> {
    dwarf: &'o Dwarf<'d>,
    /// Where each unit begins, in ascending order; read when it is first needed.
    starts: Option<Vec<usize>>,
    kept: HashMap<usize, Option<Rc<Unit<'d>>>>,
}

impl<'o, 'd> Referred<'o, 'd> {
    fn new(dwarf: &'o Dwarf<'d>) -> Referred<'o, 'd> {
        Referred { dwarf, starts: None, kept: HashMap::new() }
    }

    /// Reads an entry, and notes the unit that it is in.
    fn step(
        &mut self,
        offset: DebugInfoOffset,
        here: &mut Option<(Rc<Unit<'d>>, &'o Dwarf<'d>)>,
    ) -> Option<(Named<'d>, Option<Target>)> {
        let unit = self.unit_of(offset)?;
        let found = read(unit.unit_ref(self.dwarf), offset.to_unit_offset(&unit.header)?);
        *here = Some((unit, self.dwarf));
        found
    }

    fn unit_of(&mut self, offset: DebugInfoOffset) -> Option<Rc<Unit<'d>>> {
        let dwarf = self.dwarf;
        let starts = self.starts.get_or_insert_with(|| {
            let (mut units, mut starts) = (dwarf.units(), Vec::new());
            while let Ok(Some(header)) = units.next() {
                starts.extend(header.debug_info_offset().map(|offset| offset.0));
            }
            starts
        });
        let start = starts[..starts.partition_point(|start| *start <= offset.0)].last().copied()?;
        if self.kept.len() >= KEPT_UNITS && !self.kept.contains_key(&start) {
            self.kept.clear();
        }
        let read = || dwarf.unit(dwarf.unit_header(DebugInfoOffset(start)).ok()?).ok().map(Rc::new);
        self.kept.entry(start).or_insert_with(read).clone()
    }
}
