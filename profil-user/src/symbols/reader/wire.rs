//! Messages between profil and the process that reads symbols, in the byte order of the machine that both run on.
//!
//! A request is one message, with its files, and then as many as its addresses take. The answer to it is any number of
//! frames, in the order of the addresses, and then what is to be said of all. Whoever answers is not trusted: an answer
//! is taken as far as it is one, and within limits.

use super::span_wire;
use crate::profile::Frame;
use crate::symbols::dwarf::DEPTH_LIMIT;
use crate::symbols::source_spans::Span;
use crate::symbols::symbol_table::Symbol;
use crate::symbols::symbolizer::{NamedCode, Names, Unnamed};

/// Largest message, bytes.
pub use crate::jail::socket::MAX_MESSAGE;

/// Addresses in one message.
pub const MAX_ADDRESSES: usize = MAX_MESSAGE / 8 - 1;
/// Most addresses that are asked for at once; a profile of so many places is no profile.
pub const ADDRESSES_LIMIT: u32 = 1 << 24;
/// Longest name and longest path, bytes.
pub(super) const TEXT_LIMIT: usize = 16 * 1024;
/// Most bytes of text in one answer.
pub(super) const ANSWER_LIMIT: usize = 512 << 20;

/// Which files come with a request; the object itself always does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Companions {
    /// Its separate debug information.
    pub debug: bool,
    /// What dwz(1) moved out of that.
    pub shared: bool,
}

/// What profil asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Name so many addresses, which follow.
    Name {
        /// Files that come with it.
        companions: Companions,
        /// How many.
        count: u32,
    },
    /// Find the functions around so many addresses, which follow, by the symbol tables.
    Functions {
        /// Files that come with it.
        companions: Companions,
        /// How many.
        count: u32,
    },
    /// Tell where the functions around so many addresses, which follow, are in the source.
    Spans {
        /// Files that come with it.
        companions: Companions,
        /// How many.
        count: u32,
    },
    /// The next of the addresses (SVMA).
    Addresses(Vec<u64>),
    /// Find a function or data object by name.
    Find {
        /// The name, as the table has it.
        name: String,
    },
}

/// What the reader answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// It has given up what it does not need.
    Ready,
    /// The next frames, each with the index of its address.
    Frames(Vec<(u32, Frame)>),
    /// The next functions, each with the index of its address.
    Functions(Vec<(u32, NamedCode)>),
    /// The next spans.
    Spans(Vec<Span>),
    /// That was all.
    Done,
    /// That was all; why the addresses without a frame have none.
    Named(Option<Unnamed>),
    /// The symbol.
    Found(Option<Symbol>),
    /// The file cannot be used.
    NotElf,
}

impl Request {
    /// The bytes to send.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        match self {
            Request::Name { companions, count } => put_question(&mut bytes, 1, *companions, *count),
            Request::Functions { companions, count } => put_question(&mut bytes, 4, *companions, *count),
            Request::Spans { companions, count } => put_question(&mut bytes, 5, *companions, *count),
            Request::Addresses(svmas) => {
                put(&mut bytes, 2);
                svmas.iter().for_each(|svma| bytes.extend(svma.to_ne_bytes()));
            }
            Request::Find { name } => {
                put(&mut bytes, 3);
                bytes.extend(name.as_bytes());
            }
        }
        bytes
    }

    /// Reads a message; `None` when it is not one.
    pub fn from_bytes(bytes: &[u8]) -> Option<Request> {
        let mut rest = bytes;
        Some(match number(&mut rest)? {
            kind @ (1 | 4 | 5) => {
                let (files, count) = (number(&mut rest)?, number(&mut rest)?);
                if files > 3 || count > ADDRESSES_LIMIT || !rest.is_empty() {
                    return None;
                }
                let companions = Companions { debug: files & 1 != 0, shared: files & 2 != 0 };
                match kind {
                    1 => Request::Name { companions, count },
                    4 => Request::Functions { companions, count },
                    _ => Request::Spans { companions, count },
                }
            }
            2 => {
                let (svmas, []) = rest.as_chunks() else { return None };
                Request::Addresses(svmas.iter().map(|svma| u64::from_ne_bytes(*svma)).collect())
            }
            3 => Request::Find { name: std::str::from_utf8(rest).ok()?.to_owned() },
            _ => return None,
        })
    }
}

