//! Tools and features that a test needs and a machine may lack.

use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixDatagram;
use std::path::Path;

use crate::fuse::Fuse;
use crate::scratch::Scratch;

/// Whether a program is there; if not, the caller must return: the test then counts as skipped.
///
/// # Panics
///
/// If it is not there in CI, where `cargo xtask setup` installs all of them.
pub fn has_program(test: &str, program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|folder| folder.join(program).is_file());
    found || skip(test, &format!("no {program} on PATH"))
}

/// Whether a file is there; if not, as [`has_program`].
///
/// # Panics
///
/// As [`has_program`].
pub fn has_file(test: &str, path: &str) -> bool {
    Path::new(path).exists() || skip(test, &format!("no {path}"))
}

/// A FUSE file system in a folder; `None` where the kernel mounts none, which no set-up can change: the caller must
/// return, and the test counts as skipped in CI as well.
pub fn fuse(test: &str, scratch: &Scratch) -> Option<Fuse> {
    let fuse = Fuse::mount(&scratch.path("fuse"));
    if fuse.is_none() {
        skip_for_kernel(test, "cannot mount a FUSE file system");
    }
    fuse
}

/// Says that a test cannot run on this kernel, which no set-up can change: it counts as skipped in CI as well.
#[expect(clippy::print_stdout, reason = "libtest shows the stdout of a test")]
pub fn skip_for_kernel(test: &str, reason: &str) {
    println!("SKIP: {test}: {reason}");
}

/// Whether a socket can refuse descriptors that are sent to it: `SO_PASSRIGHTS`, from Linux 6.16 on.
pub fn refuses_descriptors() -> bool {
    const SO_PASSRIGHTS: libc::c_int = 83;
    let Ok((socket, _other)) = UnixDatagram::pair() else { return false };
    let no: libc::c_int = 0;
    let (value, length) = ((&raw const no).cast(), size_of::<libc::c_int>() as libc::socklen_t);
    // SAFETY: the value is a live local of the length that is given.
    unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, SO_PASSRIGHTS, value, length) == 0 }
}

/// Says that a test cannot run here, in the form that `cargo xtask test` counts; false.
///
/// # Panics
///
/// In CI, where nothing may be skipped.
#[expect(clippy::print_stdout, reason = "libtest shows the stdout of a test")]
pub fn skip(test: &str, reason: &str) -> bool {
    assert!(std::env::var_os("CI").is_none(), "{test} cannot run: {reason}");
    println!("SKIP: {test}: {reason}");
    false
}
