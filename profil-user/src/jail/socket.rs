//! The socket between profil and a process of its own: whole messages (`SOCK_SEQPACKET`), with open files.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};

/// Largest message, bytes.
pub const MAX_MESSAGE: usize = 64 * 1024;

/// Most files that come with a message.
pub const MAX_FILES: usize = 4;

/// A message and the files that came with it.
#[derive(Debug)]
pub struct Received<'a> {
    /// The message.
    pub bytes: &'a [u8],
    /// The files.
    pub files: Vec<OwnedFd>,
}

/// The ends for us, who never wait in a call, and for the other process.
///
/// # Errors
/// Those of socketpair(2).
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let (ours, theirs) =
        rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    rustix::io::ioctl_fionbio(&ours, true)?;
    // One that waits: the other process has nothing else to do. The flag is of the end, not of the pair.
    Ok((ours, theirs))
}

/// Sends a message whole.
///
/// # Errors
/// Those of sendmsg(2).
pub fn send(socket: impl AsFd, bytes: &[u8], files: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FILES))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(files)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    rustix::net::sendmsg(socket, &[IoSlice::new(bytes)], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Receives a message; `None` when the other side is gone.
///
/// # Errors
/// Those of recvmsg(2); `InvalidData` for a message that is too large.
pub fn receive(socket: impl AsFd, buffer: &mut [u8; MAX_MESSAGE]) -> io::Result<Option<Received<'_>>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FILES))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        let into = &mut [IoSliceMut::new(buffer)];
        match rustix::net::recvmsg(&socket, into, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
            Err(rustix::io::Errno::INTR) => {}
            received => break received?,
        }
    };
    if received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a message was cut short"));
    }
    let mut files = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            files.extend(rights);
        }
    }
    // No message is empty, so this is the end.
    if received.bytes == 0 {
        return Ok(None);
    }
    let bytes = buffer.get(..received.bytes).unwrap_or_default();
    Ok(Some(Received { bytes, files }))
}
