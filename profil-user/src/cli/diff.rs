//! `profil diff`: two profiles side by side.

use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use regex_lite::Regex;

use crate::cli::failure::NO_TICKS;
use crate::cli::input::{DEFAULT_FILE, InputArgs};
use crate::cli::{page, talk};
use crate::diff::table::Rows;
use crate::diff::{Diff, Run, machine, table};
use crate::output::old_path;
use crate::profile::Profile;
use crate::report::By;
use crate::report::color::ColorChoice;
use crate::report::summary::{RunFile, misses_line, summary_line};

/// Rows of the table when no limit is given.
const DEFAULT_LIMIT: usize = 30;

/// Examples of `profil diff`, each run by the suite.
pub const EXAMPLES: &str = "EXAMPLES\n  \
    profil diff                                       the last recording against the one before it\n  \
    profil diff --by object host.pb.gz profile.pb.gz  two others, by program and library\n  \
    profil diff --all --json | python3 -m json.tool   for a script, with what chance explains";

/// Compares two profiles: what takes more of the CPU time than it did, and what takes less.
///
/// Shares are compared, each of its own run, so that the runs may differ in rate and length. CHANGE is in percentage
/// points, MS/CPU S in milliseconds for each second of CPU time, SECONDS in all (to be looked at where both runs had the same
/// work to do). BY CHANCE is how likely two runs of the same code would show such a change: ticks fall at random. It is a
/// z-test of two proportions, Fisher's exact test where ticks are few, corrected for the number of rows by Benjamini and
/// Hochberg: at most 5 % of the rows shown are noise. That the machine was busier or its caches were colder in one of the
/// runs is a change like any other: record twice, and compare, to see how much that is.
///
/// Rows are matched by build ID where both runs have the build, else by the names of the file and the function. Code without
/// a name is matched by its offset in the same build; of different builds, by object.
#[derive(Clone, Debug, clap::Args)]
pub struct DiffArgs {
    /// The profile before; one name alone is the profile after, and NAME.old the one before [default: profile.pb.gz.old]
    #[arg(value_name = "BEFORE")]
    pub first: Option<PathBuf>,

    /// The profile after [default: profile.pb.gz]
    #[arg(value_name = "AFTER")]
    pub second: Option<PathBuf>,

    /// The program that both are of, where they are gmon.out
    #[arg(long = "object", value_name = "PATH")]
    pub program: Option<PathBuf>,

    /// Directory with debug files, laid out like /usr/lib/debug, for code without a name; may be given several times
    #[arg(long, value_name = "DIR")]
    pub debug_dir: Vec<PathBuf>,

    /// What to add ticks up by
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = By::Function)]
    pub by: By,

    /// Rows to show; 0 shows all [default: 30 in a table, all in JSON and CSV]
    #[arg(long, value_name = "N")]
    pub limit: Option<usize>,

    /// Show only rows whose name (of what --by says) matches in one of the runs
    #[arg(long, value_name = "REGEX")]
    pub filter: Option<Regex>,

    /// Show in the table also rows that two runs of the same code would differ in as well
    #[arg(long)]
    pub all: bool,

    /// Print JSON
    #[arg(long, conflicts_with = "csv")]
    pub json: bool,

    /// Print comma-separated values
    #[arg(long)]
    pub csv: bool,

    /// Print the table only, no accounts of the runs
    #[arg(short, long)]
    pub quiet: bool,

    /// When to use colour
    #[arg(long, value_name = "WHEN", value_enum, default_value_t)]
    pub color: ColorChoice,
}

/// Runs `profil diff`: the comparison to standard output, the accounts of both runs to standard error.
///
/// # Errors
/// A file cannot be read or is no profile, or standard output fails otherwise than by its reader going away.
pub fn run(args: DiffArgs) -> anyhow::Result<ExitCode> {
    let (before, after) = files(args.first.as_deref(), args.second.as_deref());
    let (before_profile, after_profile) = load(&args, &before, &after)?;
    let keep = |name: &str| args.filter.as_ref().is_none_or(|filter| filter.is_match(name));
    let diff = Diff::new(before_profile, after_profile, args.by, keep);
    match print(&diff, &args) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(ExitCode::SUCCESS),
        printed => printed.context("cannot write the comparison to standard output")?,
    }
    let has_ticks = diff.before.counted > 0 && diff.after.counted > 0;
    if !args.quiet {
        if let (Some(filter), true, true) = (&args.filter, diff.rows.is_empty(), has_ticks) {
            talk::say(format_args!("no row matches `{filter}`"));
        }
        account(&diff.before, &before);
        account(&diff.after, &after);
    }
    Ok(if has_ticks { ExitCode::SUCCESS } else { ExitCode::from(NO_TICKS) })
}

/// The files to compare.
fn files(first: Option<&Path>, second: Option<&Path>) -> (PathBuf, PathBuf) {
    match (first, second) {
        (Some(before), Some(after)) => (before.to_owned(), after.to_owned()),
        (one, _) => {
            let after = one.unwrap_or(Path::new(DEFAULT_FILE));
            (old_path(after), after.to_owned())
        }
    }
}

fn load(args: &DiffArgs, before: &Path, after: &Path) -> anyhow::Result<(Profile, Profile)> {
    let load = |file: &Path| {
        InputArgs { file: file.to_owned(), program: args.program.clone(), debug_dir: args.debug_dir.clone() }.load()
    };
    let profile = load(after)?;
    if args.second.is_none() && !before.exists() {
        bail!(
            "cannot compare {} with the run before: there is no {}; record to the same file once more, or name two \
             profiles: `profil diff BEFORE AFTER`",
            after.display(),
            before.display()
        );
    }
    Ok((load(before)?, profile))
}

fn print(diff: &Diff, args: &DiffArgs) -> io::Result<()> {
    let stdout = io::stdout().lock();
    let layout = page::layout(&stdout, page::rows(args.limit, Some(DEFAULT_LIMIT)), args.color);
    let mut to = BufWriter::new(stdout);
    if args.json {
        machine::write_json(diff, page::rows(args.limit, None), &mut to)?;
    } else if args.csv {
        machine::write_csv(diff, page::rows(args.limit, None), &mut to)?;
    } else {
        table::write(diff, if args.all { Rows::All } else { Rows::Changed }, layout, &mut to)?;
    }
    to.flush()
}

/// Says what became of the ticks of a run: misses are no change of the program.
fn account(run: &Run, file: &Path) {
    if let Some(misses) = misses_line(&run.tally) {
        talk::tell(misses);
    }
    talk::tell(summary_line(&run.tally, &run.clock, RunFile::Read(file)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_run_before_is_the_old_file_unless_both_are_named() {
        let files = |first: Option<&str>, second: Option<&str>| {
            let (before, after) = files(first.map(Path::new), second.map(Path::new));
            (before.display().to_string(), after.display().to_string())
        };
        let pair = |before: &str, after: &str| (before.to_owned(), after.to_owned());
        assert_eq!(files(None, None), pair("profile.pb.gz.old", "profile.pb.gz"));
        assert_eq!(files(Some("d/a.gz"), None), pair("d/a.gz.old", "d/a.gz"));
        assert_eq!(files(Some("a"), Some("b")), pair("a", "b"));
    }
}