impl Reply {
    /// The bytes to send.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        match self {
            Reply::Ready => put(&mut bytes, 1),
            Reply::Frames(frames) => {
                put(&mut bytes, 2);
                frames.iter().for_each(|(index, frame)| put_frame(&mut bytes, *index, frame));
            }
            Reply::Named(unnamed) => {
                put(&mut bytes, 3);
                put(&mut bytes, unnamed.map_or(0, unnamed_number));
            }
            Reply::Found(symbol) => {
                put(&mut bytes, 4);
                if let Some(Symbol { svma, size }) = symbol {
                    bytes.extend(svma.to_ne_bytes());
                    bytes.extend(size.to_ne_bytes());
                }
            }
            Reply::NotElf => put(&mut bytes, 5),
            Reply::Functions(functions) => {
                put(&mut bytes, 6);
                for (index, NamedCode { name, svmas }) in functions {
                    put(&mut bytes, *index);
                    bytes.extend(svmas.start.to_ne_bytes());
                    bytes.extend(svmas.end.to_ne_bytes());
                    put_text(&mut bytes, Some(name));
                }
            }
            Reply::Spans(spans) => {
                put(&mut bytes, 7);
                span_wire::put(&mut bytes, spans);
            }
            Reply::Done => put(&mut bytes, 8),
        }
        bytes
    }

    /// Reads a message; `None` when it is not one.
    pub fn from_bytes(bytes: &[u8]) -> Option<Reply> {
        let mut rest = bytes;
        let reply = match number(&mut rest)? {
            1 => Reply::Ready,
            // None of none: each message brings an answer on, so that there is an end to them.
            2 if !rest.is_empty() => {
                let mut frames = Vec::new();
                while !rest.is_empty() {
                    frames.push(frame(&mut rest)?);
                }
                Reply::Frames(frames)
            }
            3 => Reply::Named(match number(&mut rest)? {
                0 => None,
                number => Some(*UNNAMED.get(number as usize - 1)?),
            }),
            4 if rest.is_empty() => Reply::Found(None),
            4 => Reply::Found(Some(Symbol { svma: wide(&mut rest)?, size: wide(&mut rest)? })),
            5 => Reply::NotElf,
            6 if !rest.is_empty() => {
                let mut functions = Vec::new();
                while !rest.is_empty() {
                    let (index, start, end) = (number(&mut rest)?, wide(&mut rest)?, wide(&mut rest)?);
                    let name = text(&mut rest)?.filter(|name| !name.is_empty() && start <= end)?;
                    functions.push((index, NamedCode { name, svmas: start..end }));
                }
                Reply::Functions(functions)
            }
            7 => Reply::Spans(span_wire::spans(&mut rest)?),
            8 => Reply::Done,
            _ => return None,
        };
        rest.is_empty().then_some(reply)
    }
}

/// The messages that carry names, the last one included.
pub fn replies(names: Names) -> impl Iterator<Item = Reply> {
    let Names { frames, unnamed } = names;
    let mut sent = 0;
    let mut frames = frames
        .into_iter()
        .zip(0u32..)
        .flat_map(|(frames, index)| frames.into_iter().take(DEPTH_LIMIT + 1).map(move |frame| (index, cut(frame))));
    let mut waiting = frames.next();
    let mut is_over = false;
    std::iter::from_fn(move || {
        let (mut message, mut room) = (Vec::new(), MAX_MESSAGE - 4);
        while let Some((index, frame)) = waiting.take() {
            let bytes = bytes_of(&frame);
            if bytes > room {
                waiting = Some((index, frame));
                break;
            }
            sent += bytes;
            if sent > ANSWER_LIMIT {
                break;
            }
            room -= bytes;
            message.push((index, frame));
            waiting = frames.next();
        }
        if !message.is_empty() {
            return Some(Reply::Frames(message));
        }
        (!std::mem::replace(&mut is_over, true)).then_some(Reply::Named(unnamed))
    })
}

/// The messages that carry functions, the last one included.
pub fn function_replies(functions: Vec<Option<NamedCode>>) -> impl Iterator<Item = Reply> {
    let mut functions = functions.into_iter().zip(0u32..).filter_map(|(function, index)| {
        let NamedCode { name, svmas } = function.filter(|function| !function.name.is_empty())?;
        Some((index, NamedCode { name: cut_text(name), svmas }))
    });
    let mut waiting = functions.next();
    let mut is_over = false;
    std::iter::from_fn(move || {
        let (mut message, mut room) = (Vec::new(), MAX_MESSAGE - 4);
        while let Some((index, function)) = waiting.take() {
            // Index, two addresses, a length and the name.
            let bytes = 24 + function.name.len();
            if bytes > room {
                waiting = Some((index, function));
                break;
            }
            room -= bytes;
            message.push((index, function));
            waiting = functions.next();
        }
        if !message.is_empty() {
            return Some(Reply::Functions(message));
        }
        (!std::mem::replace(&mut is_over, true)).then_some(Reply::Done)
    })
}

