//! BPF arrays seen through a memory map: read without a system call, during which a CPU would count no ticks.

use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// A `BPF_F_MMAPABLE` array, mapped shared and writable, as 64-bit words.
///
/// The kernel writes the words while we read them, so each access is atomic.
///
/// # Minimum kernel
/// 5.5
#[derive(Debug)]
pub struct MapMemory {
    start: NonNull<AtomicU64>,
    words: usize,
}

// SAFETY: the mapping belongs to the value, not to a thread, and every access to it is atomic.
unsafe impl Send for MapMemory {}

// SAFETY: as for Send: what threads do to the same word at the same time is atomic.
unsafe impl Sync for MapMemory {}

impl MapMemory {
    /// Maps the first `words` words of an array.
    ///
    /// # Errors
    /// What mmap(2) says: `EINVAL` when the array is shorter or not mappable, `ENOMEM`.
    pub fn new(map: BorrowedFd<'_>, words: usize) -> io::Result<MapMemory> {
        // SAFETY: a fresh mapping at an address that the kernel chooses; nothing else of ours is touched.
        let start = unsafe {
            mmap(
                std::ptr::null_mut(),
                words * size_of::<u64>(),
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                map,
                0,
            )?
        };
        let start = NonNull::new(start.cast()).ok_or_else(|| io::Error::other("mmap returned a null pointer"))?;
        Ok(MapMemory { start, words })
    }

    /// The words of the array.
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping is `words` words long, page-aligned, and lives as long as self; AtomicU64 may be
        // written behind our back.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.words) }
    }

    /// Reads one word.
    pub fn load(&self, index: usize) -> u64 {
        self.words()[index].load(Ordering::Acquire)
    }

    /// Writes one word.
    pub fn store(&self, index: usize, value: u64) {
        self.words()[index].store(value, Ordering::Release);
    }
}

impl Drop for MapMemory {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and no reference into it outlives self. munmap of a whole mapping cannot fail.
        let _unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.words * size_of::<u64>()) };
    }
}
