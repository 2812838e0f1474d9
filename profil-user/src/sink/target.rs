//! The target's own buffer: bins are added to the counters that are there, as profil(2) does.

use std::collections::BTreeSet;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use super::hazards::Hazards;
use crate::address_space::{Access, AddressSpace, AddressSpaceError, Device};
use crate::bins::Run;

/// Runs that are written before the maps are asked again.
const RUNS_PER_CHECK: usize = 64;

/// Bytes of one counter in the target's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// 16 bits, as profil(2) has them.
    Two,
    /// 32 bits, as sprofil(3) has them with `PROF_UINT`.
    Four,
}

impl Width {
    /// Bytes.
    pub const fn bytes(self) -> u32 {
        match self {
            Width::Two => 2,
            Width::Four => 4,
        }
    }
}

/// What a counter does that would count further than its width goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtLimit {
    /// It starts again from 0, as profil(2) has it.
    Wrap,
    /// It keeps its largest value, as sprofil(3) has it.
    Saturate,
}

/// A buffer that cannot take bins: the caller's `EFAULT`.
#[derive(Debug, thiserror::Error)]
pub enum BadBuffer {
    /// Part of the range is not mapped.
    #[error("the buffer {start:#x}..{end:#x} is not all mapped")]
    Unmapped {
        /// First byte.
        start: u64,
        /// First byte past the end.
        end: u64,
    },
    /// Part of the range is read-only.
    #[error("the buffer {start:#x}..{end:#x} is not all writable")]
    ReadOnly {
        /// First byte.
        start: u64,
        /// First byte past the end.
        end: u64,
    },
    /// Part of the range is shared with other processes or a file.
    #[error("the buffer {start:#x}..{end:#x} lies in shared memory; only private memory of the target is written")]
    Shared {
        /// First byte.
        start: u64,
        /// First byte past the end.
        end: u64,
    },
    /// User space serves page faults in the range.
    #[error("the buffer {start:#x}..{end:#x} is served by userfaultfd; a write to it could block for ever")]
    Userfaultfd {
        /// First byte.
        start: u64,
        /// First byte past the end.
        end: u64,
    },
    /// A file system that user space serves holds a file of the range.
    #[error("the buffer {start:#x}..{end:#x} lies in a file of a FUSE file system; a write to it could block for ever")]
    Fuse {
        /// First byte.
        start: u64,
        /// First byte past the end.
        end: u64,
    },
    /// Nobody knows who serves a file of the range: its file system is mounted neither where the target is nor here.
    #[error(
        "the buffer {start:#x}..{end:#x} lies in a file of an unknown file system; a write to it could block for ever"
    )]
    UnknownFile {
        /// First byte.
        start: u64,
        /// First byte past the end.
        end: u64,
    },
    /// The process is gone.
    #[error("the process has exited or runs another program")]
    Gone,
    /// The range runs over the end of the address space.
    #[error("the buffer at {start:#x} of {bytes} bytes runs over the end of the address space")]
    Wraps {
        /// First byte.
        start: u64,
        /// Size.
        bytes: u64,
    },
    /// The maps cannot be read.
    #[error(transparent)]
    Maps(#[from] AddressSpaceError),
    /// The range cannot be checked for userfaultfd and FUSE.
    #[error("cannot read the memory flags and the mounts of the process")]
    Hazards {
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

/// Why a buffer took no more bins. Profiling into it is off from then on; the target is told nothing, as the manual
/// pages have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Part of the buffer is not mapped any more.
    Unmapped,
    /// Part of the buffer is not writable any more.
    ReadOnly,
    /// Part of the buffer is shared memory now.
    Shared,
    /// A file of a file system that was not checked is mapped over part of the buffer now.
    Foreign,
    /// The kernel refused to read or write it, although the maps show it writable: its pages are served by user
    /// space, or lie behind the end of a file.
    Refused,
    /// The maps of the process cannot be read any more, so that nobody knows whether the buffer may be written.
    Unknown,
    /// A write to the buffer took so long that whoever waited for it was killed: its pages or the maps of the process
    /// are kept busy.
    Stalled,
    /// The process has exited or runs another program.
    Gone,
}

impl std::fmt::Display for Loss {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Loss::Unmapped => "the buffer was unmapped",
            Loss::ReadOnly => "the buffer was made read-only",
            Loss::Shared => "shared memory was mapped over the buffer",
            Loss::Foreign => "a file was mapped over the buffer",
            Loss::Refused => "the kernel cannot write to the buffer any more",
            Loss::Unknown => "the maps of the process cannot be read any more",
            Loss::Stalled => "a write to the buffer took too long",
            Loss::Gone => "the process has exited or runs another program",
        })
    }
}

