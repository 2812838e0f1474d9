//! Becoming root, for the few commands that need it.

use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt as _;
use std::process::Command;

use anyhow::{Context as _, Result, bail};

/// A command that runs as root: itself where we are root, else by sudo.
///
/// `why` completes the sentence "root is needed to".
///
/// # Errors
///
/// If we are not root and there is no sudo.
pub fn command(program: impl AsRef<OsStr>, why: &str) -> Result<Command> {
    if is_root()? {
        return Ok(Command::new(program));
    }
    if !on_path("sudo") {
        bail!("root is needed to {why}: not root, and no sudo on PATH; run this as root, or install sudo");
    }
    let mut command = Command::new("sudo");
    command.arg("--").arg(program);
    Ok(command)
}

/// Whether the effective user is root.
pub fn is_root() -> Result<bool> {
    // The owner of /proc/self is the effective user of this process: no crate and no unsafe code for one number.
    Ok(std::fs::metadata("/proc/self").context("cannot stat /proc/self")?.uid() == 0)
}

/// Whether PATH has such a program.
pub fn on_path(program: &str) -> bool {
    std::env::var_os("PATH").is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(program).is_file()))
}
