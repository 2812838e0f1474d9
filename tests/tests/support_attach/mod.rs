//! Targets that are told what to do through their memory, and `profil attach` on them.

#![allow(dead_code, reason = "each test program uses a part of it")]
#![allow(clippy::print_stdout, reason = "a test says why it skips, and what it saw")]

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use profil_user::address_space::{AddressSpace, Purpose};
use profil_user::process::TargetProcess;
use serde_json::Value;

/// Counters of the target's `buf`.
pub const COUNTERS: usize = 32768;
/// Bytes of the target's `buf`.
pub const BYTES: u64 = 2 * COUNTERS as u64;

/// How long anything may take before the test gives up: far more than it does.
const PATIENCE: Duration = Duration::from_secs(60);

/// The release binary; `None`, with the reason said, where the suite cannot run.
pub fn profil_or_skip(test: &str) -> Option<PathBuf> {
    // SAFETY: geteuid takes nothing and cannot fail.
    let root = unsafe { libc::geteuid() } == 0;
    let path = std::env::var_os("PROFIL_BIN").map(PathBuf::from);
    let reason = match &path {
        _ if !root => "needs root",
        None => "PROFIL_BIN names no binary",
        Some(_) => return path,
    };
    assert!(std::env::var_os("PROFIL_REQUIRE_BPF").is_none(), "{reason}");
    skip(test, reason);
    None
}

/// Says why a test, or a part of it, did not run.
#[expect(clippy::print_stdout, reason = "skips are counted by what the tests print")]
pub fn skip(test: &str, reason: &str) {
    println!("SKIP: {test}: {reason}");
}

/// Where this test program keeps its files.
pub fn scratch(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("attach-{}-{name}", std::process::id()))
}

/// Compiles a C target as `name`.
pub fn build(source: &str, name: &str, flags: &[&str]) -> PathBuf {
    let program = scratch(name);
    if !program.exists() {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("targets").join(source);
        let mut compiler = Command::new("cc");
        compiler.args(["-O1", "-g", "-fno-toplevel-reorder", "-o"]).arg(&program).arg(source).args(flags);
        let status = compiler.status().expect("a C compiler is installed");
        assert!(status.success(), "{compiler:?}");
    }
    program
}

/// The usual target, at fixed addresses.
pub fn fixed_target() -> PathBuf {
    build("attach_target.c", "fixed", &["-no-pie"])
}

/// The usual target, position-independent.
pub fn movable_target() -> PathBuf {
    build("attach_target.c", "movable", &["-fPIE", "-pie"])
}

/// Waits for a condition.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Sends a signal to a process of ours.
pub fn signal(pid: u32, number: i32) {
    // SAFETY: kill takes plain numbers.
    let done = unsafe { libc::kill(pid as i32, number) };
    assert_eq!(done, 0, "signal {number} to {pid}: {}", std::io::Error::last_os_error());
}

/// State of a process, as `/proc/PID/stat` writes it.
pub fn state(pid: u32) -> u8 {
    state_in(Path::new(&format!("/proc/{pid}")))
}

fn state_in(directory: &Path) -> u8 {
    let stat = std::fs::read_to_string(directory.join("stat")).unwrap_or_default();
    stat.rsplit(") ").next().and_then(|rest| rest.bytes().next()).unwrap_or(b'-')
}

/// Stops a process, and returns when all its threads have stopped.
pub fn freeze(pid: u32) {
    signal(pid, libc::SIGSTOP);
    until("the process has stopped", || {
        let threads = std::fs::read_dir(format!("/proc/{pid}/task")).expect("the process is there");
        threads.filter_map(Result::ok).all(|thread| state_in(&thread.path()) == b'T')
    });
}

/// Lets a stopped process go on.
pub fn thaw(pid: u32) {
    signal(pid, libc::SIGCONT);
}

/// CPU time of a single-threaded process.
pub fn cpu_time(pid: u32) -> Duration {
    let text = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).expect("the process runs");
    let ns = text.split(' ').next().and_then(|ns| ns.parse().ok());
    Duration::from_nanos(ns.expect("schedstat begins with nanoseconds"))
}

