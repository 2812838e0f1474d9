//! From counts by place to a profile: addresses become SVMA, and addresses get names.

use std::collections::{BTreeMap, HashMap};

use super::jits::Jits;
use super::naming::{Naming, Pending};
use super::resolve::{Key, Spot};
use crate::build_id::BuildId;
use crate::images::Images;
use crate::maps::Backing;
use crate::objects::ObjectId;
use crate::profile::{Location, Mapping, MappingKind, ProcessInfo, Row};
use crate::symbols::elf_headers::Segment;
use crate::symbols::kernel::{self, KernelSymbols};
use crate::symbols::symbolizer::Unnamed;
use crate::symbols::vdso::Vdso;

/// The parts of a profile that rows refer to, and that grow with what is counted.
#[derive(Debug, Default)]
pub(super) struct Parts {
    pub(super) mappings: Vec<Mapping>,
    pub(super) locations: Vec<Location>,
    pub(super) processes: Vec<ProcessInfo>,
    /// Why code has no name, by the index of its location.
    pub(super) unnamed: HashMap<usize, Unnamed>,
}

impl Parts {
    /// Ticks in code without a name, by object and reason.
    pub(super) fn unnamed_ticks(&self, rows: &[Row]) -> HashMap<(String, Unnamed), u64> {
        let mut unnamed = HashMap::new();
        for Row { location, ticks, .. } in rows {
            let mapping = self.locations[*location].mapping.map(|mapping| &self.mappings[mapping]);
            if let (Some(why), Some(mapping)) = (self.unnamed.get(location), mapping) {
                *unnamed.entry((mapping.object.clone(), *why)).or_default() += ticks;
            }
        }
        unnamed
    }
}

/// What tells locations apart: addresses without a file mean something in their own image only.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct LocationKey {
    /// The image, or 0 where any has the same code there.
    image: u64,
    spot: Spot,
}

impl LocationKey {
    fn new(key: &Key, images: &Images) -> LocationKey {
        let shared = match key.spot {
            Spot::Kernel(_) => true,
            Spot::Code(place) => matches!(images.objects().get(place.object).backing, Backing::File | Backing::Vdso),
            Spot::Unknown(_) => false,
        };
        LocationKey { image: if shared { 0 } else { key.image }, spot: key.spot }
    }
}

impl LocationKey {
    /// Byte of the object; `None` for what lies in none.
    fn offset(&self) -> Option<u64> {
        match self.spot {
            Spot::Code(place) => Some(place.file_offset),
            Spot::Kernel(_) | Spot::Unknown(_) => None,
        }
    }
}

/// Puts counts into the form of a profile, all at once or as they come: what is known already is not named again.
#[derive(Default)]
pub(super) struct Assembler {
    pub(super) parts: Parts,
    mappings: HashMap<(Option<ObjectId>, u64), usize>,
    locations: HashMap<LocationKey, usize>,
    /// Indices by image.
    processes: HashMap<u64, usize>,
    kernel: Option<Kernel>,
}

impl Assembler {
    /// The rows of counts. `jits` has the maps of images whose code is made at run time.
    pub(super) fn add(
        &mut self,
        counts: &[(Key, u64)],
        images: &mut Images,
        jits: &Jits,
        naming: &mut Naming,
    ) -> Vec<Row> {
        self.add_processes(counts, images);
        let keys: Vec<LocationKey> = counts.iter().map(|(key, _)| LocationKey::new(key, images)).collect();
        let mut new: Vec<LocationKey> = keys.iter().filter(|key| !self.locations.contains_key(key)).copied().collect();
        new.sort_unstable();
        new.dedup();
        self.add_locations(&new, images, jits, naming);
        counts
            .iter()
            .zip(&keys)
            .map(|((key, ticks), location)| Row {
                location: self.locations[location],
                process: self.processes.get(&key.image).copied(),
                tid: (key.tid != 0).then_some(key.tid),
                mode: key.mode,
                ticks: *ticks,
            })
            .collect()
    }

