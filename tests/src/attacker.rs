//! A user without rights who attacks the service.

use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::scratch::Scratch;

/// User of the attacker: nobody.
pub const UID: u32 = 65_534;

/// The program of attacks, where user [`UID`] may run it.
#[derive(Debug)]
pub struct Attacker {
    program: PathBuf,
    socket: PathBuf,
}

impl Attacker {
    /// Copies the program, which cargo has built at `built`, into `scratch`, and aims it at a socket.
    ///
    /// # Panics
    ///
    /// If it cannot be copied.
    pub fn new(scratch: &Scratch, built: &str, socket: &Path) -> Attacker {
        let program = scratch.path("attacker");
        std::fs::copy(built, &program).expect("a copy of the attacker");
        Attacker { program, socket: socket.to_owned() }
    }

    /// The command of an attack by some user, in a process group of its own.
    pub fn command(&self, uid: u32, attack: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.arg(&self.socket).args(attack).uid(uid).gid(uid).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command
    }

    /// Runs an attack to its end, and returns what happened.
    ///
    /// # Panics
    ///
    /// If it cannot be made.
    pub fn run(&self, attack: &[&str]) -> Happened {
        let output = self.command(UID, attack).output().expect("the attacker runs");
        assert!(output.status.success(), "{attack:?}: {}", String::from_utf8_lossy(&output.stderr));
        Happened::read(&String::from_utf8(output.stdout).expect("UTF-8 from the attacker"))
    }

    /// Starts an attack, and waits until it says `ready`.
    ///
    /// # Panics
    ///
    /// If it cannot be made.
    pub fn start(&self, uid: u32, attack: &[&str]) -> Attack {
        Attack::of(self.command(uid, attack))
    }
}

/// An attack that is under way; ended with all its processes when dropped.
#[derive(Debug)]
pub struct Attack {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    /// What has happened before it said `ready`.
    pub happened: Happened,
}

impl Attack {
    /// Starts a command of [`Attacker::command`], and waits until it says `ready`.
    ///
    /// # Panics
    ///
    /// If it cannot be run, or ends before.
    pub fn of(mut command: Command) -> Attack {
        let mut child = command.spawn().expect("the attacker runs");
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().expect("a piped stdout"));
        let mut attack = Attack { child, stdin, stdout, happened: Happened(Vec::new()) };
        let mut text = String::new();
        loop {
            let mut line = String::new();
            attack.stdout.read_line(&mut line).expect("UTF-8 from the attacker");
            assert!(!line.is_empty(), "{command:?} ended after {text:?}");
            if line.starts_with("ready") {
                attack.happened = Happened::read(&text);
                return attack;
            }
            text.push_str(&line);
        }
    }

    /// Ends it, and returns what has happened since it said `ready`.
    ///
    /// # Panics
    ///
    /// If it printed something that is no UTF-8.
    pub fn end(mut self) -> Happened {
        self.stdin = None;
        let mut text = String::new();
        self.stdout.read_to_string(&mut text).expect("UTF-8 from the attacker");
        Happened::read(&text)
    }
}

impl Drop for Attack {
    fn drop(&mut self) {
        // SAFETY: the child has not been waited for, so that the process group is still its own.
        unsafe { libc::kill(-(self.child.id() as i32), libc::SIGKILL) };
        let _ = self.child.wait();
    }
}

/// What an attacker saw: names with errnos or counts, in the order in which it happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Happened(Vec<(String, i64)>);

impl Happened {
    fn read(text: &str) -> Happened {
        let line = |line: &str| {
            let (name, value) = line.split_once(' ')?;
            Some((name.to_owned(), value.parse().ok()?))
        };
        Happened(text.lines().map(|text| line(text).unwrap_or_else(|| panic!("{text:?}"))).collect())
    }

    /// All values with a name.
    pub fn all(&self, name: &str) -> Vec<i64> {
        self.0.iter().filter(|(other, _)| other == name).map(|(_, value)| *value).collect()
    }

    /// The value with a name, which there is once.
    ///
    /// # Panics
    ///
    /// If there is none, or another.
    pub fn one(&self, name: &str) -> i64 {
        match self.all(name)[..] {
            [value] => value,
            ref values => panic!("{name}: {values:?} in {self:?}"),
        }
    }

    /// All names with their values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, i64)> {
        self.0.iter().map(|(name, value)| (name.as_str(), *value))
    }
}
