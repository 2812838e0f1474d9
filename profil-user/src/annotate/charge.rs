//! Ticks charged to the instructions of a function.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use super::disassembly::{self, Architecture, Instruction};
use super::error::AnnotateError;
use super::finder::Code;
use super::source::Place;
use super::ticks::{Ticks, TicksAt};
use super::wanted::Chosen;
use super::{InstructionRow, Part, Remark, RowFrame};
use crate::profile::{Frame, Location, Profile};
use crate::symbols::demangle;
use crate::symbols::symbolizer::NamedCode;

/// The parts of a function, and what is odd about them.
pub(super) struct Charged {
    pub(super) parts: Vec<Part>,
    pub(super) remarks: Vec<Remark>,
}

/// The addresses of a function that have ticks, where there is no code to take apart.
pub(super) fn addresses(profile: &Profile, ticks: &TicksAt, chosen: &Chosen) -> Part {
    let mut rows: BTreeMap<u64, InstructionRow> = BTreeMap::new();
    let mut texts = Texts::default();
    for index in &chosen.locations {
        let location = &profile.locations[*index];
        let row = rows.entry(location.address).or_insert_with(|| InstructionRow {
            address: location.address,
            ticks: Ticks::default(),
            percent: 0.0,
            instruction: None,
            system_call: None,
            frames: texts.frames(&location.frames),
            place: None,
        });
        row.ticks += ticks.at(*index);
    }
    let rows: Vec<InstructionRow> = rows.into_values().collect();
    let end = |row: &InstructionRow| row.address.saturating_add(1);
    Part {
        symbol: String::new(),
        addresses: rows.first().map_or(0, |row| row.address)..rows.last().map_or(0, end),
        ticks: rows.iter().fold(Ticks::default(), |sum, row| sum + row.ticks),
        rows,
    }
}

/// The instructions of a function with their ticks.
///
/// # Errors
/// [`AnnotateError`]: no symbol, an unknown machine, code that cannot be read, or that is not what ran.
pub(super) fn instructions(
    profile: &Profile,
    ticks: &TicksAt,
    chosen: &Chosen,
    code: &Code,
) -> Result<Charged, AnnotateError> {
    let machine = code.file.headers.machine;
    let architecture =
        Architecture::of(machine).ok_or_else(|| AnnotateError::Machine { path: code.path.clone(), machine })?;
    let mut pieces: BTreeMap<u64, Piece> = BTreeMap::new();
    let mut without_symbol = 0u64;
    let svma_of = |location: &Location| {
        let mapping = location.mapping.map(|mapping| &profile.mappings[mapping]);
        mapping.and_then(|mapping| code.svma_of(mapping, location.address))
    };
    let svmas: Vec<u64> = chosen.locations.iter().filter_map(|index| svma_of(&profile.locations[*index])).collect();
    code.look_up(&svmas)?;
    for index in &chosen.locations {
        let location = &profile.locations[*index];
        let svma = svma_of(location);
        let function = svma.map(|svma| code.function_at(svma)).transpose()?.flatten();
        let (Some(svma), Some(function)) = (svma, function) else {
            without_symbol = without_symbol.saturating_add(ticks.at(*index).all);
            continue;
        };
        let piece = pieces.entry(function.svmas.start);
        let piece = piece.or_insert_with(|| Piece { function, ticks: BTreeMap::new(), frames: BTreeMap::new() });
        *piece.ticks.entry(svma).or_default() += ticks.at(*index);
        piece.frames.insert(svma, &location.frames);
    }
    if pieces.is_empty() {
        return Err(AnnotateError::NoSymbol { function: chosen.function.clone(), path: code.path.clone() });
    }
    let mut parts = Vec::new();
    let mut inside = 0u64;
    for piece in pieces.into_values() {
        let (part, more) = piece.charge(architecture, code)?;
        inside = inside.saturating_add(more);
        parts.push(part);
    }
    let mut remarks = Vec::new();
    if !code.proven {
        // Without a build ID this is the proof: a CPU stops between instructions only.
        if inside > 0 {
            return Err(AnnotateError::OtherCode { path: code.path.clone(), ticks: inside });
        }
        remarks.push(Remark::Unproven(code.path.clone()));
    }
    if inside > 0 {
        remarks.push(Remark::InsideInstructions(inside));
    }
    if without_symbol > 0 {
        remarks.push(Remark::WithoutSymbol(without_symbol));
    }
    Ok(Charged { parts, remarks })
}

