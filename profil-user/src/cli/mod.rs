//! The command line: arguments, messages, and what is printed. Nothing below it prints.

pub mod annotate;
pub mod attach;
pub mod attach_view;
pub mod daemon;
pub mod diff;
pub mod doctor;
pub mod export;
pub mod failure;
pub mod input;
pub mod interrupt;
pub mod launched;
pub mod manual;
pub mod misspelt;
pub mod page;
pub mod plot;
pub mod progress;
pub mod record;
pub mod region;
pub mod remarks;
pub mod report;
pub mod run;
mod run_directory;
pub mod selection;
pub mod talk;
pub mod ticking;
pub mod top;
pub mod until;
pub mod values;
pub mod verbose;

use std::process::ExitCode;

use anyhow::Context;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::copier::serve::{self, CopierArgs};
use crate::symbols::reader::serve::{self as reader, ReaderArgs};
use failure::Launching;

/// Shows where programs spend their CPU time: counts ticks of the CPU clock in the kernel, per function.
///
/// Flat profiles only: no call stacks.
#[derive(Parser, Debug)]
#[command(name = "profil", version, args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
#[command(after_help = "EXAMPLES\n  profil -- ./work          run a command and show where its time goes\n  \
    profil -p 1234 -d 10      look at a running process for ten seconds\n  \
    profil report             show the last profile again\n  \
    profil doctor             say what this machine can do\n\n\
    EXIT STATUS\n  \
    With a command: the command's, 128+n when signal n ended it, 125 when profil failed, 126 when\n  \
    it cannot be executed, 127 when there is none. Otherwise: 0, 1 failure, 2 usage, 3 permission,\n  \
    4 no ticks. The first Ctrl-C or SIGTERM stops and writes, a second one aborts.")]
struct Cli {
    #[command(subcommand)]
    verb: Option<Verb>,
    #[command(flatten)]
    record: record::RecordArgs,
}

#[derive(Subcommand, Debug)]
enum Verb {
    /// Record a profile of processes or of a command (the default verb)
    #[command(after_help = record::EXAMPLES)]
    Record(record::RecordArgs),
    /// Look at processes while they run: functions, processes and CPUs, live
    #[command(after_help = top::EXAMPLES)]
    Top(top::TopArgs),
    /// profil(2) for another process: count a region of its text into bins, and into its own buffer
    #[command(after_help = attach::EXAMPLES)]
    Attach(attach::AttachArgs),
    /// Give a command profil(3), sprofil(3) and gcc -pg that the kernel counts for
    #[command(after_help = run::EXAMPLES)]
    Run(run::RunArgs),
    /// Serve profil(3) for every program that preloads libprofil.so
    #[command(after_help = daemon::EXAMPLES)]
    Daemon(daemon::DaemonArgs),
    /// Write bins into the programs of one user: started by the service, never by hand
    #[command(hide = true)]
    Copier(CopierArgs),
    /// Read the symbols of files: started by profil, never by hand
    #[command(hide = true)]
    Reader(ReaderArgs),
    /// Show a recorded profile
    #[command(after_help = report::EXAMPLES)]
    Report(report::ReportArgs),
    /// Show the instructions and source lines of a function that the ticks fell on
    #[command(after_help = annotate::EXAMPLES)]
    Annotate(annotate::AnnotateArgs),
    /// Write a recorded profile in the format of another tool
    #[command(after_help = export::EXAMPLES)]
    Export(export::ExportArgs),
    /// Compare two recorded profiles: what changed, and what is chance
    #[command(after_help = diff::EXAMPLES)]
    Diff(diff::DiffArgs),
    /// Draw a recorded profile: ticks over addresses, as an SVG
    #[command(after_help = plot::EXAMPLES)]
    Plot(plot::PlotArgs),
    /// Say what this machine and user can do, what is missing, and how to cure it
    #[command(after_help = doctor::EXAMPLES)]
    Doctor(doctor::DoctorArgs),
    /// Print a completion script
    #[command(after_help = COMPLETIONS_EXAMPLES)]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write the manual pages: for packages
    #[command(hide = true)]
    Manual(manual::ManualArgs),
}

