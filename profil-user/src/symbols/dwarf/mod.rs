//! What the debug information of a file says about addresses: functions, those inlined into them, and source lines.
//!
//! Debug information can be larger than memory, and is read for a list of addresses that is known beforehand. So one
//! pass over its units looks which of them have code at one of the addresses; those are read from end to end and
//! forgotten, and nothing is kept but the answers. Libraries for a lookup at a time keep what every unit holds (its
//! abbreviations, lines and functions): that was 636 MB for 400 MB of debug information.
//!
//! Nothing here recurses, so nesting costs no stack. What is hostile can still make it loop for hours or ask for all the
//! memory there is: it runs in a process with limits (see [`super::reader`]).

mod extent;
mod functions;
mod lines;
mod origins;
mod sections;

use gimli::{EndianSlice, RunTimeEndian, UnitType};

use crate::profile::Frame;
use extent::{Extent, Wanted};
use origins::Origins;
pub use sections::Sections;

/// Bytes of a section.
pub(in crate::symbols) type Slice<'d> = EndianSlice<'d, RunTimeEndian>;
/// The sections of a file.
pub(in crate::symbols) type Dwarf<'d> = gimli::Dwarf<Slice<'d>>;
/// A unit, with the sections that it is in.
type UnitRef<'a, 'd> = gimli::UnitRef<'a, Slice<'d>>;

/// Most functions inlined into one another that are told of.
pub const DEPTH_LIMIT: usize = 256;

/// Bytes of debug information after which the memory of what was read is given back.
const RELEASE_BYTES: usize = 32 << 20;

/// What is known of an address.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// Its functions, the innermost first; empty where there is none.
    pub frames: Vec<Frame>,
    /// Source file and line of the address itself.
    pub place: Option<(String, u32)>,
}

/// Looks addresses (SVMA) up; one answer for each. What is malformed costs the answers that it would have had.
pub fn lookup(sections: &Sections<'_>, svmas: &[u64]) -> Vec<Answer> {
    let dwarf = sections.dwarf();
    let mut wanted = Wanted::new(svmas);
    let mut origins = Origins::new(&dwarf);
    let mut units = dwarf.units();
    let mut read = 0;
    // A unit whose length is wrong is the last.
    while let Ok(Some(header)) = units.next() {
        if wanted.is_done() {
            break;
        }
        let bytes = header.length_including_self();
        // Types have no code, and partial units are only referred to.
        if matches!(header.type_(), UnitType::Type { .. } | UnitType::SplitType { .. } | UnitType::Partial) {
            continue;
        }
        if let Ok(unit) = dwarf.unit(header) {
            // An error in a unit leaves what was found before it.
            let _malformed = answer_from(unit.unit_ref(&dwarf), &mut wanted, &mut origins);
        }
        read += bytes;
        if read >= RELEASE_BYTES {
            read = 0;
            sections.release();
        }
    }
    wanted.answers(svmas)
}

/// Answers what a unit knows of the addresses.
fn answer_from<'d>(
    unit: UnitRef<'_, 'd>,
    wanted: &mut Wanted,
    origins: &mut Origins<'_, 'd>,
) -> Result<(), gimli::Error> {
    let asked = wanted.open_in(&Extent::of_unit(unit)?, unit)?;
    if asked.is_empty() {
        return Ok(());
    }
    let chains = functions::chains(unit, &asked);
    let lines = lines::Lines::of(unit, &asked);
    let mut names = functions::Names::new(unit, origins);
    for (index, svma) in asked.iter().enumerate() {
        let frames = names.frames(&chains[index], lines.place(index));
        wanted.answer(*svma, frames, || lines.file_and_line(unit, index));
    }
    Ok(())
}