    /// Adds the images that have ticks.
    fn add_processes(&mut self, counts: &[(Key, u64)], images: &Images) {
        let new = counts.iter().filter(|(key, _)| !self.processes.contains_key(&key.image));
        let mut born: Vec<(u32, u64, u64)> = new
            .filter_map(|(key, _)| images.get(key.image).map(|image| (image.pid, image.born_ns, key.image)))
            .collect();
        born.sort_unstable();
        born.dedup();
        let mut generations: HashMap<u32, u32> = HashMap::new();
        if !born.is_empty() {
            for process in &self.parts.processes {
                generations.insert(process.pid, process.generation);
            }
        }
        for (pid, _, image) in born {
            let generation = generations.entry(pid).or_default();
            *generation += 1;
            let known = images.get(image);
            let comm = known.map(|image| image.comm.clone()).unwrap_or_default();
            let service = known.and_then(|image| image.service.as_deref()).map(str::to_owned);
            self.processes.insert(image, self.parts.processes.len());
            self.parts.processes.push(ProcessInfo { pid, generation: *generation, comm, service });
        }
    }

    /// Forgets the processes that are not in `kept`, which has the new index of each that is.
    pub(super) fn keep_processes(&mut self, kept: &HashMap<usize, usize>) {
        self.processes = self.processes.iter().filter_map(|(image, old)| Some((*image, *kept.get(old)?))).collect();
    }

    fn add_locations(&mut self, new: &[LocationKey], images: &mut Images, jits: &Jits, naming: &mut Naming) {
        // Code of files by object, since an object names all its addresses at once.
        let mut by_object: BTreeMap<ObjectId, Vec<LocationKey>> = BTreeMap::new();
        for key in new {
            match key.spot {
                Spot::Code(place) => by_object.entry(place.object).or_default().push(*key),
                Spot::Kernel(address) => {
                    let location = self.kernel_location(address);
                    self.push(*key, location);
                }
                Spot::Unknown(address) => {
                    self.push(*key, Location { mapping: None, address, frames: Vec::new() });
                }
            }
        }
        for (object, keys) in by_object {
            match images.objects().get(object).backing {
                Backing::File => self.add_file(object, &keys, images, naming),
                Backing::Vdso => self.add_vdso(object, &keys),
                _ => self.add_anonymous(object, &keys, images, jits, naming),
            }
        }
    }

    /// Adds a location; returns its index.
    fn push(&mut self, key: LocationKey, location: Location) -> usize {
        *self.locations.entry(key).or_insert_with(|| {
            self.parts.locations.push(location);
            self.parts.locations.len() - 1
        })
    }

    fn add_file(&mut self, object: ObjectId, keys: &[LocationKey], images: &mut Images, naming: &mut Naming) {
        let Some(file) = images.objects().get(object).file else {
            return;
        };
        let symbols = images.objects_mut().symbols_mut();
        let mut places: HashMap<u64, Option<u64>> = HashMap::new();
        for offset in keys.iter().filter_map(LocationKey::offset) {
            places.entry(offset).or_insert_with(|| symbols.object(file).svma_of(offset));
        }
        let mut svmas: Vec<u64> = places.values().copied().flatten().collect();
        svmas.sort_unstable();
        svmas.dedup();
        let names = naming.name(symbols, file, &svmas);
        let opened = symbols.object(file);
        let why = opened.file.as_ref().err().copied().or(names.unnamed).unwrap_or(Unnamed::NoSymbol);
        let description = Described {
            kind: MappingKind::File,
            object: opened.display_path.clone(),
            build_id: opened.build_id.clone(),
            stale: opened.is_stale(),
        };
        for key in keys {
            let Some(offset) = key.offset() else {
                continue;
            };
            let segment = opened.file.as_ref().ok().and_then(|file| file.segment_of(offset));
            let (mapping, address) = match (segment, places.get(&offset).copied().flatten()) {
                (Some(segment), Some(svma)) => (self.segment(object, segment, &description), svma),
                // No ELF headers to go by: the file is its own address space.
                _ => (self.whole_file(object, offset, &description), offset),
            };
            let (frames, is_named) = match svmas.binary_search(&address) {
                Ok(index) if segment.is_some() => (names.frames[index].clone(), true),
                _ => (Vec::new(), false),
            };
            let has_none = frames.is_empty();
            let location = self.push(*key, Location { mapping: Some(mapping), address, frames });
            if has_none {
                self.parts.unnamed.insert(location, why);
            }
            if is_named {
                naming.remember(Pending::File { file, svma: address }, location);
            }
        }
    }

