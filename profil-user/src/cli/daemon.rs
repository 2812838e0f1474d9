//! `profil daemon`: the service for all programs of a host.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;

use super::interrupt::{Interrupts, Wish};
use super::{talk, verbose};
use crate::clock;
use crate::process::namespace;
use crate::rate::Rate;
use crate::report::summary::{RunFile, summary_line};
use crate::service::{self, Limits, Listener, Service};

/// Rate of the clock: the fastest that a program can ask for.
const CLOCK_HZ: f64 = 1000.0;

/// Examples of `profil daemon`, each run by the suite.
pub const EXAMPLES: &str = "EXAMPLES\n  \
    profil daemon --service-only                  serve all programs of this host at /run/profil.sock\n  \
    profil daemon --service-only --socket ./sock  programs find it by PROFIL_SOCKET";

/// Serves profil(3) to every program that preloads libprofil.so or is linked with it.
#[derive(clap::Args, Clone, Debug)]
pub struct DaemonArgs {
    /// Serve profil(3) and sample nothing else
    #[arg(long, required = true)]
    service_only: bool,
    /// Socket to listen on
    #[arg(long, value_name = "PATH", default_value = "/run/profil.sock")]
    socket: PathBuf,
    /// Say more; twice: what the service does
    #[arg(short, long, action = clap::ArgAction::Count)]
    verbose: u8,
}

/// Runs `profil daemon` until a signal ends it.
///
/// # Errors
/// The socket cannot be listened on, or the service not be started.
pub fn run(args: DaemonArgs) -> anyhow::Result<ExitCode> {
    verbose::start(args.verbose);
    let runtime = service::runtime()?;
    let result = runtime.block_on(serve(args));
    // A thread that a client keeps waiting ends with the process.
    runtime.shutdown_background();
    result
}

async fn serve(args: DaemonArgs) -> anyhow::Result<ExitCode> {
    namespace::check_proc()?;
    let mut interrupts = Interrupts::listen().context("cannot listen to signals")?;
    let service = Service::start(Rate::within_limit(CLOCK_HZ)?, Limits::default())?;
    let listener = Listener::bind(&args.socket)?;
    service::RIGHTS.keep_only()?;
    talk::say(format_args!("serving profil(3) on {}", args.socket.display()));
    let stop = async { while interrupts.next().await == Wish::Interim {} };
    let report = service.run(listener, stop).await?;
    talk::say(format_args!(
        "profiling was turned on {} times, {} buffers were lost, {} calls refused",
        report.turned_on, report.lost, report.refused
    ));
    if !report.adds_up() {
        talk::say(format_args!("{report:?} does not add up: this is a fault of profil, please report it"));
    }
    talk::tell(summary_line(&report.tally, clock::NAME, RunFile::None));
    Ok(ExitCode::SUCCESS)
}
