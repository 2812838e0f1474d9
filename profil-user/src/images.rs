//! Program images and their code: from (image, pc) to a place in an object.
//!
//! The ticks name images; the side band names processes. Time joins the two: an image is what a process had in its
//! address space from the last exec or fork before the image was born.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::path::Path;
use std::sync::Arc;

use profil_common::{Event, EventKind};

use crate::maps::{self, Backing};
use crate::objects::{ObjectId, Objects, Sighting};
use crate::process::ProcDir;
use crate::service_labels::ServiceLabels;
use crate::sideband::{Mapped, Record, RecordKind};
use crate::symbols::target_files::Inode;

/// Where a pc lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// The object.
    pub object: ObjectId,
    /// Byte of the object that the pc stands at; the pc itself (AVMA) where no file stands behind the object.
    pub file_offset: u64,
}

/// A program image: a process between two execs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// The process, in our PID namespace.
    pub pid: u32,
    /// When it was born, `CLOCK_MONOTONIC`, ns; 0 for one that was there before the session.
    pub born_ns: u64,
    /// Command name.
    pub comm: String,
    /// Service, where its control group is one.
    pub service: Option<Arc<str>>,
}

/// Whose mappings are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tracking {
    /// Every process's.
    All,
    /// Those of processes that were added, and of their descendants.
    Descendants,
}

/// How long an exec may take from the new address space to the new program's first instruction, ns.
const EXEC_NS: u64 = 10_000_000;

/// Executable mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Code {
    end: u64,
    file_offset: u64,
    object: ObjectId,
}

/// Code of a process from one exec or fork to the next, by first address.
#[derive(Clone, Debug, Default)]
struct Space {
    born_ns: u64,
    /// Shared with the parent until either maps something.
    code: Arc<BTreeMap<u64, Code>>,
}

/// All images of a session and the code they had.
#[derive(Debug)]
pub struct Images {
    tracking: Tracking,
    spaces: HashMap<u32, Vec<Space>>,
    images: HashMap<u64, Image>,
    objects: Objects,
    services: ServiceLabels,
    /// Processes that have probably ended since the last [`Images::prune`].
    ended: Vec<u32>,
}

impl Images {
    /// No images yet.
    pub fn new(tracking: Tracking, objects: Objects) -> Images {
        Images {
            tracking,
            spaces: HashMap::new(),
            images: HashMap::new(),
            objects,
            services: ServiceLabels::default(),
            ended: Vec::new(),
        }
    }

    /// Adds a running process by its maps in /proc. One that has just exited adds nothing.
    pub fn add_running(&mut self, pid: u32) {
        if let Some(code) = self.code_of(pid) {
            self.spaces.entry(pid).or_default().push(Space { born_ns: 0, code: Arc::new(code) });
        }
    }

    /// The code of a running process, by its maps in /proc.
    fn code_of(&mut self, pid: u32) -> Option<BTreeMap<u64, Code>> {
        let text = fs::read(format!("/proc/{pid}/maps")).ok()?;
        let entries = maps::parse(&text).ok()?;
        let executable = entries.iter().filter(|entry| entry.executable);
        let code: BTreeMap<u64, Code> = executable
            .map(|entry| {
                let (major, minor) = entry.device;
                let sighting = Sighting {
                    pid,
                    start: entry.start,
                    end: entry.end,
                    path: entry.path.as_encoded_bytes(),
                    build_id: None,
                    inode: (entry.inode != 0).then_some(Inode { major, minor, number: entry.inode }),
                };
                let object = self.objects.intern(&sighting);
                (entry.start, Code { end: entry.end, file_offset: entry.offset, object })
            })
            .collect();
        // The maps of a zombie are empty.
        (!code.is_empty()).then_some(code)
    }

    /// Reads the maps of all kept processes again: for when news of mappings was lost.
    pub fn read_again(&mut self) {
        let pids: Vec<u32> = self.spaces.keys().copied().collect();
        for pid in pids {
            let Some(code) = self.code_of(pid) else {
                continue;
            };
            if let Some(space) = self.spaces.get_mut(&pid).and_then(|spaces| spaces.last_mut()) {
                space.code = Arc::new(code);
            }
        }
    }

    /// Adds an image that was made known by the loader itself.
    pub fn add_image(&mut self, image: u64, pid: u32, comm: String) {
        let service = self.services.read(pid).unwrap_or_default();
        self.images.insert(image, Image { pid, born_ns: 0, comm, service });
    }

