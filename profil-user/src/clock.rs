//! The clock whose expiry runs the program: one `cpu-clock` perf event for each CPU.
//!
//! A clock for each thread, inherited from the first, would be more exact for long-lived threads, but it begins each
//! thread and process with a full period: of 300 programs of half a millisecond it found 0 of 167 ticks. It also
//! costs every context switch, and ends silently at the exec of a set-uid program. The clock of a CPU meets whoever
//! runs there.
//!
//! Opened here because aya's attach can set neither `exclude_idle` nor `disabled`, and hides the descriptor.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use perf_event_open_sys::bindings::{
    PERF_COUNT_SW_CPU_CLOCK, PERF_FLAG_FD_CLOEXEC, PERF_TYPE_SOFTWARE, perf_event_attr,
};
use perf_event_open_sys::{ioctls, perf_event_open};

/// Name of the clock, as perf writes it.
#[doc(alias = "PERF_COUNT_SW_CPU_CLOCK")]
pub const NAME: &str = "cpu-clock";

/// A clock that cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum ClockError {
    /// perf_event_open(2) failed.
    #[error("cannot open a {NAME} perf event on CPU {cpu}")]
    Open {
        /// The CPU.
        cpu: u32,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// An ioctl on the event failed.
    #[error("cannot {operation} the {NAME} perf event on CPU {cpu}")]
    Control {
        /// What was tried.
        operation: &'static str,
        /// The CPU.
        cpu: u32,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

/// One perf event with the program attached.
#[derive(Debug)]
struct ClockEvent {
    fd: OwnedFd,
    cpu: u32,
}

impl ClockEvent {
    fn open(cpu: u32, period_ns: u64) -> Result<ClockEvent, ClockError> {
        let mut attr = perf_event_attr {
            size: size_of::<perf_event_attr>() as u32,
            type_: PERF_TYPE_SOFTWARE,
            config: PERF_COUNT_SW_CPU_CLOCK.into(),
            ..perf_event_attr::default()
        };
        attr.__bindgen_anon_1.sample_period = period_ns;
        attr.set_disabled(1);
        attr.set_exclude_idle(1);
        // SAFETY: attr is a valid attribute structure of the size that it states; the kernel copies it.
        let fd = unsafe { perf_event_open(&mut attr, -1, cpu as i32, -1, PERF_FLAG_FD_CLOEXEC.into()) };
        if fd < 0 {
            return Err(ClockError::Open { cpu, source: io::Error::last_os_error() });
        }
        // SAFETY: the kernel has just made this descriptor for us.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(ClockEvent { fd, cpu })
    }

    fn attach(&self, program: BorrowedFd<'_>) -> Result<(), ClockError> {
        // SAFETY: both descriptors are open; the kernel takes its own reference to the program.
        let done = unsafe { ioctls::SET_BPF(self.fd.as_raw_fd(), program.as_raw_fd() as u32) };
        self.check("attach the program to", done)
    }

    fn enable(&self) -> Result<(), ClockError> {
        // SAFETY: the descriptor is open, and the argument is a plain number.
        let done = unsafe { ioctls::ENABLE(self.fd.as_raw_fd(), 0) };
        self.check("enable", done)
    }

    fn disable(&self) -> Result<(), ClockError> {
        // SAFETY: as for enable.
        let done = unsafe { ioctls::DISABLE(self.fd.as_raw_fd(), 0) };
        self.check("disable", done)
    }

    fn check(&self, operation: &'static str, done: i32) -> Result<(), ClockError> {
        if done == 0 {
            return Ok(());
        }
        Err(ClockError::Control { operation, cpu: self.cpu, source: io::Error::last_os_error() })
    }
}

/// The clock. Dropping it closes its events, and with them the last ticks.
#[derive(Debug)]
pub struct Clock {
    events: Vec<ClockEvent>,
}

impl Clock {
    /// One event for each of the CPUs, not enabled yet; the idle task does not tick.
    ///
    /// A CPU that is offline by now is passed over.
    ///
    /// # Errors
    /// [`ClockError`]; `EACCES` and `EPERM` when the caller lacks `CAP_PERFMON`.
    pub fn on_cpus(program: BorrowedFd<'_>, cpus: &[u32], period_ns: u64) -> Result<Clock, ClockError> {
        let mut events = Vec::with_capacity(cpus.len());
        for &cpu in cpus {
            match ClockEvent::open(cpu, period_ns) {
                Ok(event) => {
                    event.attach(program)?;
                    events.push(event);
                }
                Err(ClockError::Open { source, .. }) if source.raw_os_error() == Some(libc::ENODEV) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Clock { events })
    }

    /// Starts the ticks.
    ///
    /// # Errors
    /// [`ClockError::Control`].
    pub fn start(&self) -> Result<(), ClockError> {
        self.events.iter().try_for_each(ClockEvent::enable)
    }

    /// Stops the ticks. When it returns, none is under way on any CPU.
    ///
    /// # Errors
    /// [`ClockError::Control`].
    pub fn stop(&self) -> Result<(), ClockError> {
        self.events.iter().try_for_each(ClockEvent::disable)
    }
}
