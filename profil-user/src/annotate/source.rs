//! The source files that debug information names.

use std::collections::HashMap;
use std::io::Read;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use crate::symbols::target_files;

/// Largest source file that is read, bytes.
const SIZE_LIMIT: u64 = 16 << 20;

/// Most bytes of all source files together: debug information can name as many as it likes.
const SUM_LIMIT: u64 = 256 << 20;

/// A line of a source file.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// Path as the debug information has it.
    pub file: Arc<str>,
    /// Line, from 1.
    pub line: u32,
}

/// A source file that was found.
#[derive(Clone, Debug)]
struct SourceFile {
    path: PathBuf,
    size_bytes: u64,
    lines: Vec<String>,
    modified: Option<SystemTime>,
}

/// Source files, read when they are first asked for.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    directories: Vec<PathBuf>,
    files: HashMap<Arc<str>, Option<SourceFile>>,
    /// Bytes read so far.
    read_bytes: u64,
}

impl Sources {
    /// Sources to be looked for below some directories first, then at the paths that debug information names.
    pub fn below(directories: &[PathBuf]) -> Sources {
        // Relative directories are the user's, relative to where profil runs.
        let directories = directories.iter().filter_map(|directory| std::path::absolute(directory).ok()).collect();
        Sources { directories, files: HashMap::new(), read_bytes: 0 }
    }

    /// Finds and reads a file, unless that was done before; its path, if it was found.
    pub fn load(&mut self, file: &Arc<str>) -> Option<&Path> {
        if !self.files.contains_key(file) {
            let limit = SIZE_LIMIT.min(SUM_LIMIT.saturating_sub(self.read_bytes));
            let found = candidates(&self.directories, Path::new(&**file)).find_map(|path| read(path, limit));
            self.read_bytes += found.as_ref().map_or(0, |found| found.size_bytes);
            self.files.insert(Arc::clone(file), found);
        }
        self.files.get(file)?.as_ref().map(|found| &*found.path)
    }

    /// The text of a line of a file that was loaded.
    pub fn text(&self, place: &Place) -> Option<&str> {
        let file = self.files.get(&place.file)?.as_ref()?;
        file.lines.get((place.line as usize).checked_sub(1)?).map(String::as_str)
    }

    /// The files that were found and have changed since a time, sorted.
    pub fn newer_than(&self, time: SystemTime) -> Vec<&Path> {
        let newer = |file: &&SourceFile| file.modified.is_some_and(|modified| modified > time);
        let mut paths: Vec<&Path> = self.files.values().flatten().filter(newer).map(|file| &*file.path).collect();
        paths.sort_unstable();
        paths
    }
}

/// Where a file may be: below each directory by as much of its path as is there, down to its base name, and at its own
/// path.
fn candidates<'a>(directories: &'a [PathBuf], file: &'a Path) -> impl Iterator<Item = PathBuf> + 'a {
    let names: Vec<_> = file
        .components()
        .filter_map(|component| match component {
            Component::Normal(name) => Some(name),
            _ => None,
        })
        .collect();
    let below = directories.iter().flat_map(move |directory| {
        let names = names.clone();
        (0..names.len()).map(move |from| directory.join(names[from..].iter().collect::<PathBuf>()))
    });
    below.chain(file.is_absolute().then(|| file.to_owned()))
}

/// The lines of a regular file; what is not UTF-8 is replaced.
///
/// The path comes from the file of a target: it may name a device or a pipe, which are not opened.
fn read(path: PathBuf, limit: u64) -> Option<SourceFile> {
    let file = target_files::open_below(Path::new("/"), &path).ok()?;
    let found = file.metadata().ok()?;
    if found.len() > limit {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(limit).read_to_end(&mut bytes).ok()?;
    let lines = String::from_utf8_lossy(&bytes).lines().map(|line| line.replace('\t', "    ")).collect();
    Some(SourceFile { path, size_bytes: bytes.len() as u64, lines, modified: found.modified().ok() })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_file_is_found_by_as_much_of_its_path_as_a_directory_has() {
        let directory = tempfile::tempdir().expect("a directory");
        fs::create_dir(directory.path().join("src")).expect("our own directory");
        fs::write(directory.path().join("src/deep.c"), "one\n\ttwo\r\n").expect("written");
        fs::write(directory.path().join("deep.c"), "the wrong one\n").expect("written");
        fs::write(directory.path().join("flat.c"), "flat\n").expect("written");
        let mut sources = Sources::below(&[directory.path().to_owned()]);
        let (deep, flat): (Arc<str>, Arc<str>) = ("/build/x/src/deep.c".into(), "/build/x/src/flat.c".into());
        let gone: Arc<str> = "/build/x/src/gone.c".into();
        assert_eq!(sources.load(&deep), Some(directory.path().join("src/deep.c").as_path()));
        assert_eq!(sources.load(&flat), Some(directory.path().join("flat.c").as_path()));
        assert_eq!(sources.load(&gone), None);
        let text = |file: &Arc<str>, line| sources.text(&Place { file: Arc::clone(file), line });
        assert_eq!(text(&deep, 2), Some("    two"));
        assert_eq!((text(&deep, 0), text(&deep, 3)), (None, None));
        assert_eq!(text(&flat, 1), Some("flat"));
        assert_eq!(text(&gone, 1), None);
    }

    #[test]
    fn a_file_at_its_own_path_is_found_and_told_when_it_is_newer() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("a.c");
        fs::write(&path, "here\n").expect("written");
        let name: Arc<str> = path.to_str().expect("UTF-8").into();
        let mut sources = Sources::default();
        assert_eq!(sources.load(&name), Some(path.as_path()));
        assert_eq!(sources.text(&Place { file: name, line: 1 }), Some("here"));
        let modified = fs::metadata(&path).and_then(|found| found.modified()).expect("a time");
        assert_eq!(sources.newer_than(modified - Duration::from_secs(1)), [path.as_path()]);
        assert!(sources.newer_than(modified).is_empty());
    }

    #[test]
    fn what_is_no_regular_file_is_not_opened() {
        for path in ["/dev/zero", "/proc/self/fd/0", "/"] {
            assert!(read(path.into(), SIZE_LIMIT).is_none(), "{path}");
        }
    }
}
