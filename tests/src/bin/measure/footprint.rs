//! What profil itself takes: CPU time beside an idle target, memory and time for a target of many pcs.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::Effort;
use crate::load::{Load, cpu_seconds};
use crate::statistics::{Figure, Limit};

/// Functions of the target of many pcs; ticks fall on five or six places in each, so that some 20,000 pcs are distinct.
const FUNCTIONS: usize = 3800;

/// Measures it all.
pub fn measure(profil: &str, effort: Effort) -> Result<Vec<Figure>> {
    let directory = tempfile::tempdir()?;
    let mut figures = vec![idle(profil, effort)?];
    figures.extend(many_pcs(profil, effort, directory.path())?);
    Ok(figures)
}

/// CPU time of profil beside a target that sleeps, percent of a CPU.
fn idle(profil: &str, effort: Effort) -> Result<Figure> {
    let load = Load::start("sleep")?;
    let mut readings = Vec::new();
    let run = |seconds: u64| -> Result<f64> {
        let before = cpu_seconds(libc::RUSAGE_CHILDREN);
        let pid = load.pid().to_string();
        let duration = seconds.to_string();
        // No ticks is exit status 4.
        Command::new(profil)
            .args(["-q", "-o", "/dev/null", "-p", &pid, "-d", &duration])
            .stderr(Stdio::null())
            .status()
            .context("cannot run profil")?;
        Ok(cpu_seconds(libc::RUSAGE_CHILDREN) - before)
    };
    for _ in 0..3 {
        // The long run less the short one leaves out start and end.
        readings.push((run(effort.long_s.min(10) + 1)? - run(1)?) * 100.0 / effort.long_s.min(10) as f64);
    }
    Ok(Figure {
        what: "profil beside an idle target, of one CPU".to_owned(),
        unit: "%",
        readings,
        limit: Some(Limit::AtMost(0.1)),
    })
}

/// A target of many pcs: peak memory of profil, time from the end of recording to the file, time of the report.
fn many_pcs(profil: &str, effort: Effort, directory: &Path) -> Result<Vec<Figure>> {
    let target = build_target(directory)?;
    let profile = directory.join("profile.pb.gz");
    let mut running = Command::new(&target).spawn().context("cannot start the target")?;
    let recorded = record(profil, running.id(), effort, &profile);
    // It runs for ever.
    let _ = running.kill();
    let _ = running.wait();
    let Recorded { peak_mib, end_s } = recorded?;
    let mut report_s = Vec::new();
    for _ in 0..effort.turns {
        let started = Instant::now();
        let report = Command::new(profil).arg("report").arg(&profile).stderr(Stdio::null()).output()?;
        ensure!(report.status.success(), "profil report ended with {}", report.status);
        report_s.push(started.elapsed().as_secs_f64());
    }
    let rows = Command::new(profil).args(["report", "--csv", "--by", "address"]).arg(&profile).output()?;
    let pcs = rows.stdout.iter().filter(|byte| **byte == b'\n').count().saturating_sub(1);
    let figure = |what: &str, unit, readings, limit| Figure {
        what: format!("{what} ({pcs} distinct pcs)"),
        unit,
        readings,
        limit: Some(Limit::AtMost(limit)),
    };
    Ok(vec![
        figure("peak memory of profil", "MiB", vec![peak_mib], 40.0),
        figure("end of a recording, to the file", "s", vec![end_s], 2.0),
        figure("profil report", "s", report_s, 0.3),
    ])
}

struct Recorded {
    peak_mib: f64,
    end_s: f64,
}

fn record(profil: &str, pid: u32, effort: Effort, profile: &Path) -> Result<Recorded> {
    let pid = pid.to_string();
    let mut recorder = Command::new(profil)
        .args(["-q", "-F", "9997", "-p", &pid, "-o"])
        .arg(profile)
        .stderr(Stdio::null())
        .spawn()
        .context("cannot run profil")?;
    std::thread::sleep(Duration::from_secs(effort.long_s));
    let started = Instant::now();
    let mut peak_kib = peak_kib(&recorder);
    // SAFETY: kill takes plain numbers, and the child has not been waited for, so its PID is its own.
    unsafe { libc::kill(recorder.id() as i32, libc::SIGINT) };
    loop {
        peak_kib = peak_kib.max(self::peak_kib(&recorder));
        if let Some(status) = recorder.try_wait()? {
            ensure!(status.success(), "profil ended with {status}");
            return Ok(Recorded { peak_mib: peak_kib as f64 / 1024.0, end_s: started.elapsed().as_secs_f64() });
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Peak memory of a running process, KiB; 0 when it has ended.
fn peak_kib(child: &Child) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").trim().parse().ok()).unwrap_or(0)
}

fn build_target(directory: &Path) -> Result<std::path::PathBuf> {
    let mut source = String::from("volatile unsigned sink;\n");
    for function in 0..FUNCTIONS {
        writeln!(
            source,
            "__attribute__((noinline)) void f{function}(unsigned x) {{ for (int i = 0; i < 50; i++) {{ x = x * {} + i; sink = x ^ (x >> 3); }} }}",
            2 * function + 3
        )?;
    }
    source.push_str("int main(void) { for (;;) {\n");
    for function in 0..FUNCTIONS {
        writeln!(source, "f{function}({function});")?;
    }
    source.push_str("} }\n");
    let (file, target) = (directory.join("many.c"), directory.join("many"));
    fs::write(&file, source)?;
    let status = Command::new("gcc").args(["-O1", "-g", "-o"]).arg(&target).arg(&file).status()?;
    ensure!(status.success(), "gcc ended with {status}");
    Ok(target)
}
