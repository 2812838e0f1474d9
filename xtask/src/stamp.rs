//! A stamp: tells whether a build's inputs are those of the last time.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

/// A hash over file names, file contents and versions.
///
/// The hasher may differ between Rust releases; then something is built once more, no harm done.
#[derive(Default)]
pub struct Stamp {
    hasher: DefaultHasher,
}

impl Stamp {
    /// Takes a word into account: a version, an option.
    pub fn word(&mut self, word: &str) {
        word.hash(&mut self.hasher);
    }

    /// Takes a file, or all files below a folder, into account.
    pub fn path(&mut self, path: &Path) -> Result<()> {
        for file in files_below(path)? {
            file.hash(&mut self.hasher);
            let content = std::fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
            content.hash(&mut self.hasher);
        }
        Ok(())
    }

    /// The stamp as text.
    pub fn text(&self) -> String {
        format!("{:016x}\n", self.hasher.finish())
    }
}

/// All files below a folder, in a fixed order; of a file, the file itself.
pub fn files_below(path: &Path) -> Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let cannot = || format!("cannot list {}", path.display());
    let mut entries = std::fs::read_dir(path)
        .with_context(cannot)?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<Vec<_>>>()
        .with_context(cannot)?;
    entries.sort();
    let mut files = Vec::new();
    for entry in entries {
        files.extend(files_below(&entry)?);
    }
    Ok(files)
}
