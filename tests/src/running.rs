//! A target that runs beside profil.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};

use crate::truth::Truth;

/// A target that has started and waits to be told to go on, as `await_go` of `target.h` does; killed when dropped.
#[derive(Debug)]
pub struct Running {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Running {
    /// Starts a program and waits until it says that it is ready.
    ///
    /// # Panics
    ///
    /// If it cannot be run, or ends before.
    pub fn start<S: AsRef<OsStr>>(program: impl AsRef<OsStr>, arguments: &[S]) -> Running {
        let mut command = Command::new(program);
        command.args(arguments);
        Running::of(command)
    }

    /// Starts a command and waits until it says that it is ready.
    ///
    /// # Panics
    ///
    /// If it cannot be run, or ends before.
    pub fn of(mut command: Command) -> Running {
        command.env("AWAIT_GO", "1").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().expect("a piped stdout"));
        let mut running = Running { child, stdin, stdout };
        assert_eq!(running.line(), "ready", "{command:?}");
        running
    }

    /// Its PID, or that of the tool which started it.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The next line that it prints.
    ///
    /// # Panics
    ///
    /// If it prints no more.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("UTF-8 from the target");
        assert!(!line.is_empty(), "the target ended early");
        line.trim_end().to_owned()
    }

    /// Tells it to go on.
    ///
    /// # Panics
    ///
    /// If it has ended.
    pub fn go(&mut self) {
        let stdin = self.stdin.as_mut().expect("it has not been finished");
        stdin.write_all(b"go\n").expect("the target reads its stdin");
    }

    /// Waits for its end.
    ///
    /// # Panics
    ///
    /// If it prints something that is no UTF-8.
    pub fn finish(mut self) -> (ExitStatus, Truth) {
        self.stdin = None;
        let mut text = String::new();
        self.stdout.read_to_string(&mut text).expect("UTF-8 from the target");
        (self.child.wait().expect("a child can be waited for"), Truth::read(&text))
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: i32) {
        // SAFETY: the child has not been waited for, so the PID is its own.
        unsafe { libc::kill(self.child.id() as i32, signal) };
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail for a target that has been waited for, as it should be.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
