//! What this machine and user can do: one finding for each thing that profil needs, with its cure.

mod caps;
mod ebpf;
mod events;
mod layout;
mod settings;
mod target;

use std::borrow::Cow;

use serde::Serialize;

pub use layout::{Paint, write_report};

use crate::probe::Support;

/// How a requirement stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It is met.
    Ok,
    /// It is not met, and nothing can be recorded without it.
    Missing,
    /// It is not met, and something is lost without it.
    Degraded,
}

impl State {
    /// As a word.
    pub fn name(self) -> &'static str {
        match self {
            State::Ok => "ok",
            State::Missing => "missing",
            State::Degraded => "degraded",
        }
    }
}

/// One requirement, and how it stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What is required.
    pub name: Cow<'static, str>,
    /// How it stands.
    pub state: State,
    /// What was found.
    pub found: Cow<'static, str>,
    /// What is needed.
    pub needed: Cow<'static, str>,
    /// What to run or set; `None` where all is well or nothing helps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cure: Option<Cow<'static, str>>,
    /// What cannot be done meanwhile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost: Option<Cow<'static, str>>,
}

impl Finding {
    /// A requirement that is met.
    pub fn ok(
        name: impl Into<Cow<'static, str>>,
        found: impl Into<Cow<'static, str>>,
        needed: impl Into<Cow<'static, str>>,
    ) -> Finding {
        Finding {
            name: name.into(),
            state: State::Ok,
            found: found.into(),
            needed: needed.into(),
            cure: None,
            lost: None,
        }
    }

    /// The same requirement, not met.
    pub fn but(self, state: State, lost: impl Into<Cow<'static, str>>) -> Finding {
        Finding { state, lost: Some(lost.into()), ..self }
    }

    /// The same finding, with what to run or set.
    pub fn cure(self, cure: impl Into<Cow<'static, str>>) -> Finding {
        Finding { cure: Some(cure.into()), ..self }
    }

    /// A finding on a feature that was tried: `state` and `lost` are for when it does not work.
    fn tried(trial: Trial, support: &Support, refusal_cure: &str) -> Finding {
        let Trial { name, needed, state, lost } = trial;
        match support {
            Support::Works => Finding::ok(name, "works", needed),
            Support::Absent => Finding::ok(name, "not in this kernel", needed)
                .but(state, lost)
                .cure(format!("a kernel that has it: {needed}")),
            Support::Refused(error) => {
                let found = match error.raw_os_error() {
                    Some(libc::EACCES) => "refused (EACCES)",
                    _ => "refused (EPERM)",
                };
                Finding::ok(name, found, needed).but(state, lost).cure(refusal_cure.to_owned())
            }
        }
    }
}

/// A feature that is tried.
#[derive(Clone, Copy, Debug)]
struct Trial {
    name: &'static str,
    needed: &'static str,
    state: State,
    lost: &'static str,
}

/// What the system said, without the number of the error.
fn reason(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" (os error ").map_or(text.clone(), |(reason, _)| reason.to_owned())
}

/// Findings that belong together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Section {
    /// What they are about.
    pub title: Cow<'static, str>,
    /// The findings, in reading order.
    pub findings: Vec<Finding>,
}

/// All findings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The machine or process that they are about.
    pub subject: String,
    /// The findings by topic.
    pub sections: Vec<Section>,
}

impl Report {
    /// Whether nothing is missing: what is degraded does not keep profil from recording.
    pub fn can_record(&self) -> bool {
        self.count(State::Missing) == 0
    }

    /// Number of findings in a state.
    pub fn count(&self, state: State) -> usize {
        self.sections.iter().flat_map(|section| &section.findings).filter(|finding| finding.state == state).count()
    }
}

/// Examines the machine and this user's rights. Programs, maps and events are made, and dropped at once.
pub fn examine_machine() -> Report {
    let privileges = crate::privileges::Privileges::of_this_process();
    let system = rustix::system::uname();
    let subject = format!(
        "Linux {} {}, uid {}",
        system.release().to_string_lossy(),
        system.machine().to_string_lossy(),
        rustix::process::geteuid().as_raw()
    );
    let section = |title: &'static str, findings| Section { title: title.into(), findings };
    let sections = vec![
        section("permissions", caps::examine(&privileges)),
        section("eBPF", ebpf::examine(&privileges)),
        section("perf events", events::examine(&privileges)),
        section("settings", settings::examine(&privileges)),
    ];
    Report { subject, sections }
}

/// Examines a process: what about it a profile will show, lack, or fail at.
pub fn examine_process(pid: u32) -> Report {
    let mut report = target::examine(pid);
    report.sections.retain(|section| !section.findings.is_empty());
    report
}
