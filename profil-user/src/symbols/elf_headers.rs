//! The headers of an ELF file, read piece by piece and within limits.
//!
//! Files of a target are hostile: a header may ask for terabytes, and a file can be truncated while it is read. So
//! nothing here maps a file into memory (a truncated mapping is SIGBUS), every read has a limit, and offsets are
//! checked where they are used.

use std::borrow::Cow;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use object::Endianness;
use object::elf;
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader};

use crate::build_id::BuildId;

/// Most bytes of notes that are looked at; the kernel looks at one page.
const NOTES_LIMIT: u64 = 64 * 1024;
/// Most bytes of section names, and of the table of section headers (a million sections).
const SECTION_TABLE_LIMIT: u64 = 64 << 20;

/// Bytes that can be read at any offset: a file, or an image in memory.
pub trait Image {
    /// Reads exactly the bytes at an offset.
    ///
    /// # Errors
    /// Those of pread(2); `UnexpectedEof` when the image ends before.
    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()>;

    /// The bytes at an offset, without a copy where the image is in memory.
    ///
    /// # Errors
    /// [`ElfError::Read`].
    fn bytes_at(&self, offset: u64, size: u64) -> Result<Cow<'_, [u8]>, ElfError> {
        Ok(Cow::Owned(read_bytes(self, offset, size, u64::MAX)?))
    }
}

impl Image for File {
    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        FileExt::read_exact_at(self, bytes, offset)
    }
}

impl Image for [u8] {
    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        let start = usize::try_from(offset).map_err(|_| io::ErrorKind::UnexpectedEof)?;
        let found = self.get(start..).and_then(|rest| rest.get(..bytes.len())).ok_or(io::ErrorKind::UnexpectedEof)?;
        bytes.copy_from_slice(found);
        Ok(())
    }

    fn bytes_at(&self, offset: u64, size: u64) -> Result<Cow<'_, [u8]>, ElfError> {
        let end = || Some(usize::try_from(offset).ok()?..usize::try_from(offset.checked_add(size)?).ok()?);
        let found = end().and_then(|range| self.get(range));
        let missing = || ElfError::Read { offset, size, source: io::ErrorKind::UnexpectedEof.into() };
        found.map(Cow::Borrowed).ok_or_else(missing)
    }
}

/// Why the headers of an ELF file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ElfError {
    /// Bytes could not be read.
    #[error("cannot read {size} bytes of the ELF file at offset {offset:#x}")]
    Read {
        /// Where, bytes from the start of the file.
        offset: u64,
        /// How many.
        size: u64,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// A header asks for more than is sane.
    #[error("cannot read {size} bytes of the ELF file at offset {offset:#x}: the limit is {limit}")]
    TooLarge {
        /// Where, bytes from the start of the file.
        offset: u64,
        /// How many.
        size: u64,
        /// How many are let through.
        limit: u64,
    },
    /// It is not ELF, or its header is malformed.
    #[error("cannot use the file as ELF: its header is malformed")]
    Malformed,
}

/// A segment (program header).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// `PT_LOAD`, `PT_NOTE`, ...
    pub kind: u32,
    /// `PF_X` and others.
    pub flags: u32,
    /// First byte in the file.
    pub file_offset: u64,
    /// Bytes in the file.
    pub file_size: u64,
    /// First address (SVMA).
    pub svma: u64,
    /// Bytes in memory.
    pub size: u64,
    /// Alignment, bytes.
    pub align: u64,
}

impl Segment {
    /// The SVMA of a byte of the file that this segment holds.
    pub fn svma_of(&self, file_offset: u64) -> Option<u64> {
        let distance = file_offset.checked_sub(self.file_offset).filter(|distance| *distance < self.file_size)?;
        self.svma.checked_add(distance)
    }

    /// Whether it is loaded as code.
    pub fn is_code(&self) -> bool {
        self.kind == elf::PT_LOAD && self.flags & elf::PF_X != 0
    }
}

/// A section header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// Its name.
    pub name: Vec<u8>,
    /// `SHT_SYMTAB` and others.
    pub kind: u32,
    /// `SHF_ALLOC` and others.
    pub flags: u64,
    /// First address (SVMA); 0 when it is not loaded.
    pub svma: u64,
    /// First byte in the file.
    pub file_offset: u64,
    /// Bytes (in memory, where it is loaded).
    pub size: u64,
    /// Index of the section it refers to: the names of a symbol table.
    pub link: u32,
}

