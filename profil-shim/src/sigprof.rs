//! ITIMER_PROF and SIGPROF, which libc's -pg functions take for themselves.

use core::mem::MaybeUninit;
use core::ptr::null_mut;

use libc::{c_int, itimerval, sigset_t, timespec, timeval};

/// Number of the timer whose signal is SIGPROF.
const ITIMER_PROF: c_int = 2;

const NO_TIMER: itimerval =
    itimerval { it_interval: timeval { tv_sec: 0, tv_usec: 0 }, it_value: timeval { tv_sec: 0, tv_usec: 0 } };

unsafe extern "C" {
    // The libc crate has them for other systems only.
    fn setitimer(which: c_int, new: *const itimerval, old: *mut itimerval) -> c_int;
    fn getitimer(which: c_int, value: *mut itimerval) -> c_int;
}

/// Runs a function of libc's that arms ITIMER_PROF and takes SIGPROF, or gives both back as it once found them.
///
/// Afterwards timer and action are the program's again, and no signal of libc's timer is left behind.
pub fn undisturbed(libc_function: impl FnOnce()) {
    let Some(before) = Before::note() else { return libc_function() };
    libc_function();
    before.put_back();
}

/// What belongs to the program.
struct Before {
    mask: sigset_t,
    action: libc::sigaction,
    timer: itimerval,
    was_pending: bool,
}

impl Before {
    /// Notes it all, and blocks SIGPROF. `None` when that cannot be done, as under a strict seccomp filter.
    fn note() -> Option<Before> {
        let (mut mask, mut timer) = (MaybeUninit::uninit(), NO_TIMER);
        let mut action = MaybeUninit::uninit();
        // SAFETY: both sets are valid.
        if unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &sigprof(), mask.as_mut_ptr()) } != 0 {
            return None;
        }
        // SAFETY: pthread_sigmask filled it.
        let mask = unsafe { mask.assume_init() };
        // SAFETY: both are valid for writes.
        let has_all = unsafe {
            libc::sigaction(libc::SIGPROF, core::ptr::null(), action.as_mut_ptr()) == 0
                && getitimer(ITIMER_PROF, &raw mut timer) == 0
        };
        if !has_all {
            set_mask(&mask);
            return None;
        }
        // SAFETY: sigaction filled it.
        Some(Before { mask, action: unsafe { action.assume_init() }, timer, was_pending: is_pending() })
    }

    fn put_back(self) {
        // The timer stops before its signals are thrown away, and that before the action is the program's again, which
        // may be to die.
        set_timer(&NO_TIMER);
        if !self.was_pending {
            discard_pending();
        }
        // SAFETY: an action that the kernel gave out.
        unsafe { libc::sigaction(libc::SIGPROF, &raw const self.action, null_mut()) };
        set_timer(&self.timer);
        set_mask(&self.mask);
    }
}

fn sigprof() -> sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: the set is valid for writes.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    // SAFETY: sigemptyset filled it.
    let mut set = unsafe { set.assume_init() };
    // SAFETY: a set and a signal that are valid.
    unsafe { libc::sigaddset(&raw mut set, libc::SIGPROF) };
    set
}

fn is_pending() -> bool {
    let mut pending = MaybeUninit::uninit();
    // SAFETY: the set is valid for writes.
    if unsafe { libc::sigpending(pending.as_mut_ptr()) } != 0 {
        return false;
    }
    // SAFETY: sigpending filled it.
    let pending = unsafe { pending.assume_init() };
    // SAFETY: a set and a signal that are valid.
    unsafe { libc::sigismember(&raw const pending, libc::SIGPROF) == 1 }
}

/// Takes what is pending for this thread or for the process.
fn discard_pending() {
    let now = timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the set and the time are valid; no information is wanted.
    while unsafe { libc::sigtimedwait(&sigprof(), null_mut(), &raw const now) } == libc::SIGPROF {}
}

fn set_timer(timer: &itimerval) {
    // SAFETY: the timer is valid.
    unsafe { setitimer(ITIMER_PROF, timer, null_mut()) };
}

fn set_mask(mask: &sigset_t) {
    // SAFETY: the mask is one that the kernel gave out.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, mask, null_mut()) };
}
