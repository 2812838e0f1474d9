//! What a forked child does: in some conventions it is profiled as well, into its own copy of the buffer.
//!
//! vfork(2), posix_spawn(3) and clone(2) run nothing of this, which is right: their children share the parent's memory,
//! or are on their own.

use profil_common::Convention;
use profil_common::wire::{Call, CallKind, MAGIC, VERSION};

use crate::active::{self, Counters, RECORD};
use crate::service::{self, Areas};
use crate::settings::{self, convention_number};
use crate::switch::{self, Effect};
use crate::{errno, overlay};

/// Has the handlers run at each fork(2).
pub fn watch() {
    // SAFETY: the handlers stay, for the library is linked so that dlclose(3) leaves it. Without memory there are none.
    unsafe { libc::pthread_atfork(Some(before), None, Some(in_child)) };
}

/// Whether a child is profiled too.
fn child_continues() -> bool {
    match settings::read().convention {
        Convention::Bsd | Convention::Clix => true,
        Convention::Linux | Convention::Glibc => false,
    }
}

fn is_on() -> bool {
    active::counters().include(Counters::SERVICE)
}

/// Has the ticks so far written to the buffer, which the child gets a copy of.
extern "C" fn before() {
    if !is_on() || !child_continues() {
        return;
    }
    let settings = settings::read();
    let call = Call {
        magic: MAGIC,
        version: VERSION,
        nonce: 0,
        kind: CallKind::Flush as u32,
        convention: convention_number(settings.convention),
        width: 2,
        hz: settings.hz,
        flags: 0,
        areas: 0,
    };
    // Without an answer the child's copy lacks the last ticks, and nothing else is amiss.
    errno::keep(|| drop(service::exchange(call, Areas::NONE)));
}

/// Turns the child's own profiling on, or notes that it is off.
extern "C" fn in_child() {
    errno::keep(|| {
        // The kernel's array would be shared with the parent.
        overlay::remove();
        if is_on() && !(child_continues() && repeat_call()) {
            switch::forget_service();
        }
    });
}

/// Makes the parent's last call for this process: whether it is on.
fn repeat_call() -> bool {
    let Some(record) = RECORD.claim() else { return false };
    let Some((call, areas)) = record.call() else { return false };
    switch::ask(call, areas, Effect::On).is_ok_and(|reply| switch::is_on(&reply))
}