/// Waits until a process has used so much more CPU time.
pub fn let_run(pid: u32, time: Duration) {
    let start = cpu_time(pid);
    until("the target has run", || cpu_time(pid) - start >= time);
}

/// A running target. Dropping it kills it.
pub struct Target {
    child: Child,
    addresses: HashMap<String, u64>,
    mem: File,
}

impl Target {
    /// Starts a program that prints its addresses on one line.
    pub fn start(program: &Path) -> Target {
        Target::start_with(program, &[])
    }

    /// The same, with arguments.
    pub fn start_with(program: &Path, arguments: &[&Path]) -> Target {
        let mut command = Command::new(program);
        command.args(arguments).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{}: {error}", program.display()));
        let mut line = String::new();
        let stdout = child.stdout.as_mut().expect("a pipe was asked for");
        BufReader::new(stdout).read_line(&mut line).expect("the target prints a line");
        let addresses = line.split_whitespace().filter_map(|word| word.split_once("=0x"));
        let addresses = addresses
            .map(|(name, digits)| (name.to_owned(), u64::from_str_radix(digits, 16).expect("an address")))
            .collect();
        let mem = open_mem(child.id());
        Target { child, addresses, mem }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// An address that the target printed.
    pub fn address(&self, name: &str) -> u64 {
        *self.addresses.get(name).unwrap_or_else(|| panic!("the target printed no {name}"))
    }

    /// Opens the memory anew: after an exec the old file reaches nothing.
    pub fn after_exec(&mut self) {
        self.mem = open_mem(self.pid());
    }

    pub fn read(&self, address: u64, bytes: usize) -> Vec<u8> {
        let mut buffer = vec![0; bytes];
        self.mem.read_exact_at(&mut buffer, address).expect("the memory of the target is readable");
        buffer
    }

    /// The target's counters, 16 bits each.
    pub fn counters(&self) -> Vec<u16> {
        let bytes = self.read(self.address("buf"), BYTES as usize);
        bytes.chunks_exact(2).map(|counter| u16::from_ne_bytes([counter[0], counter[1]])).collect()
    }

    /// The target's counters, 32 bits each.
    pub fn wide_counters(&self) -> Vec<u32> {
        let bytes = self.read(self.address("buf"), BYTES as usize);
        bytes
            .chunks_exact(4)
            .map(|counter| u32::from_ne_bytes([counter[0], counter[1], counter[2], counter[3]]))
            .collect()
    }

    pub fn sum(&self) -> u64 {
        self.counters().into_iter().map(u64::from).sum()
    }

    /// A variable of the target.
    pub fn long(&self, name: &str) -> u64 {
        u64::from_ne_bytes(self.read(self.address(name), 8).try_into().expect("8 bytes were read"))
    }

    fn set_int(&self, name: &str, value: u32) {
        self.mem.write_all_at(&value.to_ne_bytes(), self.address(name)).expect("the target's memory is writable");
    }

    /// Gives a command without waiting for it.
    pub fn tell(&self, command: u8, argument: u32) {
        self.set_int("argument", argument);
        self.set_int("command", command.into());
    }

    /// Gives a command, and returns when it was obeyed.
    pub fn obey(&self, command: u8, argument: u32) {
        self.tell(command, argument);
        until("the target has obeyed", || self.read(self.address("command"), 4) == [0; 4]);
    }

    /// Whether the target still goes round.
    pub fn assert_unharmed(&mut self) {
        let rounds = self.long("rounds");
        until("the target goes on", || self.long("rounds") > rounds + 10);
        assert!(self.child.try_wait().expect("a child of ours").is_none(), "the target has ended");
    }

    /// Kills the target and reaps it.
    pub fn kill(&mut self) {
        let _ended = self.child.kill();
        self.child.wait().expect("a child of ours");
    }

    /// Exit status, if it has ended.
    pub fn ended(&mut self) -> Option<std::process::ExitStatus> {
        self.child.try_wait().expect("a child of ours")
    }

    /// The target and its address space, for the library.
    pub fn open(&self) -> (TargetProcess, AddressSpace) {
        let target = TargetProcess::open(self.pid()).expect("the target runs");
        let space = AddressSpace::of(&target, Purpose::Write).expect("the target runs");
        (target, space)
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        self.kill();
    }
}

fn open_mem(pid: u32) -> File {
    File::options().read(true).write(true).open(format!("/proc/{pid}/mem")).expect("the suite runs as root")
}

/// A running `profil attach`. Dropping it kills it.
pub struct Profil {
    child: Option<Child>,
}

/// What it left.
#[derive(Debug)]
pub struct Left {
    pub status: i32,
    pub json: Value,
    pub stdout: String,
    pub stderr: String,
}

impl Profil {
    /// Starts `profil attach -p PID ...`.
    pub fn attach(profil: &Path, pid: u32, arguments: &[&str]) -> Profil {
        let mut command = Command::new(profil);
        command.args(["attach", "-p", &pid.to_string()]).args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Profil { child: Some(command.spawn().expect("PROFIL_BIN can be run")) }
    }

    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("not waited for").id()
    }

