//! `profil record`: the default verb.

use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;

use crate::cli::failure::{self, usage};
use crate::cli::input::DEFAULT_FILE;
use crate::cli::interrupt::{self, Came, Interrupts, Wish};
use crate::cli::launched::{Launched, Stay, Stopped};
use crate::cli::progress::{Progress, Verbosity};
use crate::cli::selection::{FilterArgs, TargetArgs};
use crate::cli::ticking::{self, TickArgs};
use crate::cli::{remarks, report, talk, until, values, verbose};
use crate::launch::Launching;
use crate::output::{Content, Output, Owner};
use crate::process::{TargetProcess, namespace};
use crate::profile::Profile;
use crate::readiness::Readiness;
use crate::record::{Idle, RecordConfig, Recorder, Remark, Selection};
use crate::report::color::{ColorChoice, Medium};
use crate::report::summary::{RunFile, misses_line, summary_line};
use crate::report::table::Layout;
use crate::report::{By, Report, machine, table};
use crate::session::HookLog;
use crate::sink::pprof;
use crate::symbols::Symbols;
use crate::symbols::debug_files::DebugFiles;
use crate::symbols::debuginfod::Debuginfod;

/// Rows of the table at the end of a recording.
const TABLE_ROWS: usize = 20;

/// How often the tables are looked at.
const POLL: Duration = Duration::from_millis(250);

/// Shortest pause between two looks: a fork storm wakes us for each process.
const PAUSE: Duration = Duration::from_millis(5);

/// Examples of `profil record`, each run by the suite.
pub const EXAMPLES: &str = "EXAMPLES\n  \
    profil -- ./work                                    a command and all that it starts, to its end\n  \
    profil -p 1234 -d 10                                a running process, for ten seconds\n  \
    profil -a -d 5 -o host.pb.gz                        everything that runs on this host\n  \
    profil -G nginx.service -d 10                       a systemd unit, or any control group\n  \
    profil -p 1234 -d 10 -K                             what the kernel does for it\n  \
    profil -p 1234 -d 10 --json | python3 -m json.tool  for a script";

/// Records a profile.
#[derive(clap::Args, Clone, Debug)]
pub struct RecordArgs {
    #[command(flatten)]
    targets: TargetArgs,
    /// A command to run and record, with its arguments
    #[arg(last = true, value_name = "CMD")]
    pub command: Vec<OsString>,
    #[command(flatten)]
    filters: FilterArgs,
    #[command(flatten)]
    ticks: TickArgs,
    /// Stop after this long: 5, 2.5, 500ms, 1m [default: until the targets end, or Ctrl-C]
    #[arg(short, long, value_name = "TIME", value_parser = values::duration)]
    duration: Option<Duration>,
    /// With -d and a command: leave the command running
    #[arg(long, requires = "duration")]
    keep: bool,
    /// File to write; - is standard output
    #[arg(short, long, value_name = "FILE", default_value = DEFAULT_FILE)]
    output: PathBuf,
    /// What to write [default: by the file's name, else pprof]
    #[arg(short, long, value_enum)]
    format: Option<Format>,
    /// Show idle time as well
    #[arg(short = 'I', long)]
    idle: bool,
    /// Print the report as JSON on standard output
    #[arg(long)]
    json: bool,
    /// Print no table, no progress and no summary
    #[arg(short, long)]
    quiet: bool,
    /// Print more; twice for the programs' own log
    #[arg(short, long, action = clap::ArgAction::Count)]
    verbose: u8,
    /// When to use colour
    #[arg(long, value_name = "WHEN", value_enum, default_value_t)]
    color: ColorChoice,
    #[arg(short = 'g', long = "call-graph", hide = true)]
    call_graph: bool,
}

/// What a recording is written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// Gzipped pprof
    Pprof,
    /// The report in JSON
    Json,
    /// The report in comma-separated values
    Csv,
}

