//! The task that has the copier of a uid do one job after the other.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::peer::{NoPeer, Peer, Spawn, Unanswered};
use super::portion::portions;
use super::wire::{MAX_WORDS, Reply, Request};
use super::{BufferPlan, ClientId, LostClient, MAX_BUFFERS, Memory, OpenError};
use crate::address_space::{AddressSpace, Device};
use crate::bins::Run;
use crate::hush::Hush;
use crate::sink::target::{BadBuffer, Loss};

/// How long a copier may take to write: the others of its uid wait so long.
///
/// A process that forks keeps its maps locked meanwhile, 20 to 40 ms for each GiB that it has.
const WRITE: Duration = Duration::from_secs(1);

/// How long it may take to check buffers: the kernel walks the pages of a process for that.
const CHECK: Duration = Duration::from_secs(1);

/// How long a copier without clients waits for the next, which then need not wait for it to start.
pub const LINGER: Duration = Duration::from_secs(1);

/// What is queued.
pub enum Job {
    Open { client: ClientId, memory: Memory, buffers: Vec<BufferPlan>, done: oneshot::Sender<Result<(), OpenError>> },
    Flush { client: ClientId, runs: Vec<Run>, done: Option<oneshot::Sender<()>> },
    Close { client: ClientId },
}

/// A client that is open.
struct Client {
    space: AddressSpace,
    plans: Vec<BufferPlan>,
    devices: BTreeSet<Device>,
    /// Whether the copier that runs has its descriptors.
    seated: bool,
}

/// What became of a portion.
enum Outcome {
    Written,
    Lost(u64, Loss),
    /// The client may go on; of the portion nobody knows.
    Unknown(&'static str),
}

/// Does the jobs of a uid.
pub struct Worker {
    spawn: Spawn,
    lost: mpsc::UnboundedSender<LostClient>,
    hush: Arc<Hush>,
    peer: Option<Peer>,
    clients: HashMap<ClientId, Client>,
}

impl Worker {
    /// A worker without clients, whose copier runs while it has some and a little longer.
    pub fn new(spawn: Spawn, lost: mpsc::UnboundedSender<LostClient>, hush: Arc<Hush>) -> Worker {
        Worker { spawn, lost, hush, peer: None, clients: HashMap::new() }
    }

    /// Does all jobs until nobody queues any more.
    pub async fn run(mut self, mut queue: mpsc::UnboundedReceiver<Job>) {
        loop {
            let next = match (&self.peer, self.clients.is_empty()) {
                (Some(_), true) => timeout(LINGER, queue.recv()).await,
                _ => Ok(queue.recv().await),
            };
            let Ok(next) = next else {
                self.end_peer();
                continue;
            };
            let Some(job) = next else { break };
            match job {
                Job::Open { client, memory, buffers, done } => {
                    let opened = self.open(client, memory, buffers).await;
                    // Who does not wait for the answer closes the client.
                    let _told = done.send(opened);
                }
                Job::Flush { client, runs, done } => {
                    self.flush(client, runs).await;
                    if let Some(done) = done {
                        let _told = done.send(());
                    }
                }
                Job::Close { client } => self.close(client).await,
            }
        }
        self.end_peer();
    }

    async fn open(&mut self, client: ClientId, memory: Memory, plans: Vec<BufferPlan>) -> Result<(), OpenError> {
        let Memory { space, hazards } = memory;
        if plans.len() > MAX_BUFFERS {
            return Err(OpenError::TooManyBuffers { buffers: plans.len() });
        }
        let hazards = hazards.map_err(|source| BadBuffer::Hazards { source })?;
        let [mem, maps] = space.files().map_err(|source| BadBuffer::Hazards { source })?;
        let [smaps, mountinfo] = hazards.files();
        let request = Request::Open { client, tgid: space.tgid(), plans: plans.clone() };
        let uid = self.spawn.uid;
        // Checks may be done again. A copier that ended before or during them is replaced once.
        for _ in 0..2 {
            let peer = self.peer().await.map_err(|missing| match missing {
                NoPeer::Parked => OpenError::Parked { uid },
                NoPeer::Failed(source) => OpenError::Start { uid, source },
            })?;
            match peer.ask(&request, &[mem, maps, smaps, mountinfo], space.tgid(), CHECK).await {
                Ok(Reply::Opened { devices }) => {
                    self.clients.insert(client, Client { space, plans, devices, seated: true });
                    return Ok(());
                }
                Ok(Reply::Refused(bad)) => return Err(bad.into()),
                Ok(_) | Err(Unanswered::Unsent | Unanswered::Ended) => self.end_peer(),
                Err(Unanswered::Stalled) => {
                    self.end_peer();
                    return Err(OpenError::Stalled);
                }
            }
        }
        Err(OpenError::Ended { source: io::ErrorKind::BrokenPipe.into() })
    }

