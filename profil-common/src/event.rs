use crate::limits::COMM_BYTES;

/// What happened to a process that the tick knows.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// A known process had a child, which is known from here on; `other_image` is the parent's.
    Fork = 1,
    /// A known process runs another program; `other_image` is the image it had.
    Exec = 2,
    /// The last thread of a known process has begun to exit; `cpu_ns` is its CPU time so far, all threads.
    Exit = 3,
    /// The kernel has freed a known process; `cpu_ns` is its CPU time, all threads.
    Free = 4,
    /// The first tick of a process that was not known, in a session that takes all processes.
    Seen = 5,
}

/// Record of the event ring, in the order of the kernel's hooks.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// `CLOCK_MONOTONIC`, ns.
    pub time_ns: u64,
    /// Image that the process has from here on (its last one for `Exit` and `Free`).
    pub image: u64,
    /// The other image that the event is about, or 0.
    pub other_image: u64,
    /// CPU time of the process, ns; only for `Exit` and `Free`.
    pub cpu_ns: u64,
    /// An [`EventKind`]; a plain number because it comes from another address space.
    pub kind: u32,
    /// The process, in the initial PID namespace.
    pub tgid: u32,
    /// [`process_flags`](crate::process_flags) of the process after the event.
    pub flags: u32,
    /// The process, in the PID namespace of the loader; 0 when it is not visible there.
    pub pid: u32,
    /// Command name of the process, NUL padded.
    pub comm: [u8; COMM_BYTES],
}

impl Event {
    /// The kind, or `None` for a number that is none.
    pub fn kind(&self) -> Option<EventKind> {
        [EventKind::Fork, EventKind::Exec, EventKind::Exit, EventKind::Free, EventKind::Seen]
            .into_iter()
            .find(|kind| *kind as u32 == self.kind)
    }
}
