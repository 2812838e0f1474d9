//! Loads of known behaviour: this program again, as a child process.

use std::hint::black_box;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use profil_user::session;

/// Iterations of the load of fixed work: about two seconds.
const WORK: u64 = 1_500_000_000;

/// A load that runs until it is dropped.
pub struct Load(Child);

impl Load {
    /// Starts a load.
    pub fn start(kind: &str) -> Result<Load> {
        let child = command(kind)?.stdout(Stdio::null()).spawn().context("cannot start the load")?;
        Ok(Load(child))
    }

    /// Its PID.
    pub fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        // A load that has ended by itself is no worse.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The command of a load.
pub fn command(kind: &str) -> Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["load", kind]);
    Ok(command)
}

/// The CPU that loads stay on: the last one, which the system uses least.
pub fn cpu() -> Result<u32> {
    session::online_cpus()?.last().copied().context("no CPU is online")
}

/// Keeps this thread on [`cpu`].
fn stay() -> Result<()> {
    // SAFETY: an all-zero set is an empty one, and the set is a live local of the size that is stated.
    let done = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu()? as usize, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set)
    };
    ensure!(done == 0, "cannot stay on a CPU: {}", std::io::Error::last_os_error());
    Ok(())
}

/// Is the load.
pub fn run(kind: &str) -> Result<()> {
    stay()?;
    match kind {
        "burn" => loop {
            black_box(spin(1 << 20));
        },
        "sleep" => loop {
            std::thread::sleep(Duration::from_secs(3600));
        },
        "work" => {
            black_box(spin(WORK));
            Ok(())
        }
        _ => bail!("no load `{kind}`"),
    }
}

/// A loop that the compiler keeps.
fn spin(iterations: u64) -> u64 {
    let mut value = 1u64;
    for index in 0..iterations {
        value = black_box(value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(index));
    }
    value
}
