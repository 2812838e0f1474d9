//! A service with copiers, and its clients.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use profil_user::address_space::{AddressSpace, Purpose};
use profil_user::bins::Run;
use profil_user::copier::{BufferPlan, ClientId, Copiers, LostClient, Memory, OpenError};
use profil_user::sink::hazards::Hazards;
use profil_user::sink::target::{AtLimit, Width};
use tokio::sync::{mpsc, oneshot};

/// A runtime as the service has it: one thread.
pub fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// A client program (targets/copier_client.c).
pub struct Target {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
    space: AddressSpace,
    uid: u32,
    /// Its buffer (AVMA).
    pub buffer: u64,
    bytes: u32,
}

impl Target {
    /// Starts one as a user; `served` is the file that it maps when told to.
    pub fn start(program: &Path, uid: u32, served: &Path) -> Target {
        let mut command = Command::new(program);
        command.arg(served).stdin(Stdio::piped()).stdout(Stdio::piped()).uid(uid);
        let mut child = command.spawn().expect("the client starts");
        let orders = child.stdin.take().expect("piped");
        let mut answers = BufReader::new(child.stdout.take().expect("piped"));
        let line = answer(&mut answers);
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let ["buffer", buffer, bytes] = fields[..] else { panic!("{line}") };
        let space = AddressSpace::open(child.id(), Purpose::Write).expect("root may open any memory");
        let (buffer, bytes) = (buffer.parse().expect("a number"), bytes.parse().expect("a number"));
        Target { child, orders, answers, space, uid, buffer, bytes }
    }

    /// Has it do something.
    pub fn obey(&mut self, order: char) {
        write!(self.orders, "{order}").expect("the client reads");
        assert_eq!(answer(&mut self.answers), "done\n");
    }

    /// Counters of 16 bits in its buffer.
    pub fn bins(&self) -> u32 {
        self.bytes / 2
    }

    /// One plan for all of its buffer, as profil(3) has it.
    pub fn whole(&self) -> Vec<BufferPlan> {
        let (start, nbins) = (self.buffer, self.bins());
        vec![BufferPlan { start, nbins, first_bin: 0, width: Width::Two, at_limit: AtLimit::Wrap }]
    }

    /// What stands in its buffer.
    pub fn counters(&self, first: u32, length: u32) -> Vec<u32> {
        let mut bytes = vec![0; length as usize * 2];
        let read = self.space.read_at(&mut bytes, self.buffer + u64::from(first) * 2).expect("the buffer is mapped");
        assert_eq!(read, bytes.len());
        bytes.as_chunks().0.iter().map(|counter| u32::from(u16::from_ne_bytes(*counter))).collect()
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        let _killed = self.child.kill();
        // One whose threads wait for a FUSE server ends with that.
        if !std::thread::panicking() {
            let _ended = self.child.try_wait();
        }
    }
}

fn answer(from: &mut BufReader<ChildStdout>) -> String {
    let mut line = String::new();
    from.read_line(&mut line).expect("the client answers");
    line
}

/// A service.
pub struct Service {
    copiers: Option<Copiers>,
    /// Clients that it lost.
    pub lost: mpsc::UnboundedReceiver<LostClient>,
    clients: HashSet<ClientId>,
}

impl Service {
    /// One without clients.
    pub fn new(profil: &Path) -> Service {
        let (sender, lost) = mpsc::unbounded_channel();
        let copiers = Some(Copiers::with_program(profil.to_owned(), sender));
        Service { copiers, lost, clients: HashSet::new() }
    }

    fn copiers(&mut self) -> &mut Copiers {
        self.copiers.as_mut().expect("it has not ended")
    }

    /// Opens a client.
    pub async fn open(&mut self, client: ClientId, target: &Target, plans: Vec<BufferPlan>) -> Result<(), OpenError> {
        let (sender, done) = oneshot::channel();
        let space = target.space.try_clone().expect("descriptors are left");
        let hazards = Hazards::of(&space);
        self.clients.insert(client);
        self.copiers().open(target.uid, client, Memory { space, hazards }, plans, sender);
        done.await.expect("answered")
    }

    /// Adds neighbouring bins.
    pub fn add(&mut self, client: ClientId, first: u32, added: &[u32]) -> oneshot::Receiver<()> {
        let (sender, done) = oneshot::channel();
        self.copiers().flush(client, vec![Run { first, added: added.to_vec() }], Some(sender));
        done
    }

    /// The copier that serves a user.
    pub fn copier(&self, uid: u32) -> u32 {
        let found = self.processes().into_iter().find(|(_, owner)| *owner == uid);
        found.expect("the user has a copier").0
    }

    /// All copiers of this thread that have not ended, with their users.
    fn processes(&self) -> Vec<(u32, u32)> {
        let children = std::fs::read_to_string("/proc/thread-self/children").expect("our own children");
        let alive = |pid: u32| {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
            let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
            let uid = field("Uid:")?.split_ascii_whitespace().next()?.parse().ok()?;
            let ended = field("State:")?.starts_with('Z');
            (field("Name:")? == "profil-copier" && !ended).then_some((pid, uid))
        };
        children.split_ascii_whitespace().filter_map(|pid| alive(pid.parse().ok()?)).collect()
    }

    /// Closes all clients and ends; no copier is left.
    pub async fn end(mut self) {
        for client in std::mem::take(&mut self.clients) {
            self.copiers().close(client);
        }
        self.copiers = None;
        let since = Instant::now();
        while !self.processes().is_empty() {
            assert!(since.elapsed() < Duration::from_secs(60), "copiers are left");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}
