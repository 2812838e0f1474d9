//! How code gets its names: thoroughly at the end of a recording, or with little CPU time while targets are looked at.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::{Duration, Instant};

use super::assemble::Parts;
use super::jits::Jits;
use crate::images::Images;
use crate::process::cpu_time;
use crate::profile::Frame;
use crate::symbols::symbolizer::{Names, Unnamed};
use crate::symbols::{self, Symbols, demangle};

/// CPU time that goes into names at the start, when all of them are new, seconds.
const CREDIT_SECONDS: f64 = 0.25;

/// CPU time that goes into names afterwards, as a part of the time that passes: less than a core's hundredth, with all
/// else that is done.
const CREDIT_RATE: f64 = 0.004;

/// Debug information that takes too long to read while somebody waits for the view: about half a second.
const DEBUG_LIMIT_BYTES: u64 = 64 << 20;

/// Functions and nameless addresses that are kept for all files; those of the file that was not needed for longest are read
/// anew when they are.
const KEPT_LIMIT: usize = 1 << 20;

/// How long to wait before the map of a JIT is read again for code that it did not name.
const JIT_PAUSE: Duration = Duration::from_secs(1);

/// The longest that this becomes, as it doubles each time.
const JIT_PAUSE_MAX: Duration = Duration::from_secs(64);

/// Where names come from.
pub(super) enum Naming {
    /// From debug information, which tells inlined functions and lines.
    Thorough,
    /// From symbol tables at once, and from debug information when there is CPU time for it.
    Thrifty(Box<Thrift>),
}

/// What could name a location better, or at all, later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pending {
    /// The files of an object, for an address (SVMA) in it.
    File { file: symbols::ObjectId, svma: u64 },
    /// The map of the JIT of an image.
    Jit(u64),
}

impl Naming {
    /// Names addresses (SVMA) of a file.
    pub(super) fn name(&mut self, symbols: &mut Symbols, file: symbols::ObjectId, svmas: &[u64]) -> Names {
        match self {
            Naming::Thorough => symbols.name(file, svmas),
            Naming::Thrifty(thrift) => thrift.name(symbols, file, svmas),
        }
    }

    /// Takes note of a location that could be named better.
    pub(super) fn remember(&mut self, pending: Pending, location: usize) {
        if let Naming::Thrifty(thrift) = self {
            thrift.remember(pending, location);
        }
    }
}

/// Locations whose JIT did not name them yet.
struct Unread {
    locations: Vec<usize>,
    next: Instant,
    pause: Duration,
}

/// What the symbol tables of a file said so far: a function that ran once is seldom asked for again.
#[derive(Default)]
struct Kept {
    /// End and name of functions, by their first address (SVMA).
    functions: BTreeMap<u64, (u64, Frame)>,
    /// Addresses in no function.
    nowhere: HashSet<u64>,
    /// Why the file cannot be read.
    unreadable: Option<Unnamed>,
    /// Bytes of debug information that would say more.
    debug_bytes: u64,
    /// When it was used last, in uses of any.
    used: u64,
}

impl Kept {
    fn len(&self) -> usize {
        self.functions.len() + self.nowhere.len()
    }

    /// Whether debug information would say more, and is not too much.
    fn can_deepen(&self) -> bool {
        self.unreadable.is_none() && (1..=DEBUG_LIMIT_BYTES).contains(&self.debug_bytes)
    }

    fn function(&self, svma: u64) -> Option<&Frame> {
        let (_, (end, frame)) = self.functions.range(..=svma).next_back()?;
        (svma < *end).then_some(frame)
    }

    fn knows(&self, svma: u64) -> bool {
        self.unreadable.is_some() || self.nowhere.contains(&svma) || self.function(svma).is_some()
    }

    fn name(&self, svmas: &[u64]) -> Names {
        let frames: Vec<Vec<Frame>> =
            svmas.iter().map(|svma| self.function(*svma).cloned().into_iter().collect()).collect();
        let why = self.unreadable.unwrap_or(Unnamed::NoSymbol);
        Names { unnamed: frames.iter().any(Vec::is_empty).then_some(why), frames }
    }
}

