//! The sparse table: rows keyed by image and pc, in two halves so that a live row is never deleted.
//!
//! An add through a value pointer is lost when its row is deleted between lookup and add (8,052 of 8.5 million,
//! measured). So ticks go to one half; to drain, the halves are swapped, ticks under way are waited for, and the
//! half that no tick uses any more is read and emptied.
//!
//! A half is a hash table, and rows of each CPU in front of it: most ticks fall on few pcs, and find their row there.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::atomic::Ordering;

use aya::maps::MapData;
use profil_common::limits::FRONT_ROWS;
use profil_common::{FrontRow, RowKey};

use crate::map_memory::MapMemory;

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

/// Words of a front row: the count, then the image, the pc, and tid with flags.
const FRONT_WORDS: usize = size_of::<FrontRow>() / size_of::<u64>();

/// The rows that CPUs keep to themselves, of both halves.
pub(crate) struct Front {
    memory: MapMemory,
}

impl Front {
    /// Rows in front of the table, with as many CPUs.
    pub(crate) const fn rows(cpus: usize) -> u32 {
        FrontRow::first_of(cpus as u32, 0)
    }

    /// Words of their array.
    pub(crate) const fn words(cpus: usize) -> usize {
        Front::rows(cpus) as usize * FRONT_WORDS
    }

    pub(crate) fn new(memory: MapMemory) -> Front {
        Front { memory }
    }

    /// Takes all rows of a half out, and hands each with its count to `row`.
    ///
    /// No tick may be adding to this half.
    pub(crate) fn take(&self, half: usize, mut row: impl FnMut(RowKey, u64)) {
        // Each CPU has its first half, then its second.
        for own in self.memory.words().chunks_exact(FRONT_ROWS as usize * FRONT_WORDS).skip(half).step_by(2) {
            for words in own.chunks_exact(FRONT_WORDS) {
                let [count, image, pc, tid_and_flags] = std::array::from_fn(|word| words[word].load(Ordering::Acquire));
                if count == 0 {
                    continue;
                }
                words[0].store(0, Ordering::Release);
                row(RowKey { image, pc, tid: tid_and_flags as u32, flags: (tid_and_flags >> 32) as u32 }, count);
            }
        }
    }
}

/// One half of the table behind the front rows.
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

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn rows_in_front_are_taken_once_and_from_one_half_only() {
        let cpus = 2;
        let file = tempfile::tempfile().unwrap();
        file.set_len((Front::words(cpus) * size_of::<u64>()) as u64).unwrap();
        let front = Front::new(MapMemory::new(file.as_fd(), Front::words(cpus)).unwrap());
        let put = |cpu: u32, half: u32, key: RowKey, count: u64| {
            let row = FrontRow::first_of(cpu, half) + FrontRow::place(&key);
            let words = [count, key.image, key.pc, u64::from(key.tid) | u64::from(key.flags) << 32];
            for (word, value) in words.into_iter().enumerate() {
                front.memory.store(row as usize * FRONT_WORDS + word, value);
            }
        };
        let key = RowKey { image: 5, pc: 0x40_1234, tid: 77, flags: 1 };
        put(0, 0, key, 3);
        put(1, 0, key, 4);
        put(1, 1, key, 10);
        let taken = |half| {
            let mut rows = Vec::new();
            front.take(half, |key, count| rows.push((key, count)));
            rows
        };
        assert_eq!(taken(0), [(key, 3), (key, 4)]);
        assert_eq!(taken(0), []);
        assert_eq!(taken(1), [(key, 10)]);
    }
}