/// Examples of `profil completions`, each run by the suite.
const COMPLETIONS_EXAMPLES: &str = "EXAMPLES\n  \
    profil completions bash > profil        for /etc/bash_completion.d\n  \
    profil completions zsh > _profil        for a folder of $fpath\n  \
    profil completions fish > profil.fish   for ~/.config/fish/completions";

/// Runs the command line and returns the exit status.
pub fn main() -> ExitCode {
    if std::env::args_os().len() <= 1 {
        // Bare `profil`: short help, and the status of a usage error. A closed stderr has nobody to tell.
        let _ = eprint_help();
        return ExitCode::from(failure::USAGE);
    }
    if let Some(error) = misspelt::error(&Cli::command(), std::env::args_os()) {
        error.exit();
    }
    let matches = Cli::command().get_matches();
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let (result, launching) = match cli.verb {
        None => run_record(cli.record),
        Some(Verb::Record(args)) => run_record(args),
        Some(Verb::Top(args)) => run_top(args),
        Some(Verb::Attach(args)) => (attach::run(args), Launching::No),
        Some(Verb::Run(args)) => (run::run(args), Launching::Yes),
        Some(Verb::Daemon(args)) => (daemon::run(args), Launching::No),
        Some(Verb::Copier(args)) => (serve::run(&args).map_err(Into::into), Launching::No),
        Some(Verb::Reader(args)) => (reader::run(&args).map_err(Into::into), Launching::No),
        Some(Verb::Report(args)) => (report::run(args), Launching::No),
        Some(Verb::Annotate(args)) => (annotate::run(args), Launching::No),
        Some(Verb::Export(args)) => (export::run(args), Launching::No),
        Some(Verb::Diff(args)) => (diff::run(args), Launching::No),
        Some(Verb::Plot(args)) => (plot::run(&args), Launching::No),
        Some(Verb::Doctor(args)) => (doctor::run(args), Launching::No),
        Some(Verb::Manual(args)) => (manual::run(&args, Cli::command()), Launching::No),
        Some(Verb::Completions { shell }) => (completions(shell), Launching::No),
    };
    result.map_err(failure::explain).unwrap_or_else(|error| {
        talk::say(failure::text(&error));
        if let (Some(log), true) = (failure::verifier_log(&error), verbose::wants_details()) {
            talk::tell(log);
        }
        ExitCode::from(failure::status(&error, launching))
    })
}

fn run_record(args: record::RecordArgs) -> (anyhow::Result<ExitCode>, Launching) {
    let launching = if args.command.is_empty() { Launching::No } else { Launching::Yes };
    (record::run(args), launching)
}

fn run_top(args: top::TopArgs) -> (anyhow::Result<ExitCode>, Launching) {
    let launching = if args.command.is_empty() { Launching::No } else { Launching::Yes };
    (top::run(args), launching)
}

/// Prints a completion script; whoever reads no further has what they wanted.
fn completions(shell: clap_complete::Shell) -> anyhow::Result<ExitCode> {
    use std::io::Write;
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "profil", &mut script);
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(&script).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {}
        written => written.context("cannot write the completion script")?,
    }
    Ok(ExitCode::SUCCESS)
}

fn eprint_help() -> std::io::Result<()> {
    use std::io::Write;
    write!(std::io::stderr(), "{}", Cli::command().render_help())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_help_shows_examples() {
        let command = Cli::command();
        for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()).chain([&command]) {
            let text = verb.get_after_help().map(|text| text.to_string()).unwrap_or_default();
            assert!(text.starts_with("EXAMPLES\n  profil"), "profil {}: {text:?}", verb.get_name());
            // A wider line is broken, and its end reads like an example of its own.
            assert!(text.lines().all(|line| line.len() <= 100), "profil {}: {text}", verb.get_name());
        }
    }
}