/// What is spared, and what is left to do.
pub(super) struct Thrift {
    kept: HashMap<symbols::ObjectId, Kept>,
    uses: u64,
    /// Locations in files whose symbol tables there was no credit for.
    unread: HashMap<symbols::ObjectId, Vec<usize>>,
    /// Locations that debug information would say more of.
    files: HashMap<symbols::ObjectId, Vec<usize>>,
    jits: BTreeMap<u64, Unread>,
    /// CPU time that may go into names; negative when more went, seconds.
    credit_seconds: f64,
    since: Instant,
}

impl Thrift {
    pub(super) fn new() -> Thrift {
        Thrift {
            kept: HashMap::new(),
            uses: 0,
            unread: HashMap::new(),
            files: HashMap::new(),
            jits: BTreeMap::new(),
            credit_seconds: CREDIT_SECONDS,
            since: Instant::now(),
        }
    }

    /// Names addresses by symbol tables. Those that were not asked for before wait where there is no credit.
    fn name(&mut self, symbols: &mut Symbols, file: symbols::ObjectId, svmas: &[u64]) -> Names {
        self.paid(symbols, |symbols| symbols, |thrift, symbols| thrift.read(symbols, file, svmas));
        self.kept.get(&file).map_or_else(|| Names::none(svmas.len(), Unnamed::NoSymbol), |kept| kept.name(svmas))
    }

    /// Asks the symbol tables of a file for what they were not asked for yet, and lets go of others if they are too many.
    fn read(&mut self, symbols: &mut Symbols, file: symbols::ObjectId, svmas: &[u64]) {
        self.uses += 1;
        let kept = self.kept.entry(file).or_default();
        kept.used = self.uses;
        let unknown: Vec<u64> = svmas.iter().copied().filter(|svma| !kept.knows(*svma)).collect();
        if unknown.is_empty() {
            return;
        }
        match symbols.functions(file, &unknown) {
            Ok(found) => {
                kept.debug_bytes = found.debug_info_bytes;
                for (svma, function) in unknown.into_iter().zip(found.functions) {
                    match function {
                        Some(function) => {
                            let frame = || demangle::frame(&function.name);
                            let end = function.svmas.end;
                            kept.functions.entry(function.svmas.start).or_insert_with(|| (end, frame()));
                            // Functions may lie within others, whose own name this address does not have then.
                            if kept.function(svma).is_none() {
                                kept.functions.insert(svma, (svma + 1, frame()));
                            }
                        }
                        None => {
                            kept.nowhere.insert(svma);
                        }
                    }
                }
            }
            Err(why) => kept.unreadable = Some(why),
        }
        let mut len: usize = self.kept.values().map(Kept::len).sum();
        while len > KEPT_LIMIT {
            let others = self.kept.iter().filter(|(other, kept)| **other != file && kept.len() > 0);
            let Some(oldest) = others.min_by_key(|(_, kept)| kept.used).map(|(other, _)| *other) else { break };
            len -= self.kept.remove(&oldest).map_or(0, |kept| kept.len());
        }
    }

    fn remember(&mut self, pending: Pending, location: usize) {
        match pending {
            Pending::File { file, svma } => match self.kept.get(&file).filter(|kept| kept.knows(svma)) {
                Some(kept) if kept.can_deepen() => self.files.entry(file).or_default().push(location),
                Some(_) => {}
                None => self.unread.entry(file).or_default().push(location),
            },
            Pending::Jit(image) => {
                let unread = || Unread { locations: Vec::new(), next: Instant::now(), pause: JIT_PAUSE };
                self.jits.entry(image).or_insert_with(unread).locations.push(location);
            }
        }
    }

