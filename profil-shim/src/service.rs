//! One call to the service.

use core::ptr::null_mut;

use libc::{c_int, c_void};
use profil_common::wire::{Area, Call, Hello, Reply, VERSION};

use crate::deadline::Deadline;
use crate::descriptor::Descriptor;
use crate::{settings, syscall};

/// How long a call may take, connecting and waiting together.
const PATIENCE_SECONDS: i64 = 10;

/// What a service with too many connections answers.
const BUSY: u32 = libc::EAGAIN as u32;

/// How long to leave such a service alone.
const BUSY_PAUSE_NS: i64 = 10_000_000;

/// Areas of a call, in memory that the kernel reads when it sends them.
#[derive(Clone, Copy, Debug)]
pub struct Areas {
    /// The first of them. Need not be readable: that is `EFAULT`.
    pub start: *const Area,
    /// How many.
    pub count: u32,
}

impl Areas {
    /// No area at all.
    pub const NONE: Areas = Areas { start: core::ptr::null(), count: 0 };
}

/// What the service answered.
#[derive(Debug)]
pub struct Answer {
    /// The message.
    pub reply: Reply,
    /// The descriptor that came with it.
    pub array: Option<Descriptor>,
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug)]
pub struct Failure {
    /// What failed; `ETIMEDOUT` when the service did not answer in time.
    pub errno: c_int,
    /// How far the call came.
    pub stage: Stage,
}

/// How far a call came that was not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The service does not know of it.
    Before,
    /// The service may have done what it asks for.
    After,
}

/// Sends a call, with the nonce of its connection put in, and waits for the answer.
///
/// # Errors
/// [`Failure`] when there is no service, none that can be trusted, or none that answers as it should and in time.
pub fn exchange(call: Call, areas: Areas) -> Result<Answer, Failure> {
    let before = |errno| Failure { errno, stage: Stage::Before };
    let after = |errno| Failure { errno, stage: Stage::After };

    let deadline = Deadline::in_seconds(PATIENCE_SECONDS).map_err(before)?;
    let (service, hello) = be_received(deadline).map_err(before)?;
    if hello.version != VERSION {
        return Err(before(libc::EPROTONOSUPPORT));
    }
    send(&service, Call { nonce: hello.nonce, ..call }, areas).map_err(before)?;
    let message = receive(&service, deadline).map_err(after)?;
    let reply = Reply::from_bytes(message.bytes()).ok_or(after(libc::EPROTO))?;
    Ok(Answer { reply, array: message.descriptor })
}

/// A connection to a service that has time for us.
fn be_received(deadline: Deadline) -> Result<(Descriptor, Hello), c_int> {
    loop {
        let service = connect(deadline)?;
        let message = receive(&service, deadline)?;
        if let Some(hello) = Hello::from_bytes(message.bytes()) {
            return Ok((service, hello));
        }
        match Reply::from_bytes(message.bytes()) {
            Some(Reply { errno: BUSY, .. }) => {
                drop(service);
                deadline.pause(BUSY_PAUSE_NS)?;
            }
            _ => return Err(libc::EPROTO),
        }
    }
}

/// A connection to a service that is root's or our own user's.
fn connect(deadline: Deadline) -> Result<Descriptor, c_int> {
    let address = settings::socket_address().ok_or(libc::ENAMETOOLONG)?;
    let service = Descriptor::own(syscall::socket(libc::AF_UNIX, libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC)?)?;
    loop {
        // A service with many callers at once makes connect(2) wait, as long as this option says.
        set_send_timeout(&service, deadline)?;
        match syscall::connect(service.number(), &address) {
            Ok(()) => break,
            Err(libc::EINTR | libc::EAGAIN) => {}
            Err(errno) => return Err(errno),
        }
    }
    let uid = uid_of_listener(&service)?;
    // SAFETY: takes no pointer and cannot fail.
    let own_uid = unsafe { libc::geteuid() };
    // Anyone could listen in /tmp, and would be handed addresses to write to by a service of root's later.
    if uid != 0 && uid != own_uid { Err(libc::EACCES) } else { Ok(service) }
}

fn set_send_timeout(socket: &Descriptor, deadline: Deadline) -> Result<(), c_int> {
    let remaining = deadline.remaining()?;
    // No time at all would mean for ever.
    let timeout = libc::timeval { tv_sec: remaining.tv_sec, tv_usec: (remaining.tv_nsec / 1000).max(1) };
    let (value, length) = ((&raw const timeout).cast::<c_void>(), size_of::<libc::timeval>() as libc::socklen_t);
    // SAFETY: the value is valid for reads of its length.
    let result = unsafe { libc::setsockopt(socket.number(), libc::SOL_SOCKET, libc::SO_SNDTIMEO, value, length) };
    if result == 0 { Ok(()) } else { Err(crate::errno::get()) }
}