/// Runs `profil record`.
///
/// # Errors
/// Whatever keeps it from recording or from writing the result.
pub fn run(args: RecordArgs) -> anyhow::Result<ExitCode> {
    if args.call_graph {
        return Err(usage("profil is flat; for callers use perf record -g"));
    }
    args.targets.check(&args.command)?;
    args.filters.check()?;
    namespace::check_proc()?;
    verbose::start(args.verbose);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(record(args))
}

async fn record(args: RecordArgs) -> anyhow::Result<ExitCode> {
    let format = args.format();
    let content = if format == Format::Pprof { Content::Binary } else { Content::Text };
    let mut output = Output::create(&args.output, content, Owner::of_sudo())?;
    let mut interrupts = Interrupts::listen().context("cannot listen to signals")?;

    let launching = (!args.command.is_empty()).then(|| Launching::start(&args.command, &[])).transpose()?;
    let (selection, title) = match &launching {
        Some(launching) => (Selection::Launch(TargetProcess::open(launching.pid())?), ticking::title(&args.command)),
        None => (args.targets.open()?, args.targets.title()),
    };
    let recorder = start(&args, selection, title)?;
    let mut run = Run { recorder, child: None, args: &args, output: &mut output, format };
    if let Some(launching) = launching {
        // An error of the exec ends us here, and the events with us.
        run.child = Some(Launched::of(launching.exec()?)?);
    }
    let stopped = run.until_stopped(&mut interrupts).await?;
    // Finishing is one piece of work, during which signals are not looked at.
    interrupt::abort_on_second(match stopped {
        Stopped::Wished(_) => Came::One,
        Stopped::TargetsEnded | Stopped::TimeUp => Came::None,
    });
    run.finish(stopped)
}

fn start(args: &RecordArgs, selection: Selection, title: String) -> anyhow::Result<Recorder> {
    let config = RecordConfig {
        idle: if args.idle { Idle::Included } else { Idle::Excluded },
        log: if args.verbose > 1 { HookLog::On } else { HookLog::Off },
        ..args.ticks.config(selection, &args.filters, title)?
    };
    let debug_files = DebugFiles { directories: args.ticks.debug_dir.clone(), debuginfod: Debuginfod::from_env() };
    Ok(Recorder::start(config, Symbols::new(debug_files, "/".into()))?)
}

impl RecordArgs {
    fn format(&self) -> Format {
        let by_name = || match self.output.extension().and_then(|extension| extension.to_str()) {
            Some("json") => Format::Json,
            Some("csv") => Format::Csv,
            _ => Format::Pprof,
        };
        self.format.unwrap_or_else(by_name)
    }
}

/// A recording with all that it needs to be driven and finished.
struct Run<'r> {
    recorder: Recorder,
    child: Option<Launched>,
    args: &'r RecordArgs,
    output: &'r mut Output,
    format: Format,
}

