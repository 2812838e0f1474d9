//! Messages that are no calls, and calls that are no answers to the hello.

use std::io::{self, Write as _};
use std::mem::MaybeUninit;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::Path;
use std::time::Duration;

use profil_common::wire::{Area, Call, MAX_MESSAGE};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};

use crate::connection::{CALL, CLOSED, Connection, OFF, area, errno_of, message};
use crate::{hold, tell};

/// Sends what `bytes` makes of the nonce, and tells the errno.
fn attempt(path: &Path, name: &str, bytes: impl FnOnce(u64) -> Vec<u8>) -> io::Result<()> {
    let connection = Connection::open(path)?;
    let bytes = bytes(connection.hello()?.nonce);
    tell(name, connection.send(&bytes).map_or(CLOSED, |()| connection.errno()));
    Ok(())
}

/// Messages of every wrong form.
pub fn malformed(path: &Path) -> io::Result<()> {
    let good = |nonce| message(Call { nonce, ..CALL }, &[OFF]);
    attempt(path, "good", good)?;
    attempt(path, "empty", |_| Vec::new())?;
    attempt(path, "short", |nonce| good(nonce)[..39].to_vec())?;
    attempt(path, "one_byte_less", |nonce| good(nonce)[..good(nonce).len() - 1].to_vec())?;
    attempt(path, "one_byte_more", |nonce| [good(nonce), vec![0]].concat())?;
    attempt(path, "area_missing", |nonce| message(Call { nonce, areas: 2, ..CALL }, &[OFF]))?;
    attempt(path, "area_too_many", |nonce| message(Call { nonce, areas: 0, ..CALL }, &[OFF]))?;
    attempt(path, "areas_beyond_any_message", |nonce| message(Call { nonce, areas: u32::MAX, ..CALL }, &[OFF]))?;
    attempt(path, "oversized", |nonce| {
        let mut bytes = message(Call { nonce, areas: 256, ..CALL }, &[Area::default(); 256]);
        bytes.resize(MAX_MESSAGE + 1, 0);
        bytes
    })?;
    attempt(path, "hugely_oversized", |_| vec![0; 100_000])?;
    attempt(path, "unknown_magic", |nonce| message(Call { nonce, magic: 0, ..CALL }, &[OFF]))?;
    attempt(path, "unknown_version", |nonce| message(Call { nonce, version: 2, ..CALL }, &[OFF]))?;
    attempt(path, "unknown_kind", |nonce| message(Call { nonce, kind: 9, ..CALL }, &[OFF]))?;
    attempt(path, "unknown_convention", |nonce| message(Call { nonce, convention: 99, ..CALL }, &[OFF]))?;
    let buffer = [0u16; 64];
    attempt(path, "unknown_width", |nonce| message(Call { nonce, width: 3, ..CALL }, &[area(&buffer)]))?;
    attempt(path, "scale_of_64_bits", |nonce| {
        message(Call { nonce, ..CALL }, &[Area { scale: 1 << 40, ..area(&buffer) }])
    })
}

/// Messages sent a second time, or on another connection.
pub fn replayed(path: &Path) -> io::Result<()> {
    let first = Connection::open(path)?;
    let second = Connection::open(path)?;
    let (first_nonce, second_nonce) = (first.hello()?.nonce, second.hello()?.nonce);
    let call = message(Call { nonce: first_nonce, ..CALL }, &[OFF]);
    second.send(&call)?;
    tell("nonce_of_another_connection", second.errno());
    first.send(&call)?;
    // It may be closed already, or be closed with this message unread, of which we then hear before the reply.
    let _closed = first.send(&call);
    let answers = [first.errno(), first.errno(), first.errno()];
    tell("served_of_two_uses", answers.iter().filter(|answer| **answer != CLOSED).count() as i64);
    for (name, nonce) in [("old_nonce", first_nonce), ("nonce_of_the_refused", second_nonce), ("no_nonce", 0)] {
        attempt(path, name, |_| message(Call { nonce, ..CALL }, &[OFF]))?;
    }
    Ok(())
}

/// Sends a good call with descriptors, and returns the errno of that.
fn send_with(connection: &Connection, descriptors: &[BorrowedFd<'_>]) -> io::Result<i32> {
    let bytes = message(Call { nonce: connection.hello()?.nonce, ..CALL }, &[OFF]);
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(200))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(descriptors));
    let sent =
        rustix::net::sendmsg(connection.socket(), &[io::IoSlice::new(&bytes)], &mut ancillary, SendFlags::NOSIGNAL);
    Ok(sent.map_or_else(rustix::io::Errno::raw_os_error, |_| 0))
}

/// Messages of which every one carries as many descriptors as the kernel allows.
pub fn with_descriptors(path: &Path) -> io::Result<()> {
    for _ in 0..50 {
        let connection = Connection::open(path)?;
        let sent = send_with(&connection, &[connection.socket(); 200])?;
        tell("errno", if sent == 0 { connection.errno() } else { sent });
    }
    tell("afterwards", errno_of(path, CALL, &[OFF]));
    Ok(())
}

/// A message with a socket whose last close waits for an hour: what was written to it is not read, and it lingers.
pub fn lingering(path: &Path) -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let mut socket = TcpStream::connect(listener.local_addr()?)?;
    let _reader = listener.accept()?;
    rustix::net::sockopt::set_socket_linger(&socket, Some(Duration::from_secs(3600)))?;
    socket.set_nonblocking(true)?;
    while socket.write(&[0; 1 << 16]).is_ok() {}
    let connection = Connection::open(path)?;
    let sent = send_with(&connection, &[socket.as_fd()])?;
    tell("sent", sent);
    if sent != 0 {
        // It is we who close it.
        rustix::net::sockopt::set_socket_linger(&socket, None)?;
    }
    // Else what is in the message is now the last of it.
    drop(socket);
    hold();
    Ok(())
}
