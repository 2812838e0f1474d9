//! Another process's address space, pinned at the moment of the request.
//!
//! `/proc/PID/mem` and `/proc/PID/maps`, once open, belong to the address space and not to the PID: after an exec
//! or when the PID is used again they reach nothing at all. `process_vm_writev` by PID reached the new image before
//! the exec hook fired in 299 of 301 execs (measured), so it is never used.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::ops;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt};

use rustix::fs::{Mode, OFlags};

use crate::maps::{self, MapEntry, MapsError};
use crate::process::TargetProcess;

/// An address space that cannot be opened or read.
#[derive(Debug, thiserror::Error)]
pub enum AddressSpaceError {
    /// A file of /proc cannot be opened.
    #[error("cannot open {path}")]
    Open {
        /// The file.
        path: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The process ended while its address space was being opened.
    #[error("process {tgid} has exited")]
    Exited {
        /// The process.
        tgid: u32,
    },
    /// The maps cannot be read.
    #[error("cannot read the maps of process {tgid}")]
    Maps {
        /// The process.
        tgid: u32,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The maps are not in the kernel's form.
    #[error("cannot understand the maps of process {tgid}")]
    Malformed {
        /// The process.
        tgid: u32,
        /// Where.
        #[source]
        source: MapsError,
    },
}

/// What a range of an address space is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Mapped private and writable from end to end.
    Writable,
    /// Something is mapped everywhere, but not all of it may be written.
    ReadOnly,
    /// Something in it is shared with other processes, or with a file.
    Shared,
    /// Something in it is not mapped.
    Unmapped,
    /// The address space is gone: the process has exited, or runs another program.
    Gone,
}

/// Major and minor number of a device.
pub type Device = (u32, u32);

/// What a range of an address space is good for, and on what it lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survey {
    /// What it is good for.
    pub access: Access,
    /// The file systems whose files are mapped in it; not all of them unless it is private memory from end to end.
    pub devices: BTreeSet<Device>,
}

/// What an address space is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Nothing is written to it.
    Look,
    /// A buffer in it is written.
    Write,
}

/// An address space, whatever becomes of its process.
#[derive(Debug)]
pub struct AddressSpace {
    tgid: u32,
    /// In /proc: that of the process, or of the thread that the files were opened through.
    directory: String,
    /// Only where something is to be written: it takes rights, and gives some.
    mem: Option<File>,
    maps: File,
}

impl AddressSpace {
    /// Pins the address space that a process has now.
    ///
    /// # Errors
    /// [`AddressSpaceError::Open`]: `ENOENT` for no such process, `EACCES` without `CAP_SYS_PTRACE`.
    pub fn open(tgid: u32, purpose: Purpose) -> Result<AddressSpace, AddressSpaceError> {
        AddressSpace::open_in(tgid, format!("/proc/{tgid}"), purpose)
    }

    /// Pins the address space that a target has now, and makes sure that it is that of the target and not of a
    /// process that has got its PID.
    ///
    /// A process whose first thread has ended while others run has none under its own name: then one of theirs is
    /// opened, which is the same.
    ///
    /// # Errors
    /// As [`AddressSpace::open`], and [`AddressSpaceError::Exited`].
    pub fn of(target: &TargetProcess, purpose: Purpose) -> Result<AddressSpace, AddressSpaceError> {
        let tgid = target.pid();
        let mut space = AddressSpace::open(tgid, purpose).and_then(AddressSpace::alive);
        if space.is_err() {
            let threads = target.threads().unwrap_or_default().into_iter();
            let mut others = threads.map(|tid| {
                let directory = format!("/proc/{tgid}/task/{tid}");
                AddressSpace::open_in(tgid, directory, purpose).and_then(AddressSpace::alive)
            });
            space = others.find(Result::is_ok).unwrap_or(space);
        }
        if target.is_same() { space } else { Err(AddressSpaceError::Exited { tgid }) }
    }

    /// An address space that another process has opened.
    pub fn from_files(tgid: u32, mem: OwnedFd, maps: OwnedFd) -> AddressSpace {
        AddressSpace { tgid, directory: format!("/proc/{tgid}"), mem: Some(mem.into()), maps: maps.into() }
    }