    async fn flush(&mut self, client: ClientId, runs: Vec<Run>) {
        let mut left = ticks(&runs);
        for portion in portions(runs, MAX_WORDS) {
            if !self.clients.contains_key(&client) {
                return;
            }
            let asked = ticks(&portion);
            match self.write(client, portion).await {
                Outcome::Written => left -= asked,
                Outcome::Unknown(why) => {
                    left -= asked;
                    self.log_unwritten(client, asked, why);
                }
                Outcome::Lost(written, loss) => {
                    self.clients.remove(&client);
                    self.log_unwritten(client, left - written.min(left), &loss.to_string());
                    // Without a receiver nobody wants to know.
                    let _told = self.lost.send(LostClient { client, loss });
                }
            }
        }
    }

    async fn write(&mut self, id: ClientId, runs: Vec<Run>) -> Outcome {
        let request = Request::Flush { client: id, runs };
        // A second time only if the first copier got nothing.
        for _ in 0..2 {
            match self.seat(id).await {
                Ok(()) => {}
                Err(outcome) => return outcome,
            }
            let (Some(peer), Some(client)) = (&mut self.peer, self.clients.get(&id)) else { continue };
            match peer.ask(&request, &[], client.space.tgid(), WRITE).await {
                Ok(Reply::Flushed { loss: None, .. }) => return Outcome::Written,
                Ok(Reply::Flushed { written, loss: Some(loss) }) => return Outcome::Lost(written, loss),
                Err(Unanswered::Unsent) => self.end_peer(),
                Ok(_) | Err(Unanswered::Ended) => {
                    self.end_peer();
                    return Outcome::Unknown("the copier ended");
                }
                Err(Unanswered::Stalled) => {
                    self.end_peer();
                    return Outcome::Lost(0, Loss::Stalled);
                }
            }
        }
        Outcome::Unknown("the copier ended")
    }

    /// Has a copier run that knows the client.
    async fn seat(&mut self, id: ClientId) -> Result<(), Outcome> {
        self.peer().await.map_err(|missing| match missing {
            // The uid's own doing.
            NoPeer::Parked => Outcome::Lost(0, Loss::Stalled),
            NoPeer::Failed(_) => Outcome::Unknown("no copier can be started"),
        })?;
        let (Some(peer), Some(client)) = (&mut self.peer, self.clients.get_mut(&id)) else { return Ok(()) };
        if client.seated {
            return Ok(());
        }
        let Client { space, plans, devices, .. } = client;
        let tgid = space.tgid();
        let request = Request::Resume { client: id, tgid, plans: plans.clone(), devices: devices.clone() };
        let Ok(files) = space.files() else { return Err(Outcome::Unknown("no memory to write to")) };
        match peer.ask(&request, &files, tgid, WRITE).await {
            Ok(Reply::Done) => {
                client.seated = true;
                Ok(())
            }
            // The portion is not on its way yet, and nothing of the client was touched.
            _ => {
                self.end_peer();
                Err(Outcome::Unknown("the copier ended"))
            }
        }
    }

    async fn close(&mut self, id: ClientId) {
        let Some(client) = self.clients.remove(&id) else { return };
        let Some(peer) = &mut self.peer else { return };
        if client.seated {
            let closed = peer.ask(&Request::Close { client: id }, &[], client.space.tgid(), WRITE).await;
            if closed.is_err() {
                self.end_peer();
            }
        }
    }

    /// The copier, started if there is none.
    async fn peer(&mut self) -> Result<&mut Peer, NoPeer> {
        let peer = match self.peer.take() {
            Some(peer) => peer,
            None => Peer::start(&self.spawn).await.inspect_err(|missing| {
                self.hush.warn(format_args!("no copier for uid {}: {missing}", self.spawn.uid));
            })?,
        };
        Ok(self.peer.insert(peer))
    }

    fn end_peer(&mut self) {
        if let Some(peer) = self.peer.take() {
            peer.kill();
        }
        self.clients.values_mut().for_each(|client| client.seated = false);
    }

    fn log_unwritten(&self, ClientId(client): ClientId, ticks: u64, why: &str) {
        let uid = self.spawn.uid;
        self.hush
            .warn(format_args!("{ticks} ticks of client {client} of uid {uid} were not written for certain: {why}"));
    }
}

fn ticks(runs: &[Run]) -> u64 {
    runs.iter().flat_map(|run| &run.added).map(|added| u64::from(*added)).sum()
}
