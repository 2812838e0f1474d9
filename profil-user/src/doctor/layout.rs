//! The report as text in columns.

use std::collections::HashMap;
use std::io::{self, Write};

use super::{Finding, Report, State};

/// Whether text is coloured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paint {
    /// With the colours of a terminal.
    Coloured,
    /// Bare.
    Plain,
}

/// Widest column that others are lined up with; what is longer pushes its own line only.
const COLUMN_MAX: usize = 36;
/// Width of the first column: the longest word of a state.
const STATE_WIDTH: usize = 8;

/// Writes a report for people: a line for each finding, and below it what is lost and the cure when it is not met.
///
/// # Errors
/// As the writer.
pub fn write_report(report: &Report, paint: Paint, to: &mut dyn Write) -> io::Result<()> {
    let width = |text: fn(&Finding) -> &str| {
        let findings = report.sections.iter().flat_map(|section| &section.findings);
        let widths = findings.map(|finding| text(finding).chars().count());
        widths.filter(|width| *width <= COLUMN_MAX).max().unwrap_or(0)
    };
    let (name_width, found_width) = (width(|finding| &finding.name), width(|finding| &finding.found));

    // One cure often serves many findings: after the first one, they refer to it.
    let mut cures: HashMap<&str, &str> = HashMap::new();
    writeln!(to, "{}", report.subject)?;
    for section in &report.sections {
        writeln!(to)?;
        writeln!(to, "{}", painted(&section.title, "1", paint))?;
        for Finding { name, state, found, needed, cure, lost } in &section.findings {
            // Padding goes by the bare word: colours have no width.
            let padding = " ".repeat(STATE_WIDTH - state.name().len());
            let state = painted(state.name(), colour(*state), paint);
            let line = format!("  {state}{padding}  {name:name_width$}  {found:found_width$}  {needed}");
            writeln!(to, "{}", line.trim_end())?;
            let indent = " ".repeat(STATE_WIDTH + 4);
            if let Some(lost) = lost {
                writeln!(to, "{indent}lost: {lost}")?;
            }
            if let Some(cure) = cure {
                match cures.get(&**cure) {
                    Some(first) => writeln!(to, "{indent}cure: as for {first}")?,
                    None => writeln!(to, "{indent}cure: {cure}")?,
                }
                cures.entry(cure).or_insert(name);
            }
        }
    }
    writeln!(to)?;
    let (missing, degraded) = (report.count(State::Missing), report.count(State::Degraded));
    if report.can_record() {
        writeln!(to, "{}: {missing} missing, {degraded} degraded", painted("recording works", "32", paint))
    } else {
        writeln!(to, "{}: {missing} missing, {degraded} degraded", painted("recording cannot work", "31", paint))
    }
}

fn colour(state: State) -> &'static str {
    match state {
        State::Ok => "32",
        State::Missing => "31",
        State::Degraded => "33",
    }
}

fn painted(text: &str, colour: &str, paint: Paint) -> String {
    match paint {
        Paint::Coloured => format!("\x1b[{colour}m{text}\x1b[0m"),
        Paint::Plain => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Section;

    fn report() -> Report {
        Report {
            subject: "Linux 5.10.0 x86_64, uid 1000".to_owned(),
            sections: vec![
                Section {
                    title: "permissions".into(),
                    findings: vec![
                        Finding::ok("PID namespace", "the initial one", "the initial one"),
                        Finding::ok("CAP_BPF", "not held", "to load the eBPF program")
                            .but(State::Missing, "everything")
                            .cure("run as root, or `sudo setcap cap_bpf+ep /usr/bin/profil`"),
                    ],
                },
                Section {
                    title: "eBPF".into(),
                    findings: vec![
                        Finding::ok("bpf_find_vma", "not in this kernel", "5.17")
                            .but(State::Degraded, "names of short-lived processes")
                            .cure("run as root, or `sudo setcap cap_bpf+ep /usr/bin/profil`"),
                        Finding::ok("tracefs", "absent", "not needed"),
                        Finding::ok("kernel BTF", "a finding too long to line up the others with it", "5.2"),
                    ],
                },
            ],
        }
    }

    fn text(report: &Report, paint: Paint) -> String {
        let mut text = Vec::new();
        write_report(report, paint, &mut text).expect("a vector takes everything");
        String::from_utf8(text).expect("the report is text")
    }

    #[test]
    fn findings_are_lined_up_and_cures_stand_below() {
        insta::assert_snapshot!(text(&report(), Paint::Plain), @r#"
Linux 5.10.0 x86_64, uid 1000

permissions
  ok        PID namespace  the initial one     the initial one
  missing   CAP_BPF        not held            to load the eBPF program
            lost: everything
            cure: run as root, or `sudo setcap cap_bpf+ep /usr/bin/profil`

eBPF
  degraded  bpf_find_vma   not in this kernel  5.17
            lost: names of short-lived processes
            cure: as for CAP_BPF
  ok        tracefs        absent              not needed
  ok        kernel BTF     a finding too long to line up the others with it  5.2

recording cannot work: 1 missing, 1 degraded
"#);
    }

    #[test]
    fn colours_do_not_shift_the_columns() {
        let coloured = text(&report(), Paint::Coloured);
        assert!(coloured.contains("\x1b[31mmissing\x1b[0m "));
        let mut bare = coloured;
        for code in ["\x1b[0m", "\x1b[1m", "\x1b[31m", "\x1b[32m", "\x1b[33m"] {
            bare = bare.replace(code, "");
        }
        assert_eq!(bare, text(&report(), Paint::Plain));
    }

    #[test]
    fn what_is_degraded_does_not_keep_from_recording() {
        let mut report = report();
        assert!(!report.can_record());
        for finding in &mut report.sections[0].findings {
            finding.state = State::Degraded;
        }
        assert!(report.can_record());
        assert!(text(&report, Paint::Plain).ends_with("recording works: 0 missing, 3 degraded\n"));
    }

    #[test]
    fn json_has_the_same_findings() {
        let json = serde_json::to_value(report()).expect("a report is plain data");
        assert_eq!(json["sections"][0]["findings"][1]["state"], "missing");
        assert_eq!(json["sections"][1]["findings"][0]["lost"], "names of short-lived processes");
        assert!(json["sections"][1]["findings"][1].get("cure").is_none());
    }
}
