//! Where a result is written: a file that appears whole or not at all, or standard output.

use std::fs::{self, File, Metadata, Permissions};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Gid, Uid};
use tempfile::NamedTempFile;

/// Why a result cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// No file can be created in the directory, or the device or pipe cannot be opened.
    #[error("cannot write {}: {hint}", path.display())]
    Create {
        /// Path as the user gave it.
        path: PathBuf,
        /// What to do.
        hint: &'static str,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// The path is a directory.
    #[error("cannot write {}: it is a directory; name a file with -o FILE", path.display())]
    Directory {
        /// Path as the user gave it.
        path: PathBuf,
    },
    /// The file of the run before cannot be kept.
    #[error("cannot keep the last {} as {}: that is a directory; name another file with -o FILE", path.display(), old.display())]
    OldIsDirectory {
        /// Path as the user gave it.
        path: PathBuf,
        /// Where it would be kept.
        old: PathBuf,
    },
    /// Binary data would go to a terminal.
    #[error("cannot write a binary profile to a terminal; redirect standard output, or name a file with -o FILE")]
    Terminal,
    /// Writing failed; a previous file is as it was.
    #[error("cannot finish writing {}", path.display())]
    Write {
        /// Path as the user gave it.
        path: PathBuf,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
}

impl OutputError {
    /// Whether the reader of standard output went away, which is no failure.
    pub fn is_broken_pipe(&self) -> bool {
        matches!(self, OutputError::Write { source, .. } if source.kind() == io::ErrorKind::BrokenPipe)
    }
}

/// What will be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Text, which a terminal may show.
    Text,
    /// Binary data, which a terminal must not be given.
    Binary,
}

/// Who owns a file that root wrote for somebody else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// User ID.
    pub uid: u32,
    /// Group ID.
    pub gid: u32,
}

impl Owner {
    /// The user who called sudo, when this is root: `SUDO_UID` and `SUDO_GID`.
    pub fn of_sudo() -> Option<Owner> {
        if !rustix::process::geteuid().is_root() {
            return None;
        }
        let id = |name| std::env::var(name).ok()?.parse::<u32>().ok().filter(|id| *id != u32::MAX);
        Some(Owner { uid: id("SUDO_UID")?, gid: id("SUDO_GID")? })
    }
}

/// A place for a result, checked before there is one: a recording must not run for an hour and then find the disk
/// read-only.
#[derive(Debug)]
pub struct Output {
    path: PathBuf,
    place: Place,
    owner: Option<Owner>,
}

#[derive(Debug)]
enum Place {
    Stdout,
    /// A device, a pipe or an open file's name, which must not be replaced.
    Stream(File),
    /// A file; `ours` once this run has written it.
    File {
        ours: bool,
    },
}

impl Output {
    /// Checks that `path` can be written; `-` is standard output.
    ///
    /// A regular file is written aside in the same directory and renamed, and a file that was there before is kept as
    /// `PATH.old`. A symbolic link to a file is replaced, not followed: in a directory that others can write to,
    /// following one would let them choose the file that root overwrites.
    ///
    /// # Errors
    /// The path is a directory, nothing can be created beside it, or binary content would go to a terminal.
    pub fn create(path: &Path, content: Content, owner: Option<Owner>) -> Result<Output, OutputError> {
        let place = if path == Path::new("-") {
            if content == Content::Binary && io::stdout().is_terminal() {
                return Err(OutputError::Terminal);
            }
            Place::Stdout
        } else {
            Place::of_path(path)?
        };
        Ok(Output { path: path.to_owned(), place, owner })
    }

    /// Path as the user gave it; `-` is standard output.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the content by `fill`, and puts it in place. A second call replaces what the first one wrote, and leaves
    /// the `.old` file alone.
    ///
    /// # Errors
    /// `fill` or the system fails; a file that was there is then as it was.
    pub fn write(&mut self, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), OutputError> {
        let Output { path, place, owner } = self;
        let written = match place {
            Place::Stdout => fill_buffered(io::stdout().lock(), fill),
            Place::Stream(stream) => fill_buffered(stream, fill),
            Place::File { ours } => replace(path, *ours, *owner, fill).map(|()| *ours = true),
        };
        written.map_err(|source| OutputError::Write { path: path.clone(), source })
    }
}

impl Place {
    fn of_path(path: &Path) -> Result<Place, OutputError> {
        let error = |source: io::Error| {
            let hint = match source.kind() {
                io::ErrorKind::NotFound => "its directory does not exist; create it, or name another file with -o FILE",
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                    "its directory is not writable; name another file with -o FILE"
                }
                _ => "no file can be created there; name another file with -o FILE",
            };
            OutputError::Create { path: path.to_owned(), hint, source }
        };
        let there = fs::metadata(path).ok();
        if there.as_ref().is_some_and(Metadata::is_dir) || path.file_name().is_none() {
            return Err(OutputError::Directory { path: path.to_owned() });
        }
        if is_descriptor(path) || there.is_some_and(|there| !there.is_file()) {
            return Ok(Place::Stream(File::options().append(true).open(path).map_err(error)?));
        }
        if fs::symlink_metadata(old_path(path)).is_ok_and(|old| old.is_dir()) {
            return Err(OutputError::OldIsDirectory { path: path.to_owned(), old: old_path(path) });
        }
        // Created and removed at once: left open until the end, it would stay behind when the run is killed.
        aside(path).map_err(error)?;
        Ok(Place::File { ours: false })
    }
}

