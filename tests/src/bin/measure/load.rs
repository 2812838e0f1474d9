//! Loads of known behaviour: this program again, as a child process.

use std::hint::black_box;
use std::io;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
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

/// Keeps this process on [`cpu`], and others off it as far as a priority can.
fn take_cpu() -> Result<()> {
    // SAFETY: a set of CPUs is plain words, of which zeros are a value.
    let mut cpus = unsafe { std::mem::zeroed::<libc::cpu_set_t>() };
    // SAFETY: CPU_SET checks the number against the size of the set.
    unsafe { libc::CPU_SET(cpu()? as usize, &mut cpus) };
    // SAFETY: the set is alive and has the size that is told.
    let placed = unsafe { libc::sched_setaffinity(0, size_of_val(&cpus), &raw const cpus) };
    // SAFETY: plain numbers.
    let raised = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -20) };
    if placed != 0 || raised != 0 {
        return Err(io::Error::last_os_error()).context("cannot give the load a CPU of its own");
    }
    Ok(())
}

/// Is the load. That of fixed work prints its CPU time, s.
pub fn run(kind: &str) -> Result<()> {
    take_cpu()?;
    match kind {
        "burn" => loop {
            black_box(spin(1 << 20));
        },
        "sleep" => loop {
            std::thread::sleep(Duration::from_secs(3600));
        },
        "work" => {
            black_box(spin(WORK));
            println!("{}", cpu_seconds(libc::RUSAGE_SELF));
            Ok(())
        }
        _ => bail!("no load `{kind}`"),
    }
}

/// CPU time of this process, or of all its children that were waited for, s.
pub fn cpu_seconds(whose: i32) -> f64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: getrusage fills the structure, which is plain numbers, so that even zeros are a value of it.
    let usage = unsafe {
        libc::getrusage(whose, usage.as_mut_ptr());
        usage.assume_init()
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

/// A loop that the compiler keeps.
fn spin(iterations: u64) -> u64 {
    let mut value = 1u64;
    for index in 0..iterations {
        value = black_box(value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(index));
    }
    value
}
