//! Messages between the service and a copier, in the byte order of the machine that both run on.

use std::collections::BTreeSet;
use std::io;

use super::{BufferPlan, ClientId};
use crate::address_space::{AddressSpaceError, Device};
use crate::bins::Run;
use crate::sink::target::{AtLimit, BadBuffer, Loss, Width};

/// Largest message, bytes.
pub use crate::jail::socket::MAX_MESSAGE;

/// Words of runs in one message, which leaves room for what comes before them.
pub const MAX_WORDS: usize = MAX_MESSAGE / 4 - 16;

/// Bytes of a plan.
const PLAN_BYTES: usize = 32;

/// Bytes of a device.
const DEVICE_BYTES: usize = 8;

/// Most buffers in one message; the other half of it is for devices, of which a buffer seldom has one.
pub const MAX_BUFFERS: usize = MAX_MESSAGE / 2 / PLAN_BYTES;

/// Most devices in one message.
const MAX_DEVICES: usize = MAX_MESSAGE / 2 / DEVICE_BYTES - 8;

/// What the service asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Check buffers and take them; mem, maps, smaps and mountinfo of the process come with it.
    Open { client: ClientId, tgid: u32, plans: Vec<BufferPlan> },
    /// Take buffers that an earlier copier checked; mem and maps come with it.
    Resume { client: ClientId, tgid: u32, plans: Vec<BufferPlan>, devices: BTreeSet<Device> },
    /// Add bins.
    Flush { client: ClientId, runs: Vec<Run> },
    /// Forget a client.
    Close { client: ClientId },
}

/// What a copier answers.
#[derive(Debug)]
pub enum Reply {
    /// It has started.
    Ready,
    /// The buffers are taken: no file under them is of another device.
    Opened { devices: BTreeSet<Device> },
    /// The buffers are refused.
    Refused(BadBuffer),
    /// That many ticks were added; with a loss, the client is forgotten.
    Flushed { written: u64, loss: Option<Loss> },
    /// The client is taken again, or forgotten.
    Done,
}

impl Request {
    /// The bytes to send.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Writer::default();
        match self {
            Request::Open { client, tgid, plans } => {
                bytes.u32(1).u32(*tgid).u64(client.0).plans(plans);
            }
            Request::Resume { client, tgid, plans, devices } => {
                bytes.u32(2).u32(*tgid).u64(client.0).plans(plans).devices(devices);
            }
            Request::Flush { client, runs } => {
                bytes.u32(3).u32(0).u64(client.0);
                for run in runs {
                    bytes.u32(run.first).u32(run.added.len() as u32);
                    run.added.iter().for_each(|added| {
                        bytes.u32(*added);
                    });
                }
            }
            Request::Close { client } => {
                bytes.u32(4).u32(0).u64(client.0);
            }
        }
        bytes.0
    }

    /// Reads a message; `None` when it is not one.
    pub fn from_bytes(bytes: &[u8]) -> Option<Request> {
        let mut fields = Reader(bytes);
        let (kind, tgid, client) = (fields.u32()?, fields.u32()?, ClientId(fields.u64()?));
        let request = match kind {
            1 => Request::Open { client, tgid, plans: fields.plans()? },
            2 => Request::Resume { client, tgid, plans: fields.plans()?, devices: fields.devices()? },
            3 => {
                let mut runs = Vec::new();
                while !fields.0.is_empty() {
                    let (first, length) = (fields.u32()?, fields.u32()?);
                    let added = fields.items(length, 4, Reader::u32)?;
                    runs.push(Run { first, added });
                }
                Request::Flush { client, runs }
            }
            4 => Request::Close { client },
            _ => return None,
        };
        fields.0.is_empty().then_some(request)
    }
}

impl Reply {
    /// The bytes to send.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Writer::default();
        match self {
            Reply::Ready => {
                bytes.u32(1);
            }
            // No set of so many devices is worth serving: without them, the buffer takes nothing after a restart.
            Reply::Opened { devices } if devices.len() > MAX_DEVICES => {
                bytes.u32(2).devices(&BTreeSet::new());
            }
            Reply::Opened { devices } => {
                bytes.u32(2).devices(devices);
            }
            Reply::Refused(bad) => {
                let (kind, a, b) = bad_fields(bad);
                bytes.u32(3).u32(kind).u64(a).u64(b);
            }
            Reply::Flushed { written, loss } => {
                bytes.u32(4).u32(loss.map_or(0, loss_number)).u64(*written);
            }
            Reply::Done => {
                bytes.u32(5);
            }
        }
        bytes.0
    }

    /// Reads a message about a process; `None` when it is not one.
    pub fn from_bytes(bytes: &[u8], tgid: u32) -> Option<Reply> {
        let mut fields = Reader(bytes);
        let reply = match fields.u32()? {
            1 => Reply::Ready,
            2 => Reply::Opened { devices: fields.devices()? },
            3 => Reply::Refused(bad_buffer(fields.u32()?, fields.u64()?, fields.u64()?, tgid)?),
            4 => {
                let loss = match fields.u32()? {
                    0 => None,
                    number => Some(*LOSSES.get(number as usize - 1)?),
                };
                Reply::Flushed { written: fields.u64()?, loss }
            }
            5 => Reply::Done,
            _ => return None,
        };
        fields.0.is_empty().then_some(reply)
    }
}

