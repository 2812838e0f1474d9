//! Messages between libprofil.so and the service: one connection of type `SOCK_SEQPACKET` for each call.
//!
//! ```text
//! program                              service
//! connect ───────────────────────────> accept; open the memory of the process that connected
//!         <─────────────────── Hello   a nonce that nobody could know before
//! Call + `Area`s ────────────────────> credentials of the sender are added by the kernel
//!         <─────────────────── Reply   and both sides close
//! ```
//!
//! A service with too many connections says a Reply with `EAGAIN` in place of its Hello, and closes: to be tried again.
//!
//! The nonce is made after the memory was opened. Who sends it back has therefore not exec'd since, and addresses that
//! it names are addresses in that memory: a program that connects and then execs a set-uid image gains nothing.

use crate::limits::MAX_AREAS;

/// First word of each message: `PRFL` in memory order on a little-endian machine.
pub const MAGIC: u32 = u32::from_le_bytes(*b"PRFL");

/// Version of the messages; a service answers others with [`Reply::errno`] `EPROTONOSUPPORT`.
pub const VERSION: u32 = 1;

/// What the service says first.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// [`MAGIC`].
    pub magic: u32,
    /// [`VERSION`].
    pub version: u32,
    /// To be sent back in [`Call::nonce`].
    pub nonce: u64,
}

/// What a call asks for.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallKind {
    /// profil(3): one [`Area`], by [`Call::convention`]. Replaces what was on; may turn profiling off.
    Profil = 1,
    /// sprofil(3): any number of [`Area`]s, whose bins saturate. None turns profiling off.
    Sprofil = 2,
    /// Writes all ticks so far into the buffers and changes nothing, as before a fork(2).
    Flush = 3,
}

impl CallKind {
    /// The kind with a number.
    pub const fn from_number(number: u32) -> Option<CallKind> {
        match number {
            1 => Some(CallKind::Profil),
            2 => Some(CallKind::Sprofil),
            3 => Some(CallKind::Flush),
            _ => None,
        }
    }
}

/// Fixed part of a call; [`Call::areas`] [`Area`]s follow it in the same message.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// [`MAGIC`].
    pub magic: u32,
    /// [`VERSION`].
    pub version: u32,
    /// [`Hello::nonce`] of this connection.
    pub nonce: u64,
    /// [`CallKind`].
    pub kind: u32,
    /// Convention, as its index in [`Convention::ALL`](crate::Convention::ALL); 3 (glibc) for sprofil(3).
    pub convention: u32,
    /// Bytes of a counter: 2 or 4.
    pub width: u32,
    /// Ticks wanted in a second of CPU time; 0 leaves it to the service.
    pub hz: u32,
    /// [`call_flags`].
    pub flags: u32,
    /// Areas that follow: at most [`MAX_AREAS`].
    pub areas: u32,
}

/// Bits of [`Call::flags`].
pub mod call_flags {
    /// The kernel's array is wanted as the buffer itself: answered with [`reply_flags::ZERO_COPY`](super::reply_flags)
    /// and a descriptor, or without both where that cannot be.
    pub const ZERO_COPY: u32 = 1 << 0;
}

/// One buffer and the text it stands for: the arguments of profil(3), or one `struct prof` of sprofil(3).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Area {
    /// Address of the buffer in the caller (AVMA).
    pub buffer: u64,
    /// Size of the buffer, bytes.
    pub bytes: u64,
    /// Lowest profiled address (AVMA).
    pub offset: u64,
    /// Scale, 16.16 fixed point.
    pub scale: u64,
}

/// What the service answers. When it is sent, what was asked for is done.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// [`MAGIC`].
    pub magic: u32,
    /// 0, or the errno that the call is to fail with.
    pub errno: u32,
    /// CPU time between two ticks, ns.
    pub period_ns: u64,
    /// [`reply_flags`].
    pub flags: u32,
    /// Always 0.
    pub reserved: u32,
}

/// Bits of [`Reply::flags`].
pub mod reply_flags {
    /// Profiling is on after the call.
    pub const ON: u32 = 1 << 0;
    /// A descriptor comes with the reply: map it over the buffer.
    pub const ZERO_COPY: u32 = 1 << 1;
}

/// Largest message, bytes.
pub const MAX_MESSAGE: usize = size_of::<Call>() + MAX_AREAS * size_of::<Area>();

impl Hello {
    /// The bytes to send.
    pub fn to_bytes(&self) -> [u8; size_of::<Hello>()] {
        let mut bytes = Writer::new();
        bytes.u32(self.magic).u32(self.version).u64(self.nonce);
        bytes.bytes
    }

