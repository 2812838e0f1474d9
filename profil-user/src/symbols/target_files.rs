//! Opens the files that a target has mapped.
//!
//! A target decides what its paths lead to, so they are hostile: they are walked inside the target's root, what they
//! lead to is looked at before it is opened for reading, and only regular files are. A file that stands on the
//! target's own FUSE mount can still make a read wait for as long as that file system likes.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags};

use crate::build_id::BuildId;
use crate::maps;

/// Largest file that is opened, bytes: sparse files can claim to be far larger than any disk.
const SIZE_LIMIT: u64 = 64 << 30;

/// A file mapping of a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappedFile {
    /// The process (tgid); `None` when no process is to be asked, because it is gone or the profile came from a file.
    pub pid: Option<u32>,
    /// First address of the mapping (AVMA).
    pub start: u64,
    /// First address past its end (AVMA).
    pub end: u64,
    /// Path as the target sees it, without the kernel's ` (deleted)`.
    pub path: PathBuf,
    /// What is known of the file that was mapped.
    pub identity: Identity,
}

/// What the kernel said of a mapped file: by this another file at the same path is recognised.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Its build ID (perf MMAP2 records with build IDs).
    pub build_id: Option<BuildId>,
    /// Device and inode (`/proc/PID/maps`, perf MMAP2 records without build IDs).
    pub inode: Option<Inode>,
}

/// Device and inode number of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Inode {
    /// Major number of the device.
    pub major: u32,
    /// Minor number of the device.
    pub minor: u32,
    /// Inode number.
    pub number: u64,
}

/// How a file was found, which says how far it can be trusted to be the one that was mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FoundBy {
    /// Through the mapping itself (`/proc/PID/map_files`): right even when the path leads elsewhere by now.
    Mapping,
    /// By its path, in the root directory of the process.
    TargetRoot,
    /// By its path, on the host or in the root that the caller gave.
    Path,
}

/// A file of a target, open for reading.
#[derive(Debug)]
pub struct OpenedFile {
    /// The file.
    pub file: File,
    /// How it was found.
    pub found_by: FoundBy,
}

/// Why a file of a target cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Nothing can be opened at the path.
    #[error("cannot open {path:?} of the target")]
    Open {
        /// Path as the target sees it.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// It is a directory, device, pipe or socket.
    #[error("cannot use {path:?} of the target: it is not a regular file")]
    NotRegular {
        /// Path as the target sees it.
        path: PathBuf,
    },
    /// It is larger than any program.
    #[error("cannot use {path:?} of the target: it has {size} bytes, and the limit is {limit}")]
    TooLarge {
        /// Path as the target sees it.
        path: PathBuf,
        /// Its size, bytes.
        size: u64,
        /// The most that is let through, bytes.
        limit: u64,
    },
}

/// Opens the file behind a mapping.
///
/// Tried in order: the mapping itself, which needs CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE; the path in the root of
/// the process; the path below `other_root`, which is the host's `/` unless the caller knows better. Whether the file
/// is the one that was mapped is for [`same_inode`] and the build ID to say.
///
/// Minimum kernel: 5.6 (openat2(2)).
///
/// # Errors
/// The [`OpenError`] of the last place tried.
pub fn open(mapped: &MappedFile, other_root: &Path) -> Result<OpenedFile, OpenError> {
    if let Some(pid) = mapped.pid
        && let Some(file) = open_mapping(pid, mapped)
    {
        return Ok(OpenedFile { file, found_by: FoundBy::Mapping });
    }
    open_by_path(mapped, other_root)
}

/// Opens the file at the path of a mapping: for when something else is mapped there by now.
///
/// # Errors
/// As [`open`].
pub fn open_by_path(mapped: &MappedFile, other_root: &Path) -> Result<OpenedFile, OpenError> {
    if let Some(pid) = mapped.pid
        && let Ok(file) = open_below(Path::new(&format!("/proc/{pid}/root")), &mapped.path)
    {
        return Ok(OpenedFile { file, found_by: FoundBy::TargetRoot });
    }
    open_below(other_root, &mapped.path).map(|file| OpenedFile { file, found_by: FoundBy::Path })
}

