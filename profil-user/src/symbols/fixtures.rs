//! Programs that are built for a test and run by it.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use super::target_files::{Identity, MappedFile};
use crate::maps::{self, MapEntry};

/// Prints the address of `hot`, then waits until its input ends.
pub const PROGRAM: &str = r#"
#include <stdio.h>
volatile int sink;
int counters[16];
static inline __attribute__((always_inline)) int leaf(int x) {
    for (int i = 0; i < 10; i++) sink += x * i;
    return sink;
}
__attribute__((noinline)) int hot(int x) {
    sink = x + 1;
    return leaf(x) + 3;
}
__attribute__((noinline)) static int quiet(int x) { return sink ^= x; }
int main(void) {
    printf("%lx\n", (unsigned long)&hot);
    fflush(stdout);
    getchar();
    return hot(1) + quiet(2) + counters[3] == 1234567;
}
"#;

/// A directory for what a test builds.
pub struct Workshop(TempDir);

impl Workshop {
    pub fn new() -> Workshop {
        Workshop(tempfile::tempdir().expect("a directory"))
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Runs a tool in the directory, and expects it to succeed.
    pub fn run(&self, tool: &str, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) {
        let output = Command::new(tool).args(arguments).current_dir(self.path()).output();
        let output = output.unwrap_or_else(|error| panic!("{tool} is needed: {error}"));
        assert!(output.status.success(), "{tool}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Builds `program` from a source with a compiler and its options.
    pub fn build(&self, compiler: &str, extension: &str, source: &str, options: &[&str]) -> PathBuf {
        let input = format!("program.{extension}");
        std::fs::write(self.path().join(&input), source).expect("written");
        self.run(compiler, ["-O1", "-g", "-o", "program", &input].iter().chain(options));
        self.path().join("program")
    }

    /// Builds [`PROGRAM`] with gcc.
    pub fn program(&self, options: &[&str]) -> PathBuf {
        self.build("gcc", "c", PROGRAM, options)
    }
}

/// A running [`PROGRAM`].
pub struct Running {
    child: Child,
    /// Address of `hot` (AVMA).
    pub hot: u64,
}

impl Running {
    pub fn start(program: &Path) -> Running {
        let child = Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.expect("the program starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
        let hot = u64::from_str_radix(line.trim(), 16).expect("an address");
        Running { child, hot }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The mapping that holds an address.
    pub fn mapping(&self, pc: u64) -> MapEntry {
        let text = std::fs::read(format!("/proc/{}/maps", self.pid())).expect("maps");
        let entries = maps::parse(&text).expect("maps as the kernel writes them");
        entries.into_iter().find(|entry| (entry.start..entry.end).contains(&pc)).expect("a mapping")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// A mapping as the profiler asks for it.
pub fn mapped(pid: Option<u32>, entry: &MapEntry) -> MappedFile {
    MappedFile {
        pid,
        start: entry.start,
        end: entry.end,
        path: PathBuf::from(&entry.path),
        identity: Identity::default(),
    }
}

/// The functions of a file as nm(1) gives them: name, SVMA, size.
pub fn functions(path: &Path) -> Vec<(String, u64, u64)> {
    let output = Command::new("nm").args(["-S", "--defined-only"]).arg(path).output().expect("nm runs");
    let text = String::from_utf8(output.stdout).expect("text");
    text.lines()
        .filter_map(|line| {
            let fields: Vec<&str> = line.split(' ').collect();
            let [svma, size, "T" | "t" | "W", name] = fields[..] else { return None };
            Some((name.to_owned(), u64::from_str_radix(svma, 16).ok()?, u64::from_str_radix(size, 16).ok()?))
        })
        .collect()
}
