//! A file that was opened while its path still led to it, and that can be let go and taken up again.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;

/// What tells one file, in one state, from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileState {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
}

impl FileState {
    /// The state of an open file.
    ///
    /// # Errors
    /// Those of fstat(2).
    pub fn of(file: &File) -> io::Result<FileState> {
        let stat = file.metadata()?;
        Ok(FileState {
            device: stat.dev(),
            inode: stat.ino(),
            size: stat.size(),
            modified: (stat.mtime(), stat.mtime_nsec()),
        })
    }
}

/// A file, open or parked.
///
/// Descriptors are few (1,024 by default) and a busy host runs more files than that. A parked file keeps only its path
/// and state, and is opened again when it is needed; if the path leads elsewhere by then, it is gone.
#[derive(Debug)]
pub struct FileHandle {
    open: Option<Arc<File>>,
    parked_path: PathBuf,
    state: FileState,
    owner: u32,
    mode: u32,
}

impl FileHandle {
    /// Takes charge of an open file.
    ///
    /// # Errors
    /// Those of fstat(2).
    pub fn new(file: File) -> io::Result<FileHandle> {
        let stat = file.metadata()?;
        Ok(FileHandle {
            state: FileState::of(&file)?,
            parked_path: PathBuf::new(),
            open: Some(Arc::new(file)),
            owner: stat.uid(),
            mode: stat.mode(),
        })
    }

    /// What tells the file from others.
    pub fn state(&self) -> FileState {
        self.state
    }

    /// Size when it was opened, bytes.
    pub fn size_bytes(&self) -> u64 {
        self.state.size
    }

    /// Whether only a root and we can have written it: it belongs to one of the two, and only its owner may write.
    pub fn is_ours(&self) -> bool {
        (self.owner == 0 || self.owner == rustix::process::geteuid().as_raw()) && self.mode & 0o022 == 0
    }

    /// The file, opened again if it was parked.
    ///
    /// # Errors
    /// `NotFound` when its path no longer leads to the same file in the same state.
    pub fn file(&self) -> io::Result<Arc<File>> {
        if let Some(file) = &self.open {
            return Ok(Arc::clone(file));
        }
        let file = File::open(&self.parked_path)?;
        if FileState::of(&file)? != self.state {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(Arc::new(file))
    }

    /// Whether it is closed.
    pub fn is_closed(&self) -> bool {
        self.open.is_none()
    }

    /// Closes the file for good: it is gone from now on, unless it was parked before.
    pub fn close(&mut self) {
        self.open = None;
    }

    /// Closes the file until it is needed, if a path leads to it; says whether it did.
    pub fn park(&mut self) -> Parked {
        let Some(file) = &self.open else { return Parked::Yes };
        let link = format!("/proc/self/fd/{}", file.as_raw_fd());
        let leads_back = |path: &PathBuf| {
            // A file of another mount namespace shows a path that means something else here, a deleted one none.
            let found = std::fs::symlink_metadata(path).ok().filter(|found| found.is_file());
            found.is_some_and(|found| (found.dev(), found.ino()) == (self.state.device, self.state.inode))
        };
        match std::fs::read_link(link).ok().filter(leads_back) {
            Some(path) => {
                self.parked_path = path;
                self.open = None;
                Parked::Yes
            }
            None => Parked::No,
        }
    }
}

/// Whether a file could be closed for the time being.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parked {
    /// It is closed.
    Yes,
    /// No path leads to it: closed, it would be lost.
    No,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parked_file_comes_back_unless_it_was_replaced() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("a");
        std::fs::write(&path, "one").expect("written");
        let mut handle = FileHandle::new(File::open(&path).expect("opens")).expect("a handle");
        assert_eq!(handle.park(), Parked::Yes);
        assert!(handle.open.is_none());
        assert_eq!(FileState::of(&handle.file().expect("still there")).expect("stat"), handle.state());

        std::fs::write(directory.path().join("b"), "three").expect("written");
        std::fs::rename(directory.path().join("b"), &path).expect("replaced");
        assert_eq!(handle.file().expect_err("another file").kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_deleted_file_is_kept_open() {
        let mut handle = FileHandle::new(tempfile::tempfile().expect("a file")).expect("a handle");
        assert_eq!(handle.park(), Parked::No);
        assert!(handle.file().is_ok());
    }
}
