//! The process that calls, held so that nothing else can be taken for it.

use crate::address_space::{AddressSpace, AddressSpaceError, Purpose};
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
}

/// A process and the address space that it had when it was opened.
///
/// Opened before the nonce of the connection is made: who sends the nonce back from this process has not exec'd in
/// between, so that the addresses that it names are of this address space.
#[derive(Debug)]
pub(super) struct Caller {
    pub(super) target: TargetProcess,
    pub(super) space: AddressSpace,
    pub(super) uid: u32,
}

impl Caller {
    pub(super) fn open(peer: Sender) -> Result<Caller, CallerError> {
        let target = TargetProcess::open(peer.pid)?;
        let space = AddressSpace::of(&target, Purpose::Write)?;
        Ok(Caller { target, space, uid: peer.uid })
    }
}
