//! A private copy of the debug information of an ELF file.
//!
//! blazesym maps files into memory: were the owner to truncate one while it is read, SIGBUS would kill the profiler.
//! It also follows the links in a file (`.gnu_debuglink`, `.gnu_debugaltlink`) to wherever they point. So it gets a
//! sealed memfd instead, an ELF file written by us that holds the sections it needs and no others.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::path::PathBuf;

use object::{Endianness, elf};
use rustix::fs::{MemfdFlags, SealFlags};

use super::elf_headers::{ElfHeaders, Image, Section, read_bytes};

/// The sections that function names, inlined functions and source lines come from.
const SECTIONS: [&str; 13] = [
    ".debug_abbrev",
    ".debug_addr",
    ".debug_aranges",
    ".debug_info",
    ".debug_line",
    ".debug_line_str",
    ".debug_ranges",
    ".debug_rnglists",
    ".debug_str",
    ".debug_str_offsets",
    ".debug_types",
    ".debug_names",
    ALT_LINK,
];
/// Names the file that dwz(1) moved shared debug information to.
const ALT_LINK: &str = ".gnu_debugaltlink";
/// Most bytes that one compressed section may unfold to.
const UNFOLDED_LIMIT: u64 = 1 << 30;

/// Whether the links in a file may be followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    /// They may: the file is root's or our own.
    Follow,
    /// They may not: a target wrote them.
    Drop,
}

/// How many bytes a copy of the debug information of a file would have.
pub fn size_bytes(headers: &ElfHeaders) -> u64 {
    wanted(headers, Links::Follow).map(|(_, section)| section.size).fold(0, u64::saturating_add)
}

/// The copy.
#[derive(Debug)]
pub struct Snapshot(File);

impl Snapshot {
    /// Copies the debug information of a file.
    ///
    /// # Errors
    /// Those of reading the file and of memfd_create(2); `InvalidData` for an offset outside the file.
    pub fn take(headers: &ElfHeaders, file: &File, links: Links) -> io::Result<Snapshot> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let mut copy = File::from(rustix::fs::memfd_create("profil-debug-info", flags)?);
        let mut header = [0; 64];
        Image::read_exact_at(file, &mut header, 0)?;
        copy.write_all(&header)?;

        let mut names = vec![0];
        let mut table = vec![NewSection::default()];
        for (name, section) in wanted(headers, links) {
            if unfolded_size(headers, file, section).is_none_or(|size| size > UNFOLDED_LIMIT) {
                continue;
            }
            // Compressed sections begin with a header of 8-byte fields.
            let offset = align(&mut copy)?;
            let mut input = file;
            input.seek(SeekFrom::Start(section.file_offset))?;
            // The kernel carries the bytes over; they never pass through this process.
            let copied = io::copy(&mut input.take(section.size), &mut copy)?;
            if copied != section.size {
                return Err(io::ErrorKind::InvalidData.into());
            }
            let flags = section.flags & u64::from(elf::SHF_COMPRESSED);
            table.push(NewSection {
                name: names.len() as u32,
                kind: elf::SHT_PROGBITS,
                flags,
                offset,
                size: section.size,
            });
            names.extend_from_slice(name.as_bytes());
            names.push(0);
        }
        let name = names.len() as u32;
        names.extend_from_slice(b".shstrtab\0");
        let offset = align(&mut copy)?;
        copy.write_all(&names)?;
        table.push(NewSection { name, kind: elf::SHT_STRTAB, flags: 0, offset, size: names.len() as u64 });

        let table_offset = align(&mut copy)?;
        let encoder = Encoder { endian: headers.endian, is_64: headers.is_64 };
        for section in &table {
            copy.write_all(&encoder.section_header(section))?;
        }
        encoder.patch_file_header(&mut header, table_offset, table.len() as u16);
        copy.seek(SeekFrom::Start(0))?;
        copy.write_all(&header)?;
        // Not F_SEAL_WRITE: before Linux 6.7 it forbids the shared, read-only mapping that blazesym makes.
        rustix::fs::fcntl_add_seals(&copy, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Ok(Snapshot(copy))
    }

    /// A path that leads to the copy, for as long as it lives and in this process only.
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.0.as_raw_fd()))
    }
}

