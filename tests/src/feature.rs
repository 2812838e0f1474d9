//! Tools and features that a test needs and a machine may lack.

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
#[expect(clippy::print_stdout, reason = "libtest shows the stdout of a test")]
pub fn fuse(test: &str, scratch: &Scratch) -> Option<Fuse> {
    let fuse = Fuse::mount(&scratch.path("fuse"));
    if fuse.is_none() {
        println!("SKIP: {test}: cannot mount a FUSE file system");
    }
    fuse
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
