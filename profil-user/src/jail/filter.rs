//! The system calls that are left to a process that takes hostile files apart.

use std::io;

use rustix::process::{Resource, Rlimit, setrlimit};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

/// Memory that it may write to.
const DATA_BYTES: u64 = 2 << 30;
/// Addresses that it may use, mapped files included.
const ADDRESS_BYTES: u64 = 64 << 30;
/// Files that it may have open.
const FILES: u64 = 16;
/// CPU time that it may use in all; each answer has a deadline of its own besides.
const CPU_SECONDS: u64 = 3600;

/// What reads files that are open, has memory, and answers. No path can be opened, nothing executed, nobody signalled,
/// and no socket made.
const ALLOWED: [i64; 27] = [
    libc::SYS_recvmsg,
    libc::SYS_sendmsg,
    libc::SYS_fstat,
    libc::SYS_pread64,
    libc::SYS_close,
    // What compressed sections unfold into; the descriptors are its own.
    libc::SYS_memfd_create,
    libc::SYS_write,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_futex,
    libc::SYS_getrandom,
    libc::SYS_clock_gettime,
    libc::SYS_sched_yield,
    libc::SYS_restart_syscall,
    libc::SYS_exit,
    libc::SYS_exit_group,
    // A fault, a panic and an abort end in these.
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_sigaltstack,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_getcwd,
    libc::SYS_writev,
    libc::SYS_sched_getaffinity,
];

/// Those that may be called as long as nothing becomes executable: their third argument says so.
const WITHOUT_CODE: [i64; 2] = [libc::SYS_mmap, libc::SYS_mprotect];

/// Limits this process, which must have one thread, to memory, time and files of its own, and to reading what it was
/// given. Whatever else it tries kills it.
///
/// # Errors
/// What the system refused, such as seccomp in a kernel without it.
pub fn limit() -> io::Result<()> {
    for (resource, most) in [
        (Resource::Data, DATA_BYTES),
        (Resource::As, ADDRESS_BYTES),
        (Resource::Nofile, FILES),
        (Resource::Cpu, CPU_SECONDS),
        (Resource::Core, 0),
        (Resource::Memlock, 0),
    ] {
        let most = rustix::process::getrlimit(resource).maximum.map_or(most, |maximum| maximum.min(most));
        setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })?;
    }
    let program = program().map_err(io::Error::other)?;
    seccompiler::apply_filter(&program).map_err(io::Error::other)
}

fn program() -> Result<BpfProgram, seccompiler::BackendError> {
    let no_code = SeccompCondition::new(2, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(libc::PROT_EXEC as u64), 0)?;
    let no_code = SeccompRule::new(vec![no_code])?;
    let free = ALLOWED.map(|call| (call, Vec::new()));
    let bound = WITHOUT_CODE.map(|call| (call, vec![no_code.clone()]));
    let rules = free.into_iter().chain(bound).collect();
    let architecture = std::env::consts::ARCH.try_into()?;
    SeccompFilter::new(rules, SeccompAction::KillProcess, SeccompAction::Allow, architecture)?.try_into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filter_compiles_for_this_machine() {
        assert!(program().expect("a filter").len() > ALLOWED.len());
    }
}
