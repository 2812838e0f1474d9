//! Which format a text is in, if any.

use std::fmt;

use super::{folded, perf_script};

/// A format of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TextFormat {
    PerfScript,
    Folded,
}

/// Why a text is in none of the formats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnknownText {
    /// It has no line within the limit.
    NoLine,
    /// It has blank lines only.
    Blank,
    /// A line is neither of the one nor of the other format.
    Line {
        /// Number of the line, from 1.
        number: usize,
        /// Its beginning, made safe to show.
        text: String,
    },
    /// All lines end in a number, but none has a stack: any table of numbers is so.
    NoStack,
    /// Lines end in two numbers.
    TwoCounts,
}

impl fmt::Display for UnknownText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UnknownText::NoLine => write!(f, "its first line has no end within {} bytes", super::MAX_LINE_BYTES),
            UnknownText::Blank => f.write_str("all of it is blank"),
            UnknownText::Line { number, text } => {
                write!(f, "line {number} (`{text}`) is neither an event of `perf script` nor `a;b;c COUNT`")
            }
            UnknownText::NoStack => {
                f.write_str("its lines are `NAME NUMBER` without one `;`: folded stacks have `a;b;c COUNT`")
            }
            UnknownText::TwoCounts => {
                f.write_str("its lines end in two numbers, as differences of folded stacks do; read one of the two")
            }
        }
    }
}

/// Most columns of a line that an error shows.
const SHOWN: usize = 60;

/// The format of a text that begins so.
pub(super) fn recognise(head: &[u8]) -> Result<TextFormat, UnknownText> {
    let cut = head.len() as u64 >= super::HEAD_BYTES;
    let end = if cut { head.iter().rposition(|byte| *byte == b'\n').ok_or(UnknownText::NoLine)? } else { head.len() };
    let lines = head[..end].split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let lines = lines.enumerate().filter(|(_, line)| !line.trim_ascii().is_empty());
    let events = lines.clone().filter(|(_, line)| !line.starts_with(b"#"));
    // A command name with newlines makes lines before the first one of an event.
    for (_, line) in events.take(perf_script::COMM_BYTES) {
        if perf_script::is_event(line) {
            return Ok(TextFormat::PerfScript);
        }
        if line.len() > perf_script::COMM_BYTES {
            break;
        }
    }
    let (mut any, mut stack, mut two_counts) = (false, false, true);
    for (index, line) in lines {
        let Ok(stack_and_count) = folded::split(line) else {
            let text = String::from_utf8_lossy(line);
            let text: String = crate::printable::printable(text.trim()).chars().take(SHOWN).collect();
            return Err(UnknownText::Line { number: index + 1, text });
        };
        any = true;
        stack |= stack_and_count.0.contains(&b';');
        two_counts &= folded::split(stack_and_count.0).is_ok();
    }
    match (any, two_counts, stack) {
        (false, ..) => Err(UnknownText::Blank),
        (_, true, true) => Err(UnknownText::TwoCounts),
        (_, _, false) => Err(UnknownText::NoStack),
        (_, false, true) => Ok(TextFormat::Folded),
    }
}
