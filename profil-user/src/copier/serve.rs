//! The copier process: answers requests until the service hangs up.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;
use std::sync::Arc;

use super::wire::{MAX_MESSAGE, Reply, Request};
use super::{BufferPlan, ClientId, portion};
use crate::address_space::{AddressSpace, Device};
use crate::bins::Run;
use crate::jail::confine::{Become, confine};
use crate::jail::socket;
use crate::sink::hazards::Hazards;
use crate::sink::target::{BadBuffer, Loss, TargetBuffer};

/// Arguments of `profil copier`.
#[derive(clap::Args, Clone, Debug)]
pub struct CopierArgs {
    /// The user to become
    uid: u32,
    /// PID of the service
    parent: u32,
}

/// Why a copier ended.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Privileges could not be given up.
    #[error("cannot give up the privileges of a copier")]
    Confine {
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The socket to the service failed.
    #[error("cannot talk to the service: standard input must be its socket")]
    Socket {
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The service sent what no service sends.
    #[error("cannot understand the service")]
    Malformed,
}

/// A client's buffers, in ascending order of their plans' bins.
struct Client {
    plans: Vec<BufferPlan>,
    buffers: Vec<TargetBuffer>,
}

/// Serves the socket that is standard input until the other side closes it.
///
/// # Errors
/// [`ServeError`].
pub fn run(args: &CopierArgs) -> Result<ExitCode, ServeError> {
    confine(Become::User(args.uid), args.parent).map_err(|source| ServeError::Confine { source })?;
    let failed = |source| ServeError::Socket { source };
    // Its program is named `exe` where it was started through /proc/self/exe.
    rustix::thread::set_name(c"profil-copier").map_err(|source| ServeError::Confine { source: source.into() })?;
    let stdin = io::stdin();
    let socket = stdin.as_fd();
    let mut clients = HashMap::new();
    let mut buffer = Box::new([0; MAX_MESSAGE]);
    socket::send(socket, &Reply::Ready.to_bytes(), &[]).map_err(failed)?;
    while let Some(received) = socket::receive(socket, &mut buffer).map_err(failed)? {
        let request = Request::from_bytes(received.bytes).ok_or(ServeError::Malformed)?;
        let reply = answer(&mut clients, request, received.files)?;
        socket::send(socket, &reply.to_bytes(), &[]).map_err(failed)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn answer(clients: &mut HashMap<ClientId, Client>, request: Request, files: Vec<OwnedFd>) -> Result<Reply, ServeError> {
    Ok(match request {
        Request::Open { client, tgid, plans } => {
            let [mem, maps, smaps, mountinfo] = files.try_into().map_err(|_| ServeError::Malformed)?;
            let space = AddressSpace::from_files(tgid, mem, maps);
            match open(space, &Hazards::from_files(smaps, mountinfo), plans) {
                Ok(opened) => {
                    let devices = opened.buffers.iter().flat_map(|buffer| buffer.devices().iter().copied()).collect();
                    clients.insert(client, opened);
                    Reply::Opened { devices }
                }
                Err(bad) => Reply::Refused(bad),
            }
        }
        Request::Resume { client, tgid, plans, devices } => {
            let [mem, maps] = files.try_into().map_err(|_| ServeError::Malformed)?;
            let space = AddressSpace::from_files(tgid, mem, maps);
            match resume(space, plans, &devices) {
                Ok(resumed) => {
                    clients.insert(client, resumed);
                    Reply::Done
                }
                Err(bad) => Reply::Refused(bad),
            }
        }
        Request::Flush { client, runs } => {
            let (written, loss) = flush(clients.get(&client).ok_or(ServeError::Malformed)?, &runs);
            if loss.is_some() {
                clients.remove(&client);
            }
            Reply::Flushed { written, loss }
        }
        Request::Close { client } => {
            clients.remove(&client);
            Reply::Done
        }
    })
}

fn open(space: AddressSpace, hazards: &Hazards, mut plans: Vec<BufferPlan>) -> Result<Client, BadBuffer> {
    plans.sort_by_key(|plan| plan.first_bin);
    let space = Arc::new(space);
    let take = |plan: &BufferPlan| {
        let buffer = TargetBuffer::surveyed(Arc::clone(&space), plan.start, plan.nbins, plan.width)?;
        Ok(buffer.at_limit(plan.at_limit))
    };
    let buffers = plans.iter().map(take).collect::<Result<Vec<TargetBuffer>, BadBuffer>>()?;
    hazards.check(&buffers)?;
    // Those files were opened by PID: they are another's when the process has exec'd in between.
    if space.is_gone() { Err(BadBuffer::Gone) } else { Ok(Client { plans, buffers }) }
}

fn resume(space: AddressSpace, mut plans: Vec<BufferPlan>, devices: &BTreeSet<Device>) -> Result<Client, BadBuffer> {
    plans.sort_by_key(|plan| plan.first_bin);
    let space = Arc::new(space);
    let take = |plan: &BufferPlan| {
        let BufferPlan { start, nbins, width, .. } = *plan;
        let buffer = TargetBuffer::checked_before(Arc::clone(&space), start, nbins, width, devices.clone())?;
        Ok(buffer.at_limit(plan.at_limit))
    };
    let buffers = plans.iter().map(take).collect::<Result<_, BadBuffer>>()?;
    Ok(Client { plans, buffers })
}

/// Adds runs to the buffers; stops at the first that takes no more.
fn flush(client: &Client, runs: &[Run]) -> (u64, Option<Loss>) {
    let mut written = 0;
    for (index, runs) in portion::by_plan(&client.plans, runs) {
        let Some(buffer) = client.buffers.get(index) else { continue };
        let (added, loss) = buffer.add(&runs);
        written += added;
        if loss.is_some() {
            return (written, loss);
        }
    }
    (written, None)
}
