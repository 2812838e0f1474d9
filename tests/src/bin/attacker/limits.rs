//! More than there may be.

use std::io;
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
    let processes: u32 = processes.parse().map_err(io::Error::other)?;
    let call = Call { flags: call_flags::ZERO_COPY, ..CALL };
    // The buffer of such a call need not be there: the caller lays the lanes over it.
    let area = Area { buffer: 1 << 30, bytes: u64::from(MAX_BINS) * 2, offset: 1 << 22, scale: 65_536 };
    for _ in 0..processes {
        let (told, tell_us) = io::pipe()?;
        fork::child(move || {
            let mut held = Vec::new();
            let errno = loop {
                match ask(path, call, &[area]) {
                    Some((reply, Some(lanes))) if reply.errno == 0 => held.push(lanes),
                    Some((reply, _)) => break reply.errno as i32,
                    None => break CLOSED,
                }
            };
            tell("held", held.len() as i64);
            tell("errno", errno);
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
    let count: u32 = count.parse().map_err(io::Error::other)?;
    for number in 1..=count {
        let (told, tell_us) = io::pipe()?;
        fork::child(move || {
            let buffer = [0u16; 64];
            let errno = errno_of(path, CALL, &[area(&buffer)]);
            if number + 4 > count {
                tell("errno", errno);
            }
            drop(tell_us);
            loop {
                std::thread::park();
            }
        })?;
        let _end = io::Read::read(&mut &told, &mut [0]);
    }
    hold();
    // SAFETY: as above.
    unsafe { libc::kill(0, libc::SIGKILL) };
    Ok(())
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
