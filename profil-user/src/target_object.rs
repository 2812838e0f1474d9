//! An object as one process has it mapped: from symbols and sections to addresses in that process.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::address_space::{AddressSpace, AddressSpaceError};
use crate::maps::{Backing, MapEntry};
use crate::process::TargetProcess;
use crate::profile::Frame;
use crate::symbols::target_files::{Identity, Inode, MappedFile};
use crate::symbols::{ObjectId, Symbols};

/// An object that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TargetObjectError {
    /// The process has no such object.
    #[error("process {pid} has mapped no code of `{name}`; it has: {mapped}")]
    NotMapped {
        /// The process.
        pid: u32,
        /// Path or file name asked for.
        name: String,
        /// What it has mapped instead.
        mapped: String,
    },
    /// The process has no code of a file.
    #[error("process {pid} has mapped no code of its own program")]
    NoProgram {
        /// The process.
        pid: u32,
    },
    /// The file cannot be used.
    #[error("cannot read {}: {why:?}", path.display())]
    Unusable {
        /// Its path.
        path: PathBuf,
        /// Why.
        why: crate::symbols::symbolizer::Unnamed,
    },
    /// No symbol has the name.
    #[error("{} has no symbol `{name}`; give an address, or another object with --object", path.display())]
    NoSymbol {
        /// Path of the object.
        path: PathBuf,
        /// Name asked for.
        name: String,
    },
    /// The object has no text.
    #[error("{} has no code that could be profiled", path.display())]
    NoText {
        /// Path of the object.
        path: PathBuf,
    },
    /// The maps.
    #[error(transparent)]
    Maps(#[from] AddressSpaceError),
}

/// A file as somebody names it, by each way in which a mapping can show it.
struct SameFile<'n> {
    name: &'n Path,
    /// Without symbolic links, as we see it and as the process sees it.
    canonical: [Option<PathBuf>; 2],
    /// Device and inode, likewise: of a file that was renamed since, or has several names.
    inodes: [Option<(u64, u64)>; 2],
}

impl SameFile<'_> {
    fn of(pid: u32, name: &Path) -> SameFile<'_> {
        let root = PathBuf::from(format!("/proc/{pid}/root"));
        let inside = name.is_absolute().then(|| root.join(name.strip_prefix("/").unwrap_or(name)));
        let inode = |path: &Path| fs::metadata(path).ok().map(|metadata| (metadata.dev(), metadata.ino()));
        let inside_canonical = inside.as_ref().and_then(|path| {
            let path = fs::canonicalize(path).ok()?;
            Some(Path::new("/").join(path.strip_prefix(&root).unwrap_or(&path)))
        });
        SameFile {
            name,
            canonical: [fs::canonicalize(name).ok(), inside_canonical],
            inodes: [inode(name), inside.as_deref().and_then(inode)],
        }
    }

    fn is(&self, entry: &MapEntry) -> bool {
        let path = Path::new(&entry.path);
        let (major, minor) = entry.device;
        let inode = (rustix::fs::makedev(major, minor), entry.inode);
        path == self.name
            || path.file_name() == Some(self.name.as_os_str())
            || self.canonical.iter().flatten().any(|canonical| canonical == path)
            || self.inodes.contains(&Some(inode))
    }
}

/// A symbol of the object, at its place in the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacedSymbol {
    /// First address (AVMA).
    pub address: u64,
    /// Size, bytes; 0 when the symbol table does not say.
    pub size: u64,
}

/// An object of a process.
pub struct TargetObject {
    symbols: Symbols,
    object: ObjectId,
    path: PathBuf,
    load_bias: u64,
}

