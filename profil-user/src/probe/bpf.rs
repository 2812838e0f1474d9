//! The bpf(2) system call, as far as probes need it: tiny maps and programs, made to see whether the kernel takes them.
//!
//! Not by aya: its loader hides the error that tells "the kernel has no such thing" from "you may not".

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Commands of bpf(2), `enum bpf_cmd`.
mod command {
    pub const MAP_CREATE: i32 = 0;
    pub const MAP_UPDATE_ELEM: i32 = 2;
    pub const PROG_LOAD: i32 = 5;
    pub const RAW_TRACEPOINT_OPEN: i32 = 17;
    pub const LINK_CREATE: i32 = 28;
    pub const ITER_CREATE: i32 = 33;
}

/// Kinds of map, `enum bpf_map_type`.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapKind {
    /// A hash of keys.
    Hash = 1,
    /// An array of values.
    Array = 2,
    /// An array of maps.
    ArrayOfMaps = 12,
    /// A ring of records (5.8).
    RingBuf = 27,
}

/// Kinds of program, `enum bpf_prog_type`.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramKind {
    /// Runs for each packet of a socket.
    SocketFilter = 1,
    /// Runs when a perf event overflows.
    PerfEvent = 7,
    /// Runs at a raw tracepoint.
    RawTracepoint = 17,
    /// Runs at a kernel function or iterator known by its BTF.
    Tracing = 26,
}

/// `BPF_F_MMAPABLE` (5.5).
pub const MMAPABLE: u32 = 1 << 10;
/// `BPF_F_INNER_MAP`: arrays in an array of maps may differ in size (5.10).
pub const INNER_MAP: u32 = 1 << 12;
/// `expected_attach_type` of an iterator, `BPF_TRACE_ITER`.
pub const TRACE_ITER: u32 = 28;

/// One instruction, `struct bpf_insn`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    code: u8,
    registers: u8,
    offset: i16,
    immediate: i32,
}

impl Instruction {
    /// An instruction from its code, destination and source register, offset and immediate value.
    pub const fn new(code: u8, destination: u8, source: u8, offset: i16, immediate: i32) -> Instruction {
        // Bit fields of C: the first one, the destination, is the low half on little-endian machines only.
        let registers =
            if cfg!(target_endian = "little") { source << 4 | destination } else { destination << 4 | source };
        Instruction { code, registers, offset, immediate }
    }

    /// `r<destination> = value`.
    pub const fn set(destination: u8, value: i32) -> Instruction {
        Instruction::new(0xb7, destination, 0, 0, value)
    }

    /// `r<destination> = r<source>`.
    pub const fn copy(destination: u8, source: u8) -> Instruction {
        Instruction::new(0xbf, destination, source, 0, 0)
    }

    /// `r<destination> += value`.
    pub const fn add(destination: u8, value: i32) -> Instruction {
        Instruction::new(0x07, destination, 0, 0, value)
    }

    /// `r<destination> = *(u64 *)(r<source> + offset)`.
    pub const fn load(destination: u8, source: u8, offset: i16) -> Instruction {
        Instruction::new(0x79, destination, source, offset, 0)
    }

    /// `r<destination> = *(u32 *)(r<source> + offset)`.
    pub const fn load_word(destination: u8, source: u8, offset: i16) -> Instruction {
        Instruction::new(0x61, destination, source, offset, 0)
    }

    /// `*(u64 *)(r<destination> + offset) = r<source>`.
    pub const fn store(destination: u8, source: u8, offset: i16) -> Instruction {
        Instruction::new(0x7b, destination, source, offset, 0)
    }

    /// `*(u32 *)(r<destination> + offset) = r<source>`.
    pub const fn store_word(destination: u8, source: u8, offset: i16) -> Instruction {
        Instruction::new(0x63, destination, source, offset, 0)
    }

    /// Skips `count` instructions when `r<register>` is 0.
    pub const fn skip_if_zero(register: u8, count: i16) -> Instruction {
        Instruction::new(0x15, register, 0, count, 0)
    }

    /// Calls a helper by its number in `enum bpf_func_id`.
    pub const fn call(helper: i32) -> Instruction {
        Instruction::new(0x85, 0, 0, 0, helper)
    }

    /// Returns r0.
    pub const fn exit() -> Instruction {
        Instruction::new(0x95, 0, 0, 0, 0)
    }
}

