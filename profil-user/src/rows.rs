//! The sparse table: rows keyed by image and pc, in two halves so that a live row is never deleted.
//!
//! An add through a value pointer is lost when its row is deleted between lookup and add (8,052 of 8.5 million,
//! measured). So ticks go to one half; to drain, the halves are swapped, ticks under way are waited for, and the
//! half that no tick uses any more is read and emptied.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use aya::maps::MapData;
use profil_common::RowKey;

/// Rows that one batch system call reads at most. The CPU that runs it counts no ticks meanwhile: small batches keep
/// that short.
const BATCH_ROWS: u32 = 2048;

/// `enum bpf_cmd`.
const BPF_MAP_LOOKUP_AND_DELETE_BATCH: libc::c_long = 25;

/// The `batch` member of `union bpf_attr`, as include/uapi/linux/bpf.h has it.
#[repr(C)]
#[derive(Default)]
struct BatchAttr {
    in_batch: u64,
    out_batch: u64,
    keys: u64,
    values: u64,
    count: u32,
    map_fd: u32,
    elem_flags: u64,
    flags: u64,
}

/// One half of the table.
pub(crate) struct Half {
    map: MapData,
}

impl Half {
    pub(crate) fn new(map: MapData) -> Half {
        Half { map }
    }

    /// Takes all rows out, and hands each with its count to `row`.
    ///
    /// No tick may be adding to this half.
    ///
    /// # Minimum kernel
    /// 5.6 (batch operations on hash tables).
    pub(crate) fn take(&self, mut row: impl FnMut(RowKey, u64)) -> io::Result<()> {
        let mut capacity = BATCH_ROWS;
        let mut position = None;
        loop {
            let mut keys = vec![RowKey::default(); capacity as usize];
            let mut counts = vec![0u64; capacity as usize];
            match take_batch(self.map.fd().as_fd(), position, &mut keys, &mut counts) {
                Ok(Batch { taken, next }) => {
                    keys[..taken].iter().zip(&counts[..taken]).for_each(|(key, count)| row(*key, *count));
                    match next {
                        Some(next) => position = Some(next),
                        None => return Ok(()),
                    }
                }
                // One hash bucket holds more rows than the batch: nothing was taken, ask for more.
                Err(error) if error.raw_os_error() == Some(libc::ENOSPC) => capacity *= 2,
                Err(error) => return Err(error),
            }
        }
    }
}

struct Batch {
    taken: usize,
    /// Where the next batch begins; `None` at the end.
    next: Option<u32>,
}

fn take_batch(map: BorrowedFd<'_>, from: Option<u32>, keys: &mut [RowKey], counts: &mut [u64]) -> io::Result<Batch> {
    let mut next = 0u32;
    let mut attr = BatchAttr {
        in_batch: from.as_ref().map_or(0, |from| std::ptr::from_ref(from) as u64),
        out_batch: &raw mut next as u64,
        keys: keys.as_mut_ptr() as u64,
        values: counts.as_mut_ptr() as u64,
        count: keys.len() as u32,
        map_fd: map.as_raw_fd() as u32,
        ..BatchAttr::default()
    };
    // SAFETY: attr is laid out as the kernel's union and says its size; every pointer in it is to a live local buffer
    // that holds `count` elements of the table's key and value sizes.
    let done =
        unsafe { libc::syscall(libc::SYS_bpf, BPF_MAP_LOOKUP_AND_DELETE_BATCH, &raw mut attr, size_of::<BatchAttr>()) };
    if done == 0 {
        return Ok(Batch { taken: attr.count as usize, next: Some(next) });
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        // The end of the table; what was taken on the way counts.
        Some(libc::ENOENT) => Ok(Batch { taken: attr.count as usize, next: None }),
        Some(libc::EINTR) => Ok(Batch { taken: 0, next: from }),
        _ => Err(error),
    }
}
