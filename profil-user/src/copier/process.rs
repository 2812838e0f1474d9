//! A copier as its service sees it: a child process at the other end of a socket.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream as StdStream;
use std::process::Stdio;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::UnixStream;
use tokio::process::{Child, Command};

use super::PATIENCE;
use super::message::{HEAD_BYTES, Request, Verdict};
use crate::address_space::AddressSpace;

/// Name of the hidden command that a copier runs.
pub const COMMAND: &str = "copier";

/// No answer.
#[derive(Debug)]
pub(super) enum ExchangeError {
    /// It did not come in time.
    Stalled,
    /// The copier is gone, or says what makes no sense.
    Broken(io::Error),
}

/// A running copier, killed when dropped.
pub(super) struct CopierProcess {
    stream: UnixStream,
    /// Kills and reaps the process in the end.
    _child: Child,
}

impl CopierProcess {
    /// Starts a copier: this very program, whatever has become of its file since.
    pub(super) fn start() -> io::Result<CopierProcess> {
        let (ours, theirs) = StdStream::pair()?;
        ours.set_nonblocking(true)?;
        let mut command = Command::new("/proc/self/exe");
        // The socket is its standard input; of what else we have open it inherits nothing.
        command.arg(COMMAND).stdin(Stdio::from(OwnedFd::from(theirs))).stdout(Stdio::null());
        let child = command.env_clear().kill_on_drop(true).spawn()?;
        Ok(CopierProcess { stream: UnixStream::from_std(ours)?, _child: child })
    }

    /// Sends a request, with descriptors, and waits for the verdict.
    pub(super) async fn ask(
        &mut self,
        request: &Request<'_>,
        with: &[BorrowedFd<'_>],
    ) -> Result<Verdict, ExchangeError> {
        let client = match request {
            Request::Open { client, .. } | Request::Add { client, .. } | Request::Close { client } => *client,
        };
        let exchange = async {
            self.send(&request.to_bytes(), with).await?;
            let mut answer = [0; HEAD_BYTES];
            self.stream.read_exact(&mut answer).await?;
            Verdict::read(&answer, client).ok_or_else(|| io::Error::other("an answer to another request"))
        };
        match tokio::time::timeout(PATIENCE, exchange).await {
            Ok(result) => result.map_err(ExchangeError::Broken),
            Err(_) => Err(ExchangeError::Stalled),
        }
    }

    /// Sends a request that has no answer.
    pub(super) async fn tell(&mut self, request: &Request<'_>) -> io::Result<()> {
        match tokio::time::timeout(PATIENCE, self.stream.write_all(&request.to_bytes())).await {
            Ok(sent) => sent,
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    async fn send(&mut self, bytes: &[u8], with: &[BorrowedFd<'_>]) -> io::Result<()> {
        let first = self.stream.async_io(Interest::WRITABLE, || {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(AddressSpace::FILES))];
            let mut ancillary = SendAncillaryBuffer::new(&mut space);
            if !with.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(with)) {
                return Err(io::Error::other("too many descriptors"));
            }
            let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            Ok(rustix::net::sendmsg(&self.stream, &[IoSlice::new(bytes)], &mut ancillary, flags)?)
        });
        // The descriptors go with the first bytes.
        let sent = first.await?;
        self.stream.write_all(&bytes[sent..]).await
    }
}
