//! One connection: hello, a call, and its reply.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use profil_common::wire::{Area, Call, Hello, MAGIC, MAX_MESSAGE, MalformedCall, Reply, VERSION, reply_flags};
use tokio::sync::{mpsc, oneshot};

use super::caller::{Caller, CallerError};
use super::plan::Plan;
use super::socket::{Connection, Sender};

/// How long a program may take to send its call.
const CALL_PATIENCE: Duration = Duration::from_secs(2);

/// A call that is refused, or a connection that is given up.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// The caller cannot be looked into.
    #[error(transparent)]
    Caller(#[from] CallerError),
    /// The message is none.
    #[error(transparent)]
    Malformed(#[from] MalformedCall),
    /// The message is longer than any may be.
    #[error("a message of more than {MAX_MESSAGE} bytes")]
    Oversized,
    /// The message was not sent by the process that made the connection.
    #[error("process {} sent a message on the connection of process {}", sender.pid, peer.pid)]
    Impostor {
        /// Who sent it.
        sender: Sender,
        /// Who made the connection.
        peer: Sender,
    },
    /// The message is not an answer to our hello.
    #[error("a replayed message")]
    Replayed,
    /// The connection broke off.
    #[error("the connection broke off")]
    Broken(#[source] io::Error),
    /// No call came in time.
    #[error("no call came within {} s", CALL_PATIENCE.as_secs())]
    Silent,
    /// The service stops.
    #[error("the service stops")]
    Stopping,
}

impl Refusal {
    /// The errno for the caller, who may not be there any more.
    fn errno(&self) -> i32 {
        match self {
            Refusal::Malformed(MalformedCall::Version { .. }) => libc::EPROTONOSUPPORT,
            Refusal::Malformed(_) | Refusal::Oversized => libc::EINVAL,
            Refusal::Caller(_) | Refusal::Impostor { .. } | Refusal::Replayed => libc::EPERM,
            Refusal::Broken(_) | Refusal::Silent => libc::ETIMEDOUT,
            Refusal::Stopping => libc::ESHUTDOWN,
        }
    }

    /// Whether a well-meaning program can cause it, so that nobody need be told.
    pub(super) fn is_ordinary(&self) -> bool {
        matches!(self, Refusal::Broken(_) | Refusal::Stopping)
    }
}

/// A call on its way to the service.
#[derive(Debug)]
pub(super) struct Order {
    pub(super) caller: Caller,
    pub(super) plan: Plan,
    /// Ticks wanted in a second of CPU time; 0 for the default.
    pub(super) hz: u32,
    pub(super) answer: oneshot::Sender<Answer>,
}

/// What becomes of a call.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) errno: i32,
    pub(super) period_ns: u64,
    /// [`reply_flags`].
    pub(super) flags: u32,
    /// The lanes to be mapped.
    pub(super) lanes: Option<OwnedFd>,
}

impl Answer {
    pub(super) fn failure(errno: i32) -> Answer {
        Answer { errno, ..Answer::default() }
    }

    pub(super) fn on(period_ns: u64) -> Answer {
        Answer { period_ns, flags: reply_flags::ON, ..Answer::default() }
    }

    pub(super) fn with_lanes(self, lanes: OwnedFd) -> Answer {
        Answer { flags: self.flags | reply_flags::ZERO_COPY, lanes: Some(lanes), ..self }
    }
}

/// Holds a conversation to its end.
///
/// # Errors
/// [`Refusal`]; the caller has been told.
pub(super) async fn hold(connection: Connection, desk: mpsc::Sender<Order>) -> Result<(), Refusal> {
    let (answer, result) = match converse(&connection, desk).await {
        Ok(answer) => (answer, Ok(())),
        Err(refusal) => (Answer::failure(refusal.errno()), Err(refusal)),
    };
    let Answer { errno, period_ns, flags, lanes } = answer;
    let reply = Reply { magic: MAGIC, errno: errno as u32, period_ns, flags, reserved: 0 };
    let reply = reply.to_bytes();
    let sending = connection.send(&reply, lanes.as_ref());
    match tokio::time::timeout(CALL_PATIENCE, sending).await {
        Ok(Err(error)) if result.is_ok() => Err(Refusal::Broken(error)),
        _ => result,
    }
}

async fn converse(connection: &Connection, desk: mpsc::Sender<Order>) -> Result<Answer, Refusal> {
    let peer = connection.peer();
    // Before the nonce is made: see Caller.
    let caller = Caller::open_aside(peer).await;
    let nonce = nonce().map_err(Refusal::Broken)?;
    let hello = Hello { magic: MAGIC, version: VERSION, nonce };
    connection.send(&hello.to_bytes(), None).await.map_err(Refusal::Broken)?;
    let received = tokio::time::timeout(CALL_PATIENCE, connection.receive(MAX_MESSAGE)).await;
    let received = received.map_err(|_| Refusal::Silent)?.map_err(Refusal::Broken)?;
    if received.oversized {
        return Err(Refusal::Oversized);
    }
    let call = Call::from_bytes(&received.bytes)?;
    let sender = received.sender.unwrap_or(Sender { pid: 0, uid: u32::MAX });
    if sender.pid != peer.pid {
        return Err(Refusal::Impostor { sender, peer });
    }
    if call.nonce != nonce {
        return Err(Refusal::Replayed);
    }
    let caller = caller?;
    let areas: Vec<Area> = Call::areas(&received.bytes).collect();
    // A request that fails leaves profiling as it is, which only the service knows.
    let plan = Plan::of(&call, &areas).unwrap_or_else(|error| {
        log::debug!("process {}: {error}", peer.pid);
        Plan::Unchanged { errno: error.errno() }
    });
    let (plan, guarded) = match caller.judge(plan) {
        Ok(plan) => (plan, None),
        Err(guarded) => (Plan::Refused { errno: libc::EPERM }, Some(guarded)),
    };
    let (answer, answered) = oneshot::channel();
    let order = Order { caller, plan, hz: call.hz, answer };
    desk.send(order).await.map_err(|_| Refusal::Stopping)?;
    let answer = answered.await.map_err(|_| Refusal::Stopping)?;
    guarded.map_or(Ok(answer), |guarded| Err(guarded.into()))
}

/// A number that nobody can know before.
fn nonce() -> io::Result<u64> {
    let mut bytes = [0; 8];
    // Eight bytes always come whole.
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(u64::from_ne_bytes(bytes))
}
