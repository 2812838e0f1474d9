//! A service that checks what it is sent and answers as a test says.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::{fs, thread};

use profil_common::wire::{Area, Call, CallKind, Hello, MAGIC, MAX_MESSAGE, Reply, VERSION, reply_flags};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, Shutdown, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, listen, recvmsg, send, sendmsg,
    shutdown, socket_with, sockopt::set_socket_passcred,
};
use rustix::process::Uid;
use tempfile::TempDir;

/// A call as it arrived.
#[derive(Clone, Debug)]
pub struct Received {
    /// Process that sent it, by the kernel's word.
    pub pid: i32,
    /// Its fixed part.
    pub call: Call,
    /// Its areas.
    pub areas: Vec<Area>,
}

/// What a service says first.
#[derive(Clone, Copy, Debug)]
pub enum Greeting {
    /// What it should.
    Hello,
    /// That it is busy, to so many connections, and what it should to those after them.
    Busy(u64),
    /// Nothing: it closes the connection.
    Close,
    /// Nothing, and it keeps the connection.
    Hang,
    /// These bytes.
    Bytes(&'static [u8]),
}

/// What a busy service says in place of its hello.
const BUSY: Reply = Reply { magic: MAGIC, errno: 11, period_ns: 0, flags: 0, reserved: 0 };

/// What a service answers.
#[derive(Debug)]
pub enum Answer {
    /// A message.
    Reply(Reply),
    /// A message, and a descriptor with it.
    WithDescriptor(Reply, OwnedFd),
    /// Nothing: it closes the connection.
    Close,
    /// Nothing, and it keeps the connection.
    Hang,
    /// These bytes.
    Bytes(Vec<u8>),
}

/// Profiling is on, at 100 Hz.
pub const ON: Reply = Reply { magic: MAGIC, errno: 0, period_ns: 10_000_000, flags: reply_flags::ON, reserved: 0 };
/// Profiling is off.
pub const OFF: Reply = Reply { flags: 0, ..ON };

/// Answers as a service does that takes every call for what glibc takes it for.
pub fn obliging(received: &Received) -> Answer {
    Answer::Reply(if received.turns_off() { OFF } else { ON })
}

impl Received {
    /// What it asks for.
    pub fn kind(&self) -> CallKind {
        CallKind::from_number(self.call.kind).expect("the decoder checks it")
    }

    /// Whether it turns profiling off, by glibc's rule.
    pub fn turns_off(&self) -> bool {
        match self.kind() {
            CallKind::Profil => self.areas[0].buffer == 0,
            CallKind::Sprofil => self.areas.is_empty(),
            CallKind::Flush => false,
        }
    }

    /// Writes into the memory of the sender.
    pub fn write(&self, address: u64, bytes: &[u8]) {
        let memory = fs::OpenOptions::new().write(true).open(format!("/proc/{}/mem", self.pid));
        memory.expect("memory of our own child").write_all_at(bytes, address).expect("a mapped buffer");
    }
}

/// A listening service in a folder of its own.
pub struct Service {
    folder: TempDir,
    listener: OwnedFd,
    received: Receiver<Received>,
    thread: Option<JoinHandle<()>>,
}

impl Service {
    /// Starts one that greets as it should.
    pub fn start(answer: impl FnMut(&Received) -> Answer + Send + 'static) -> Service {
        Service::start_as(None, Greeting::Hello, answer)
    }

    /// Starts one of a user, or of ours.
    pub fn start_as(
        user: Option<u32>,
        greeting: Greeting,
        answer: impl FnMut(&Received) -> Answer + Send + 'static,
    ) -> Service {
        let folder = TempDir::with_prefix("profil-shim-").expect("a folder");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).expect("our own folder");
        let path = folder.path().join("socket");
        // Credentials belong to a thread: this one gives its own up and goes.
        let opening = thread::spawn(move || {
            if let Some(user) = user.map(Uid::from_raw) {
                rustix::thread::set_thread_res_uid(user, user, user).expect("root");
            }
            open(&path)
        });
        let listener = opening.join().expect("a socket");
        fs::set_permissions(folder.path().join("socket"), fs::Permissions::from_mode(0o777)).expect("our own socket");

