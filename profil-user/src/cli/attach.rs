//! `profil attach`: profil(2) for another process.

use std::io::{self, ErrorKind, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use profil_common::Outcome;
use tokio::time::MissedTickBehavior;

use crate::address_space::{AddressSpace, Purpose};
use crate::attach::{AttachConfig, AttachReport, Attachment, End, FLUSH_PERIOD, Recording};
use crate::cli::attach_view::{self, View};
use crate::cli::failure;
use crate::cli::interrupt::{self, Came, Interrupts, Wish};
use crate::cli::region::{RegionArgs, Resolved};
use crate::cli::{talk, values};
use crate::clock;
use crate::output::{Content, Output, Owner};
use crate::process::TargetProcess;
use crate::rate::Rate;
use crate::report::summary::{RunFile, counted, misses_line, summary_line, thousands};
use crate::sink::gmon::{self, GmonHistogram};
use crate::sink::target::Loss;
use crate::symbols::Symbols;
use crate::symbols::debug_files::DebugFiles;
use crate::symbols::debuginfod::Debuginfod;
use crate::target_object::TargetObject;

/// Ticks per second of CPU time when none are asked for: the clock of profil(2).
const DEFAULT_HZ: f64 = 100.0;

/// Examples of `profil attach`, each run by the suite.
pub const EXAMPLES: &str = "EXAMPLES\n  \
    profil attach -p 1234 -d 2                          where in its text it spends its time\n  \
    profil attach -p 1234 --buf buf --offset main -d 2  count from main on, into its own array buf\n  \
    profil attach -p 1234 -d 10 -o gmon.out             a file for gprof";

/// Counts a region of a process's text into bins, as profil(2) does, and into its own buffer.
#[derive(clap::Args, Clone, Debug)]
pub struct AttachArgs {
    /// The process
    #[arg(short, long, value_name = "PID")]
    pid: u32,
    #[command(flatten)]
    region: RegionArgs,
    /// Ticks per second of CPU time
    #[arg(short = 'F', long = "freq", visible_short_alias = 'r', visible_alias = "rate", value_name = "HZ", default_value_t = DEFAULT_HZ, value_parser = values::hz)]
    freq: f64,
    /// Stop after this long: 5, 2.5, 500ms, 1m [default: until the process ends, or Ctrl-C]
    #[arg(short, long, value_name = "TIME", value_parser = values::duration)]
    duration: Option<Duration>,
    /// File to write; - is standard output [default: none]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// What to write [default: by the file's name, else gmon]
    #[arg(short, long, value_enum, requires = "output")]
    format: Option<Format>,
    /// Print the bins as JSON on standard output
    #[arg(long)]
    json: bool,
    /// Print no table and no summary
    #[arg(short, long)]
    quiet: bool,
    /// Directory with debug files, laid out like /usr/lib/debug; may be given several times
    #[arg(long, value_name = "DIR")]
    debug_dir: Vec<PathBuf>,
}

/// What an attachment is written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// gmon.out, for gprof
    Gmon,
    /// The bins in JSON
    Json,
}

/// Runs `profil attach`.
///
/// # Errors
/// The request is bad, the process no target, or the result cannot be written.
pub fn run(args: AttachArgs) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(attach(args))
}

