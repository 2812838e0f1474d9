//! The process that reads symbols: answers requests until profil hangs up.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::ExitCode;

use super::span_wire;
use super::wire::{Companions, MAX_MESSAGE, Reply, Request, function_replies, replies};
use crate::jail::confine::{Become, confine};
use crate::jail::{filter, socket};
use crate::symbols::file_map::FileMap;
use crate::symbols::symbolizer::{Files, MappedElf};

/// Arguments of `profil reader`.
#[derive(clap::Args, Clone, Debug)]
pub struct ReaderArgs {
    /// PID of the profil that asks
    parent: u32,
}

/// Why it ended.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Privileges could not be given up.
    #[error("cannot give up the privileges of a reader of symbols")]
    Confine {
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The socket failed.
    #[error("cannot talk to profil: standard input must be its socket")]
    Socket {
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// What came is no request.
    #[error("cannot understand profil")]
    Malformed,
}

/// Serves the socket that is standard input until the other side closes it.
///
/// # Errors
/// [`ServeError`].
pub fn run(args: &ReaderArgs) -> Result<ExitCode, ServeError> {
    let failed = |source| ServeError::Confine { source };
    confine(Become::Nobody, args.parent).map_err(failed)?;
    rustix::thread::set_name(c"profil-reader").map_err(|source| failed(source.into()))?;
    filter::limit().map_err(failed)?;
    serve(io::stdin().as_fd())?;
    Ok(ExitCode::SUCCESS)
}

/// Serves a socket until the other side closes it.
///
/// # Errors
/// [`ServeError`], but for privileges.
pub(super) fn serve(socket: BorrowedFd<'_>) -> Result<(), ServeError> {
    let failed = |source| ServeError::Socket { source };
    let send = |reply: Reply| socket::send(socket, &reply.to_bytes(), &[]).map_err(failed);
    let mut buffer = Box::new([0; MAX_MESSAGE]);
    send(Reply::Ready)?;
    while let Some(received) = socket::receive(socket, &mut buffer).map_err(failed)? {
        let (request, files) = (Request::from_bytes(received.bytes), received.files);
        match request.ok_or(ServeError::Malformed)? {
            Request::Name { companions, count } => {
                let files = Given { companions, files };
                answer(socket, &mut buffer, files, count, |files, svmas| replies(files.name(svmas)))?;
            }
            Request::Functions { companions, count } => {
                let files = Given { companions, files };
                answer(socket, &mut buffer, files, count, |files, svmas| function_replies(files.functions(svmas)))?;
            }
            Request::Spans { companions, count } => {
                let files = Given { companions, files };
                answer(socket, &mut buffer, files, count, |files, svmas| span_wire::replies(files.spans(svmas)))?;
            }
            Request::Find { name } => {
                let object = files.into_iter().next().and_then(mapped);
                send(match object {
                    Some(object) => Reply::Found(Files { object, debug: None, shared: None }.symbol(&name)),
                    None => Reply::NotElf,
                })?;
            }
            Request::Addresses(_) => return Err(ServeError::Malformed),
        }
    }
    Ok(())
}

/// Files as they came.
struct Given {
    companions: Companions,
    files: Vec<OwnedFd>,
}

/// Takes the addresses in, and sends what the files say of them.
fn answer<R: Iterator<Item = Reply>>(
    socket: BorrowedFd<'_>,
    buffer: &mut [u8; MAX_MESSAGE],
    given: Given,
    count: u32,
    ask: impl FnOnce(&Files, &[u64]) -> R,
) -> Result<(), ServeError> {
    let failed = |source| ServeError::Socket { source };
    let Given { companions: Companions { debug, shared }, files } = given;
    let mut files = files.into_iter();
    let mut next = |wanted: bool| wanted.then(|| files.next().ok_or(ServeError::Malformed)).transpose();
    let (object, debug, shared) = (next(true)?, next(debug)?, next(shared)?);
    let mut svmas = Vec::new();
    while svmas.len() < count as usize {
        let more = socket::receive(socket, buffer).map_err(failed)?.ok_or(ServeError::Malformed)?;
        match Request::from_bytes(more.bytes) {
            Some(Request::Addresses(more)) if !more.is_empty() => svmas.extend(more),
            _ => return Err(ServeError::Malformed),
        }
    }
    let send = |reply: Reply| socket::send(socket, &reply.to_bytes(), &[]).map_err(failed);
    let (debug, shared) = (debug.and_then(mapped), shared.and_then(mapped));
    match object.and_then(mapped) {
        Some(object) => ask(&Files { object, debug, shared }, &svmas).try_for_each(send),
        None => send(Reply::NotElf),
    }
}

fn mapped(file: OwnedFd) -> Option<MappedElf> {
    MappedElf::new(FileMap::new(&File::from(file)).ok()?).ok()
}
