//! CPU time of a target of fixed work: alone, under an empty program, and under profil.

use std::os::fd::{AsFd, BorrowedFd};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use profil_user::clock::Clock;
use profil_user::probe::bpf::{self, Instruction, ProgramKind};
use profil_user::session;

use crate::Effort;
use crate::load;
use crate::statistics::{Figure, Limit};

/// Period of the clock, ns: 997 Hz.
const PERIOD_NS: u64 = 1_003_009;

/// Measures the three in turns, and the differences turn by turn.
pub fn measure(profil: &str, effort: Effort) -> Result<Vec<Figure>> {
    let program = [Instruction::set(0, 0), Instruction::exit()];
    let program = bpf::load_program(ProgramKind::PerfEvent, &program, 0).map_err(|failure| failure.error)?;
    let mut readings = [Vec::new(), Vec::new(), Vec::new()];
    for turn in 0..effort.turns {
        // Each comes first, second and third equally often: what a run leaves behind falls on all alike.
        for place in 0..3 {
            let surroundings = [Surroundings::Alone, Surroundings::Empty, Surroundings::Profil][(turn + place) % 3];
            readings[surroundings as usize].push(surroundings.work(profil, program.as_fd())?);
        }
    }
    let [alone, empty, profiled] = readings;
    let percent = |of: &[f64], over: &[f64]| -> Vec<f64> {
        of.iter().zip(over).map(|(of, over)| (of - over) * 100.0 / over).collect()
    };
    let figure = |what: &str, unit, readings, limit| Figure { what: what.to_owned(), unit, readings, limit };
    Ok(vec![
        figure("target alone, CPU time", "s", alone.clone(), None),
        figure("target under an empty program at 997 Hz, over alone", "%", percent(&empty, &alone), None),
        figure(
            "target under profil at 997 Hz, over the empty program",
            "%",
            percent(&profiled, &empty),
            Some(Limit::NoDifference),
        ),
    ])
}

/// What runs beside the target.
#[derive(Clone, Copy)]
enum Surroundings {
    Alone,
    Empty,
    Profil,
}

impl Surroundings {
    /// CPU time of the load of fixed work in these surroundings, s.
    fn work(self, profil: &str, empty: BorrowedFd<'_>) -> Result<f64> {
        let mut load = load::command("work")?;
        match self {
            Surroundings::Alone => work(&mut load),
            Surroundings::Empty => {
                let clock = Clock::on_cpus(empty, &session::online_cpus()?, PERIOD_NS)?;
                clock.start()?;
                work(&mut load)
            }
            Surroundings::Profil => {
                let mut command = Command::new(profil);
                command.args(["-q", "-o", "/dev/null", "--"]).arg(load.get_program()).args(load.get_args());
                work(&mut command)
            }
        }
    }
}

/// CPU time of the load of fixed work, as it says itself: what profil uses beside it is not the target's.
fn work(command: &mut Command) -> Result<f64> {
    let output = command.stderr(Stdio::null()).output().context("cannot run the target")?;
    ensure!(output.status.success(), "{command:?} ended with {}", output.status);
    let seconds = String::from_utf8_lossy(&output.stdout);
    seconds.trim().parse().with_context(|| format!("the target printed `{seconds}`"))
}
