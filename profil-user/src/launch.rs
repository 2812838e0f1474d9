//! A command that waits before its exec until its clock is open.

use std::ffi::OsString;
use std::io::{self, IsTerminal, PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;

/// A command that cannot be launched.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// No process could be made.
    #[error("cannot start `{command}`")]
    Fork {
        /// The command.
        command: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// There is no such program.
    #[error("cannot run `{command}`: no such program")]
    NotFound {
        /// The command.
        command: String,
    },
    /// The program cannot be executed.
    #[error("cannot run `{command}`")]
    NotExecutable {
        /// The command.
        command: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

/// The standard streams of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Streams {
    /// Ours.
    Inherited,
    /// Ours, but for those that are a terminal, which we draw on ourselves: /dev/null is in their place.
    OffTerminal,
}

/// A child process that has not run its program yet.
pub struct Launching {
    command: String,
    pid: u32,
    go: PipeWriter,
    spawn: JoinHandle<io::Result<Child>>,
}

impl Launching {
    /// Makes the child process. It inherits the standard streams, the terminal, and the environment with `variables`
    /// added.
    ///
    /// # Errors
    /// [`LaunchError::Fork`].
    pub fn start(command: &[OsString], variables: &[(&str, OsString)]) -> Result<Launching, LaunchError> {
        Launching::start_on(command, variables, Streams::Inherited)
    }

    /// As [`Launching::start`], with a choice of the standard streams.
    ///
    /// # Errors
    /// [`LaunchError::Fork`].
    pub fn start_on(
        command: &[OsString],
        variables: &[(&str, OsString)],
        streams: Streams,
    ) -> Result<Launching, LaunchError> {
        let (program, arguments) =
            command.split_first().ok_or_else(|| LaunchError::NotFound { command: String::new() })?;
        let name = program.to_string_lossy().into_owned();
        let failed = |source| LaunchError::Fork { command: name.clone(), source };
        let (mut ready, ready_child) = io::pipe().map_err(failed)?;
        let (go_child, go) = io::pipe().map_err(failed)?;
        let mut process = Command::new(program);
        process.args(arguments).envs(variables.iter().map(|(name, value)| (name, value)));
        if streams == Streams::OffTerminal {
            if io::stdin().is_terminal() {
                process.stdin(Stdio::null());
            }
            if io::stdout().is_terminal() {
                process.stdout(Stdio::null());
            }
            if io::stderr().is_terminal() {
                process.stderr(Stdio::null());
            }
        }
        let ours = go.as_raw_fd();
        // SAFETY: the closure runs in the child between fork and exec and makes only async-signal-safe calls (close,
        // getpid, write, read) on descriptors that are open there.
        unsafe {
            process.pre_exec(move || {
                // The child's copy of our end would keep it waiting for ever when we are killed.
                libc::close(ours);
                wait_for_go(&ready_child, &go_child)
            });
        }
        // Command::spawn returns after the exec, so it waits in a thread of its own.
        let spawn = std::thread::Builder::new().spawn(move || process.spawn()).map_err(failed)?;
        let mut pid = [0; 4];
        match ready.read_exact(&mut pid) {
            Ok(()) => Ok(Launching { command: name, pid: u32::from_ne_bytes(pid), go, spawn }),
            Err(source) => Err(match spawn.join() {
                Ok(Err(source)) => failed(source),
                _ => failed(source),
            }),
        }
    }

    /// PID of the child, in our PID namespace.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Lets the child exec.
    ///
    /// # Errors
    /// [`LaunchError::NotFound`] and [`LaunchError::NotExecutable`], as a shell tells them apart.
    pub fn exec(mut self) -> Result<Child, LaunchError> {
        let command = self.command;
        // A child that is gone shows in the result of the spawn.
        let _sent = self.go.write_all(&[1]);
        let spawned = self.spawn.join().unwrap_or_else(|_| Err(io::Error::other("the launching thread panicked")));
        spawned.map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => LaunchError::NotFound { command },
            _ => LaunchError::NotExecutable { command, source },
        })
    }
}

fn wait_for_go(ready: &PipeWriter, go: &PipeReader) -> io::Result<()> {
    let pid = std::process::id().to_ne_bytes();
    let mut byte = [0u8];
    // SAFETY: plain system calls on live local buffers of the stated sizes.
    let (written, read) = unsafe {
        (
            libc::write(ready.as_raw_fd(), pid.as_ptr().cast(), pid.len()),
            libc::read(go.as_raw_fd(), byte.as_mut_ptr().cast(), 1),
        )
    };
    // A read of 0 bytes: the parent is gone, so nobody waits for this program to run.
    if written == 4 && read == 1 { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::ECANCELED)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(words: &[&str]) -> Vec<OsString> {
        words.iter().map(Into::into).collect()
    }

    #[test]
    fn the_program_runs_only_when_told() {
        let launching = Launching::start(&command(&["true"]), &[]).expect("a process");
        let exe = std::fs::read_link(format!("/proc/{}/exe", launching.pid())).expect("the child is there");
        assert_eq!(exe, std::env::current_exe().expect("our own program"));
        let mut child = launching.exec().expect("true is a program");
        assert!(child.wait().expect("our child").success());
    }

    #[test]
    fn what_cannot_run_is_told_apart() {
        let launching = Launching::start(&command(&["/nowhere/at/all"]), &[]).expect("a process");
        assert!(matches!(launching.exec(), Err(LaunchError::NotFound { .. })));
        let launching = Launching::start(&command(&["/etc/passwd"]), &[]).expect("a process");
        assert!(matches!(launching.exec(), Err(LaunchError::NotExecutable { .. })));
    }
}