impl Section {
    /// Whether the file holds its bytes.
    pub fn has_bytes(&self) -> bool {
        self.kind != elf::SHT_NOBITS && self.kind != elf::SHT_NULL
    }
}

/// The headers of an ELF file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElfHeaders {
    /// Byte order of the file.
    pub endian: Endianness,
    /// Whether it is 64-bit ELF.
    pub is_64: bool,
    /// `EM_X86_64` and others.
    pub machine: u16,
    /// Program headers, in file order; none in some debug files.
    pub segments: Vec<Segment>,
    /// Section headers, in file order; none in a file whose section headers were stripped.
    pub sections: Vec<Section>,
    /// Where the section headers are in the file; 0 without sections.
    pub section_table_offset: u64,
}

impl ElfHeaders {
    /// Reads the headers of an image.
    ///
    /// # Errors
    /// [`ElfError::Malformed`] for what is not ELF; unreadable section headers are no error, but leave `sections` empty.
    pub fn read(image: &(impl Image + ?Sized)) -> Result<ElfHeaders, ElfError> {
        let mut ident = [0; 64];
        // A 32-bit header is 52 bytes; a file of 52 to 63 bytes holds nothing that has a name.
        image.read_exact_at(&mut ident, 0).map_err(|source| ElfError::Read {
            offset: 0,
            size: ident.len() as u64,
            source,
        })?;
        const EI_CLASS: usize = 4;
        match ident[EI_CLASS] {
            class if class == elf::ELFCLASS32 => read_headers::<elf::FileHeader32<Endianness>>(image, &ident),
            class if class == elf::ELFCLASS64 => read_headers::<elf::FileHeader64<Endianness>>(image, &ident),
            _ => Err(ElfError::Malformed),
        }
    }

    /// The first section with a name.
    pub fn section(&self, name: &str) -> Option<&Section> {
        self.sections.iter().find(|section| section.name == name.as_bytes())
    }

    /// The first section of a kind (`SHT_SYMTAB` and others).
    pub fn section_of_kind(&self, kind: u32) -> Option<&Section> {
        self.sections.iter().find(|section| section.kind == kind)
    }

    /// The GNU build ID, from the note segments or else from the note sections.
    ///
    /// Only 64 KiB of each are looked at, so a note behind one with a name of megabytes is not found.
    pub fn build_id(&self, image: &(impl Image + ?Sized)) -> Option<BuildId> {
        let segments = self.segments.iter().filter(|segment| segment.kind == elf::PT_NOTE);
        let sections = self.sections.iter().filter(|section| section.kind == elf::SHT_NOTE);
        segments
            .map(|segment| (segment.file_offset, segment.file_size, segment.align))
            .chain(sections.map(|section| (section.file_offset, section.size, 4)))
            .take(64)
            .find_map(|(offset, size, align)| {
                let notes = read_bytes(image, offset, size.min(NOTES_LIMIT), NOTES_LIMIT).ok()?;
                if self.is_64 {
                    build_id_note::<elf::FileHeader64<Endianness>>(self.endian, align, &notes)
                } else {
                    build_id_note::<elf::FileHeader32<Endianness>>(self.endian, align as u32, &notes)
                }
            })
    }
}

/// Reads bytes of an image, if they are not more than the limit.
///
/// # Errors
/// [`ElfError::TooLarge`] and [`ElfError::Read`].
pub fn read_bytes(image: &(impl Image + ?Sized), offset: u64, size: u64, limit: u64) -> Result<Vec<u8>, ElfError> {
    if size > limit {
        return Err(ElfError::TooLarge { offset, size, limit });
    }
    let mut bytes = vec![0; size as usize];
    image.read_exact_at(&mut bytes, offset).map_err(|source| ElfError::Read { offset, size, source })?;
    Ok(bytes)
}