    /// Reads a message; `None` when its length or magic is not that of a hello.
    pub fn from_bytes(bytes: &[u8]) -> Option<Hello> {
        let mut fields = Reader::of(bytes, size_of::<Hello>())?;
        let hello = Hello { magic: fields.u32()?, version: fields.u32()?, nonce: fields.u64()? };
        (hello.magic == MAGIC).then_some(hello)
    }
}

impl Call {
    /// The bytes to send, before those of the areas.
    pub fn to_bytes(&self) -> [u8; size_of::<Call>()] {
        let mut bytes = Writer::new();
        bytes.u32(self.magic).u32(self.version).u64(self.nonce);
        bytes.u32(self.kind).u32(self.convention).u32(self.width).u32(self.hz).u32(self.flags).u32(self.areas);
        bytes.bytes
    }

    /// Reads the fixed part of a message, whose length must be what [`Call::areas`] says.
    ///
    /// # Errors
    /// [`MalformedCall`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Call, MalformedCall> {
        let length = bytes.len();
        let fixed = bytes.get(..size_of::<Call>()).ok_or(MalformedCall::Length { length })?;
        let short = MalformedCall::Length { length };
        let mut fields = Reader::of(fixed, size_of::<Call>()).ok_or(short)?;
        let mut word = || fields.u32().ok_or(short);
        let (magic, version) = (word()?, word()?);
        if magic != MAGIC {
            return Err(MalformedCall::Magic { magic });
        }
        if version != VERSION {
            return Err(MalformedCall::Version { version });
        }
        let nonce = fields.u64().ok_or(short)?;
        let mut word = || fields.u32().ok_or(short);
        let call = Call {
            magic,
            version,
            nonce,
            kind: word()?,
            convention: word()?,
            width: word()?,
            hz: word()?,
            flags: word()?,
            areas: word()?,
        };
        if call.areas as usize > MAX_AREAS {
            return Err(MalformedCall::Areas { areas: call.areas });
        }
        if length != size_of::<Call>() + call.areas as usize * size_of::<Area>() {
            return Err(short);
        }
        if CallKind::from_number(call.kind).is_none() {
            return Err(MalformedCall::Kind { kind: call.kind });
        }
        Ok(call)
    }

    /// The areas of a message whose fixed part was read.
    pub fn areas(message: &[u8]) -> impl Iterator<Item = Area> + '_ {
        let areas = message.get(size_of::<Call>()..).unwrap_or_default();
        areas.chunks_exact(size_of::<Area>()).filter_map(Area::from_bytes)
    }
}

impl Area {
    /// The bytes to send.
    pub fn to_bytes(&self) -> [u8; size_of::<Area>()] {
        let mut bytes = Writer::new();
        bytes.u64(self.buffer).u64(self.bytes).u64(self.offset).u64(self.scale);
        bytes.bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Area> {
        let mut fields = Reader::of(bytes, size_of::<Area>())?;
        Some(Area { buffer: fields.u64()?, bytes: fields.u64()?, offset: fields.u64()?, scale: fields.u64()? })
    }
}

impl Reply {
    /// The bytes to send.
    pub fn to_bytes(&self) -> [u8; size_of::<Reply>()] {
        let mut bytes = Writer::new();
        bytes.u32(self.magic).u32(self.errno).u64(self.period_ns).u32(self.flags).u32(self.reserved);
        bytes.bytes
    }

    /// Reads a message; `None` when its length or magic is not that of a reply.
    pub fn from_bytes(bytes: &[u8]) -> Option<Reply> {
        let mut fields = Reader::of(bytes, size_of::<Reply>())?;
        let reply = Reply {
            magic: fields.u32()?,
            errno: fields.u32()?,
            period_ns: fields.u64()?,
            flags: fields.u32()?,
            reserved: fields.u32()?,
        };
        (reply.magic == MAGIC).then_some(reply)
    }
}

/// A message that is no call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MalformedCall {
    /// Its length is not what it must be.
    Length {
        /// Bytes received.
        length: usize,
    },
    /// It does not begin with [`MAGIC`].
    Magic {
        /// What it begins with.
        magic: u32,
    },
    /// It is of another version.
    Version {
        /// Its version.
        version: u32,
    },
    /// It asks for something unknown.
    Kind {
        /// Its kind.
        kind: u32,
    },
    /// It has too many areas.
    Areas {
        /// How many.
        areas: u32,
    },
}

