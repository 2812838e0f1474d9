//! Names of the addresses of one object.
//!
//! Debug information (read by blazesym) gives functions, the functions inlined into them, and source lines. Where it
//! has nothing to say, the symbol tables do.
//!
//! What is hostile in a file is kept away from blazesym by copying (see [`super::snapshot`]); a panic in it costs the
//! lines and inlined functions of one object. Debug information built to make it loop or recurse without end is not
//! fended off: to name the code of targets that nobody trusts, run this in a child with limits of its own.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use blazesym::symbolize::source::{Elf, Source};
use blazesym::symbolize::{CodeInfo, Input, Sym};

use super::debug_files::SYSTEM_DEBUG_DIR;
use super::demangle;
use super::object_file::ObjectFile;
use super::snapshot::{self, Links, Snapshot};
use super::symbol_table::SymbolTable;
use crate::profile::Frame;

/// Most bytes of debug information that are copied; more is used in place when only root or we can have written it.
const COPY_LIMIT: u64 = 128 << 20;
/// Most bytes of debug information that are copied where it cannot be used in place.
const HOSTILE_COPY_LIMIT: u64 = 1 << 30;

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

/// Names addresses (SVMA) of an object, with the help of its debug file where there is one.
pub fn name(object: &ObjectFile, debug: Option<&ObjectFile>, svmas: &[u64]) -> Names {
    if object.handle.file().is_err() {
        return Names::none(svmas.len(), Unnamed::FileGone);
    }
    let tables = Tables::read(object, debug);
    let dwarf = debug.into_iter().chain([object]).find(|file| file.has_debug_info());
    let mut frames = match dwarf {
        Some(file) => names_from_dwarf(file, svmas).unwrap_or_default(),
        None => Vec::new(),
    };
    frames.resize(svmas.len(), Vec::new());
    for (frames, svma) in frames.iter_mut().zip(svmas) {
        match (frames.last_mut(), tables.frame(*svma)) {
            (None, symbol) => frames.extend(symbol),
            // Line tables alone (`-gline-tables-only`, `debug = "line-tables-only"`) have bare names, `new` for every
            // constructor: the mangled name in the symbol table says which.
            (Some(function), Some(Frame { function: full, system_name: Some(mangled), .. }))
                if function.system_name.is_none() =>
            {
                function.function = full;
                function.system_name = Some(mangled);
            }
            (Some(_), _) => {}
        }
    }
    Names { unnamed: frames.iter().any(Vec::is_empty).then_some(tables.why()), frames }
}

/// The symbol tables that name an object's code, its debug file's first: for who cannot wait for debug information.
#[derive(Debug)]
pub struct Tables {
    tables: Vec<SymbolTable>,
    debug_bytes: u64,
}

impl Tables {
    /// Reads those of an object and of its debug file, if it has one. What cannot be read names nothing.
    pub fn read(object: &ObjectFile, debug: Option<&ObjectFile>) -> Tables {
        let files = || debug.into_iter().chain([object]);
        let dwarf = files().find(|file| file.has_debug_info());
        Tables {
            tables: files().filter_map(|file| file.symbol_table().ok()).collect(),
            debug_bytes: dwarf.map_or(0, |file| snapshot::size_bytes(&file.headers)),
        }
    }

    /// Names addresses (SVMA): without inlined functions and lines.
    pub fn name(&self, svmas: &[u64]) -> Names {
        // Addresses in order come in one function after the other: each is demangled once.
        let mut last: Option<(&[u8], Frame)> = None;
        let mut frames: Vec<Vec<Frame>> = Vec::with_capacity(svmas.len());
        for svma in svmas {
            let symbol = self.symbol(*svma);
            if let Some(symbol) = symbol.filter(|symbol| last.as_ref().is_none_or(|(last, _)| last != symbol)) {
                last = Some((symbol, demangle::frame(&String::from_utf8_lossy(symbol))));
            }
            let frame = last.as_ref().filter(|_| symbol.is_some()).map(|(_, frame)| frame.clone());
            frames.push(frame.into_iter().collect());
        }
        Names { unnamed: frames.iter().any(Vec::is_empty).then_some(self.why()), frames }
    }