/// What a map is to be.
#[derive(Clone, Copy, Debug)]
pub struct MapSpec<'a> {
    /// Its kind.
    pub kind: MapKind,
    /// Bytes of a key.
    pub key_bytes: u32,
    /// Bytes of a value.
    pub value_bytes: u32,
    /// Entries, or bytes of a ring.
    pub entries: u32,
    /// `BPF_F_*`.
    pub flags: u32,
    /// The map whose shape inner maps have.
    pub inner: Option<BorrowedFd<'a>>,
}

/// Why a program was not loaded.
#[derive(Debug)]
pub struct LoadFailure {
    /// What bpf(2) said.
    pub error: io::Error,
    /// What the verifier said; empty when it was not reached.
    pub log: String,
}

/// Creates a map.
///
/// # Errors
/// As bpf(2).
pub fn create_map(spec: &MapSpec<'_>) -> io::Result<OwnedFd> {
    /// Front of `union bpf_attr` for BPF_MAP_CREATE.
    #[repr(C)]
    struct Attributes {
        map_type: u32,
        key_size: u32,
        value_size: u32,
        max_entries: u32,
        map_flags: u32,
        inner_map_fd: u32,
    }
    let mut attributes = Attributes {
        map_type: spec.kind as u32,
        key_size: spec.key_bytes,
        value_size: spec.value_bytes,
        max_entries: spec.entries,
        map_flags: spec.flags,
        inner_map_fd: spec.inner.map_or(0, |fd| fd.as_raw_fd() as u32),
    };
    // SAFETY: the attributes hold no pointers.
    unsafe { bpf_fd(command::MAP_CREATE, &mut attributes) }
}

/// Puts a map into an array of maps.
///
/// # Errors
/// As bpf(2).
pub fn put_map(outer: BorrowedFd<'_>, index: u32, inner: BorrowedFd<'_>) -> io::Result<()> {
    /// Front of `union bpf_attr` for BPF_MAP_UPDATE_ELEM.
    #[repr(C)]
    struct Attributes {
        map_fd: u32,
        padding: u32,
        key: u64,
        value: u64,
        flags: u64,
    }
    let value = inner.as_raw_fd() as u32;
    let mut attributes = Attributes {
        map_fd: outer.as_raw_fd() as u32,
        padding: 0,
        key: (&raw const index).addr() as u64,
        value: (&raw const value).addr() as u64,
        flags: 0,
    };
    // SAFETY: key and value point to 4 bytes each, which live until the call returns.
    unsafe { bpf(command::MAP_UPDATE_ELEM, &mut attributes) }.map(drop)
}

/// Loads a program; `btf_id` is the kernel type that a [`ProgramKind::Tracing`] program attaches to, and 0 for others.
///
/// # Errors
/// [`LoadFailure`], with the verifier's log.
pub fn load_program(kind: ProgramKind, instructions: &[Instruction], btf_id: u32) -> Result<OwnedFd, LoadFailure> {
    /// Front of `union bpf_attr` for BPF_PROG_LOAD.
    #[repr(C)]
    struct Attributes {
        prog_type: u32,
        insn_cnt: u32,
        insns: u64,
        license: u64,
        log_level: u32,
        log_size: u32,
        log_buf: u64,
        kern_version: u32,
        prog_flags: u32,
        prog_name: [u8; 16],
        prog_ifindex: u32,
        expected_attach_type: u32,
        prog_btf_fd: u32,
        func_info_rec_size: u32,
        func_info: u64,
        func_info_cnt: u32,
        line_info_rec_size: u32,
        line_info: u64,
        line_info_cnt: u32,
        attach_btf_id: u32,
    }
    let mut log = vec![0u8; 8192];
    let mut attributes = Attributes {
        prog_type: kind as u32,
        insn_cnt: instructions.len() as u32,
        insns: instructions.as_ptr().addr() as u64,
        license: c"GPL".as_ptr().addr() as u64,
        log_level: 1,
        log_size: log.len() as u32,
        log_buf: log.as_mut_ptr().expose_provenance() as u64,
        kern_version: 0,
        prog_flags: 0,
        prog_name: *b"profil_probe\0\0\0\0",
        prog_ifindex: 0,
        expected_attach_type: if kind == ProgramKind::Tracing { TRACE_ITER } else { 0 },
        prog_btf_fd: 0,
        func_info_rec_size: 0,
        func_info: 0,
        func_info_cnt: 0,
        line_info_rec_size: 0,
        line_info: 0,
        line_info_cnt: 0,
        attach_btf_id: btf_id,
    };
    // SAFETY: instructions and license outlive the call and have the lengths stated; the kernel writes at most log_size
    // bytes to the log, which is ours alone.
    let loaded = unsafe { bpf_fd(command::PROG_LOAD, &mut attributes) };
    loaded.map_err(|error| {
        let text = CStr::from_bytes_until_nul(&log).map(CStr::to_bytes).unwrap_or(&log);
        LoadFailure { error, log: String::from_utf8_lossy(text).into_owned() }
    })
}