    /// Names better what can be, as far as the credit goes; returns the locations that have another name now.
    pub(super) fn deepen(&mut self, parts: &mut Parts, images: &mut Images, jits: &mut Jits) -> Vec<usize> {
        let now = Instant::now();
        self.credit_seconds += (now - self.since).as_secs_f64() * CREDIT_RATE;
        if self.credit_seconds.is_finite() {
            self.credit_seconds = self.credit_seconds.min(CREDIT_SECONDS);
        }
        self.since = now;
        let mut renamed = Vec::new();
        // Small ones first: the largest may use up the credit of a minute.
        let mut unread: Vec<_> = self.unread.keys().copied().collect();
        unread.sort_by_cached_key(|file| images.objects().symbols().object(*file).size_bytes());
        for file in unread {
            renamed.extend(self.paid(images, symbols_of, |thrift, images| thrift.name_unread(file, parts, images)));
        }
        let due = self.jits.iter().filter(|(_, unread)| unread.next <= now).map(|(image, _)| *image);
        for image in due.collect::<Vec<_>>() {
            let deepen = |thrift: &mut Thrift, images: &mut Images| thrift.deepen_jit(image, parts, images, jits);
            renamed.extend(self.paid(images, symbols_of, deepen));
        }
        // Inlined functions are worth less than those that have no name at all yet.
        if self.unread.is_empty() {
            let size = |file: &symbols::ObjectId| self.kept.get(file).map_or(0, |kept| kept.debug_bytes);
            let mut files: Vec<_> = self.files.keys().copied().collect();
            files.sort_by_cached_key(size);
            for file in files {
                renamed.extend(self.paid(images, symbols_of, |thrift, images| thrift.deepen_file(file, parts, images)));
            }
        }
        renamed.into_iter().flatten().collect()
    }

    /// Lifts the limit on CPU time: the targets are not looked at any more.
    pub(super) fn lift(&mut self) {
        self.credit_seconds = f64::INFINITY;
    }

    /// Locations that were not looked up, and so may well have a name.
    pub(super) fn not_looked_up(&self) -> impl Iterator<Item = usize> {
        self.unread.values().flatten().copied()
    }

    /// Works, if there is credit, and takes the CPU time that it took off it: ours, and that of the reader of symbols.
    fn paid<H, R>(
        &mut self,
        holder: &mut H,
        symbols: impl Fn(&H) -> &Symbols,
        work: impl FnOnce(&mut Thrift, &mut H) -> R,
    ) -> Option<R> {
        if self.credit_seconds <= 0.0 {
            return None;
        }
        let own = || cpu_time::of_process(std::process::id()).unwrap_or_default();
        let (own_before, reader_before) = (own(), symbols(holder).reader_cpu_time());
        let done = work(self, holder);
        // One that ended over the work took its account with it.
        let reader = symbols(holder).reader_cpu_time().saturating_sub(reader_before);
        self.credit_seconds -= (own().saturating_sub(own_before) + reader).as_secs_f64();
        Some(done)
    }

    fn name_unread(&mut self, file: symbols::ObjectId, parts: &mut Parts, images: &mut Images) -> Vec<usize> {
        let locations = self.unread.remove(&file).unwrap_or_default();
        let svmas: Vec<u64> = locations.iter().map(|location| parts.locations[*location].address).collect();
        self.read(images.objects_mut().symbols_mut(), file, &svmas);
        let Some(kept) = self.kept.get(&file) else {
            return Vec::new();
        };
        let renamed = give(&locations, kept.name(&svmas), parts);
        if kept.can_deepen() {
            self.files.entry(file).or_default().extend(locations);
        }
        renamed
    }

    fn deepen_file(&mut self, file: symbols::ObjectId, parts: &mut Parts, images: &mut Images) -> Vec<usize> {
        let locations = self.files.remove(&file).unwrap_or_default();
        let svmas: Vec<u64> = locations.iter().map(|location| parts.locations[*location].address).collect();
        let names = images.objects_mut().symbols_mut().name(file, &svmas);
        give(&locations, names, parts)
    }

