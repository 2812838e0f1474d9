//! The files whose code ran, opened while their processes live.
//!
//! Names come from what was captured then: a target that is gone, or a binary that was replaced, still has names.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use crate::build_id::BuildId;
use crate::maps::Backing;
use crate::symbols::target_files::{self, Identity, Inode, MappedFile};

/// Descriptors that captured files may hold open; what comes later is opened again by its path when names are asked.
const OPEN_FILES_MAX: usize = 4096;

/// Number of an object within [`Objects`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectId(usize);

/// What identifies a mapped file: two builds at one path are two objects.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ObjectKey {
    path: Vec<u8>,
    build_id: Option<BuildId>,
    inode: Option<Inode>,
}

/// A file, or what stands in for one, that executable mappings show.
#[derive(Debug)]
pub struct Object {
    /// Path as the target sees it, or the kernel's name for what is no file.
    pub path: PathBuf,
    /// What stands behind the path.
    pub backing: Backing,
    /// What the kernel said of the file.
    pub identity: Identity,
    /// The file, if it could be opened while it was mapped.
    pub file: Option<File>,
    /// A process that had it mapped, for what only the process leads to (its root directory).
    pub tgid: u32,
}

/// All objects of a session.
#[derive(Debug, Default)]
pub struct Objects {
    ids: HashMap<ObjectKey, ObjectId>,
    objects: Vec<Object>,
    open_files: usize,
}

/// A mapping of an object, as it was reported.
pub struct Sighting<'s> {
    /// Process (tgid).
    pub tgid: u32,
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

impl Objects {
    /// The object of a mapping; a file that is seen for the first time is opened at once.
    pub fn intern(&mut self, sighting: &Sighting<'_>) -> ObjectId {
        let Sighting { tgid, start, end, path, build_id, inode } = sighting;
        let key = ObjectKey { path: path.to_vec(), build_id: build_id.cloned(), inode: *inode };
        if let Some(id) = self.ids.get(&key) {
            return *id;
        }
        let path = PathBuf::from(OsString::from_vec(path.to_vec()));
        let backing = Backing::of(path.as_os_str());
        let identity = Identity { build_id: build_id.cloned(), inode: *inode };
        let mut file = None;
        if backing == Backing::File && self.open_files < OPEN_FILES_MAX {
            let mapped = MappedFile {
                pid: Some(*tgid),
                start: *start,
                end: *end,
                path: path.clone(),
                identity: identity.clone(),
            };
            file = target_files::open(&mapped, Path::new("/")).ok().map(|opened| opened.file);
            self.open_files += usize::from(file.is_some());
        }
        let id = ObjectId(self.objects.len());
        self.objects.push(Object { path, backing, identity, file, tgid: *tgid });
        self.ids.insert(key, id);
        id
    }

    /// An object by its number.
    pub fn get(&self, id: ObjectId) -> &Object {
        &self.objects[id.0]
    }
}
