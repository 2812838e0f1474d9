//! libc's own functions, whose names this library took.
//!
//! They are looked up once, because dlsym(3) takes the loader's lock and may not be called in a signal handler.

use core::ffi::{CStr, c_void};
use core::mem::transmute;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering};

use libc::{c_int, c_uint, c_ulong, c_ushort, size_t, timeval};

use crate::errno;

/// `struct prof` of `<sys/profil.h>`, whose layout is that of an [`Area`](profil_common::wire::Area).
#[repr(C)]
#[derive(Debug)]
pub struct Prof {
    base: *mut c_void,
    size: size_t,
    off: size_t,
    scale: c_ulong,
}

type Profil = unsafe extern "C" fn(*mut c_ushort, size_t, size_t, c_uint) -> c_int;
type Sprofil = unsafe extern "C" fn(*mut Prof, c_int, *mut timeval, c_uint) -> c_int;
type Monstartup = unsafe extern "C" fn(c_ulong, c_ulong);
type Moncontrol = unsafe extern "C" fn(c_int);
type Mcleanup = unsafe extern "C" fn();

static PROFIL: Symbol = Symbol::new(c"profil");
static SPROFIL: Symbol = Symbol::new(c"sprofil");
static MONSTARTUP: Symbol = Symbol::new(c"__monstartup");
static MONCONTROL: Symbol = Symbol::new(c"moncontrol");
static MCLEANUP: Symbol = Symbol::new(c"_mcleanup");

/// Looks all of them up.
pub fn find() {
    for symbol in [&PROFIL, &SPROFIL, &MONSTARTUP, &MONCONTROL, &MCLEANUP] {
        symbol.find();
    }
}

/// libc's profil(3).
///
/// # Errors
/// The errno; `ENOSYS` where libc has no such function, as musl.
///
/// # Safety
/// As that of profil(3): the buffer stays until it is turned off.
pub unsafe fn profil(buffer: *mut c_ushort, bufsiz: size_t, offset: size_t, scale: c_uint) -> Result<(), c_int> {
    let profil = PROFIL.address().ok_or(libc::ENOSYS)?;
    // SAFETY: libc's function of this name has this type.
    let profil = unsafe { transmute::<*mut c_void, Profil>(profil) };
    // SAFETY: by the caller.
    check(unsafe { profil(buffer, bufsiz, offset, scale) })
}

/// libc's sprofil(3).
///
/// # Errors
/// The errno; `ENOSYS` where libc has no such function, as musl.
///
/// # Safety
/// As that of sprofil(3): the buffers stay until it is turned off.
pub unsafe fn sprofil(regions: *mut Prof, count: c_int, period: *mut timeval, flags: c_uint) -> Result<(), c_int> {
    let sprofil = SPROFIL.address().ok_or(libc::ENOSYS)?;
    // SAFETY: libc's function of this name has this type.
    let sprofil = unsafe { transmute::<*mut c_void, Sprofil>(sprofil) };
    // SAFETY: by the caller.
    check(unsafe { sprofil(regions, count, period, flags) })
}

/// libc's `__monstartup`, which `monstartup` is another name of. Nothing where there is none.
pub fn monstartup(low_pc: c_ulong, high_pc: c_ulong) {
    if let Some(monstartup) = MONSTARTUP.address() {
        // SAFETY: libc's function of this name has this type.
        let monstartup = unsafe { transmute::<*mut c_void, Monstartup>(monstartup) };
        // SAFETY: it only does arithmetic with the addresses.
        unsafe { monstartup(low_pc, high_pc) };
    }
}

/// libc's `moncontrol`. Nothing where there is none.
pub fn moncontrol(mode: c_int) {
    if let Some(moncontrol) = MONCONTROL.address() {
        // SAFETY: libc's function of this name has this type.
        let moncontrol = unsafe { transmute::<*mut c_void, Moncontrol>(moncontrol) };
        // SAFETY: it takes any mode at any time.
        unsafe { moncontrol(mode) };
    }
}

/// libc's `_mcleanup`. Nothing where there is none.
pub fn mcleanup() {
    if let Some(mcleanup) = MCLEANUP.address() {
        // SAFETY: libc's function of this name has this type.
        let mcleanup = unsafe { transmute::<*mut c_void, Mcleanup>(mcleanup) };
        // SAFETY: the program called it itself, or start-up code by atexit(3).
        unsafe { mcleanup() };
    }
}

fn check(result: c_int) -> Result<(), c_int> {
    if result == 0 { Ok(()) } else { Err(errno::get()) }
}

/// The address of a function that no library has.
const ABSENT: *mut c_void = core::ptr::without_provenance_mut(1);

/// A function of the next library that has one of that name.
#[derive(Debug)]
struct Symbol {
    name: &'static CStr,
    /// Null before it was looked up.
    address: AtomicPtr<c_void>,
}

impl Symbol {
    const fn new(name: &'static CStr) -> Symbol {
        Symbol { name, address: AtomicPtr::new(null_mut()) }
    }

    fn find(&self) -> *mut c_void {
        // SAFETY: the name ends in NUL.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        let address = if found.is_null() { ABSENT } else { found };
        self.address.store(address, Ordering::Release);
        address
    }

    /// `None` where there is none.
    fn address(&self) -> Option<*mut c_void> {
        let known = self.address.load(Ordering::Acquire);
        // The constructor of another library may call before ours has run.
        let address = if known.is_null() { self.find() } else { known };
        (address != ABSENT).then_some(address)
    }
}
