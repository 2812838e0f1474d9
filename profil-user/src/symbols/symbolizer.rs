//! Names of the addresses of one object.
//!
//! Debug information gives functions, the functions inlined into them, and source lines. Where it has nothing to say, the
//! symbol tables do.
//!
//! Only the process that reads symbols calls this (see [`super::reader`]): debug information can be built to make its
//! reader loop without end, to ask for all the memory there is, or to be cut short while it is read.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::demangle;
use super::dwarf::{self, Answer, Sections};
use super::elf_headers::{ElfError, ElfHeaders};
use super::file_map::FileMap;
use super::source_spans::{self, Span};
use super::symbol_table::{Function, Symbol, SymbolTable};
use crate::profile::Frame;

/// Why code has no name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unnamed {
    /// The file could not be opened: deleted, or in a place that is gone.
    FileGone,
    /// It is no ELF file, or a malformed one.
    NotElf,
    /// The file at the path is another build than the one that ran.
    Stale,
    /// The file has no symbols, and no debug file was found; a debug package, `--debug-dir` or DEBUGINFOD_URLS helps.
    Stripped,
    /// There are symbols, but none covers the address.
    NoSymbol,
    /// The process that read the file ended over it.
    ReaderEnded,
    /// The process that read the file took longer than the file is worth, and was killed.
    ReaderStalled,
    /// The process that reads files could not be started.
    NoReader,
}

/// Names of some addresses of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// For each address asked for, its functions, the innermost first; empty where there is no name.
    pub frames: Vec<Vec<Frame>>,
    /// Why those without a name have none; `None` when all have one.
    pub unnamed: Option<Unnamed>,
}

impl Names {
    /// No name for any of a number of addresses.
    pub fn none(count: usize, why: Unnamed) -> Names {
        Names { frames: vec![Vec::new(); count], unnamed: (count > 0).then_some(why) }
    }
}

/// A function as the symbol tables have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedCode {
    /// Its name, not demangled; bytes that are not UTF-8 are replaced.
    pub name: String,
    /// Its addresses (SVMA).
    pub svmas: Range<u64>,
}

/// An ELF file in memory, with its headers.
#[derive(Debug)]
pub struct MappedElf {
    headers: ElfHeaders,
    map: FileMap,
}

impl MappedElf {
    /// Reads the headers.
    ///
    /// # Errors
    /// [`ElfError`] when it is not ELF.
    pub fn new(map: FileMap) -> Result<MappedElf, ElfError> {
        Ok(MappedElf { headers: ElfHeaders::read(&map)?, map })
    }

    fn symbol_table(&self) -> Option<SymbolTable<'_>> {
        let table = SymbolTable::read(&self.headers, &self.map).ok();
        // Each name has been looked at, and few of them are looked at again.
        self.map.release();
        table
    }

    fn has_debug_info(&self) -> bool {
        self.headers.section(".debug_info").is_some_and(|section| section.has_bytes() && section.size > 0)
    }
}

/// The files that name the code of an object.
#[derive(Debug)]
pub struct Files {
    /// The one that ran.
    pub object: MappedElf,
    /// Its separate debug information.
    pub debug: Option<MappedElf>,
    /// What dwz(1) moved out of the debug information of several objects.
    pub shared: Option<MappedElf>,
}

impl Files {
    /// Names addresses (SVMA).
    pub fn name(&self, svmas: &[u64]) -> Names {
        let files = || self.debug.iter().chain([&self.object]);
        let dwarf = files().find(|file| file.has_debug_info());
        let lookup = |file| {
            // A panic costs the lines and inlined functions of one object; its symbols still have names.
            catch_unwind(AssertUnwindSafe(|| dwarf::lookup(&self.sections(file), svmas))).unwrap_or_default()
        };
        let mut answers = dwarf.map(lookup).unwrap_or_default();
        answers.resize(svmas.len(), Answer::default());
        let tables: Vec<SymbolTable<'_>> = files().filter_map(MappedElf::symbol_table).collect();
        let frames: Vec<Vec<Frame>> = answers
            .into_iter()
            .zip(svmas)
            .map(|(answer, svma)| {
                let symbol = tables.iter().find_map(|table| table.name_of(*svma));
                with_symbol(answer, symbol.map(|symbol| demangle::frame(&String::from_utf8_lossy(symbol))))
            })
            .collect();
        let full = dwarf.is_some() || tables.iter().any(|table| table.is_full);
        let why = if full { Unnamed::NoSymbol } else { Unnamed::Stripped };
        Names { unnamed: frames.iter().any(Vec::is_empty).then_some(why), frames }
    }

    /// Finds a function or data object by name in the symbol tables of the object.
    pub fn symbol(&self, name: &str) -> Option<Symbol> {
        self.object.symbol_table()?.find(name)
    }

    /// The functions around addresses (SVMA), as the symbol tables have them.
    pub fn functions(&self, svmas: &[u64]) -> Vec<Option<NamedCode>> {
        let tables: Vec<SymbolTable<'_>> =
            self.debug.iter().chain([&self.object]).filter_map(MappedElf::symbol_table).collect();
        let function = |svma: &u64| {
            let Function { name, svmas } = tables.iter().find_map(|table| table.function_at(*svma))?;
            Some(NamedCode { name: String::from_utf8_lossy(name).into_owned(), svmas })
        };
        svmas.iter().map(function).collect()
    }

    /// Where the functions around addresses (SVMA) are in the source.
    pub fn spans(&self, svmas: &[u64]) -> Vec<Span> {
        let read = || source_spans::read(&self.sections(&self.object), svmas);
        catch_unwind(AssertUnwindSafe(read)).unwrap_or_default()
    }

    fn sections<'m>(&'m self, file: &'m MappedElf) -> Sections<'m> {
        let shared = self.shared.as_ref().map(|shared| Sections::new(&shared.headers, &shared.map, None));
        Sections::new(&file.headers, &file.map, shared)
    }
}

/// The frames of an address, when its symbol is known too.
fn with_symbol(answer: Answer, symbol: Option<Frame>) -> Vec<Frame> {
    let Answer { mut frames, place } = answer;
    match (frames.last_mut(), symbol) {
        // Assembly has lines and no functions.
        (None, Some(symbol)) => {
            let (file, line) = place.map_or((None, 0), |(file, line)| (Some(file), line));
            frames.push(Frame { file, line, ..symbol });
        }
        // Line tables alone (`-gline-tables-only`, `debug = "line-tables-only"`) have bare names, `new` for every
        // constructor: the mangled name in the symbol table says which.
        (Some(function), Some(Frame { function: full, system_name: Some(mangled), .. }))
            if function.system_name.is_none() =>
        {
            function.function = full;
            function.system_name = Some(mangled);
        }
        (Some(_) | None, _) => {}
    }
    frames
}
