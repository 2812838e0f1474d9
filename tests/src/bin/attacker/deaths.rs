//! Clients that end or stop at every step.

use std::io;
use std::path::Path;
use std::time::Duration;

use profil_common::wire::Call;

use crate::connection::{CALL, Connection, OFF, area, errno_of, message};
use crate::{fork, hold, tell};

/// What is done before the end.
#[derive(Clone, Copy, Debug)]
enum Step {
    Connected,
    Greeted,
    Called,
    On,
    OnAgain,
    OffUnread,
    Closed,
}

const STEPS: [Step; 7] =
    [Step::Connected, Step::Greeted, Step::Called, Step::On, Step::OnAgain, Step::OffUnread, Step::Closed];

fn go_to(step: Step, path: &Path, buffer: &[u16]) -> io::Result<Option<Connection>> {
    if matches!(step, Step::On | Step::OnAgain | Step::OffUnread) {
        errno_of(path, CALL, &[area(buffer)]);
    }
    if matches!(step, Step::On) {
        return Ok(None);
    }
    let connection = Connection::open(path)?;
    if matches!(step, Step::Connected) {
        return Ok(Some(connection));
    }
    let nonce = connection.hello()?.nonce;
    let area = if matches!(step, Step::OffUnread) { OFF } else { area(buffer) };
    if !matches!(step, Step::Greeted) {
        connection.send(&message(Call { nonce, ..CALL }, &[area]))?;
    }
    if matches!(step, Step::Closed) {
        drop(connection);
        return Ok(None);
    }
    Ok(Some(connection))
}

/// Processes that are killed, each at another step.
pub fn at_every_step(path: &Path) -> io::Result<()> {
    for round in 0..30 {
        for step in STEPS {
            let pid = fork::child(|| {
                let buffer = vec![0u16; 64 << (round % 8)];
                let _connection = go_to(step, path, &buffer)?;
                if round % 3 == 0 {
                    std::thread::sleep(Duration::from_millis(round));
                }
                fork::signal(std::process::id() as i32, libc::SIGKILL);
                Ok(())
            })?;
            fork::wait(pid);
        }
    }
    tell("done", 0);
    Ok(())
}

/// Processes that stop for good, each at another step, until standard input ends.
pub fn stops(path: &Path) -> io::Result<()> {
    let mut stopped = Vec::new();
    for step in STEPS {
        let pid = fork::child(|| {
            let buffer = vec![0u16; 4096];
            let _connection = go_to(step, path, &buffer)?;
            fork::signal(std::process::id() as i32, libc::SIGSTOP);
            Ok(())
        })?;
        // SAFETY: takes plain numbers, and no status is wanted.
        unsafe { libc::waitpid(pid, std::ptr::null_mut(), libc::WUNTRACED) };
        stopped.push(pid);
    }
    hold();
    for pid in stopped {
        fork::signal(pid, libc::SIGKILL);
        fork::wait(pid);
    }
    Ok(())
}
