//! The target's own buffer: bins are added to the counters that are there, as profil(2) does.

use std::io;
use std::sync::Arc;

use crate::address_space::{Access, AddressSpace, AddressSpaceError};
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

/// What a counter does that is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtLimit {
    /// It begins again at 0, as profil(2) has it.
    Wrap,
    /// It stays at its largest value, as sprofil(3) has it.
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
    #[error("the buffer {start:#x}..{end:#x} is served by userfaultfd or FUSE; a write to it could block for ever")]
    Userfaultfd {
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
    /// The counters cannot be checked for userfaultfd.
    #[error("cannot read the memory flags of the process")]
    Flags {
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
    /// The kernel refused to read or write it, although the maps show it writable: its pages are served by user
    /// space, or lie behind the end of a file.
    Refused,
    /// The maps of the process cannot be read any more, so that nobody knows whether the buffer may be written.
    Unknown,
    /// The process has exited or runs another program.
    Gone,
    /// A write took so long that it was given up: something of the target's keeps its pages from being written.
    Stalled,
}

impl std::fmt::Display for Loss {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Loss::Unmapped => "the buffer was unmapped",
            Loss::ReadOnly => "the buffer was made read-only",
            Loss::Shared => "shared memory was mapped over the buffer",
            Loss::Refused => "the kernel cannot write to the buffer any more",
            Loss::Unknown => "the maps of the process cannot be read any more",
            Loss::Gone => "the process has exited or runs another program",
            Loss::Stalled => "the buffer could not be written in time",
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
}

impl TargetBuffer {
    /// Takes a buffer of `nbins` counters at `start`, after checking that all of it is private writable memory.
    ///
    /// # Errors
    /// [`BadBuffer`].
    pub fn new(
        space: Arc<AddressSpace>,
        start: u64,
        nbins: u32,
        width: Width,
        at_limit: AtLimit,
    ) -> Result<TargetBuffer, BadBuffer> {
        let bytes = u64::from(nbins) * u64::from(width.bytes());
        let end = start.checked_add(bytes).ok_or(BadBuffer::Wraps { start, bytes })?;
        match space.access(start..end)? {
            Access::Writable => {}
            Access::ReadOnly => return Err(BadBuffer::ReadOnly { start, end }),
            Access::Shared => return Err(BadBuffer::Shared { start, end }),
            Access::Unmapped => return Err(BadBuffer::Unmapped { start, end }),
            Access::Gone => return Err(BadBuffer::Gone),
        }
        if space.has_userfaultfd(&(start..end)).map_err(|source| BadBuffer::Flags { source })? {
            return Err(BadBuffer::Userfaultfd { start, end });
        }
        Ok(TargetBuffer { space, start, end, width, at_limit })
    }

    /// Adds runs of bins to the counters, which wrap at their width or stay at its largest value. Returns the ticks written, and why not all were.
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
        match self.space.access(self.start..self.end) {
            Ok(Access::Writable) => None,
            Ok(Access::ReadOnly) => Some(Loss::ReadOnly),
            Ok(Access::Shared) => Some(Loss::Shared),
            Ok(Access::Unmapped) => Some(Loss::Unmapped),
            Ok(Access::Gone) => Some(Loss::Gone),
            Err(_) => Some(Loss::Unknown),
        }
    }

    /// A counter after an addition; when it wraps, its higher bits are to be cut off.
    fn sum(&self, counter: u64, added: u32, largest: u64) -> u64 {
        let sum = counter + u64::from(added);
        match self.at_limit {
            AtLimit::Wrap => sum,
            AtLimit::Saturate => sum.min(largest),
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
                    let sum = self.sum(u16::from_ne_bytes([*a, *b]).into(), *added, u16::MAX.into());
                    counter.copy_from_slice(&(sum as u16).to_ne_bytes());
                }
                [a, b, c, d] => {
                    let sum = self.sum(u32::from_ne_bytes([*a, *b, *c, *d]).into(), *added, u32::MAX.into());
                    counter.copy_from_slice(&(sum as u32).to_ne_bytes());
                }
                _ => {}
            }
        }
        matches!(self.space.write_at(&counters, address), Ok(length) if length == counters.len())
    }
}

