//! From a pc to an object, and from an object's address to a name.
//!
//! A target's files are opened while it lives ([`Symbols::open`]): by the end they may be deleted, replaced, or in a
//! mount namespace that is gone. At the end they are asked for names ([`Symbols::name`]), by a process of its own
//! ([`reader`]). The kernel ([`kernel`]), the vDSO ([`vdso`]) and code made at run time ([`perf_map`]) have sources of
//! their own, which are read here: the first two are the kernel's, and the maps of compilers are lines of text.

pub mod debug_files;
pub mod debuginfod;
pub mod demangle;
pub mod dwarf;
pub mod elf_headers;
pub mod file_handle;
pub mod file_map;
pub mod kernel;
pub mod late;
pub mod object_file;
pub mod perf_map;
pub mod reader;
pub mod source_spans;
pub mod symbol_table;
pub mod symbolizer;
pub mod target_files;
pub mod vdso;

#[cfg(test)]
pub(crate) mod fixtures;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::time::Duration;

use debug_files::DebugFiles;
use file_handle::{FileState, Parked};
use object_file::{ObjectFile, Origin};
use reader::{Reader, Sources};
use symbol_table::Symbol;
use symbolizer::{NamedCode, Names, Unnamed};
use target_files::{FoundBy, Identity, MappedFile, OpenedFile};

use crate::build_id::BuildId;

/// Most objects whose files are kept open; the others are opened again when they are named.
///
/// A quarter of the usual limit of 1,024 descriptors: perf events, maps and sockets need some too.
const OPEN_LIMIT: usize = 256;

/// Most files that are kept open because no path leads to them: they were deleted, or are a container's.
const HELD_LIMIT: usize = 384;

/// Names an object in [`Symbols`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectId(usize);

/// A file that targets have mapped, usable or not.
#[derive(Debug)]
pub struct Object {
    /// Path as the target sees it; bytes that are not UTF-8 are replaced.
    pub display_path: String,
    /// Build ID of what ran: as the kernel gave it, or else as the file has it.
    pub build_id: Option<BuildId>,
    /// The file, or why its addresses and names cannot be used.
    pub file: Result<ObjectFile, Unnamed>,
    path: PathBuf,
    /// A debug file found in the target's own root, which may be gone by the end.
    debug_in_target: Option<ObjectFile>,
}

impl Object {
    /// Whether the file that was found is another build than the one that ran.
    pub fn is_stale(&self) -> bool {
        matches!(self.file, Err(Unnamed::Stale))
    }

    /// Size of the file, bytes; 0 when it cannot be used.
    pub fn size_bytes(&self) -> u64 {
        self.file.as_ref().map_or(0, |file| file.handle.size_bytes())
    }

    /// The SVMA of a byte of the file; `None` when the file cannot be used or no segment loads the byte.
    pub fn svma_of(&self, file_offset: u64) -> Option<u64> {
        self.file.as_ref().ok()?.svma_of(file_offset)
    }
}

/// The objects of a run, and where their names come from.
#[derive(Debug)]
pub struct Symbols {
    debug_files: DebugFiles,
    reader: Reader,
    /// Where paths of processes that are gone are looked up.
    other_root: PathBuf,
    objects: Vec<Object>,
    by_file: HashMap<Key, ObjectId>,
    /// Objects before this one are parked, or cannot be.
    next_to_park: usize,
    /// Those of them whose files are still open, the oldest first.
    held: VecDeque<ObjectId>,
}

/// What makes two mappings mappings of one object.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Key {
    path: PathBuf,
    expected: Option<BuildId>,
    found: Result<FileState, Unnamed>,
}

/// What the symbol tables of an object say about addresses.
#[derive(Debug)]
pub struct Functions {
    /// For each address asked for, the function around it.
    pub functions: Vec<Option<NamedCode>>,
    /// Bytes of debug information that would say more; 0 if there is none.
    pub debug_info_bytes: u64,
}

impl Symbols {
    /// No objects yet; paths of processes that are gone are looked up below `other_root`, usually `/`.
    pub fn new(debug_files: DebugFiles, other_root: PathBuf) -> Symbols {
        Symbols {
            debug_files,
            reader: Reader::new(),
            other_root,
            objects: Vec::new(),
            by_file: HashMap::new(),
            next_to_park: 0,
            held: VecDeque::new(),
        }
    }

    /// Opens the file behind a mapping, or finds that it is one of those opened before.
    ///
    /// The path must be absolute, as the kernel gives it. Never fails: an object whose file cannot be used says why when names are asked for. Call it as soon as the
    /// mapping is known, while the process lives.
    pub fn open(&mut self, mapped: &MappedFile) -> ObjectId {
        let own_root = mapped.pid.filter(|pid| !target_files::shares_our_root(*pid));
        let origin = |found_by| {
            let ours = match found_by {
                FoundBy::Path => self.other_root == Path::new("/"),
                FoundBy::Mapping | FoundBy::TargetRoot => own_root.is_none(),
            };
            if ours { Origin::Host } else { Origin::Target }
        };
        let take = |opened: OpenedFile| {
            let origin = origin(opened.found_by);
            usable(opened, origin, mapped)
        };
        let opened = target_files::open(mapped, &self.other_root).map_err(|_| Unnamed::FileGone);
        let file = opened.and_then(take).or_else(|why| match why {
            // Another library may have been mapped there since; the path still leads to this one.
            Unnamed::Stale => target_files::open_by_path(mapped, &self.other_root).map_err(|_| why).and_then(take),
            why => Err(why),
        });
        let key = Key {
            path: mapped.path.clone(),
            expected: mapped.identity.build_id.clone(),
            found: file.as_ref().map(|object| object.handle.state()).map_err(|why| *why),
        };
        if let Some(id) = self.by_file.get(&key) {
            return *id;
        }
        let debug_in_target = own_root.and_then(|pid| {
            let root = format!("/proc/{pid}/root");
            self.debug_files.find_in_target(file.as_ref().ok()?, Path::new(&root), &mapped.path)
        });
        let from_file = || file.as_ref().ok().and_then(|object| object.build_id.clone());
        let id = ObjectId(self.objects.len());
        self.objects.push(Object {
            display_path: target_files::display(mapped.path.as_os_str()),
            build_id: mapped.identity.build_id.clone().or_else(from_file),
            file,
            path: mapped.path.clone(),
            debug_in_target,
        });
        self.by_file.insert(key, id);
        self.park_oldest();
        id
    }

