//! Turning profiling on and off: by the service, or by libc where there is none.

use core::ptr::null_mut;

use libc::{c_int, c_uint, c_ushort, size_t, timeval};
use profil_common::wire::{Area, Call, CallKind, MAGIC, Reply, VERSION, call_flags, reply_flags};

use crate::active::{self, Counters, RECORD};
use crate::libc_functions::{self, Prof};
use crate::note::note;
use crate::service::{self, Areas, Failure, Stage};
use crate::{overlay, settings};

/// What the service answers a program that it may not look into: an undumpable one, see prctl(2).
const NOT_SERVED: u32 = libc::EPERM as u32;

/// What a call asks for, to the service and to libc.
#[derive(Clone, Copy, Debug)]
pub struct Order {
    /// Kind of the call.
    pub kind: CallKind,
    /// Number of the convention.
    pub convention: u32,
    /// Bytes of a counter.
    pub width: u32,
    /// Buffers, and the text they stand for.
    pub areas: Areas,
    /// What becomes of what was on before.
    pub effect: Effect,
    /// What to ask libc for when there is no service.
    pub otherwise: Otherwise,
}

/// What a call does to what was on before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Replaces it.
    On,
    /// Turns it off.
    Off,
    /// Nothing: a `clix` call with a bufsiz of 0.
    Nothing,
}

/// What to ask libc for when there is no service.
#[derive(Clone, Copy, Debug)]
pub enum Otherwise {
    /// profil(3) with these arguments.
    Profil(*mut c_ushort, size_t, size_t, c_uint),
    /// sprofil(3) with these arguments.
    Sprofil(*mut Prof, c_int, *mut timeval, c_uint),
    /// Nothing: the call then fails.
    Fail,
}

/// Who carried an order out.
#[derive(Clone, Copy, Debug)]
pub enum By {
    /// The service.
    Service {
        /// CPU time between two ticks, ns.
        period_ns: u64,
    },
    /// libc.
    Libc,
}

/// Carries an order out. When this returns, what was on before counts no more, unless the order says so.
///
/// # Errors
/// The errno that the caller of the C function gets.
///
/// # Safety
/// The buffers stay until they are turned off, and libc's arguments are what its function may be called with.
pub unsafe fn carry_out(order: &Order) -> Result<By, c_int> {
    if order.effect != Effect::Nothing {
        // SAFETY: turning off takes no memory of the caller's.
        unsafe { stop_libc() };
    }
    let call = Call {
        magic: MAGIC,
        version: VERSION,
        nonce: 0,
        kind: order.kind as u32,
        convention: order.convention,
        width: order.width,
        hz: settings::read().hz,
        flags: if order.wants_overlay() { call_flags::ZERO_COPY } else { 0 },
        areas: order.areas.count,
    };
    let failure = match ask(call, order.areas, order.effect) {
        // It may not look into us, and turned off what it counted.
        Ok(Reply { errno: NOT_SERVED, .. }) if order.effect == Effect::On => {
            forget_service();
            // SAFETY: by the caller.
            return unsafe { ask_libc(order, NOT_SERVED as c_int) }.map(|()| By::Libc);
        }
        Ok(reply) => {
            write_down(order, call, &reply);
            let period_ns = reply.period_ns;
            return if reply.errno == 0 { Ok(By::Service { period_ns }) } else { Err(reply.errno as c_int) };
        }
        // The message was made from memory of the caller's that cannot be read.
        Err(Failure { errno: libc::EFAULT, .. }) => return Err(libc::EFAULT),
        Err(failure) => failure,
    };
    let was_on = active::counters().include(Counters::SERVICE);
    if is_gone(failure) {
        overlay::remove();
        forget_service();
    } else if failure.stage == Stage::After && order.effect == Effect::On {
        active::started(Counters::SERVICE);
    }
    let fails = match order.effect {
        // Ticks since the last flush are lost, or more may be written yet: the caller must know.
        Effect::Off => was_on || failure.errno == libc::ETIMEDOUT,
        Effect::On | Effect::Nothing => false,
    };
    if fails {
        return Err(failure.errno);
    }
    // SAFETY: by the caller.
    unsafe { ask_libc(order, failure.errno) }.map(|()| By::Libc)
}

