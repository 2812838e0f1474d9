//! The kernel's array in the place of a buffer: counts appear in it with nobody copying them.

use core::ffi::c_void;
use core::ptr::{copy_nonoverlapping, null_mut};
use core::sync::atomic::{AtomicU16, Ordering};

use libc::c_int;
use profil_common::wire::Area;

use crate::claim::Claim;
use crate::descriptor::Descriptor;
use crate::errno;
use crate::note::note;

/// Where the array lies: address and bytes, or nowhere.
///
/// Who finds it claimed lays nothing, and counts are copied; or leaves it, and the next call takes it away.
static OVERLAY: Claim<Option<(usize, usize)>> = Claim::new(None);

/// Whether the buffer of an area is whole pages.
pub fn fits(area: Area) -> bool {
    // SAFETY: takes no pointer.
    let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    let Ok(page_bytes @ 1..) = u64::try_from(page_bytes) else { return false };
    area.buffer != 0
        && area.bytes != 0
        && area.buffer.is_multiple_of(page_bytes)
        && area.bytes.is_multiple_of(page_bytes)
}

/// Maps an array over the buffer of an area, whose counts are added to those in the array.
///
/// # Errors
/// The errno; the buffer is then what it was.
///
/// # Safety
/// The buffer [`fits`], and nothing but counters is in its pages.
pub unsafe fn lay(array: &Descriptor, area: Area) -> Result<(), c_int> {
    let mut overlay = OVERLAY.claim().ok_or(libc::EBUSY)?;
    let (buffer, bytes) = (area.buffer as usize, area.bytes as usize);
    // A mapping of its own first: ticks may be in the array already, and those must not be overwritten.
    let aside = map(null_mut(), bytes, libc::MAP_SHARED, array.number())?;
    for offset in (0..bytes).step_by(size_of::<u16>()) {
        // SAFETY: both mappings are `bytes` long, and aligned to pages.
        unsafe { add_counter(buffer as *const u16, aside.cast::<AtomicU16>(), offset / size_of::<u16>()) };
    }
    let laid = map(buffer as *mut c_void, bytes, libc::MAP_SHARED | libc::MAP_FIXED, array.number());
    // SAFETY: the mapping was made above, and nothing points into it any more.
    unsafe { libc::munmap(aside, bytes) };
    laid?;
    *overlay = Some((buffer, bytes));
    Ok(())
}

/// # Safety
/// Both have a counter of this index.
unsafe fn add_counter(from: *const u16, to: *const AtomicU16, index: usize) {
    // SAFETY: by the caller.
    let count = unsafe { from.add(index).read_volatile() };
    if count != 0 {
        // SAFETY: by the caller; the kernel counts in it with atomic instructions as well.
        unsafe { &*to.add(index) }.fetch_add(count, Ordering::Relaxed);
    }
}

/// Puts memory of the process's own, with the same counts, where an array lies.
pub fn remove() {
    let Some(mut overlay) = OVERLAY.claim() else { return };
    let Some((buffer, bytes)) = *overlay else { return };
    // SAFETY: `lay` mapped these bytes, and the program keeps them mapped until it turns profiling off.
    match unsafe { make_private(buffer as *mut c_void, bytes) } {
        Ok(()) => *overlay = None,
        Err(errno) => {
            note(|note| note.text("the kernel's array stays mapped: errno ").number(errno.unsigned_abs().into()));
        }
    }
}

/// # Safety
/// The bytes are mapped, and readable.
unsafe fn make_private(buffer: *mut c_void, bytes: usize) -> Result<(), c_int> {
    let copy = map(null_mut(), bytes, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1)?;
    // SAFETY: both are `bytes` long, by the caller and as just mapped.
    unsafe { copy_nonoverlapping(buffer.cast::<u8>(), copy.cast::<u8>(), bytes) };
    let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    // SAFETY: the copy is ours to move, and the caller gives the bytes it is moved to.
    let moved = unsafe { libc::mremap(copy, bytes, bytes, flags, buffer) };
    if moved == libc::MAP_FAILED {
        let errno = errno::get();
        // SAFETY: the copy was mapped above and did not move.
        unsafe { libc::munmap(copy, bytes) };
        return Err(errno);
    }
    Ok(())
}

fn map(place: *mut c_void, bytes: usize, flags: c_int, fd: c_int) -> Result<*mut c_void, c_int> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: with MAP_FIXED, `lay` answers for what is there; else nothing is replaced.
    let mapped = unsafe { libc::mmap(place, bytes, protection, flags, fd, 0) };
    if mapped == libc::MAP_FAILED { Err(errno::get()) } else { Ok(mapped) }
}
