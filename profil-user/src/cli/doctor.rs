//! `profil doctor`.

use std::io::{self, ErrorKind, IsTerminal, Write};
use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, ColorChoice};
use serde::Serialize;

use crate::doctor::{self, Paint, Report};

/// Examples of `profil doctor`, each run by the suite.
pub const EXAMPLES: &str = "EXAMPLES\n  \
    profil doctor          what this machine and user can do\n  \
    profil doctor -p 1234  what is special about a process";

/// Say what this machine and user can do, what is missing, and how to cure it
#[derive(Args, Clone, Debug)]
pub struct DoctorArgs {
    /// Look at a process instead: what is special about it
    #[arg(short, long, value_name = "PID")]
    pub pid: Option<u32>,
    /// Write JSON
    #[arg(long)]
    pub json: bool,
    /// Colour the text
    #[arg(long, value_name = "WHEN", default_value_t = ColorChoice::Auto)]
    pub color: ColorChoice,
}

/// Runs `profil doctor`: exit status 0 when recording works, 1 when something is missing.
///
/// # Errors
/// When the report cannot be written.
pub fn run(args: DoctorArgs) -> anyhow::Result<ExitCode> {
    let DoctorArgs { pid, json, color } = args;
    let report = pid.map_or_else(doctor::examine_machine, doctor::examine_process);
    let stdout = io::stdout();
    let paint = paint(color, stdout.is_terminal());
    let mut stdout = stdout.lock();
    let written = if json {
        serde_json::to_writer_pretty(&mut stdout, &Json { can_record: report.can_record(), report: &report })
            .map_err(io::Error::from)
            .and_then(|()| writeln!(stdout))
    } else {
        doctor::write_report(&report, paint, &mut stdout)
    };
    match written.and_then(|()| stdout.flush()) {
        // Whoever reads no further has what they wanted.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
        written => written.context("cannot write the report")?,
    }
    Ok(if report.can_record() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The report as programs read it.
#[derive(Serialize)]
struct Json<'r> {
    can_record: bool,
    #[serde(flatten)]
    report: &'r Report,
}

fn paint(choice: ColorChoice, is_terminal: bool) -> Paint {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty() && value != "0");
    paint_by(
        choice,
        is_terminal,
        std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty()),
        is_set("CLICOLOR_FORCE"),
    )
}

/// The rules of no-color.org and bixense.com/clicolors: the option first, then NO_COLOR, then CLICOLOR_FORCE.
fn paint_by(choice: ColorChoice, is_terminal: bool, no_color: bool, force: bool) -> Paint {
    match choice {
        ColorChoice::Always => Paint::Coloured,
        ColorChoice::Never => Paint::Plain,
        ColorChoice::Auto if no_color => Paint::Plain,
        ColorChoice::Auto if force || is_terminal => Paint::Coloured,
        ColorChoice::Auto => Paint::Plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_option_beats_the_environment_and_no_color_beats_force() {
        use ColorChoice::{Always, Auto, Never};
        assert_eq!(paint_by(Always, false, true, false), Paint::Coloured);
        assert_eq!(paint_by(Never, true, false, true), Paint::Plain);
        assert_eq!(paint_by(Auto, true, true, true), Paint::Plain);
        assert_eq!(paint_by(Auto, false, false, true), Paint::Coloured);
        assert_eq!(paint_by(Auto, true, false, false), Paint::Coloured);
        assert_eq!(paint_by(Auto, false, false, false), Paint::Plain);
    }
}
