//! An annotation for programs: JSON.

use std::io::{self, Write};
use std::path::Path;

use serde::Serialize;

use super::{Annotation, InstructionRow, SourceLine};

/// An annotation as JSON has it. Addresses are hexadecimal strings, shares are in percent of the function's ticks.
#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "the fields are those of `Annotation`, which documents them")]
pub struct JsonAnnotation<'a> {
    pub function: &'a str,
    pub system_name: &'a Option<String>,
    pub object: &'a str,
    pub build_id: Option<String>,
    /// File that the instructions come from; null without instructions.
    pub code: Option<&'a Path>,
    pub ticks: u64,
    pub kernel_ticks: u64,
    /// Share of the function in the profile, percent.
    pub percent: f64,
    /// Instructions in ascending address order within each part of the code, the hottest part first.
    pub rows: Vec<JsonRow<'a>>,
    /// Source lines with ticks, the hottest first.
    pub lines: Vec<JsonLine<'a>>,
}

/// An instruction. Null: not known, or none.
#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "the fields are those of `InstructionRow`, which documents them")]
pub struct JsonRow<'a> {
    pub address: String,
    /// Name in the symbol table of the part that the instruction is in.
    pub symbol: Option<&'a str>,
    pub ticks: u64,
    pub kernel_ticks: u64,
    pub percent: f64,
    pub instruction: Option<&'a str>,
    pub system_call: Option<String>,
    /// Functions that the instruction was inlined from, the innermost first.
    pub inlined: Vec<&'a str>,
    pub file: Option<&'a str>,
    pub line: Option<u32>,
    /// Text of the source line.
    pub source: Option<&'a str>,
}

/// A source line.
#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "the fields are those of `SourceLine`, which documents them")]
pub struct JsonLine<'a> {
    pub file: &'a str,
    pub line: u32,
    pub ticks: u64,
    pub kernel_ticks: u64,
    pub percent: f64,
    /// Text of the source line.
    pub source: Option<&'a str>,
}

impl<'a> JsonAnnotation<'a> {
    /// An annotation, rows of all parts one after another.
    pub fn new(annotation: &'a Annotation) -> JsonAnnotation<'a> {
        let row = |symbol: &'a str, row: &'a InstructionRow| JsonRow {
            address: format!("{:#x}", row.address),
            symbol: Some(symbol).filter(|symbol| !symbol.is_empty()),
            ticks: row.ticks.all,
            kernel_ticks: row.ticks.kernel,
            percent: row.percent,
            instruction: row.instruction.as_deref(),
            system_call: row.system_call.map(|address| format!("{address:#x}")),
            inlined: row.inlined().collect(),
            file: row.place.as_ref().map(|place| &*place.file),
            line: row.place.as_ref().map(|place| place.line),
            source: row.place.as_ref().and_then(|place| annotation.source(place)),
        };
        let line = |SourceLine { place, ticks, percent }: &'a SourceLine| JsonLine {
            file: &place.file,
            line: place.line,
            ticks: ticks.all,
            kernel_ticks: ticks.kernel,
            percent: *percent,
            source: annotation.source(place),
        };
        let parts = annotation.parts.iter();
        JsonAnnotation {
            function: &annotation.function,
            system_name: &annotation.system_name,
            object: &annotation.object,
            build_id: annotation.build_id.as_ref().map(ToString::to_string),
            code: annotation.code.as_deref().ok(),
            ticks: annotation.ticks.all,
            kernel_ticks: annotation.ticks.kernel,
            percent: annotation.ticks.percent_of(annotation.profile_ticks),
            rows: parts.flat_map(|part| part.rows.iter().map(move |found| row(&part.symbol, found))).collect(),
            lines: annotation.lines.iter().map(line).collect(),
        }
    }
}

/// Writes an annotation as JSON.
///
/// # Errors
/// Those of `to`.
pub fn write_json(annotation: &Annotation, to: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer(&mut *to, &JsonAnnotation::new(annotation))?;
    writeln!(to)
}
