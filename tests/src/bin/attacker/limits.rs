//! More than there may be.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use profil_common::limits::MAX_BINS;
use profil_common::wire::{Area, Call, call_flags};

use crate::connection::{CALL, CLOSED, Connection, OFF, area, ask, errno_of, message};
use crate::{fork, hold, tell};

/// Buffers that no process may have.
pub fn too_large(path: &Path) -> io::Result<()> {
    let of = |bytes| Area { bytes, ..area(&[]) };
    tell("one_bin_more", errno_of(path, CALL, &[of(u64::from(MAX_BINS) * 2 + 2)]));
    tell("all_memory", errno_of(path, CALL, &[of(u64::MAX)]));
    let sprofil = Call { kind: 2, ..CALL };
    tell("many_areas", errno_of(path, sprofil, &[of(u64::from(MAX_BINS)); 3]));
    tell("many_regions", errno_of(path, sprofil, &regions(65)));
    Ok(())
}

fn regions(count: u64) -> Vec<Area> {
    (1..=count).map(|n| Area { buffer: 0, bytes: 8, offset: n << 12, scale: 65_536 }).collect()
}

/// Takes the largest lanes again and again, and keeps every one of them, in one process after another until one gets
/// none; then tells how many each got, and holds them.
pub fn hold_lanes(path: &Path, processes: &str) -> io::Result<()> {
    in_processes(processes, |_| {
        // The buffer of such a call need not be there: the caller lays the lanes over it.
        let (held, errno) = take_lanes(path, Area { buffer: 1 << 30, bytes: u64::from(MAX_BINS) * 2, ..OVER_TEXT });
        tell("held", held.len() as i64);
        tell("errno", errno);
        held
    })
}

/// Takes lanes of one page again and again, and keeps every one of them, until it gets none; then tells how many it got
/// and what the next call came to, and holds them.
pub fn hold_small_lanes(path: &Path) -> io::Result<()> {
    in_processes("1", |_| {
        let buffer = crate::buffers::page()?;
        let (held, errno) = take_lanes(path, Area { buffer, bytes: 4096, ..OVER_TEXT });
        tell("held", held.len() as i64);
        tell("errno", errno);
        Ok::<_, io::Error>(held)
    })
}

/// Some text.
const OVER_TEXT: Area = Area { buffer: 0, bytes: 0, offset: 1 << 22, scale: 65_536 };

/// Takes lanes until there are none, and returns them with the errno of the call that brought none.
fn take_lanes(path: &Path, area: Area) -> (Vec<OwnedFd>, i32) {
    let call = Call { flags: call_flags::ZERO_COPY, ..CALL };
    let mut held = Vec::new();
    loop {
        match ask(path, call, &[area]) {
            Some((reply, Some(lanes))) if reply.errno == 0 => held.push(lanes),
            Some((reply, _)) => return (held, reply.errno as i32),
            None => return (held, CLOSED),
        }
    }
}

/// Runs something in so many processes, one after the other, which keep what it returns until the attack ends.
fn in_processes<T>(count: &str, run: impl Fn(u32) -> T) -> io::Result<()> {
    let count: u32 = count.parse().map_err(io::Error::other)?;
    for number in 1..=count {
        let (told, tell_us) = io::pipe()?;
        fork::child(|| {
            let _kept = run(number);
            drop(tell_us);
            // Until the parent is killed or lets us go.
            loop {
                std::thread::park();
            }
        })?;
        let _end = io::Read::read(&mut &told, &mut [0]);
    }
    hold();
    // SAFETY: takes plain numbers; the signal goes to our process group, which is our own.
    unsafe { libc::kill(0, libc::SIGKILL) };
    Ok(())
}

/// As many profiled processes as asked for, and how each of the last four fares.
pub fn clients(path: &Path, count: &str) -> io::Result<()> {
    let last: u32 = count.parse().map_err(io::Error::other)?;
    in_processes(count, |number| {
        let buffer = vec![0u16; 64];
        let errno = errno_of(path, CALL, &[area(&buffer)]);
        if number + 4 > last {
            tell("errno", errno);
        }
        buffer
    })
}

/// As many open connections as asked for, and how many of them were greeted.
pub fn connections(path: &Path, count: &str) -> io::Result<()> {
    let count: usize = count.parse().map_err(io::Error::other)?;
    let connections = (0..count).map(|_| Connection::open(path)).collect::<io::Result<Vec<_>>>()?;
    let greeted: Vec<_> = connections.iter().filter_map(|it| Some((it, it.hello().ok()?.nonce))).collect();
    tell("greeted", greeted.len() as i64);
    if let Some((connection, nonce)) = greeted.first() {
        connection.send(&message(Call { nonce: *nonce, ..CALL }, &[OFF]))?;
        tell("errno", connection.errno());
    }
    hold();
    Ok(())
}