    /// Takes in what the hooks saw.
    pub fn note(&mut self, event: &Event) {
        let Some(EventKind::Fork | EventKind::Exec | EventKind::Seen) = event.kind() else {
            return;
        };
        let Event { time_ns, image, other_image, pid, comm, .. } = event;
        let length = comm.iter().position(|byte| *byte == 0).unwrap_or(comm.len());
        let comm = match event.kind() {
            Some(EventKind::Seen) => name_of_threads(*pid),
            _ => None,
        }
        .unwrap_or_else(|| String::from_utf8_lossy(&comm[..length]).into_owned());
        let before = self.images.get(other_image).and_then(|image| image.service.clone());
        let service = match event.kind() {
            // A child begins in the control group of its parent.
            Some(EventKind::Fork) => before,
            _ => self.services.read_within_budget(*pid, *time_ns).unwrap_or(before),
        };
        self.images.insert(*image, Image { pid: *pid, born_ns: *time_ns, comm, service });
        if event.kind() == Some(EventKind::Seen) && !self.spaces.contains_key(pid) {
            self.add_running(*pid);
        }
    }

    /// Whether a change would put other code where ticks may have been counted: drain before it is applied.
    pub fn replaces_code(&self, record: &Record) -> bool {
        let mapped = match &record.kind {
            RecordKind::Mapped(mapped) => mapped,
            // The PID is used again by a stranger, and the code of the process that had it is forgotten.
            RecordKind::Forked { parent } => return self.spaces.contains_key(&record.pid) && !self.is_tracked(*parent),
            RecordKind::Exec { .. } | RecordKind::Exited | RecordKind::Lost { .. } => return false,
        };
        let Some(space) = self.spaces.get(&record.pid).and_then(|spaces| spaces.last()) else {
            return false;
        };
        overlapping(&space.code, mapped.start, mapped.end)
            .iter()
            .any(|start| self.objects.get(space.code[start].object).path.as_os_str().as_encoded_bytes() != mapped.path)
    }

    /// Takes in a change of an address space.
    pub fn apply(&mut self, record: &Record) {
        let Record { time_ns, pid, kind } = record;
        match kind {
            RecordKind::Forked { parent } => self.apply_fork(*time_ns, *pid, *parent),
            RecordKind::Exec { .. } => {
                if self.is_tracked(*pid) {
                    let space = Space { born_ns: *time_ns, ..Space::default() };
                    self.spaces.entry(*pid).or_default().push(space);
                }
            }
            RecordKind::Mapped(mapped) => self.apply_mapping(*pid, mapped),
            RecordKind::Exited => {
                if self.is_tracked(*pid) {
                    self.ended.push(*pid);
                }
            }
            RecordKind::Lost { .. } => {}
        }
    }

    /// Whether the mappings of a process are kept.
    pub fn is_tracked(&self, pid: u32) -> bool {
        self.tracking == Tracking::All || self.spaces.contains_key(&pid)
    }

    fn apply_fork(&mut self, time_ns: u64, pid: u32, parent: u32) {
        if !self.is_tracked(parent) {
            // The PID may have belonged to a tracked process before.
            self.spaces.remove(&pid);
            return;
        }
        if !self.spaces.contains_key(&parent) {
            self.add_running(parent);
        }
        let mut space = self.spaces.get(&parent).and_then(|spaces| spaces.last()).cloned().unwrap_or_default();
        space.born_ns = time_ns;
        self.spaces.entry(pid).or_default().push(space);
    }

    fn apply_mapping(&mut self, pid: u32, mapped: &Mapped) {
        if !self.is_tracked(pid) {
            return;
        }
        if !self.spaces.contains_key(&pid) {
            // Its other mappings were there before the session.
            self.add_running(pid);
        }
        let Mapped { start, end, file_offset, build_id, inode, path } = mapped;
        let build_id = build_id.as_ref();
        let sighting = Sighting { pid, start: *start, end: *end, path, build_id, inode: *inode };
        let object = self.objects.intern(&sighting);
        let spaces = self.spaces.entry(pid).or_default();
        if spaces.is_empty() {
            spaces.push(Space::default());
        }
        if let Some(space) = spaces.last_mut() {
            let code = Arc::make_mut(&mut space.code);
            cut(code, *start, *end);
            code.insert(*start, Code { end: *end, file_offset: *file_offset, object });
        }
    }

    /// The place of a pc of an image; `None` while no mapping covers it or the image is not known.
    pub fn place(&self, image: u64, pc: u64) -> Option<Place> {
        let Image { pid, born_ns, .. } = self.images.get(&image)?;
        let spaces = self.spaces.get(pid)?;
        // An image that was there before the session has the first space, not one that an exec made since.
        let index = spaces.iter().rposition(|space| space.born_ns <= *born_ns).unwrap_or(0);
        let space = spaces.get(index)?;
        self.place_in(space, pc).or_else(|| {
            // An image that is first seen while its process execs returns, for an instant more, to the old program.
            let execs = born_ns.saturating_sub(space.born_ns) < EXEC_NS;
            let before = index.checked_sub(1).filter(|_| execs).and_then(|index| spaces.get(index))?;
            self.place_in(before, pc)
        })
    }

