//! CPU time that a process or thread has used: the clock that ticks are checked against.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{FromRawFd, OwnedFd};
use std::time::Duration;

use perf_event_open_sys::bindings::{
    PERF_COUNT_SW_TASK_CLOCK, PERF_FLAG_FD_CLOEXEC, PERF_TYPE_SOFTWARE, perf_event_attr,
};
use perf_event_open_sys::perf_event_open;

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

/// A counter of the CPU time that a thread uses from a moment on. It still tells when the thread has ended, which no
/// file of /proc does.
#[derive(Debug)]
#[doc(alias = "PERF_COUNT_SW_TASK_CLOCK")]
pub struct ThreadClock(OwnedFd);

impl ThreadClock {
    /// Starts to count the time of a thread, by its number in this PID namespace.
    ///
    /// # Errors
    /// ESRCH when there is no such thread; EACCES and EPERM when the caller lacks `CAP_PERFMON` and it is not its own.
    pub fn start(tid: u32) -> io::Result<ThreadClock> {
        let tid = libc::pid_t::try_from(tid).map_err(|_| io::Error::from_raw_os_error(libc::ESRCH))?;
        let mut attr = perf_event_attr {
            size: size_of::<perf_event_attr>() as u32,
            type_: PERF_TYPE_SOFTWARE,
            config: PERF_COUNT_SW_TASK_CLOCK.into(),
            ..perf_event_attr::default()
        };
        // SAFETY: attr is a valid attribute structure of the size that it states; the kernel copies it.
        let fd = unsafe { perf_event_open(&mut attr, tid, -1, -1, PERF_FLAG_FD_CLOEXEC.into()) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just made this descriptor for us.
        Ok(ThreadClock(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// CPU time since the start.
    ///
    /// # Errors
    /// What read(2) says.
    pub fn read(&self) -> io::Result<Duration> {
        let mut nanoseconds = [0; 8];
        match rustix::io::read(&self.0, &mut nanoseconds)? {
            8 => Ok(Duration::from_nanos(u64::from_ne_bytes(nanoseconds))),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_of_a_thread_tells_what_it_used_when_it_has_ended() {
        let (send, tid) = std::sync::mpsc::channel();
        let (go, wait) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            send.send(rustix::thread::gettid().as_raw_nonzero().get() as u32).expect("the test listens");
            wait.recv().expect("the test says when");
            let own = || of_schedstat(&std::fs::read("/proc/thread-self/schedstat").expect("our own file"));
            let end = own().expect("schedstat has a number") + Duration::from_millis(20);
            while own().expect("schedstat has a number") < end {}
        });
        let clock = match ThreadClock::start(tid.recv().expect("the thread tells")) {
            Ok(clock) => clock,
            // kernel.perf_event_paranoid above 2, and no right to pass it.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EACCES | libc::EPERM)) => return,
            Err(error) => panic!("{error}"),
        };
        go.send(()).expect("the thread waits");
        thread.join().expect("it ends");
        let used = clock.read().expect("the counter outlives the thread");
        assert!(used >= Duration::from_millis(19), "{used:?}");
        assert_eq!(clock.read().expect("a second look"), used, "nothing runs any more");
    }

    #[test]
    fn there_is_no_clock_of_a_thread_that_cannot_be() {
        assert!(ThreadClock::start(1 << 30).is_err() && ThreadClock::start(u32::MAX).is_err());
    }

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