/// Losses by number, from 1; a copier does not tell of [`Loss::Stalled`].
const LOSSES: [Loss; 7] =
    [Loss::Unmapped, Loss::ReadOnly, Loss::Shared, Loss::Foreign, Loss::Refused, Loss::Unknown, Loss::Gone];

fn loss_number(loss: Loss) -> u32 {
    let index = LOSSES.iter().position(|known| *known == loss);
    // One that is not in the list is as good as unknown.
    index.map_or(6, |index| index as u32 + 1)
}

fn bad_fields(bad: &BadBuffer) -> (u32, u64, u64) {
    let errno = |source: &io::Error| u64::from(source.raw_os_error().unwrap_or(libc::EIO).unsigned_abs());
    match bad {
        BadBuffer::Unmapped { start, end } => (1, *start, *end),
        BadBuffer::ReadOnly { start, end } => (2, *start, *end),
        BadBuffer::Shared { start, end } => (3, *start, *end),
        BadBuffer::Userfaultfd { start, end } => (4, *start, *end),
        BadBuffer::Fuse { start, end } => (5, *start, *end),
        BadBuffer::UnknownFile { start, end } => (6, *start, *end),
        BadBuffer::Gone => (7, 0, 0),
        BadBuffer::Wraps { start, bytes } => (8, *start, *bytes),
        BadBuffer::Maps(AddressSpaceError::Maps { source, .. }) => (9, errno(source), 0),
        BadBuffer::Maps(_) => (9, u64::from(libc::EIO.unsigned_abs()), 0),
        BadBuffer::Hazards { source } => (10, errno(source), 0),
    }
}

fn bad_buffer(kind: u32, a: u64, b: u64, tgid: u32) -> Option<BadBuffer> {
    let source = || i32::try_from(a).map_or(io::ErrorKind::Other.into(), io::Error::from_raw_os_error);
    Some(match kind {
        1 => BadBuffer::Unmapped { start: a, end: b },
        2 => BadBuffer::ReadOnly { start: a, end: b },
        3 => BadBuffer::Shared { start: a, end: b },
        4 => BadBuffer::Userfaultfd { start: a, end: b },
        5 => BadBuffer::Fuse { start: a, end: b },
        6 => BadBuffer::UnknownFile { start: a, end: b },
        7 => BadBuffer::Gone,
        8 => BadBuffer::Wraps { start: a, bytes: b },
        9 => BadBuffer::Maps(AddressSpaceError::Maps { tgid, source: source() }),
        10 => BadBuffer::Hazards { source: source() },
        _ => return None,
    })
}

#[derive(Default)]
struct Writer(Vec<u8>);

impl Writer {
    fn u32(&mut self, number: u32) -> &mut Writer {
        self.0.extend(number.to_ne_bytes());
        self
    }

    fn u64(&mut self, number: u64) -> &mut Writer {
        self.0.extend(number.to_ne_bytes());
        self
    }

    fn plans(&mut self, plans: &[BufferPlan]) -> &mut Writer {
        self.u32(plans.len() as u32);
        for BufferPlan { start, nbins, first_bin, width, at_limit } in plans {
            self.u64(*start).u32(*nbins).u32(*first_bin).u32(width.bytes());
            self.u32(u32::from(*at_limit == AtLimit::Saturate)).u64(0);
        }
        self
    }

    fn devices(&mut self, devices: &BTreeSet<Device>) -> &mut Writer {
        self.u32(devices.len() as u32);
        for (major, minor) in devices {
            self.u32(*major).u32(*minor);
        }
        self
    }
}

/// What is left to read of a message.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn u32(&mut self) -> Option<u32> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_ne_bytes(*number))
    }

    fn u64(&mut self) -> Option<u64> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_ne_bytes(*number))
    }

    /// Reads `length` items of so many bytes each; makes no room for more than are there.
    fn items<T, C: FromIterator<T>>(
        &mut self,
        length: u32,
        bytes: usize,
        mut read: impl FnMut(&mut Self) -> Option<T>,
    ) -> Option<C> {
        if self.0.len() / bytes < length as usize {
            return None;
        }
        (0..length).map(|_| read(self)).collect()
    }

    fn plans(&mut self) -> Option<Vec<BufferPlan>> {
        let length = self.u32()?;
        self.items(length, PLAN_BYTES, |fields| {
            let (start, nbins, first_bin) = (fields.u64()?, fields.u32()?, fields.u32()?);
            let width = match fields.u32()? {
                2 => Width::Two,
                4 => Width::Four,
                _ => return None,
            };
            let at_limit = match fields.u32()? {
                0 => AtLimit::Wrap,
                1 => AtLimit::Saturate,
                _ => return None,
            };
            (fields.u64()? == 0).then_some(BufferPlan { start, nbins, first_bin, width, at_limit })
        })
    }

    fn devices(&mut self) -> Option<BTreeSet<Device>> {
        let length = self.u32()?;
        self.items(length, DEVICE_BYTES, |fields| Some((fields.u32()?, fields.u32()?)))
    }
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;
