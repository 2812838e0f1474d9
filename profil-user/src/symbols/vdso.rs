//! The vDSO: an ELF image that the kernel maps into each process, and that no file holds.

use std::fs::File;
use std::io;

use super::demangle;
use super::elf_headers::{ElfError, ElfHeaders, Segment, read_bytes};
use super::symbol_table::SymbolTable;
use super::symbolizer::{Names, Unnamed};
use crate::build_id::BuildId;
use crate::maps::{self, Backing};

/// Largest image, bytes; the kernel's has two or three pages.
const SIZE_LIMIT: u64 = 1 << 20;

/// Why the vDSO of a process cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum VdsoError {
    /// The process is gone, or may not be looked into.
    #[error("cannot read the memory of process {pid}")]
    Process {
        /// The process (tgid).
        pid: u32,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// It runs without one (kernel parameter `vdso=0`).
    #[error("cannot find a vDSO in process {pid}")]
    None {
        /// The process (tgid).
        pid: u32,
    },
    /// What is mapped there is not the kernel's image.
    #[error("cannot use the vDSO as ELF")]
    Elf {
        /// What is wrong with it.
        #[source]
        source: ElfError,
    },
}

/// Copies the image of the vDSO out of the memory of a process.
///
/// # Errors
/// [`VdsoError`].
pub fn image(pid: u32) -> Result<Vec<u8>, VdsoError> {
    let failed = |source| VdsoError::Process { pid, source };
    let text = std::fs::read(format!("/proc/{pid}/maps")).map_err(failed)?;
    let entries = maps::parse(&text).unwrap_or_default();
    let entry = entries.iter().find(|entry| entry.backing() == Backing::Vdso).ok_or(VdsoError::None { pid })?;
    let memory = File::open(format!("/proc/{pid}/mem")).map_err(failed)?;
    read_bytes(&memory, entry.start, entry.end - entry.start, SIZE_LIMIT).map_err(|source| VdsoError::Elf { source })
}

/// The vDSO of a process.
#[derive(Debug)]
pub struct Vdso {
    /// Its build ID: the same in all processes of one kernel and word size.
    pub build_id: Option<BuildId>,
    headers: ElfHeaders,
    table: SymbolTable<'static>,
}

impl Vdso {
    /// Reads the vDSO of this process, which is that of every process with the same word size on this kernel.
    ///
    /// # Errors
    /// [`VdsoError`].
    pub fn own() -> Result<Vdso, VdsoError> {
        Vdso::of_process(std::process::id())
    }

    /// Reads the vDSO of a process out of its memory.
    ///
    /// # Errors
    /// [`VdsoError`].
    pub fn of_process(pid: u32) -> Result<Vdso, VdsoError> {
        Vdso::from_image(&image(pid)?)
    }

    /// Reads a vDSO out of a copy of its image.
    ///
    /// # Errors
    /// [`VdsoError::Elf`].
    pub fn from_image(image: &[u8]) -> Result<Vdso, VdsoError> {
        let headers = ElfHeaders::read(image).map_err(|source| VdsoError::Elf { source })?;
        let table = SymbolTable::read(&headers, image).map_err(|source| VdsoError::Elf { source })?;
        Ok(Vdso { build_id: headers.build_id(image), headers, table: table.into_owned() })
    }

    /// The SVMA of a byte of the image, which is mapped whole: its offset from the start of the `[vdso]` mapping.
    pub fn svma_of(&self, offset: u64) -> Option<u64> {
        self.headers.segments.iter().filter(|segment| segment.is_code()).find_map(|segment| segment.svma_of(offset))
    }

    /// The segment with its code.
    pub fn code_segment(&self) -> Option<&Segment> {
        self.headers.segments.iter().find(|segment| segment.is_code())
    }

    /// Names addresses (SVMA).
    pub fn name(&self, svmas: &[u64]) -> Names {
        let frames: Vec<_> = svmas
            .iter()
            .map(|svma| {
                let symbol = self.table.name_of(*svma);
                symbol.map(|symbol| demangle::frame(&String::from_utf8_lossy(symbol))).into_iter().collect()
            })
            .collect();
        let why = frames.iter().any(Vec::is_empty).then_some(Unnamed::NoSymbol);
        Names { frames, unnamed: why }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn the_vdso_of_a_process_names_clock_gettime() {
        let child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.expect("cat runs");
        // Its answer says that exec is over: until then its memory is being set up.
        child.stdin.as_mut().expect("piped").write_all(b"x").expect("written");
        child.stdout.as_mut().expect("piped").read_exact(&mut [0]).expect("an answer");
        let vdso = Vdso::of_process(child.id());
        drop(child.stdin.take());
        child.wait().expect("cat ends");
        let (vdso, own) = (vdso.expect("a vDSO"), Vdso::own().expect("a vDSO"));
        assert_eq!(vdso.build_id, own.build_id);
        // x86-64 and aarch64 differ in the prefix.
        let symbol = ["__vdso_clock_gettime", "__kernel_clock_gettime"]
            .iter()
            .find_map(|name| Some((*name, own.table.find(name)?)))
            .expect("a clock");
        let names = vdso.name(&[symbol.1.svma + 1, 0]);
        // Several names stand for this function.
        assert!(names.frames[0][0].function.ends_with("clock_gettime"), "{names:?}");
        assert_eq!((names.frames[1].len(), names.unnamed), (0, Some(Unnamed::NoSymbol)));
        assert_eq!(vdso.svma_of(symbol.1.svma), Some(symbol.1.svma), "the image begins at SVMA 0");
    }

    #[test]
    fn what_is_no_image_is_refused() {
        assert!(matches!(Vdso::from_image(&[0; 4096]), Err(VdsoError::Elf { .. })));
        assert!(matches!(Vdso::from_image(b"\x7fELF"), Err(VdsoError::Elf { .. })));
    }
}
