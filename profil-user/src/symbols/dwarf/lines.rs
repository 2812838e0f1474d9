//! The source lines of a unit.

use gimli::{AttributeValue, LineProgramHeader};

use super::extent::indices_in;
use super::{Slice, UnitRef};

/// Longest path, bytes.
const PATH_LIMIT: usize = 4096;

/// A file by its number in the unit, and a line; 0 is no line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    pub file: Option<u64>,
    pub line: u32,
}

/// The places of addresses of a unit.
pub struct Lines(Vec<Place>);

impl Lines {
    /// Finds the place of each address, in one pass over the rows.
    pub fn of(unit: UnitRef<'_, '_>, svmas: &[u64]) -> Lines {
        let mut places = vec![Place::default(); svmas.len()];
        let _malformed = walk(unit, svmas, &mut places);
        Lines(places)
    }

    /// The place of an address, by its index.
    pub fn place(&self, index: usize) -> Place {
        self.0[index]
    }

    /// Path and line of an address, by its index.
    pub fn file_and_line(&self, unit: UnitRef<'_, '_>, index: usize) -> Option<(String, u32)> {
        let Place { file, line } = self.0[index];
        Some((Lines::file(unit, file?)?, line))
    }

    /// The path of a file by its number: relative ones are relative to where the compiler ran.
    pub fn file(unit: UnitRef<'_, '_>, index: u64) -> Option<String> {
        let header = unit.line_program.as_ref()?.header();
        let file = header.file(index)?;
        let mut path = unit.comp_dir.map(text).unwrap_or_default();
        // Directory 0 is where the compiler ran, up to DWARF 4 by definition.
        if file.directory_index() != 0 {
            push(&mut path, &string(unit, file.directory(header)?)?);
        }
        push(&mut path, &string(unit, file.path_name())?);
        Some(path)
    }
}

fn walk(unit: UnitRef<'_, '_>, svmas: &[u64], places: &mut [Place]) -> Result<(), gimli::Error> {
    let Some(program) = unit.line_program.clone() else { return Ok(()) };
    let first_file = first_file(program.header());
    let mut rows = program.rows();
    let mut before: Option<(u64, Place)> = None;
    // The rows of code that the linker threw away begin at address 0.
    let mut is_dead = false;
    while let Some((_, row)) = rows.next_row()? {
        let address = row.address();
        match before {
            None => is_dead = address == 0,
            Some((start, place)) if start < address && !is_dead => {
                for index in indices_in(svmas, &(start..address)) {
                    places[index] = place;
                }
            }
            Some(_) => {}
        }
        let line = row.line().map_or(0, |line| u32::try_from(line.get()).unwrap_or(0));
        let file = Some(row.file_index()).filter(|file| *file >= first_file);
        before = (!row.end_sequence()).then_some((address, Place { file, line }));
    }
    Ok(())
}

/// Files are numbered from 1 up to DWARF 4.
fn first_file(header: &LineProgramHeader<Slice<'_>>) -> u64 {
    u64::from(header.version() < 5)
}

fn string<'d>(unit: UnitRef<'_, 'd>, value: AttributeValue<Slice<'d>>) -> Option<String> {
    Some(text(unit.attr_string(value).ok()?))
}

fn text(bytes: Slice<'_>) -> String {
    let bytes = bytes.slice();
    String::from_utf8_lossy(&bytes[..bytes.len().min(PATH_LIMIT)]).into_owned()
}

/// Goes on to a path from the one before.
fn push(path: &mut String, next: &str) {
    if next.starts_with('/') || path.is_empty() {
        path.clear();
    } else if !path.ends_with('/') {
        path.push('/');
    }
    path.push_str(next);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absolute_paths_begin_anew() {
        let joined = |parts: &[&str]| {
            let mut path = String::new();
            parts.iter().for_each(|part| push(&mut path, part));
            path
        };
        assert_eq!(joined(&["/build", "src", "a.c"]), "/build/src/a.c");
        assert_eq!(joined(&["/build/", "/usr/include", "a.h"]), "/usr/include/a.h");
        assert_eq!(joined(&["", "a.c"]), "a.c");
    }
}