    /// Bytes of debug information that would say more; 0 if there is none.
    pub fn debug_bytes(&self) -> u64 {
        self.debug_bytes
    }

    /// Bytes of memory that the tables take.
    pub fn size_bytes(&self) -> usize {
        self.tables.iter().map(SymbolTable::size_bytes).sum()
    }

    fn frame(&self, svma: u64) -> Option<Frame> {
        self.symbol(svma).map(|symbol| demangle::frame(&String::from_utf8_lossy(symbol)))
    }

    fn symbol(&self, svma: u64) -> Option<&[u8]> {
        self.tables.iter().find_map(|table| table.name_of(svma))
    }

    /// Why code that has no name here has none.
    fn why(&self) -> Unnamed {
        let full = self.debug_bytes > 0 || self.tables.iter().any(|table| table.is_full);
        if full { Unnamed::NoSymbol } else { Unnamed::Stripped }
    }
}

/// What the debug information of a file says about addresses; `None` when it cannot be used.
fn names_from_dwarf(file: &ObjectFile, svmas: &[u64]) -> Option<Vec<Vec<Frame>>> {
    let size = snapshot::size_bytes(&file.headers);
    let ours = file.is_ours();
    let open = file.handle.file().ok()?;
    // Kept to the end: the path leads to it only while it lives.
    let copy;
    let path = if ours && size > COPY_LIMIT && file.headers.section(".gnu_debuglink").is_none() {
        use std::os::fd::AsRawFd;
        PathBuf::from(format!("/proc/self/fd/{}", open.as_raw_fd()))
    } else if size <= HOSTILE_COPY_LIMIT {
        let links = if ours { Links::Follow } else { Links::Drop };
        copy = Snapshot::take(&file.headers, &open, links).ok()?;
        copy.path()
    } else {
        return None;
    };
    catch_unwind(AssertUnwindSafe(|| ask_blazesym(&path, svmas))).ok()?
}

fn ask_blazesym(path: &Path, svmas: &[u64]) -> Option<Vec<Vec<Frame>>> {
    // One symbolizer per object: what it cached is freed with it, so the largest object sets the memory that is
    // needed, not the sum of all.
    let symbolizer = blazesym::symbolize::Symbolizer::builder()
        .enable_auto_reload(false)
        .enable_demangling(false)
        .set_debug_dirs(Some([SYSTEM_DEBUG_DIR]))
        .build();
    let source = Source::Elf(Elf::new(path));
    let answers = symbolizer.symbolize(&source, Input::VirtOffset(svmas)).ok()?;
    Some(answers.iter().map(|answer| answer.as_sym().map(frames_of).unwrap_or_default()).collect())
}

/// The frames of a symbol: it comes with the functions inlined into it outermost first.
fn frames_of(symbol: &Sym<'_>) -> Vec<Frame> {
    // Without a size and a line it is blazesym's guess from a symbol table, that a function goes on to the next: ours is
    // better. With a line it is a function in several pieces, as those with a `.cold` part: blazesym gives no size then.
    if symbol.name.is_empty() || symbol.size.is_none() && symbol.code_info.is_none() {
        return Vec::new();
    }
    let inlined = symbol.inlined.iter().rev().map(|inlined| (&inlined.name, inlined.code_info.as_ref()));
    inlined.chain([(&symbol.name, symbol.code_info.as_deref())]).map(|(name, place)| frame_at(name, place)).collect()
}

fn frame_at(name: &str, place: Option<&CodeInfo<'_>>) -> Frame {
    let mut frame = demangle::frame(name);
    if let Some(place) = place {
        frame.file = Some(place.to_path().to_string_lossy().into_owned());
        frame.line = place.line.unwrap_or(0);
    }
    frame
}
