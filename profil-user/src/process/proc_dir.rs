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

/// A process's directory in /proc, held open: when the process is gone, reads fail, and never show a later process
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