    /// The two files of [`AddressSpace::from_files`], in its order.
    ///
    /// # Errors
    /// `EBADF` when it was opened for a look only.
    pub fn files(&self) -> io::Result<[BorrowedFd<'_>; 2]> {
        Ok([self.memory()?.as_fd(), self.maps.as_fd()])
    }

    /// The process whose address space it was when it was opened.
    pub fn tgid(&self) -> u32 {
        self.tgid
    }

    /// Opens another file of the process.
    ///
    /// This asks by PID, unlike all else: see with [`AddressSpace::is_gone`] afterwards that the file was about this
    /// address space.
    ///
    /// # Errors
    /// What open(2) says.
    pub fn open_beside(&self, name: &str) -> io::Result<File> {
        File::open(format!("{}/{name}", self.directory))
    }

    /// As [`AddressSpace::of`] for a buffer, without a look at any mapping: a program can keep those who look waiting, by
    /// a page fault of its own that is never served.
    ///
    /// # Errors
    /// As [`AddressSpace::open`], and [`AddressSpaceError::Exited`].
    pub fn unseen(target: &TargetProcess) -> Result<AddressSpace, AddressSpaceError> {
        let tgid = target.pid();
        let threads = || target.threads().unwrap_or_default().into_iter();
        // A first thread that has ended has no address space to open, and is in nobody's way.
        let thread = if target.leader_has_ended() { threads().find(|tid| *tid != tgid) } else { None };
        let directory = thread.map_or_else(|| format!("/proc/{tgid}"), |tid| format!("/proc/{tgid}/task/{tid}"));
        let space = AddressSpace::open_in(tgid, directory, Purpose::Write)?;
        if target.is_same() { Ok(space) } else { Err(AddressSpaceError::Exited { tgid }) }
    }

    fn alive(self) -> Result<AddressSpace, AddressSpaceError> {
        if self.is_gone() { Err(AddressSpaceError::Exited { tgid: self.tgid }) } else { Ok(self) }
    }

    fn open_in(tgid: u32, directory: String, purpose: Purpose) -> Result<AddressSpace, AddressSpaceError> {
        let open = |name: &str, flags| {
            let path = format!("{directory}/{name}");
            rustix::fs::open(&path, flags | OFlags::CLOEXEC, Mode::empty())
                .map(File::from)
                .map_err(|source| AddressSpaceError::Open { path, source: source.into() })
        };
        let maps = open("maps", OFlags::RDONLY)?;
        let mem = match purpose {
            Purpose::Look => None,
            Purpose::Write => Some(open("mem", OFlags::RDWR)?),
        };
        Ok(AddressSpace { tgid, directory, mem, maps })
    }

    /// A second handle on the same address space.
    ///
    /// # Errors
    /// [`AddressSpaceError::Open`]: what dup(2) says.
    pub fn try_clone(&self) -> Result<AddressSpace, AddressSpaceError> {
        let AddressSpace { tgid, directory, mem, maps } = self;
        let open = |name: &str, file: &File| {
            file.try_clone().map_err(|source| AddressSpaceError::Open { path: format!("{directory}/{name}"), source })
        };
        Ok(AddressSpace {
            tgid: *tgid,
            directory: directory.clone(),
            mem: mem.as_ref().map(|mem| open("mem", mem)).transpose()?,
            maps: open("maps", maps)?,
        })
    }

    /// All mappings; empty when the address space is gone.
    ///
    /// # Errors
    /// [`AddressSpaceError`].
    pub fn mappings(&self) -> Result<Vec<MapEntry>, AddressSpaceError> {
        let tgid = self.tgid;
        let text = read_from_start(&self.maps).map_err(|source| AddressSpaceError::Maps { tgid, source })?;
        maps::parse(&text).map_err(|source| AddressSpaceError::Malformed { tgid, source })
    }

    /// Whether the address space is gone.
    pub fn is_gone(&self) -> bool {
        // A live address space has mappings, and its maps are never empty.
        let mut byte = [0];
        matches!(self.maps.read_at(&mut byte, 0), Ok(0) | Err(_))
    }

