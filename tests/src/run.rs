//! `profil run`: a program whose calls of profil(3) the kernel serves.

use std::ffi::OsStr;
use std::process::{Command, ExitStatus, Output, Stdio};

use crate::profil::binary;
use crate::truth::Truth;

/// A `profil run` that is about to be made.
#[derive(Debug)]
pub struct Run {
    command: Command,
}

impl Run {
    /// `profil run` with these arguments.
    pub fn new<S: AsRef<OsStr>>(arguments: &[S]) -> Run {
        let mut command = Command::new(binary());
        command.arg("run").args(arguments).stdin(Stdio::null());
        Run { command }
    }

    /// `profil run` at a rate, with profil(3) read by a convention.
    pub fn at(hz: u32, convention: &str) -> Run {
        Run::new(&["-F", &hz.to_string(), "--convention", convention])
    }

    /// Sets a variable of the environment.
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Run {
        self.command.env(name, value);
        self
    }

    /// Runs in a folder.
    pub fn in_folder(mut self, folder: impl AsRef<std::path::Path>) -> Run {
        self.command.current_dir(folder);
        self
    }

    /// The command line with a program to launch, for who runs it himself.
    pub fn of<S: AsRef<OsStr>>(mut self, program: impl AsRef<OsStr>, arguments: &[S]) -> Command {
        self.command.arg("--").arg(program).args(arguments);
        self.command
    }

    /// Runs a program to its end.
    ///
    /// # Panics
    ///
    /// If that is not possible, or profil finds that its numbers do not add up.
    pub fn launch<S: AsRef<OsStr>>(self, program: impl AsRef<OsStr>, arguments: &[S]) -> Ran {
        let mut command = self.of(program, arguments);
        let Output { status, stdout, stderr } =
            command.output().unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let ran = Ran { status, stdout: text(stdout), stderr: text(stderr) };
        assert!(!ran.stderr.contains("does not add up"), "{ran:?}");
        ran
    }

    /// Runs a target that ends well, and reads what it told.
    ///
    /// # Panics
    ///
    /// As [`Run::launch`], or if the target fails.
    pub fn tell<S: AsRef<OsStr>>(self, program: impl AsRef<OsStr>, arguments: &[S]) -> Truth {
        let ran = self.launch(program, arguments);
        assert_eq!(ran.status.code(), Some(0), "{ran:?}");
        ran.truth()
    }
}

/// What a `profil run` left.
#[derive(Debug)]
pub struct Ran {
    /// How it ended: as the program did.
    pub status: ExitStatus,
    /// What the program printed.
    pub stdout: String,
    /// What both said.
    pub stderr: String,
}

impl Ran {
    /// What the program measured of itself.
    pub fn truth(&self) -> Truth {
        Truth::read(&self.stdout)
    }

    /// Ticks that the kernel put into bins, by the summary.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn binned(&self) -> u64 {
        self.number_before(" binned")
    }

    /// Ticks that came while the program was profiled, by the summary.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn ticks(&self) -> u64 {
        self.number_before(" ticks")
    }

    fn number_before(&self, word: &str) -> u64 {
        let before = self.stderr.lines().find_map(|line| line.strip_prefix("profil: ")?.split_once(word));
        let (before, _) = before.unwrap_or_else(|| panic!("no{word} in {self:?}"));
        let digits = before.rsplit([' ', '(']).next().unwrap_or_default().replace(',', "");
        digits.parse().unwrap_or_else(|error| panic!("no number before{word}: {error}: {self:?}"))
    }
}
