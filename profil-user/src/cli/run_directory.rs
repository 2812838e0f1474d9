//! The directory of the socket of `profil run`, of which nothing is left however the run ends.
//!
//! It is locked as long as its run lasts. A run that was killed left its directory behind, unlocked: the next one takes it
//! away.

use std::fs::File;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use rustix::fs::{FlockOperation, Mode, OFlags};
use tempfile::TempDir;

/// Where directories are, if it is writable.
const PLACE: &str = "/run";

/// What their names begin with.
const PREFIX: &str = "profil-run-";

/// Name of the socket in its directory.
const SOCKET: &str = "socket";

/// Directories that are made before giving up; each is lost only to another run that starts at the same time.
const TRIES: u32 = 16;

/// A directory that whoever the command becomes may look into, and whose name nobody can guess.
#[derive(Debug)]
pub(super) struct RunDirectory {
    directory: TempDir,
    /// The lock goes with its descriptor, which no program that is executed gets.
    _lock: File,
}

impl RunDirectory {
    pub(super) fn make() -> io::Result<RunDirectory> {
        sweep(Path::new(PLACE));
        for _ in 0..TRIES {
            let directory = builder().tempdir_in(PLACE).or_else(|_| builder().tempdir())?;
            // Who sweeps may have been faster, and have locked it or taken it away.
            if let Some(lock) = lock(directory.path()).filter(|_| directory.path().exists()) {
                return Ok(RunDirectory { directory, _lock: lock });
            }
        }
        Err(io::ErrorKind::WouldBlock.into())
    }

    /// Where the socket is to be.
    pub(super) fn socket(&self) -> std::path::PathBuf {
        self.directory.path().join(SOCKET)
    }
}

fn builder() -> tempfile::Builder<'static, 'static> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(PREFIX).permissions(std::fs::Permissions::from_mode(0o711));
    builder
}

fn lock(directory: &Path) -> Option<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = File::from(rustix::fs::open(directory, flags, Mode::empty()).ok()?);
    rustix::fs::flock(&opened, FlockOperation::NonBlockingLockExclusive).ok()?;
    Some(opened)
}

/// Takes away what killed runs of this user have left. What cannot be removed stays: it is in nobody's way.
fn sweep(place: &Path) {
    let own = rustix::process::geteuid().as_raw();
    for entry in std::fs::read_dir(place).into_iter().flatten().flatten() {
        let is_ours = entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes())
            && entry.metadata().is_ok_and(|metadata| metadata.is_dir() && metadata.uid() == own);
        if let Some(_lock) = is_ours.then(|| lock(&entry.path())).flatten() {
            let _absent = std::fs::remove_file(entry.path().join(SOCKET));
            let _in_use = std::fs::remove_dir(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_nobody_holds_is_swept_and_one_that_is_locked_is_not() {
        let place = tempfile::tempdir().expect("a folder");
        let [dead, alive, other] =
            [format!("{PREFIX}1"), format!("{PREFIX}2"), "other".into()].map(|name| place.path().join(name));
        for directory in [&dead, &alive, &other] {
            std::fs::create_dir(directory).expect("a folder in our own");
            std::fs::write(directory.join(SOCKET), "").expect("a file in our own folder");
        }
        let held = lock(&alive).expect("nobody else knows of it");
        sweep(place.path());
        assert_eq!([&dead, &alive, &other].map(|directory| directory.exists()), [false, true, true]);
        drop(held);
        sweep(place.path());
        assert_eq!([&alive, &other].map(|directory| directory.exists()), [false, true]);
    }
}
