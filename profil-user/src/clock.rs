//! The clocks whose expiry runs the program: perf's software clocks, opened here because aya's attach can set
//! neither `enable_on_exec`, `inherit_thread`, `exclude_idle` nor `disabled`, and hides the file descriptor.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use perf_event_open_sys::bindings::{
    PERF_COUNT_SW_CPU_CLOCK, PERF_COUNT_SW_TASK_CLOCK, PERF_FLAG_FD_CLOEXEC, PERF_TYPE_SOFTWARE, perf_event_attr,
};
use perf_event_open_sys::{ioctls, perf_event_open};

/// Which software clock runs the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockKind {
    /// One `cpu-clock` event for each CPU: sees every process, costs nothing at a context switch.
    #[doc(alias = "PERF_COUNT_SW_CPU_CLOCK")]
    Cpu,
    /// One `task-clock` event for each thread, inherited from the first one: virtual CPU time, exact to 0.1 %.
    #[doc(alias = "PERF_COUNT_SW_TASK_CLOCK")]
    Thread,
}

impl ClockKind {
    /// Name as perf writes it.
    pub const fn name(self) -> &'static str {
        match self {
            ClockKind::Cpu => "cpu-clock",
            ClockKind::Thread => "task-clock",
        }
    }
}

/// Whether the idle task ticks as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idle {
    /// Only threads tick.
    Excluded,
    /// The idle task of each CPU ticks too.
    Included,
}

/// Which tasks that a target creates carry the clock on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inherit {
    /// Threads and child processes.
    Descendants,
    /// Threads only (Linux 5.13).
    Threads,
}

/// A clock that cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum ClockError {
    /// perf_event_open(2) failed.
    #[error("cannot open a {clock} perf event for {scope}", clock = clock.name())]
    Open {
        /// Clock asked for.
        clock: ClockKind,
        /// CPU or thread it was for.
        scope: Scope,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// An ioctl on the event failed.
    #[error("cannot {operation} the {clock} perf event for {scope}", clock = clock.name())]
    Control {
        /// What was tried.
        operation: &'static str,
        /// Clock of the event.
        clock: ClockKind,
        /// CPU or thread it is for.
        scope: Scope,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

/// What an event counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Everything on one CPU.
    Cpu(u32),
    /// One thread and, by inheritance, what it creates.
    Thread(u32),
}

impl std::fmt::Display for Scope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Scope::Cpu(cpu) => write!(f, "CPU {cpu}"),
            Scope::Thread(tid) => write!(f, "tid {tid}"),
        }
    }
}

/// One perf event with the program attached.
#[derive(Debug)]
struct ClockEvent {
    fd: OwnedFd,
    kind: ClockKind,
    scope: Scope,
}

impl ClockEvent {
    fn open(kind: ClockKind, scope: Scope, attr: &mut perf_event_attr) -> Result<ClockEvent, ClockError> {
        attr.size = size_of::<perf_event_attr>() as u32;
        attr.type_ = PERF_TYPE_SOFTWARE;
        attr.config = match kind {
            ClockKind::Cpu => PERF_COUNT_SW_CPU_CLOCK,
            ClockKind::Thread => PERF_COUNT_SW_TASK_CLOCK,
        }
        .into();
        attr.set_disabled(1);
        let (pid, cpu) = match scope {
            Scope::Cpu(cpu) => (-1, cpu as i32),
            Scope::Thread(tid) => (tid as i32, -1),
        };
        // SAFETY: attr is a valid attribute structure of the size that it states; the kernel copies it.
        let fd = unsafe { perf_event_open(attr, pid, cpu, -1, PERF_FLAG_FD_CLOEXEC.into()) };
        if fd < 0 {
            return Err(ClockError::Open { clock: kind, scope, source: io::Error::last_os_error() });
        }
        // SAFETY: the kernel has just made this descriptor for us.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(ClockEvent { fd, kind, scope })
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
        Err(ClockError::Control { operation, clock: self.kind, scope: self.scope, source: io::Error::last_os_error() })
    }

    /// The event's own count, ns: of the thread's CPU time and that of all it created, or of the CPU's time.
    fn count_ns(&self) -> io::Result<u64> {
        let mut count = [0u8; 8];
        rustix::io::read(&self.fd, &mut count)?;
        Ok(u64::from_ne_bytes(count))
    }
}

/// A running clock. Dropping it closes its events, and with them the last ticks.
#[derive(Debug)]
pub struct Clock {
    kind: ClockKind,
    events: Vec<ClockEvent>,
}

impl Clock {
    /// One event for each of the CPUs, not enabled yet.
    ///
    /// A CPU that is offline by now is passed over.
    ///
    /// # Errors
    /// [`ClockError`]; `EACCES` and `EPERM` when the caller lacks `CAP_PERFMON`.
    pub fn on_cpus(program: BorrowedFd<'_>, cpus: &[u32], period_ns: u64, idle: Idle) -> Result<Clock, ClockError> {
        let mut events = Vec::with_capacity(cpus.len());
        for &cpu in cpus {
            let mut attr = perf_event_attr::default();
            attr.__bindgen_anon_1.sample_period = period_ns;
            attr.set_exclude_idle((idle == Idle::Excluded).into());
            match ClockEvent::open(ClockKind::Cpu, Scope::Cpu(cpu), &mut attr) {
                Ok(event) => {
                    event.attach(program)?;
                    events.push(event);
                }
                Err(ClockError::Open { source, .. }) if source.raw_os_error() == Some(libc::ENODEV) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Clock { kind: ClockKind::Cpu, events })
    }

    /// One event for a thread that has not run its program yet: enabled by its exec, inherited from then on.
    ///
    /// # Errors
    /// [`ClockError`]; `EINVAL` for [`Inherit::Threads`] before Linux 5.13.
    pub fn from_exec(program: BorrowedFd<'_>, tid: u32, period_ns: u64, inherit: Inherit) -> Result<Clock, ClockError> {
        let mut attr = perf_event_attr::default();
        attr.__bindgen_anon_1.sample_period = period_ns;
        attr.set_inherit(1);
        attr.set_inherit_thread((inherit == Inherit::Threads).into());
        attr.set_enable_on_exec(1);
        let event = ClockEvent::open(ClockKind::Thread, Scope::Thread(tid), &mut attr)?;
        event.attach(program)?;
        Ok(Clock { kind: ClockKind::Thread, events: vec![event] })
    }

    /// Which clock it is.
    pub fn kind(&self) -> ClockKind {
        self.kind
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

    /// Sum of the events' own counts, ns: CPU time of the threads for [`ClockKind::Thread`], of all CPUs for
    /// [`ClockKind::Cpu`], their idle time included as far as the kernel counts it.
    ///
    /// # Errors
    /// What read(2) says.
    pub fn count_ns(&self) -> io::Result<u64> {
        self.events.iter().map(ClockEvent::count_ns).sum()
    }
}
