//! The profile that a view shows: which file, and names for what has none yet.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use crate::cli::{remarks, talk};
use crate::pprof::{self, ReadError};
use crate::profile::Profile;
use crate::symbols::debug_files::DebugFiles;
use crate::symbols::debuginfod::Debuginfod;
use crate::symbols::late;

/// File that `record` writes and the views read when none is named.
pub const DEFAULT_FILE: &str = "profile.pb.gz";

/// Which profile a view shows.
#[derive(Clone, Debug, clap::Args)]
pub struct InputArgs {
    /// The profile: of profil, or any other pprof file; - is standard input
    #[arg(value_name = "FILE", default_value = DEFAULT_FILE)]
    pub file: PathBuf,

    /// Directory with debug files, laid out like /usr/lib/debug, for code without a name; may be given several times
    #[arg(long, value_name = "DIR")]
    pub debug_dir: Vec<PathBuf>,
}

impl InputArgs {
    /// Reads the profile, and names what has no name yet where this machine knows the code.
    ///
    /// # Errors
    /// As for [`read`].
    pub fn load(&self) -> anyhow::Result<Profile> {
        let mut profile = read(&self.file)?;
        for (object, why) in late::name_unnamed(&mut profile, &mut self.debug_files()) {
            talk::say(format!("{object}: {}", remarks::cure(why)));
        }
        Ok(profile)
    }

    /// Where debug files are looked for.
    pub fn debug_files(&self) -> DebugFiles {
        DebugFiles { directories: self.debug_dir.clone(), debuginfod: Debuginfod::from_env() }
    }
}

/// Reads a profile for a view, and says what to do when there is none.
///
/// # Errors
/// The file is not there, cannot be read, or is no profile.
pub fn read(path: &Path) -> anyhow::Result<Profile> {
    let read = if path == Path::new("-") { pprof::read(io::stdin().lock()) } else { pprof::read_file(path) };
    match read {
        Err(ReadError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => bail!(
            "cannot open {}: no such file; record one first: `profil -- CMD`, or name one: `profil report FILE`",
            path.display()
        ),
        read => read.with_context(|| format!("cannot show {}", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_file_says_how_to_get_one() {
        let error = read(Path::new("no/such/profile.pb.gz")).unwrap_err();
        insta::assert_snapshot!(format!("{error:#}"), @"cannot open no/such/profile.pb.gz: no such file; record one first: `profil -- CMD`, or name one: `profil report FILE`");
    }

    #[test]
    fn another_file_is_named_for_what_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let error = |name: &str, content: &[u8]| {
            let path = directory.path().join(name);
            std::fs::write(&path, content).unwrap();
            format!("{:#}", read(&path).unwrap_err()).replace(&directory.path().display().to_string(), "DIR")
        };
        insta::assert_snapshot!(error("gmon.out", b"gmon\x01\0\0\0"), @"cannot show DIR/gmon.out: cannot read the profile: the file is not a pprof profile but gmon.out, the input of gprof");
        insta::assert_snapshot!(error("empty", b""), @"cannot show DIR/empty: cannot read the profile: the file is empty; was the recording cut short?");
    }
}