/// Whether the path stands for an open file, as `/dev/stdout` does: replacing it would break the system for everyone.
fn is_descriptor(path: &Path) -> bool {
    (path.starts_with("/dev") || path.starts_with("/proc")) && path.is_symlink()
}

/// `PATH.old`, where the file of the run before is kept.
pub fn old_path(path: &Path) -> PathBuf {
    let mut old = path.as_os_str().to_owned();
    old.push(".old");
    old.into()
}

/// A new file in the directory of `path`, which nobody but its owner may read: paths, command lines and addresses of
/// others' processes are in it, as in perf's files.
fn aside(path: &Path) -> io::Result<NamedTempFile> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    tempfile::Builder::new().prefix(".profil-").permissions(Permissions::from_mode(0o600)).tempfile_in(directory)
}

fn replace(
    path: &Path,
    ours: bool,
    owner: Option<Owner>,
    fill: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let new = aside(path)?;
    fill_buffered(new.as_file(), fill)?;
    if let Some(Owner { uid, gid }) = owner {
        rustix::fs::fchown(new.as_file(), Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))?;
    }
    if !ours {
        match fs::rename(path, old_path(path)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    new.persist(path).map(drop).map_err(|error| error.error)
}

fn fill_buffered(to: impl Write, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut buffer = BufWriter::new(to);
    fill(&mut buffer)?;
    buffer.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<_> = entries.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn output(path: &Path) -> Output {
        Output::create(path, Content::Binary, None).unwrap()
    }

    #[test]
    fn the_previous_file_is_kept_as_old() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("p.gz");
        output(&path).write(|to| to.write_all(b"first")).unwrap();
        let mut second = output(&path);
        // An interim write, as SIGUSR1 asks for, and the last one: the old file is that of the run before.
        second.write(|to| to.write_all(b"interim")).unwrap();
        second.write(|to| to.write_all(b"last")).unwrap();
        assert_eq!(names(directory.path()), ["p.gz", "p.gz.old"]);
        assert_eq!(fs::read(&path).unwrap(), b"last");
        assert_eq!(fs::read(old_path(&path)).unwrap(), b"first");
    }

    #[test]
    fn a_failed_write_leaves_the_previous_file_and_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("p.gz");
        fs::write(&path, "first").unwrap();
        let failed = output(&path).write(|to| {
            to.write_all(b"part")?;
            Err(io::Error::other("disk full"))
        });
        assert!(matches!(failed, Err(OutputError::Write { .. })));
        assert_eq!(names(directory.path()), ["p.gz"]);
        assert_eq!(fs::read(&path).unwrap(), b"first");
    }

    #[test]
    fn a_path_that_cannot_be_written_is_refused_before_anything_is_written() {
        let directory = tempfile::tempdir().unwrap();
        let refused = |path: &Path| Output::create(path, Content::Text, None).unwrap_err();
        assert!(matches!(refused(directory.path()), OutputError::Directory { .. }));
        assert!(matches!(refused(&directory.path().join("none/p.gz")), OutputError::Create { .. }));
        assert_eq!(names(directory.path()), [""; 0]);
    }

    #[test]
    fn a_symbolic_link_is_replaced_and_its_target_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let (target, link) = (directory.path().join("target"), directory.path().join("link"));
        fs::write(&target, "precious").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        output(&link).write(|to| to.write_all(b"new")).unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"precious");
        assert!(fs::symlink_metadata(&link).unwrap().is_file());
    }

    #[test]
    fn a_device_is_written_to_and_not_replaced() {
        let mut null = output(Path::new("/dev/null"));
        null.write(|to| to.write_all(b"gone")).unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
    }

    #[test]
    fn the_name_of_an_open_file_is_appended_to_and_not_replaced() {
        let file = NamedTempFile::new().unwrap();
        let name = PathBuf::from(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(file.as_file())));
        output(&name).write(|to| to.write_all(b"there")).unwrap();
        assert_eq!(fs::read(file.path()).unwrap(), b"there");
    }

    #[test]
    fn nobody_but_its_owner_may_read_a_file_whatever_the_one_before_allowed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("p.gz");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        fs::write(&path, "before").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        let mut output = output(&path);
        for content in ["interim", "last"] {
            output.write(|to| to.write_all(content.as_bytes())).unwrap();
            assert_eq!(mode(&path), 0o600, "{content}");
        }
        assert_eq!(mode(&old_path(&path)), 0o644, "what was there before is only renamed");
    }

    #[test]
    fn a_file_gets_the_owner_asked_for() {
        use std::os::unix::fs::MetadataExt;
        // Only root can give files away; others give them to themselves.
        let (uid, gid) = match rustix::process::geteuid().as_raw() {
            0 => (65534, 65534),
            uid => (uid, rustix::process::getegid().as_raw()),
        };
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("p.gz");
        let mut output = Output::create(&path, Content::Binary, Some(Owner { uid, gid })).unwrap();
        output.write(|to| to.write_all(b"x")).unwrap();
        let there = fs::metadata(&path).unwrap();
        assert_eq!((there.uid(), there.gid()), (uid, gid));
    }
}
