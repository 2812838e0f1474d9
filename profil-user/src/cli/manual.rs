//! Manual pages, made from the definition of the command line, so that they say what `--help` says.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

/// Writes the manual pages into a folder: for whoever installs or packages profil.
#[derive(clap::Args, Clone, Debug)]
pub struct ManualArgs {
    /// The folder, which must exist
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// Runs `profil manual`: a page for `profil`, and one for each verb that a person may use.
///
/// # Errors
/// A page cannot be written.
pub fn run(args: &ManualArgs, mut command: Command) -> anyhow::Result<ExitCode> {
    // The names of the verbs' pages (`profil-record`) are made when the command is built.
    command.build();
    let verbs: Vec<Command> = command.get_subcommands().filter(|verb| !verb.is_hide_set()).cloned().collect();
    let names: Vec<String> = std::iter::once(&command).chain(&verbs).map(name).collect();
    for page in std::iter::once(&command).chain(&verbs) {
        let path = args.folder.join(name(page)).with_extension("1");
        let mut text = Vec::new();
        write_page(page, &names, &mut text)
            .and_then(|()| std::fs::write(&path, text))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Name of a command's page.
fn name(command: &Command) -> String {
    command.get_display_name().unwrap_or(command.get_name()).to_owned()
}

fn write_page(command: &Command, pages: &[String], to: &mut dyn io::Write) -> io::Result<()> {
    let man = Man::new(command.clone());
    man.render_title(to)?;
    man.render_name_section(to)?;
    man.render_synopsis_section(to)?;
    man.render_description_section(to)?;
    man.render_options_section(to)?;
    if command.has_subcommands() {
        man.render_subcommands_section(to)?;
    }
    let more = command.get_after_help().map(|text| text.to_string()).unwrap_or_default();
    for (heading, lines) in sections(&more) {
        let mut roff = Roff::new();
        roff.control("SH", [heading]);
        roff.control("nf", []);
        for line in lines {
            roff.text([roman(line)]);
        }
        roff.control("fi", []);
        roff.to_writer(to)?;
    }
    let own = name(command);
    let mut see_also = Vec::new();
    for page in pages.iter().filter(|page| **page != own) {
        if !see_also.is_empty() {
            see_also.push(roman(", "));
        }
        see_also.extend([bold(page.as_str()), roman("(1)")]);
    }
    let mut roff = Roff::new();
    roff.control("SH", ["SEE ALSO"]);
    roff.text(see_also);
    roff.to_writer(to)
}

/// The parts of the text below the options: headings in capitals at the margin, their lines indented by two columns.
fn sections(text: &str) -> Vec<(&str, Vec<&str>)> {
    let mut sections: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in text.lines() {
        match (line.strip_prefix("  "), sections.last_mut()) {
            (Some(line), Some((_, lines))) => lines.push(line),
            _ if line.trim().is_empty() => {}
            _ => sections.push((line, Vec::new())),
        }
    }
    sections
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_below_the_options_has_headings_and_lines() {
        let text = "EXAMPLES\n  profil -a   all\n\nEXIT STATUS\n  0 done,\n  1 failed";
        assert_eq!(
            sections(text),
            [("EXAMPLES", vec!["profil -a   all"]), ("EXIT STATUS", vec!["0 done,", "1 failed"])]
        );
    }
}