    fn place_in(&self, space: &Space, pc: u64) -> Option<Place> {
        let (start, code) = space.code.range(..=pc).next_back()?;
        if pc >= code.end {
            return None;
        }
        let file_offset = match self.objects.get(code.object).backing {
            Backing::File | Backing::Vdso => pc - start + code.file_offset,
            _ => pc,
        };
        Some(Place { object: code.object, file_offset })
    }

    /// Processes that have ended and whose code is still kept.
    pub fn ended(&self) -> usize {
        self.ended.len()
    }

    /// Forgets the code of processes that have ended, and the images without ticks. All rows must be resolved: what
    /// comes later finds no place.
    pub fn prune(&mut self, has_ticks: impl Fn(u64) -> bool) {
        // A main thread may end before the others, a zombie waits for its parent, and a PID may be used again: all
        // three are still there.
        let is_there = |pid: &u32| Path::new(&format!("/proc/{pid}")).exists();
        let (there, gone): (Vec<u32>, Vec<u32>) = std::mem::take(&mut self.ended).into_iter().partition(is_there);
        self.ended = there;
        let gone: HashSet<u32> = gone.into_iter().collect();
        self.spaces.retain(|pid, _| !gone.contains(pid));
        self.images.retain(|image, Image { pid, .. }| !gone.contains(pid) || has_ticks(*image));
    }

    /// Whether the image runs code that no file stands behind, as a JIT's does.
    pub fn has_anonymous_code(&self, image: u64) -> bool {
        let spaces = self.images.get(&image).and_then(|image| self.spaces.get(&image.pid));
        spaces.and_then(|spaces| spaces.last()).is_some_and(|space| {
            space.code.values().any(|code| self.objects.get(code.object).backing == Backing::Anonymous)
        })
    }

    /// An image by its identity.
    pub fn get(&self, image: u64) -> Option<&Image> {
        self.images.get(&image)
    }

    /// All objects.
    pub fn objects(&self) -> &Objects {
        &self.objects
    }

    /// All objects, to ask them for names.
    pub fn objects_mut(&mut self) -> &mut Objects {
        &mut self.objects
    }
}

/// Name of a process that has several threads. What the hook saw is that of the thread which ticked, which has a name of
/// its own in many programs; a single thread's is the process's, and cannot be that of a program exec'd since.
fn name_of_threads(pid: u32) -> Option<String> {
    let directory = ProcDir::open(pid).ok()?;
    let several = directory.threads().ok()?.len() > 1;
    several.then(|| directory.stat().ok()).flatten().map(|stat| stat.comm)
}

/// First addresses of the mappings that overlap a range.
fn overlapping(code: &BTreeMap<u64, Code>, start: u64, end: u64) -> Vec<u64> {
    let before = code.range(..start).next_back().filter(|(_, code)| code.end > start).map(|(first, _)| *first);
    before.into_iter().chain(code.range(start..end).map(|(first, _)| *first)).collect()
}

