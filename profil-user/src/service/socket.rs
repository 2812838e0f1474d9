//! The listening socket and its connections: sequenced packets, so that a message comes whole or not at all.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use profil_common::wire::{MAGIC, Reply};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, sockopt,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Connections that the kernel keeps for us until we accept them.
const BACKLOG: i32 = 128;

/// A socket that cannot be listened on.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// It cannot be made.
    #[error("cannot listen on {path}")]
    Bind {
        /// Its path.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Somebody else listens there.
    #[error("cannot listen on {path}: another service answers there; stop it, or choose another --socket")]
    InUse {
        /// Its path.
        path: PathBuf,
    },
}

/// The socket that programs connect to. Its file goes with it.
#[derive(Debug)]
pub struct Listener {
    socket: AsyncFd<OwnedFd>,
    path: PathBuf,
}

impl Listener {
    /// Makes the socket, which every user may connect to. A file that a dead service left behind is replaced.
    ///
    /// Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// [`ListenError`].
    pub fn bind(path: &Path) -> Result<Listener, ListenError> {
        let failed = |source: io::Error| ListenError::Bind { path: path.to_owned(), source };
        let address = SocketAddrUnix::new(path).map_err(|error| failed(error.into()))?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let new = || rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
        let socket = new().map_err(|error| failed(error.into()))?;
        match rustix::net::bind(&socket, &address) {
            Err(rustix::io::Errno::ADDRINUSE) => {
                let probe = new().map_err(|error| failed(error.into()))?;
                // Full or alive: somebody is there.
                if !matches!(rustix::net::connect(&probe, &address), Err(rustix::io::Errno::CONNREFUSED)) {
                    return Err(ListenError::InUse { path: path.to_owned() });
                }
                std::fs::remove_file(path).map_err(failed)?;
                rustix::net::bind(&socket, &address).map_err(|error| failed(error.into()))?;
            }
            bound => bound.map_err(|error| failed(error.into()))?,
        }
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o666)).map_err(failed)?;
        refuse_descriptors(&socket);
        rustix::net::listen(&socket, BACKLOG).map_err(|error| failed(error.into()))?;
        let socket = watch(socket).map_err(failed)?;
        Ok(Listener { socket, path: path.to_owned() })
    }

    /// The next connection, with the process and user that made it.
    ///
    /// # Errors
    /// `EMFILE` and the like; the next call may succeed.
    pub async fn accept(&self) -> io::Result<Connection> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let accept = |socket: &OwnedFd| rustix::net::accept_with(socket, flags).map_err(io::Error::from);
        let socket = self.socket.async_io(Interest::READABLE, accept).await?;
        // Before anything is read: each message then carries who sent it.
        sockopt::set_socket_passcred(&socket, true)?;
        let peer = sockopt::socket_peercred(&socket)?;
        let peer = Sender { pid: peer.pid.as_raw_pid() as u32, uid: peer.uid.as_raw() };
        Ok(Connection { socket: watch(socket)?, peer })
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // Somebody may have removed it already.
        let _gone = std::fs::remove_file(&self.path);
    }
}

/// `SO_PASSRIGHTS` of include/uapi/asm-generic/socket.h, which x86-64 and aarch64 use.
const SO_PASSRIGHTS: libc::c_int = 83;

/// Has the kernel refuse descriptors to whoever sends them on a connection; connections have it from their listener.
///
/// A descriptor that nobody takes is closed in the name of the receiver, and closing may wait: for years, with a TCP
/// socket that is set to linger and whose other end does not read.
///
/// # Minimum kernel
/// 6.16; before, such a client keeps the service waiting.
fn refuse_descriptors(listener: &OwnedFd) {
    let no: libc::c_int = 0;
    let (value, length) = ((&raw const no).cast(), size_of::<libc::c_int>() as libc::socklen_t);
    // SAFETY: the value is a live local of the length that is given.
    let set = unsafe { libc::setsockopt(listener.as_raw_fd(), libc::SOL_SOCKET, SO_PASSRIGHTS, value, length) };
    if set != 0 {
        log::debug!("descriptors that clients send are closed by us: {}", io::Error::last_os_error());
    }
}

fn watch(socket: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    let interest = Interest::READABLE | Interest::WRITABLE;
    // SAFETY: the descriptor is owned by the AsyncFd, so it stays open and the same for its whole life.
    let watched = unsafe { AsyncFd::register_with_interest(socket, interest) };
    watched.map_err(io::Error::from)
}

/// A process, as the kernel names it on a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sender {
    /// PID in our PID namespace.
    pub pid: u32,
    /// Its real user.
    pub uid: u32,
}

/// A message as it came.
#[derive(Debug)]
pub struct Received {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Whether it was longer than any message may be.
    pub oversized: bool,
    /// Who sent it.
    pub sender: Option<Sender>,
}

/// A connection to one program.
#[derive(Debug)]
pub struct Connection {
    socket: AsyncFd<OwnedFd>,
    peer: Sender,
}

impl Connection {
    /// Who made the connection; not who uses it now.
    pub fn peer(&self) -> Sender {
        self.peer
    }

    /// Waits for a message of at most `largest` bytes. Descriptors that come with it are dropped.
    ///
    /// # Errors
    /// `UnexpectedEof` when the other side has closed.
    pub async fn receive(&self, largest: usize) -> io::Result<Received> {
        self.socket.async_io(Interest::READABLE, |socket| receive(socket, largest)).await
    }

    /// Asks the other side to come back later, and closes.
    pub fn put_off(self) {
        let errno = libc::EAGAIN as u32;
        let busy = Reply { magic: MAGIC, errno, period_ns: 0, flags: 0, reserved: 0 };
        // A new connection has room for it; who is gone already need not know.
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        let _gone = rustix::net::send(self.socket.get_ref(), &busy.to_bytes(), flags);
    }

    /// Sends a message, and a descriptor with it.
    ///
    /// # Errors
    /// `BrokenPipe` when the other side has closed.
    pub async fn send(&self, message: &[u8], descriptor: Option<&OwnedFd>) -> io::Result<()> {
        let send = |socket: &OwnedFd| {
            let descriptors = descriptor.map(|descriptor| [descriptor.as_fd()]);
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut ancillary = SendAncillaryBuffer::new(&mut space);
            if let Some(descriptors) = &descriptors {
                // There is room for exactly this one.
                ancillary.push(SendAncillaryMessage::ScmRights(descriptors));
            }
            let message = [IoSlice::new(message)];
            rustix::net::sendmsg(socket, &message, &mut ancillary, SendFlags::NOSIGNAL).map_err(io::Error::from)
        };
        self.socket.async_io(Interest::WRITABLE, send).await.map(drop)
    }
}

fn receive(socket: &OwnedFd, largest: usize) -> io::Result<Received> {
    let mut bytes = vec![0; largest];
    // Room for the credentials only: the kernel closes descriptors that find none.
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmCredentials(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let received = rustix::net::recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, flags)?;
    let sender = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmCredentials(sender) => {
            Some(Sender { pid: sender.pid.as_raw_pid() as u32, uid: sender.uid.as_raw() })
        }
        _ => None,
    });
    if received.bytes == 0 && sender.is_none() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    bytes.truncate(received.bytes);
    Ok(Received { bytes, oversized: received.flags.contains(ReturnFlags::TRUNC), sender })
}
