//! Finds the separate debug information of a file.
//!
//! Distributions strip the programs that they ship and offer the rest as a file of its own, named by the build ID of
//! the program or by a link in it.
//!
//! Source: "Debugging Information in Separate Files" of the GDB manual.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::debuginfod::{Artifact, Debuginfod};
use super::elf_headers::read_bytes;
use super::object_file::{ObjectFile, Origin};
use super::target_files;
use crate::build_id::BuildId;

/// Where distributions install debug files.
pub const SYSTEM_DEBUG_DIR: &str = "/usr/lib/debug";
/// Most bytes of a `.gnu_debuglink` section: a file name and a checksum.
const LINK_LIMIT: u64 = 8 * 1024;

/// A program in a root directory.
#[derive(Clone, Copy, Debug)]
struct Rooted<'a> {
    /// The directory, such as `/proc/PID/root`.
    root: &'a Path,
    /// Path of the program in it.
    path: &'a Path,
    /// Whose root directory it is.
    origin: Origin,
}

/// Where debug files are looked for.
#[derive(Debug, Default)]
pub struct DebugFiles {
    /// Directories that the user named, laid out like `/usr/lib/debug`; they come first.
    pub directories: Vec<PathBuf>,
    /// The servers to ask last; `None` where the user named none.
    pub debuginfod: Option<Debuginfod>,
}

impl DebugFiles {
    /// Finds the debug file of an object in the root of the target that runs it.
    ///
    /// A container can bring its own debug files. They are looked for while it lives, and never on the network.
    pub fn find_in_target(&self, object: &ObjectFile, root: &Path, path: &Path) -> Option<ObjectFile> {
        let directories = [PathBuf::from(SYSTEM_DEBUG_DIR)];
        find_below(Rooted { root, path, origin: Origin::Target }, object, &directories)
    }

    /// Finds the debug file of an object on this host, or fetches it.
    ///
    /// `path` is that of the object, should debug files be laid out by paths.
    pub fn find(&mut self, object: &ObjectFile, path: &Path) -> Option<ObjectFile> {
        let place = Rooted { root: Path::new("/"), path, origin: Origin::Host };
        find_below(place, object, &self.host_directories()).or_else(|| {
            let build_id = object.build_id.as_ref()?;
            let (file, path) = self.debuginfod.as_mut()?.fetch(build_id, Artifact::DebugInfo)?;
            accept(file, &path, Origin::Host, object, None)
        })
    }
}

impl DebugFiles {
    /// Finds the debug file of a build that no file on this host belongs to: a profile from another machine.
    pub fn find_by_build_id(&mut self, build_id: &BuildId) -> Option<ObjectFile> {
        let same = |file: File, path: &Path| {
            let debug = ObjectFile::new(file, path, Origin::Host).ok()?;
            (debug.build_id.as_ref() == Some(build_id)).then_some(debug)
        };
        let name = build_id_path(build_id);
        let local = self.host_directories().into_iter().find_map(|directory| {
            let path = directory.join(&name);
            same(target_files::open_below(Path::new("/"), &path).ok()?, &path)
        });
        local.or_else(|| {
            let (file, path) = self.debuginfod.as_mut()?.fetch(build_id, Artifact::DebugInfo)?;
            same(file, &path)
        })
    }

    /// Finds what dwz(1) moved out of the debug information of a file, if the file is root's or our own: what it names
    /// is opened here.
    pub fn find_shared(&mut self, debug: &ObjectFile) -> Option<ObjectFile> {
        let section = debug.headers.section(".gnu_debugaltlink")?;
        if !debug.is_ours() {
            return None;
        }
        let bytes = read_bytes(&*debug.handle.file().ok()?, section.file_offset, section.size, LINK_LIMIT).ok()?;
        let end = bytes.iter().position(|byte| *byte == 0)?;
        let name = Path::new(OsStr::from_bytes(&bytes[..end]));
        let build_id = BuildId::new(&bytes[end + 1..])?;
        let path = Path::new(&debug.display_path).parent()?.join(name);
        let named = target_files::open_below(Path::new("/"), &path).ok();
        let named = named.and_then(|file| ObjectFile::new(file, &path, Origin::Host).ok());
        let same = |shared: &ObjectFile| shared.build_id.as_ref() == Some(&build_id);
        named.filter(same).or_else(|| self.find_by_build_id(&build_id))
    }