/// A target's buffer, open for adding.
#[derive(Debug)]
pub struct TargetBuffer {
    space: Arc<AddressSpace>,
    start: u64,
    end: u64,
    width: Width,
    at_limit: AtLimit,
    /// File systems that may lie beneath the buffer.
    devices: BTreeSet<Device>,
}

impl TargetBuffer {
    /// Takes a buffer of `nbins` counters at `start`, after checking that all of it is private writable memory that
    /// nobody in user space serves. Its counters wrap.
    ///
    /// # Errors
    /// [`BadBuffer`].
    pub fn new(space: AddressSpace, start: u64, nbins: u32, width: Width) -> Result<TargetBuffer, BadBuffer> {
        let hazards = Hazards::of(&space).map_err(|source| BadBuffer::Hazards { source })?;
        let buffer = TargetBuffer::surveyed(Arc::new(space), start, nbins, width)?;
        hazards.check(std::slice::from_ref(&buffer))?;
        Ok(buffer)
    }

    /// As [`TargetBuffer::new`], but leaves the check for [`Hazards`] to the caller, who has more buffers to check.
    ///
    /// # Errors
    /// [`BadBuffer`].
    pub fn surveyed(space: Arc<AddressSpace>, start: u64, nbins: u32, width: Width) -> Result<TargetBuffer, BadBuffer> {
        let Range { start, end } = range(start, nbins, width)?;
        let survey = space.survey(start..end)?;
        match survey.access {
            Access::Writable => {}
            Access::ReadOnly => return Err(BadBuffer::ReadOnly { start, end }),
            Access::Shared => return Err(BadBuffer::Shared { start, end }),
            Access::Unmapped => return Err(BadBuffer::Unmapped { start, end }),
            Access::Gone => return Err(BadBuffer::Gone),
        }
        Ok(TargetBuffer { space, start, end, width, at_limit: AtLimit::Wrap, devices: survey.devices })
    }

    /// Takes a buffer that was checked before and lay on files of these devices only. Does not look at the target.
    ///
    /// # Errors
    /// [`BadBuffer::Wraps`].
    pub fn checked_before(
        space: Arc<AddressSpace>,
        start: u64,
        nbins: u32,
        width: Width,
        devices: BTreeSet<Device>,
    ) -> Result<TargetBuffer, BadBuffer> {
        let Range { start, end } = range(start, nbins, width)?;
        Ok(TargetBuffer { space, start, end, width, at_limit: AtLimit::Wrap, devices })
    }

    /// The same buffer, with counters that do as said.
    pub fn at_limit(self, at_limit: AtLimit) -> TargetBuffer {
        TargetBuffer { at_limit, ..self }
    }

    /// First byte, and first byte past the end (AVMA).
    pub fn range(&self) -> Range<u64> {
        self.start..self.end
    }

    /// The file systems whose files lay beneath it when it was checked.
    pub fn devices(&self) -> &BTreeSet<Device> {
        &self.devices
    }

    /// Adds runs of bins to the counters. Returns the ticks written, and why not all were.
    ///
    /// Only the counters of the runs are touched. A counter that the target changes between our read and our write,
    /// a few microseconds apart, keeps our value: a buffer cleared just then may keep a count of before. In the same
    /// way a write can still meet a buffer that is made read-only or unmapped within those microseconds.
    pub fn add(&self, runs: &[Run]) -> (u64, Option<Loss>) {
        let mut written = 0;
        // Between two questions few enough runs are written that the answer is no older than some tens of
        // microseconds, and many enough that the question, which is all of maps before Linux 6.11, costs little.
        for runs in runs.chunks(RUNS_PER_CHECK) {
            if let Some(loss) = self.loss() {
                return (written, Some(loss));
            }
            for run in runs {
                if !self.add_run(run) {
                    // The maps know why, unless the pages themselves cannot be had.
                    return (written, Some(self.loss().unwrap_or(Loss::Refused)));
                }
                written += run.added.iter().map(|added| u64::from(*added)).sum::<u64>();
            }
        }
        (written, None)
    }

