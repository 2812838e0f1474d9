//! The profile that a view shows: which file, and names for what has none yet.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use crate::cli::{remarks, talk};
use crate::input::{self, InputError, Origin, UNNAMED_OBJECT};
use crate::profile::Profile;
use crate::symbols::debug_files::DebugFiles;
use crate::symbols::debuginfod::Debuginfod;
use crate::symbols::late;

/// File that `record` writes and the views read when none is named.
pub const DEFAULT_FILE: &str = "profile.pb.gz";

/// Which profile a view shows.
#[derive(Clone, Debug, clap::Args)]
pub struct InputArgs {
    /// The profile: of profil, any other pprof file, gmon.out, what `perf script` prints, or folded stacks; - is standard
    /// input
    #[arg(value_name = "FILE", default_value = DEFAULT_FILE)]
    pub file: PathBuf,

    /// Directory with debug files, laid out like /usr/lib/debug, for code without a name; may be given several times
    #[arg(long, value_name = "DIR")]
    pub debug_dir: Vec<PathBuf>,

    /// The program or library that a gmon.out was counted in, whose functions it then shows
    #[arg(long = "object", value_name = "PATH")]
    pub program: Option<PathBuf>,
}

impl InputArgs {
    /// Reads the profile, and names what has no name yet where this machine knows the code.
    ///
    /// # Errors
    /// As for [`read`].
    pub fn load(&self) -> anyhow::Result<Profile> {
        let mut profile = read(&self.file, self.program.as_deref())?;
        if profile.mappings.iter().any(|mapping| mapping.object == UNNAMED_OBJECT && mapping.build_id.is_none()) {
            talk::say(
                "gmon.out does not say which program it is of, so there are addresses only; name it: --object PATH",
            );
        }
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

/// Reads a profile for a view, and says what to do when there is none; `object` is the program of a gmon.out.
///
/// # Errors
/// The file is not there, cannot be read, or is no profile.
pub fn read(path: &Path, object: Option<&Path>) -> anyhow::Result<Profile> {
    let read = if path == Path::new("-") {
        input::read(io::stdin().lock(), Origin { path: None, object })
    } else {
        input::read_file(path, object)
    };
    match read {
        Err(InputError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => bail!(
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
        let error = read(Path::new("no/such/profile.pb.gz"), None).unwrap_err();
        insta::assert_snapshot!(format!("{error:#}"), @"cannot open no/such/profile.pb.gz: no such file; record one first: `profil -- CMD`, or name one: `profil report FILE`");
    }

    #[test]
    fn another_file_is_named_for_what_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let error = |name: &str, content: &[u8]| {
            let path = directory.path().join(name);
            std::fs::write(&path, content).unwrap();
            format!("{:#}", read(&path, None).unwrap_err()).replace(&directory.path().display().to_string(), "DIR")
        };
        insta::assert_snapshot!(error("gmon.out", b"gmon\x01\0\0\0"), @"cannot show DIR/gmon.out: cannot read gmon.out at byte 8: it ends inside the record that begins at byte 0");
        insta::assert_snapshot!(error("empty", b""), @"cannot show DIR/empty: cannot read the profile: the file is empty; was the recording cut short?");
        insta::assert_snapshot!(error("perf.data", b"PERFILE2\0\0\0\0"), @"cannot show DIR/perf.data: cannot read the profile: the file is perf.data, the output of perf record (`perf script -i FILE | profil report -` shows it); what can be read: pprof (plain or gzip), gmon.out, the text of `perf script`, and folded stacks");
        insta::assert_snapshot!(error("notes.txt", b"Dear diary,\nit is 5\n"), @"cannot show DIR/notes.txt: cannot read the profile: the file is text, but line 1 (`Dear diary,`) is neither an event of `perf script` nor `a;b;c COUNT`; what can be read: pprof (plain or gzip), gmon.out, the text of `perf script`, and folded stacks");
    }
}
