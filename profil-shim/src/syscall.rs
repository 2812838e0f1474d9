//! System calls that are no cancellation points.
//!
//! libc's functions of these names end the thread when another one cancels it: the frames of this library would be
//! unwound, and its descriptor would leak. profil(3) is no cancellation point.

use core::ffi::c_void;

use libc::{c_int, c_long};

use crate::errno;

fn check(result: c_long) -> Result<usize, c_int> {
    usize::try_from(result).map_err(|_| errno::get())
}

/// socket(2).
pub fn socket(domain: c_int, kind: c_int) -> Result<c_int, c_int> {
    // SAFETY: takes no pointer.
    let result = unsafe { libc::syscall(libc::SYS_socket, domain, kind, 0) };
    check(result).map(|fd| fd as c_int)
}

/// connect(2) to a Unix socket.
pub fn connect(fd: c_int, address: &libc::sockaddr_un) -> Result<(), c_int> {
    let length = size_of_val(address);
    // SAFETY: the address is valid for reads of its whole length.
    let result = unsafe { libc::syscall(libc::SYS_connect, fd, &raw const *address, length) };
    check(result).map(drop)
}

/// sendmsg(2). Memory that cannot be read is `EFAULT`, not a fault.
pub fn sendmsg(fd: c_int, message: &libc::msghdr, flags: c_int) -> Result<usize, c_int> {
    // SAFETY: the header is valid; the kernel checks all that it points to.
    let result = unsafe { libc::syscall(libc::SYS_sendmsg, fd, &raw const *message, flags) };
    check(result)
}

/// recvmsg(2).
///
/// # Safety
/// What the header points to may be written to its stated lengths.
pub unsafe fn recvmsg(fd: c_int, message: &mut libc::msghdr, flags: c_int) -> Result<usize, c_int> {
    // SAFETY: by the caller.
    let result = unsafe { libc::syscall(libc::SYS_recvmsg, fd, &raw mut *message, flags) };
    check(result)
}

/// ppoll(2) of one descriptor, with the signal mask as it is: the number of ready ones.
pub fn ppoll(poll: &mut libc::pollfd, timeout: &mut libc::timespec) -> Result<usize, c_int> {
    let (no_mask, mask_bytes) = (core::ptr::null::<c_void>(), 8);
    // SAFETY: both pointers are valid for reads and writes; no mask is given.
    let result = unsafe {
        libc::syscall(libc::SYS_ppoll, &raw mut *poll, 1 as c_long, &raw mut *timeout, no_mask, mask_bytes as c_long)
    };
    check(result)
}

/// A copy of a descriptor, closed on exec, whose number is at least `lowest`.
pub fn duplicate_above(fd: c_int, lowest: c_int) -> Result<c_int, c_int> {
    // SAFETY: takes no pointer.
    let result = unsafe { libc::syscall(libc::SYS_fcntl, fd, libc::F_DUPFD_CLOEXEC, lowest) };
    check(result).map(|fd| fd as c_int)
}

/// close(2). Its result tells nothing that could be acted on.
pub fn close(fd: c_int) {
    // SAFETY: takes no pointer; who calls owns the descriptor.
    unsafe { libc::syscall(libc::SYS_close, fd) };
}

/// write(2), as far as it goes.
pub fn write(fd: c_int, bytes: &[u8]) {
    // SAFETY: the bytes are valid for reads of their length.
    unsafe { libc::syscall(libc::SYS_write, fd, bytes.as_ptr(), bytes.len()) };
}
