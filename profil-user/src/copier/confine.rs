//! What a copier gives up before it serves anybody.

use std::io;

use rustix::process::{
    DumpableBehavior, Gid, Pid, Resource, Rlimit, Signal, Uid, getppid, getrlimit, set_dumpable_behavior,
    set_parent_process_death_signal, setrlimit,
};
use rustix::thread::{
    CapabilitySet, CapabilitySets, set_capabilities, set_no_new_privs, set_thread_groups, set_thread_res_gid,
    set_thread_res_uid,
};

/// `nogroup`, a group without files.
const NOBODY: u32 = 65534;

/// Gives up all privileges of this process, which must have one thread, and ties its life to that of its parent.
///
/// Root becomes the user whom it serves, and not a user that all copiers have in common: whoever runs under the same
/// uid may kill and stop it, and no others shall. That user cannot look into it, as it is not dumpable.
///
/// Descriptors that are open keep their rights: what `/proc/PID/mem` and its like allow was decided when they were
/// opened.
///
/// # Errors
/// What the system refused; `ECHILD` when the parent is gone.
pub fn confine(uid: u32, parent: u32) -> io::Result<()> {
    // SAFETY: the descriptors from 3 on were inherited by mistake, by whoever started the service; no object of this
    // process owns one, as its main function has only parsed arguments so far.
    let closed = unsafe { libc::syscall(libc::SYS_close_range, 3u32, u32::MAX, 0u32) };
    if closed != 0 {
        return Err(io::Error::last_os_error());
    }
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })?;
    if rustix::process::geteuid().is_root() {
        let group = Gid::from_raw(NOBODY);
        let user = Uid::from_raw(uid);
        set_thread_groups(&[])?;
        set_thread_res_gid(group, group, group)?;
        set_thread_res_uid(user, user, user)?;
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