fn wanted(headers: &ElfHeaders, links: Links) -> impl Iterator<Item = (&'static str, &Section)> {
    SECTIONS
        .into_iter()
        .filter(move |name| links == Links::Follow || *name != ALT_LINK)
        .filter_map(|name| Some((name, headers.section(name).filter(|section| section.has_bytes())?)))
}

/// Bytes of a section once it is decompressed; `None` when its compression header cannot be read.
fn unfolded_size(headers: &ElfHeaders, file: &File, section: &Section) -> Option<u64> {
    if section.flags & u64::from(elf::SHF_COMPRESSED) == 0 {
        return Some(section.size);
    }
    let encoder = Encoder { endian: headers.endian, is_64: headers.is_64 };
    // Type, (padding), size, alignment: words of the file's class.
    let header = read_bytes(file, section.file_offset, 16, 16).ok()?;
    Some(if headers.is_64 { encoder.u64_at(&header, 8) } else { u64::from(encoder.u32_at(&header, 4)) })
}

/// Pads with zeros to a multiple of 8 bytes, and says where that is.
fn align(copy: &mut File) -> io::Result<u64> {
    let position = copy.stream_position()?;
    let padding = position.next_multiple_of(8) - position;
    copy.write_all(&[0; 8][..padding as usize])?;
    Ok(position + padding)
}

#[derive(Default)]
struct NewSection {
    name: u32,
    kind: u32,
    flags: u64,
    offset: u64,
    size: u64,
}

/// Writes headers in the class and byte order of the file that is copied.
struct Encoder {
    endian: Endianness,
    is_64: bool,
}

impl Encoder {
    fn section_header(&self, section: &NewSection) -> Vec<u8> {
        let NewSection { name, kind, flags, offset, size } = *section;
        let mut header = Vec::with_capacity(64);
        header.extend(self.u32(name));
        header.extend(self.u32(kind));
        // Flags, address, offset, size; link and info; alignment, size of an entry.
        for word in [flags, 0, offset, size] {
            self.push_word(&mut header, word);
        }
        header.extend([0; 8]);
        for word in [u64::from(kind != elf::SHT_NULL), 0] {
            self.push_word(&mut header, word);
        }
        header
    }

    /// Leaves the identity, type and machine of the file, and points it at the new sections.
    fn patch_file_header(&self, header: &mut [u8; 64], table_offset: u64, count: u16) {
        // After e_version: e_entry, e_phoff and e_shoff are words of the class, then e_flags and six half-words.
        let mut rest = Vec::with_capacity(40);
        for word in [0, 0, table_offset] {
            self.push_word(&mut rest, word);
        }
        rest.extend([0; 4]);
        let (header_size, entry_size) = if self.is_64 { (64, 64) } else { (52, 40) };
        for half in [header_size, 0, 0, entry_size, count, count - 1] {
            rest.extend(self.u16(half));
        }
        header[24..24 + rest.len()].copy_from_slice(&rest);
    }

    fn push_word(&self, bytes: &mut Vec<u8>, word: u64) {
        match (self.is_64, self.endian) {
            (true, Endianness::Little) => bytes.extend(word.to_le_bytes()),
            (true, Endianness::Big) => bytes.extend(word.to_be_bytes()),
            (false, _) => bytes.extend(self.u32(word as u32)),
        }
    }

    fn u32(&self, value: u32) -> [u8; 4] {
        match self.endian {
            Endianness::Little => value.to_le_bytes(),
            Endianness::Big => value.to_be_bytes(),
        }
    }

    fn u16(&self, value: u16) -> [u8; 2] {
        match self.endian {
            Endianness::Little => value.to_le_bytes(),
            Endianness::Big => value.to_be_bytes(),
        }
    }

    fn u32_at(&self, bytes: &[u8], at: usize) -> u32 {
        let bytes = bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).unwrap_or([0xff; 4]);
        match self.endian {
            Endianness::Little => u32::from_le_bytes(bytes),
            Endianness::Big => u32::from_be_bytes(bytes),
        }
    }

    fn u64_at(&self, bytes: &[u8], at: usize) -> u64 {
        let bytes = bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).unwrap_or([0xff; 8]);
        match self.endian {
            Endianness::Little => u64::from_le_bytes(bytes),
            Endianness::Big => u64::from_be_bytes(bytes),
        }
    }
}
