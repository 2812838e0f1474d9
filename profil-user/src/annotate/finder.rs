//! The code of the build that ran: its file, wherever it is by now.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::MemfdFlags;

use super::error::AnnotateError;
use crate::build_id::BuildId;
use crate::profile::{Mapping, MappingKind, Profile};
use crate::symbols::debug_files::{DebugFiles, build_id_path};
use crate::symbols::debuginfod::Artifact;
use crate::symbols::elf_headers::{ElfError, read_bytes};
use crate::symbols::object_file::{ObjectFile, Origin};
use crate::symbols::reader::{Reader, Sources};
use crate::symbols::symbolizer::{NamedCode, Names};
use crate::symbols::{target_files, vdso};

/// Largest function, bytes.
const FUNCTION_LIMIT: u64 = 4 << 20;

/// Why there is no code to take apart, though nothing is amiss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoCode {
    /// It is the kernel's, which patches itself while it runs: no file holds what ran.
    Kernel,
    /// It was made at run time, and is gone with its process.
    MadeAtRunTime,
    /// No mapping is known that it belongs to.
    Unknown,
}

/// What there is of the code behind a mapping.
#[derive(Debug)]
pub enum Found {
    /// Its file.
    Code(Box<Code>),
    /// There is none.
    NoCode(NoCode),
}

/// The file that ran, and what is known of it.
#[derive(Debug)]
pub struct Code {
    /// The file.
    pub file: ObjectFile,
    /// Where it was found.
    pub path: PathBuf,
    /// Its debug file, where it has none of the information itself.
    pub debug: Option<ObjectFile>,
    /// That it is the one that ran follows from its build ID.
    pub proven: bool,
    /// What dwz(1) moved out of the debug information.
    shared: Option<ObjectFile>,
    reader: RefCell<Reader>,
    /// Functions by an address in them, as far as they were asked for.
    functions: RefCell<HashMap<u64, Option<NamedCode>>>,
}

impl Code {
    /// The SVMA of an address of a profile.
    ///
    /// profil's own profiles have SVMAs; other tools write AVMAs, and where the file is mapped.
    pub fn svma_of(&self, mapping: &Mapping, address: u64) -> Option<u64> {
        self.file.svma_of(address.checked_sub(mapping.start)?.checked_add(mapping.file_offset)?)
    }

    /// Looks the functions around addresses (SVMA) up at once: each question takes a look at all symbols.
    ///
    /// # Errors
    /// [`AnnotateError::Reader`].
    pub fn look_up(&self, svmas: &[u64]) -> Result<(), AnnotateError> {
        let mut functions = self.functions.borrow_mut();
        let unknown: Vec<u64> = svmas.iter().copied().filter(|svma| !functions.contains_key(svma)).collect();
        if !unknown.is_empty() {
            let found = self.reader.borrow_mut().functions(&self.sources(), &unknown);
            let found = found.map_err(|why| AnnotateError::Reader { path: self.path.clone(), why })?;
            functions.extend(unknown.into_iter().zip(found));
        }
        Ok(())
    }

    /// The function around an address (SVMA).
    ///
    /// # Errors
    /// [`AnnotateError::Reader`].
    pub fn function_at(&self, svma: u64) -> Result<Option<NamedCode>, AnnotateError> {
        self.look_up(&[svma])?;
        Ok(self.functions.borrow().get(&svma).cloned().flatten())
    }

    /// Names addresses (SVMA).
    pub fn name(&self, svmas: &[u64]) -> Names {
        self.reader.borrow_mut().name(&self.sources(), svmas)
    }

    fn sources(&self) -> Sources<'_> {
        Sources { object: &self.file, debug: self.debug.as_ref(), shared: self.shared.as_ref() }
    }

    /// The bytes of a function, as far as the file has them.
    ///
    /// # Errors
    /// [`AnnotateError::TooLarge`] and [`AnnotateError::Code`].
    pub fn bytes_of(&self, function: &NamedCode) -> Result<Vec<u8>, AnnotateError> {
        let size = function.svmas.end - function.svmas.start;
        if size > FUNCTION_LIMIT {
            let function = function.name.clone();
            return Err(AnnotateError::TooLarge { function, size, limit: FUNCTION_LIMIT });
        }
        let failed = |source| AnnotateError::Code { path: self.path.clone(), source };
        let offset = self.file.file_offset_of(function.svmas.start).ok_or_else(|| failed(ElfError::Malformed))?;
        let open = self.file.handle.file().map_err(|source| failed(ElfError::Read { offset, size, source }))?;
        read_bytes(&*open, offset, size, FUNCTION_LIMIT).map_err(failed)
    }

    /// When the program was built, at the latest: no later than its file was written, nor than it was seen to run.
    pub fn built_by(&self, profile: &Profile) -> Option<SystemTime> {
        let written = self.file.handle.file().and_then(|file| file.metadata()?.modified()).ok();
        let ran = Some(profile.start).filter(|start| *start > UNIX_EPOCH);
        written.into_iter().chain(ran).min()
    }
}

/// Finds the files that ran.
#[derive(Debug, Default)]
pub struct ObjectFinder {
    /// Where debug files, and programs that have moved, are looked for.
    pub debug_files: DebugFiles,
}

