//! Memory at which a writer could wait for ever, because user space serves its pages: userfaultfd and FUSE.
//!
//! A write through `/proc/PID/mem` to a page of userfaultfd is refused by the kernel (`EIO`, Linux 6.18). One to a page
//! of a FUSE file waits until the server answers, and not even SIGKILL ends the wait once the server has read the
//! request (6.18, run). So files are taken only from file systems that are known. An overlay over a FUSE file system
//! passes for an overlay: whoever writes for strangers does so in a process that may be lost.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::MemfdFlags;

use super::target::{BadBuffer, TargetBuffer};
use crate::address_space::{AddressSpace, Device};
use crate::maps;

/// The files that tell of a process which of its memory user space serves.
#[derive(Debug)]
pub struct Hazards {
    smaps: File,
    mountinfo: File,
}

impl Hazards {
    /// Opens the files, by PID: see with [`AddressSpace::is_gone`] afterwards that they were about this address space.
    ///
    /// Both opening and reading them may wait for the target, which decides how long its maps are locked: opening does
    /// when it is in the midst of an exec.
    ///
    /// # Errors
    /// What open(2) says.
    pub fn of(space: &AddressSpace) -> io::Result<Hazards> {
        Ok(Hazards { smaps: space.open_beside("smaps")?, mountinfo: space.open_beside("mountinfo")? })
    }

    /// Takes files that another process has opened.
    pub fn from_files(smaps: OwnedFd, mountinfo: OwnedFd) -> Hazards {
        Hazards { smaps: smaps.into(), mountinfo: mountinfo.into() }
    }

    /// The two files of [`Hazards::from_files`], in its order.
    pub fn files(&self) -> [BorrowedFd<'_>; 2] {
        [self.smaps.as_fd(), self.mountinfo.as_fd()]
    }

    /// Refuses buffers of which user space serves a page.
    ///
    /// # Errors
    /// [`BadBuffer::Userfaultfd`], [`BadBuffer::Fuse`], [`BadBuffer::UnknownFile`], and [`BadBuffer::Hazards`].
    pub fn check(&self, buffers: &[TargetBuffer]) -> Result<(), BadBuffer> {
        let ranges: Vec<Range<u64>> = buffers.iter().map(TargetBuffer::range).collect();
        let unread = |source| BadBuffer::Hazards { source };
        if let Some(Range { start, end }) =
            served_by_user_space(text(&self.smaps).map_err(unread)?, &ranges).map_err(unread)?.cloned()
        {
            return Err(BadBuffer::Userfaultfd { start, end });
        }
        if buffers.iter().all(|buffer| buffer.devices().is_empty()) {
            return Ok(());
        }
        let mut mounted = FileSystems::default();
        mounted.read(text(&self.mountinfo).map_err(unread)?).map_err(unread)?;
        // In a container on an older kernel, maps name the file system below its overlay, which only the host mounts.
        mounted.read(BufReader::new(File::open("/proc/self/mountinfo").map_err(unread)?)).map_err(unread)?;
        let of_kernel = memory_devices();
        for buffer in buffers {
            let Range { start, end } = buffer.range();
            for device in buffer.devices() {
                match mounted.server(*device) {
                    Some(Server::UserSpace) => return Err(BadBuffer::Fuse { start, end }),
                    None if !of_kernel.contains(device) => return Err(BadBuffer::UnknownFile { start, end }),
                    Some(Server::Kernel) | None => {}
                }
            }
        }
        Ok(())
    }
}

/// A file of /proc from its first byte.
fn text(mut file: &File) -> io::Result<BufReader<&File>> {
    file.rewind()?;
    Ok(BufReader::with_capacity(64 * 1024, file))
}

/// The first range of which smaps say that user space serves its page faults.
fn served_by_user_space(mut smaps: impl BufRead, ranges: &[Range<u64>]) -> io::Result<Option<&Range<u64>>> {
    let last = ranges.iter().map(|range| range.end).max().unwrap_or(0);
    let mut line = Vec::new();
    let mut inside = None;
    while next_line(&mut smaps, &mut line)? {
        if let Some(flags) = line.strip_prefix(b"VmFlags:") {
            let mut flags = flags.split(|byte| *byte == b' ');
            // um, uw, ui: missing, write-protect and minor faults, as fs/proc/task_mmu.c names them.
            if inside.is_some() && flags.any(|flag| matches!(flag, b"um" | b"uw" | b"ui")) {
                return Ok(inside);
            }
        } else if let Ok([entry]) = maps::parse(&line).as_deref() {
            // The kernel walks the pages of each mapping for its text: no more of them than needed.
            if entry.start >= last {
                break;
            }
            inside = ranges.iter().find(|range| entry.start < range.end && entry.end > range.start);
        }
    }
    Ok(None)
}

