//! A command that runs while we do, and whose exit status becomes ours.

use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitCode};

use anyhow::Context;
use rustix::process::{Pid, PidfdFlags, Signal};

use super::interrupt::{self, Wish};
use crate::readiness::Readiness;

/// Why we stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// What we looked at has ended.
    TargetsEnded,
    /// The time that was asked for is over.
    TimeUp,
    /// A signal asked for it.
    Wished(Wish),
}

/// What becomes of a command when our time is up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stay {
    /// It goes on.
    Allowed,
    /// It is ended.
    Ended,
}

/// The command that was launched.
pub struct Launched {
    child: Child,
    pidfd: OwnedFd,
}

impl Launched {
    /// Watches a child.
    ///
    /// # Errors
    /// What pidfd_open(2) says.
    pub fn of(child: Child) -> anyhow::Result<Launched> {
        let pidfd = rustix::process::pidfd_open(Pid::from_child(&child), PidfdFlags::empty())
            .context("cannot watch the command")?;
        Ok(Launched { child, pidfd })
    }

    /// Becomes ready when the command has ended.
    ///
    /// # Errors
    /// What dup(2) and epoll_ctl(2) say.
    pub fn end(&self) -> std::io::Result<Readiness> {
        Readiness::of(self.pidfd.try_clone()?)
    }

    /// Ends the command as the way of stopping asks for, and returns its exit status as ours.
    ///
    /// # Errors
    /// What wait4(2) says.
    pub fn see_off(&mut self, stopped: Stopped, stay: Stay) -> anyhow::Result<ExitCode> {
        match stopped {
            Stopped::TimeUp if stay == Stay::Allowed => return Ok(ExitCode::SUCCESS),
            Stopped::TimeUp | Stopped::Wished(Wish::Terminate) => self.signal(Signal::TERM),
            Stopped::Wished(Wish::Interrupt) if !interrupt::came_from_terminal() => self.signal(Signal::INT),
            Stopped::Wished(_) | Stopped::TargetsEnded => {}
        }
        let status = self.child.wait().context("cannot wait for the command")?;
        let code = status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(1);
        Ok(ExitCode::from(code as u8))
    }

    fn signal(&self, signal: Signal) {
        // A stopped command would not get the first before somebody continues it. One that has ended needs neither.
        for signal in [signal, Signal::CONT] {
            let _gone = rustix::process::pidfd_send_signal(&self.pidfd, signal);
        }
    }
}
