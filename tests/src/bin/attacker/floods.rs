//! As much of one thing as can be done, until standard input ends.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use profil_common::wire::Call;

use crate::connection::{CALL, Connection, OFF, area, errno_of, message};
use crate::{fork, hold, tell};

/// Threads of a flood.
const THREADS: u32 = 4;

/// How often the flood has come.
static ROUNDS: AtomicU64 = AtomicU64::new(0);

/// The flood with a name.
pub fn flood(path: &Path, name: &str) -> io::Result<()> {
    let round = match name {
        "connections" => connect,
        "greedy-connections" => connect_many,
        "calls" => call,
        "sizes" => sizes,
        "clients" => clients,
        "malformed" => malformed,
        "forks" => forks,
        "copiers" => kill_copiers,
        other => return Err(io::Error::other(format!("no flood {other}"))),
    };
    let buffer = vec![0u16; 4096];
    if name == "forks" {
        tell("on", errno_of(path, CALL, &[area(&buffer)]));
    }
    if name == "copiers" {
        burn_in_clients(path)?;
    }
    for number in 0..THREADS {
        let path = PathBuf::from(path);
        std::thread::spawn(move || {
            for turn in 0.. {
                // What is refused or closed is what the flood is for.
                let _refused = round(&path, number, turn);
                ROUNDS.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    hold();
    tell("rounds", ROUNDS.load(Ordering::Relaxed) as i64);
    if name == "copiers" {
        // SAFETY: takes plain numbers; the signal goes to our process group, which is our own.
        unsafe { libc::kill(0, libc::SIGKILL) };
    }
    Ok(())
}

fn connect(path: &Path, _: u32, _: u32) -> io::Result<()> {
    Connection::open(path).map(drop)
}

fn connect_many(path: &Path, _: u32, _: u32) -> io::Result<()> {
    let connections: Vec<_> = (0..100).map(|_| Connection::open(path)).collect();
    std::thread::sleep(std::time::Duration::from_millis(20));
    drop(connections);
    Ok(())
}

fn call(path: &Path, _: u32, _: u32) -> io::Result<()> {
    let buffer = vec![0u16; 1024];
    errno_of(path, CALL, &[area(&buffer)]);
    errno_of(path, CALL, &[OFF]);
    Ok(())
}

/// Sizes that nobody had before, from a few bytes to the largest.
fn sizes(path: &Path, number: u32, turn: u32) -> io::Result<()> {
    let buffer = vec![0u16; 256 << ((turn + 3 * number) % 14)];
    errno_of(path, CALL, &[area(&buffer)]);
    if turn % 3 == 2 {
        errno_of(path, CALL, &[OFF]);
    }
    Ok(())
}

/// Processes that turn profiling on, and end.
fn clients(path: &Path, number: u32, turn: u32) -> io::Result<()> {
    // SAFETY: the child makes system calls and a few allocations, which glibc's fork allows, and ends.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            let _done = sizes(path, number, turn);
            // SAFETY: ends the process without running what belongs to the parent.
            unsafe { libc::_exit(0) }
        }
        pid => {
            fork::wait(pid);
            Ok(())
        }
    }
}

fn malformed(path: &Path, _: u32, turn: u32) -> io::Result<()> {
    let connection = Connection::open(path)?;
    let nonce = connection.hello()?.nonce;
    connection.send(&message(Call { nonce: nonce ^ u64::from(turn), ..CALL }, &[]))?;
    connection.errno();
    Ok(())
}

/// A process that is profiled, forks, and ends its children.
fn forks(_: &Path, _: u32, _: u32) -> io::Result<()> {
    // SAFETY: the child only ends.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        // SAFETY: ends the process without running what belongs to the parent.
        0 => unsafe { libc::_exit(0) },
        pid => {
            fork::wait(pid);
            Ok(())
        }
    }
}

/// Processes that are profiled and have something to be written all the time.
fn burn_in_clients(path: &Path) -> io::Result<()> {
    for _ in 0..16 {
        fork::child(|| {
            let buffer = vec![0u16; 1 << 16];
            errno_of(path, CALL, &[area(&buffer)]);
            loop {
                std::hint::black_box(0);
            }
        })?;
    }
    Ok(())
}

/// Ends the copiers of our own user, who may do that.
fn kill_copiers(_: &Path, _: u32, _: u32) -> io::Result<()> {
    // Those of others stay.
    copiers()?.for_each(|copier| fork::signal(copier, libc::SIGKILL));
    // Long enough for the next one to begin to write.
    std::thread::sleep(std::time::Duration::from_millis(50));
    Ok(())
}

/// All copiers.
pub fn copiers() -> io::Result<impl Iterator<Item = i32>> {
    let processes = std::fs::read_dir("/proc")?.flatten();
    Ok(processes.filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        (std::fs::read(entry.path().join("comm")).ok()? == b"profil-copier\n").then_some(pid)
    }))
}
