//! What a service and its copiers say to each other, over a socket that nobody else has.
//!
//! A frame is a head of 24 bytes (kind, length of the body, client, a number) and the body. A request is answered by a
//! head alone, but for [`Request::Close`], which is not answered.

use std::fmt;

use super::{BufferPlan, ClientId};
use crate::bins::Run;
use crate::sink::target::{AtLimit, BadBuffer, Loss, Width};

/// Bytes of a head.
pub(super) const HEAD_BYTES: usize = 24;

const OPEN: u32 = 1;
const ADD: u32 = 2;
const CLOSE: u32 = 3;

/// Bytes of a buffer plan: start, bins, first bin, and width with what happens at the limit.
const PLAN_BYTES: usize = 8 + 4 + 4 + 4;

/// A request, as the service has it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Request<'r> {
    /// Take a client on; its address space comes with the frame.
    Open { client: ClientId, tgid: u32, buffers: &'r [BufferPlan] },
    /// Add bins to the buffers of a client.
    Add { client: ClientId, runs: &'r [Run] },
    /// Forget a client.
    Close { client: ClientId },
}

impl Request<'_> {
    /// The frame to send.
    pub(super) fn to_bytes(self) -> Vec<u8> {
        let mut body = Vec::new();
        let (kind, client, number) = match self {
            Request::Open { client, tgid, buffers } => {
                for BufferPlan { start, nbins, first_bin, width, at_limit } in buffers {
                    body.extend_from_slice(&start.to_ne_bytes());
                    body.extend_from_slice(&nbins.to_ne_bytes());
                    body.extend_from_slice(&first_bin.to_ne_bytes());
                    let saturates = u32::from(*at_limit == AtLimit::Saturate);
                    body.extend_from_slice(&(width.bytes() | saturates << 8).to_ne_bytes());
                }
                (OPEN, client, tgid)
            }
            Request::Add { client, runs } => {
                for Run { first, added } in runs {
                    body.extend_from_slice(&first.to_ne_bytes());
                    body.extend_from_slice(&(added.len() as u32).to_ne_bytes());
                    body.extend(added.iter().flat_map(|added| added.to_ne_bytes()));
                }
                (ADD, client, 0)
            }
            Request::Close { client } => (CLOSE, client, 0),
        };
        let mut bytes = Head { kind, length: body.len() as u32, client, number }.to_bytes().to_vec();
        bytes.append(&mut body);
        bytes
    }
}

/// A request, as a copier has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Open { tgid: u32, buffers: Vec<BufferPlan> },
    Add { runs: Vec<Run> },
    Close,
}

impl Order {
    /// Reads the body of a frame; `None` when it is none.
    pub(super) fn read(head: &Head, body: &[u8]) -> Option<Order> {
        let mut fields = Fields(body);
        match head.kind {
            OPEN if body.len().is_multiple_of(PLAN_BYTES) => {
                let mut buffers = Vec::new();
                while !fields.0.is_empty() {
                    let (start, nbins, first_bin, kind) = (fields.u64()?, fields.u32()?, fields.u32()?, fields.u32()?);
                    let width = if kind & 0xff == 4 { Width::Four } else { Width::Two };
                    let at_limit = if kind >> 8 == 0 { AtLimit::Wrap } else { AtLimit::Saturate };
                    buffers.push(BufferPlan { start, nbins, first_bin, width, at_limit });
                }
                Some(Order::Open { tgid: head.number, buffers })
            }
            ADD => {
                let mut runs = Vec::new();
                while !fields.0.is_empty() {
                    let (first, length) = (fields.u32()?, fields.u32()? as usize);
                    let (added, rest) = fields.0.split_at_checked(length.checked_mul(4)?)?;
                    let added =
                        added.chunks_exact(4).filter_map(|bytes| Some(u32::from_ne_bytes(bytes.try_into().ok()?)));
                    runs.push(Run { first, added: added.collect() });
                    fields = Fields(rest);
                }
                Some(Order::Add { runs })
            }
            CLOSE if body.is_empty() => Some(Order::Close),
            _ => None,
        }
    }
}

/// The beginning of each frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) kind: u32,
    /// Bytes of the body.
    pub(super) length: u32,
    pub(super) client: ClientId,
    pub(super) number: u32,
}

impl Head {
    pub(super) fn to_bytes(self) -> [u8; HEAD_BYTES] {
        let Head { kind, length, client, number } = self;
        let mut bytes = [0; HEAD_BYTES];
        bytes[..4].copy_from_slice(&kind.to_ne_bytes());
        bytes[4..8].copy_from_slice(&length.to_ne_bytes());
        bytes[8..16].copy_from_slice(&client.0.to_ne_bytes());
        bytes[16..20].copy_from_slice(&number.to_ne_bytes());
        bytes
    }

    pub(super) fn read(bytes: &[u8; HEAD_BYTES]) -> Option<Head> {
        let mut fields = Fields(bytes);
        let (kind, length) = (fields.u32()?, fields.u32()?);
        Some(Head { kind, length, client: ClientId(fields.u64()?), number: fields.u32()? })
    }
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is done.
    Done,
    /// The buffers are bad.
    Bad(BufferFault),
    /// A buffer takes no more.
    Lost(Loss),
}

impl Verdict {
    /// The answer to a request of a client.
    pub(super) fn to_bytes(self, client: ClientId) -> [u8; HEAD_BYTES] {
        let (kind, number) = match self {
            Verdict::Done => (0, 0),
            Verdict::Bad(fault) => (1, BufferFault::ALL.iter().position(|known| *known == fault).unwrap_or_default()),
            Verdict::Lost(loss) => (2, LOSSES.iter().position(|known| *known == loss).unwrap_or_default()),
        };
        Head { kind, length: 0, client, number: number as u32 }.to_bytes()
    }

