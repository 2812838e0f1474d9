//! Buffers that are not the caller's private writable memory.

use std::io;
use std::os::fd::AsRawFd as _;
use std::path::Path;

use profil_common::wire::{Area, Call, reply_flags};

use crate::connection::{CALL, ask};
use crate::{hold, tell};

/// Bytes of each buffer.
const BYTES: usize = 1 << 16;

/// By 4.4BSD's manual page a bad buffer is an error.
const BSD: u32 = 0;

fn map(protection: i32, flags: i32, descriptor: i32) -> io::Result<u64> {
    // SAFETY: a fresh mapping where the kernel chooses, which is never unmapped.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), BYTES, protection, flags, descriptor, 0) };
    if start == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(start as u64) }
}

/// A page of memory.
pub fn page() -> io::Result<u64> {
    map(libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1)
}

fn area(buffer: u64) -> Area {
    Area { buffer, bytes: BYTES as u64, offset: 0x40_0000, scale: 65_536 }
}

/// Tells the errno by 4.4BSD's manual page, and by glibc's whether profiling is on.
fn attempt(path: &Path, name: &str, area: Area) {
    let bsd = ask(path, Call { convention: BSD, ..CALL }, &[area]);
    tell(name, bsd.map_or(-1, |(reply, _)| reply.errno as i32));
    let glibc = ask(path, CALL, &[area]);
    let on = glibc.map_or(-1, |(reply, _)| (reply.errno | reply.flags & reply_flags::ON) as i32);
    tell(&format!("{name}_by_glibc"), on);
}

/// One of each kind.
pub fn all(path: &Path) -> io::Result<()> {
    let (read, write) = (libc::PROT_READ, libc::PROT_WRITE);
    let anonymous = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    let file = std::fs::File::open("/proc/self/exe")?;
    let file = std::os::fd::AsRawFd::as_raw_fd(&file);

    attempt(path, "private", area(map(read | write, anonymous, -1)?));
    attempt(path, "private_file", area(map(read | write, libc::MAP_PRIVATE, file)?));
    attempt(path, "text", Area { bytes: 256, ..area(all as *const () as u64) });
    attempt(path, "read_only", area(map(read, anonymous, -1)?));
    attempt(path, "no_access", area(map(libc::PROT_NONE, anonymous, -1)?));
    attempt(path, "shared", area(map(read | write, libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1)?));
    attempt(path, "shared_file", area(map(read, libc::MAP_SHARED, file)?));
    attempt(path, "null_page", area(0x1000));
    attempt(path, "unmapped", area(unmapped(BYTES)?));
    // The first half is there.
    attempt(path, "half_unmapped", area(unmapped(BYTES / 2)? - BYTES as u64 / 2));
    attempt(path, "wrapping", area(u64::MAX - 15));
    attempt(path, "not_canonical", area(1 << 50));
    attempt(path, "kernel", area(0xffff_8880_0000_0000));
    attempt(path, "vsyscall", Area { bytes: 256, ..area(0xffff_ffff_ff60_0000) });
    Ok(())
}

/// Address of a hole of so many bytes at the end of a mapping.
fn unmapped(bytes: usize) -> io::Result<u64> {
    let start = map(libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1)?;
    let hole = start + (BYTES - bytes) as u64;
    // SAFETY: part of the mapping just made, which nothing else uses.
    unsafe { libc::munmap(hole as *mut libc::c_void, bytes) };
    Ok(hole)
}

/// `struct uffdio_api` of include/uapi/linux/userfaultfd.h.
#[repr(C)]
struct UffdioApi {
    api: u64,
    features: u64,
    ioctls: u64,
}

/// `struct uffdio_register`.
#[repr(C)]
struct UffdioRegister {
    start: u64,
    length: u64,
    mode: u64,
    ioctls: u64,
}

const USERFAULTFD_IOC_NEW: libc::c_ulong = 0xaa00;
const UFFDIO_API: libc::c_ulong = 0xc018_aa3f;
const UFFDIO_REGISTER: libc::c_ulong = 0xc020_aa00;
const UFFD_API: u64 = 0xaa;
const REGISTER_MODE_MISSING: u64 = 1;

/// Makes us the one who serves the faults of a mapping, and who never does. Standard error is `/dev/userfaultfd`, which
/// the suite has opened: without it the kernel's own faults are not ours to serve.
fn take_faults(start: u64) -> io::Result<()> {
    let check = |result: i32| if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) };
    // SAFETY: takes plain numbers.
    let faults = check(unsafe { libc::ioctl(2, USERFAULTFD_IOC_NEW, libc::O_CLOEXEC) })?;
    let mut api = UffdioApi { api: UFFD_API, features: 0, ioctls: 0 };
    // SAFETY: the structure is the kernel's and valid for writes.
    check(unsafe { libc::ioctl(faults, UFFDIO_API, &raw mut api) })?;
    let mut register = UffdioRegister { start, length: BYTES as u64, mode: REGISTER_MODE_MISSING, ioctls: 0 };
    // SAFETY: as above; the mapping is ours, and nothing reads it from now on.
    check(unsafe { libc::ioctl(faults, UFFDIO_REGISTER, &raw mut register) })?;
    Ok(())
}

/// A buffer whose faults we serve when the call is made.
pub fn userfaultfd(path: &Path) -> io::Result<()> {
    let start = map(libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1)?;
    take_faults(start)?;
    attempt(path, "userfaultfd", area(start));
    Ok(())
}

/// A buffer that is a private mapping of a file whose pages never come.
pub fn fuse(path: &Path, file: &str) -> io::Result<()> {
    let file = std::fs::File::open(file)?;
    let start = map(libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE, file.as_raw_fd())?;
    attempt(path, "fuse", area(start));
    Ok(())
}

/// A buffer whose faults are ours to serve, and are not served, from some time after the call.
pub fn park(path: &Path) -> io::Result<()> {
    let start = map(libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1)?;
    // Bins for the 8 MiB of text around us.
    let area = Area { offset: (park as *const () as u64).saturating_sub(4 << 20), scale: 512, ..area(start) };
    tell("on", ask(path, CALL, &[area]).map_or(-1, |(reply, _)| reply.errno as i32));
    take_faults(start)?;
    hold_and_burn();
    Ok(())
}

/// A buffer over which a file whose pages never come is mapped after the call.
pub fn fuse_park(path: &Path, file: &str) -> io::Result<()> {
    let file = std::fs::File::open(file)?;
    let start = map(libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1)?;
    let area = Area { offset: (park as *const () as u64).saturating_sub(4 << 20), scale: 512, ..area(start) };
    tell("on", ask(path, CALL, &[area]).map_or(-1, |(reply, _)| reply.errno as i32));
    let flags = libc::MAP_PRIVATE | libc::MAP_FIXED;
    let place = start as *mut libc::c_void;
    // SAFETY: replaces a mapping of our own, which nothing here reads.
    unsafe { libc::mmap(place, BYTES, libc::PROT_READ | libc::PROT_WRITE, flags, file.as_raw_fd(), 0) };
    hold_and_burn();
    Ok(())
}

/// Uses CPU time until standard input ends, so that there is something to write.
fn hold_and_burn() {
    std::thread::spawn(|| {
        loop {
            std::hint::black_box(0);
        }
    });
    hold();
}
