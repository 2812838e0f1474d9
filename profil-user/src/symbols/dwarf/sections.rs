//! The sections with debug information, unfolded where they are compressed.

use std::convert::Infallible;
use std::fs::File;
use std::io::{self, Read, Write};

use gimli::{EndianSlice, RunTimeEndian, SectionId};
use object::read::elf::CompressionHeader;
use object::{Endianness, elf, pod};
use rustix::fs::MemfdFlags;

use super::Dwarf;
use crate::symbols::elf_headers::{ElfHeaders, Section};
use crate::symbols::file_map::FileMap;

/// Most bytes that the compressed sections of a file may unfold to.
const UNFOLDED_LIMIT: u64 = 2 << 30;

/// The sections that are read; the others of the standard say nothing of functions and lines.
const READ: [SectionId; 9] = [
    SectionId::DebugAbbrev,
    SectionId::DebugAddr,
    SectionId::DebugInfo,
    SectionId::DebugLine,
    SectionId::DebugLineStr,
    SectionId::DebugRanges,
    SectionId::DebugRngLists,
    SectionId::DebugStr,
    SectionId::DebugStrOffsets,
];

/// The debug information of a file.
pub struct Sections<'m> {
    file: &'m FileMap,
    endian: RunTimeEndian,
    sections: [Bytes<'m>; READ.len()],
    /// The file that shared entries were moved to.
    supplementary: Option<Box<Sections<'m>>>,
}

#[derive(Default)]
enum Bytes<'m> {
    #[default]
    None,
    InFile(&'m [u8]),
    Unfolded(FileMap),
}

impl Bytes<'_> {
    fn get(&self) -> &[u8] {
        match self {
            Bytes::None => &[],
            Bytes::InFile(bytes) => bytes,
            Bytes::Unfolded(map) => map.bytes(),
        }
    }
}

impl<'m> Sections<'m> {
    /// Finds the sections of a file; one that is missing or malformed is empty.
    pub fn new(headers: &ElfHeaders, file: &'m FileMap, supplementary: Option<Sections<'m>>) -> Sections<'m> {
        let mut room = UNFOLDED_LIMIT;
        let sections = READ.map(|id| {
            let section = headers.section(id.name()).filter(|section| section.has_bytes());
            let bytes = section.and_then(|section| {
                let bytes = bytes_of(section, file)?;
                match section.flags & u64::from(elf::SHF_COMPRESSED) {
                    0 => Some(Bytes::InFile(bytes)),
                    _ => unfold(headers, bytes, &mut room).map(Bytes::Unfolded),
                }
            });
            bytes.unwrap_or_default()
        });
        let endian = match headers.endian {
            Endianness::Little => RunTimeEndian::Little,
            Endianness::Big => RunTimeEndian::Big,
        };
        file.release();
        Sections { file, endian, sections, supplementary: supplementary.map(Box::new) }
    }

    /// The sections, as gimli reads them.
    pub(in crate::symbols) fn dwarf(&self) -> Dwarf<'_> {
        let load = |id: SectionId| {
            let section = READ.iter().position(|read| *read == id).map(|index| self.sections[index].get());
            Ok::<_, Infallible>(EndianSlice::new(section.unwrap_or_default(), self.endian))
        };
        let Ok(mut dwarf) = gimli::Dwarf::load(load);
        if let Some(supplementary) = &self.supplementary {
            dwarf.set_sup(supplementary.dwarf());
        }
        dwarf
    }

    /// Gives the memory of what was read so far back.
    pub(super) fn release(&self) {
        self.file.release();
        for section in &self.sections {
            if let Bytes::Unfolded(map) = section {
                map.release();
            }
        }
        if let Some(supplementary) = &self.supplementary {
            supplementary.release();
        }
    }
}

fn bytes_of<'m>(section: &Section, file: &'m FileMap) -> Option<&'m [u8]> {
    let start = usize::try_from(section.file_offset).ok()?;
    let size = usize::try_from(section.size).ok()?;
    file.bytes().get(start..)?.get(..size)
}

/// Unfolds a compressed section into a file in memory: mapped, it can be let go of page by page like any other.
fn unfold(headers: &ElfHeaders, bytes: &[u8], room: &mut u64) -> Option<FileMap> {
    let (kind, size, data) = if headers.is_64 {
        header::<elf::CompressionHeader64<Endianness>>(headers.endian, bytes)?
    } else {
        header::<elf::CompressionHeader32<Endianness>>(headers.endian, bytes)?
    };
    *room = room.checked_sub(size)?;
    match kind {
        elf::ELFCOMPRESS_ZLIB => copy(flate2::read::ZlibDecoder::new(data), size).ok(),
        elf::ELFCOMPRESS_ZSTD => copy(ruzstd::decoding::StreamingDecoder::new(data).ok()?, size).ok(),
        _ => None,
    }
}

/// How a section is compressed, its size when it is not, and what is behind the header.
fn header<C: CompressionHeader<Endian = Endianness>>(endian: Endianness, bytes: &[u8]) -> Option<(u32, u64, &[u8])> {
    let (header, data) = pod::from_bytes::<C>(bytes).ok()?;
    Some((header.ch_type(endian), header.ch_size(endian).into(), data))
}

/// Copies so many bytes, no more and no less.
fn copy(from: impl Read, size: u64) -> io::Result<FileMap> {
    let mut to = File::from(rustix::fs::memfd_create("profil-unfolded", MemfdFlags::CLOEXEC)?);
    let mut from = from.take(size);
    let mut buffer = vec![0; 256 * 1024];
    let mut copied = 0;
    loop {
        match from.read(&mut buffer)? {
            0 if copied == size => return FileMap::new(&to),
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => {
                to.write_all(&buffer[..count])?;
                copied += count as u64;
            }
        }
    }
}
