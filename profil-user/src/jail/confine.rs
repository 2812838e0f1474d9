//! What a process gives up before it serves anybody.

use std::io;

use rustix::process::{
    DumpableBehavior, Gid, Pid, Resource, Rlimit, Signal, Uid, getppid, getrlimit, set_dumpable_behavior,
    set_parent_process_death_signal, setrlimit,
};
use rustix::thread::{
    CapabilitySet, CapabilitySets, set_capabilities, set_no_new_privs, set_thread_groups, set_thread_res_gid,
    set_thread_res_uid,
};

/// `nobody`, a user without files, and `nogroup`.
const NOBODY: u32 = 65534;

/// Whom a process becomes when it is root's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Become {
    /// The user whom it serves, and not one that all such processes have in common: whoever runs under the same uid may
    /// kill and stop it, and no others shall.
    User(u32),
    /// Nobody, with no file system: it serves no user. Where there is no such user, as in a user namespace with one user,
    /// it stays who it is, as what its root may do ends with its capabilities.
    Nobody,
}

/// Gives up all privileges of this process, which must have one thread, and ties its life to that of its parent.
///
/// No other user can look into it, as it is not dumpable.
///
/// Descriptors that are open keep their rights: what `/proc/PID/mem` and its like allow was decided when they were
/// opened.
///
/// # Errors
/// What the system refused; `ECHILD` when the parent is gone.
pub fn confine(whom: Become, parent: u32) -> io::Result<()> {
    // SAFETY: the descriptors from 3 on were inherited by mistake, by whoever started the service; no object of this
    // process owns one, as its main function has only parsed arguments so far.
    let closed = unsafe { libc::syscall(libc::SYS_close_range, 3u32, u32::MAX, 0u32) };
    if closed != 0 {
        return Err(io::Error::last_os_error());
    }
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })?;
    if rustix::process::geteuid().is_root() {
        match whom {
            Become::User(user) => change_user(user)?,
            Become::Nobody => {
                // A directory with nothing in it that opens.
                let _root = rustix::process::chroot("/proc/self/fdinfo").and_then(|()| rustix::process::chdir("/"));
                match change_user(NOBODY) {
                    Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EPERM)) => {}
                    changed => changed?,
                }
            }
        }
    }
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?;
    set_no_new_privs(true)?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    // After the change of user, which clears it.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    if getppid().map(Pid::as_raw_pid) != i32::try_from(parent).ok() {
        return Err(io::Error::from_raw_os_error(libc::ECHILD));
    }
    Ok(())
}

fn change_user(user: u32) -> io::Result<()> {
    let (group, user) = (Gid::from_raw(NOBODY), Uid::from_raw(user));
    set_thread_groups(&[])?;
    set_thread_res_gid(group, group, group)?;
    set_thread_res_uid(user, user, user)?;
    Ok(())
}
