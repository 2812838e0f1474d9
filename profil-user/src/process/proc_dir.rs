//! /proc/PID, held open.

use std::ffi::{CStr, OsString};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;

use rustix::fs::{Dir, Mode, OFlags};
use rustix::io::Errno;

use super::{Stat, Status};

/// Longest file of /proc/PID that is read whole, bytes: the maps of a process with a million mappings fit.
const READ_MAX: u64 = 256 * 1024 * 1024;

/// The directory of a process or thread in /proc, held open: when the process is gone, reads fail, and never show a later process
/// that was given the same id.
#[derive(Debug)]
pub struct ProcDir {
    fd: OwnedFd,
}

impl ProcDir {
    /// Opens the directory of a process or thread.
    ///
    /// # Errors
    /// ENOENT when there is none that this user may see.
    pub fn open(pid: u32) -> io::Result<ProcDir> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(format!("/proc/{pid}"), flags, Mode::empty())?;
        Ok(ProcDir { fd })
    }

    /// Opens this process's own directory, whatever its number is where /proc was mounted.
    ///
    /// # Errors
    /// ENOENT when /proc is not mounted, or was mounted in a PID namespace that this process is not in.
    pub fn own() -> io::Result<ProcDir> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        Ok(ProcDir { fd: rustix::fs::open("/proc/self", flags, Mode::empty())? })
    }

    /// Reads a file below the directory.
    ///
    /// # Errors
    /// ESRCH when the process is gone, EACCES and EPERM when this user may not read it.
    pub fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        let fd = rustix::fs::openat(&self.fd, name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        let mut bytes = Vec::new();
        std::fs::File::from(fd).take(READ_MAX).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Where a link below the directory points: `exe`, `ns/pid`.
    ///
    /// # Errors
    /// As [`ProcDir::read`]; ENOENT for the `exe` of a kernel thread or a zombie.
    pub fn link(&self, name: &str) -> io::Result<OsString> {
        let target = rustix::fs::readlinkat(&self.fd, name, Vec::new())?;
        Ok(OsString::from_vec(target.into_bytes()))
    }

    /// Opens a file below the directory for reading, through its link: `exe`.
    ///
    /// # Errors
    /// As [`ProcDir::read`].
    pub fn open_file(&self, name: &str) -> io::Result<std::fs::File> {
        let fd = rustix::fs::openat(&self.fd, name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(fd.into())
    }

    /// What `stat` says.
    ///
    /// # Errors
    /// As [`ProcDir::read`].
    pub fn stat(&self) -> io::Result<Stat> {
        Stat::parse(&self.read("stat")?).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// What `status` says.
    ///
    /// # Errors
    /// As [`ProcDir::read`].
    pub fn status(&self) -> io::Result<Status> {
        Status::parse(&self.read("status")?).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// The directory of a thread that still runs: this one, or another's below `task` when the main thread has ended and
    /// took its mappings, `exe` and `root` along.
    ///
    /// # Errors
    /// ESRCH when all threads have ended.
    pub fn of_live_thread(&self) -> io::Result<ProcDir> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        for tid in self.threads()? {
            // Threads may end at any time: go on to the next one.
            let Ok(fd) = rustix::fs::openat(&self.fd, format!("task/{tid}"), flags, Mode::empty()) else {
                continue;
            };
            let thread = ProcDir { fd };
            if thread.stat().is_ok_and(|stat| !stat.has_ended()) {
                return Ok(thread);
            }
        }
        Err(io::Error::from_raw_os_error(libc::ESRCH))
    }

    /// Ids of the threads, ascending. Threads that start meanwhile may be missing.
    ///
    /// # Errors
    /// As [`ProcDir::read`].
    pub fn threads(&self) -> io::Result<Vec<u32>> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let tasks = rustix::fs::openat(&self.fd, "task", flags, Mode::empty())?;
        let mut tids = Vec::new();
        for entry in Dir::new(tasks)? {
            match entry {
                Ok(entry) => tids.extend(number(entry.file_name())),
                // The process ended under the reader.
                Err(Errno::NOENT | Errno::SRCH) => break,
                Err(error) => return Err(error.into()),
            }
        }
        tids.sort_unstable();
        Ok(tids)
    }

    /// The process's root directory: to be searched with RESOLVE_IN_ROOT only, since its links lead where it wants.
    ///
    /// # Errors
    /// EACCES when this user may not look.
    pub fn open_root(&self) -> io::Result<OwnedFd> {
        let flags = OFlags::DIRECTORY | OFlags::PATH | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(&self.fd, "root", flags, Mode::empty())?)
    }

    /// User that owns the files of the directory: the effective user of the process, or 0 when it may not be dumped.
    ///
    /// # Errors
    /// As fstat(2).
    pub fn owner(&self) -> io::Result<u32> {
        // The directory itself is world-readable and belongs to the effective user in any case; its files do not.
        Ok(rustix::fs::statat(&self.fd, "maps", rustix::fs::AtFlags::empty())?.st_uid)
    }

    /// Inode number of one of the process's namespaces (`pid`, `mnt`, `user`), by which namespaces are told apart.
    ///
    /// # Errors
    /// EACCES when this user may not look: it takes CAP_SYS_PTRACE for others' processes.
    pub fn namespace(&self, kind: &str) -> io::Result<u64> {
        let path = format!("ns/{kind}");
        Ok(rustix::fs::statat(&self.fd, path, rustix::fs::AtFlags::empty())?.st_ino)
    }
}

fn number(name: &CStr) -> Option<u32> {
    name.to_str().ok()?.parse().ok()
}
