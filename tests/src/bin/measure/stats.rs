//! The kernel's own account of what programs cost.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use anyhow::{Context, Result};

/// Has the kernel time all programs, until it is dropped: the kernel takes it back with the descriptor, however this
/// process ends.
///
/// # Minimum kernel
/// 5.8
pub struct Stats {
    _enabled: OwnedFd,
}

impl Stats {
    /// Begins the account.
    pub fn enable() -> Result<Stats> {
        /// `enum bpf_cmd`.
        const BPF_ENABLE_STATS: libc::c_long = 32;
        // Front of `union bpf_attr`: `BPF_STATS_RUN_TIME`, which is 0.
        let kind = 0u32;
        // SAFETY: the attribute is a live word of the size that the call is told.
        let fd = unsafe { libc::syscall(libc::SYS_bpf, BPF_ENABLE_STATS, &raw const kind, size_of::<u32>()) };
        if fd < 0 {
            return Err(io::Error::last_os_error()).context("cannot have the kernel time its programs");
        }
        // SAFETY: the kernel has just made this descriptor for us.
        Ok(Stats { _enabled: unsafe { OwnedFd::from_raw_fd(fd as i32) } })
    }
}

/// What the kernel has counted of a program so far.
#[derive(Clone, Copy, Debug)]
pub struct Account {
    /// Time in the program, ns.
    pub time_ns: u64,
    /// Runs of it.
    pub runs: u64,
}

impl Account {
    /// The account of a program that this process has open.
    pub fn of(program: BorrowedFd<'_>) -> Result<Account> {
        let text = fs::read_to_string(format!("/proc/self/fdinfo/{}", program.as_raw_fd()))?;
        let field = |name: &str| -> Result<u64> {
            let value = text.lines().find_map(|line| line.strip_prefix(name));
            Ok(value.with_context(|| format!("no {name} in the kernel's account"))?.trim().parse()?)
        };
        Ok(Account { time_ns: field("run_time_ns:")?, runs: field("run_cnt:")? })
    }
}
