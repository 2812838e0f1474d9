//! The last line of every run, and the line that says why ticks are missing.

use std::fmt::Write;
use std::path::Path;

use profil_common::Outcome;

use crate::tally::Tally;

/// The file that a run has to do with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunFile<'a> {
    /// None.
    None,
    /// The run wrote it.
    Wrote(&'a Path),
    /// The run read it.
    Read(&'a Path),
}

/// The last line of every run: ticks by outcome, expected, missed; the rate asked and the real one; the clock; CPU
/// time; the file. What is not known is left out. No newline.
pub fn summary_line(tally: &Tally, clock: &str, file: RunFile) -> String {
    let mut line = format!("profil: {}", counted(tally.ticks, "tick"));
    let outcomes = Outcome::ALL.into_iter().filter(|outcome| tally.outcome(*outcome) > 0);
    let outcomes: Vec<_> =
        outcomes.map(|outcome| format!("{} {}", thousands(tally.outcome(outcome)), outcome.name())).collect();
    if !outcomes.is_empty() {
        push(&mut line, format_args!(" ({})", outcomes.join(", ")));
    }
    if let (Some(expected), Some(missed)) = (tally.expected(), tally.missed()) {
        push(&mut line, format_args!(", {} expected, {} missed", thousands(expected), thousands(missed)));
        if missed > 0 {
            push(&mut line, format_args!(" ({:.1} %)", share(missed, expected)));
        }
    }
    if tally.hz > 0.0 {
        push(&mut line, format_args!("; {} Hz asked", rate(tally.hz)));
        if let Some(real) = tally.real_hz() {
            push(&mut line, format_args!(", {} real", rate(real)));
        }
    }
    if !clock.is_empty() {
        push(&mut line, format_args!("; {clock}"));
    }
    if let Some(seconds) = tally.cpu_seconds {
        push(&mut line, format_args!("; {seconds:.2} CPU s"));
    }
    match file {
        RunFile::None => {}
        RunFile::Wrote(path) => push(&mut line, format_args!("; wrote {}", path.display())),
        RunFile::Read(path) => push(&mut line, format_args!("; read {}", path.display())),
    }
    crate::printable::printable(&line).into_owned()
}

/// Why ticks are missing, when so many are that it matters; to be shown before the summary line. No newline.
///
/// The kernel runs no BPF program for an event while `bpf_prog_active` is held on that CPU, and the program cannot see
/// that it was passed over: hence the independent count, and hence only likely causes.
pub fn misses_line(tally: &Tally) -> Option<String> {
    let (missed, expected) = (tally.missed()?, tally.expected()?);
    tally.misses_matter().then(|| {
        format!(
            "profil: {} ({:.1} %) never reached the counting program; likely causes: another BPF program attached \
             through perf, as bpftrace and bcc attach to tracepoints and kprobes (`bpftool perf list` shows them); \
             threads that sleep and wake thousands of times a second, whose switches no tick sees; a process that \
             calls bpf(2) on maps all the time; the kernel throttling the clock (kernel.perf_cpu_time_max_percent)",
            counted(missed, "tick"),
            share(missed, expected)
        )
    })
}

/// A number with commas between thousands.
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number and a noun, in the plural where it should be.
pub fn counted(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", thousands(number), if number == 1 { "" } else { "s" })
}

/// A rate: whole from 100 up, where the fraction is noise, and when it is whole.
pub(crate) fn rate(hz: f64) -> String {
    if hz >= 100.0 || hz.fract() == 0.0 { format!("{hz:.0}") } else { format!("{hz:.1}") }
}

fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64 * 100.0
}

fn push(line: &mut String, text: std::fmt::Arguments) {
    line.write_fmt(text).expect("a string takes everything");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(stray: u64, no_user_pc: u64, cpu_seconds: Option<f64>, hz: f64) -> Tally {
        Tally { ticks: stray + no_user_pc, outcomes: [0, stray, 0, no_user_pc, 0, 0], cpu_seconds, hz }
    }

    #[test]
    fn the_summary_names_every_number_it_has() {
        let line = summary_line(&tally(9812, 158, Some(10.011), 997.0), "cpu-clock", RunFile::Wrote(Path::new("p.gz")));
        insta::assert_snapshot!(line, @"profil: 9,970 ticks (9,812 stray, 158 no_user_pc), 9,981 expected, 11 missed (0.1 %); 997 Hz asked, 996 real; cpu-clock; 10.01 CPU s; wrote p.gz");
    }

    #[test]
    fn the_summary_leaves_out_what_is_not_known() {
        insta::assert_snapshot!(summary_line(&tally(1, 0, None, 0.0), "", RunFile::None), @"profil: 1 tick (1 stray)");
        insta::assert_snapshot!(summary_line(&tally(0, 0, Some(0.0), 19.0), "task-clock", RunFile::None), @"profil: 0 ticks, 0 expected, 0 missed; 19 Hz asked; task-clock; 0.00 CPU s");
    }

    #[test]
    fn misses_are_explained_only_when_they_matter() {
        assert_eq!(misses_line(&tally(9812, 158, Some(10.011), 997.0)), None);
        assert_eq!(misses_line(&tally(9812, 158, None, 997.0)), None);
        let line = misses_line(&tally(8000, 0, Some(10.0), 1000.0)).unwrap();
        assert!(line.starts_with("profil: 2,000 ticks (20.0 %) never reached the counting program"), "{line}");
    }

    #[test]
    fn thousands_are_set_apart() {
        assert_eq!([0, 999, 1000, 1_234_567].map(thousands), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(thousands(u64::MAX), "18,446,744,073,709,551,615");
    }
}
