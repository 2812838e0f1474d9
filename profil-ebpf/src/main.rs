//! The kernel side of profil: counts ticks where they happen.
//!
//! `tick` runs at each expiry of a CPU's clock; `fork`, `exec`, `exit` and `free`
//! keep the table of known processes right without waiting for user space ([`hooks`]).
//! [`maps`] is all that they share with the loader.

#![no_std]
#![no_main]
#![allow(internal_features, reason = "core::sync::atomic has no read-modify-write on BPF; the intrinsics do")]
#![feature(core_intrinsics)]

mod arch;
mod atomic;
mod hooks;
mod maps;
mod processes;
mod settings;
mod tick;

#[cfg(not(test))]
#[panic_handler]
fn panic(_info: &core::panic::PanicInfo) -> ! {
    loop {}
}

/// The kernel offers the helpers for processes to programs under the GPL only.
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