async fn attach(args: AttachArgs) -> anyhow::Result<ExitCode> {
    let format = args.format();
    let content = if format == Format::Gmon { Content::Binary } else { Content::Text };
    let mut output = args.output.as_ref().map(|path| Output::create(path, content, Owner::of_sudo())).transpose()?;
    let rate = Rate::within_limit(args.freq)?;
    let target = TargetProcess::open(args.pid)?;
    let debug_files = DebugFiles { directories: args.debug_dir.clone(), debuginfod: Debuginfod::from_env() };
    let symbols = Symbols::new(debug_files, "/".into());
    // Before any address is looked up: what is written goes where the addresses were found, or nowhere.
    let purpose = if args.region.buf.is_some() { Purpose::Write } else { Purpose::Look };
    let space = AddressSpace::of(&target, purpose)?;
    let mut object = match TargetObject::find(&target, &space, args.region.object.as_deref(), symbols) {
        Ok(object) => Some(object),
        // Addresses alone need no object; the table then has no names.
        Err(_) if args.region.object.is_none() && !args.region.needs_object() => None,
        Err(error) => return Err(error.into()),
    };
    let resolved = args.region.resolve(object.as_mut())?;
    let mut interrupts = Interrupts::listen().context("cannot listen to signals")?;
    let Resolved { convention, request, buffer, scale_chosen } = resolved;
    let config = AttachConfig { convention, request, buffer, rate, recording: Recording::Off };
    let mut attachment = Attachment::start(target, space, &config)?;
    if scale_chosen && !args.quiet {
        talk::say(format!("scale {}: {} bytes of text a bin", request.scale, attach_view::bytes_per_bin(&resolved)));
    }
    let came = until_stopped(&mut attachment, args.duration, &mut interrupts).await;
    interrupt::abort_on_second(came);
    let report = attachment.stop()?;
    let bias = object.as_ref().map_or(0, TargetObject::load_bias);
    let view = View::new(&report, &resolved, object.as_mut());
    finish(&args, &report, &view, bias, output.as_mut().map(|output| (output, format)))
}

/// Flushes until a signal, the deadline, or the end of the target; whether it was a signal.
async fn until_stopped(attachment: &mut Attachment, duration: Option<Duration>, interrupts: &mut Interrupts) -> Came {
    let mut ticker = tokio::time::interval(FLUSH_PERIOD);
    // After a SIGSTOP one flush makes up for all that were missed.
    ticker.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let deadline = duration.map(|duration| tokio::time::Instant::now() + duration);
    loop {
        tokio::select! {
            // What an interim file would show is in the target's buffer already.
            wish = interrupts.next() => if wish != Wish::Interim {
                return Came::One;
            },
            () = at_or_never(deadline) => return Came::None,
            _ = ticker.tick() => {
                attachment.flush();
                if attachment.end().is_some() {
                    return Came::None;
                }
            }
        }
    }
}

