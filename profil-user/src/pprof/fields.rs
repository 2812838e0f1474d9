//! The outermost layer of the protocol buffer: one field after the other from a stream, with their offsets.
//!
//! Reading field by field keeps memory bounded whatever lengths a hostile file claims, and gives errors a place.

use std::io::{self, BufRead, Read};

use super::error::ReadError;

/// Longest single message or string, bytes. A claim above it is refused before memory is taken.
pub(super) const MAX_FIELD_BYTES: u64 = 1 << 20;

/// What a field holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value<'a> {
    /// A varint.
    Number(u64),
    /// A message, a string, or packed numbers.
    Bytes(&'a [u8]),
    /// A fixed-width number, which no field of a profile is.
    Fixed,
}

/// A field of the outermost message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Field<'a> {
    /// Number of the field.
    pub number: u32,
    /// Where it begins, bytes from the start.
    pub offset: u64,
    /// What it holds.
    pub value: Value<'a>,
}

impl Field<'_> {
    /// The error that says this field is malformed.
    pub fn malformed(&self, source: Option<prost::DecodeError>) -> ReadError {
        ReadError::Malformed { field: self.number, offset: self.offset, source }
    }
}

/// Fields from a stream.
pub(super) struct Fields<R> {
    stream: R,
    /// Bytes taken from the stream.
    offset: u64,
    /// Most bytes that may be taken.
    limit: u64,
    /// Where the field being read begins, and its number once known.
    begin: u64,
    number: u32,
    buffer: Vec<u8>,
}

impl<R: BufRead> Fields<R> {
    /// Fields of a stream of at most `limit` bytes.
    pub fn new(stream: R, limit: u64) -> Fields<R> {
        Fields { stream, offset: 0, limit, begin: 0, number: 0, buffer: Vec::new() }
    }

    /// Bytes taken from the stream.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The next field; `None` at the end of the stream.
    pub fn next(&mut self) -> Result<Option<Field<'_>>, ReadError> {
        self.begin = self.offset;
        self.number = 0;
        let offset = self.offset;
        if self.stream.fill_buf().map_err(|source| io_error(offset, source))?.is_empty() {
            return Ok(None);
        }
        let key = self.varint()?;
        let number = u32::try_from(key >> 3).ok().filter(|number| (1..1 << 29).contains(number));
        let number = number.ok_or(ReadError::Malformed { field: 0, offset: self.begin, source: None })?;
        self.number = number;
        let value = match key & 7 {
            0 => Value::Number(self.varint()?),
            1 => self.fixed(8)?,
            2 => {
                let length = self.varint()?;
                self.bytes(length)?;
                Value::Bytes(&self.buffer)
            }
            5 => self.fixed(4)?,
            _ => return Err(ReadError::Malformed { field: number, offset, source: None }),
        };
        Ok(Some(Field { number, offset, value }))
    }

    fn varint(&mut self) -> Result<u64, ReadError> {
        let mut value = 0u64;
        for shift in (0..70).step_by(7) {
            let byte = self.byte()?;
            if shift == 63 && byte > 1 {
                break;
            }
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(ReadError::Malformed { field: self.number, offset: self.begin, source: None })
    }

    fn byte(&mut self) -> Result<u8, ReadError> {
        let offset = self.offset;
        let byte = self.stream.fill_buf().map_err(|source| io_error(offset, source))?.first().copied();
        let byte = byte.ok_or_else(|| self.truncated())?;
        self.stream.consume(1);
        self.advance(1)?;
        Ok(byte)
    }

    fn fixed(&mut self, length: u64) -> Result<Value<'static>, ReadError> {
        self.bytes(length)?;
        Ok(Value::Fixed)
    }

    /// Reads `length` bytes into the buffer.
    fn bytes(&mut self, length: u64) -> Result<(), ReadError> {
        if length > MAX_FIELD_BYTES {
            let (what, limit, offset) = ("bytes in one field", MAX_FIELD_BYTES, self.begin);
            return Err(ReadError::TooLarge { what, asked: length, limit, offset });
        }
        let offset = self.offset;
        self.buffer.clear();
        let read = (&mut self.stream).take(length).read_to_end(&mut self.buffer);
        read.map_err(|source| io_error(offset, source))?;
        self.advance(self.buffer.len() as u64)?;
        if (self.buffer.len() as u64) < length {
            return Err(self.truncated());
        }
        Ok(())
    }

    fn advance(&mut self, bytes: u64) -> Result<(), ReadError> {
        self.offset += bytes;
        if self.offset > self.limit {
            let (what, limit, offset) = ("bytes", self.limit, self.begin);
            return Err(ReadError::TooLarge { what, asked: self.offset, limit, offset });
        }
        Ok(())
    }

    fn truncated(&self) -> ReadError {
        ReadError::Truncated { field: self.number, offset: self.begin, end: self.offset }
    }
}

/// The decompressor's own errors have no errno; those of the file have one.
fn io_error(offset: u64, source: io::Error) -> ReadError {
    match source.raw_os_error() {
        Some(_) => ReadError::Io { offset, source },
        None => ReadError::Gzip { offset, source },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_with_their_offsets() {
        let mut fields = Fields::new(&[0x08, 0x96, 0x01, 0x12, 0x02, b'h', b'i'][..], 100);
        assert_eq!(fields.next().unwrap(), Some(Field { number: 1, offset: 0, value: Value::Number(150) }));
        assert_eq!(fields.next().unwrap(), Some(Field { number: 2, offset: 3, value: Value::Bytes(b"hi") }));
        assert_eq!(fields.next().unwrap(), None);
    }

    #[test]
    fn a_gigabyte_claimed_is_refused_where_it_is_claimed() {
        let mut fields = Fields::new(&[0x08, 0x01, 0x12, 0x80, 0x80, 0x80, 0x80, 0x04][..], 100);
        fields.next().unwrap();
        let error = fields.next().unwrap_err();
        assert!(matches!(error, ReadError::TooLarge { asked: 0x4000_0000, offset: 2, .. }), "{error:?}");
    }

    #[test]
    fn a_cut_field_says_where_it_begins_and_where_the_file_ends() {
        let mut fields = Fields::new(&[0x08, 0x01, 0x12, 0x05, b'h'][..], 100);
        fields.next().unwrap();
        let error = fields.next().unwrap_err();
        assert!(matches!(error, ReadError::Truncated { field: 2, offset: 2, end: 5 }), "{error:?}");
    }

    #[test]
    fn a_varint_of_more_than_64_bits_is_malformed() {
        let mut fields = Fields::new(&[0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02][..], 100);
        assert!(matches!(fields.next(), Err(ReadError::Malformed { field: 1, offset: 0, .. })));
    }

    #[test]
    fn a_stream_longer_than_the_limit_is_refused() {
        let mut fields = Fields::new(&[0x08, 0x01, 0x08, 0x01][..], 3);
        fields.next().unwrap();
        assert!(matches!(fields.next(), Err(ReadError::TooLarge { limit: 3, .. })));
    }
}
