//! CPU time that a process or thread has used: the clock that ticks are checked against.

use std::io;
use std::mem::MaybeUninit;
use std::time::Duration;

/// Largest process id, `PID_MAX_LIMIT` of include/linux/threads.h.
const PID_MAX: u32 = 4 * 1024 * 1024;

/// CPU time of a whole process, its exited threads included. Works for processes of other users.
///
/// # Errors
/// ESRCH when there is no such process.
///
/// # Source
/// clock_getcpuclockid(3)
pub fn of_process(pid: u32) -> io::Result<Duration> {
    // 0 means the caller, and the bits of a clock id have no room for much more than the largest id there can be.
    if !(1..=PID_MAX).contains(&pid) {
        return Err(io::Error::from_raw_os_error(libc::ESRCH));
    }
    let mut clock = MaybeUninit::uninit();
    // SAFETY: the C library writes one clock id, which is used only when it says that it did.
    let result = unsafe { libc::clock_getcpuclockid(pid as libc::pid_t, clock.as_mut_ptr()) };
    if result != 0 {
        return Err(io::Error::from_raw_os_error(result));
    }
    let mut time = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: the clock was written above; the C library writes one time, which is used only when it says so.
    let result = unsafe { libc::clock_gettime(clock.assume_init(), time.as_mut_ptr()) };
    if result != 0 {
        let error = io::Error::last_os_error();
        // The clock of a process that is gone is no clock.
        return Err(if error.raw_os_error() == Some(libc::EINVAL) {
            io::Error::from_raw_os_error(libc::ESRCH)
        } else {
            error
        });
    }
    // SAFETY: clock_gettime returned 0.
    let time = unsafe { time.assume_init() };
    Ok(Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
}

/// CPU time from the text of /proc/PID/task/TID/schedstat, whose first number is in nanoseconds.
///
/// # Source
/// Documentation/scheduler/sched-stats.rst of the kernel.
pub fn of_schedstat(text: &[u8]) -> Option<Duration> {
    let nanoseconds = std::str::from_utf8(text).ok()?.split_ascii_whitespace().next()?.parse().ok()?;
    Some(Duration::from_nanos(nanoseconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_cpu_time_never_runs_backwards() {
        let before = of_process(std::process::id()).expect("this process exists");
        let after = of_process(std::process::id()).expect("this process exists");
        assert!(before > Duration::ZERO && after >= before);
    }

    #[test]
    fn there_is_no_clock_of_a_process_that_cannot_be() {
        for pid in [0, PID_MAX, 0x3fff_ffff, u32::MAX] {
            assert_eq!(of_process(pid).map_err(|error| error.raw_os_error()), Err(Some(libc::ESRCH)));
        }
    }

    #[test]
    fn schedstat_is_read_in_nanoseconds() {
        assert_eq!(of_schedstat(b"1500000000 7 3\n"), Some(Duration::from_millis(1500)));
        assert_eq!(of_schedstat(b""), None);
        assert_eq!(of_schedstat(b"x 1 2"), None);
    }
}