#[cfg(test)]
mod tests {
    use crate::address_space::Purpose;

    use super::*;

    /// Memory of this process, as a target's.
    fn buffer<T>(counters: &mut [T], width: Width, at_limit: AtLimit) -> TargetBuffer {
        let space = AddressSpace::open(std::process::id(), Purpose::Write).expect("a process may open its own memory");
        TargetBuffer::new(Arc::new(space), counters.as_mut_ptr() as u64, counters.len() as u32, width, at_limit)
            .expect("own heap")
    }

    fn run(first: u32, added: &[u32]) -> Run {
        Run { first, added: added.to_vec() }
    }

    #[test]
    fn counts_are_added_and_wrap_at_sixteen_bits() {
        let mut counters = vec![65_530u16, 1, 2, 3, 4, 5, 6, 7];
        let buffer = buffer(&mut counters, Width::Two, AtLimit::Wrap);
        assert_eq!(buffer.add(&[run(0, &[10, 65_536 + 3]), run(5, &[1]), run(7, &[9])]), (10 + 65_539 + 1 + 9, None));
        assert_eq!(std::hint::black_box(&counters)[..], [4, 4, 2, 3, 4, 6, 6, 16]);
    }

    #[test]
    fn counts_are_added_and_wrap_at_thirty_two_bits() {
        let mut counters = vec![u32::MAX, 1, 2];
        let buffer = buffer(&mut counters, Width::Four, AtLimit::Wrap);
        assert_eq!(buffer.add(&[run(0, &[2]), run(2, &[70_000])]), (70_002, None));
        assert_eq!(std::hint::black_box(&counters)[..], [1, 1, 70_002]);
    }

    #[test]
    fn counts_stay_at_the_largest_value_when_they_saturate() {
        let mut counters = vec![65_530u16, 1];
        let target = buffer(&mut counters, Width::Two, AtLimit::Saturate);
        assert_eq!(target.add(&[run(0, &[10, 70_000])]), (70_010, None));
        assert_eq!(std::hint::black_box(&counters)[..], [u16::MAX, u16::MAX]);
        let mut counters = vec![u32::MAX - 1, 1];
        let target = buffer(&mut counters, Width::Four, AtLimit::Saturate);
        assert_eq!(target.add(&[run(0, &[10, 70_000])]), (70_010, None));
        assert_eq!(std::hint::black_box(&counters)[..], [u32::MAX, 70_001]);
    }

    #[test]
    fn more_runs_than_are_written_between_two_looks_at_the_maps_are_all_written() {
        let mut counters = vec![0u16; 4 * RUNS_PER_CHECK];
        let buffer = buffer(&mut counters, Width::Two, AtLimit::Wrap);
        let runs: Vec<Run> = (0..2 * RUNS_PER_CHECK as u32 - 1).map(|index| run(2 * index, &[index])).collect();
        let total = runs.iter().map(|run| u64::from(run.added[0])).sum();
        assert_eq!(buffer.add(&runs), (total, None));
        let counters = std::hint::black_box(&counters);
        assert!(counters.iter().enumerate().all(|(index, count)| index % 2 == 0 || *count == 0));
        assert_eq!(counters.iter().map(|count| u64::from(*count)).sum::<u64>(), total);
    }

    #[test]
    fn a_buffer_that_wraps_or_is_nowhere_is_refused() {
        let own = || {
            Arc::new(AddressSpace::open(std::process::id(), Purpose::Write).expect("a process may open its own memory"))
        };
        let wraps = TargetBuffer::new(own(), u64::MAX - 3, 2, Width::Four, AtLimit::Wrap);
        assert!(matches!(wraps, Err(BadBuffer::Wraps { .. })), "{wraps:?}");
        let nowhere = TargetBuffer::new(own(), 0x1000, 2, Width::Two, AtLimit::Wrap);
        assert!(matches!(nowhere, Err(BadBuffer::Unmapped { .. })), "{nowhere:?}");
        let text = TargetBuffer::new(own(), run as *const () as u64, 2, Width::Two, AtLimit::Wrap);
        assert!(matches!(text, Err(BadBuffer::ReadOnly { .. })), "{text:?}");
    }
}