impl core::fmt::Display for MalformedCall {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            MalformedCall::Length { length } => write!(f, "a message of {length} bytes is no call"),
            MalformedCall::Magic { magic } => write!(f, "a message that begins with {magic:#x} is no call"),
            MalformedCall::Version { version } => write!(f, "version {version} of the messages is not {VERSION}"),
            MalformedCall::Kind { kind } => write!(f, "no call has kind {kind}"),
            MalformedCall::Areas { areas } => write!(f, "{areas} areas are more than {MAX_AREAS}"),
        }
    }
}

impl core::error::Error for MalformedCall {}

/// Integers one after another, in the machine's byte order.
struct Writer<const N: usize> {
    bytes: [u8; N],
    at: usize,
}

impl<const N: usize> Writer<N> {
    fn new() -> Writer<N> {
        Writer { bytes: [0; N], at: 0 }
    }

    fn put(&mut self, value: &[u8]) -> &mut Self {
        if let Some(place) = self.bytes.get_mut(self.at..self.at + value.len()) {
            place.copy_from_slice(value);
        }
        self.at += value.len();
        self
    }

    fn u32(&mut self, value: u32) -> &mut Self {
        self.put(&value.to_ne_bytes())
    }

    fn u64(&mut self, value: u64) -> &mut Self {
        self.put(&value.to_ne_bytes())
    }
}

/// Takes integers off a message.
struct Reader<'m> {
    rest: &'m [u8],
}

impl<'m> Reader<'m> {
    fn of(message: &'m [u8], length: usize) -> Option<Reader<'m>> {
        (message.len() == length).then_some(Reader { rest: message })
    }

    fn u32(&mut self) -> Option<u32> {
        let (value, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(u32::from_ne_bytes(*value))
    }

    fn u64(&mut self) -> Option<u64> {
        let (value, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(u64::from_ne_bytes(*value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALL: Call = Call {
        magic: MAGIC,
        version: VERSION,
        nonce: 7,
        kind: 1,
        convention: 3,
        width: 2,
        hz: 100,
        flags: 0,
        areas: 1,
    };
    const AREA: Area = Area { buffer: 0x1000, bytes: 512, offset: 0x40_0000, scale: 65_536 };
    const LENGTH: usize = size_of::<Call>() + size_of::<Area>();

    fn message(call: Call) -> [u8; LENGTH] {
        let mut message = [0; LENGTH];
        message[..size_of::<Call>()].copy_from_slice(&call.to_bytes());
        message[size_of::<Call>()..].copy_from_slice(&AREA.to_bytes());
        message
    }

    #[test]
    fn messages_have_no_padding() {
        assert_eq!((size_of::<Hello>(), size_of::<Call>()), (16, 40));
        assert_eq!((size_of::<Area>(), size_of::<Reply>()), (32, 24));
    }

    #[test]
    fn a_message_reads_as_it_was_written() {
        let hello = Hello { magic: MAGIC, version: VERSION, nonce: u64::MAX - 1 };
        assert_eq!(Hello::from_bytes(&hello.to_bytes()), Some(hello));
        let reply = Reply { magic: MAGIC, errno: 14, period_ns: 10_000_000, flags: 1, reserved: 0 };
        assert_eq!(Reply::from_bytes(&reply.to_bytes()), Some(reply));
        assert_eq!(Call::from_bytes(&message(CALL)), Ok(CALL));
        assert!(Call::areas(&message(CALL)).eq([AREA]));
    }

    #[test]
    fn a_message_of_any_other_length_is_refused() {
        for length in 0..LENGTH {
            assert_eq!(Call::from_bytes(&message(CALL)[..length]), Err(MalformedCall::Length { length }));
        }
        let more = Call { areas: 2, ..CALL };
        assert_eq!(Call::from_bytes(&message(more)), Err(MalformedCall::Length { length: LENGTH }));
    }

    #[test]
    fn a_message_with_a_field_out_of_range_is_refused() {
        let read = |call| Call::from_bytes(&message(call)).expect_err("a malformed call");
        assert_eq!(read(Call { magic: 1, ..CALL }), MalformedCall::Magic { magic: 1 });
        assert_eq!(read(Call { version: 2, ..CALL }), MalformedCall::Version { version: 2 });
        assert_eq!(read(Call { kind: 9, ..CALL }), MalformedCall::Kind { kind: 9 });
        assert_eq!(read(Call { areas: u32::MAX, ..CALL }), MalformedCall::Areas { areas: u32::MAX });
    }
}
