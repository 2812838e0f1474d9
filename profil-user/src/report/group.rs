use std::borrow::Cow;

use crate::profile::{Frame, Mapping, MappingKind, Profile, Row};

/// Function and object of a pc in no known mapping.
const UNKNOWN: &str = "[unknown]";

/// What rows are grouped by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, clap::ValueEnum)]
pub enum By {
    /// Function; of inlined ones the innermost, which is where the tick was.
    Function,
    /// Executable, library or kernel.
    Object,
    /// Build ID of the object.
    BuildId,
    /// Process.
    Process,
    /// Service: systemd unit, container or pod; the command where a process is in none.
    Service,
    /// Thread; the process where threads were not told apart.
    Thread,
    /// Address in the object.
    Address,
    /// Source line.
    Line,
}

/// The indexes that rows of a group have in common, before names are looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Index {
    location: Option<usize>,
    process: Option<usize>,
    tid: Option<u32>,
}

/// What the rows of a group have in common; `None` where the grouping does not tell, or the profile does not know.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Group {
    /// Function, or `object+0xOFFSET` with the file offset where no symbol is known.
    pub function: Option<String>,
    /// Path of the object, with ` [stale]` when its file is another build by now.
    pub object: Option<String>,
    /// Build ID of the object, hexadecimal.
    pub build_id: Option<String>,
    /// The code is the kernel's.
    pub in_kernel: bool,
    /// Command name.
    pub process: Option<String>,
    /// Service, or the command name of a process that is in none.
    pub service: Option<String>,
    /// Process ID.
    pub pid: Option<u32>,
    /// Image of the PID, from 1.
    pub generation: Option<u32>,
    /// Thread ID.
    pub tid: Option<u32>,
    /// Address: SVMA where a file stands behind it, else AVMA.
    pub address: Option<u64>,
    /// Source file.
    pub file: Option<String>,
    /// Source line, from 1.
    pub line: Option<u32>,
}

impl By {
    /// The indexes by which a row is grouped.
    pub(crate) fn index(self, row: &Row) -> Index {
        match self {
            By::Process | By::Service => Index { location: None, process: row.process, tid: None },
            By::Thread => Index { location: None, process: row.process, tid: row.tid },
            By::Function | By::Object | By::BuildId | By::Address | By::Line => {
                Index { location: Some(row.location), process: None, tid: None }
            }
        }
    }

    /// The group of the indexes.
    pub(crate) fn group(self, profile: &Profile, index: Index) -> Group {
        let Index { location, process, tid } = index;
        let process = process.map(|process| &profile.processes[process]);
        match self {
            By::Function | By::Object | By::BuildId | By::Address | By::Line => {
                location.map(|location| self.place(profile, location)).unwrap_or_default()
            }
            By::Service => {
                let service = process.map(|process| process.service.as_ref().unwrap_or(&process.comm).clone());
                Group { service, ..Group::default() }
            }
            By::Process | By::Thread => Group {
                process: process.map(|process| process.comm.clone()),
                pid: process.map(|process| process.pid).filter(|pid| *pid != 0),
                generation: process.map(|process| process.generation),
                tid,
                ..Group::default()
            },
        }
    }

    fn place(self, profile: &Profile, location: usize) -> Group {
        let location = &profile.locations[location];
        let mut mapping = location.mapping.map(|mapping| &profile.mappings[mapping]);
        if let (By::BuildId, Some(build_id)) = (self, mapping.and_then(|mapping| mapping.build_id.as_ref())) {
            // One build is one row, at however many paths it was: the first of them is shown.
            mapping = profile.mappings.iter().find(|mapping| mapping.build_id.as_ref() == Some(build_id));
        }
        let mut group = Group {
            object: Some(object(mapping)),
            build_id: mapping.and_then(|mapping| mapping.build_id.as_ref()).map(ToString::to_string),
            in_kernel: mapping.is_some_and(|mapping| mapping.kind == MappingKind::Kernel),
            ..Group::default()
        };
        if matches!(self, By::Object | By::BuildId) {
            return group;
        }
        let frame = location.frames.first();
        group.function = Some(function(frame, mapping, location.address));
        match self {
            By::Address => group.address = Some(location.address).filter(|address| *address != 0),
            By::Line => {
                group.file = frame.and_then(|frame| frame.file.clone());
                group.line = frame.map(|frame| frame.line).filter(|line| *line > 0);
            }
            _ => {}
        }
        group
    }
}

impl Group {
    /// The text that a filter sees: what the grouping is by.
    pub fn name(&self, by: By) -> Cow<'_, str> {
        let text = match by {
            By::Function | By::Address => &self.function,
            By::Object => &self.object,
            By::BuildId => &self.build_id,
            By::Process | By::Thread => &self.process,
            By::Service => &self.service,
            By::Line => return Cow::Owned(self.source_line()),
        };
        Cow::Borrowed(text.as_deref().unwrap_or(UNKNOWN))
    }

    /// `FILE:LINE`, or the function where debug information has no file.
    pub fn source_line(&self) -> String {
        match (&self.file, self.line) {
            (Some(file), Some(line)) => format!("{file}:{line}"),
            (Some(file), None) => file.clone(),
            _ => self.function.clone().unwrap_or_default(),
        }
    }
}

/// Path of an object, with ` [stale]` when its file is another build by now.
pub(crate) fn object(mapping: Option<&Mapping>) -> String {
    match mapping {
        None => UNKNOWN.to_owned(),
        Some(mapping) if mapping.stale => format!("{} [stale]", mapping.object),
        Some(mapping) => mapping.object.clone(),
    }
}

/// Name of the function, or what stands for it where no symbol is known.
pub(crate) fn function(frame: Option<&Frame>, mapping: Option<&Mapping>, address: u64) -> String {
    match (frame, mapping) {
        (Some(frame), _) => frame.function.clone(),
        (None, None) => UNKNOWN.to_owned(),
        // A JIT's code moves and has no file: its addresses say nothing, and one row for each would hide the sum.
        (None, Some(mapping)) if mapping.kind == MappingKind::Anonymous => mapping.object.clone(),
        (None, Some(mapping)) => {
            let offset = address.wrapping_sub(mapping.start).wrapping_add(mapping.file_offset);
            format!("{}+{offset:#x}", base_name(&mapping.object))
        }
    }
}

/// Last part of a path.
pub(crate) fn base_name(path: &str) -> &str {
    path.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or(path)
}