impl TargetObject {
    /// The object whose code a process has mapped under a path or file name; `None` means its program. `space` is the
    /// process's address space, in which the object's addresses are to be used.
    ///
    /// # Errors
    /// [`TargetObjectError`].
    pub fn find(
        target: &TargetProcess,
        space: &AddressSpace,
        name: Option<&Path>,
        mut symbols: Symbols,
    ) -> Result<TargetObject, TargetObjectError> {
        let pid = target.pid();
        let mappings = space.mappings()?;
        let code: Vec<&MapEntry> =
            mappings.iter().filter(|entry| entry.executable && entry.backing() == Backing::File).collect();
        let program = target.directory().link("exe").ok().map(PathBuf::from);
        let same = name.map(|name| SameFile::of(pid, name));
        let wanted = |entry: &&MapEntry| {
            let path = Path::new(&entry.path);
            match &same {
                Some(same) => same.is(entry),
                // The program's own link has ` (deleted)` behind it where the file is.
                None => program.as_deref().is_none_or(|program| {
                    program == path || program.as_os_str().to_string_lossy() == format!("{} (deleted)", path.display())
                }),
            }
        };
        let entry = *code.iter().find(|entry| wanted(entry)).ok_or_else(|| match name {
            Some(name) => {
                let mut mapped: Vec<String> = code.iter().map(|entry| entry.path.display().to_string()).collect();
                mapped.dedup();
                TargetObjectError::NotMapped { pid, name: name.display().to_string(), mapped: mapped.join(", ") }
            }
            None => TargetObjectError::NoProgram { pid },
        })?;
        let (major, minor) = entry.device;
        let path = PathBuf::from(&entry.path);
        let mapped = MappedFile {
            pid: Some(pid),
            start: entry.start,
            end: entry.end,
            path: path.clone(),
            identity: Identity { build_id: None, inode: Some(Inode { major, minor, number: entry.inode }) },
        };
        let object = symbols.open(&mapped);
        if let Err(why) = &symbols.object(object).file {
            return Err(TargetObjectError::Unusable { path, why: *why });
        }
        let svma = symbols.object(object).svma_of(entry.offset);
        let svma = svma.ok_or_else(|| TargetObjectError::NoText { path: path.clone() })?;
        Ok(TargetObject { symbols, object, path, load_bias: entry.start.wrapping_sub(svma) })
    }

    /// Path of the object, as the process sees it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// AVMA - SVMA.
    pub fn load_bias(&self) -> u64 {
        self.load_bias
    }

    /// A function or data object by name.
    ///
    /// # Errors
    /// [`TargetObjectError::NoSymbol`] and [`TargetObjectError::Unusable`].
    pub fn symbol(&mut self, name: &str) -> Result<PlacedSymbol, TargetObjectError> {
        let symbol = self.symbols.find(self.object, name);
        let symbol = symbol.map_err(|why| TargetObjectError::Unusable { path: self.path.clone(), why })?;
        let symbol =
            symbol.ok_or_else(|| TargetObjectError::NoSymbol { path: self.path.clone(), name: name.to_owned() })?;
        Ok(PlacedSymbol { address: symbol.svma.wrapping_add(self.load_bias), size: symbol.size })
    }

    /// The object's text (AVMA), the end exclusive.
    ///
    /// # Errors
    /// [`TargetObjectError::NoText`].
    pub fn text(&self) -> Result<std::ops::Range<u64>, TargetObjectError> {
        let span = self.symbols.object(self.object).file.as_ref().ok().and_then(|file| file.text_span());
        let span = span.ok_or_else(|| TargetObjectError::NoText { path: self.path.clone() })?;
        Ok(span.start.wrapping_add(self.load_bias)..span.end.wrapping_add(self.load_bias))
    }

    /// Names of addresses (AVMA), one for each: the function that contains it, or nothing.
    pub fn functions(&mut self, addresses: &[u64]) -> Vec<Option<String>> {
        let svmas: Vec<u64> = addresses.iter().map(|address| address.wrapping_sub(self.load_bias)).collect();
        let names = self.symbols.name(self.object, &svmas);
        names.frames.iter().map(|frames| frames.last().map(|Frame { function, .. }| function.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::maps;

    /// A line of maps about a file, under a path.
    fn entry(file: &Path, path: &Path) -> MapEntry {
        let there = fs::metadata(file).expect("a file of ours");
        let (major, minor) = (rustix::fs::major(there.dev()), rustix::fs::minor(there.dev()));
        let line = format!("1000-2000 r-xp 0 {major:x}:{minor:x} {} {}\n", there.ino(), path.display());
        maps::parse(line.as_bytes()).expect("a line of maps").remove(0)
    }

    #[test]
    fn an_object_is_found_by_any_name_of_its_file() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = |name: &str| folder.path().join(name);
        let (file, link, hard, other) = (path("lib.so.1.2"), path("lib.so"), path("hard"), path("other"));
        fs::write(&file, "x").and(fs::write(&other, "y")).expect("files of ours");
        std::os::unix::fs::symlink(&file, &link).and(fs::hard_link(&file, &hard)).expect("links of ours");
        let mapped = entry(&file, &file);
        let is = |name: &Path| SameFile::of(std::process::id(), name).is(&mapped);
        for name in [&file, &link, &hard, Path::new("lib.so.1.2")] {
            assert!(is(name), "{}", name.display());
        }
        assert!(!is(&other) && !is(Path::new("lib.so")) && !is(&path("none")));
        // Where the file system shows other numbers in maps than in stat, the path without links decides.
        let elsewhere = entry(Path::new("/proc/self/exe"), &file);
        assert!(SameFile::of(std::process::id(), &link).is(&elsewhere));
    }
}
