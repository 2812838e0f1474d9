//! Calls in the name of others.

use std::io::{self, BufRead as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use profil_common::wire::{Area, Call, Reply};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketFlags, SocketType, UCred,
};

use crate::connection::{CALL, CLOSED, Connection, OFF, area, errno_of, message};
use crate::{fork, tell};

/// Sends a good call, and tells the errno.
fn call_on(connection: &Connection, name: &str, nonce: u64) -> io::Result<()> {
    connection.send(&message(Call { nonce, ..CALL }, &[OFF]))?;
    tell(name, connection.errno());
    Ok(())
}

/// Every way for a process to use the connection of another.
pub fn impostors(path: &Path) -> io::Result<()> {
    let connection = Connection::open(path)?;
    let nonce = connection.hello()?.nonce;
    fork::and_wait(|| call_on(&connection, "forked_child", nonce))?;

    let connection = Connection::open(path)?;
    let nonce = connection.hello()?.nonce;
    passed_descriptor(&connection, nonce)?;

    // The one who connected is gone when the call is made.
    let (told, tell_us) = io::pipe()?;
    let connector = fork::child(move || {
        let connection = Connection::open(path)?;
        let nonce = connection.hello()?.nonce;
        let connector = rustix::process::getpid();
        let orphan = fork::child(|| {
            while rustix::process::getppid() == Some(connector) {
                std::thread::yield_now();
            }
            call_on(&connection, "child_of_one_who_is_gone", nonce)?;
            drop(tell_us);
            Ok(())
        });
        orphan.map(drop)
    })?;
    fork::wait(connector);
    let _end = io::Read::read(&mut &told, &mut [0]);

    let connection = Connection::open(path)?;
    let nonce = connection.hello()?.nonce;
    let own = rustix::process::getpid();
    fork::and_wait(|| {
        let sender = UCred { pid: own, uid: rustix::process::getuid(), gid: rustix::process::getgid() };
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmCredentials(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        ancillary.push(SendAncillaryMessage::ScmCredentials(sender));
        let bytes = message(Call { nonce, ..CALL }, &[OFF]);
        let parts = [io::IoSlice::new(&bytes)];
        let sent = rustix::net::sendmsg(connection.socket(), &parts, &mut ancillary, SendFlags::NOSIGNAL);
        tell("forged_credentials_by_the_kernel", sent.err().map_or(0, rustix::io::Errno::raw_os_error));
        Ok(())
    })?;
    call_on(&connection, "the_one_who_connected", nonce)
}

/// Hands the connection to a process that has nothing of it.
fn passed_descriptor(connection: &Connection, nonce: u64) -> io::Result<()> {
    let (ours, theirs) = rustix::net::socketpair(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    let taker = fork::child(|| {
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut byte = [0];
        let mut parts = [io::IoSliceMut::new(&mut byte)];
        rustix::net::recvmsg(&theirs, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
        let passed = ancillary.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
            _ => None,
        });
        let passed = passed.ok_or(io::ErrorKind::UnexpectedEof)?;
        call_on(&Connection::of(passed), "passed_descriptor", nonce)
    })?;
    let descriptors = [connection.socket()];
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
    rustix::net::sendmsg(&ours, &[io::IoSlice::new(&[0])], &mut ancillary, SendFlags::NOSIGNAL)?;
    fork::wait(taker);
    Ok(())
}

/// Connects, becomes a set-uid program before the service has looked, and lets a child write the call that the program
/// passes on: the connection and the sender are then one process, which is not ours to be written into.
///
/// The suite keeps the service stopped until it reads `ready`.
pub fn set_uid_relay(path: &Path, relay: &str) -> io::Result<()> {
    let connection = Connection::open(path)?;
    let (from_relay, to_child) = io::pipe()?;
    let (from_child, to_relay) = io::pipe()?;
    let child = move |connection: OwnedFd| -> io::Result<()> {
        let connection = Connection::of(connection);
        let mut lines = io::BufReader::new(from_relay).lines();
        let buffer = number(&lines.next().ok_or(io::ErrorKind::UnexpectedEof)??)?;
        let text = number(&lines.next().ok_or(io::ErrorKind::UnexpectedEof)??)?;
        tell("ready", 0);
        let nonce = connection.hello()?.nonce;
        let area = Area { buffer, bytes: 1 << 16, offset: text, scale: 65_536 };
        (&to_relay).write_all(&message(Call { nonce, ..CALL }, &[area]))?;
        tell("errno", connection.errno());
        let touched = number(&lines.next().ok_or(io::ErrorKind::UnexpectedEof)??)?;
        tell("touched", touched as i64);
        Ok(())
    };
    let ours = connection.socket().try_clone_to_owned()?;
    fork::child(move || child(ours))?;
    let mut program = Command::new(relay);
    program.stdin(from_child).stdout(to_child).stderr(connection.socket().try_clone_to_owned()?);
    Err(program.exec())
}

fn number(line: &str) -> io::Result<u64> {
    let number = line.rsplit(' ').next().and_then(|number| number.parse().ok());
    number.ok_or_else(|| io::Error::other(format!("no number in {line:?}")))
}

/// One thread sends a call while another execs a set-uid program whose buffer lies where the call's did.
pub fn exec_meanwhile(path: &Path, relay: &str) -> io::Result<()> {
    let told = Command::new(relay).stdin(Stdio::null()).stderr(Stdio::null()).output()?;
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    let mut lines = told.lines();
    let mut next = || lines.next().ok_or(io::Error::from(io::ErrorKind::UnexpectedEof)).and_then(number);
    let (buffer, text) = (next()?, next()?);
    let area = Area { buffer, bytes: 1 << 16, offset: text, scale: 65_536 };
    for round in 0..40 {
        let done = fork::and_wait(|| {
            let (place, bytes) = ((buffer & !0xfff) as *mut libc::c_void, (1 << 16) + 4096);
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
            // SAFETY: a fresh mapping that replaces none; nothing else uses it.
            let mapped = unsafe { libc::mmap(place, bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
            if mapped != place {
                return Err(io::Error::last_os_error());
            }
            let connection = Connection::open(path)?;
            let nonce = connection.hello()?.nonce;
            let sender = connection.socket().try_clone_to_owned()?;
            let call = message(Call { nonce, ..CALL }, &[area]);
            std::thread::spawn(move || {
                // The exec may come first, which ends this thread.
                let connection = Connection::of(sender);
                let _sent = connection.send(&call);
                let _answered: Option<(Reply, _)> = connection.reply();
            });
            std::thread::sleep(std::time::Duration::from_micros(round * 50));
            Err(Command::new(relay).stdin(Stdio::null()).stderr(Stdio::null()).exec())
        })?;
        if !done {
            tell("failed", CLOSED);
        }
    }
    Ok(())
}

/// Turns profiling on, asks for it once more while the copier stands still, turns it off meanwhile, and execs a program
/// that lets the copier go on and tells what the second call came to.
pub fn exec_under_way(path: &Path) -> io::Result<()> {
    let buffer = vec![0u16; 1024];
    tell("on", errno_of(path, CALL, &[area(&buffer)]));
    let copier = crate::floods::copiers()?.next().ok_or(io::ErrorKind::NotFound)?;
    fork::signal(copier, libc::SIGSTOP);
    while !std::fs::read_to_string(format!("/proc/{copier}/stat"))?.contains(") T ") {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let under_way = Connection::open(path)?;
    let nonce = under_way.hello()?.nonce;
    // By 4.4BSD's manual page, where a buffer that is gone is an error.
    under_way.send(&message(Call { nonce, convention: 0, ..CALL }, &[area(&buffer)]))?;
    let off = Connection::open(path)?;
    let nonce = off.hello()?.nonce;
    off.send(&message(Call { nonce, ..CALL }, &[OFF]))?;
    // It is answered at once, and after those before it were taken.
    tell("unchanged", errno_of(path, Call { convention: 99, ..CALL }, &[OFF]));
    let mut program = Command::new("/proc/self/exe");
    program.arg(path).args(["reply", &copier.to_string()]);
    program.stdin(under_way.socket().try_clone_to_owned()?);
    Err(program.exec())
}

/// Lets a copier go on, and tells the reply that comes on the connection that is standard input.
pub fn reply(copier: &str) -> io::Result<()> {
    fork::signal(copier.parse().map_err(io::Error::other)?, libc::SIGCONT);
    tell("errno", Connection::of(io::stdin().as_fd().try_clone_to_owned()?).errno());
    Ok(())
}
