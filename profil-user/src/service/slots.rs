//! Places for the bins of clients: slots of the outer map, with bins that are used again.
//!
//! Putting bins into a slot takes a grace period, 8 to 16 ms, in which the service answers nobody. Bins are never reset,
//! so those of a client that is gone serve the next one of the same size at once.

use profil_common::limits::{BINS_PER_CHUNK, MAX_SLOTS};
use profil_common::{BinChunk, RangeTable};

use super::budget::{Budget, OverBudget, Owner};
use crate::bins::{self, Bins, BinsError, Run};
use crate::lanes::{self, Lanes, LanesError};
use crate::pool::Pool;
use crate::privileges::{self, Capability};
use crate::session::{Session, SessionError};

/// Bins without a client that are kept for the next one.
const WARM_MAX: usize = 64;

/// Bins that are let go in one flush, a grace period each.
const COOLED_AT_ONCE: usize = 2;

/// No place for bins.
#[derive(Debug, thiserror::Error)]
pub enum SlotError {
    /// More memory than is allowed.
    #[error(transparent)]
    Budget(#[from] OverBudget),
    /// As many clients as there are slots.
    #[error("{clients} processes are profiled already, and there is no slot for another")]
    Full {
        /// Clients now.
        clients: u32,
    },
    /// The bins cannot be made.
    #[error(transparent)]
    Bins(#[from] BinsError),
    /// The lanes cannot be made.
    #[error(transparent)]
    Lanes(#[from] LanesError),
    /// The bins cannot be put into the slot.
    #[error(transparent)]
    Session(#[from] SessionError),
}

/// A slot with bins, of one client or warm.
pub(super) struct Place {
    pub(super) slot: u32,
    pub(super) storage: Storage,
    /// Memory that it takes.
    bytes: u64,
    /// Whom the memory is charged to; of warm bins only the user.
    owner: Owner,
}

/// What the ticks of a client are counted in.
pub(super) enum Storage {
    /// Bins that we copy from.
    Bins(Bins),
    /// Lanes that the client has mapped.
    Lanes(Lanes),
}

impl Storage {
    /// Where they begin in the pool; 0 when they are not there.
    pub(super) fn first_chunk(&self) -> u32 {
        match self {
            Storage::Bins(bins) => bins.first_chunk(),
            Storage::Lanes(_) => 0,
        }
    }

    /// Ticks since the last drain; what is in lanes is not ours to drain.
    pub(super) fn drain(&mut self) -> Vec<Run> {
        match self {
            Storage::Bins(bins) => bins.drain(),
            Storage::Lanes(_) => Vec::new(),
        }
    }

    /// As [`Storage::drain`], but misses nothing: for the last drain.
    pub(super) fn drain_all(&mut self) -> Vec<Run> {
        match self {
            Storage::Bins(bins) => bins.drain_all(),
            Storage::Lanes(_) => Vec::new(),
        }
    }
}

/// Lanes whose client is off, and which somebody may still have mapped.
struct Ghost {
    id: u32,
    bytes: u64,
    owner: Owner,
}

fn bytes_of(chunks: u32) -> u64 {
    u64::from(chunks) * size_of::<BinChunk>() as u64
}

/// All slots.
pub(super) struct Slots {
    free: Vec<u32>,
    pool: Pool,
    warm: Vec<Place>,
    ghosts: Vec<Ghost>,
    budget: Budget,
}

impl Slots {
    pub(super) fn new(budget: Budget, pool: Pool) -> Slots {
        // The last one is the session's own, to wait for ticks with.
        Slots { free: (0..MAX_SLOTS - 1).rev().collect(), pool, warm: Vec::new(), ghosts: Vec::new(), budget }
    }

    /// A place with room for `nbins` bins.
    pub(super) fn take(&mut self, session: &mut Session, owner: Owner, nbins: u32) -> Result<Place, SlotError> {
        if let Some(place) = self.take_of_pool(session, owner, nbins)? {
            return Ok(place);
        }
        let chunks = bins::chunks_of(nbins).next_power_of_two();
        let bytes = bytes_of(chunks);
        if let Some(index) = self.warm.iter().position(|place| place.bytes == bytes) {
            let mut place = self.warm.swap_remove(index);
            self.budget.refund(place.owner.uid, bytes);
            let charged = self.budget.charge(owner, bytes);
            if charged.is_err() {
                // It stays charged to whom it was made for, whose limit had room for it just now.
                let _was_there = self.budget.charge(place.owner, bytes);
                self.budget.leave(place.owner, bytes);
                self.warm.push(place);
            } else {
                place.owner = owner;
                return Ok(place);
            }
        }
        self.charge(session, owner, bytes)?;
        match self.make(session, chunks) {
            Ok((slot, bins)) => Ok(Place { slot, storage: Storage::Bins(bins), bytes, owner }),
            Err(error) => {
                self.release(owner, bytes);
                Err(error)
            }
        }
    }

    /// A place in the pool, where there is room: the ticks find it sooner, and it takes no grace period. It counts for its
    /// owner like any other, though the memory is there in any case: what one user has, others cannot have.
    fn take_of_pool(&mut self, session: &mut Session, owner: Owner, nbins: u32) -> Result<Option<Place>, SlotError> {
        let (Some(slot), Some(bins)) = (self.free.last().copied(), self.pool.take(nbins)) else {
            return Ok(None);
        };
        let bytes = bytes_of(bins::chunks_of(nbins));
        if let Err(error) = self.charge(session, owner, bytes) {
            self.pool.put_back(bins);
            return Err(error);
        }
        self.free.retain(|free| *free != slot);
        Ok(Some(Place { slot, storage: Storage::Bins(bins), bytes, owner }))
    }

    /// Enters memory that is to be taken; what nobody uses goes first where there is not enough, and no more than that:
    /// each takes a grace period.
    fn charge(&mut self, session: &mut Session, owner: Owner, bytes: u64) -> Result<(), SlotError> {
        loop {
            let over = match self.budget.charge(owner, bytes) {
                Ok(()) => return Ok(()),
                Err(over) => over,
            };
            let unused = match over {
                OverBudget::Process { .. } => None,
                OverBudget::User { uid, .. } => self.warm.iter().position(|place| place.owner.uid == uid),
                OverBudget::Total { .. } => (!self.warm.is_empty()).then_some(0),
            };
            self.cool(session, unused.ok_or(over)?)?;
        }
    }

    fn release(&mut self, owner: Owner, bytes: u64) {
        self.budget.leave(owner, bytes);
        self.budget.refund(owner.uid, bytes);
    }

    fn make(&mut self, session: &mut Session, chunks: u32) -> Result<(u32, Bins), SlotError> {
        if self.free.is_empty() && !self.warm.is_empty() {
            self.cool(session, 0)?;
        }
        let bins = Bins::new(chunks * BINS_PER_CHUNK)?;
        let slot = self.free.pop().ok_or(SlotError::Full { clients: MAX_SLOTS - 1 })?;
        if let Err(error) = session.set_bins(slot, &RangeTable::empty(0), &bins) {
            self.free.push(slot);
            return Err(error.into());
        }
        Ok((slot, bins))
    }

    /// A place with lanes. They are not used again: who has them mapped may go on writing.
    pub(super) fn take_lanes(&mut self, session: &mut Session, owner: Owner, lanes: u32) -> Result<Place, SlotError> {
        let bytes = u64::from(lanes) * 2;
        self.bury_ghosts();
        if self.free.is_empty() && !self.warm.is_empty() {
            self.cool(session, 0)?;
        }
        self.charge(session, owner, bytes)?;
        let mut make = || {
            let lanes = Lanes::new(lanes)?;
            let slot = self.free.last().copied().ok_or(SlotError::Full { clients: MAX_SLOTS - 1 })?;
            session.set_lanes(slot, &lanes)?;
            Ok((slot, lanes))
        };
        match make() {
            Ok((slot, lanes)) => {
                self.free.pop();
                Ok(Place { slot, storage: Storage::Lanes(lanes), bytes, owner })
            }
            Err(error) => {
                self.release(owner, bytes);
                Err(error)
            }
        }
    }

    /// Lanes of a user that are off, and may still be mapped. Each is looked after again and again.
    pub(super) fn ghosts_of(&self, uid: u32) -> usize {
        self.ghosts.iter().filter(|ghost| ghost.owner.uid == uid).count()
    }

    /// Takes lanes that nobody holds any more off their users' accounts.
    pub(super) fn bury_ghosts(&mut self) {
        let Slots { ghosts, budget, .. } = self;
        if ghosts.is_empty() {
            return;
        }
        let are_gone = |id| privileges::raised(Capability::SysAdmin, || lanes::are_gone(id));
        ghosts.retain(|ghost| {
            let gone = are_gone(ghost.id);
            if gone {
                budget.leave(ghost.owner, ghost.bytes);
                budget.refund(ghost.owner.uid, ghost.bytes);
            }
            !gone
        });
    }

    /// Takes a place back. Its bins must be drained, and no tick be under way with it.
    pub(super) fn put_back(&mut self, session: &mut Session, place: Place) -> Result<(), SlotError> {
        let Place { slot, storage, bytes, owner } = place;
        match storage {
            Storage::Lanes(lanes) => {
                session.clear_lanes(slot)?;
                self.free.push(slot);
                self.ghosts.push(Ghost { id: lanes.id(), bytes, owner });
            }
            Storage::Bins(bins) if bins.first_chunk() != 0 => {
                self.pool.put_back(bins);
                self.free.push(slot);
                self.release(owner, bytes);
            }
            storage => {
                self.budget.leave(owner, bytes);
                self.warm.push(Place { slot, storage, bytes, owner });
            }
        }
        Ok(())
    }

    /// Lets some of the warm bins go where there are too many: so few at a time that nobody waits for long.
    pub(super) fn cool_some(&mut self, session: &mut Session) -> Result<(), SlotError> {
        let excess = self.warm.len().saturating_sub(WARM_MAX);
        (0..excess.min(COOLED_AT_ONCE)).try_for_each(|_| self.cool(session, 0))
    }

    /// Lets the warm bins with an index go; the oldest come first.
    fn cool(&mut self, session: &mut Session, index: usize) -> Result<(), SlotError> {
        session.clear_bins(self.warm[index].slot)?;
        let place = self.warm.remove(index);
        self.budget.refund(place.owner.uid, place.bytes);
        self.free.push(place.slot);
        Ok(())
    }
}
