//! One function at close range, as `profil annotate` shows it.

use std::time::{Duration, Instant};

use crate::annotate::view::{self, Extent, Line};
use crate::annotate::{Annotation, ObjectFinder, Query, Sources, Wanted};
use crate::process::cpu_time;
use crate::profile::Profile;
use crate::report::Group;
use crate::symbols::debug_files::DebugFiles;

/// Instructions that are shown around each with ticks.
const CONTEXT: usize = 10;

/// How long a picture of a function stands at least.
const SHORTEST: Duration = Duration::from_secs(1);

/// How often the CPU time that a picture took has to pass before the next is taken.
const THRIFT: u32 = 200;

/// What is seen.
#[derive(Clone, Debug, PartialEq)]
pub enum Picture {
    /// Its code, line by line.
    Code(Vec<Line>),
    /// Why its code cannot be shown.
    NoCode(Vec<String>),
}

/// The function that is looked at, and its last picture.
pub struct Zoom {
    finder: ObjectFinder,
    last: Option<(Group, Picture)>,
    due: Instant,
}

impl Zoom {
    /// Looks at nothing yet. Debug files are looked for as for names.
    pub fn new(debug_files: DebugFiles) -> Zoom {
        Zoom { finder: ObjectFinder { debug_files }, last: None, due: Instant::now() }
    }

    /// Takes a picture of a function, unless the last one is good enough: it is taken anew at times only, because the
    /// code is taken apart for it.
    pub fn look(&mut self, profile: &Profile, function: &Group) {
        let is_same = self.last.as_ref().is_some_and(|(group, _)| group == function);
        if is_same && Instant::now() < self.due {
            return;
        }
        let cpu_time = || cpu_time::of_process(std::process::id()).unwrap_or_default();
        let before = cpu_time();
        let picture = self.take(profile, function);
        self.last = Some((function.clone(), picture));
        self.due = Instant::now() + SHORTEST.max(cpu_time().saturating_sub(before) * THRIFT);
    }

    /// The last picture of a function.
    pub fn picture(&self, function: &Group) -> Option<&Picture> {
        self.last.as_ref().filter(|(group, _)| group == function).map(|(_, picture)| picture)
    }

    fn take(&mut self, profile: &Profile, function: &Group) -> Picture {
        let path = function.object.as_deref().map(|path| path.strip_suffix(" [stale]").unwrap_or(path).to_owned());
        let name = function.function.clone().unwrap_or_default();
        let wanted = Wanted { query: Query::Name(name), object: path };
        match Annotation::of(profile, &wanted, &mut self.finder, Sources::below(&[])) {
            Ok(annotation) => Picture::Code(view::lines(&annotation, Extent { context: Some(CONTEXT) })),
            Err(error) => Picture::NoCode(error.to_string().lines().map(str::to_owned).collect()),
        }
    }
}