    /// Reads an answer; `None` when it is none to this client's request.
    pub(super) fn read(bytes: &[u8; HEAD_BYTES], client: ClientId) -> Option<Verdict> {
        let head = Head::read(bytes).filter(|head| head.client == client)?;
        let number = head.number as usize;
        match head.kind {
            0 => Some(Verdict::Done),
            1 => BufferFault::ALL.get(number).copied().map(Verdict::Bad),
            2 => LOSSES.get(number).copied().map(Verdict::Lost),
            _ => None,
        }
    }
}

/// Losses by their numbers.
const LOSSES: [Loss; 7] =
    [Loss::Unknown, Loss::Unmapped, Loss::ReadOnly, Loss::Shared, Loss::Refused, Loss::Gone, Loss::Stalled];

/// What is wrong with a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufferFault {
    /// The maps of the process cannot be read.
    Unreadable,
    /// Part of it is not mapped.
    Unmapped,
    /// Part of it is read-only.
    ReadOnly,
    /// Part of it is shared memory.
    Shared,
    /// User space serves page faults in it.
    Userfaultfd,
    /// The process is gone.
    Gone,
    /// It runs over the end of the address space.
    Wraps,
}

impl BufferFault {
    const ALL: [BufferFault; 7] = [
        BufferFault::Unreadable,
        BufferFault::Unmapped,
        BufferFault::ReadOnly,
        BufferFault::Shared,
        BufferFault::Userfaultfd,
        BufferFault::Gone,
        BufferFault::Wraps,
    ];

    pub(super) fn of(error: &BadBuffer) -> BufferFault {
        match error {
            BadBuffer::Unmapped { .. } => BufferFault::Unmapped,
            BadBuffer::ReadOnly { .. } => BufferFault::ReadOnly,
            BadBuffer::Shared { .. } => BufferFault::Shared,
            BadBuffer::Userfaultfd { .. } => BufferFault::Userfaultfd,
            BadBuffer::Gone => BufferFault::Gone,
            BadBuffer::Wraps { .. } => BufferFault::Wraps,
            BadBuffer::Maps(_) | BadBuffer::Flags { .. } => BufferFault::Unreadable,
        }
    }
}

impl fmt::Display for BufferFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BufferFault::Unreadable => "the maps of the process cannot be read",
            BufferFault::Unmapped => "a buffer is not all mapped",
            BufferFault::ReadOnly => "a buffer is not all writable",
            BufferFault::Shared => "a buffer lies in shared memory",
            BufferFault::Userfaultfd => "a buffer is served by userfaultfd",
            BufferFault::Gone => "the process has exited or runs another program",
            BufferFault::Wraps => "a buffer runs over the end of the address space",
        })
    }
}

/// Integers one after another, in the machine's byte order.
struct Fields<'f>(&'f [u8]);

impl Fields<'_> {
    fn u32(&mut self) -> Option<u32> {
        let (value, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_ne_bytes(*value))
    }

    fn u64(&mut self) -> Option<u64> {
        let (value, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_ne_bytes(*value))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CLIENT: ClientId = ClientId(7);

    fn read(bytes: &[u8]) -> Option<(ClientId, Order)> {
        let (head, body) = bytes.split_first_chunk()?;
        let head = Head::read(head)?;
        assert_eq!(head.length as usize, body.len());
        Some((head.client, Order::read(&head, body)?))
    }

    #[test]
    fn a_request_reads_as_it_was_written() {
        let plan =
            BufferPlan { start: 0x1000, nbins: 9, first_bin: 3, width: Width::Four, at_limit: AtLimit::Saturate };
        let buffers = vec![plan, BufferPlan { width: Width::Two, at_limit: AtLimit::Wrap, ..plan }];
        let open = Request::Open { client: CLIENT, tgid: 12, buffers: &buffers }.to_bytes();
        assert_eq!(read(&open), Some((CLIENT, Order::Open { tgid: 12, buffers: buffers.clone() })));
        let runs = vec![Run { first: 1, added: vec![1, u32::MAX] }, Run { first: 9, added: vec![7] }];
        let add = Request::Add { client: CLIENT, runs: &runs }.to_bytes();
        assert_eq!(read(&add), Some((CLIENT, Order::Add { runs: runs.clone() })));
        assert_eq!(read(&Request::Close { client: CLIENT }.to_bytes()), Some((CLIENT, Order::Close)));
    }

    #[test]
    fn a_verdict_reads_as_it_was_written_and_only_for_its_client() {
        let bad = BufferFault::ALL.map(Verdict::Bad);
        let lost = LOSSES.map(Verdict::Lost);
        for verdict in bad.into_iter().chain(lost).chain([Verdict::Done]) {
            let bytes = verdict.to_bytes(CLIENT);
            assert_eq!(Verdict::read(&bytes, CLIENT), Some(verdict));
            assert_eq!(Verdict::read(&bytes, ClientId(8)), None);
        }
    }

    proptest! {
        #[test]
        fn no_bytes_at_all_bring_a_copier_down(kind in 0u32..5, body in proptest::collection::vec(any::<u8>(), 0..200)) {
            let head = Head { kind, length: body.len() as u32, client: CLIENT, number: 0 };
            if let Some(Order::Add { runs }) = Order::read(&head, &body) {
                prop_assert_eq!(runs.iter().map(|run| 8 + 4 * run.added.len()).sum::<usize>(), body.len());
            }
        }
    }
}