    /// Why the buffer may not be written now, if so. The memory file writes through read-only pages, so each flush
    /// must ask; the maps are of the same address space.
    fn loss(&self) -> Option<Loss> {
        let Ok(survey) = self.space.survey(self.start..self.end) else { return Some(Loss::Unknown) };
        match survey.access {
            // A file that was mapped over the buffer since may be one that user space serves.
            Access::Writable => (!survey.devices.is_subset(&self.devices)).then_some(Loss::Foreign),
            Access::ReadOnly => Some(Loss::ReadOnly),
            Access::Shared => Some(Loss::Shared),
            Access::Unmapped => Some(Loss::Unmapped),
            Access::Gone => Some(Loss::Gone),
        }
    }

    /// Whether all of a run was added.
    fn add_run(&self, run: &Run) -> bool {
        let width = self.width.bytes() as usize;
        let address = self.start + u64::from(run.first) * width as u64;
        let mut counters = vec![0; run.added.len() * width];
        if !matches!(self.space.read_at(&mut counters, address), Ok(length) if length == counters.len()) {
            return false;
        }
        for (counter, added) in counters.chunks_exact_mut(width).zip(&run.added) {
            match counter {
                [a, b] => {
                    let count = u16::from_ne_bytes([*a, *b]);
                    let sum = match self.at_limit {
                        AtLimit::Wrap => count.wrapping_add(*added as u16),
                        AtLimit::Saturate => count.saturating_add(u16::try_from(*added).unwrap_or(u16::MAX)),
                    };
                    counter.copy_from_slice(&sum.to_ne_bytes());
                }
                [a, b, c, d] => {
                    let count = u32::from_ne_bytes([*a, *b, *c, *d]);
                    let sum = match self.at_limit {
                        AtLimit::Wrap => count.wrapping_add(*added),
                        AtLimit::Saturate => count.saturating_add(*added),
                    };
                    counter.copy_from_slice(&sum.to_ne_bytes());
                }
                _ => {}
            }
        }
        matches!(self.space.write_at(&counters, address), Ok(length) if length == counters.len())
    }
}

/// The bytes of a buffer.
fn range(start: u64, nbins: u32, width: Width) -> Result<Range<u64>, BadBuffer> {
    let bytes = u64::from(nbins) * u64::from(width.bytes());
    let end = start.checked_add(bytes).ok_or(BadBuffer::Wraps { start, bytes })?;
    Ok(start..end)
}

#[cfg(test)]
mod tests {
    use crate::address_space::Purpose;

    use super::*;

    /// Memory of this process, as a target's.
    fn buffer<T>(counters: &mut [T], width: Width) -> TargetBuffer {
        let space = AddressSpace::open(std::process::id(), Purpose::Write).expect("a process may open its own memory");
        TargetBuffer::new(space, counters.as_mut_ptr() as u64, counters.len() as u32, width).expect("own heap")
    }

    fn run(first: u32, added: &[u32]) -> Run {
        Run { first, added: added.to_vec() }
    }

    #[test]
    fn counts_are_added_and_wrap_at_sixteen_bits() {
        let mut counters = vec![65_530u16, 1, 2, 3, 4, 5, 6, 7];
        let buffer = buffer(&mut counters, Width::Two);
        assert_eq!(buffer.add(&[run(0, &[10, 65_536 + 3]), run(5, &[1]), run(7, &[9])]), (10 + 65_539 + 1 + 9, None));
        assert_eq!(std::hint::black_box(&counters)[..], [4, 4, 2, 3, 4, 6, 6, 16]);
    }

