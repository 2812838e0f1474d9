//! `profil report`: a profile as a table.

use std::io::{self, BufWriter, ErrorKind, Write};
use std::process::ExitCode;

use anyhow::Context;
use regex_lite::Regex;

use crate::cli::input::InputArgs;
use crate::cli::page;
use crate::printable::printable_lines;
use crate::profile::Profile;
use crate::report::color::{ColorChoice, Medium};
use crate::report::summary::{RunFile, misses_line, summary_line};
use crate::report::{By, Report, machine, table};

/// Rows of the table when no limit is given.
const DEFAULT_LIMIT: usize = 30;

/// Exit status when the profile has no tick.
const NO_TICKS: u8 = 4;

/// Examples of `profil report`, each run by the suite.
pub const EXAMPLES: &str = "EXAMPLES\n  \
    profil report                                the last recording, by function\n  \
    profil report --by object host.pb.gz         another one, by program and library\n  \
    profil report --filter '^hash' --limit 5     some functions only; shares stay those of the whole\n  \
    profil report --json | python3 -m json.tool  for a script";

/// Shows where the time went.
#[derive(Clone, Debug, clap::Args)]
pub struct ReportArgs {
    /// Which profile.
    #[command(flatten)]
    pub input: InputArgs,

    /// What to add ticks up by
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = By::Function)]
    pub by: By,

    /// Rows to show; 0 shows all [default: 30 in a table, all in JSON and CSV]
    #[arg(long, value_name = "N")]
    pub limit: Option<usize>,

    /// Show only rows whose name (of what --by says) matches; shares stay those of the whole
    #[arg(long, value_name = "REGEX")]
    pub filter: Option<Regex>,

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
    let profile = args.input.load()?;
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

fn print(report: &Report, args: &ReportArgs) -> io::Result<()> {
    let stdout = io::stdout().lock();
    let layout = page::layout(&stdout, page::rows(args.limit, Some(DEFAULT_LIMIT)), args.color);
    let mut to = BufWriter::new(stdout);
    if args.json {
        machine::write_json(report, page::rows(args.limit, None), &mut to)?;
    } else if args.csv {
        csv(report, page::rows(args.limit, None), page::medium(&io::stdout()), &mut to)?;
    } else {
        table::write(report, layout, &mut to)?;
    }
    to.flush()
}

/// Writes the report as CSV; on a terminal, names are made safe to show.
///
/// # Errors
/// Those of `to`.
pub fn csv(report: &Report, limit: Option<usize>, medium: Medium, to: &mut dyn Write) -> io::Result<()> {
    if medium == Medium::File {
        return machine::write_csv(report, limit, to);
    }
    let mut text = Vec::new();
    machine::write_csv(report, limit, &mut text)?;
    to.write_all(printable_lines(&String::from_utf8_lossy(&text)).as_bytes())
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
    let _ = writeln!(to, "{}", summary_line(&profile.tally, &profile.clock, RunFile::Read(&args.input.file)));
}
