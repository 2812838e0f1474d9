//! Where libprofil.so is.

use std::path::PathBuf;

/// File name of the library that gives programs our profil(3).
pub const LIBRARY: &str = "libprofil.so";

/// The library is nowhere.
#[derive(Debug, thiserror::Error)]
#[error("cannot find {LIBRARY}: it is neither beside {program} nor in {places}; `cargo xtask install` puts it there")]
pub struct NoLibrary {
    /// This program.
    pub program: String,
    /// Where else it was looked for.
    pub places: String,
}

/// The library that belongs to this program: beside it, as a build leaves them, or in a library directory next to its
/// own, as an installation does.
///
/// # Errors
/// [`NoLibrary`].
pub fn find_library() -> Result<PathBuf, NoLibrary> {
    let program = std::env::current_exe().unwrap_or_default();
    let directory = program.parent().map(PathBuf::from).unwrap_or_default();
    let others = ["../lib/profil", "../lib"].map(|place| directory.join(place));
    let mut places = std::iter::once(&directory).chain(&others);
    let found = places.find_map(|place| place.join(LIBRARY).canonicalize().ok());
    found.ok_or_else(|| NoLibrary {
        program: program.display().to_string(),
        places: others.map(|place| place.display().to_string()).join(" nor "),
    })
}
