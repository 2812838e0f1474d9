//! The program under test.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use crate::patience::until;
use crate::report::{By, Report};
use crate::scratch::Scratch;
use crate::truth::Truth;

/// Path of the program under test.
///
/// # Panics
///
/// If the environment does not name it.
pub fn binary() -> PathBuf {
    std::env::var_os("PROFIL_BIN").expect("PROFIL_BIN names the program; `cargo xtask test --root` sets it").into()
}

/// A recording that is about to be made.
#[derive(Debug)]
pub struct Profil {
    command: Command,
    file: PathBuf,
}

impl Profil {
    /// `profil record` with these arguments and a file of its own in `scratch`.
    pub fn record<S: AsRef<OsStr>>(scratch: &Scratch, arguments: &[S]) -> Profil {
        Profil::record_to(scratch.path("profile.pb.gz"), arguments)
    }

    /// `profil record` with these arguments, to a file.
    pub fn record_to<S: AsRef<OsStr>>(file: PathBuf, arguments: &[S]) -> Profil {
        let mut command = Command::new(binary());
        command.args(["record", "-o"]).arg(&file).args(arguments).stdin(Stdio::null());
        Profil { command, file }
    }

    /// The same, with the program itself run by others, such as `unshare`.
    pub fn by<S: AsRef<OsStr>>(runner: &[&str], scratch: &Scratch, arguments: &[S]) -> Profil {
        let file = scratch.path("profile.pb.gz");
        let mut command = Command::new(runner[0]);
        command.args(&runner[1..]).arg(binary()).args(["record", "-o"]).arg(&file).args(arguments);
        command.stdin(Stdio::null());
        Profil { command, file }
    }

    /// Adds a command to launch.
    pub fn launch<S: AsRef<OsStr>>(mut self, program: impl AsRef<OsStr>, arguments: &[S]) -> Profil {
        self.command.arg("--").arg(program).args(arguments);
        self
    }

    /// Runs it in a folder.
    pub fn in_folder(mut self, folder: impl AsRef<Path>) -> Profil {
        self.command.current_dir(folder);
        self
    }

    /// Runs it to its end.
    ///
    /// # Panics
    ///
    /// If it cannot be run.
    pub fn run(self) -> Recorded {
        self.spawn().wait()
    }

    /// Starts it, and does not wait until it ticks.
    ///
    /// # Panics
    ///
    /// If it cannot be run.
    pub fn spawn(mut self) -> Recording {
        self.command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = self.command.spawn().unwrap_or_else(|error| panic!("cannot run {:?}: {error}", self.command));
        Recording { child: Some(child), file: self.file }
    }

    /// Starts it, and waits until it ticks: until it can write an interim file.
    ///
    /// # Panics
    ///
    /// If it cannot be run, or ends before.
    pub fn start(self) -> Recording {
        let mut recording = self.spawn();
        recording.await_ticks();
        recording
    }
}

/// A recording under way; killed when dropped.
#[derive(Debug)]
pub struct Recording {
    child: Option<Child>,
    file: PathBuf,
}

impl Recording {
    /// PID of profil.
    ///
    /// # Panics
    ///
    /// Never: only `wait` takes the child, and ends the recording.
    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("waited for only once").id()
    }

    /// Sends profil a signal.
    pub fn signal(&self, signal: i32) {
        // SAFETY: the child has not been waited for, so the PID is its own.
        unsafe { libc::kill(self.pid() as i32, signal) };
    }

    /// Where it writes.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Waits until profil listens to a signal.
    ///
    /// # Panics
    ///
    /// If it ends before.
    pub fn await_listener(&mut self, signal: i32) {
        let path = format!("/proc/{}/status", self.pid());
        until("profil listens to signals", || {
            assert!(!self.has_ended(), "profil has ended: {:?}", self.child.take().map(Child::wait_with_output));
            let status = fs::read_to_string(&path).ok()?;
            let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:\t"))?;
            (u64::from_str_radix(caught, 16).ok()? >> (signal - 1) & 1 == 1).then_some(())
        });
    }

    fn await_ticks(&mut self) {
        let before = fs::metadata(&self.file).ok().map(|metadata| std::os::unix::fs::MetadataExt::ino(&metadata));
        self.await_listener(libc::SIGUSR1);
        self.signal(libc::SIGUSR1);
        until("profil writes an interim file", || {
            assert!(!self.has_ended(), "profil has ended: {:?}", self.child.take().map(Child::wait_with_output));
            let metadata = fs::metadata(&self.file).ok()?;
            (metadata.len() > 0 && before != Some(std::os::unix::fs::MetadataExt::ino(&metadata))).then_some(())
        });
    }

    fn has_ended(&mut self) -> bool {
        let child = self.child.as_mut().expect("waited for only once");
        child.try_wait().expect("a child can be waited for").is_some()
    }

    /// Waits until it ends by itself.
    ///
    /// # Panics
    ///
    /// If it prints no UTF-8.
    pub fn wait(mut self) -> Recorded {
        let child = self.child.take().expect("waited for only once");
        let output = child.wait_with_output().expect("a child can be waited for");
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8 from profil");
        Recorded {
            status: output.status,
            stdout: text(output.stdout),
            stderr: text(output.stderr),
            file: self.file.clone(),
        }
    }

    /// Asks it to stop and write, and waits for that.
    pub fn stop(self) -> Recorded {
        self.signal(libc::SIGINT);
        self.wait()
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // Both fail for one that has ended meanwhile, as it should be.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A recording that has ended.
#[derive(Debug)]
pub struct Recorded {
    /// How it ended.
    pub status: ExitStatus,
    /// What it, and the command that it launched, printed.
    pub stdout: String,
    /// What it said.
    pub stderr: String,
    /// The file that it was to write.
    pub file: PathBuf,
}

impl Recorded {
    /// The exit status as a shell shows it.
    ///
    /// # Panics
    ///
    /// If profil itself was killed.
    pub fn code(&self) -> i32 {
        self.status.code().unwrap_or_else(|| panic!("profil was killed: {}: {}", self.status, self.stderr))
    }

    /// What the launched command measured of itself.
    pub fn truth(&self) -> Truth {
        Truth::read(&self.stdout)
    }

    /// The report of the file that was written.
    ///
    /// # Panics
    ///
    /// If there is none, or if ticks have vanished in it.
    pub fn report(&self, by: By) -> Report {
        let mut report = Command::new(binary());
        report.args(["report", "--json", "--limit", "0", "--by", by.word()]).arg(&self.file);
        let output = report.output().expect("profil runs");
        let said = String::from_utf8_lossy(&output.stderr);
        // 4: a profile without a tick, which is a report all the same.
        assert!(matches!(output.status.code(), Some(0 | 4)), "{report:?}: {said}; recorded: {}", self.stderr);
        Report::read(&output.stdout)
    }
}
