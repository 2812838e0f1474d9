//! `profil report`: a profile as a table.

use std::io::{self, BufWriter, ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use regex_lite::Regex;

use crate::pprof::{self, ReadError};
use crate::profile::Profile;
use crate::report::color::{ColorChoice, Medium};
use crate::report::summary::{RunFile, misses_line, summary_line};
use crate::report::table::Layout;
use crate::report::{By, Report, machine, table};
use crate::symbols::debug_files::DebugFiles;
use crate::symbols::debuginfod::Debuginfod;
use crate::symbols::late;

/// File that `record` writes and the views read when none is named.
pub const DEFAULT_FILE: &str = "profile.pb.gz";

/// Rows of the table when no limit is given.
const DEFAULT_LIMIT: usize = 30;

/// Exit status when the profile has no tick.
const NO_TICKS: u8 = 4;

/// Shows where the time went.
#[derive(Clone, Debug, clap::Args)]
pub struct ReportArgs {
    /// The profile: of profil, or any other pprof file; - is standard input
    #[arg(value_name = "FILE", default_value = DEFAULT_FILE)]
    pub file: PathBuf,

    /// What to add ticks up by
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = By::Function)]
    pub by: By,

    /// Rows to show; 0 shows all [default: 30 in a table, all in JSON and CSV]
    #[arg(long, value_name = "N")]
    pub limit: Option<usize>,

    /// Show only rows whose name (of what --by says) matches; shares stay those of the whole
    #[arg(long, value_name = "REGEX")]
    pub filter: Option<Regex>,

    /// Directory with debug files, laid out like /usr/lib/debug, for code without a name; may be given several times
    #[arg(long, value_name = "DIR")]
    pub debug_dir: Vec<PathBuf>,

    /// Print JSON
    #[arg(long, conflicts_with = "csv")]
    pub json: bool,

    /// Print comma-separated values
    #[arg(long)]
    pub csv: bool,

    /// Print the table only, no summary
    #[arg(short, long)]
    pub quiet: bool,

    /// When to use colour
    #[arg(long, value_name = "WHEN", value_enum, default_value_t)]
    pub color: ColorChoice,
}

/// Runs `profil report`: the report to standard output, the summary to standard error.
///
/// # Errors
/// The file cannot be read or is no profile, or standard output fails otherwise than by its reader going away.
pub fn run(args: ReportArgs) -> anyhow::Result<ExitCode> {
    let mut profile = load(&args.file)?;
    let mut debug_files = DebugFiles { directories: args.debug_dir.clone(), debuginfod: Debuginfod::from_env() };
    late::name_unnamed(&mut profile, &mut debug_files);
    let report = Report::new(&profile, args.by, |name| args.filter.as_ref().is_none_or(|filter| filter.is_match(name)));
    match print(&report, &args) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(ExitCode::SUCCESS),
        printed => printed.context("cannot write the report to standard output")?,
    }
    if !args.quiet {
        talk(&profile, &report, &args);
    }
    Ok(if report.counted == 0 { ExitCode::from(NO_TICKS) } else { ExitCode::SUCCESS })
}

/// Reads a profile for a view, and says what to do when there is none.
///
/// # Errors
/// The file is not there, cannot be read, or is no profile.
pub fn load(path: &Path) -> anyhow::Result<Profile> {
    let read = if path == Path::new("-") { pprof::read(io::stdin().lock()) } else { pprof::read_file(path) };
    match read {
        Err(ReadError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => bail!(
            "cannot open {}: no such file; record one first: `profil -- CMD`, or name one: `profil report FILE`",
            path.display()
        ),
        read => read.with_context(|| format!("cannot show {}", path.display())),
    }
}

fn print(report: &Report, args: &ReportArgs) -> io::Result<()> {
    let stdout = io::stdout().lock();
    let terminal = stdout.is_terminal();
    let width = terminal.then(|| rustix::termios::tcgetwinsize(&stdout).ok()).flatten();
    let mut to = BufWriter::new(stdout);
    let rows = |default: Option<usize>| match args.limit {
        None => default,
        Some(0) => None,
        limit => limit,
    };
    if args.json {
        machine::write_json(report, rows(None), &mut to)?;
    } else if args.csv {
        machine::write_csv(report, rows(None), &mut to)?;
    } else {
        let medium = if terminal { Medium::Terminal } else { Medium::File };
        let layout = Layout {
            limit: rows(Some(DEFAULT_LIMIT)),
            // A terminal that does not know its size reports 0 columns.
            width: width.map(|size| size.ws_col.into()).filter(|columns| *columns > 0),
            paint: args.color.paint(medium, |name| std::env::var_os(name)),
        };
        table::write(report, layout, &mut to)?;
    }
    to.flush()
}

/// What goes to standard error: that nothing matched, why ticks are missing, the summary.
///
/// Standard error may be closed too; there is nobody left to tell then.
fn talk(profile: &Profile, report: &Report, args: &ReportArgs) {
    let mut to = io::stderr().lock();
    if let (Some(filter), true, 1..) = (&args.filter, report.rows.is_empty(), report.counted) {
        let _ = writeln!(to, "profil: no row matches `{filter}`");
    }
    if let Some(misses) = misses_line(&profile.tally) {
        let _ = writeln!(to, "{misses}");
    }
    let _ = writeln!(to, "{}", summary_line(&profile.tally, &profile.clock, RunFile::Read(&args.file)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_file_says_how_to_get_one() {
        let error = load(Path::new("no/such/profile.pb.gz")).unwrap_err();
        insta::assert_snapshot!(format!("{error:#}"), @"cannot open no/such/profile.pb.gz: no such file; record one first: `profil -- CMD`, or name one: `profil report FILE`");
    }

    #[test]
    fn another_file_is_named_for_what_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let error = |name: &str, content: &[u8]| {
            let path = directory.path().join(name);
            std::fs::write(&path, content).unwrap();
            format!("{:#}", load(&path).unwrap_err()).replace(&directory.path().display().to_string(), "DIR")
        };
        insta::assert_snapshot!(error("gmon.out", b"gmon\x01\0\0\0"), @"cannot show DIR/gmon.out: cannot read the profile: the file is not a pprof profile but gmon.out, the input of gprof");
        insta::assert_snapshot!(error("empty", b""), @"cannot show DIR/empty: cannot read the profile: the file is empty; was the recording cut short?");
    }
}
