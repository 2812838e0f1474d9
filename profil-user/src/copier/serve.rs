//! The copier process: takes requests from its standard input, a socket, until the service closes it.
//!
//! It has the open files of its clients' memory and no right besides: no capability, no user of its own but nobody, no
//! way to gain any.

use std::collections::HashMap;
use std::io::{self, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};
use rustix::process::{Gid, Resource, Rlimit, Signal, Uid};
use rustix::thread::{CapabilitySet, CapabilitySets};

use super::message::{BufferFault, HEAD_BYTES, Head, Order, Verdict};
use super::{BufferPlan, ClientId};
use crate::address_space::AddressSpace;
use crate::bins::Run;
use crate::sink::target::{BadBuffer, TargetBuffer};

/// The user and group that may do nothing.
const NOBODY: u32 = 65534;

/// Runs a copier to its end.
///
/// # Errors
/// The rights cannot be given up, or the socket breaks in the middle of a frame.
pub fn run(socket: UnixStream) -> io::Result<()> {
    give_up_rights()?;
    let mut copier = Copier { socket, clients: HashMap::new() };
    while copier.serve_one()? {}
    Ok(())
}

/// Keeps nothing but what is open. The memory files of clients need no right once they are open.
fn give_up_rights() -> io::Result<()> {
    let limit = rustix::process::getrlimit(Resource::Nofile).maximum;
    rustix::process::setrlimit(Resource::Nofile, Rlimit { current: limit, maximum: limit })?;
    rustix::thread::set_no_new_privs(true)?;
    if rustix::process::geteuid().is_root() {
        let (user, group) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
        // This process has one thread, whose credentials are all there are.
        rustix::thread::set_thread_groups(&[])?;
        rustix::thread::set_thread_res_gid(group, group, group)?;
        rustix::thread::set_thread_res_uid(user, user, user)?;
    }
    let none = CapabilitySet::empty();
    rustix::thread::set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?;
    // After the change of user, which resets it. Should we be killed while it is stuck in a write, it goes as well.
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    Ok(())
}

struct Copier {
    socket: UnixStream,
    clients: HashMap<ClientId, Vec<(BufferPlan, TargetBuffer)>>,
}

impl Copier {
    /// Serves the next request; whether there was one.
    fn serve_one(&mut self) -> io::Result<bool> {
        let mut bytes = [0; HEAD_BYTES];
        let (length, files) = receive(&self.socket, &mut bytes)?;
        if length == 0 {
            return Ok(false);
        }
        self.socket.read_exact(&mut bytes[length..])?;
        let malformed = || io::Error::from(io::ErrorKind::InvalidData);
        let head = Head::read(&bytes).ok_or_else(malformed)?;
        let mut body = vec![0; head.length as usize];
        self.socket.read_exact(&mut body)?;
        let verdict = match Order::read(&head, &body).ok_or_else(malformed)? {
            Order::Open { tgid, buffers } => {
                let files = <[OwnedFd; AddressSpace::FILES]>::try_from(files).map_err(|_| malformed())?;
                self.open(head.client, AddressSpace::from_files(tgid, files), buffers)
            }
            Order::Add { runs } => self.add(head.client, &runs),
            Order::Close => {
                self.clients.remove(&head.client);
                return Ok(true);
            }
        };
        self.socket.write_all(&verdict.to_bytes(head.client))?;
        Ok(true)
    }

    fn open(&mut self, client: ClientId, space: AddressSpace, buffers: Vec<BufferPlan>) -> Verdict {
        if space.is_gone() {
            return Verdict::Bad(BufferFault::Gone);
        }
        let space = Arc::new(space);
        let open = |plan: BufferPlan| -> Result<(BufferPlan, TargetBuffer), BadBuffer> {
            let BufferPlan { start, nbins, first_bin: _, width, at_limit } = plan;
            Ok((plan, TargetBuffer::new(Arc::clone(&space), start, nbins, width, at_limit)?))
        };
        match buffers.into_iter().map(open).collect() {
            Ok(buffers) => {
                self.clients.insert(client, buffers);
                Verdict::Done
            }
            Err(error) => Verdict::Bad(BufferFault::of(&error)),
        }
    }

    fn add(&mut self, client: ClientId, runs: &[Run]) -> Verdict {
        for (plan, buffer) in self.clients.get(&client).into_iter().flatten() {
            let (_, loss) = buffer.add(&part_of(runs, plan));
            if let Some(loss) = loss {
                self.clients.remove(&client);
                return Verdict::Lost(loss);
            }
        }
        Verdict::Done
    }
}

/// What of the bins of a process goes into one of its buffers, by the buffer's own numbers.
fn part_of(runs: &[Run], plan: &BufferPlan) -> Vec<Run> {
    let (begin, end) = (u64::from(plan.first_bin), u64::from(plan.first_bin) + u64::from(plan.nbins));
    let cut = |run: &Run| {
        let first = u64::from(run.first);
        let (low, high) = (first.max(begin), (first + run.added.len() as u64).min(end));
        let added = run.added.get(low.checked_sub(first)? as usize..high.checked_sub(first)? as usize)?;
        (!added.is_empty()).then(|| Run { first: (low - begin) as u32, added: added.to_vec() })
    };
    runs.iter().filter_map(cut).collect()
}

/// Reads what there is of a head, with the descriptors that come with it; 0 bytes when the service has closed.
fn receive(socket: &UnixStream, bytes: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(AddressSpace::FILES))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut into = [IoSliceMut::new(bytes)];
    let received = loop {
        match rustix::net::recvmsg(socket.as_fd(), &mut into, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
            Err(rustix::io::Errno::INTR) => {}
            received => break received?,
        }
    };
    let mut files = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            files.extend(descriptors);
        }
    }
    Ok((received.bytes, files))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sink::target::{AtLimit, Width};

    #[test]
    fn a_run_over_two_buffers_is_cut_between_them() {
        let plan =
            |first_bin, nbins| BufferPlan { start: 0, nbins, first_bin, width: Width::Two, at_limit: AtLimit::Wrap };
        let runs = [Run { first: 2, added: vec![1, 2, 3, 4] }, Run { first: 9, added: vec![5] }];
        assert_eq!(part_of(&runs, &plan(0, 4)), [Run { first: 2, added: vec![1, 2] }]);
        let rest = [Run { first: 0, added: vec![3, 4] }, Run { first: 5, added: vec![5] }];
        assert_eq!(part_of(&runs, &plan(4, 6)), rest);
        assert_eq!(part_of(&runs, &plan(6, 3)), []);
    }
}
