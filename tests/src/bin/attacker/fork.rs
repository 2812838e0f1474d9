//! Child processes that do something and end.

use std::io;

/// Runs `child` in a process of its own, whose exit status is 0 when it succeeds; returns its PID.
///
/// This program must have one thread.
pub fn child(child: impl FnOnce() -> io::Result<()>) -> io::Result<i32> {
    // SAFETY: there is one thread, so the child finds no lock held.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            let status = i32::from(child().is_err());
            // SAFETY: ends the process without running what belongs to the parent.
            unsafe { libc::_exit(status) }
        }
        pid => Ok(pid),
    }
}

/// Waits for a child, and returns whether it succeeded.
pub fn wait(pid: i32) -> bool {
    let mut status = 0;
    // SAFETY: the status is valid for writes.
    unsafe { libc::waitpid(pid, &raw mut status, 0) == pid && status == 0 }
}

/// Runs `child` in a process of its own, and waits for it.
pub fn and_wait(run: impl FnOnce() -> io::Result<()>) -> io::Result<bool> {
    child(run).map(wait)
}

/// Sends a child a signal.
pub fn signal(pid: i32, signal: i32) {
    // SAFETY: takes plain numbers.
    unsafe { libc::kill(pid, signal) };
}
