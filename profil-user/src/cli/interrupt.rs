//! Signals: the first Ctrl-C, SIGTERM or SIGHUP stops and writes, a second one aborts, SIGUSR1 asks for an interim file.

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
    /// The terminal is gone; `None` under nohup(1), which wants to outlive it.
    hangup: Option<Signal>,
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
            hangup: if is_ignored(libc::SIGHUP) { None } else { Some(signal(SignalKind::hangup())?) },
            user1: signal(SignalKind::user_defined1())?,
        })
    }

    /// The next wish.
    pub async fn next(&mut self) -> Wish {
        tokio::select! {
            _ = self.interrupt.recv() => Wish::Interrupt,
            _ = self.terminate.recv() => Wish::Terminate,
            () = received_or_never(self.hangup.as_mut()) => Wish::Terminate,
            _ = self.user1.recv() => Wish::Interim,
        }
    }
}

async fn received_or_never(signal: Option<&mut Signal>) {
    match signal {
        Some(signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    }
}

fn is_ignored(number: libc::c_int) -> bool {
    let mut action = std::mem::MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: sigaction with no new action only writes the old one, which is read only when it says that it did.
    unsafe {
        libc::sigaction(number, std::ptr::null(), action.as_mut_ptr()) == 0
            && action.assume_init().sa_sigaction == libc::SIG_IGN
    }
}

/// How many of the two signals that it takes to abort have come already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Came {
    /// None: we are done by ourselves, and whoever asks us to stop just now is to have the whole result.
    None,
    /// One, which asked us to stop.
    One,
}

/// Lets the second Ctrl-C, SIGTERM or SIGHUP end the process at once, while the result is being written and signals
/// are not waited for.
pub fn abort_on_second(came: Came) {
    for number in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP].into_iter().filter(|number| !is_ignored(*number)) {
        let handler = match came {
            Came::None => swallow as extern "C" fn(libc::c_int) as libc::sighandler_t,
            Came::One => libc::SIG_DFL,
        };
        // SAFETY: an all-zero action is one with an empty mask; the handler is SIG_DFL, or a function that does nothing
        // and so may run at any moment.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handler;
            // The first one that is swallowed puts the default back.
            action.sa_flags = libc::SA_RESETHAND | libc::SA_RESTART;
            libc::sigaction(number, &raw const action, std::ptr::null_mut());
        }
    }
}

/// Takes one signal and does nothing.
extern "C" fn swallow(_number: libc::c_int) {}

/// Whether a Ctrl-C came from the terminal that we are in the foreground of: then our child has got it as well.
pub fn came_from_terminal() -> bool {
    let group = rustix::process::getpgrp();
    let terminals = [rustix::termios::tcgetpgrp(io::stdin()), rustix::termios::tcgetpgrp(io::stderr())];
    terminals.into_iter().flatten().any(|foreground| foreground == group)
}
