//! `profil plot`: a profile as a picture.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::cli::failure::NO_TICKS;
use crate::cli::input::InputArgs;
use crate::cli::talk;
use crate::output::{Content, Output, Owner};
use crate::plot::axis::Scale;
use crate::plot::panel::{Choice, Panels};
use crate::plot::{self, Caption};
use crate::report::summary::{RunFile, summary_line};
use crate::report::table::headline;
use crate::report::{By, Report};

/// Examples of `profil plot`, each run by the suite.
pub const EXAMPLES: &str = "EXAMPLES\n  \
    profil plot                               the last recording, into profile.svg\n  \
    profil plot --log -o host.svg host.pb.gz  another one, so that one tick is seen beside a million\n  \
    profil plot --in work -o - > work.svg     one program";

/// Draws ticks over addresses: the histogram of profil(2), for each object.
///
/// The file is an SVG that stands alone; a browser shows a bar's addresses, functions and ticks under the pointer.
#[derive(Clone, Debug, clap::Args)]
pub struct PlotArgs {
    /// Which profile.
    #[command(flatten)]
    pub input: InputArgs,

    /// Where to write the picture; - is standard output
    #[arg(short, long, value_name = "SVG", default_value = "profile.svg")]
    pub output: PathBuf,

    /// Draw this object only, by its path or file name; may be given several times
    #[arg(long = "in", value_name = "OBJECT", conflicts_with = "limit")]
    pub objects: Vec<String>,

    /// Objects to draw, the largest first; 0 draws all
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub limit: usize,

    /// Draw bars by the logarithm of their ticks, so that one tick is seen beside a million
    #[arg(long)]
    pub log: bool,

    /// Say nothing but errors
    #[arg(short, long)]
    pub quiet: bool,
}

/// Runs `profil plot`.
///
/// # Errors
/// The file cannot be read or is no profile, an object is not in it, or the picture cannot be written.
pub fn run(args: &PlotArgs) -> anyhow::Result<ExitCode> {
    let profile = args.input.load()?;
    let mut report = Report::new(&profile, By::Object, |_| true);
    if report.counted == 0 {
        talk::say(format_args!("nothing to draw: {} has no ticks with a place in the code", args.input.file.display()));
        return Ok(ExitCode::from(NO_TICKS));
    }
    let choice = match (&args.objects[..], args.limit) {
        ([], 0) => Choice::Largest(None),
        ([], limit) => Choice::Largest(Some(limit)),
        (objects, _) => Choice::Named(objects.to_vec()),
    };
    let panels = Panels::new(&profile, &choice)?;
    // The title has a line of its own in the picture.
    let title = std::mem::take(&mut report.title);
    let caption = Caption { title, headline: headline(&report), counted: report.counted };
    let scale = if args.log { Scale::Log } else { Scale::Linear };
    let mut output = Output::create(&args.output, Content::Text, Owner::of_sudo())?;
    match output.write(|to| plot::write(&panels, &caption, scale, to)) {
        Err(error) if error.is_broken_pipe() => return Ok(ExitCode::SUCCESS),
        written => written?,
    }
    if !args.quiet {
        let stdout = args.output == Path::new("-");
        let file = if stdout { RunFile::Read(&args.input.file) } else { RunFile::Wrote(&args.output) };
        talk::tell(summary_line(&profile.tally, &profile.clock, file));
    }
    Ok(ExitCode::SUCCESS)
}