/// Reads a line without its end; false after the last one.
fn next_line(text: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    match text.read_until(b'\n', line) {
        Ok(0) => Ok(false),
        Ok(_) => {
            line.pop_if(|byte| *byte == b'\n');
            Ok(true)
        }
        // The process has exited.
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Who fills the pages of a file system's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Server {
    Kernel,
    UserSpace,
}

/// File systems by device.
///
/// Source: proc_pid_mountinfo(5).
#[derive(Default)]
struct FileSystems(BTreeMap<Device, Server>);

impl FileSystems {
    /// Adds those of a mountinfo; passes over what is no line of one.
    fn read(&mut self, mut mountinfo: impl BufRead) -> io::Result<()> {
        let mut line = Vec::new();
        while next_line(&mut mountinfo, &mut line)? {
            self.0.extend(file_system(&line));
        }
        Ok(())
    }

    fn server(&self, device: Device) -> Option<Server> {
        self.0.get(&device).copied()
    }
}

fn file_system(line: &[u8]) -> Option<(Device, Server)> {
    let mut fields = line.split(|byte| *byte == b' ');
    let (major, minor) = std::str::from_utf8(fields.nth(2)?).ok()?.split_once(':')?;
    let device = (major.parse().ok()?, minor.parse().ok()?);
    // Optional fields end at a single hyphen. Blanks in paths are written as \040.
    let kind = fields.skip(3).skip_while(|field| *field != b"-").nth(1)?;
    let server = if kind.starts_with(b"fuse") { Server::UserSpace } else { Server::Kernel };
    Some((device, server))
}

/// Devices of the kernel's own file systems, mounted nowhere, that memfds, `MAP_HUGETLB` and System V shared memory
/// lie on. Names such as `/memfd:` tell nothing: a FUSE server may name its files so.
fn memory_devices() -> BTreeSet<Device> {
    let sizes =
        [MemfdFlags::HUGETLB, MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB, MemfdFlags::HUGETLB | MemfdFlags::HUGE_1GB];
    let kinds = sizes.into_iter().chain([MemfdFlags::empty()]);
    let devices = kinds.filter_map(|kind| {
        // A page size that the machine has not is refused.
        let memfd = rustix::fs::memfd_create("profil", kind | MemfdFlags::CLOEXEC).ok()?;
        let device = rustix::fs::fstat(&memfd).ok()?.st_dev;
        Some((rustix::fs::major(device), rustix::fs::minor(device)))
    });
    devices.collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn user_space_serves_only_what_is_marked() {
        let smaps = b"1000-2000 rw-p 00000000 00:00 0 \nSize: 4 kB\nVmFlags: rd wr mr mw me ac sd \n\
                      2000-3000 rw-p 00000000 00:00 0 \nSize: 4 kB\nVmFlags: rd wr mr mw me um ac sd \n";
        let found = |range: Range<u64>| served_by_user_space(&smaps[..], &[range]).expect("bytes").is_some();
        assert!(!found(0x1000..0x2000));
        assert!(found(0x1ffe..0x2002));
        assert!(found(0x2ffe..0x3002));
        assert!(!found(0x3000..0x3002));
        let both = [0x1000..0x1002, 0x2800..0x2802];
        assert_eq!(served_by_user_space(&smaps[..], &both).expect("bytes"), Some(&both[1]));
    }

    #[test]
    fn fuse_is_told_by_its_type() {
        let text = b"42 27 0:39 / /home/a\\040b rw,relatime - fuse t rw,user_id=0\n\
                     43 27 0:40 / /mnt rw,relatime shared:7 master:2 - fuse.sshfs host: rw\n\
                     44 27 8:16 / /fuse rw - fuseblk /dev/sdb rw\n\
                     27 1 254:0 / / rw,relatime shared:1 - ext4 fuse rw\n\
                     45 27 0:41 / /fuse - overlay rw - overlay fuse rw\n";
        let mut mounted = FileSystems::default();
        mounted.read(&text[..]).expect("bytes");
        for device in [(0, 39), (0, 40), (8, 16)] {
            assert_eq!(mounted.server(device), Some(Server::UserSpace), "{device:?}");
        }
        assert_eq!(mounted.server((254, 0)), Some(Server::Kernel));
        assert_eq!(mounted.server((0, 42)), None);
    }

    #[test]
    fn private_memory_of_a_memfd_is_taken() {
        let memfd = rustix::fs::memfd_create("buffer", MemfdFlags::CLOEXEC).expect("a memfd");
        let device = rustix::fs::fstat(&memfd).expect("an open file").st_dev;
        assert!(memory_devices().contains(&(rustix::fs::major(device), rustix::fs::minor(device))));
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_readers_panic(text in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = FileSystems::default().read(&text[..]);
            let _ = served_by_user_space(&text[..], std::slice::from_ref(&(0..10)));
        }
    }
}
