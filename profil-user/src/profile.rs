//! A profile in memory: what `record` gathers and writes, and what the views read.
//!
//! A profile is flat: each [`Row`] says how many ticks one process spent at one [`Location`].
//! Addresses of file-backed code are SVMA (link-time addresses), so that the rows of two processes with different
//! load biases fall together and the profile means the same on another machine.

use std::time::{Duration, SystemTime};

use crate::build_id::BuildId;
use crate::tally::Tally;

/// What a [`Mapping`] is a mapping of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MappingKind {
    /// Code of an ELF file; addresses are SVMA.
    File,
    /// The kernel and its modules; addresses are the kernel's own (AVMA).
    Kernel,
    /// The vDSO; addresses are SVMA of its ELF image.
    Vdso,
    /// Memory that no file stands behind, such as a JIT's code; addresses are AVMA.
    Anonymous,
}

impl MappingKind {
    /// What an object is by its name, as profil and perf write names, and by an address in it.
    pub fn of_object(object: &str, address: u64) -> MappingKind {
        match object {
            "[vdso]" => MappingKind::Vdso,
            _ if object.starts_with("[kernel") || object.starts_with('[') && address >= KERNEL_HALF => {
                MappingKind::Kernel
            }
            "" | "//anon" => MappingKind::Anonymous,
            _ if object.starts_with('[') => MappingKind::Anonymous,
            _ => MappingKind::File,
        }
    }
}

/// First address of the kernel's half of the address space.
const KERNEL_HALF: u64 = 1 << 63;

/// An executable segment of an object (file, kernel, vDSO), or the anonymous code of one process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Mapping {
    /// What stands behind it.
    pub kind: MappingKind,
    /// Path of the object as the target sees it (non-UTF-8 bytes replaced), `[kernel]`, `[vdso]` or `[anon]`.
    pub object: String,
    /// Build ID of the object, where it has one.
    pub build_id: Option<BuildId>,
    /// First address.
    pub start: u64,
    /// First address past the end.
    pub limit: u64,
    /// Byte of the file that `start` stands for; 0 where no file stands behind it.
    pub file_offset: u64,
    /// The file found at the path is another build than the one that ran: its names were not used.
    pub stale: bool,
}

impl Mapping {
    /// A mapping of the kernel or of a module, which is all that is known of it.
    pub fn kernel(object: &str) -> Mapping {
        Mapping { start: KERNEL_HALF, ..Mapping::whole(MappingKind::Kernel, object) }
    }

    /// A mapping of an object at unknown addresses, which is all that is known of it.
    pub fn whole(kind: MappingKind, object: &str) -> Mapping {
        let object = object.to_owned();
        Mapping { kind, object, build_id: None, start: 0, limit: u64::MAX, file_offset: 0, stale: false }
    }
}

/// A function at a location: the innermost inlined one first, the function that contains them last.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Frame {
    /// Demangled name.
    pub function: String,
    /// Name as the symbol table has it, where it differs from `function`.
    pub system_name: Option<String>,
    /// Source file, where debug information has it.
    pub file: Option<String>,
    /// Source line, from 1; 0 when unknown.
    pub line: u32,
}

/// A place in the code.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Location {
    /// Index of the mapping in [`Profile::mappings`]; `None` when the pc belongs to no known mapping.
    pub mapping: Option<usize>,
    /// Address: SVMA or AVMA by the mapping's kind; AVMA without a mapping; 0 when the file does not say.
    pub address: u64,
    /// Functions at the address, innermost first; empty when no symbol is known.
    pub frames: Vec<Frame>,
}

/// A program image that ran: one process between two execs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ProcessInfo {
    /// Process ID as the user sees it; 0 when it is not known, and for idle time.
    pub pid: u32,
    /// Which image of this PID, from 1: a PID that ran exec, or was used again, has several.
    pub generation: u32,
    /// Command name.
    pub comm: String,
    /// Service that it belongs to by its control group: systemd unit, container or pod; `None` when it is in none.
    pub service: Option<String>,
}

/// The mode that a tick was taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Mode {
    /// In user space.
    User,
    /// In the kernel, on behalf of the process.
    Kernel,
}

/// Ticks of one process (and thread, and mode) at one location.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Row {
    /// Index in [`Profile::locations`].
    pub location: usize,
    /// Index in [`Profile::processes`]; `None` when the profile does not say (other tools' files).
    pub process: Option<usize>,
    /// Thread ID, when threads were told apart.
    pub tid: Option<u32>,
    /// Mode of the ticks.
    pub mode: Mode,
    /// Ticks.
    pub ticks: u64,
}

/// What one run recorded, or what a file holds.
#[derive(Clone, Debug)]
pub struct Profile {
    /// Ticks by outcome, and how many there should have been.
    pub tally: Tally,
    /// CPU time that one tick stands for.
    pub period: Duration,
    /// Name of the clock, such as `cpu-clock` or `task-clock`.
    pub clock: String,
    /// When recording began.
    pub start: SystemTime,
    /// How long recording went on (wall time).
    pub duration: Duration,
    /// Command line or targets as the user gave them.
    pub title: String,
    /// Code that ran.
    pub mappings: Vec<Mapping>,
    /// Places in it.
    pub locations: Vec<Location>,
    /// Program images that ran.
    pub processes: Vec<ProcessInfo>,
    /// Ticks; the sum over the rows is what the tally has as `stray` and `binned`.
    pub rows: Vec<Row>,
}
