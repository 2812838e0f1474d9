//! The service, running for all, and what can be seen of it from outside.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::patience::until;
use crate::profil;
use crate::scratch::Scratch;

/// Bins that the service may keep for the next client, each with a descriptor of its map.
const WARM_MAX: usize = 64;

/// A running `profil daemon --service-only`; killed when dropped.
#[derive(Debug)]
pub struct Daemon {
    child: Child,
    socket: PathBuf,
    log: PathBuf,
}

/// Descriptors of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptors {
    /// Of BPF maps.
    pub maps: usize,
    /// All others.
    pub others: usize,
}

impl Daemon {
    /// Starts the service with its socket in `scratch`, and waits until it serves.
    ///
    /// # Panics
    ///
    /// If it cannot be run, or ends.
    pub fn start(scratch: &Scratch) -> Daemon {
        Daemon::run(scratch, Command::new(profil::binary()))
    }

    /// Starts the service with so many descriptors, as [`Daemon::start`].
    ///
    /// # Panics
    ///
    /// If it cannot be run, or ends.
    pub fn with_descriptors(scratch: &Scratch, descriptors: u64) -> Daemon {
        let mut command = Command::new("prlimit");
        command.arg(format!("--nofile={descriptors}:{descriptors}")).arg(profil::binary());
        Daemon::run(scratch, command)
    }

    fn run(scratch: &Scratch, mut command: Command) -> Daemon {
        let (socket, log) = (scratch.path("socket"), scratch.path("daemon.log"));
        let stderr = File::create(&log).expect("a file in our own folder");
        command.args(["daemon", "--service-only", "--socket"]).arg(&socket);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr).spawn().expect("profil runs");
        let mut daemon = Daemon { child, socket, log };
        until("the service says that it serves", || {
            assert!(daemon.is_running(), "the service has ended: {}", daemon.log());
            daemon.log().contains("serving").then_some(())
        });
        daemon
    }

    /// Its PID.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its socket.
    pub fn socket(&self) -> &PathBuf {
        &self.socket
    }

    /// What it has said.
    ///
    /// # Panics
    ///
    /// If it said something that is no UTF-8.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).expect("UTF-8 from profil")
    }

    /// Whether it has not ended.
    ///
    /// # Panics
    ///
    /// If the kernel does not tell.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("a child can be waited for").is_none()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: i32) {
        // SAFETY: the child has not been waited for, so the PID is its own.
        unsafe { libc::kill(self.pid() as i32, signal) };
    }

    /// Stops it as Ctrl-Z does, and waits until it stands still.
    pub fn freeze(&self) {
        self.signal(libc::SIGSTOP);
        let path = format!("/proc/{}/stat", self.pid());
        until("the service stands still", || fs::read_to_string(&path).ok()?.contains(") T ").then_some(()));
    }

    /// Closes its one map with values of so many bytes to all but programs, as bpf(2) can: it then takes nothing more.
    ///
    /// # Panics
    ///
    /// If there is no such map.
    pub fn freeze_map(&self, value_bytes: usize) {
        let folder = format!("/proc/{}/fdinfo", self.pid());
        let of_value = format!("value_size:\t{value_bytes}\n");
        let ids = fs::read_dir(folder).expect("the service runs").filter_map(|entry| {
            let text = fs::read_to_string(entry.ok()?.path()).ok()?;
            let id = text.contains(&of_value).then(|| text.lines().find_map(|line| line.strip_prefix("map_id:")))?;
            id?.trim().parse::<u32>().ok()
        });
        let [id] = ids.collect::<Vec<_>>()[..] else { panic!("one map has values of {value_bytes} bytes") };
        let map = bpf(BPF_MAP_GET_FD_BY_ID, id);
        assert_eq!(bpf(BPF_MAP_FREEZE, map as u32), 0, "the map is closed");
    }

    /// The descriptors that it has now.
    ///
    /// # Panics
    ///
    /// If it has ended.
    pub fn descriptors(&self) -> Descriptors {
        let mut descriptors = Descriptors { maps: 0, others: 0 };
        for entry in fs::read_dir(format!("/proc/{}/fd", self.pid())).expect("the service runs") {
            // One that is closed meanwhile is one less.
            match entry.and_then(|entry| fs::read_link(entry.path())) {
                Ok(target) if target.as_os_str() == "anon_inode:bpf-map" => descriptors.maps += 1,
                Ok(_) => descriptors.others += 1,
                Err(_) => {}
            }
        }
        descriptors
    }

    /// Waits until it holds nothing of any client, as `before` they came, but for bins that it keeps warm.
    ///
    /// # Panics
    ///
    /// If it has ended, or goes on holding something.
    pub fn await_calm(&mut self, before: Descriptors) {
        until("the service has let go of all clients", || {
            assert!(self.is_running(), "the service has ended: {}", self.log());
            let now = self.descriptors();
            (now.others == before.others && now.maps <= before.maps + WARM_MAX).then_some(())
        });
    }

    /// Ends it, and returns what it said, which is that all ticks add up.
    ///
    /// # Panics
    ///
    /// If it fails, or ticks are not accounted for.
    pub fn stop(mut self) -> String {
        self.signal(libc::SIGTERM);
        let status = self.child.wait().expect("a child can be waited for");
        let log = self.log();
        assert!(status.success(), "{status}: {log}");
        assert!(!log.contains("does not add up") && !log.contains("panicked"), "{log}");
        assert!(log.contains("profiling was turned on"), "a summary at the end: {log}");
        log
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // Both fail for one that has been waited for, as it should be.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `enum bpf_cmd` of include/uapi/linux/bpf.h.
const BPF_MAP_GET_FD_BY_ID: libc::c_int = 14;
const BPF_MAP_FREEZE: libc::c_int = 22;

/// Makes a call of bpf(2) whose only argument is a number; a descriptor that it returns stays open.
fn bpf(command: libc::c_int, argument: u32) -> i64 {
    let attributes = [argument, 0, 0, 0];
    // SAFETY: the attributes are live and of the size that is given; the kernel takes those that follow as 0.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, attributes.as_ptr(), size_of_val(&attributes)) };
    assert!(result >= 0, "bpf(2): {}", std::io::Error::last_os_error());
    result
}