    #[test]
    fn counts_are_added_and_wrap_at_thirty_two_bits() {
        let mut counters = vec![u32::MAX, 1, 2];
        let buffer = buffer(&mut counters, Width::Four);
        assert_eq!(buffer.add(&[run(0, &[2]), run(2, &[70_000])]), (70_002, None));
        assert_eq!(std::hint::black_box(&counters)[..], [1, 1, 70_002]);
    }

    #[test]
    fn counters_that_saturate_keep_their_largest_value() {
        let mut counters = vec![65_530u16, 65_535, 2];
        let narrow = buffer(&mut counters, Width::Two).at_limit(AtLimit::Saturate);
        assert_eq!(narrow.add(&[run(0, &[10, 1, 65_536 + 3])]).1, None);
        assert_eq!(std::hint::black_box(&counters)[..], [65_535, 65_535, 65_535]);
        let mut counters = vec![u32::MAX - 1, 7];
        let wide = buffer(&mut counters, Width::Four).at_limit(AtLimit::Saturate);
        assert_eq!(wide.add(&[run(0, &[2, 70_000])]).1, None);
        assert_eq!(std::hint::black_box(&counters)[..], [u32::MAX, 70_007]);
    }

    #[test]
    fn a_file_that_was_not_checked_takes_no_bins() {
        let mut counters = vec![0u16; 4];
        let space = AddressSpace::open(std::process::id(), Purpose::Write).expect("a process may open its own memory");
        let mut file = tempfile::tempfile().expect("a temporary file");
        io::Write::write_all(&mut file, &[0; 4096]).expect("space for a page");
        let flags = (rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::WRITE, rustix::mm::MapFlags::PRIVATE);
        // SAFETY: a new mapping of a page of a file that stays open; nothing else knows its address.
        let page = unsafe { rustix::mm::mmap(std::ptr::null_mut(), 4096, flags.0, flags.1, &file, 0) };
        let page = page.expect("a page of a file can be mapped") as u64;
        let space = Arc::new(space);
        let known = TargetBuffer::surveyed(Arc::clone(&space), page, 4, Width::Two).expect("private memory");
        assert_eq!((known.devices().len(), known.add(&[run(0, &[1])])), (1, (1, None)));
        let foreign = TargetBuffer::checked_before(space, page, 4, Width::Two, BTreeSet::new()).expect("a range");
        assert_eq!(foreign.add(&[run(0, &[1])]), (0, Some(Loss::Foreign)));
        assert_eq!(buffer(&mut counters, Width::Two).add(&[run(0, &[1])]), (1, None));
    }

    #[test]
    fn more_runs_than_are_written_between_two_looks_at_the_maps_are_all_written() {
        let mut counters = vec![0u16; 4 * RUNS_PER_CHECK];
        let buffer = buffer(&mut counters, Width::Two);
        let runs: Vec<Run> = (0..2 * RUNS_PER_CHECK as u32 - 1).map(|index| run(2 * index, &[index])).collect();
        let total = runs.iter().map(|run| u64::from(run.added[0])).sum();
        assert_eq!(buffer.add(&runs), (total, None));
        let counters = std::hint::black_box(&counters);
        assert!(counters.iter().enumerate().all(|(index, count)| index % 2 == 0 || *count == 0));
        assert_eq!(counters.iter().map(|count| u64::from(*count)).sum::<u64>(), total);
    }

    #[test]
    fn a_buffer_that_wraps_or_is_nowhere_is_refused() {
        let own = || AddressSpace::open(std::process::id(), Purpose::Write).expect("a process may open its own memory");
        let wraps = TargetBuffer::new(own(), u64::MAX - 3, 2, Width::Four);
        assert!(matches!(wraps, Err(BadBuffer::Wraps { .. })), "{wraps:?}");
        let nowhere = TargetBuffer::new(own(), 0x1000, 2, Width::Two);
        assert!(matches!(nowhere, Err(BadBuffer::Unmapped { .. })), "{nowhere:?}");
        let text = TargetBuffer::new(own(), run as *const () as u64, 2, Width::Two);
        assert!(matches!(text, Err(BadBuffer::ReadOnly { .. })), "{text:?}");
    }
}