    fn deepen_jit(&mut self, image: u64, parts: &mut Parts, images: &Images, jits: &mut Jits) -> Vec<usize> {
        if let Some(image_of) = images.get(image) {
            jits.read(image, image_of.pid);
        }
        let Some(unread) = self.jits.get_mut(&image) else {
            return Vec::new();
        };
        let mut renamed = Vec::new();
        if let Some(map) = jits.get(image) {
            unread.locations.retain(|location| {
                let frames = map.frames(parts.locations[*location].address);
                let is_unnamed = frames.is_empty();
                parts.locations[*location].frames = frames;
                if !is_unnamed {
                    renamed.push(*location);
                }
                is_unnamed
            });
        }
        unread.next = Instant::now() + unread.pause;
        unread.pause = (unread.pause * 2).min(JIT_PAUSE_MAX);
        // One that is gone writes no more names.
        if unread.locations.is_empty() || images.get(image).is_none() {
            self.jits.remove(&image);
        }
        renamed
    }
}

/// The symbols of the images' files.
fn symbols_of(images: &Images) -> &Symbols {
    images.objects().symbols()
}

/// Gives locations the names that were found, if any; returns those that had another one, or none.
fn give(locations: &[usize], names: Names, parts: &mut Parts) -> Vec<usize> {
    let mut renamed = Vec::new();
    for (location, frames) in locations.iter().zip(names.frames) {
        let at = &mut parts.locations[*location].frames;
        if frames.is_empty() {
            if let (true, Some(why)) = (at.is_empty(), names.unnamed) {
                parts.unnamed.insert(*location, why);
            }
        } else if *at != frames {
            *at = frames;
            parts.unnamed.remove(location);
            renamed.push(*location);
        }
    }
    renamed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::images::Tracking;
    use crate::objects::Objects;
    use crate::profile::Location;
    use crate::symbols::debug_files::DebugFiles;
    use crate::symbols::fixtures::{Workshop, functions};
    use crate::symbols::target_files::{Identity, MappedFile};

    #[test]
    fn names_wait_for_credit_and_get_better_with_more() {
        let workshop = Workshop::new();
        let program = workshop.program(&[]);
        let (_, svma, _) = functions(&program).into_iter().find(|(name, ..)| name == "hot").expect("hot is a function");
        let mut images = Images::new(Tracking::All, Objects::new(Symbols::new(DebugFiles::default(), "/".into())));
        let mapped = MappedFile { pid: None, start: 0, end: 0, path: program, identity: Identity::default() };
        let file = images.objects_mut().symbols_mut().open(&mapped);
        let mut parts = Parts::default();
        parts.locations.push(Location { mapping: None, address: svma, frames: Vec::new() });
        let mut thrift = Thrift::new();
        thrift.credit_seconds = -1.0;
        assert_eq!(thrift.name(images.objects_mut().symbols_mut(), file, &[svma]).frames, [vec![]]);
        thrift.remember(Pending::File { file, svma }, 0);
        assert!(thrift.deepen(&mut parts, &mut images, &mut Jits::default()).is_empty());
        assert_eq!(thrift.not_looked_up().collect::<Vec<_>>(), [0]);

        // Enough for the symbol table only.
        thrift.credit_seconds = f64::MIN_POSITIVE;
        thrift.since = Instant::now();
        let read = |thrift: &mut Thrift, images: &mut Images| thrift.name_unread(file, &mut parts, images);
        assert_eq!(thrift.paid(&mut images, symbols_of, read), Some(vec![0]));
        let frames = parts.locations[0].frames.clone();
        assert_eq!(
            frames.iter().map(|frame| (frame.function.as_str(), &frame.file)).collect::<Vec<_>>(),
            [("hot", &None)]
        );
        assert!(thrift.credit_seconds <= f64::MIN_POSITIVE && thrift.not_looked_up().next().is_none());

        thrift.lift();
        assert_eq!(thrift.deepen(&mut parts, &mut images, &mut Jits::default()), [0]);
        let function = parts.locations[0].frames.last().expect("a name");
        assert!(function.function == "hot" && function.file.is_some() && function.line > 0, "{function:?}");
        // All is done.
        assert!(thrift.deepen(&mut parts, &mut images, &mut Jits::default()).is_empty());
    }
}