        let (sender, received) = channel();
        let listening = listener.try_clone().expect("a descriptor");
        let thread = thread::spawn(move || serve(&listening, greeting, answer, &sender));
        Service { folder, listener, received, thread: Some(thread) }
    }

    /// Path of its socket.
    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    /// The calls since this was last asked.
    pub fn received(&self) -> Vec<Received> {
        self.received.try_iter().collect()
    }

    /// Folder of the socket, writable for everybody.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // Wakes the thread up.
        let _ = shutdown(&self.listener, Shutdown::Both);
        if let Some(thread) = self.thread.take() {
            let served = thread.join();
            assert!(thread::panicking() || served.is_ok(), "the service found something wrong");
        }
    }
}

fn open(path: &Path) -> OwnedFd {
    let listener = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
    let listener = listener.expect("a socket");
    bind(&listener, &SocketAddrUnix::new(path).expect("a short path")).expect("a new path");
    set_socket_passcred(&listener, true).expect("a Unix socket");
    listen(&listener, 64).expect("a bound socket");
    listener
}

/// Serves each client on a thread of its own: a signal handler calls while the call that it interrupted is under way.
fn serve(
    listener: &OwnedFd,
    greeting: Greeting,
    answer: impl FnMut(&Received) -> Answer + Send,
    sender: &Sender<Received>,
) {
    let answer = &Mutex::new(answer);
    thread::scope(|scope| {
        for number in 0.. {
            let nonce = 0x1234_5678_9abc_def0 + number;
            let Ok(client) = accept_with(listener, SocketFlags::CLOEXEC) else { return };
            let sender = sender.clone();
            scope.spawn(move || match greeting {
                Greeting::Busy(times) if number < times => say(&client, &BUSY.to_bytes()),
                Greeting::Hello | Greeting::Busy(_) => serve_call(&client, nonce, answer, &sender),
                Greeting::Close => {}
                Greeting::Hang => wait_for_end(&client),
                Greeting::Bytes(bytes) => {
                    say(&client, bytes);
                    wait_for_end(&client);
                }
            });
        }
    });
}

fn serve_call(
    client: &OwnedFd,
    nonce: u64,
    answer: &Mutex<impl FnMut(&Received) -> Answer>,
    sender: &Sender<Received>,
) {
    say(client, &Hello { magic: MAGIC, version: VERSION, nonce }.to_bytes());
    let Some(received) = receive(client) else { return };
    assert_eq!(received.call.nonce, nonce, "the nonce of another connection");
    let answer = answer.lock().expect("no answer panics")(&received);
    let _ = sender.send(received);
    match answer {
        Answer::Reply(reply) => say(client, &reply.to_bytes()),
        Answer::WithDescriptor(reply, descriptor) => say_with(client, &reply.to_bytes(), &descriptor),
        Answer::Close => {}
        Answer::Hang => wait_for_end(client),
        Answer::Bytes(bytes) => say(client, &bytes),
    }
}

/// What a client that went away cannot hear is no fault of the service's.
fn say(client: &OwnedFd, bytes: &[u8]) {
    let _ = send(client, bytes, SendFlags::NOSIGNAL);
}

fn say_with(client: &OwnedFd, bytes: &[u8], descriptor: &OwnedFd) {
    let descriptors = [descriptor.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    assert!(control.push(SendAncillaryMessage::ScmRights(&descriptors)));
    sendmsg(client, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL).expect("a client that waits");
}

/// The call, or nothing when the client went away.
fn receive(client: &OwnedFd) -> Option<Received> {
    let mut bytes = vec![0; MAX_MESSAGE + 1];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmCredentials(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let message = recvmsg(client, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::empty()).ok()?;
    if message.bytes == 0 {
        return None;
    }
    let pid = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmCredentials(credentials) => Some(credentials.pid.as_raw_nonzero().get()),
        _ => None,
    });
    let bytes = &bytes[..message.bytes];
    let call = Call::from_bytes(bytes).expect("a well-formed call");
    Some(Received { pid: pid.expect("credentials"), call, areas: Call::areas(bytes).collect() })
}

/// Reads until the client closes its end.
fn wait_for_end(client: &OwnedFd) {
    let mut bytes = [0; MAX_MESSAGE];
    while rustix::io::read(client, &mut bytes).is_ok_and(|read| read > 0) {}
}
