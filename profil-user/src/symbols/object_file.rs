//! An ELF file that a target ran, and what its headers say.

use std::fs::File;
use std::ops::Range;
use std::path::Path;

use super::elf_headers::{ElfError, ElfHeaders, Segment};
use super::file_handle::FileHandle;
use super::target_files;
use crate::build_id::BuildId;

/// Whose file system a file was found in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// That of the host, as this process sees it.
    Host,
    /// One of a target's own, such as a container's: there, root is not our root.
    Target,
}

/// An ELF file, open, with its headers read.
#[derive(Debug)]
pub struct ObjectFile {
    /// Path as the target sees it; bytes that are not UTF-8 are replaced.
    pub display_path: String,
    /// Build ID, where the file has one.
    pub build_id: Option<BuildId>,
    /// Its headers.
    pub headers: ElfHeaders,
    /// Whose file system it is in.
    pub origin: Origin,
    /// The file itself.
    pub handle: FileHandle,
}

impl ObjectFile {
    /// Reads the headers of an open file.
    ///
    /// # Errors
    /// [`ElfError`] when it is not ELF.
    pub fn new(file: File, path: &Path, origin: Origin) -> Result<ObjectFile, ElfError> {
        let headers = ElfHeaders::read(&file)?;
        let build_id = headers.build_id(&file);
        let handle = FileHandle::new(file).map_err(|source| ElfError::Read { offset: 0, size: 0, source })?;
        Ok(ObjectFile { display_path: target_files::display(path.as_os_str()), build_id, headers, origin, handle })
    }

    /// Whether nobody but the host's root and we can have written it.
    pub fn is_ours(&self) -> bool {
        self.origin == Origin::Host && self.handle.is_ours()
    }

    /// Whether the file holds DWARF debug information.
    pub fn has_debug_info(&self) -> bool {
        self.headers.section(".debug_info").is_some_and(|section| section.has_bytes() && section.size > 0)
    }

    /// Bytes of its sections with debug information.
    pub fn debug_info_bytes(&self) -> u64 {
        let sections = self.headers.sections.iter().filter(|section| section.has_bytes());
        let debug = sections.filter(|section| section.name.starts_with(b".debug_"));
        debug.map(|section| section.size).fold(0, u64::saturating_add)
    }

    /// The segment that holds a byte of the file: one with code before others.
    ///
    /// Linkers that save space (GNU ld without `-z separate-code`, lld) let segments share a page of the file, never a
    /// byte.
    pub fn segment_of(&self, file_offset: u64) -> Option<&Segment> {
        let loads = || self.headers.segments.iter().filter(|segment| segment.kind == object::elf::PT_LOAD);
        let holds = |segment: &&Segment| segment.svma_of(file_offset).is_some();
        loads().filter(|segment| segment.is_code()).find(holds).or_else(|| loads().find(holds))
    }

    /// The segments with code, in file order.
    pub fn code_segments(&self) -> impl Iterator<Item = &Segment> {
        self.headers.segments.iter().filter(|segment| segment.is_code())
    }

    /// The SVMA of a byte of the file; `None` for bytes that no segment loads.
    pub fn svma_of(&self, file_offset: u64) -> Option<u64> {
        self.segment_of(file_offset)?.svma_of(file_offset)
    }

    /// The byte of the file that an SVMA stands for; `None` for addresses that the file does not fill.
    pub fn file_offset_of(&self, svma: u64) -> Option<u64> {
        self.headers.segments.iter().filter(|segment| segment.kind == object::elf::PT_LOAD).find_map(|segment| {
            let distance = svma.checked_sub(segment.svma).filter(|distance| *distance < segment.file_size)?;
            segment.file_offset.checked_add(distance)
        })
    }

    /// The addresses (SVMA) of the program's text: its `.text`, or its first code segment when sections were stripped.
    pub fn text_span(&self) -> Option<Range<u64>> {
        let span = |start: u64, size: u64| start..start.saturating_add(size);
        match self.headers.section(".text") {
            Some(text) if text.size > 0 => Some(span(text.svma, text.size)),
            _ => self.code_segments().next().map(|segment| span(segment.svma, segment.size)),
        }
    }
}
