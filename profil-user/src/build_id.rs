//! GNU build IDs.

use std::fmt;

/// The bytes of an ELF file's GNU build-ID note: the identity of a build, wherever its file is.
///
/// At most 64 bytes are kept; linkers write 8, 16 or 20.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BuildId(Box<[u8]>);

impl BuildId {
    /// Longest note that is taken for a build ID, bytes.
    pub const MAX_BYTES: usize = 64;

    /// A build ID from the bytes of its note; `None` when they are none, too many, or all zero.
    pub fn new(bytes: &[u8]) -> Option<BuildId> {
        let plausible = (1..=Self::MAX_BYTES).contains(&bytes.len()) && bytes.iter().any(|byte| *byte != 0);
        plausible.then(|| BuildId(bytes.into()))
    }

    /// A build ID from its hexadecimal form.
    pub fn from_hex(hex: &str) -> Option<BuildId> {
        if !hex.len().is_multiple_of(2) || !hex.is_ascii() {
            return None;
        }
        let bytes = (0..hex.len() / 2)
            .map(|index| u8::from_str_radix(&hex[index * 2..index * 2 + 2], 16).ok())
            .collect::<Option<Vec<u8>>>()?;
        BuildId::new(&bytes)
    }

    /// The bytes of the note.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for BuildId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for BuildId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BuildId({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_form_reads_back() {
        let id = BuildId::new(&[0x00, 0xab, 0x12]).expect("three bytes, not all zero");
        assert_eq!(id.to_string(), "00ab12");
        assert_eq!(BuildId::from_hex("00ab12"), Some(id));
    }

    #[test]
    fn what_is_no_build_id_is_refused() {
        for hex in ["", "0", "zz", "0000", "äö"] {
            assert_eq!(BuildId::from_hex(hex), None, "{hex:?}");
        }
        assert_eq!(BuildId::new(&[1; 65]), None);
    }
}
