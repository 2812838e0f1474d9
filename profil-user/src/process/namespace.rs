//! PID namespaces: the eBPF programs number processes as the initial namespace does, people as their own.
//!
//! Inside a container nothing in /proc shows the outer number. The kernel's task iterator does: it takes the number (or
//! pidfd) that is valid here, and a program that it runs reads `task->tgid`, the number that is valid everywhere.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::BorrowedFd;

use super::ProcDir;
use crate::probe::bpf::{self, Instruction, ProgramKind, TaskFilter};
use crate::probe::btf::{self, Btf, BtfError};

/// Inode number of the initial PID namespace, `PROC_PID_INIT_INO` of include/linux/proc_ns.h.
pub const INITIAL_PID_NAMESPACE: u64 = 0xefff_fffc;
/// Inode number of the initial user namespace, `PROC_USER_INIT_INO` of include/linux/proc_ns.h.
pub const INITIAL_USER_NAMESPACE: u64 = 0xefff_fffd;

/// Why a number of this PID namespace cannot be carried over to the initial one.
#[derive(Debug, thiserror::Error)]
pub enum NamespaceError {
    /// The kernel's type information is needed and missing.
    #[error("cannot translate a process id from this PID namespace: {FIX}")]
    Btf(
        /// What is missing.
        #[source]
        BtfError,
    ),
    /// The kernel does not let us iterate over tasks.
    #[error("cannot translate a process id from this PID namespace: {operation} failed; {FIX}")]
    Iterator {
        /// What was tried.
        operation: &'static str,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The iterator came upon nobody.
    #[error("cannot translate a process id from this PID namespace: the process is gone")]
    Gone,
}

/// /proc numbers processes otherwise than this process's PID namespace: it shows other processes than those that are
/// named.
#[derive(Debug, thiserror::Error)]
#[error("cannot tell processes by their numbers: {}; {PROC_FIX}", self.found())]
pub struct ForeignProc {
    /// Our number in our PID namespace.
    pub own: u32,
    /// Our number in /proc; `None` when it does not show us.
    pub shown: Option<u32>,
}

/// What the user can do when /proc is that of another PID namespace.
pub(crate) const PROC_FIX: &str =
    "`mount -t proc proc /proc` in a mount namespace of its own, as `unshare --pid --fork --mount-proc` does";

impl ForeignProc {
    /// What was found.
    pub(crate) fn found(&self) -> String {
        let ForeignProc { own, shown } = self;
        match shown {
            Some(shown) => {
                format!("profil is process {own}, and /proc, which is of another PID namespace, says {shown}")
            }
            None => format!("profil is process {own}, and /proc, which is of another PID namespace, does not show it"),
        }
    }
}

/// Sees whether /proc numbers processes as our PID namespace does. A /proc that is not mounted at all passes: whoever
/// reads it says so.
///
/// # Errors
/// [`ForeignProc`], as after `unshare --pid --fork` without `--mount-proc`.
pub fn check_proc() -> Result<(), ForeignProc> {
    let own = std::process::id();
    match std::fs::read_link("/proc/self") {
        Ok(link) => check_link(own, link.to_str()),
        // Mounted, but in a namespace that we are not in: the link is there, and leads nowhere.
        Err(_) if std::fs::symlink_metadata("/proc/self").is_ok() => Err(ForeignProc { own, shown: None }),
        Err(_) => Ok(()),
    }
}

fn check_link(own: u32, link: Option<&str>) -> Result<(), ForeignProc> {
    let shown = link.and_then(|link| link.parse().ok());
    if shown == Some(own) { Ok(()) } else { Err(ForeignProc { own, shown }) }
}

/// What the user can do when the translation fails.
pub(crate) const FIX: &str = "it takes Linux 6.1, BTF and CAP_BPF; run profil in the host's PID namespace \
                   (docker run --pid=host, Kubernetes hostPID: true)";

/// A task, as the initial PID namespace numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InitialIds {
    /// Its process.
    pub tgid: u32,
    /// The thread.
    pub tid: u32,
}

/// Whether this process is in the initial PID namespace, whose numbers the eBPF programs use.
///
/// # Errors
/// When /proc is not mounted.
pub fn is_initial() -> io::Result<bool> {
    Ok(ProcDir::own()?.namespace("pid")? == INITIAL_PID_NAMESPACE)
}