    /// The user's directories, then the system's.
    pub fn host_directories(&self) -> Vec<PathBuf> {
        // Relative directories are the user's, relative to where profil runs.
        let users = self.directories.iter().filter_map(|directory| std::path::absolute(directory).ok());
        users.chain([PathBuf::from(SYSTEM_DEBUG_DIR)]).collect()
    }
}

fn find_below(place: Rooted<'_>, object: &ObjectFile, directories: &[PathBuf]) -> Option<ObjectFile> {
    let Rooted { root, path, origin } = place;
    let by_build_id = object.build_id.iter().flat_map(|build_id| {
        let name = build_id_path(build_id);
        directories.iter().map(move |directory| directory.join(&name))
    });
    let try_path = |candidate: PathBuf, checksum| {
        let file = target_files::open_below(root, &candidate).ok()?;
        accept(file, &candidate, origin, object, checksum)
    };
    if let Some(found) = by_build_id.into_iter().find_map(|candidate| try_path(candidate, None)) {
        return Some(found);
    }
    let (name, checksum) = debug_link(object)?;
    let directory = path.parent()?;
    let relative = directory.strip_prefix("/").ok()?;
    [directory.join(&name), directory.join(".debug").join(&name)]
        .into_iter()
        .chain(directories.iter().map(|debug| debug.join(relative).join(&name)))
        .chain(directories.iter().map(|debug| debug.join(&name)))
        .find_map(|candidate| try_path(candidate, Some(checksum)))
}

/// `.build-id/xx/yyyy.debug`: the first byte of the build ID is a directory.
pub(crate) fn build_id_path(build_id: &BuildId) -> PathBuf {
    let hex = build_id.to_string();
    let (first, rest) = hex.split_at(2);
    PathBuf::from(format!(".build-id/{first}/{rest}.debug"))
}

/// The file, if it is the debug file of the object: by the build IDs of both, or else by the checksum in the link.
fn accept(file: File, path: &Path, origin: Origin, object: &ObjectFile, checksum: Option<u32>) -> Option<ObjectFile> {
    let debug = ObjectFile::new(file, path, origin).ok()?;
    // A link can lead back to the file itself.
    if debug.handle.state() == object.handle.state() {
        return None;
    }
    let same = match (&object.build_id, &debug.build_id) {
        (Some(wanted), Some(found)) => wanted == found,
        (None, None) => checksum.is_some_and(|checksum| {
            debug.handle.file().ok().and_then(|file| crc32(&file)).is_some_and(|found| found == checksum)
        }),
        _ => false,
    };
    same.then_some(debug)
}

/// The name and checksum in the `.gnu_debuglink` of an object; `None` when the name is more than a name.
fn debug_link(object: &ObjectFile) -> Option<(PathBuf, u32)> {
    let section = object.headers.section(".gnu_debuglink")?;
    let file = object.handle.file().ok()?;
    let bytes = read_bytes(&*file, section.file_offset, section.size, LINK_LIMIT).ok()?;
    let length = bytes.iter().position(|byte| *byte == 0)?;
    let name = Path::new(OsStr::from_bytes(&bytes[..length]));
    // A path would lead out of the directories that are to be searched.
    if name.file_name() != Some(name.as_os_str()) {
        return None;
    }
    let checksum = (length + 1).next_multiple_of(4);
    let checksum = bytes.get(checksum..checksum + 4)?.try_into().ok()?;
    let checksum = match object.headers.endian {
        object::Endianness::Little => u32::from_le_bytes(checksum),
        object::Endianness::Big => u32::from_be_bytes(checksum),
    };
    Some((name.to_owned(), checksum))
}

/// The checksum that debug links use, over a whole file.
fn crc32(mut file: &File) -> Option<u32> {
    /// A sparse file of terabytes would keep us reading zeros for hours.
    const CHECKED_LIMIT: u64 = 4 << 30;
    if file.metadata().ok()?.len() > CHECKED_LIMIT {
        return None;
    }
    let mut crc = flate2::Crc::new();
    let mut bytes = vec![0; 256 * 1024];
    loop {
        match file.read(&mut bytes).ok()? {
            0 => return Some(crc.sum()),
            count => crc.update(&bytes[..count]),
        }
    }
}