    fn segment(&mut self, object: ObjectId, segment: &Segment, description: &Described) -> usize {
        let Segment { file_offset, svma, size, .. } = *segment;
        self.mapping(Some(object), svma, || description.mapping(svma, svma.saturating_add(size), file_offset))
    }

    fn whole_file(&mut self, object: ObjectId, offset: u64, description: &Described) -> usize {
        let index = self.mapping(Some(object), u64::MAX, || description.mapping(0, 0, 0));
        let mapping = &mut self.parts.mappings[index];
        mapping.limit = mapping.limit.max(offset + 1);
        index
    }

    fn mapping(&mut self, object: Option<ObjectId>, start: u64, new: impl FnOnce() -> Mapping) -> usize {
        *self.mappings.entry((object, start)).or_insert_with(|| {
            self.parts.mappings.push(new());
            self.parts.mappings.len() - 1
        })
    }

    fn add_vdso(&mut self, object: ObjectId, keys: &[LocationKey]) {
        // The same image for every process of this kernel.
        let vdso = Vdso::own().ok();
        let description = Described {
            kind: MappingKind::Vdso,
            object: "[vdso]".to_owned(),
            build_id: vdso.as_ref().and_then(|vdso| vdso.build_id.clone()),
            stale: false,
        };
        for key in keys {
            let Some(offset) = key.offset() else {
                continue;
            };
            let known = vdso.as_ref().and_then(|vdso| Some((vdso, vdso.code_segment()?, vdso.svma_of(offset)?)));
            let location = match known {
                Some((vdso, segment, svma)) => {
                    let mapping = self.segment(object, segment, &description);
                    let frames = vdso.name(&[svma]).frames.pop().unwrap_or_default();
                    Location { mapping: Some(mapping), address: svma, frames }
                }
                None => Location {
                    mapping: Some(self.whole_file(object, offset, &description)),
                    address: offset,
                    frames: Vec::new(),
                },
            };
            self.push(*key, location);
        }
    }

    fn add_anonymous(
        &mut self,
        object: ObjectId,
        keys: &[LocationKey],
        images: &Images,
        jits: &Jits,
        naming: &mut Naming,
    ) {
        let name = images.objects().get(object);
        let name = if name.backing == Backing::Anonymous { "[anon]".into() } else { name.path.display().to_string() };
        let description = Described { kind: MappingKind::Anonymous, object: name, build_id: None, stale: false };
        for key in keys {
            let Some(address) = key.offset() else {
                continue;
            };
            let frames = jits.get(key.image).map(|map| map.frames(address)).unwrap_or_default();
            let has_none = frames.is_empty();
            let mapping = self.whole_file(object, address, &description);
            let location = self.push(*key, Location { mapping: Some(mapping), address, frames });
            if has_none {
                naming.remember(Pending::Jit(key.image), location);
            }
        }
    }

    fn kernel_location(&mut self, address: u64) -> Location {
        let kernel = self.kernel.get_or_insert_with(Kernel::read);
        let frames = kernel.symbols.as_ref().map(|symbols| symbols.frames(address)).unwrap_or_default();
        let build_id = kernel.build_id.clone();
        let mapping = self.mapping(None, 0, || Mapping {
            kind: MappingKind::Kernel,
            object: "[kernel]".to_owned(),
            build_id,
            start: 1 << 63,
            limit: u64::MAX,
            file_offset: 0,
            stale: false,
        });
        Location { mapping: Some(mapping), address, frames }
    }
}

/// What all mappings of an object have in common.
struct Described {
    kind: MappingKind,
    object: String,
    build_id: Option<BuildId>,
    stale: bool,
}

impl Described {
    fn mapping(&self, start: u64, limit: u64, file_offset: u64) -> Mapping {
        let Described { kind, object, build_id, stale } = self;
        Mapping {
            kind: *kind,
            object: object.clone(),
            build_id: build_id.clone(),
            start,
            limit,
            file_offset,
            stale: *stale,
        }
    }
}

/// The running kernel's names, read when they are first needed.
struct Kernel {
    symbols: Option<KernelSymbols>,
    build_id: Option<BuildId>,
}

impl Kernel {
    fn read() -> Kernel {
        Kernel { symbols: KernelSymbols::of_this_boot().ok(), build_id: kernel::build_id() }
    }
}