fn open_mapping(pid: u32, mapped: &MappedFile) -> Option<File> {
    let by_range = |start: u64, end: u64| {
        let link = format!("/proc/{pid}/map_files/{start:x}-{end:x}");
        let path = rustix::fs::open(link, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?;
        reopen(&path, &mapped.path).ok()
    };
    by_range(mapped.start, mapped.end).or_else(|| {
        // The name must be exactly the kernel's range, and mprotect(2) may have split or merged it since.
        let text = std::fs::read(format!("/proc/{pid}/maps")).ok()?;
        let entries = maps::parse(&text).ok()?;
        let entry = entries.iter().find(|entry| (entry.start..entry.end).contains(&mapped.start))?;
        if entry.path != mapped.path { None } else { by_range(entry.start, entry.end) }
    })
}

/// Opens a regular file by a path below a root directory, symbolic links and `..` included.
///
/// `openat2` is what keeps an absolute link inside: a plain open through `/proc/PID/root` follows it on the host.
///
/// # Errors
/// [`OpenError`], with `path` as given.
pub fn open_below(root: &Path, path: &Path) -> Result<File, OpenError> {
    let open = || {
        let root = rustix::fs::open(root, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        rustix::fs::openat2(root, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), resolve)
    };
    let found = open().map_err(|error| OpenError::Open { path: path.into(), source: error.into() })?;
    reopen(&found, path)
}

/// Opens for reading what an `O_PATH` descriptor stands for, if it is a regular file.
///
/// Only after the look: to open a device or a pipe can do things, or wait.
fn reopen(found: &OwnedFd, path: &Path) -> Result<File, OpenError> {
    let failed = |error: rustix::io::Errno| OpenError::Open { path: path.into(), source: error.into() };
    let stat = rustix::fs::fstat(found).map_err(failed)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(OpenError::NotRegular { path: path.into() });
    }
    let size = stat.st_size as u64;
    if size > SIZE_LIMIT {
        return Err(OpenError::TooLarge { path: path.into(), size, limit: SIZE_LIMIT });
    }
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let link = format!("/proc/self/fd/{}", found.as_fd().as_raw_fd());
    rustix::fs::openat(CWD, link, flags, Mode::empty()).map(File::from).map_err(failed)
}

/// Whether an open file has the device and inode that the kernel gave for a mapping; `None` where that cannot be said.
///
/// On overlayfs the kernel may name the file of the layer below, so nothing can be said; on btrfs and bcachefs, where
/// fstat(2) gives a device number per subvolume, only the inode number is compared.
pub fn same_inode(file: &File, expected: Inode) -> Option<bool> {
    const OVERLAYFS: u64 = 0x794c_7630;
    const BTRFS: u64 = 0x9123_683e;
    const BCACHEFS: u64 = 0xca45_1a4e;
    if expected.number == 0 {
        return None;
    }
    let stat = rustix::fs::fstat(file).ok()?;
    let same_number = stat.st_ino == expected.number;
    match rustix::fs::fstatfs(file).ok()?.f_type as u64 {
        OVERLAYFS => None,
        BTRFS | BCACHEFS => Some(same_number),
        _ => {
            let device = (rustix::fs::major(stat.st_dev), rustix::fs::minor(stat.st_dev));
            Some(same_number && device == (expected.major, expected.minor))
        }
    }
}

/// Whether a process has the same root directory as this one, so that its paths mean the same here.
pub fn shares_our_root(pid: u32) -> bool {
    let root_of = |process: &str| {
        let stat = rustix::fs::stat(format!("/proc/{process}/root/.")).ok()?;
        let mounts = std::fs::read_link(format!("/proc/{process}/ns/mnt")).ok()?;
        Some((stat.st_dev, stat.st_ino, mounts))
    };
    let own = root_of("self");
    own.is_some() && root_of(&pid.to_string()) == own
}

/// A path for display: bytes that are not UTF-8 are replaced.
pub fn display(path: &OsStr) -> String {
    String::from_utf8_lossy(path.as_bytes()).into_owned()
}
