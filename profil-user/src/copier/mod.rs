//! Processes that write into the buffers of clients, one for each user.
//!
//! A program can make a page of its own block whoever writes to it, for ever (userfaultfd, a FUSE file). So clients of a
//! service are written to by a small process that can be killed: one for each user, so that a user's programs keep
//! nobody else's waiting. It is killed when one write takes longer than [`PATIENCE`]; whose write it was is dropped, and
//! the others go on with another process.

mod message;
mod process;
pub mod serve;

use std::collections::HashMap;
use std::io;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use crate::address_space::AddressSpace;
use crate::bins::Run;
use crate::sink::target::{AtLimit, Loss, Width};
use message::{BufferFault, Request, Verdict};
use process::{CopierProcess, ExchangeError};

/// How long a copier may take for one client.
pub const PATIENCE: Duration = Duration::from_millis(250);

/// How long a copier without clients waits for the next one.
const LINGER: Duration = Duration::from_secs(10);

/// A client, among all that a service ever had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClientId(pub u64);

/// Where bins of a process go: bin `first_bin` of the process is the counter at `start`, and so on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferPlan {
    /// Address of the buffer (AVMA).
    pub start: u64,
    /// Counters of the buffer.
    pub nbins: u32,
    /// Bin of the process that the first counter stands for.
    pub first_bin: u32,
    /// Bytes of a counter.
    pub width: Width,
    /// What a full counter does.
    pub at_limit: AtLimit,
}

/// A client whose buffers take no more bins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostClient {
    /// The client.
    pub client: ClientId,
    /// Why.
    pub loss: Loss,
}

/// Buffers that cannot be written to.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// They are not what buffers must be.
    #[error("{0}")]
    Buffer(BufferFault),
    /// They cannot even be looked at in time.
    #[error("the buffers cannot be looked at within {} ms", PATIENCE.as_millis())]
    Stalled,
    /// There is no copier.
    #[error("no process to write into the buffers")]
    Copier(#[source] io::Error),
}

/// Called with the verdict on a client's buffers.
type OpenDone = Box<dyn FnOnce(Result<(), OpenError>) + Send>;

/// What a copier is to do.
enum Job {
    Open { client: ClientId, space: AddressSpace, buffers: Vec<BufferPlan>, done: OpenDone },
    Add { client: ClientId, runs: Vec<Run>, done: Option<oneshot::Sender<()>> },
    Close { client: ClientId },
}

/// All copiers of a service. Must live inside a tokio runtime.
pub struct Copiers {
    lost: mpsc::UnboundedSender<LostClient>,
    /// The copier of each user.
    users: HashMap<u32, mpsc::UnboundedSender<Job>>,
    /// The user of each client.
    clients: HashMap<ClientId, u32>,
}

impl Copiers {
    /// No copiers yet. `lost` gets the clients whose buffers take no more bins.
    pub fn new(lost: mpsc::UnboundedSender<LostClient>) -> Copiers {
        Copiers { lost, users: HashMap::new(), clients: HashMap::new() }
    }

    /// Hands the address space and buffers of a client to the copier of its user, which sees whether they can be
    /// written: private writable memory, whose page faults no user space serves.
    pub fn open(
        &mut self,
        uid: u32,
        client: ClientId,
        space: AddressSpace,
        buffers: Vec<BufferPlan>,
        done: impl FnOnce(Result<(), OpenError>) + Send + 'static,
    ) {
        self.clients.insert(client, uid);
        let lost = &self.lost;
        let desk = self.users.entry(uid).or_insert_with(|| {
            let (desk, jobs) = mpsc::unbounded_channel();
            tokio::spawn(Desk { uid, lost: lost.clone(), process: None, held: HashMap::new() }.work(jobs));
            desk
        });
        // The desk goes only with us.
        let _sent = desk.send(Job::Open { client, space, buffers, done: Box::new(done) });
    }

    /// Has bins added to a client's buffers. `done` is told when they are, or is dropped when they cannot be.
    pub fn flush(&mut self, client: ClientId, runs: Vec<Run>, done: Option<oneshot::Sender<()>>) {
        self.send(client, Job::Add { client, runs, done });
    }

    /// Gives a client's buffers up, when all that was flushed before is written.
    pub fn close(&mut self, client: ClientId) {
        self.send(client, Job::Close { client });
        self.clients.remove(&client);
    }

    fn send(&self, client: ClientId, job: Job) {
        if let Some(desk) = self.clients.get(&client).and_then(|uid| self.users.get(uid)) {
            let _sent = desk.send(job);
        }
    }
}

/// What a copier needs of a client, kept for the next copier as well.
struct Held {
    space: AddressSpace,
    buffers: Vec<BufferPlan>,
}