/// Inode number of our PID namespace, by which eBPF programs find our numbers; 0 when it is the initial one.
pub fn own_number_if_nested() -> u32 {
    let number = ProcDir::own().and_then(|directory| directory.namespace("pid"));
    match number {
        Ok(INITIAL_PID_NAMESPACE) | Err(_) => 0,
        Ok(number) => number as u32,
    }
}

/// Id in the initial PID namespace of a thread, by its number in ours.
///
/// # Errors
/// As [`translate_process`]; none in the initial namespace.
pub fn initial_tid(tid: u32) -> Result<u32, NamespaceError> {
    if own_number_if_nested() == 0 { Ok(tid) } else { translate_thread(tid).map(|ids| ids.tid) }
}

/// Ids in the initial PID namespace of the process behind a pidfd.
///
/// # Errors
/// [`NamespaceError`] says what it takes.
///
/// # Minimum kernel
/// 6.1
pub fn translate_process(pidfd: BorrowedFd<'_>) -> Result<InitialIds, NamespaceError> {
    first_task(TaskFilter::Process(pidfd))
}

/// Ids in the initial PID namespace of a thread, by its number in this one.
///
/// # Errors
/// As [`translate_process`].
///
/// # Minimum kernel
/// 6.1
pub fn translate_thread(tid: u32) -> Result<InitialIds, NamespaceError> {
    first_task(TaskFilter::Thread(tid))
}

fn first_task(filter: TaskFilter<'_>) -> Result<InitialIds, NamespaceError> {
    let btf = Btf::from_kernel().map_err(NamespaceError::Btf)?;
    let fields = btf::fields_of(&btf).map_err(NamespaceError::Btf)?;
    let failed = |operation| move |source| NamespaceError::Iterator { operation, source };
    let unsupported = || io::Error::from(io::ErrorKind::Unsupported);
    let target = btf.function_id("bpf_iter_task").ok_or_else(|| failed("looking up bpf_iter_task")(unsupported()))?;
    let narrow = |offset: u32| i16::try_from(offset).map_err(|_| failed("reading task_struct")(unsupported()));
    /// `bpf_seq_write`.
    const SEQ_WRITE: i32 = 127;
    // The context is struct bpf_iter__task { struct bpf_iter_meta *meta; struct task_struct *task; }, and the first
    // member of the meta data is the file to write to. The task is NULL in the last call.
    let program = [
        Instruction::load(6, 1, 8),
        Instruction::skip_if_zero(6, 10),
        Instruction::load(7, 1, 0),
        Instruction::load_word(2, 6, narrow(fields.task_tgid)?),
        Instruction::store_word(10, 2, -8),
        Instruction::load_word(2, 6, narrow(fields.task_pid)?),
        Instruction::store_word(10, 2, -4),
        Instruction::load(1, 7, 0),
        Instruction::copy(2, 10),
        Instruction::add(2, -8),
        Instruction::set(3, 8),
        Instruction::call(SEQ_WRITE),
        Instruction::set(0, 0),
        Instruction::exit(),
    ];
    let program = bpf::load_program(ProgramKind::Tracing, &program, target)
        .map_err(|failure| failed("loading the task iterator")(failure.error))?;
    let tasks =
        bpf::iterate_tasks(std::os::fd::AsFd::as_fd(&program), filter).map_err(failed("opening the task iterator"))?;
    let mut record = [0u8; 8];
    match File::from(tasks).read_exact(&mut record) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Err(NamespaceError::Gone),
        Err(error) => return Err(failed("reading the task iterator")(error)),
    }
    let [a, b, c, d, e, f, g, h] = record;
    Ok(InitialIds { tgid: u32::from_ne_bytes([a, b, c, d]), tid: u32::from_ne_bytes([e, f, g, h]) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proc_of_another_namespace_is_found_out_by_our_own_number_in_it() {
        assert!(check_link(7, Some("7")).is_ok());
        let error = check_link(1, Some("4242")).expect_err("another number").to_string();
        assert!(error.contains("profil is process 1") && error.contains("says 4242"), "{error}");
        assert!(check_link(1, None).is_err());
    }

    #[test]
    fn the_proc_of_this_machine_is_ours() {
        check_proc().expect("the tests run where /proc is that of their PID namespace");
    }
}