    /// The user who may look into the process: root where it has rights of its own, by its set-uid or set-gid bit or by
    /// capabilities of its file, or does not want to be looked into.
    ///
    /// # Errors
    /// What fstat(2) says.
    pub fn owner(&self) -> io::Result<u32> {
        self.maps.metadata().map(|metadata| metadata.uid())
    }

    /// What can be done with a range at this moment.
    ///
    /// # Errors
    /// As [`AddressSpace::survey`].
    pub fn access(&self, range: ops::Range<u64>) -> Result<Access, AddressSpaceError> {
        self.survey(range).map(|survey| survey.access)
    }

    /// What can be done with a range at this moment, and on what it lies.
    ///
    /// Asks the kernel for the mapping at an address (Linux 6.11) and reads all maps where that is not offered.
    ///
    /// # Errors
    /// [`AddressSpaceError`].
    pub fn survey(&self, range: ops::Range<u64>) -> Result<Survey, AddressSpaceError> {
        let mut address = range.start;
        let mut devices = BTreeSet::new();
        let mut access = Access::Writable;
        while address < range.end {
            match self.query(address) {
                Ok(Query::Mapped { shared: true, .. }) => return Ok(Survey { access: Access::Shared, devices }),
                Ok(Query::Mapped { end, writable, device, .. }) => {
                    if !writable {
                        access = Access::ReadOnly;
                    }
                    devices.extend(device);
                    address = end;
                }
                Ok(Query::Unmapped) => return Ok(Survey { access: Access::Unmapped, devices }),
                Ok(Query::Gone) => return Ok(Survey { access: Access::Gone, devices }),
                Err(error) if error.raw_os_error() == Some(libc::ENOTTY) => {
                    return self.mappings().map(|mappings| survey_by_maps(&mappings, &range));
                }
                Err(source) => return Err(AddressSpaceError::Maps { tgid: self.tgid, source }),
            }
        }
        Ok(Survey { access, devices })
    }

    /// The mapping that covers an address, by the `PROCMAP_QUERY` ioctl.
    fn query(&self, address: u64) -> io::Result<Query> {
        let mut query =
            ProcmapQuery { size: size_of::<ProcmapQuery>() as u64, query_addr: address, ..ProcmapQuery::default() };
        // SAFETY: the structure is the kernel's, says its own size, and asks for no name or build ID, so that the
        // kernel writes to nothing but it.
        let done = unsafe { libc::ioctl(self.maps.as_raw_fd(), PROCMAP_QUERY, &raw mut query) };
        if done == 0 {
            let writable = query.vma_flags & PROCMAP_QUERY_VMA_WRITABLE != 0;
            let shared = query.vma_flags & PROCMAP_QUERY_VMA_SHARED != 0;
            let device = file_device((query.dev_major, query.dev_minor));
            return Ok(Query::Mapped { end: query.vma_end, writable, shared, device });
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::ENOENT) => Ok(Query::Unmapped),
            Some(libc::ESRCH) => Ok(Query::Gone),
            _ => Err(error),
        }
    }

    /// Reads memory; the number of bytes is short where the mapping ends, and 0 where nothing is mapped.
    ///
    /// # Errors
    /// `EIO` when the first byte is not mapped.
    pub fn read_at(&self, buffer: &mut [u8], address: u64) -> io::Result<usize> {
        self.memory()?.read_at(buffer, address)
    }

    /// Writes memory, read-only pages included: ask [`AddressSpace::access`] first.
    ///
    /// Returns 0 when the address space is gone.
    ///
    /// # Errors
    /// `EIO` when the first byte is not mapped.
    pub fn write_at(&self, bytes: &[u8], address: u64) -> io::Result<usize> {
        self.memory()?.write_at(bytes, address)
    }

    fn memory(&self) -> io::Result<&File> {
        self.mem.as_ref().ok_or_else(|| io::Error::from_raw_os_error(libc::EBADF))
    }
}

enum Query {
    Mapped { end: u64, writable: bool, shared: bool, device: Option<Device> },
    Unmapped,
    Gone,
}

/// `_IOWR('f', 17, struct procmap_query)`.
const PROCMAP_QUERY: libc::c_ulong = 3 << 30 | (size_of::<ProcmapQuery>() as libc::c_ulong) << 16 | 0x66 << 8 | 17;
const PROCMAP_QUERY_VMA_WRITABLE: u64 = 0x02;
const PROCMAP_QUERY_VMA_SHARED: u64 = 0x08;

