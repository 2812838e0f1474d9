//! Processes of our own that give up what they do not need before they touch what others have made.
//!
//! profil starts its own program again, with a socket for standard input, and talks to it in whole messages. Copiers
//! ([`crate::copier`]) write into the programs of one user as that user; the reader of symbols
//! ([`crate::symbols::reader`]) takes files apart as nobody.

pub mod confine;
pub mod filter;
pub mod socket;

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The program that runs now, whatever has become of its path.
pub fn own_program() -> PathBuf {
    "/proc/self/exe".into()
}

/// A command for a process that is called `name` and does `verb`, and our end of its socket, which never makes us wait.
///
/// Its last argument is our PID: it is to end when we do.
///
/// # Errors
/// Those of socketpair(2).
pub fn command(program: &Path, name: &str, verb: &[&str]) -> io::Result<(Command, OwnedFd)> {
    use std::os::unix::process::CommandExt;
    let (ours, theirs) = socket::pair()?;
    let mut command = Command::new(program);
    command.arg0(name).args(verb).arg(std::process::id().to_string());
    // An output that it kept open would keep the reader of that waiting after we have ended.
    command.stdin(theirs).stdout(Stdio::null()).stderr(Stdio::null()).env_clear().current_dir("/");
    Ok((command, ours))
}
