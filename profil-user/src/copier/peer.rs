//! One copier process, as the service sees it.

use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::net;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::Interest;
use tokio::net::UnixDatagram;
use tokio::process::{Child, Command};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::wire::{MAX_MESSAGE, Reply, Request};
use crate::jail::{self, socket};
use crate::process::Stat;

/// How long a copier may take to come up; no client has a part in that.
const START: Duration = Duration::from_secs(10);

/// How long to wait for a copier that was killed before, when no other may be started.
const ROOM: Duration = Duration::from_millis(250);

/// Deadlines that a copier may miss while it could run and had no CPU.
const STARVED: u32 = 8;

/// How copiers of a uid are started.
pub struct Spawn {
    pub uid: u32,
    pub program: PathBuf,
    /// A permit for each process that may still be there.
    pub processes: Arc<Semaphore>,
}

/// Why a request has no answer.
#[derive(Debug)]
pub enum Unanswered {
    /// It was not sent: the copier knows nothing of it.
    Unsent,
    /// The copier ended, and may have done what was asked or a part of it.
    Ended,
    /// The copier did not answer in time; now or later it may do what was asked, unless it is killed.
    Stalled,
}

/// Why there is no copier.
#[derive(Debug, thiserror::Error)]
pub enum NoPeer {
    /// Too many that were killed are still there.
    #[error("the earlier ones were killed and do not end")]
    Parked,
    /// The system refused, or the process did not come up.
    #[error("it did not come up: {0}")]
    Failed(io::Error),
}

/// A copier that runs. One that is dropped is killed.
pub struct Peer {
    child: Child,
    /// It keeps messages apart as a datagram socket does, and tells when the other side is gone.
    socket: UnixDatagram,
    buffer: Box<[u8; MAX_MESSAGE]>,
    permit: OwnedSemaphorePermit,
}

impl Peer {
    /// Starts a copier and waits until it has given up its privileges.
    pub async fn start(spawn: &Spawn) -> Result<Peer, NoPeer> {
        let permit = timeout(ROOM, Arc::clone(&spawn.processes).acquire_owned()).await;
        let Ok(Ok(permit)) = permit else { return Err(NoPeer::Parked) };
        let mut peer = Peer::spawn(spawn, permit).map_err(NoPeer::Failed)?;
        match timeout(START, peer.reply(0)).await {
            Ok(Ok(Reply::Ready)) => Ok(peer),
            Ok(_) => Err(NoPeer::Failed(peer.failure().await)),
            Err(_) => Err(NoPeer::Failed(io::ErrorKind::TimedOut.into())),
        }
    }

    fn spawn(spawn: &Spawn, permit: OwnedSemaphorePermit) -> io::Result<Peer> {
        let (command, ours) = jail::command(&spawn.program, "profil-copier", &["copier", &spawn.uid.to_string()])?;
        let mut command = Command::from(command);
        let child = command.kill_on_drop(true).spawn()?;
        let socket = UnixDatagram::from_std(net::UnixDatagram::from(ours))?;
        Ok(Peer { child, socket, buffer: Box::new([0; MAX_MESSAGE]), permit })
    }

    /// Sends a request about a process and waits for the answer.
    pub async fn ask(
        &mut self,
        request: &Request,
        files: &[BorrowedFd<'_>],
        tgid: u32,
        deadline: Duration,
    ) -> Result<Reply, Unanswered> {
        // One message at a time is under way, so the socket has room.
        socket::send(&self.socket, &request.to_bytes(), files).map_err(|_| Unanswered::Unsent)?;
        for _ in 0..STARVED {
            match timeout(deadline, self.reply(tgid)).await {
                Ok(Ok(reply)) => return Ok(reply),
                Ok(Err(_)) => return Err(Unanswered::Ended),
                Err(_) if self.could_run() => {}
                Err(_) => break,
            }
        }
        Err(Unanswered::Stalled)
    }

    async fn reply(&mut self, tgid: u32) -> io::Result<Reply> {
        loop {
            self.socket.readable().await?;
            let (socket, buffer) = (&self.socket, &mut self.buffer);
            let received = socket.try_io(Interest::READABLE, || {
                let received = socket::receive(socket, buffer)?;
                Ok(received.and_then(|received| Reply::from_bytes(received.bytes, tgid)))
            });
            match received {
                Ok(reply) => return reply.ok_or_else(|| io::ErrorKind::UnexpectedEof.into()),
                // Not readable after all.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether the process wants a CPU, and waits for nothing else.
    fn could_run(&self) -> bool {
        let stat = self.child.id().and_then(|pid| std::fs::read(format!("/proc/{pid}/stat")).ok());
        stat.and_then(|line| Stat::parse(&line)).is_some_and(|stat| stat.state == 'R')
    }

    /// Kills the process, if it is still there, and says how it ended; what it said itself nobody heard.
    async fn failure(&mut self) -> io::Error {
        let _killed = self.child.start_kill();
        let status = timeout(ROOM, self.child.wait()).await;
        let status =
            status.ok().and_then(Result::ok).as_ref().map_or_else(|| "no status".into(), ExitStatus::to_string);
        io::Error::other(status)
    }

    /// Kills the process, which may take longer than anybody wants to wait.
    pub fn kill(mut self) {
        // One that has ended by itself is as good.
        let _killed = self.child.start_kill();
        tokio::spawn(async move {
            let Peer { mut child, socket, permit, .. } = self;
            drop(socket);
            let _status = child.wait().await;
            drop(permit);
        });
    }
}