/// Names as they come in.
#[derive(Debug)]
pub struct Gathering {
    frames: Vec<Vec<Frame>>,
    /// Index of the address that the last frame was of.
    at: u32,
    bytes: usize,
}

impl Gathering {
    /// None yet, for a number of addresses.
    pub fn new(count: usize) -> Gathering {
        Gathering { frames: vec![Vec::new(); count], at: 0, bytes: 0 }
    }

    /// Takes frames in; `None` when they are none of these addresses, out of order, or too many.
    pub fn add(&mut self, frames: Vec<(u32, Frame)>) -> Option<()> {
        for (index, frame) in frames {
            if index < self.at {
                return None;
            }
            self.at = index;
            self.bytes += bytes_of(&frame);
            let frames = self.frames.get_mut(index as usize)?;
            if frames.len() > DEPTH_LIMIT || self.bytes > ANSWER_LIMIT {
                return None;
            }
            frames.push(frame);
        }
        Some(())
    }

    /// The names, once all are there.
    pub fn finish(self, unnamed: Option<Unnamed>) -> Names {
        let is_whole = self.frames.iter().all(|frames| !frames.is_empty());
        let unnamed = if is_whole { None } else { Some(unnamed.unwrap_or(Unnamed::NoSymbol)) };
        Names { frames: self.frames, unnamed }
    }
}

/// What a reader can say of a file, by number, from 1.
const UNNAMED: [Unnamed; 2] = [Unnamed::Stripped, Unnamed::NoSymbol];

fn unnamed_number(unnamed: Unnamed) -> u32 {
    UNNAMED.iter().position(|known| *known == unnamed).map_or(UNNAMED.len() as u32, |index| index as u32 + 1)
}

/// A missing text has this length.
const NO_TEXT: u32 = u32::MAX;

/// Index, line, and the lengths of three texts.
const FRAME_BYTES: usize = 5 * 4;

fn bytes_of(frame: &Frame) -> usize {
    let Frame { function, system_name, file, line: _ } = frame;
    let texts = [Some(function), system_name.as_ref(), file.as_ref()];
    FRAME_BYTES + texts.into_iter().flatten().map(String::len).sum::<usize>()
}

/// A frame whose texts are no longer than they may be.
fn cut(frame: Frame) -> Frame {
    let Frame { function, system_name, file, line } = frame;
    Frame { function: cut_text(function), system_name: system_name.map(cut_text), file: file.map(cut_text), line }
}

fn cut_text(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(TEXT_LIMIT));
    text
}

fn put_frame(bytes: &mut Vec<u8>, index: u32, frame: &Frame) {
    let Frame { function, system_name, file, line } = frame;
    put(bytes, index);
    put(bytes, *line);
    for text in [Some(function), system_name.as_ref(), file.as_ref()] {
        put_text(bytes, text.map(String::as_str));
    }
}

pub(super) fn put_text(bytes: &mut Vec<u8>, text: Option<&str>) {
    put(bytes, text.map_or(NO_TEXT, |text| text.len() as u32));
    bytes.extend(text.map(str::as_bytes).unwrap_or_default());
}

fn put_question(bytes: &mut Vec<u8>, kind: u32, companions: Companions, count: u32) {
    let Companions { debug, shared } = companions;
    put(bytes, kind);
    put(bytes, u32::from(debug) | u32::from(shared) << 1);
    put(bytes, count);
}

fn frame(rest: &mut &[u8]) -> Option<(u32, Frame)> {
    let (index, line) = (number(rest)?, number(rest)?);
    let (function, system_name, file) = (text(rest)?, text(rest)?, text(rest)?);
    let function = function.filter(|function| !function.is_empty())?;
    Some((index, Frame { function, system_name, file, line }))
}

pub(super) fn text(rest: &mut &[u8]) -> Option<Option<String>> {
    let length = number(rest)?;
    if length == NO_TEXT {
        return Some(None);
    }
    if length as usize > TEXT_LIMIT {
        return None;
    }
    let (text, behind) = rest.split_at_checked(length as usize)?;
    *rest = behind;
    Some(Some(std::str::from_utf8(text).ok()?.to_owned()))
}

pub(super) fn put(bytes: &mut Vec<u8>, number: u32) {
    bytes.extend(number.to_ne_bytes());
}

pub(super) fn number(rest: &mut &[u8]) -> Option<u32> {
    let (number, behind) = rest.split_first_chunk()?;
    *rest = behind;
    Some(u32::from_ne_bytes(*number))
}

pub(super) fn wide(rest: &mut &[u8]) -> Option<u64> {
    let (number, behind) = rest.split_first_chunk()?;
    *rest = behind;
    Some(u64::from_ne_bytes(*number))
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;
