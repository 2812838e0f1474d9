//! The process that calls, held so that nothing else can be taken for it.

use crate::address_space::{AddressSpace, AddressSpaceError};
use crate::privileges::{self, Capability};
use crate::process::{TargetError, TargetProcess};

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
    pub(super) uid: u32,
}

impl Caller {
    pub(super) fn open(peer: Sender) -> Result<Caller, CallerError> {
        let target = TargetProcess::open(peer.pid)?;
        let space = privileges::raised(Capability::DacOverride, || AddressSpace::unseen(&target))?;
        let guarded = CallerError::Guarded { pid: peer.pid, uid: peer.uid };
        // After the memory was opened: a program of before cannot be meant. Root may look into everything.
        let may_look = peer.uid == 0 || space.owner().is_ok_and(|owner| owner == peer.uid);
        if !may_look || !target.is_same() {
            return Err(guarded);
        }
        Ok(Caller { target, space, uid: peer.uid })
    }
}