/// Who called listen(2): the kernel wrote it down then, and nobody else can pretend to be them.
fn uid_of_listener(socket: &Descriptor) -> Result<libc::uid_t, c_int> {
    let mut peer = libc::ucred { pid: 0, uid: libc::uid_t::MAX, gid: 0 };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    let value = (&raw mut peer).cast::<c_void>();
    // SAFETY: the value is valid for writes of its length.
    let result =
        unsafe { libc::getsockopt(socket.number(), libc::SOL_SOCKET, libc::SO_PEERCRED, value, &raw mut length) };
    if result == 0 { Ok(peer.uid) } else { Err(crate::errno::get()) }
}

fn send(socket: &Descriptor, call: Call, areas: Areas) -> Result<(), c_int> {
    let mut fixed = call.to_bytes();
    let area_bytes = (areas.count as usize).saturating_mul(size_of::<Area>());
    let mut parts = [
        libc::iovec { iov_base: fixed.as_mut_ptr().cast(), iov_len: fixed.len() },
        libc::iovec { iov_base: areas.start.cast_mut().cast(), iov_len: area_bytes },
    ];
    let message = header(&mut parts, &mut []);
    loop {
        // One message on a new connection finds room: there is nothing to wait for.
        match syscall::sendmsg(socket.number(), &message, libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT) {
            Ok(_) => return Ok(()),
            Err(libc::EINTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}

/// Room for a message; larger than the largest, so that one that is too long is seen to be.
const RECEIVE_BYTES: usize = 64;

const _: () = assert!(size_of::<Hello>() < RECEIVE_BYTES && size_of::<Reply>() < RECEIVE_BYTES);

/// Bytes that a descriptor takes in control messages.
// SAFETY: does arithmetic only.
const CONTROL_BYTES: usize = unsafe { libc::CMSG_LEN(size_of::<c_int>() as u32) } as usize;

/// Room for control messages, aligned as the kernel writes them.
#[repr(C, align(8))]
struct Control {
    bytes: [u8; CONTROL_BYTES],
}

struct Message {
    bytes: [u8; RECEIVE_BYTES],
    length: usize,
    descriptor: Option<Descriptor>,
}

impl Message {
    fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }
}

/// The next message; an empty one is `ECONNRESET`, for so the end of the connection looks.
fn receive(socket: &Descriptor, deadline: Deadline) -> Result<Message, c_int> {
    loop {
        wait(socket, deadline)?;
        match receive_now(socket) {
            Ok(message) if message.length == 0 => return Err(libc::ECONNRESET),
            Err(libc::EINTR | libc::EAGAIN) => {}
            result => return result,
        }
    }
}

/// Waits until there is something to receive, however many signals arrive.
fn wait(socket: &Descriptor, deadline: Deadline) -> Result<(), c_int> {
    loop {
        let mut remaining = deadline.remaining()?;
        let mut poll = libc::pollfd { fd: socket.number(), events: libc::POLLIN, revents: 0 };
        match syscall::ppoll(&mut poll, &mut remaining) {
            Ok(0) | Err(libc::EINTR) => {}
            Ok(_) => return Ok(()),
            Err(errno) => return Err(errno),
        }
    }
}

fn receive_now(socket: &Descriptor) -> Result<Message, c_int> {
    let mut message = Message { bytes: [0; RECEIVE_BYTES], length: 0, descriptor: None };
    // Room for one descriptor and not one more: CMSG_SPACE has padding into which a second would fit, and be leaked.
    let mut control = Control { bytes: [0; CONTROL_BYTES] };
    let mut parts = [libc::iovec { iov_base: message.bytes.as_mut_ptr().cast(), iov_len: message.bytes.len() }];
    let mut header = header(&mut parts, &mut control.bytes);
    // SAFETY: the header points to `message` and `control`, with their lengths.
    let received =
        unsafe { syscall::recvmsg(socket.number(), &mut header, libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC) };
    message.length = received?;
    message.descriptor = descriptor_in(&header).map(Descriptor::own).transpose()?;
    Ok(message)
}

fn descriptor_in(header: &libc::msghdr) -> Option<c_int> {
    // SAFETY: the kernel filled the header in, whose control buffer is alive and aligned.
    let first = unsafe { libc::CMSG_FIRSTHDR(header) };
    // SAFETY: null, or a control message within that buffer.
    let control = unsafe { first.as_ref() }?;
    if control.cmsg_level != libc::SOL_SOCKET || control.cmsg_type != libc::SCM_RIGHTS {
        return None;
    }
    if control.cmsg_len < CONTROL_BYTES as _ {
        return None;
    }
    // SAFETY: the message is long enough to carry one descriptor.
    Some(unsafe { libc::CMSG_DATA(first).cast::<c_int>().read_unaligned() })
}

fn header(parts: &mut [libc::iovec], control: &mut [u8]) -> libc::msghdr {
    // SAFETY: a header of zeros has no address, no parts and no control messages.
    let mut header: libc::msghdr = unsafe { core::mem::zeroed() };
    header.msg_name = null_mut();
    header.msg_iov = parts.as_mut_ptr();
    header.msg_iovlen = parts.len() as _;
    header.msg_control = if control.is_empty() { null_mut() } else { control.as_mut_ptr().cast() };
    header.msg_controllen = control.len() as _;
    header
}