fn read_headers<Elf: FileHeader<Endian = Endianness>>(
    image: &(impl Image + ?Sized),
    start: &[u8],
) -> Result<ElfHeaders, ElfError> {
    let header = Elf::parse(start).map_err(|_| ElfError::Malformed)?;
    let endian = header.endian().map_err(|_| ElfError::Malformed)?;

    let entry = size_of::<Elf::ProgramHeader>() as u64;
    let count = u64::from(header.e_phnum(endian));
    let segments = if count == 0 || u64::from(header.e_phentsize(endian)) != entry {
        Vec::new()
    } else {
        // At most 65,535 headers: small enough as it is.
        let table = read_bytes(image, header.e_phoff(endian).into(), count * entry, u64::MAX)?;
        let (headers, _) = object::pod::slice_from_bytes::<Elf::ProgramHeader>(&table, count as usize)
            .map_err(|()| ElfError::Malformed)?;
        headers
            .iter()
            .map(|header| Segment {
                kind: header.p_type(endian),
                flags: header.p_flags(endian),
                file_offset: header.p_offset(endian).into(),
                file_size: header.p_filesz(endian).into(),
                svma: header.p_vaddr(endian).into(),
                size: header.p_memsz(endian).into(),
                align: header.p_align(endian).into(),
            })
            .collect()
    };
    let sections = read_sections::<Elf>(image, header, endian).unwrap_or_default();
    Ok(ElfHeaders {
        endian,
        is_64: header.is_class_64(),
        machine: header.e_machine(endian),
        segments,
        section_table_offset: if sections.is_empty() { 0 } else { header.e_shoff(endian).into() },
        sections,
    })
}

fn read_sections<Elf: FileHeader<Endian = Endianness>>(
    image: &(impl Image + ?Sized),
    header: &Elf,
    endian: Endianness,
) -> Result<Vec<Section>, ElfError> {
    let start: u64 = header.e_shoff(endian).into();
    let entry = size_of::<Elf::SectionHeader>() as u64;
    if start == 0 || u64::from(header.e_shentsize(endian)) != entry {
        return Ok(Vec::new());
    }
    // Counts that do not fit the file header are in the first section header.
    let first = read_bytes(image, start, entry, entry)?;
    let (first, _) = object::pod::from_bytes::<Elf::SectionHeader>(&first).map_err(|()| ElfError::Malformed)?;
    let count = match u64::from(header.e_shnum(endian)) {
        0 => first.sh_size(endian).into(),
        count => count,
    };
    let names = match u32::from(header.e_shstrndx(endian)) {
        index if index == u32::from(elf::SHN_XINDEX) => first.sh_link(endian),
        index => index,
    };
    let table = read_bytes(image, start, count.saturating_mul(entry), SECTION_TABLE_LIMIT)?;
    let (headers, _) = object::pod::slice_from_bytes::<Elf::SectionHeader>(&table, count as usize)
        .map_err(|()| ElfError::Malformed)?;
    let names = match headers.get(names as usize) {
        Some(names) => {
            read_bytes(image, names.sh_offset(endian).into(), names.sh_size(endian).into(), SECTION_TABLE_LIMIT)?
        }
        None => Vec::new(),
    };
    Ok(headers
        .iter()
        .map(|header| Section {
            // A hostile table can point a million sections at one long name: names that matter are short.
            name: string_at(&names, header.sh_name(endian) as usize, 64).to_vec(),
            kind: header.sh_type(endian),
            flags: header.sh_flags(endian).into(),
            svma: header.sh_addr(endian).into(),
            file_offset: header.sh_offset(endian).into(),
            size: header.sh_size(endian).into(),
            link: header.sh_link(endian),
        })
        .collect())
}

/// The bytes of a string table from an offset to the next zero byte, cut at a limit; empty past the end.
pub fn string_at(strings: &[u8], offset: usize, limit: usize) -> &[u8] {
    let rest = strings.get(offset..).unwrap_or_default();
    let rest = &rest[..rest.len().min(limit)];
    rest.split(|byte| *byte == 0).next().unwrap_or_default()
}

fn build_id_note<Elf: FileHeader<Endian = Endianness>>(
    endian: Endianness,
    align: Elf::Word,
    notes: &[u8],
) -> Option<BuildId> {
    let mut notes = object::read::elf::NoteIterator::<Elf>::new(endian, align, notes).ok()?;
    while let Ok(Some(note)) = notes.next() {
        if note.n_type(endian) == elf::NT_GNU_BUILD_ID && note.name() == elf::ELF_NOTE_GNU {
            return BuildId::new(note.desc());
        }
    }
    None
}

/// The GNU build ID in notes of this machine's word size and byte order, as the kernel shows its own.
pub fn build_id_in_notes(notes: &[u8]) -> Option<BuildId> {
    let endian = if cfg!(target_endian = "big") { Endianness::Big } else { Endianness::Little };
    build_id_note::<elf::FileHeader64<Endianness>>(endian, 4, notes)
}