/// Removes a range from the mappings, and keeps what sticks out of it on either side.
fn cut(code: &mut BTreeMap<u64, Code>, start: u64, end: u64) {
    for first in overlapping(code, start, end) {
        let Some(old) = code.remove(&first) else {
            continue;
        };
        if first < start {
            code.insert(first, Code { end: start, ..old });
        }
        if old.end > end {
            code.insert(end, Code { file_offset: old.file_offset + (end - first), ..old });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::symbols::Symbols;
    use crate::symbols::debug_files::DebugFiles;

    fn images(tracking: Tracking) -> Images {
        Images::new(tracking, Objects::new(Symbols::new(DebugFiles::default(), "/".into())))
    }

    fn mapped(pid: u32, time_ns: u64, start: u64, end: u64, path: &str) -> Record {
        let path = path.as_bytes().to_vec();
        let mapped = Mapped { start, end, file_offset: 0x100, build_id: None, inode: None, path };
        Record { time_ns, pid, kind: RecordKind::Mapped(mapped) }
    }

    fn event(kind: EventKind, pid: u32, image: u64, time_ns: u64) -> Event {
        let comm = *b"a\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
        Event { time_ns, image, other_image: 0, cpu_ns: 0, kind: kind as u32, tgid: pid, flags: 0, pid, comm }
    }

    fn path_at(images: &Images, image: u64, pc: u64) -> Option<String> {
        let place = images.place(image, pc)?;
        Some(images.objects().get(place.object).path.display().to_string())
    }

    /// A process number that no process has: above the kernel's largest.
    const NOBODY: u32 = 1 << 30;

    #[test]
    fn a_process_that_is_first_seen_in_one_of_its_threads_has_its_own_name() {
        let mut images = images(Tracking::All);
        let (end, wait) = std::sync::mpsc::channel::<()>();
        let other = std::thread::spawn(move || wait.recv());
        let own = std::process::id();
        images.note(&event(EventKind::Seen, own, 7, 10));
        let main = fs::read_to_string(format!("/proc/{own}/comm")).expect("our own name");
        assert_eq!(images.get(7).map(|image| image.comm.as_str()), Some(main.trim_end()));
        drop(end);
        assert!(other.join().is_ok());
        // One that is gone has the name that the hook saw.
        images.note(&event(EventKind::Seen, NOBODY, 8, 10));
        assert_eq!(images.get(8).map(|image| image.comm.as_str()), Some("a"));
    }

    #[test]
    fn a_later_mapping_replaces_what_it_overlaps() {
        let mut images = images(Tracking::All);
        images.note(&event(EventKind::Exec, NOBODY, 7, 10));
        images.apply(&Record { time_ns: 5, pid: NOBODY, kind: RecordKind::Exec { comm: vec![] } });
        images.apply(&mapped(NOBODY, 6, 0x1000, 0x9000, "/no/a"));
        let second = mapped(NOBODY, 7, 0x3000, 0x5000, "/no/b");
        assert!(images.replaces_code(&second));
        images.apply(&second);
        assert_eq!(path_at(&images, 7, 0x2fff).as_deref(), Some("/no/a"));
        assert_eq!(path_at(&images, 7, 0x3000).as_deref(), Some("/no/b"));
        assert_eq!(path_at(&images, 7, 0x5000).as_deref(), Some("/no/a"));
        assert_eq!(images.place(7, 0x5001).map(|place| place.file_offset), Some(0x4101));
        assert_eq!(path_at(&images, 7, 0x9000), None);
    }

    #[test]
    fn each_image_has_the_code_of_its_own_time() {
        let mut images = images(Tracking::All);
        for (time_ns, image, path) in [(10, 1, "/no/old"), (20, 2, "/no/new")] {
            images.apply(&Record { time_ns, pid: NOBODY, kind: RecordKind::Exec { comm: vec![] } });
            images.apply(&mapped(NOBODY, time_ns + 1, 0x1000, 0x2000, path));
            images.note(&event(EventKind::Exec, NOBODY, image, time_ns + 2));
        }
        assert_eq!(path_at(&images, 1, 0x1500).as_deref(), Some("/no/old"));
        assert_eq!(path_at(&images, 2, 0x1500).as_deref(), Some("/no/new"));
        assert_eq!(path_at(&images, 3, 0x1500), None);
    }

    #[test]
    fn a_child_starts_with_the_code_of_its_parent() {
        let mut images = images(Tracking::All);
        images.apply(&Record { time_ns: 1, pid: NOBODY, kind: RecordKind::Exec { comm: vec![] } });
        images.apply(&mapped(NOBODY, 2, 0x1000, 0x2000, "/no/a"));
        images.apply(&Record { time_ns: 3, pid: NOBODY + 1, kind: RecordKind::Forked { parent: NOBODY } });
        images.note(&event(EventKind::Fork, NOBODY + 1, 9, 4));
        images.apply(&mapped(NOBODY, 5, 0x1000, 0x2000, "/no/b"));
        assert_eq!(path_at(&images, 9, 0x1000).as_deref(), Some("/no/a"));
    }

    #[test]
    fn the_code_of_ended_processes_is_forgotten_but_not_the_names_of_those_with_ticks() {
        let mut images = images(Tracking::All);
        for (pid, image) in [(NOBODY, 1), (NOBODY + 1, 2), (std::process::id(), 3)] {
            images.apply(&Record { time_ns: 1, pid, kind: RecordKind::Exec { comm: vec![] } });
            images.apply(&mapped(pid, 2, 0x1000, 0x2000, "/no/a"));
            images.note(&event(EventKind::Exec, pid, image, 3));
            images.apply(&Record { time_ns: 4, pid, kind: RecordKind::Exited });
        }
        images.prune(|image| image == 1);
        assert_eq!((images.place(1, 0x1000), images.get(1).is_some(), images.get(2).is_some()), (None, true, false));
        // Its main thread has ended, the process is still there.
        assert_eq!(path_at(&images, 3, 0x1000).as_deref(), Some("/no/a"));
        assert_eq!(images.ended(), 1);
    }

    #[test]
    fn strangers_are_not_kept_when_descendants_are_tracked() {
        let mut images = images(Tracking::Descendants);
        images.apply(&Record { time_ns: 1, pid: NOBODY, kind: RecordKind::Exec { comm: vec![] } });
        images.apply(&mapped(NOBODY, 2, 0x1000, 0x2000, "/no/a"));
        images.note(&event(EventKind::Seen, NOBODY, 1, 3));
        assert_eq!(path_at(&images, 1, 0x1000), None);
    }
}
