//! The known processes: most have a seat of their own, found without hashing; the others are in a hash table.
//!
//! A process is in one place or the other. In a session that takes all processes, where ticks make them known on all
//! CPUs at once, seats are not used: two CPUs could take the same one.

use aya_ebpf::bindings::BPF_ANY;
use profil_common::{Process, Seat, seat_index, settings_flags as sf};

use crate::maps;
use crate::settings::has;

/// The process with a tgid, where it lives.
#[inline(always)]
pub fn find(tgid: u32) -> Option<*mut Process> {
    if !has(sf::ALL_PROCESSES)
        && let Some(seat) = maps::SEATS.get_ptr_mut(seat_index(tgid))
    {
        // SAFETY: a live element; the owner is an aligned word, written after the process and before it first ticks.
        let owner = unsafe { core::ptr::read_volatile(&raw const (*seat).owner) };
        if owner == tgid {
            // SAFETY: as above; only the address is taken.
            return Some(unsafe { &raw mut (*seat).process });
        }
        if owner == Seat::NEVER_TAKEN {
            return None;
        }
    }
    maps::PROCESSES.get_ptr_mut(tgid)
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
