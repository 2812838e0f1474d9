//! CPU time of a target of fixed work: alone, under an empty program, and under profil.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use profil_user::clock::Clock;
use profil_user::probe::bpf::{self, Instruction, ProgramKind};
use profil_user::session;

use crate::Effort;
use crate::load;
use crate::statistics::{Figure, median_interval};

use std::os::fd::AsFd;

/// Period of the clock, ns: 997 Hz.
const PERIOD_NS: u64 = 1_003_009;

/// Measures the three in turns, and the differences turn by turn.
pub fn measure(profil: &str, effort: Effort) -> Result<Vec<Figure>> {
    let program = [Instruction::set(0, 0), Instruction::exit()];
    let program = bpf::load_program(ProgramKind::PerfEvent, &program, 0).map_err(|failure| failure.error)?;
    let (mut alone, mut empty, mut profiled) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..effort.turns.min(11) {
        alone.push(work(&mut load::command("work")?)?);
        let clock = Clock::on_cpus(program.as_fd(), &session::online_cpus()?, PERIOD_NS)?;
        clock.start()?;
        empty.push(work(&mut load::command("work")?)?);
        clock.stop()?;
        let load = load::command("work")?;
        let mut command = Command::new(profil);
        command.args(["-q", "-o", "/dev/null", "--"]).arg(load.get_program()).args(load.get_args());
        profiled.push(work(&mut command)? - overhead_of_profil(profil)?);
    }
    let percent = |of: &[f64], over: &[f64]| -> Vec<f64> {
        of.iter().zip(over).map(|(of, over)| (of - over) * 100.0 / over).collect()
    };
    let over_empty = percent(&profiled, &empty);
    let (low, high) = median_interval(&over_empty);
    Ok(vec![
        figure("target alone, CPU time", "s", alone.clone()),
        figure("target under an empty program at 997 Hz, over alone", "%", percent(&empty, &alone)),
        figure(
            &format!(
                "target under profil at 997 Hz, over the empty program (95 % interval of the median {low:.2} .. {high:.2} %)"
            ),
            "%",
            over_empty,
        ),
    ])
}

fn figure(what: &str, unit: &'static str, readings: Vec<f64>) -> Figure {
    Figure { what: what.to_owned(), unit, readings, limit: None }
}

/// CPU time of a command and its children, s.
fn work(command: &mut Command) -> Result<f64> {
    let before = children_cpu_seconds();
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status().context("cannot run the target")?;
    ensure!(status.success(), "{command:?} ended with {status}");
    Ok(children_cpu_seconds() - before)
}

/// CPU time of profil itself when it launches a command of no work, s.
fn overhead_of_profil(profil: &str) -> Result<f64> {
    work(Command::new(profil).args(["-q", "-o", "/dev/null", "--", "true"]))
}

/// CPU time of all children that were waited for, s.
pub fn children_cpu_seconds() -> f64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: getrusage fills the structure, which is plain numbers, so that even zeros are a value of it.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr());
        usage.assume_init()
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}
