//! The objects whose code ran: files, opened while their processes live, and what no file stands behind.
//!
//! Names come from what was captured then: a target that is gone, or a binary that was replaced, still has names.

use std::collections::HashMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use crate::build_id::BuildId;
use crate::maps::Backing;
use crate::symbols::target_files::{Identity, Inode, MappedFile};
use crate::symbols::{self, Symbols};

/// Number of an object within [`Objects`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectId(usize);

/// What identifies a mapped file in what the kernel reports: two builds at one path are two objects.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ObjectKey {
    path: Vec<u8>,
    build_id: Option<BuildId>,
    inode: Option<Inode>,
}

/// A file, or what stands in for one, that executable mappings show.
#[derive(Clone, Debug)]
pub struct Object {
    /// Path as the target sees it, or the kernel's name for what is no file.
    pub path: PathBuf,
    /// What stands behind the path.
    pub backing: Backing,
    /// The opened file, where the backing is one.
    pub file: Option<symbols::ObjectId>,
}

/// A mapping of an object, as it was reported.
pub struct Sighting<'s> {
    /// Process, in our PID namespace.
    pub pid: u32,
    /// First address (AVMA).
    pub start: u64,
    /// First address past the end (AVMA).
    pub end: u64,
    /// Path or name.
    pub path: &'s [u8],
    /// Build ID, where known.
    pub build_id: Option<&'s BuildId>,
    /// Device and inode, where known.
    pub inode: Option<Inode>,
}

/// All objects of a session.
#[derive(Debug)]
pub struct Objects {
    ids: HashMap<ObjectKey, ObjectId>,
    objects: Vec<Object>,
    symbols: Symbols,
}

impl Objects {
    /// No objects yet; their files and names go through `symbols`.
    pub fn new(symbols: Symbols) -> Objects {
        Objects { ids: HashMap::new(), objects: Vec::new(), symbols }
    }

    /// The object of a mapping; a file that is seen for the first time is opened at once.
    pub fn intern(&mut self, sighting: &Sighting<'_>) -> ObjectId {
        let Sighting { pid, start, end, path, build_id, inode } = sighting;
        let key = ObjectKey { path: path.to_vec(), build_id: build_id.cloned(), inode: *inode };
        if let Some(id) = self.ids.get(&key) {
            return *id;
        }
        let path = PathBuf::from(OsString::from_vec(path.to_vec()));
        let backing = Backing::of(path.as_os_str());
        let file = (backing == Backing::File).then(|| {
            let identity = Identity { build_id: build_id.cloned(), inode: *inode };
            self.symbols.open(&MappedFile { pid: Some(*pid), start: *start, end: *end, path: path.clone(), identity })
        });
        let id = ObjectId(self.objects.len());
        self.objects.push(Object { path, backing, file });
        self.ids.insert(key, id);
        id
    }

    /// An object by its number.
    pub fn get(&self, id: ObjectId) -> &Object {
        &self.objects[id.0]
    }

    /// The opened files.
    pub fn symbols(&self) -> &Symbols {
        &self.symbols
    }

    /// The opened files, to ask them for names.
    pub fn symbols_mut(&mut self) -> &mut Symbols {
        &mut self.symbols
    }
}
