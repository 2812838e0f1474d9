//! `profil top`: a live view.

mod draw;
mod frames;
mod lines;
mod run;
mod screen;
mod state;
mod zoom;

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::num::NonZeroU64;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use regex_lite::Regex;

use crate::cli::failure::usage;
use crate::cli::interrupt::Interrupts;
use crate::cli::launched::Launched;
use crate::cli::selection::{FilterArgs, TargetArgs};
use crate::cli::ticking::{self, TickArgs};
use crate::cli::values;
use crate::launch::{Launching, Streams};
use crate::process::{TargetProcess, namespace};
use crate::record::{Live, Selection};
use crate::report::color::ColorChoice;
use crate::symbols::Symbols;
use crate::symbols::debug_files::DebugFiles;
use crate::top::{Filter, Order, Tab, View};

/// Examples of `profil top`, each run by the suite.
pub const EXAMPLES: &str = "EXAMPLES\n  \
    profil top                        look at every process\n  \
    profil top -p 1234                look at one, and at what it creates\n  \
    profil top -G nginx.service       look at a systemd unit\n  \
    profil top -n 2                   print two frames of text\n  \
    profil top -n 1 --json -- ./work  print a frame of a command as JSON";

/// Shortest time between two frames: a drain waits for ticks under way, 8 to 16 ms.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(100);

/// Looks at processes while they run: all of them, unless some are named.
///
/// On a terminal, a screen that is drawn anew each second; its last line names the keys. Elsewhere, and with -n or
/// --json, frames of text, of which the last has all ticks of the run.
#[derive(clap::Args, Clone, Debug)]
pub struct TopArgs {
    #[command(flatten)]
    targets: TargetArgs,
    /// A command to run and look at, with its arguments; what it writes to the terminal is not shown
    #[arg(last = true, value_name = "CMD")]
    pub command: Vec<OsString>,
    #[command(flatten)]
    filters: FilterArgs,
    #[command(flatten)]
    ticks: TickArgs,
    /// Time between two frames
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = values::duration)]
    interval: Duration,
    /// Stop after this long: 5, 2.5, 500ms, 1m [default: until the targets end, or q]
    #[arg(short, long, value_name = "TIME", value_parser = values::duration)]
    duration: Option<Duration>,
    /// Print so many frames of text, and end
    #[arg(short = 'n', long = "frames", value_name = "N")]
    frames: Option<NonZeroU64>,
    /// What to show first
    #[arg(long, value_name = "WHAT", value_enum, default_value_t)]
    by: Tab,
    /// What to sort by first
    #[arg(long, value_name = "ORDER", value_enum, default_value_t)]
    sort: Order,
    /// Show only names that match
    #[arg(long, value_name = "REGEX")]
    filter: Option<Regex>,
    /// Rows of a frame of text; 0 prints all [default: 20 in text, all in JSON]
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Print frames in JSON, one a line
    #[arg(long)]
    json: bool,
    /// Print no account at the end
    #[arg(short, long)]
    quiet: bool,
    /// When to use colour
    #[arg(long, value_name = "WHEN", value_enum, default_value_t)]
    color: ColorChoice,
}

/// Runs `profil top`.
///
/// # Errors
/// Whatever keeps it from looking, or from showing.
pub fn run(mut args: TopArgs) -> anyhow::Result<ExitCode> {
    args.targets.or_all(&args.command);
    args.targets.check(&args.command)?;
    args.filters.check()?;
    if args.interval < SHORTEST_INTERVAL {
        return Err(usage(format!("--interval: a frame takes longer; the shortest is {SHORTEST_INTERVAL:?}")));
    }
    namespace::check_proc()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(look(args))
}

async fn look(args: TopArgs) -> anyhow::Result<ExitCode> {
    let interrupts = Interrupts::listen().context("cannot listen to signals")?;
    let streams = if args.has_screen() { Streams::OffTerminal } else { Streams::Inherited };
    let launching = (!args.command.is_empty()).then(|| Launching::start_on(&args.command, &[], streams)).transpose()?;
    let (selection, title) = match &launching {
        Some(launching) => (Selection::Launch(TargetProcess::open(launching.pid())?), ticking::title(&args.command)),
        None => (args.targets.open()?, args.targets.title()),
    };
    let config = args.ticks.config(selection, &args.filters, title)?;
    let live = Live::start(config, Symbols::new(args.debug_files(), "/".into()))?;
    let child = match launching {
        // An error of the exec ends us here, and the events with us.
        Some(launching) => Some(Launched::of(launching.exec()?)?),
        None => None,
    };
    run::Run::new(live, child, interrupts, args)?.finish().await
}

impl TopArgs {
    /// Whether there is a terminal to draw on, and it is wanted.
    fn has_screen(&self) -> bool {
        let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb" || term.is_empty());
        self.frames.is_none() && !self.json && !dumb && io::stdout().is_terminal()
    }

    /// Where debug files are looked for: nobody wants to wait for a download while he looks.
    fn debug_files(&self) -> DebugFiles {
        DebugFiles { directories: self.ticks.debug_dir.clone(), ..DebugFiles::default() }
    }

    fn view(&self) -> View {
        let filter = self.filter.clone().map(Filter::Pattern);
        View { tab: self.by, order: self.sort, filter, ..View::default() }
    }
}
