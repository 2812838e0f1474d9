//! `profil run`: profil(2) for one command and its descendants.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use profil_common::Convention;
use profil_common::limits::MAX_CALL_HZ;

use super::failure::usage;
use super::interrupt::{Interrupts, Wish};
use super::launched::{Launched, Stay, Stopped};
use super::region::ConventionName;
use super::run_directory::RunDirectory;
use super::{talk, verbose};
use crate::clock;
use crate::launch::Launching;
use crate::preload;
use crate::process::namespace;
use crate::rate::Rate;
use crate::report::summary::{RunFile, misses_line, summary_line};
use crate::service::{self, DEFAULT_HZ, Limits, Listener, Service, ServiceReport};

/// Examples of `profil run`, each run by the suite.
pub const EXAMPLES: &str = "EXAMPLES\n  \
    profil run -- ./split                   a program that calls profil(3) or was built with gcc -pg\n  \
    profil run -F 1000 -- ./split           at 1,000 ticks a second\n  \
    profil run --convention bsd -- ./split  its calls are those of 4.4BSD\n  \
    profil run --zero-copy -- ./split       the kernel counts in its own pages";

/// Gives a command the kernel's profil(2).
#[derive(clap::Args, Clone, Debug)]
pub struct RunArgs {
    /// Manual page that calls of profil(3) are read by
    #[arg(long, value_enum, default_value = "glibc")]
    convention: ConventionName,
    /// Ticks per second of CPU time
    #[arg(short = 'F', long = "freq", visible_short_alias = 'r', visible_alias = "rate", value_name = "HZ", default_value_t = DEFAULT_HZ)]
    freq: u32,
    /// Let the kernel count in the buffer itself, where the buffer is a page-aligned mapping of its own
    #[arg(long)]
    zero_copy: bool,
    /// Say nothing at the end
    #[arg(short, long)]
    quiet: bool,
    /// Say more; twice: what the service does
    #[arg(short, long, action = clap::ArgAction::Count)]
    verbose: u8,
    /// The command, with its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Runs `profil run`.
///
/// # Errors
/// The service cannot be started, or the command not be run.
pub fn run(args: RunArgs) -> anyhow::Result<ExitCode> {
    verbose::start(args.verbose);
    let runtime = service::runtime()?;
    let result = runtime.block_on(serve(args));
    // A thread that a client keeps waiting ends with the process.
    runtime.shutdown_background();
    result
}

async fn serve(args: RunArgs) -> anyhow::Result<ExitCode> {
    namespace::check_proc()?;
    let library = preload::find_library()?;
    if args.freq == 0 {
        return Err(usage("cannot tick at 0 Hz: -F takes a rate from 1 on"));
    }
    if args.freq > MAX_CALL_HZ {
        let freq = args.freq;
        return Err(usage(format!(
            "cannot tick at {freq} Hz: a program that calls profil(3) gets at most {MAX_CALL_HZ}"
        )));
    }
    let mut interrupts = Interrupts::listen().context("cannot listen to signals")?;
    let directory = RunDirectory::make().context("cannot make a directory for the socket")?;
    let socket = directory.socket();
    let listener = Listener::bind(&socket)?;
    let launching = Launching::start(&args.command, &args.environment(&library, &socket))?;
    let service = Service::start(Rate::within_limit(args.freq.into())?, Limits::default())?;
    let mut launched = Launched::of(launching.exec()?)?;
    let end = launched.end()?;
    // The command has ours of before, and no thread of ours is left that made it.
    service::RIGHTS.keep_only()?;
    let mut stopped = Stopped::TargetsEnded;
    let stop = async {
        loop {
            tokio::select! {
                () = end.wait() => return,
                wish = interrupts.next() => if wish != Wish::Interim {
                    stopped = Stopped::Wished(wish);
                    return;
                },
            }
        }
    };
    let report = service.run(listener, stop).await?;
    let status = launched.see_off(stopped, Stay::Ended);
    if !args.quiet {
        summarise(&report);
    }
    status
}

impl RunArgs {
    /// What libprofil.so is told.
    fn environment(&self, library: &Path, socket: &Path) -> Vec<(&'static str, OsString)> {
        let mut preload = preload::for_glibc(library);
        if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
            preload.push(" ");
            preload.push(others);
        }
        let mut variables = vec![
            ("LD_PRELOAD", preload),
            ("PROFIL_SOCKET", socket.into()),
            ("PROFIL_CONVENTION", Convention::from(self.convention).name().into()),
            ("PROFIL_HZ", self.freq.to_string().into()),
        ];
        if self.zero_copy {
            variables.push(("PROFIL_ZEROCOPY", OsStr::new("1").to_owned()));
        }
        variables
    }
}

fn summarise(report: &ServiceReport) {
    if report.turned_on == 0 {
        talk::say(
            "no call of profil(3) came: the command made none, is linked statically or to another libc than glibc, is set-uid, or has \
             no libprofil.so for its architecture",
        );
        return;
    }
    if !report.adds_up() {
        talk::say(format_args!("{report:?} does not add up: this is a fault of profil, please report it"));
    }
    if let Some(line) = misses_line(&report.tally) {
        talk::tell(line);
    }
    talk::tell(summary_line(&report.tally, clock::NAME, RunFile::None));
}
