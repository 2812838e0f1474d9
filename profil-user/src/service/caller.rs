//! The process that calls, held so that nothing else can be taken for it.

use std::io;

use tokio::task::JoinError;

use crate::address_space::{AddressSpace, AddressSpaceError};
use crate::privileges::{self, Capability};
use crate::process::{TargetError, TargetProcess};
use crate::sink::hazards::Hazards;

use super::plan::Plan;
use super::socket::Sender;

/// A caller that cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum CallerError {
    /// The process.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// Its memory.
    #[error(transparent)]
    Memory(#[from] AddressSpaceError),
    /// The thread that was to open it.
    #[error("cannot look at the caller: its thread ended")]
    Thread(#[source] JoinError),
    /// It is not for the user to say what is written into its memory.
    #[error(
        "cannot serve process {pid}: user {uid}, who connected, may not look into it; it is set-uid, set-gid or undumpable"
    )]
    Guarded {
        /// The process.
        pid: u32,
        /// The user who connected.
        uid: u32,
    },
}

/// A process and the address space that it had when it was opened.
///
/// Opened before the nonce of the connection is made: who sends the nonce back from this process has not exec'd in
/// between, so that the addresses that it names are of this address space.
///
/// The process may have exec'd a set-uid program before it was opened, on a connection that it made as somebody else, and
/// such a program may pass on words of others: as in ptrace(2), whoever connected must be who may look into the memory.
#[derive(Debug)]
pub(super) struct Caller {
    pub(super) target: TargetProcess,
    pub(super) space: AddressSpace,
    pub(super) hazards: io::Result<Hazards>,
    pub(super) uid: u32,
    /// Whether who connected may not look into it.
    pub(super) is_guarded: bool,
}

impl Caller {
    /// Opens the process at the other end, in a thread that may be kept waiting: a process in the midst of an exec
    /// locks who wants to open its memory out until it has the maps of its old one, and whoever shares those with it
    /// decides how long that takes. Until then the connection is one of those that its user has.
    pub(super) async fn open_aside(peer: Sender) -> Result<Caller, CallerError> {
        let opened = tokio::task::spawn_blocking(move || Caller::open(peer)).await;
        opened.unwrap_or_else(|error| Err(CallerError::Thread(error)))
    }

    fn open(peer: Sender) -> Result<Caller, CallerError> {
        let target = TargetProcess::open(peer.pid)?;
        let space = privileges::raised(Capability::DacOverride, || AddressSpace::unseen(&target))?;
        let hazards = Hazards::of(&space);
        // After the memory was opened: a program of before cannot be meant. Root may look into everything.
        let is_guarded = peer.uid != 0 && !space.owner().is_ok_and(|owner| owner == peer.uid);
        if !target.is_same() {
            return Err(TargetError::NoSuchProcess { pid: peer.pid }.into());
        }
        Ok(Caller { target, space, hazards, uid: peer.uid, is_guarded })
    }

    /// What becomes of what it asks for: words of others may turn profiling off, and nothing else.
    pub(super) fn judge(&self, plan: Plan) -> Result<Plan, CallerError> {
        if !self.is_guarded {
            return Ok(plan);
        }
        match plan {
            Plan::Off | Plan::Flush => Ok(plan),
            Plan::On(_) | Plan::Unchanged { .. } | Plan::Refused { .. } => {
                Err(CallerError::Guarded { pid: self.target.pid(), uid: self.uid })
            }
        }
    }
}