    /// Waits until the target's counters grow, which they do while profil runs.
    pub fn until_counting(&self, target: &Target) {
        let before = target.sum();
        until("profil adds to the buffer", || target.sum() > before);
    }

    /// Stops it as Ctrl-C does.
    pub fn stop(self) -> Left {
        signal(self.pid(), libc::SIGINT);
        self.wait()
    }

    /// Waits for its end.
    pub fn wait(mut self) -> Left {
        let child = self.child.take().expect("not waited for");
        let pid = child.id();
        // Its pipes are read meanwhile: they do not hold all that it may print.
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::spawn(move || tell.send(child.wait_with_output()));
        let output = told.recv_timeout(PATIENCE).unwrap_or_else(|_| {
            signal(pid, libc::SIGKILL);
            panic!("waited in vain until profil has ended");
        });
        let Output { status, stdout, stderr } = output.expect("a child of ours");
        let (stdout, stderr) =
            (String::from_utf8_lossy(&stdout).into_owned(), String::from_utf8_lossy(&stderr).into_owned());
        let json = serde_json::from_str(&stdout).unwrap_or(Value::Null);
        Left { status: status.code().unwrap_or(-1), json, stdout, stderr }
    }

    pub fn kill(mut self) {
        let mut child = self.child.take().expect("not waited for");
        let _ended = child.kill();
        child.wait().expect("a child of ours");
    }
}

impl Drop for Profil {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ended = child.kill();
            let _reaped = child.wait();
        }
    }
}

impl Left {
    pub fn number(&self, field: &str) -> u64 {
        self.json[field].as_u64().unwrap_or_else(|| panic!("no number {field} in {self:?}"))
    }

    /// Ticks of each bin.
    pub fn bins(&self) -> HashMap<usize, u64> {
        let rows = self.json["bins"].as_array().unwrap_or_else(|| panic!("no bins in {self:?}"));
        rows.iter()
            .map(|row| (row["bin"].as_u64().expect("bin") as usize, row["ticks"].as_u64().expect("ticks")))
            .collect()
    }

    /// Ticks by function.
    pub fn functions(&self) -> HashMap<String, u64> {
        let mut functions = HashMap::new();
        for row in self.json["bins"].as_array().expect("bins") {
            let name = row["function"].as_str().unwrap_or("?").to_owned();
            *functions.entry(name).or_default() += row["ticks"].as_u64().expect("ticks");
        }
        functions
    }

    /// Checks what holds for every run: each tick has one outcome, and the bins hold those that were binned.
    pub fn assert_conserved(&self) {
        let outcomes = self.json["outcomes"].as_object().unwrap_or_else(|| panic!("no outcomes in {self:?}"));
        let sum: u64 = outcomes.values().filter_map(Value::as_u64).sum();
        assert_eq!(self.number("ticks"), sum, "{outcomes:?}");
        let binned = outcomes["binned"].as_u64().expect("binned");
        assert_eq!(self.bins().values().sum::<u64>(), binned);
    }

    /// And what holds where the buffer was there to the end: it got all of them.
    pub fn assert_all_written(&self) {
        self.assert_conserved();
        assert_eq!(self.json["written"], self.json["outcomes"]["binned"]);
    }
}
