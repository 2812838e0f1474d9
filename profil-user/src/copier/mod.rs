//! Copiers: processes that write bins into the buffers of the service's clients, one process for each uid.
//!
//! A client decides how long a write into it takes: it can keep its maps locked, or map a file whose server never
//! answers. So the service itself neither writes to a client nor reads its maps; a copier does, and has a deadline. One
//! that misses it is killed, its client is lost, and another copier goes on with the queue. Clients of other uids have
//! copiers of their own.
//!
//! ```text
//! service (one thread)           worker of a uid (task)              copier (process, runs as that uid)
//! Copiers::flush ──── queue ───> one request at a time ── socket ──> TargetBuffer::add
//!                                reply or deadline    <── socket ──  written, or why not
//! ```
//!
//! Ticks are written once or not at all: a request that was on its way when a copier ended is never sent again.

mod error;
mod peer;
mod portion;
pub mod serve;
mod wire;
mod worker;

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Instant;

use tokio::sync::{Semaphore, mpsc, oneshot};

use crate::address_space::AddressSpace;
use crate::bins::Run;
use crate::hush::Hush;
use crate::sink::hazards::Hazards;
use crate::sink::target::{AtLimit, Loss, Width};
use peer::Spawn;
use worker::{Job, LINGER, Worker};

pub use error::OpenError;

/// Copiers of one uid that may exist at the same time. More than one is there only while those before it do not die:
/// a process that waits for a FUSE server takes no signal. With so many parked, the uid gets no other.
const MAX_PROCESSES: usize = 4;

/// Largest number of buffers of one client.
pub const MAX_BUFFERS: usize = wire::MAX_BUFFERS;

/// A client of the service, by a number that it never gives to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClientId(pub u64);

/// A client's memory. It is the caller who opens it, as that may take as long as the client wants.
#[derive(Debug)]
pub struct Memory {
    /// The address space.
    pub space: AddressSpace,
    /// What tells of pages that user space serves, opened after the address space.
    pub hazards: io::Result<Hazards>,
}

/// A client into which nothing is written any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostClient {
    /// Which.
    pub client: ClientId,
    /// Why.
    pub loss: Loss,
}

/// Where bins of a process go: bins `first_bin..first_bin + nbins` are the counters at `start`. The bins of a client's
/// plans do not overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferPlan {
    /// First byte of the buffer (AVMA).
    pub start: u64,
    /// Counters.
    pub nbins: u32,
    /// Bin of the process that the first counter stands for.
    pub first_bin: u32,
    /// Bytes of a counter.
    pub width: Width,
    /// What a full counter does.
    pub at_limit: AtLimit,
}

/// All copiers of a service. Its methods wait for nothing; they must be called within a tokio runtime, whose end kills
/// the copiers. Those of a `Copiers` that is dropped write what is queued and end.
///
/// The thread that runs the runtime must live as long as it: a copier dies with the thread that started it.
pub struct Copiers {
    program: PathBuf,
    lost: mpsc::UnboundedSender<LostClient>,
    queues: HashMap<u32, Queue>,
    uids: HashMap<ClientId, u32>,
    /// Processes that each uid may still have: outlives the queue, as long as one of them is there.
    processes: HashMap<u32, Weak<Semaphore>>,
    hush: Arc<Hush>,
}

struct Queue {
    jobs: mpsc::UnboundedSender<Job>,
    clients: usize,
    /// When its last client was closed, or the queue made.
    idle_since: Instant,
}

impl Copiers {
    /// No copiers yet; the program that runs now also serves as the copiers' (`profil copier`).
    ///
    /// `lost` receives the clients whose buffers took no more bins or that stalled their copier. Nothing is written
    /// into any buffer of theirs from then on; they are still to be closed.
    pub fn new(lost: mpsc::UnboundedSender<LostClient>) -> Copiers {
        Copiers::with_program(crate::jail::own_program(), lost)
    }

    /// As [`Copiers::new`], for a program that is not `profil` itself.
    pub fn with_program(program: PathBuf, lost: mpsc::UnboundedSender<LostClient>) -> Copiers {
        let (queues, uids, processes) = (HashMap::new(), HashMap::new(), HashMap::new());
        Copiers { program, lost, queues, uids, processes, hush: Arc::default() }
    }

    /// Hands a client's memory and buffers to the copier of its uid, which checks them and answers by `done`.
    ///
    /// Well opened or not, a client is to be closed once.
    pub fn open(
        &mut self,
        uid: u32,
        client: ClientId,
        memory: Memory,
        buffers: Vec<BufferPlan>,
        done: oneshot::Sender<Result<(), OpenError>>,
    ) {
        self.uids.insert(client, uid);
        if !self.queues.contains_key(&uid) {
            let queue = self.start_worker(uid);
            self.queues.insert(uid, queue);
        }
        if let Some(queue) = self.queues.get_mut(&uid) {
            queue.clients += 1;
        }
        self.send(client, Job::Open { client, memory, buffers, done });
    }

    /// Queues bins to be added; `done` is sent when they are written or cannot be.
    pub fn flush(&mut self, client: ClientId, runs: Vec<Run>, done: Option<oneshot::Sender<()>>) {
        self.send(client, Job::Flush { client, runs, done });
    }

    /// Queued behind all flushes before it; closes the descriptors.
    pub fn close(&mut self, client: ClientId) {
        self.send(client, Job::Close { client });
        let Some(uid) = self.uids.remove(&client) else { return };
        if let Some(queue) = self.queues.get_mut(&uid) {
            queue.clients -= 1;
            queue.idle_since = Instant::now();
        }
    }

    /// A job of a client that nobody knows is dropped, and its `done` with it.
    fn send(&self, client: ClientId, job: Job) {
        let queue = self.uids.get(&client).and_then(|uid| self.queues.get(uid));
        if let Some(queue) = queue {
            // A worker ends only when its queue does, or with the runtime.
            let _sent = queue.jobs.send(job);
        }
    }

    fn start_worker(&mut self, uid: u32) -> Queue {
        // Their workers, which have ended their copiers by themselves, end as well.
        self.queues.retain(|_, queue| queue.clients > 0 || queue.idle_since.elapsed() < LINGER);
        self.processes.retain(|_, processes| processes.strong_count() > 0);
        let processes = self.processes.get(&uid).and_then(Weak::upgrade);
        let processes = processes.unwrap_or_else(|| Arc::new(Semaphore::new(MAX_PROCESSES)));
        self.processes.insert(uid, Arc::downgrade(&processes));
        let (jobs, queue) = mpsc::unbounded_channel();
        let spawn = Spawn { uid, program: self.program.clone(), processes };
        tokio::spawn(Worker::new(spawn, self.lost.clone(), Arc::clone(&self.hush)).run(queue));
        Queue { jobs, clients: 0, idle_since: Instant::now() }
    }
}
