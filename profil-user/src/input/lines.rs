//! Lines of a text, one after the other, none of which can take all memory.

use std::io::{BufRead, Read};

use super::error::{self, InputError, LineFault};

/// Longest line, bytes.
pub const MAX_LINE_BYTES: usize = 1 << 20;

/// Lines from a stream.
pub struct Lines<R> {
    stream: R,
    format: &'static str,
    line: Vec<u8>,
    number: u64,
    offset: u64,
    limit: u64,
    has_newline: bool,
}

impl<R: BufRead> Lines<R> {
    /// Lines of a stream of at most `limit` bytes.
    pub fn new(stream: R, limit: u64) -> Lines<R> {
        Lines { stream, format: "the text", line: Vec::new(), number: 0, offset: 0, limit, has_newline: true }
    }

    /// Names the format in errors.
    #[must_use]
    pub fn of(self, format: &'static str) -> Lines<R> {
        Lines { format, ..self }
    }

    /// The next line, without its end; `None` at the end of the stream.
    ///
    /// # Errors
    /// The stream fails, or the line is too long or has a zero byte.
    pub fn next_line(&mut self) -> Result<Option<&[u8]>, InputError> {
        self.line.clear();
        let read = (&mut self.stream).take(MAX_LINE_BYTES as u64 + 1).read_until(b'\n', &mut self.line);
        let read = read.map_err(|source| error::of_stream(self.offset, source))? as u64;
        if read == 0 {
            return Ok(None);
        }
        self.offset += read;
        self.number += 1;
        self.has_newline = self.line.last() == Some(&b'\n');
        if self.has_newline {
            self.line.pop();
            if self.line.last() == Some(&b'\r') {
                self.line.pop();
            }
        }
        if self.line.len() > MAX_LINE_BYTES {
            return Err(self.fault(LineFault::TooLong { limit: MAX_LINE_BYTES }));
        }
        if self.offset > self.limit {
            return Err(self.fault(LineFault::PastLimit { limit: self.limit }));
        }
        if self.line.contains(&0) {
            return Err(self.fault(LineFault::Zero));
        }
        Ok(Some(&self.line))
    }

    /// Number of the line that was read last, from 1.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Whether the line that was read last had a newline: the last one of a text that was cut short has none.
    pub fn has_newline(&self) -> bool {
        self.has_newline
    }

    /// The error that says what is wrong with the line that was read last.
    pub fn fault(&self, fault: LineFault) -> InputError {
        InputError::Line { format: self.format, line: self.number, fault }
    }
}
