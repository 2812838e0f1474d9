//! A connection to the service, without libprofil.so and its manners.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use profil_common::wire::{Area, Call, CallKind, Hello, MAGIC, Reply, VERSION};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendFlags,
    SocketAddrUnix, SocketFlags, SocketType, sockopt,
};

/// What is printed in place of an errno when the service closed the connection.
pub const CLOSED: i32 = -1;

/// Longer than the service takes for anything.
const PATIENCE: Duration = Duration::from_secs(30);

/// A call that is good but for its nonce: profil(3) by glibc's manual page, with one area.
pub const CALL: Call = Call {
    magic: MAGIC,
    version: VERSION,
    nonce: 0,
    kind: CallKind::Profil as u32,
    convention: 3,
    width: 2,
    hz: 1000,
    flags: 0,
    areas: 1,
};

/// A connection.
pub struct Connection {
    socket: OwnedFd,
}

impl Connection {
    /// Connects.
    pub fn open(path: &Path) -> io::Result<Connection> {
        let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(PATIENCE))?;
        rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
        Ok(Connection { socket })
    }

    /// A connection that somebody else has made.
    pub fn of(socket: OwnedFd) -> Connection {
        Connection { socket }
    }

    /// Its descriptor.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Reads the hello.
    pub fn hello(&self) -> io::Result<Hello> {
        let mut bytes = [0; 64];
        let (received, _) = rustix::net::recv(&self.socket, &mut bytes, RecvFlags::empty())?;
        Hello::from_bytes(&bytes[..received]).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    /// Sends bytes.
    pub fn send(&self, bytes: &[u8]) -> io::Result<()> {
        let mut nothing = SendAncillaryBuffer::default();
        rustix::net::sendmsg(&self.socket, &[IoSlice::new(bytes)], &mut nothing, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// The reply, with the descriptor that came with it; `None` when there is none.
    pub fn reply(&self) -> Option<(Reply, Option<OwnedFd>)> {
        let mut bytes = [0; 64];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(&mut bytes)];
        let received = rustix::net::recvmsg(&self.socket, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC).ok()?;
        let descriptor = ancillary.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
            _ => None,
        });
        Some((Reply::from_bytes(&bytes[..received.bytes])?, descriptor))
    }

    /// The errno of the reply, or [`CLOSED`].
    pub fn errno(&self) -> i32 {
        self.reply().map_or(CLOSED, |(reply, _)| reply.errno as i32)
    }
}

/// A message as it goes over the connection.
pub fn message(call: Call, areas: &[Area]) -> Vec<u8> {
    let mut bytes = call.to_bytes().to_vec();
    areas.iter().for_each(|area| bytes.extend(area.to_bytes()));
    bytes
}

/// Makes a whole call, and returns its reply.
pub fn ask(path: &Path, call: Call, areas: &[Area]) -> Option<(Reply, Option<OwnedFd>)> {
    let connection = Connection::open(path).ok()?;
    let nonce = connection.hello().ok()?.nonce;
    let call = Call { nonce, areas: areas.len() as u32, ..call };
    // A connection that is closed on us shows in the reply.
    let _sent = connection.send(&message(call, areas));
    connection.reply()
}

/// Makes a whole call, and returns its errno or [`CLOSED`].
pub fn errno_of(path: &Path, call: Call, areas: &[Area]) -> i32 {
    ask(path, call, areas).map_or(CLOSED, |(reply, _)| reply.errno as i32)
}

/// The area of a buffer of our own, over the text of this program.
pub fn area(buffer: &[u16]) -> Area {
    let offset = area as *const () as u64;
    Area { buffer: buffer.as_ptr() as u64, bytes: size_of_val(buffer) as u64, offset, scale: 65_536 }
}

/// The area that turns profiling off.
pub const OFF: Area = Area { buffer: 0, bytes: 0, offset: 0, scale: 0 };
