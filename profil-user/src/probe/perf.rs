//! perf events, opened only to see whether they open.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use perf_event_open_sys as sys;
use sys::bindings::perf_event_attr;

/// A kind of event that a probe opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// `cpu-clock` on one CPU, all processes.
    CpuClock {
        /// The CPU.
        cpu: u32,
    },
    /// `task-clock` of this thread, inherited by its children.
    TaskClock,
    /// `task-clock` inherited by threads and not by processes: `inherit_thread` (5.13).
    TaskClockOfThreads,
    /// No ticks, but records of mappings with their build IDs: `build_id` (5.12).
    MappingsWithBuildIds,
    /// Cycles counted by the CPU itself, for information.
    HardwareCycles,
}

/// Opens an event, disabled: it costs nothing and counts nothing.
///
/// Kernel mode is included, since a tick in the kernel is charged to the pc that the kernel returns to.
///
/// # Errors
/// As perf_event_open(2).
pub fn open(event: Event) -> io::Result<OwnedFd> {
    let mut attributes = perf_event_attr { size: size_of::<perf_event_attr>() as u32, ..Default::default() };
    attributes.set_disabled(1);
    attributes.type_ = sys::bindings::PERF_TYPE_SOFTWARE;
    // 1 s: never reached by a disabled event, and below every limit of the rate.
    attributes.__bindgen_anon_1.sample_period = 1_000_000_000;
    match event {
        Event::CpuClock { .. } => attributes.config = u64::from(sys::bindings::PERF_COUNT_SW_CPU_CLOCK),
        Event::TaskClock => {
            attributes.config = u64::from(sys::bindings::PERF_COUNT_SW_TASK_CLOCK);
            attributes.set_inherit(1);
        }
        Event::TaskClockOfThreads => {
            attributes.config = u64::from(sys::bindings::PERF_COUNT_SW_TASK_CLOCK);
            attributes.set_inherit(1);
            attributes.set_inherit_thread(1);
        }
        Event::MappingsWithBuildIds => {
            attributes.config = u64::from(sys::bindings::PERF_COUNT_SW_DUMMY);
            attributes.set_mmap(1);
            attributes.set_mmap2(1);
            attributes.set_build_id(1);
        }
        Event::HardwareCycles => {
            attributes.type_ = sys::bindings::PERF_TYPE_HARDWARE;
            attributes.config = u64::from(sys::bindings::PERF_COUNT_HW_CPU_CYCLES);
        }
    }
    let (pid, cpu) = match event {
        Event::CpuClock { cpu } => (-1, cpu as i32),
        _ => (0, -1),
    };
    let flags = sys::bindings::PERF_FLAG_FD_CLOEXEC as std::ffi::c_ulong;
    // SAFETY: the attributes are initialised and outlive the call.
    let fd = unsafe { sys::perf_event_open(&mut attributes, pid, cpu, -1, flags) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel returned a new descriptor, which nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Attaches a perf_event program to an event.
///
/// # Errors
/// As ioctl(2), PERF_EVENT_IOC_SET_BPF.
pub fn attach(event: BorrowedFd<'_>, program: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: both descriptors are open, and the request takes the program's number as its value.
    let result = unsafe { sys::ioctls::SET_BPF(event.as_raw_fd(), program.as_raw_fd() as u32) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
