//! What the kernel says of address spaces as they change: mappings, execs, forks, of every process on the host.
//!
//! One dummy perf event for each CPU, the way perf itself follows mappings: exact for processes that live for a
//! millisecond, which are gone before their `/proc/PID/maps` can be read. `munmap` is not reported; a later mapping
//! replaces what it overlaps.

mod record;
mod ring;

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use perf_event_open_sys::bindings::{
    PERF_COUNT_SW_DUMMY, PERF_FLAG_FD_CLOEXEC, PERF_SAMPLE_TID, PERF_SAMPLE_TIME, PERF_TYPE_SOFTWARE, perf_event_attr,
};
use perf_event_open_sys::{ioctls, perf_event_open};

pub use record::{Mapped, Record, RecordKind};
use ring::Ring;

/// Pages of one CPU's ring: 1 MiB, 7,000 mappings between two drains.
const RING_PAGES: usize = 256;

/// Bytes of the largest record: a mapping of a file with the longest path that there can be.
const LARGEST_RECORD: usize = 4096 + 256;

/// The stream of changes cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum SidebandError {
    /// perf_event_open(2) failed.
    #[error("cannot open a perf event for mappings on CPU {cpu}")]
    Open {
        /// The CPU.
        cpu: u32,
        /// What the system said; `EACCES` and `EPERM` when the caller lacks `CAP_PERFMON`.
        #[source]
        source: io::Error,
    },
    /// The ring cannot be mapped.
    #[error("cannot map the perf ring of CPU {cpu}, {bytes} bytes")]
    Map {
        /// The CPU.
        cpu: u32,
        /// Size of the ring.
        bytes: usize,
        /// What the system said; `EPERM` when `kernel.perf_event_mlock_kb` and RLIMIT_MEMLOCK are too low.
        #[source]
        source: io::Error,
    },
}

/// The open stream.
pub struct Sideband {
    rings: Vec<(OwnedFd, Ring)>,
    lost: u64,
    gaps: u64,
}

impl Sideband {
    /// Opens the stream on CPUs, enabled at once. CPUs that are offline are passed over.
    ///
    /// # Errors
    /// [`SidebandError`].
    ///
    /// # Minimum kernel
    /// 4.1; build IDs in place of inodes from 5.12.
    pub fn open(cpus: &[u32]) -> Result<Sideband, SidebandError> {
        let mut rings = Vec::with_capacity(cpus.len());
        for &cpu in cpus {
            let fd = match open_event(cpu, BuildIds::Asked) {
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => open_event(cpu, BuildIds::Unknown),
                other => other,
            };
            let fd = match fd {
                Ok(fd) => fd,
                Err(error) if error.raw_os_error() == Some(libc::ENODEV) => continue,
                Err(source) => return Err(SidebandError::Open { cpu, source }),
            };
            let bytes = RING_PAGES * rustix::param::page_size();
            let ring = Ring::new(fd.as_fd(), bytes).map_err(|source| SidebandError::Map { cpu, bytes, source })?;
            // SAFETY: the descriptor is open, and the argument is a plain number.
            if unsafe { ioctls::ENABLE(fd.as_raw_fd(), 0) } != 0 {
                return Err(SidebandError::Open { cpu, source: io::Error::last_os_error() });
            }
            rings.push((fd, ring));
        }
        Ok(Sideband { rings, lost: 0, gaps: 0 })
    }

    /// Records since the last call, of all CPUs, in the order of their time.
    pub fn drain(&mut self) -> Vec<Record> {
        let mut records = Vec::new();
        for (_, ring) in &mut self.rings {
            let lost_before = self.lost;
            let free = ring.drain(|kind, misc, body| match Record::parse(kind, misc, body) {
                Some(Record { kind: RecordKind::Lost { records }, .. }) => self.lost += records,
                Some(record) => records.push(record),
                None => {}
            });
            // The kernel tells of a loss with the next record that it has room for, which may be that of the exit.
            self.gaps += u64::from(free < LARGEST_RECORD || self.lost > lost_before);
        }
        // Each ring is in order, and so is their merge; a stable sort keeps the order within one instant.
        records.sort_by_key(|record| record.time_ns);
        records
    }

    /// Times that records were lost, or that a ring was so full that some may have been: a number that only grows.
    pub fn gaps(&self) -> u64 {
        self.gaps
    }

    /// Records that the kernel had no room for, so far.
    pub fn lost(&self) -> u64 {
        self.lost
    }
}

/// Whether mappings carry the build ID of their file in place of its inode.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BuildIds {
    Asked,
    Unknown,
}

fn open_event(cpu: u32, build_ids: BuildIds) -> io::Result<OwnedFd> {
    let mut attr = perf_event_attr {
        size: size_of::<perf_event_attr>() as u32,
        type_: PERF_TYPE_SOFTWARE,
        config: PERF_COUNT_SW_DUMMY.into(),
        sample_type: (PERF_SAMPLE_TID | PERF_SAMPLE_TIME).into(),
        clockid: libc::CLOCK_MONOTONIC,
        ..perf_event_attr::default()
    };
    attr.set_disabled(1);
    attr.set_mmap(1);
    attr.set_mmap2(1);
    attr.set_comm(1);
    attr.set_comm_exec(1);
    attr.set_task(1);
    attr.set_sample_id_all(1);
    attr.set_use_clockid(1);
    attr.set_build_id((build_ids == BuildIds::Asked).into());
    // SAFETY: attr is a valid attribute structure of the size that it states; the kernel copies it.
    let fd = unsafe { perf_event_open(&mut attr, -1, cpu as i32, -1, PERF_FLAG_FD_CLOEXEC.into()) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    #[expect(clippy::print_stderr, reason = "a skipped test says so")]
    fn a_program_of_a_millisecond_leaves_its_mappings() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("SKIP: a_program_of_a_millisecond_leaves_its_mappings: not root");
            return;
        }
        let cpus = aya::util::online_cpus().expect("the list of CPUs");
        let mut sideband = Sideband::open(&cpus).expect("root may open perf events");
        let mut child = Command::new("/bin/true").spawn().expect("/bin/true");
        let pid = child.id();
        child.wait().expect("the child ends");
        let records: Vec<Record> = sideband.drain().into_iter().filter(|record| record.pid == pid).collect();
        let execs = records.iter().filter(|record| matches!(record.kind, RecordKind::Exec { .. })).count();
        assert_eq!(execs, 1, "{records:?}");
        let libc = records.iter().find_map(|record| match &record.kind {
            RecordKind::Mapped(mapped) if mapped.path.ends_with(b"/libc.so.6") => Some(mapped),
            _ => None,
        });
        let libc = libc.unwrap_or_else(|| panic!("no mapping of libc in {records:?}"));
        assert!(libc.build_id.is_some() || libc.inode.is_some(), "{libc:?}");
        assert!(records.is_sorted_by_key(|record| record.time_ns));
    }
}
