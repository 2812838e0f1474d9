//! A folder for one test.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// A folder that goes away with the test; any user may read it.
#[derive(Debug)]
pub struct Scratch {
    folder: TempDir,
}

impl Scratch {
    /// Makes the folder.
    ///
    /// # Panics
    ///
    /// If that fails.
    #[expect(clippy::new_without_default, reason = "it makes a folder, which no default does")]
    pub fn new() -> Scratch {
        let folder = TempDir::with_prefix("profil-test-").expect("a temporary folder");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("chmod of our own folder");
        Scratch { folder }
    }

    /// A path in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Builds `targets/NAME.c` at -O1, as a position-independent executable.
    ///
    /// # Panics
    ///
    /// If it does not compile.
    pub fn build(&self, name: &str) -> PathBuf {
        self.build_as(name, name, &[])
    }

    /// Builds `targets/SOURCE.c` at -O1 with more flags, under another name.
    ///
    /// # Panics
    ///
    /// If it does not compile.
    pub fn build_as(&self, source: &str, name: &str, flags: &[&str]) -> PathBuf {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("targets").join(source).with_extension("c");
        self.compile(&source, name, flags)
    }

    /// Compiles any C source at -O1 with more flags.
    ///
    /// # Panics
    ///
    /// If it does not compile.
    pub fn compile(&self, source: &Path, name: &str, flags: &[&str]) -> PathBuf {
        let program = self.path(name);
        let mut gcc = Command::new("gcc");
        gcc.args(["-O1", "-g", "-Wall", "-Werror", "-pthread", "-Wl,--build-id", "-o"]).arg(&program).arg(source);
        let output = gcc.args(flags).output().expect("gcc runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        program
    }
}
