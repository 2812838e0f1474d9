//! Where libprofil.so is.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

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

/// Directories that a program may be below the root for [`for_glibc`].
const DEPTH: usize = 64;

/// What `LD_PRELOAD` is to hold for the library to be loaded by the GNU C library and by no other: musl's loader ends a
/// program when something that a preloaded library needs is not there, and ignores one that is not there itself.
///
/// `$ORIGIN` is the program's directory to the one, ld.so(8), and a name like any other to the other. Above the root is
/// the root.
pub fn for_glibc(library: &Path) -> OsString {
    let mut path = OsString::from("$ORIGIN");
    path.push("/..".repeat(DEPTH));
    path.push(library);
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_the_library_comes_after_enough_steps_to_the_root() {
        let path = for_glibc(Path::new("/lib/libprofil.so")).into_string().expect("plain text");
        let up = path.strip_prefix("$ORIGIN").and_then(|rest| rest.strip_suffix("/lib/libprofil.so"));
        assert!(up.is_some_and(|up| up.len() == 3 * DEPTH && up.replace("/..", "").is_empty()), "{path}");
    }
}