/// `struct procmap_query` of include/uapi/linux/fs.h (Linux 6.11).
#[repr(C)]
#[derive(Default)]
struct ProcmapQuery {
    size: u64,
    query_flags: u64,
    query_addr: u64,
    vma_start: u64,
    vma_end: u64,
    vma_flags: u64,
    vma_page_size: u64,
    vma_offset: u64,
    inode: u64,
    dev_major: u32,
    dev_minor: u32,
    vma_name_size: u32,
    build_id_size: u32,
    vma_name_addr: u64,
    build_id_addr: u64,
}

/// The device of a mapping that a file stands behind. Only the device tells: a file may say that its inode is 0.
fn file_device(device: Device) -> Option<Device> {
    (device != (0, 0)).then_some(device)
}

fn survey_by_maps(mappings: &[MapEntry], range: &ops::Range<u64>) -> Survey {
    let mut devices = BTreeSet::new();
    if mappings.is_empty() {
        return Survey { access: Access::Gone, devices };
    }
    let mut address = range.start;
    let mut access = Access::Writable;
    for entry in mappings.iter().skip_while(|entry| entry.end <= range.start) {
        if address >= range.end {
            break;
        }
        if entry.start > address {
            return Survey { access: Access::Unmapped, devices };
        }
        if entry.shared {
            return Survey { access: Access::Shared, devices };
        }
        if !entry.writable {
            access = Access::ReadOnly;
        }
        devices.extend(file_device(entry.device));
        address = entry.end;
    }
    Survey { access: if address < range.end { Access::Unmapped } else { access }, devices }
}

/// Reads a file of /proc from its first byte; the kernel makes its text anew at offset 0.
fn read_from_start(file: &File) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    let mut block = vec![0; 64 * 1024];
    loop {
        match file.read_at(&mut block, text.len() as u64) {
            Ok(0) => return Ok(text),
            Ok(length) => text.extend_from_slice(&block[..length]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // The process has exited.
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Ok(text),
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> AddressSpace {
        AddressSpace::open(std::process::id(), Purpose::Write).expect("a process may open its own memory")
    }

    #[test]
    fn a_heap_buffer_is_writable_and_text_is_not() {
        let buffer = vec![0u8; 1 << 20];
        let start = buffer.as_ptr() as u64;
        let space = own();
        assert_eq!(space.access(start..start + (1 << 20)).expect("own maps"), Access::Writable);
        let text = own as *const () as u64;
        assert_eq!(space.access(text..text + 2).expect("own maps"), Access::ReadOnly);
        assert_eq!(space.access(16..18).expect("own maps"), Access::Unmapped);
    }

    #[test]
    fn both_ways_to_ask_agree() {
        let space = own();
        let agree = || {
            let mappings = space.mappings().expect("own maps");
            let ours = mappings.iter().filter(|entry| entry.path.as_encoded_bytes() != b"[vsyscall]");
            ours.map(|entry| entry.start..entry.end)
                .all(|range| space.survey(range.clone()).expect("own maps") == survey_by_maps(&mappings, &range))
        };
        // Other tests of this process map and unmap memory in between the two questions.
        assert!((0..1000).any(|_| agree()));
    }

    #[test]
    fn a_range_that_runs_over_the_end_of_a_mapping_is_unmapped() {
        let entry = |start, end| {
            let line = format!("{start:x}-{end:x} rw-p 00000000 00:00 0\n");
            maps::parse(line.as_bytes()).expect("a line of maps").remove(0)
        };
        let mappings = [entry(0x1000, 0x2000), entry(0x2000, 0x3000), entry(0x5000, 0x6000)];
        assert_eq!(survey_by_maps(&mappings, &(0x1800..0x2800)).access, Access::Writable);
        assert_eq!(survey_by_maps(&mappings, &(0x2800..0x3001)).access, Access::Unmapped);
        assert_eq!(survey_by_maps(&mappings, &(0x800..0x1001)).access, Access::Unmapped);
        assert_eq!(survey_by_maps(&[], &(0x800..0x1001)).access, Access::Gone);
    }
}