/// Attaches a program to a raw tracepoint, until the result is dropped.
///
/// # Errors
/// As bpf(2); ENOENT when there is no such tracepoint.
pub fn attach_raw_tracepoint(name: &CStr, program: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    /// Front of `union bpf_attr` for BPF_RAW_TRACEPOINT_OPEN.
    #[repr(C)]
    struct Attributes {
        name: u64,
        prog_fd: u32,
        padding: u32,
    }
    let mut attributes =
        Attributes { name: name.as_ptr().addr() as u64, prog_fd: program.as_raw_fd() as u32, padding: 0 };
    // SAFETY: the name is NUL-terminated and outlives the call.
    unsafe { bpf_fd(command::RAW_TRACEPOINT_OPEN, &mut attributes) }
}

/// Which tasks an iterator visits.
#[derive(Clone, Copy, Debug)]
pub enum TaskFilter<'a> {
    /// The threads of the process behind a pidfd.
    Process(BorrowedFd<'a>),
    /// One thread, by its number in the caller's PID namespace.
    Thread(u32),
}

/// Opens an iterator over tasks: reading it runs the program for each.
///
/// # Errors
/// As bpf(2); EINVAL or E2BIG where the kernel cannot restrict the iterator.
///
/// # Minimum kernel
/// 6.1
pub fn iterate_tasks(program: BorrowedFd<'_>, filter: TaskFilter<'_>) -> io::Result<OwnedFd> {
    /// `union bpf_iter_link_info`, its member `task`.
    #[repr(C)]
    struct Filter {
        tid: u32,
        pid: u32,
        pid_fd: u32,
    }
    /// Front of `union bpf_attr` for BPF_LINK_CREATE.
    #[repr(C)]
    struct Link {
        prog_fd: u32,
        target_fd: u32,
        attach_type: u32,
        flags: u32,
        iter_info: u64,
        iter_info_len: u32,
        padding: u32,
    }
    /// Front of `union bpf_attr` for BPF_ITER_CREATE.
    #[repr(C)]
    struct Iterator {
        link_fd: u32,
        flags: u32,
    }
    let filter = match filter {
        TaskFilter::Process(pidfd) => Filter { tid: 0, pid: 0, pid_fd: pidfd.as_raw_fd() as u32 },
        TaskFilter::Thread(tid) => Filter { tid, pid: 0, pid_fd: 0 },
    };
    let mut link = Link {
        prog_fd: program.as_raw_fd() as u32,
        target_fd: 0,
        attach_type: TRACE_ITER,
        flags: 0,
        iter_info: (&raw const filter).addr() as u64,
        iter_info_len: size_of::<Filter>() as u32,
        padding: 0,
    };
    // SAFETY: the filter outlives the call and has the length stated.
    let link = unsafe { bpf_fd(command::LINK_CREATE, &mut link) }?;
    let mut iterator = Iterator { link_fd: link.as_raw_fd() as u32, flags: 0 };
    // SAFETY: the attributes hold no pointers.
    unsafe { bpf_fd(command::ITER_CREATE, &mut iterator) }
}

/// Calls bpf(2) for a command that returns a file descriptor.
///
/// # Safety
/// As [`bpf`].
unsafe fn bpf_fd<A>(command: i32, attributes: &mut A) -> io::Result<OwnedFd> {
    // SAFETY: the caller upholds what `bpf` asks for.
    let fd = unsafe { bpf(command, attributes) }?;
    // SAFETY: the kernel returned a new descriptor (O_CLOEXEC), which nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Calls bpf(2).
///
/// # Safety
/// `A` is the front of `union bpf_attr` for the command, without padding; pointers in it are valid for what the command
/// reads and writes.
unsafe fn bpf<A>(command: i32, attributes: &mut A) -> io::Result<i32> {
    // SAFETY: the attributes are size_of::<A>() bytes of ours, and the caller vouches for the pointers in them.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, attributes, size_of::<A>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as i32) }
}