async fn at_or_never(deadline: Option<tokio::time::Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

impl AttachArgs {
    fn format(&self) -> Format {
        let json = self.output.as_ref().is_some_and(|path| path.extension().is_some_and(|name| name == "json"));
        self.format.unwrap_or(if json { Format::Json } else { Format::Gmon })
    }
}

fn finish(
    args: &AttachArgs,
    report: &AttachReport,
    view: &View,
    load_bias: u64,
    output: Option<(&mut Output, Format)>,
) -> anyhow::Result<ExitCode> {
    let mut file = RunFile::None;
    if let Some((output, format)) = output {
        match format {
            Format::Gmon => {
                let histogram =
                    GmonHistogram::from_region(&report.region, report.histogram.bins().to_vec(), load_bias)?;
                let hz = report.tally.real_hz().unwrap_or(report.tally.hz).round().max(1.0) as u32;
                output.write(|to| gmon::write(&[histogram], hz, to).map_err(io::Error::other))?;
            }
            Format::Json => output.write(|to| attach_view::write_json(view, to))?,
        }
        file = RunFile::Wrote(output.path());
    }
    let shown = {
        let mut to = io::BufWriter::new(io::stdout().lock());
        let shown = if args.json {
            attach_view::write_json(view, &mut to)
        } else if args.quiet {
            Ok(())
        } else {
            attach_view::write_table(view, &mut to)
        };
        shown.and_then(|()| to.flush())
    };
    match shown {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
        shown => shown.context("cannot write to standard output")?,
    }
    talk(args, report, file);
    Ok(status(report))
}

fn status(report: &AttachReport) -> ExitCode {
    match report.end {
        Some(End::Lost(loss)) if loss != Loss::Gone => ExitCode::from(failure::FAILURE),
        _ if !report.adds_up() => ExitCode::from(failure::FAILURE),
        _ if report.tally.ticks == 0 => ExitCode::from(failure::NO_TICKS),
        _ => ExitCode::SUCCESS,
    }
}

/// That counters of the target's buffer have wrapped, which is what profil(2) makes of too many ticks.
///
/// What they held before is not known, so that others may have wrapped as well.
fn wrapped_line(report: &AttachReport, width: u32) -> Option<String> {
    let bits = 8 * width;
    report.written?;
    let wrapped = report.histogram.beyond(bits) as u64;
    let hint = if width == 2 { "; 32 bits hold more: --width 4" } else { "" };
    (wrapped > 0).then(|| {
        let largest = thousands((1u64 << bits) - 1);
        format!("{} of the buffer got more than {largest} ticks and wrapped{hint}", counted(wrapped, "counter"))
    })
}

/// What goes to standard error at the end.
fn talk(args: &AttachArgs, report: &AttachReport, file: RunFile<'_>) {
    let binned = report.tally.outcome(Outcome::Binned);
    if !report.adds_up() {
        let in_bins = report.histogram.total();
        talk::say(format!(
            "the counters say {binned} ticks and the bins hold {in_bins}: this is a fault of profil, please report it"
        ));
    }
    let pid = args.pid;
    // The target's last ticks come too late for its buffer, which is gone with it.
    let unwritten = match report.unwritten() {
        0 => String::new(),
        1 => "; 1 tick was not written".to_owned(),
        unwritten => format!("; {unwritten} ticks were not written"),
    };
    match report.end {
        Some(End::Exited) => talk::say(format!("process {pid} has exited{unwritten}")),
        Some(End::Exec) => talk::say(format!(
            "process {pid} runs another program: profiling is off, and nothing was written into it{unwritten}"
        )),
        Some(End::Lost(loss)) => talk::say(format!("profiling is off: {loss}{unwritten}")),
        None => {}
    }
    if args.quiet {
        return;
    }
    if let Some(line) = wrapped_line(report, args.region.width) {
        talk::say(line);
    }
    if let Some(line) = misses_line(&report.tally) {
        talk::tell(line);
    }
    talk::tell(summary_line(&report.tally, clock::NAME, file));
}

#[cfg(test)]
mod tests {
    use profil_common::{Convention, Counters, Region, Request};

    use super::*;
    use crate::bins::Run;
    use crate::histogram::Histogram;
    use crate::tally::Tally;

    fn report(ticks: &[u32], written: Option<u64>) -> AttachReport {
        let request = Request { offset: 0, scale: 0x1_0000, bufsiz: 4 * ticks.len() as u64, width: 4 };
        let region = Region::new(Convention::Glibc, request).expect("a good request").expect("one that is on");
        let mut histogram = Histogram::new(region.nbins);
        histogram.add(&[Run { first: 0, added: ticks.to_vec() }]);
        let tally = Tally::new(&Counters::default(), 100.0, None);
        AttachReport { region, histogram, tally, written, end: None, duration: Duration::ZERO }
    }

    #[test]
    fn counters_that_wrapped_are_told_once_with_what_to_do() {
        let full = report(&[65_536, 1, 70_000, 65_535], Some(1));
        let line = wrapped_line(&full, 2).expect("two have wrapped");
        assert_eq!(
            line,
            "2 counters of the buffer got more than 65,535 ticks and wrapped; 32 bits hold more: --width 4"
        );
        assert_eq!(wrapped_line(&full, 4), None);
        assert_eq!(wrapped_line(&report(&[65_536], None), 2), None, "bins of our own are 64 bits wide");
        assert_eq!(wrapped_line(&report(&[65_535], Some(1)), 2), None);
    }
}