/// A symbol's code and what fell on it.
struct Piece<'a> {
    function: NamedCode,
    /// Ticks by SVMA.
    ticks: BTreeMap<u64, Ticks>,
    /// What the profile knows of these addresses.
    frames: BTreeMap<u64, &'a [Frame]>,
}

impl Piece<'_> {
    /// The part, and the ticks that fell inside instructions.
    fn charge(self, architecture: Architecture, code: &Code) -> Result<(Part, u64), AnnotateError> {
        let Piece { function, ticks, frames } = self;
        let bytes = code.bytes_of(&function)?;
        let instructions = disassembly::disassemble(architecture, &bytes, function.svmas.start);
        let svmas: Vec<u64> = instructions.iter().map(|instruction| instruction.address).collect();
        let names = code.name(&svmas);
        let elsewhere = instructions.iter().filter_map(|instruction| instruction.refers_to);
        let elsewhere: Vec<u64> = elsewhere.filter(|to| !function.svmas.contains(to)).collect();
        code.look_up(&elsewhere)?;
        let mut texts = Texts::default();
        let mut rows: Vec<InstructionRow> = Vec::with_capacity(instructions.len());
        for (instruction, mut named) in instructions.iter().zip(names.frames) {
            if named.first().is_none_or(|frame| frame.file.is_none())
                && let Some(recorded) = frames.get(&instruction.address)
            {
                named = recorded.to_vec();
            }
            rows.push(InstructionRow {
                address: instruction.address,
                ticks: Ticks::default(),
                percent: 0.0,
                instruction: Some(shown(instruction, &function.svmas, code)?),
                system_call: None,
                frames: texts.frames(&named),
                place: None,
            });
        }
        let mut inside = 0u64;
        for (svma, ticks) in &ticks {
            // The function's own address is among them, and each tick lies in the function.
            let Some(index) = rows.partition_point(|row| row.address <= *svma).checked_sub(1) else { continue };
            rows[index].ticks += *ticks;
            if rows[index].address != *svma {
                inside = inside.saturating_add(ticks.all);
            }
        }
        for index in 1..rows.len() {
            if rows[index].ticks.kernel > 0 && instructions[index - 1].is_system_call {
                rows[index].system_call = Some(rows[index - 1].address);
            }
        }
        let part = Part {
            symbol: function.name,
            addresses: function.svmas,
            ticks: ticks.values().fold(Ticks::default(), |sum, ticks| sum + *ticks),
            rows,
        };
        Ok((part, inside))
    }
}

/// Texts that are kept once however often they occur: a function of a megabyte has a hundred thousand rows.
#[derive(Default)]
struct Texts(HashSet<Arc<str>>);

impl Texts {
    fn share(&mut self, text: &str) -> Arc<str> {
        if let Some(shared) = self.0.get(text) {
            return Arc::clone(shared);
        }
        let shared: Arc<str> = text.into();
        self.0.insert(Arc::clone(&shared));
        shared
    }

    fn frames(&mut self, frames: &[Frame]) -> Vec<RowFrame> {
        let one = |Frame { function, file, line, .. }: &Frame| {
            let file = file.as_deref().filter(|_| *line > 0).map(|file| self.share(file));
            RowFrame { function: self.share(function), place: file.map(|file| Place { file, line: *line }) }
        };
        frames.iter().map(one).collect()
    }
}

/// The instruction, with the function that it refers to, or its distance from the start of its own.
fn shown(instruction: &Instruction, own: &Range<u64>, code: &Code) -> Result<String, AnnotateError> {
    let text = &instruction.text;
    let Some(to) = instruction.refers_to else { return Ok(text.clone()) };
    let distance = |start: u64| if to == start { String::new() } else { format!("+{:#x}", to - start) };
    let target = if own.contains(&to) {
        (to != own.start).then(|| format!("<+{:#x}>", to - own.start))
    } else {
        code.function_at(to)?.map(|function| {
            let frame = demangle::frame(&function.name);
            format!("<{}{}>", frame.function, distance(function.svmas.start))
        })
    };
    let address = if text.contains(&format!("{to:#x}")) { String::new() } else { format!(" # {to:#x}") };
    Ok(format!("{text}{address}{}", target.map_or_else(String::new, |target| format!(" {target}"))))
}