/// The jobs of one user, done one after another by one process.
struct Desk {
    uid: u32,
    lost: mpsc::UnboundedSender<LostClient>,
    process: Option<CopierProcess>,
    held: HashMap<ClientId, Held>,
}

impl Desk {
    async fn work(mut self, mut jobs: mpsc::UnboundedReceiver<Job>) {
        loop {
            let job = if self.held.is_empty() && self.process.is_some() {
                tokio::time::timeout(LINGER, jobs.recv()).await
            } else {
                Ok(jobs.recv().await)
            };
            match job {
                Ok(Some(job)) => self.take(job).await,
                Ok(None) => return,
                // Nobody needs it now.
                Err(_) => self.process = None,
            }
        }
    }

    async fn take(&mut self, job: Job) {
        match job {
            Job::Open { client, space, buffers, done } => {
                let held = Held { space, buffers };
                let result = self.open(client, &held).await;
                if result.is_ok() {
                    self.held.insert(client, held);
                }
                done(result);
            }
            Job::Add { client, runs, done } => {
                let loss = self.add(client, &runs).await;
                if let Some(loss) = loss {
                    self.held.remove(&client);
                    // A service that stops has no use for it.
                    let _stopping = self.lost.send(LostClient { client, loss });
                }
                if let Some(done) = done {
                    let _nobody_waits = done.send(());
                }
            }
            Job::Close { client } => {
                self.held.remove(&client);
                if let Some(process) = &mut self.process
                    && process.tell(&Request::Close { client }).await.is_err()
                {
                    self.process = None;
                }
            }
        }
    }

    /// Makes a client known to the copier, which there may have to be one of first.
    async fn open(&mut self, client: ClientId, held: &Held) -> Result<(), OpenError> {
        let uid = self.uid;
        if self.process.is_none() {
            self.start().await.map_err(OpenError::Copier)?;
        }
        let Some(process) = &mut self.process else {
            return Err(OpenError::Stalled);
        };
        match open_in(process, client, held).await {
            Ok(Verdict::Done) => Ok(()),
            Ok(Verdict::Bad(fault)) => Err(OpenError::Buffer(fault)),
            Ok(Verdict::Lost(_)) => Err(OpenError::Buffer(BufferFault::Unreadable)),
            Err(ExchangeError::Stalled) => {
                self.process = None;
                Err(OpenError::Stalled)
            }
            Err(ExchangeError::Broken(error)) => {
                log::warn!("the copier of user {uid} is gone: {error}");
                self.process = None;
                Err(OpenError::Copier(error))
            }
        }
    }

    /// Starts a copier, and makes the clients known to it that are held already.
    async fn start(&mut self) -> io::Result<()> {
        let mut process = CopierProcess::start()?;
        let mut gone = Vec::new();
        for (client, held) in &self.held {
            match open_in(&mut process, *client, held).await {
                Ok(Verdict::Done) => {}
                Ok(_) => gone.push((*client, Loss::Unknown)),
                Err(ExchangeError::Stalled) => {
                    gone.push((*client, Loss::Stalled));
                    process = CopierProcess::start()?;
                }
                Err(ExchangeError::Broken(error)) => return Err(error),
            }
        }
        for (client, loss) in gone {
            self.held.remove(&client);
            let _stopping = self.lost.send(LostClient { client, loss });
        }
        self.process = Some(process);
        Ok(())
    }

    /// Adds bins to a client's buffers; why that is no longer possible, if so.
    async fn add(&mut self, client: ClientId, runs: &[Run]) -> Option<Loss> {
        if !self.held.contains_key(&client) || runs.is_empty() {
            return None;
        }
        let uid = self.uid;
        if self.process.is_none()
            && let Err(error) = self.start().await
        {
            log::warn!("no copier for user {uid}: {error}");
            return Some(Loss::Unknown);
        }
        let process = self.process.as_mut()?;
        match process.ask(&Request::Add { client, runs }, &[]).await {
            Ok(Verdict::Done) => None,
            Ok(Verdict::Lost(loss)) => Some(loss),
            Ok(Verdict::Bad(_)) => Some(Loss::Unknown),
            Err(ExchangeError::Stalled) => {
                self.process = None;
                Some(Loss::Stalled)
            }
            Err(ExchangeError::Broken(error)) => {
                // Part of these bins may be written; nobody knows which, so none is written again.
                log::warn!("the copier of user {uid} is gone, and a flush with it: {error}");
                self.process = None;
                None
            }
        }
    }
}

async fn open_in(process: &mut CopierProcess, client: ClientId, held: &Held) -> Result<Verdict, ExchangeError> {
    let Held { space, buffers } = held;
    let files = space.files().ok_or_else(|| ExchangeError::Broken(io::Error::other("no memory to write to")))?;
    process.ask(&Request::Open { client, tgid: space.tgid(), buffers }, &files).await
}
