//! Signals: the first Ctrl-C or SIGTERM stops and writes, a second one aborts, SIGUSR1 asks for an interim file.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Stop and write; the terminal's Ctrl-C, which the whole foreground group gets.
    Interrupt,
    /// Stop and write.
    Terminate,
    /// Write what there is, and go on.
    Interim,
}

/// The signals that are listened to.
pub struct Interrupts {
    interrupt: Signal,
    terminate: Signal,
    user1: Signal,
}

impl Interrupts {
    /// Starts to listen; from now on the signals do not end the process.
    ///
    /// # Errors
    /// What sigaction(2) says.
    pub fn listen() -> io::Result<Interrupts> {
        Ok(Interrupts {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            user1: signal(SignalKind::user_defined1())?,
        })
    }

    /// The next wish.
    pub async fn next(&mut self) -> Wish {
        tokio::select! {
            _ = self.interrupt.recv() => Wish::Interrupt,
            _ = self.terminate.recv() => Wish::Terminate,
            _ = self.user1.recv() => Wish::Interim,
        }
    }
}

/// Lets the next Ctrl-C or SIGTERM end the process at once, while the result is being written.
pub fn abort_on_next() {
    for number in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: the default action needs no handler of ours, and nobody reads the old one.
        unsafe { libc::signal(number, libc::SIG_DFL) };
    }
}

/// Whether a Ctrl-C came from the terminal that we are in the foreground of: then our child has got it as well.
pub fn came_from_terminal() -> bool {
    let group = rustix::process::getpgrp();
    let terminals = [rustix::termios::tcgetpgrp(io::stdin()), rustix::termios::tcgetpgrp(io::stderr())];
    terminals.into_iter().flatten().any(|foreground| foreground == group)
}
