//! `profil annotate`: a function, instruction by instruction and line by line.

use std::io::{self, BufWriter, ErrorKind, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;

use crate::annotate::view::{self, Extent};
use crate::annotate::{AnnotateError, Annotation, Match, ObjectFinder, Query, Remark, Sources, Wanted, machine};
use crate::cli::failure::NO_TICKS;
use crate::cli::input::InputArgs;
use crate::cli::talk;
use crate::printable::printable;
use crate::profile::Profile;
use crate::report::color::{ColorChoice, Medium};
use crate::report::column::cut;
use crate::report::summary::{RunFile, counted, misses_line, summary_line, thousands};
use crate::symbols::debug_files::DebugFiles;
use crate::symbols::debuginfod::Debuginfod;

/// Most source files that are named as missing or newer.
const NAMED: usize = 3;

/// Examples of `profil annotate`, each run by the suite.
pub const EXAMPLES: &str = "EXAMPLES\n  \
    profil annotate hot                                a function's instructions and source lines\n  \
    profil annotate hot host.pb.gz --context 3         only what is near its ticks\n  \
    profil annotate hot --in work                      the one of this name in this program\n  \
    profil annotate hot --json | python3 -m json.tool  for a script";

/// Shows which instructions and source lines of a function the ticks fell on.
///
/// A tick in user mode is shown at the instruction that was to be executed next, a tick in the kernel at the one that the
/// kernel returns to: for a system call the instruction after it, which is marked. Shares are of the function's ticks.
#[derive(Clone, Debug, clap::Args)]
pub struct AnnotateArgs {
    /// The function: its name, with or without parameters, or a part of the name; or an address in it, as 0x1139
    #[arg(value_name = "FUNC|ADDR")]
    pub function: Query,

    /// Which profile.
    #[command(flatten)]
    pub input: InputArgs,

    /// Only in this object: its path, its base name, or the first digits of its build ID
    #[arg(long = "in", value_name = "OBJECT")]
    pub object: Option<String>,

    /// Directory with source files, which comes before the paths in the debug information; may be given several times
    #[arg(long, value_name = "DIR")]
    pub source_dir: Vec<PathBuf>,

    /// Show only N instructions before and after each that has ticks
    #[arg(long, value_name = "N")]
    pub context: Option<usize>,

    /// Print JSON
    #[arg(long, conflicts_with = "context")]
    pub json: bool,

    /// Print the annotation only, no remarks and no summary
    #[arg(short, long)]
    pub quiet: bool,

    /// When to use colour
    #[arg(long, value_name = "WHEN", value_enum, default_value_t)]
    pub color: ColorChoice,
}

/// Runs `profil annotate`: the annotation to standard output, remarks and the summary to standard error.
///
/// # Errors
/// The file cannot be read or is no profile; no function or several match; the build that ran is not at hand; standard
/// output fails otherwise than by its reader going away.
pub fn run(args: AnnotateArgs) -> anyhow::Result<ExitCode> {
    let profile = args.input.load()?;
    let wanted = Wanted { query: args.function.clone(), object: args.object.clone() };
    let debug_files = DebugFiles { directories: args.input.debug_dir.clone(), debuginfod: Debuginfod::from_env() };
    let mut finder = ObjectFinder { debug_files };
    let annotated = Annotation::of(&profile, &wanted, &mut finder, Sources::below(&args.source_dir));
    let annotation = match annotated {
        Err(error @ (AnnotateError::NoTicks { .. } | AnnotateError::NoTicksAtAll)) => {
            talk::say(error);
            return Ok(ExitCode::from(NO_TICKS));
        }
        annotated => annotated?,
    };
    match print(&annotation, &args) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(ExitCode::SUCCESS),
        printed => printed.context("cannot write the annotation to standard output")?,
    }
    if !args.quiet {
        tell(&profile, &annotation, &args);
    }
    Ok(ExitCode::SUCCESS)
}

fn print(annotation: &Annotation, args: &AnnotateArgs) -> io::Result<()> {
    let stdout = io::stdout().lock();
    let terminal = stdout.is_terminal();
    let size = terminal.then(|| rustix::termios::tcgetwinsize(&stdout).ok()).flatten();
    let mut to = BufWriter::new(stdout);
    if args.json {
        machine::write_json(annotation, &mut to)?;
        return to.flush();
    }
    let medium = if terminal { Medium::Terminal } else { Medium::File };
    let paint = args.color.paint(medium, |name| std::env::var_os(name));
    // A terminal that does not know its size reports 0 columns.
    let width = size.map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0).unwrap_or(usize::MAX);
    for line in view::lines(annotation, Extent { context: args.context }) {
        writeln!(to, "{}", paint.show(line.tone, cut(&line.text, width)))?;
    }
    to.flush()
}

/// What goes to standard error: remarks, why ticks are missing, the summary.
fn tell(profile: &Profile, annotation: &Annotation, args: &AnnotateArgs) {
    let mut missing = Vec::new();
    let mut newer = Vec::new();
    for remark in &annotation.remarks {
        match remark {
            Remark::AlsoInlinedInto(matches) => talk::say(also_inlined(matches)),
            Remark::Inlined(ticks) => talk::say(format_args!(
                "{} of its {} are in functions inlined into it, which `profil report` shows by their own names",
                thousands(*ticks),
                counted(annotation.ticks.all, "tick")
            )),
            Remark::Unproven(path) => talk::say(format_args!(
                "{} has no build ID: that it is what ran is likely, not certain",
                printable(&path.to_string_lossy())
            )),
            Remark::NewerSource(path) => newer.push(path.to_string_lossy()),
            Remark::MissingSource(file) => missing.push(file.as_str().into()),
            Remark::InsideInstructions(ticks) => {
                talk::say(format_args!(
                    "{} fell inside instructions and were charged to those",
                    counted(*ticks, "tick")
                ));
            }
            Remark::WithoutSymbol(ticks) => {
                talk::say(format_args!(
                    "{} of the function lie outside every symbol and are not shown",
                    counted(*ticks, "tick")
                ));
            }
        }
    }
    if !newer.is_empty() {
        talk::say(format_args!("newer than the program, so lines may be shown wrongly: {}", listed(&newer)));
    }
    if !missing.is_empty() {
        talk::say(format_args!("source files not found: {}; --source-dir DIR names where they are", listed(&missing)));
    }
    if let Some(misses) = misses_line(&profile.tally) {
        talk::tell(misses);
    }
    talk::tell(summary_line(&profile.tally, &profile.clock, RunFile::Read(&args.input.file)));
}

fn also_inlined(matches: &[Match]) -> String {
    let shown = matches.iter().take(NAMED).map(|found| {
        let Match { ticks, function, object, .. } = found;
        format!("{} in {} ({})", printable(function), printable(object), counted(*ticks, "tick"))
    });
    let more = matches.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(", and {more} more") } else { String::new() };
    format!("the function is inlined into others as well: {}{more}", shown.collect::<Vec<_>>().join(", "))
}

fn listed(files: &[std::borrow::Cow<'_, str>]) -> String {
    let shown: Vec<_> = files.iter().take(NAMED).map(|file| printable(file)).collect();
    let more = files.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", shown.join(", "))
}
