//! errno of the calling thread.

use libc::c_int;

/// The value it has.
pub fn get() -> c_int {
    // SAFETY: libc gives each thread a valid errno.
    unsafe { *libc::__errno_location() }
}

fn set(value: c_int) {
    // SAFETY: as in `get`.
    unsafe { *libc::__errno_location() = value };
}

/// Runs the body of a C function: 0 with errno as it was, or -1 with errno set.
pub fn result_of(body: impl FnOnce() -> Result<(), c_int>) -> c_int {
    let before = get();
    match body() {
        Ok(()) => {
            set(before);
            0
        }
        Err(errno) => {
            set(errno);
            -1
        }
    }
}

/// Runs what no caller asked for, behind whose back errno must not change.
pub fn keep(body: impl FnOnce()) {
    let before = get();
    body();
    set(before);
}
