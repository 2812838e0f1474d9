//! Which row of one run is which row of the other.

use std::collections::HashSet;

use crate::report::{By, Group, base_name};

/// What a row of one run must have in common with a row of the other.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// The object or process.
    pub owner: Owner,
    part: Part,
}

/// An object or a process, by what both runs know it by.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Owner {
    /// A build that both runs have, wherever its file is.
    Build(String),
    /// A path that has different builds, or builds that are not known.
    Path(String),
    /// A file name, where the paths differ too.
    Name(String),
    /// A process, or one of its threads, that went on through both runs.
    Same(Task),
    /// A command name, of processes that did not.
    Command(Option<String>),
    /// A service.
    Service(Option<String>),
}

/// Part of an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Part {
    All,
    Function(Option<String>),
    Address(u64),
    Line { file: Option<String>, line: Option<u32>, function: Option<String> },
}

/// A process or thread, with its name: numbers are used again.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Task {
    process: Option<String>,
    pid: Option<u32>,
    generation: Option<u32>,
    tid: Option<u32>,
}

/// What the groups of two runs have in common.
#[derive(Debug)]
pub struct Matching {
    by: By,
    builds: HashSet<String>,
    paths: HashSet<String>,
    tasks: HashSet<Task>,
}

impl Matching {
    /// Finds what the groups of two runs have in common; `builds` are the builds that both have, hexadecimal.
    pub fn new<'a>(
        by: By,
        builds: HashSet<String>,
        before: impl Iterator<Item = &'a Group>,
        after: impl Iterator<Item = &'a Group>,
    ) -> Matching {
        let mut matching = Matching { by, builds, paths: HashSet::new(), tasks: HashSet::new() };
        let (before_paths, before_tasks) = matching.owners(before);
        let (after_paths, after_tasks) = matching.owners(after);
        matching.paths = before_paths.intersection(&after_paths).cloned().collect();
        matching.tasks = before_tasks.intersection(&after_tasks).cloned().collect();
        matching
    }

    fn owners<'a>(&self, groups: impl Iterator<Item = &'a Group>) -> (HashSet<String>, HashSet<Task>) {
        let (mut paths, mut tasks) = (HashSet::new(), HashSet::new());
        for group in groups {
            if matches!(self.by, By::Process | By::Thread) {
                tasks.insert(task(group));
            } else if self.shared_build(group).is_none() {
                paths.insert(path(group).to_owned());
            }
        }
        (paths, tasks)
    }

    /// The key of a group.
    pub fn key(&self, group: &Group) -> Key {
        let owner = self.owner(group);
        let part = match self.by {
            By::Object | By::BuildId | By::Process | By::Thread | By::Service => Part::All,
            // Lines and offsets before a change of the source are not those after it, but a person who asks for lines
            // has most of them in mind as the same.
            By::Line => Part::Line {
                file: group.file.as_deref().map(|file| base_name(file).to_owned()),
                line: group.line,
                function: function(group),
            },
            By::Address => match (&owner, group.address) {
                (Owner::Build(_), Some(address)) => Part::Address(address),
                _ => Part::Function(function(group)),
            },
            By::Function => Part::Function(function(group)),
        };
        Key { owner, part }
    }

    fn owner(&self, group: &Group) -> Owner {
        if matches!(self.by, By::Process | By::Thread) {
            let task = task(group);
            return if self.tasks.contains(&task) { Owner::Same(task) } else { Owner::Command(task.process) };
        }
        if self.by == By::Service {
            return Owner::Service(group.service.clone());
        }
        if let Some(build) = self.shared_build(group) {
            return Owner::Build(build.to_owned());
        }
        if let (By::BuildId, Some(build)) = (self.by, &group.build_id) {
            return Owner::Build(build.clone());
        }
        let path = path(group);
        match self.paths.contains(path) {
            true => Owner::Path(path.to_owned()),
            false => Owner::Name(base_name(path).to_owned()),
        }
    }

    fn shared_build<'a>(&self, group: &'a Group) -> Option<&'a str> {
        group.build_id.as_deref().filter(|build| self.builds.contains(*build))
    }
}

impl Key {
    /// Whether rows of this key have one address in both runs.
    pub fn has_address(&self) -> bool {
        matches!(self.part, Part::Address(_))
    }
}

/// The path, whatever build is there by now.
fn path(group: &Group) -> &str {
    let object = group.object.as_deref().unwrap_or_default();
    object.strip_suffix(" [stale]").unwrap_or(object)
}

/// The function; without a name, its offset alone: the file may have another name in the other run.
fn function(group: &Group) -> Option<String> {
    let function = group.function.as_deref()?;
    let offset = function.strip_prefix(base_name(path(group))).filter(|rest| rest.starts_with("+0x"));
    Some(offset.unwrap_or(function).to_owned())
}

fn task(group: &Group) -> Task {
    Task { process: group.process.clone(), pid: group.pid, generation: group.generation, tid: group.tid }
}