impl Run<'_> {
    async fn until_stopped(&mut self, interrupts: &mut Interrupts) -> anyhow::Result<Stopped> {
        let news = Readiness::of(self.recorder.events_fd()?)?;
        let ended = match &self.child {
            Some(child) => Some(child.end()?),
            None => None,
        };
        let mut ticker = tokio::time::interval(POLL);
        let mut progress = Progress::new(if self.args.quiet { Verbosity::Quiet } else { Verbosity::Normal });
        loop {
            let left = self.args.duration.map(|duration| duration.saturating_sub(self.recorder.elapsed()));
            tokio::select! {
                wish = interrupts.next() => match wish {
                    Wish::Interim => self.write_interim()?,
                    wish => {
                        progress.clear();
                        return Ok(Stopped::Wished(wish));
                    }
                },
                () = until::passed(left) => {
                    progress.clear();
                    return Ok(Stopped::TimeUp);
                }
                () = until::readable(ended.as_ref()) => {
                    progress.clear();
                    return Ok(Stopped::TargetsEnded);
                }
                () = news.wait() => {
                    self.recorder.poll()?;
                    tokio::time::sleep(PAUSE).await;
                }
                _ = ticker.tick() => {
                    self.recorder.poll()?;
                    if self.recorder.is_over() {
                        progress.clear();
                        return Ok(Stopped::TargetsEnded);
                    }
                    progress.show(self.recorder.elapsed(), self.recorder.counters().ticks);
                }
            }
        }
    }

    fn write_interim(&mut self) -> anyhow::Result<()> {
        let (profile, _) = self.recorder.snapshot()?;
        write(self.output, self.format, &profile)
    }

    fn finish(self, stopped: Stopped) -> anyhow::Result<ExitCode> {
        let Run { recorder, child, args, output, format } = self;
        let (profile, remarks) = recorder.finish()?;
        write(output, format, &profile)?;
        let broken = show(args, &profile)?;
        if !args.quiet && !broken {
            talk(args, &profile, &remarks, output);
        }
        let ticks = profile.tally.ticks;
        let Some(mut launched) = child else {
            if ticks == 0 {
                talk::say(remarks::no_ticks(&profile.tally));
                return Ok(ExitCode::from(failure::NO_TICKS));
            }
            return Ok(ExitCode::SUCCESS);
        };
        if ticks == 0 && !args.quiet {
            talk::say(format_args!("no ticks: the command used less CPU time than one period of {:?}", profile.period));
        }
        let stay = if args.keep { Stay::Allowed } else { Stay::Ended };
        launched.see_off(stopped, stay)
    }
}

/// Writes a profile in a format.
fn write(output: &mut Output, format: Format, profile: &Profile) -> anyhow::Result<()> {
    let medium = match io::stdout().is_terminal() && output.path().as_os_str() == "-" {
        true => Medium::Terminal,
        false => Medium::File,
    };
    let written = output.write(|to| match format {
        Format::Pprof => pprof::write(profile, to),
        Format::Json => machine::write_json(&Report::new(profile, By::Function, |_| true), None, to),
        Format::Csv => report::csv(&Report::new(profile, By::Function, |_| true), None, medium, to),
    });
    match written {
        Err(error) if error.is_broken_pipe() => Ok(()),
        written => Ok(written?),
    }
}

/// Shows the table on a terminal, or JSON where it was asked for; whether the reader went away.
fn show(args: &RecordArgs, profile: &Profile) -> anyhow::Result<bool> {
    let stdout = io::stdout().lock();
    let terminal = stdout.is_terminal();
    let width = terminal.then(|| rustix::termios::tcgetwinsize(&stdout).ok()).flatten();
    let report = || Report::new(profile, By::Function, |_| true);
    let mut to = io::BufWriter::new(stdout);
    let shown = if args.json {
        machine::write_json(&report(), None, &mut to)
    } else if terminal && !args.quiet && profile.tally.ticks > 0 {
        let layout = Layout {
            limit: Some(TABLE_ROWS),
            width: width.map(|size| size.ws_col.into()).filter(|columns| *columns > 0),
            paint: args.color.paint(Medium::Terminal, |name| std::env::var_os(name)),
        };
        table::write(&report(), layout, &mut to)
    } else {
        Ok(())
    };
    match shown.and_then(|()| to.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(true),
        shown => {
            shown.context("cannot write to standard output")?;
            Ok(false)
        }
    }
}

/// What goes to standard error at the end.
fn talk(args: &RecordArgs, profile: &Profile, remarks: &[Remark], output: &Output) {
    for line in remarks::lines(remarks, profile.tally.ticks) {
        talk::say(line);
    }
    if args.verbose > 0 {
        talk::say(format_args!("{} rows, {} locations", profile.rows.len(), profile.locations.len()));
    }
    if let Some(line) = misses_line(&profile.tally) {
        talk::tell(line);
    }
    talk::tell(summary_line(&profile.tally, &profile.clock, RunFile::Wrote(output.path())));
}