/// Asks the service, and lays the kernel's array over the buffer where that was wanted.
///
/// # Errors
/// When the service does not answer.
pub fn ask(call: Call, areas: Areas, effect: Effect) -> Result<Reply, Failure> {
    let answer = service::exchange(call, areas)?;
    let is_on = is_on(&answer.reply);
    if !is_on || (answer.reply.errno == 0 && effect != Effect::Nothing) {
        overlay::remove();
    }
    let was_asked = call.flags & call_flags::ZERO_COPY != 0;
    let was_given = answer.reply.flags & reply_flags::ZERO_COPY != 0 && answer.reply.errno == 0;
    let Some(array) = answer.array.filter(|_| is_on && was_asked && was_given) else {
        return Ok(answer.reply);
    };
    // SAFETY: a call that asks for the array has one area, which the caller keeps readable.
    let area = unsafe { areas.start.read_unaligned() };
    // SAFETY: the buffer is whole pages, which was checked before the array was asked for, and the caller's to give.
    if unsafe { overlay::lay(&array, area) }.is_ok() {
        return Ok(answer.reply);
    }
    drop(array);
    note(|note| note.text("the kernel's array cannot be mapped over the buffer: counts are copied"));
    let copied = Call { flags: call.flags & !call_flags::ZERO_COPY, ..call };
    service::exchange(copied, areas).map(|answer| answer.reply)
}

/// Whether profiling is on after a reply.
pub fn is_on(reply: &Reply) -> bool {
    reply.flags & reply_flags::ON != 0
}

/// Notes what is on after a reply.
fn write_down(order: &Order, call: Call, reply: &Reply) {
    if !is_on(reply) {
        return forget_service();
    }
    active::started(Counters::SERVICE);
    if reply.errno == 0
        && order.effect == Effect::On
        && let Some(mut record) = RECORD.claim()
    {
        // SAFETY: the kernel could read the areas when it sent them.
        unsafe { record.keep(call, order.areas) };
    }
}

/// Notes that the service does not count.
pub fn forget_service() {
    active::stopped(Counters::SERVICE);
    if let Some(mut record) = RECORD.claim() {
        record.clear();
    }
}

/// Nobody listens: whoever counted for us has ended.
fn is_gone(failure: Failure) -> bool {
    matches!(failure.errno, libc::ENOENT | libc::ECONNREFUSED)
}

/// # Safety
/// libc's arguments are what its function may be called with.
unsafe fn ask_libc(order: &Order, errno: c_int) -> Result<(), c_int> {
    let say = || note(|note| note.text("no service, so libc is asked: errno ").number(errno.unsigned_abs().into()));
    let counter = match order.otherwise {
        Otherwise::Fail => return Err(errno),
        _ if order.effect == Effect::Nothing => return Ok(()),
        Otherwise::Profil(..) if order.effect == Effect::Off => {
            say();
            // What the convention calls off need not be off to libc.
            // SAFETY: turning off takes no memory of the caller's.
            return unsafe { libc_functions::profil(null_mut(), 0, 0, 0) };
        }
        Otherwise::Profil(buffer, bufsiz, offset, scale) => {
            say();
            // SAFETY: by the caller.
            unsafe { libc_functions::profil(buffer, bufsiz, offset, scale) }?;
            Counters::LIBC_PROFIL
        }
        Otherwise::Sprofil(regions, count, period, flags) => {
            say();
            // SAFETY: by the caller.
            unsafe { libc_functions::sprofil(regions, count, period, flags) }?;
            Counters::LIBC_SPROFIL
        }
    };
    if order.effect == Effect::On {
        active::started(counter);
    }
    Ok(())
}

/// Turns off what libc counts.
///
/// # Safety
/// None beyond libc's: it restores the timer and the signal action that it found.
unsafe fn stop_libc() {
    let counters = active::counters();
    if counters.include(Counters::LIBC_PROFIL) {
        // SAFETY: turning off takes no memory of the caller's.
        let _ = unsafe { libc_functions::profil(null_mut(), 0, 0, 0) };
        active::stopped(Counters::LIBC_PROFIL);
    }
    if counters.include(Counters::LIBC_SPROFIL) {
        // SAFETY: as above.
        let _ = unsafe { libc_functions::sprofil(null_mut(), 0, null_mut(), 0) };
        active::stopped(Counters::LIBC_SPROFIL);
    }
}

impl Order {
    fn wants_overlay(&self) -> bool {
        let is_candidate =
            settings::read().zero_copy && self.effect == Effect::On && matches!(self.kind, CallKind::Profil);
        // SAFETY: profil(3) has one area, on its own stack.
        is_candidate && overlay::fits(unsafe { self.areas.start.read_unaligned() })
    }
}

const _: () = assert!(size_of::<Area>() == size_of::<Prof>());
