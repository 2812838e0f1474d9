//! The known processes: most have a seat of their own, found without hashing; the others are in a hash table.
//!
//! A process is in one place or the other. In a session that takes all processes, where ticks make them known on all
//! CPUs at once, seats are not used: two CPUs could take the same one.

use aya_ebpf::bindings::BPF_ANY;
use profil_common::{NearRegion, Process, Seat, seat_index, settings_flags as sf};

use crate::maps;
use crate::settings::has;

/// A known process, where it lives.
#[derive(Clone, Copy)]
pub struct Known {
    /// What the tick knows about it.
    pub process: *mut Process,
    /// Its region, if it has a seat and only one; null for a process without a seat.
    pub near: *const NearRegion,
}

impl Known {
    /// A process of the table.
    #[inline(always)]
    pub fn in_table(process: *mut Process) -> Known {
        Known { process, near: core::ptr::null() }
    }

    /// The region at hand, if it is that of a slot.
    #[inline(always)]
    pub fn near(&self, slot: u32) -> Option<*const NearRegion> {
        if self.near.is_null() {
            return None;
        }
        // SAFETY: the pointer is into the seat that the lookup of this run returned; the field is an aligned word.
        let valid_for = unsafe { core::ptr::read_volatile(&raw const (*self.near).valid_for) };
        if valid_for == slot.wrapping_add(1) { Some(self.near) } else { None }
    }
}

/// The process with a tgid, where it lives.
#[inline(always)]
pub fn find(tgid: u32) -> Option<Known> {
    if !has(sf::ALL_PROCESSES)
        && let Some(seat) = maps::SEATS.get_ptr_mut(seat_index(tgid))
    {
        // SAFETY: a live element; the owner is an aligned word, written after the process and before it first ticks.
        let owner = unsafe { core::ptr::read_volatile(&raw const (*seat).owner) };
        if owner == tgid {
            // SAFETY: as above; only the addresses are taken.
            return Some(unsafe { Known { process: &raw mut (*seat).process, near: &raw const (*seat).near } });
        }
        if owner == Seat::NEVER_TAKEN {
            return None;
        }
    }
    maps::PROCESSES.get_ptr_mut(tgid).map(Known::in_table)
}

/// Enters a process that does not run yet; an older one of the same tgid is forgotten.
///
/// Two processes can only get in each other's way when their numbers are 4,096 apart and they are born within the same
/// few nanoseconds.
///
/// # Errors
/// The error number of the kernel, when its seat is taken and the table is full.
#[inline(always)]
pub fn enter(tgid: u32, process: &Process) -> Result<(), i32> {
    if !has(sf::ALL_PROCESSES)
        && let Some(seat) = maps::SEATS.get_ptr_mut(seat_index(tgid))
    {
        // SAFETY: a live element; see `find`.
        let owner = unsafe { core::ptr::read_volatile(&raw const (*seat).owner) };
        if owner == tgid || owner == Seat::NEVER_TAKEN || owner == Seat::FREE {
            // SAFETY: a live element that no tick looks into before its owner is written.
            unsafe {
                core::ptr::write_volatile(&raw mut (*seat).process, *process);
                core::ptr::write_volatile(&raw mut (*seat).owner, tgid);
            }
            return Ok(());
        }
    }
    maps::PROCESSES.insert(tgid, process, BPF_ANY.into())
}

/// Forgets a process, if it is known.
#[inline(always)]
pub fn forget(tgid: u32) {
    if !has(sf::ALL_PROCESSES)
        && let Some(seat) = maps::SEATS.get_ptr_mut(seat_index(tgid))
    {
        // SAFETY: a live element; see `find`.
        unsafe {
            if core::ptr::read_volatile(&raw const (*seat).owner) == tgid {
                // The next one who sits here starts without a region. No tick looks at this one any more: the process
                // has ended.
                core::ptr::write_volatile(&raw mut (*seat).near.valid_for, 0);
                // Not "never taken": those that found it taken are in the table.
                core::ptr::write_volatile(&raw mut (*seat).owner, Seat::FREE);
                return;
            }
        }
    }
    if maps::PROCESSES.get_ptr(tgid).is_some() {
        let _gone = maps::PROCESSES.remove(tgid);
    }
}