    /// An object.
    pub fn object(&self, id: ObjectId) -> &Object {
        &self.objects[id.0]
    }

    /// Names addresses (SVMA) of an object.
    ///
    /// Ask for all addresses of an object at once: its debug information is read for each call anew.
    pub fn name(&mut self, id: ObjectId, svmas: &[u64]) -> Names {
        let object = &self.objects[id.0];
        match &object.file {
            Ok(_) if svmas.is_empty() => Names::none(0, Unnamed::NoSymbol),
            Ok(file) => {
                let found = debug_file(&mut self.debug_files, object, file);
                let debug = found.as_ref().or(object.debug_in_target.as_ref());
                let shared = self.debug_files.find_shared(debug.unwrap_or(file));
                self.reader.name(&Sources { object: file, debug, shared: shared.as_ref() }, svmas)
            }
            Err(why) => Names::none(svmas.len(), *why),
        }
    }

    /// The functions around addresses (SVMA) of an object: symbol tables say less than [`Symbols::name`] does, and are
    /// read sooner.
    ///
    /// # Errors
    /// Why the object cannot be named.
    pub fn functions(&mut self, id: ObjectId, svmas: &[u64]) -> Result<Functions, Unnamed> {
        let object = &self.objects[id.0];
        let file = object.file.as_ref().map_err(|why| *why)?;
        let found = debug_file(&mut self.debug_files, object, file);
        let debug = found.as_ref().or(object.debug_in_target.as_ref());
        let functions = self.reader.functions(&Sources { object: file, debug, shared: None }, svmas)?;
        Ok(Functions { functions, debug_info_bytes: debug.unwrap_or(file).debug_info_bytes() })
    }

    /// CPU time of the process that reads symbols, while there is one.
    pub fn reader_cpu_time(&self) -> Duration {
        self.reader.cpu_time()
    }

    /// Finds a function or data object by name, in the object or its debug file.
    ///
    /// # Errors
    /// Why the file cannot be used.
    pub fn find(&mut self, id: ObjectId, name: &str) -> Result<Option<Symbol>, Unnamed> {
        let object = &self.objects[id.0];
        let file = object.file.as_ref().map_err(|why| *why)?;
        if let Some(symbol) = self.reader.find(file, name)? {
            return Ok(Some(symbol));
        }
        let found = debug_file(&mut self.debug_files, object, file);
        match found.as_ref().or(object.debug_in_target.as_ref()) {
            Some(debug) => self.reader.find(debug, name),
            None => Ok(None),
        }
    }

    fn park_oldest(&mut self) {
        while self.objects.len() - self.next_to_park > OPEN_LIMIT {
            let object = &mut self.objects[self.next_to_park];
            if object.file.as_mut().is_ok_and(|file| file.handle.park() == Parked::No) {
                self.held.push_back(ObjectId(self.next_to_park));
            }
            self.next_to_park += 1;
        }
        // Their names are lost, their addresses are not: the headers stay.
        while self.held.len() > HELD_LIMIT {
            let Some(oldest) = self.held.pop_front() else { break };
            let object = &mut self.objects[oldest.0];
            if let Ok(file) = &mut object.file {
                file.handle.close();
            }
            object.debug_in_target = None;
        }
    }
}

/// The debug file of an object on the host, if it needs one and none came with the target.
fn debug_file(debug_files: &mut DebugFiles, object: &Object, file: &ObjectFile) -> Option<ObjectFile> {
    if file.has_debug_info() || object.debug_in_target.is_some() {
        return None;
    }
    debug_files.find(file, &object.path)
}

/// Reads the file, if it is the one that was mapped.
fn usable(opened: OpenedFile, origin: Origin, mapped: &MappedFile) -> Result<ObjectFile, Unnamed> {
    let OpenedFile { file, found_by } = opened;
    let Identity { build_id, inode } = &mapped.identity;
    let same_inode = inode.and_then(|inode| target_files::same_inode(&file, inode));
    let object = ObjectFile::new(file, &mapped.path, origin).map_err(|_| Unnamed::NotElf)?;
    let same = match build_id {
        Some(expected) => object.build_id.as_ref() == Some(expected),
        // What the mapping itself leads to needs no proof.
        None => found_by == FoundBy::Mapping || same_inode != Some(false),
    };
    if same { Ok(object) } else { Err(Unnamed::Stale) }
}
