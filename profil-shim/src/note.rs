//! A line on stderr, for who sets `PROFIL_DEBUG`.

use crate::{settings, syscall};

/// Longest line, bytes.
const MAX_BYTES: usize = 400;

/// A line that is being put together, without allocating.
#[derive(Debug)]
pub struct Note {
    bytes: [u8; MAX_BYTES],
    length: usize,
}

impl Note {
    fn new() -> Note {
        Note { bytes: [0; MAX_BYTES], length: 0 }
    }

    /// Adds bytes as they are; what does not fit is left out.
    pub fn bytes(&mut self, bytes: &[u8]) -> &mut Note {
        for (place, byte) in self.bytes.iter_mut().skip(self.length).zip(bytes) {
            *place = *byte;
            self.length = self.length.saturating_add(1);
        }
        self
    }

    /// Adds a text.
    pub fn text(&mut self, text: &str) -> &mut Note {
        self.bytes(text.as_bytes())
    }

    /// Adds a number in decimal.
    pub fn number(&mut self, number: u64) -> &mut Note {
        self.bytes(Decimal::of(number).digits())
    }

    fn line(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }
}

/// Writes one line to stderr, when `PROFIL_DEBUG` is set.
pub fn note(compose: impl FnOnce(&mut Note) -> &mut Note) {
    if settings::read().debug {
        let mut note = Note::new();
        note.text("libprofil.so: ");
        compose(&mut note).text("\n");
        syscall::write(libc::STDERR_FILENO, note.line());
    }
}

/// A number in decimal.
#[derive(Debug)]
pub struct Decimal {
    /// Digits at the end, blank before.
    bytes: [u8; 20],
    first: usize,
}

impl Decimal {
    /// Writes a number.
    pub fn of(mut number: u64) -> Decimal {
        let mut decimal = Decimal { bytes: [b' '; 20], first: 20 };
        for place in decimal.bytes.iter_mut().rev() {
            *place = b'0' + (number % 10) as u8;
            decimal.first = decimal.first.saturating_sub(1);
            number /= 10;
            if number == 0 {
                break;
            }
        }
        decimal
    }

    /// Its digits.
    pub fn digits(&self) -> &[u8] {
        self.bytes.get(self.first..).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_decimal() {
        for number in [0, 7, 10, 107, u64::MAX] {
            assert_eq!(Decimal::of(number).digits(), std::format!("{number}").as_bytes());
        }
    }

    #[test]
    fn a_line_that_is_too_long_is_cut() {
        let mut note = Note::new();
        note.text("a").bytes(&[b'b'; MAX_BYTES]).text("c");
        assert_eq!(note.line().len(), MAX_BYTES);
        assert!(note.line().ends_with(b"bb"));
    }
}