impl ObjectFinder {
    /// Finds the code behind a mapping of a profile.
    ///
    /// A file of another build is never taken: where the build ID is known, it decides; a file without one must not have
    /// changed since the recording, unless the user gave it.
    ///
    /// # Errors
    /// [`AnnotateError::Stale`], [`AnnotateError::Newer`] and [`AnnotateError::Gone`].
    pub fn find(&mut self, profile: &Profile, mapping: Option<&Mapping>) -> Result<Found, AnnotateError> {
        let Some(mapping) = mapping else { return Ok(Found::NoCode(NoCode::Unknown)) };
        match mapping.kind {
            MappingKind::Kernel => return Ok(Found::NoCode(NoCode::Kernel)),
            MappingKind::Anonymous => return Ok(Found::NoCode(NoCode::MadeAtRunTime)),
            MappingKind::File | MappingKind::Vdso => {}
        }
        let recorded = Path::new(&mapping.object);
        let (file, path) = match (&mapping.build_id, mapping.kind) {
            (Some(build_id), MappingKind::Vdso) => own_vdso(build_id).ok_or_else(|| gone(mapping))?,
            (Some(build_id), _) => self.by_build_id(recorded, build_id).ok_or_else(|| match open(recorded) {
                Some(found) if found.build_id.as_ref() != Some(build_id) => {
                    AnnotateError::Stale { path: recorded.to_owned(), found: found.build_id, wanted: build_id.clone() }
                }
                _ => gone(mapping),
            })?,
            (None, _) => self.by_path(recorded, profile.start)?.ok_or_else(|| gone(mapping))?,
        };
        let debug = if file.has_debug_info() { None } else { self.debug_files.find(&file, &path) };
        let shared = self.debug_files.find_shared(debug.as_ref().unwrap_or(&file));
        let proven = mapping.build_id.is_some();
        Ok(Found::Code(Box::new(Code {
            file,
            path,
            debug,
            proven,
            shared,
            reader: RefCell::default(),
            functions: RefCell::default(),
        })))
    }

    /// The file of a build: where it ran, in the directories of debug files, or from a server.
    fn by_build_id(&mut self, recorded: &Path, build_id: &BuildId) -> Option<(ObjectFile, PathBuf)> {
        let debug_file = build_id_path(build_id);
        let executable = debug_file.with_extension("");
        let directories = self.debug_files.host_directories();
        let mut candidates = vec![recorded.to_owned()];
        for directory in &directories {
            // The last is where `perf buildid-cache` keeps files; a debug file may be a whole program.
            let by_id = [executable.clone(), debug_file.clone(), executable.join("elf")];
            candidates.extend(by_id.iter().map(|name| directory.join(name)));
            candidates.extend(by_name(directory, recorded));
        }
        let same = |file: &ObjectFile| file.build_id.as_ref() == Some(build_id) && holds_code(file);
        let local = candidates.into_iter().find_map(|path| Some((open(&path).filter(same)?, path)));
        local.or_else(|| {
            let (file, path) = self.debug_files.debuginfod.as_mut()?.fetch(build_id, Artifact::Executable)?;
            let file = ObjectFile::new(file, &path, Origin::Host).ok()?;
            same(&file).then_some((file, path))
        })
    }

    /// The file at a path where no build ID says which build ran.
    fn by_path(&self, recorded: &Path, recording: SystemTime) -> Result<Option<(ObjectFile, PathBuf)>, AnnotateError> {
        // The user's word goes for the directories that the user named.
        let users = self.debug_files.directories.iter().filter_map(|directory| std::path::absolute(directory).ok());
        let given = users.flat_map(|directory| by_name(&directory, recorded));
        let given = given.into_iter().find_map(|path| Some((open(&path).filter(holds_code)?, path)));
        if given.is_some() {
            return Ok(given);
        }
        let Some(file) = open(recorded).filter(holds_code) else { return Ok(None) };
        // Not the time of the content, which packages and `cp -p` bring along, but that of the file at this place.
        let changed = file.handle.file().and_then(|file| file.metadata()).ok().map(|found| {
            UNIX_EPOCH + Duration::new(found.ctime().max(0) as u64, found.ctime_nsec().clamp(0, 999_999_999) as u32)
        });
        if recording > UNIX_EPOCH && changed.is_none_or(|changed| changed > recording) {
            return Err(AnnotateError::Newer { path: recorded.to_owned() });
        }
        Ok(Some((file, recorded.to_owned())))
    }
}

/// Where a directory may have a file that ran elsewhere: at its path, or by its base name.
fn by_name(directory: &Path, recorded: &Path) -> Vec<PathBuf> {
    let relative = recorded.strip_prefix("/").unwrap_or(recorded);
    let base = recorded.file_name().map(Path::new);
    [Some(relative), base].into_iter().flatten().map(|name| directory.join(name)).collect()
}

fn gone(mapping: &Mapping) -> AnnotateError {
    AnnotateError::Gone { object: mapping.object.clone(), wanted: mapping.build_id.clone() }
}

fn open(path: &Path) -> Option<ObjectFile> {
    let file = target_files::open_below(Path::new("/"), path).ok()?;
    ObjectFile::new(file, path, Origin::Host).ok()
}

/// Whether a file has the bytes of its code: a debug file has the headers only.
fn holds_code(file: &ObjectFile) -> bool {
    let segments = file.code_segments().any(|segment| segment.file_size > 0);
    segments && file.headers.section(".text").is_none_or(|text| text.has_bytes())
}

/// The vDSO of this kernel, if it is the one that ran.
fn own_vdso(build_id: &BuildId) -> Option<(ObjectFile, PathBuf)> {
    let image = vdso::image(std::process::id()).ok()?;
    let mut file = File::from(rustix::fs::memfd_create("vdso", MemfdFlags::CLOEXEC).ok()?);
    file.write_all(&image).ok()?;
    let path = PathBuf::from("[vdso]");
    let file = ObjectFile::new(file, &path, Origin::Host).ok()?;
    (file.build_id.as_ref() == Some(build_id)).then_some((file, path))
}
