//! One perf ring buffer, read through its memory map.

use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use perf_event_open_sys::bindings::{perf_event_header, perf_event_mmap_page};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// The ring of one event: a control page, then a power of two of data pages.
pub(super) struct Ring {
    start: NonNull<u8>,
    data_offset: usize,
    data_bytes: usize,
    /// A record that lies across the end of the ring, put together.
    scratch: Vec<u8>,
}

// SAFETY: the mapping belongs to the value, not to a thread.
unsafe impl Send for Ring {}

impl Ring {
    /// Maps the ring of an event, with `data_bytes` of data, a power of two.
    pub(super) fn new(event: BorrowedFd<'_>, data_bytes: usize) -> io::Result<Ring> {
        let data_offset = rustix::param::page_size();
        // SAFETY: a fresh mapping at an address that the kernel chooses; nothing else of ours is touched.
        let start = unsafe {
            mmap(
                std::ptr::null_mut(),
                data_offset + data_bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                event,
                0,
            )?
        };
        let start = NonNull::new(start.cast()).ok_or_else(|| io::Error::other("mmap returned a null pointer"))?;
        Ok(Ring { start, data_offset, data_bytes, scratch: Vec::new() })
    }

    /// Hands out the type, misc bits and body of each record since the last call, and frees their room; returns the bytes
    /// that were free before.
    pub(super) fn drain(&mut self, mut record: impl FnMut(u32, u16, &[u8])) -> usize {
        let head = self.position(std::mem::offset_of!(perf_event_mmap_page, data_head)).load(Ordering::Acquire);
        let tail_word = self.position(std::mem::offset_of!(perf_event_mmap_page, data_tail));
        let mut tail = tail_word.load(Ordering::Relaxed);
        let free = self.data_bytes.saturating_sub(head.wrapping_sub(tail) as usize);
        let header_bytes = size_of::<perf_event_header>();
        let mut scratch = std::mem::take(&mut self.scratch);
        while head.wrapping_sub(tail) >= header_bytes as u64 {
            self.copy(tail, header_bytes, &mut scratch);
            let kind = u32::from_ne_bytes([scratch[0], scratch[1], scratch[2], scratch[3]]);
            let misc = u16::from_ne_bytes([scratch[4], scratch[5]]);
            let size = usize::from(u16::from_ne_bytes([scratch[6], scratch[7]]));
            // Only the kernel writes here; a size that cannot be would make us loop for ever.
            if size < header_bytes || size as u64 > head.wrapping_sub(tail) {
                tail = head;
                break;
            }
            self.copy(tail + header_bytes as u64, size - header_bytes, &mut scratch);
            record(kind, misc, &scratch);
            tail += size as u64;
        }
        self.scratch = scratch;
        self.position(std::mem::offset_of!(perf_event_mmap_page, data_tail)).store(tail, Ordering::Release);
        free
    }

    fn position(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: the control page is mapped for the life of self, the field is an aligned 64-bit word, and the
        // kernel writes it behind our back, which an atomic allows.
        unsafe { &*self.start.as_ptr().add(offset).cast::<AtomicU64>() }
    }

    /// Copies `length` bytes of data from a position that counts up for ever.
    fn copy(&self, from: u64, length: usize, to: &mut Vec<u8>) {
        to.clear();
        let at = (from % self.data_bytes as u64) as usize;
        let first = length.min(self.data_bytes - at);
        for (offset, bytes) in [(at, first), (0, length - first)] {
            // SAFETY: offset + bytes <= data_bytes, all of it mapped; the kernel does not write between tail and
            // head, which is where we read.
            let part = unsafe { std::slice::from_raw_parts(self.start.as_ptr().add(self.data_offset + offset), bytes) };
            to.extend_from_slice(part);
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and no reference into it outlives self. munmap of a whole mapping cannot fail.
        let _unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.data_offset + self.data_bytes) };
    }
}
