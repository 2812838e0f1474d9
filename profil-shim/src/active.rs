//! What is on.

use core::sync::atomic::{AtomicU8, Ordering};

use profil_common::limits::MAX_AREAS;
use profil_common::wire::{Area, Call, CallKind, MAGIC, VERSION};

use crate::claim::Claim;
use crate::service::Areas;

/// Who counts for this process.
///
/// More than one may: a service that did not answer in time may count although libc was then asked to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counters(u8);

impl Counters {
    /// The kernel, by the service.
    pub const SERVICE: Counters = Counters(1 << 0);
    /// libc's profil(3).
    pub const LIBC_PROFIL: Counters = Counters(1 << 1);
    /// libc's sprofil(3), which its profil(3) does not turn off.
    pub const LIBC_SPROFIL: Counters = Counters(1 << 2);

    /// Whether all of the others are among these.
    pub fn include(self, others: Counters) -> bool {
        self.0 & others.0 == others.0
    }
}

static ACTIVE: AtomicU8 = AtomicU8::new(0);

/// Who counts now.
pub fn counters() -> Counters {
    Counters(ACTIVE.load(Ordering::Acquire))
}

/// Notes that these count.
pub fn started(counters: Counters) {
    ACTIVE.fetch_or(counters.0, Ordering::AcqRel);
}

/// Notes that these count no more.
pub fn stopped(counters: Counters) {
    ACTIVE.fetch_and(!counters.0, Ordering::AcqRel);
}

/// The call by which the service counts, as a forked child repeats it.
#[derive(Debug)]
pub struct Record {
    call: Call,
    areas: [Area; MAX_AREAS],
    is_on: bool,
}

/// The last call that turned the service's counting on.
///
/// Who finds it claimed is a signal handler, or a thread, whose call to profil(3) runs at the same time as another one:
/// it writes nothing down, and which of the two calls a child repeats is as open as which of them was the last. A child
/// that was forked by another thread in the midst of a call finds it claimed for ever and is not profiled.
pub static RECORD: Claim<Record> = Claim::new(Record {
    call: Call {
        magic: MAGIC,
        version: VERSION,
        nonce: 0,
        kind: CallKind::Profil as u32,
        convention: 0,
        width: 0,
        hz: 0,
        flags: 0,
        areas: 0,
    },
    areas: [Area { buffer: 0, bytes: 0, offset: 0, scale: 0 }; MAX_AREAS],
    is_on: false,
});

impl Record {
    /// Writes a call down.
    ///
    /// # Safety
    /// The areas are readable.
    pub unsafe fn keep(&mut self, call: Call, areas: Areas) {
        self.call = call;
        self.is_on = true;
        for (index, place) in self.areas.iter_mut().take(areas.count as usize).enumerate() {
            // SAFETY: by the caller, for each below `count`. A `struct prof` may be less aligned than an `Area`.
            *place = unsafe { areas.start.add(index).read_unaligned() };
        }
    }

    /// Forgets the call.
    pub fn clear(&mut self) {
        self.is_on = false;
    }

    /// The call, while it is on.
    pub fn call(&self) -> Option<(Call, Areas)> {
        let areas = Areas { start: self.areas.as_ptr(), count: self.call.areas };
        self.is_on.then_some((self.call, areas))
    }
}
