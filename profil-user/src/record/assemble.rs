//! From counts by place to a profile: addresses become SVMA, and addresses get names.

use std::collections::{BTreeMap, HashMap};

use super::jits::Jits;
use super::resolve::{Key, Spot};
use crate::build_id::BuildId;
use crate::images::Images;
use crate::maps::Backing;
use crate::objects::ObjectId;
use crate::profile::{Frame, Location, Mapping, MappingKind, ProcessInfo, Row};
use crate::symbols::elf_headers::Segment;
use crate::symbols::kernel::{self, KernelSymbols};
use crate::symbols::symbolizer::Unnamed;
use crate::symbols::vdso::Vdso;

/// The parts of a profile that come from counts.
#[derive(Debug, Default)]
pub(super) struct Parts {
    pub(super) mappings: Vec<Mapping>,
    pub(super) locations: Vec<Location>,
    pub(super) processes: Vec<ProcessInfo>,
    pub(super) rows: Vec<Row>,
    /// Ticks in code without a name, by object and reason.
    pub(super) unnamed: HashMap<(String, Unnamed), u64>,
}

/// Puts counts into the form of a profile. `jits` has the maps of images whose code is made at run time.
pub(super) fn assemble(counts: &[(Key, u64)], images: &mut Images, jits: &Jits) -> Parts {
    let mut parts = Parts::default();
    let processes = add_processes(counts, images, &mut parts);
    let counted = |(key, ticks): &(Key, u64)| Counted { at: LocationKey::new(key, images), ticks: *ticks };
    let counted: Vec<Counted> = counts.iter().map(counted).collect();
    let mut assembler = Assembler { parts, mappings: HashMap::new(), locations: HashMap::new() };
    assembler.add_locations(&counted, images, jits);
    let Assembler { mut parts, locations, .. } = assembler;
    parts.rows = counts
        .iter()
        .zip(&counted)
        .map(|((key, ticks), counted)| Row {
            location: locations[&counted.at],
            process: processes.get(&key.image).copied(),
            tid: (key.tid != 0).then_some(key.tid),
            mode: key.mode,
            ticks: *ticks,
        })
        .collect();
    parts
}

/// What tells locations apart: addresses without a file mean something in their own image only.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
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

/// Ticks of one key, on their way to a location.
struct Counted {
    at: LocationKey,
    ticks: u64,
}

impl Counted {
    /// Byte of the object; `None` for what lies in none.
    fn offset(&self) -> Option<u64> {
        match self.at.spot {
            Spot::Code(place) => Some(place.file_offset),
            Spot::Kernel(_) | Spot::Unknown(_) => None,
        }
    }
}

/// Adds the images that have ticks; returns their indices.
fn add_processes(counts: &[(Key, u64)], images: &Images, parts: &mut Parts) -> HashMap<u64, usize> {
    let mut born: Vec<(u32, u64, u64)> = counts
        .iter()
        .filter_map(|(key, _)| images.get(key.image).map(|image| (image.pid, image.born_ns, key.image)))
        .collect();
    born.sort_unstable();
    born.dedup();
    let mut indices = HashMap::new();
    for (pid, _, image) in born {
        let last = parts.processes.last();
        let generation = last.filter(|last| last.pid == pid).map_or(1, |last| last.generation + 1);
        let known = images.get(image);
        let comm = known.map(|image| image.comm.clone()).unwrap_or_default();
        let service = known.and_then(|image| image.service.as_deref()).map(str::to_owned);
        indices.insert(image, parts.processes.len());
        parts.processes.push(ProcessInfo { pid, generation, comm, service });
    }
    indices
}

struct Assembler {
    parts: Parts,
    mappings: HashMap<(Option<ObjectId>, u64), usize>,
    locations: HashMap<LocationKey, usize>,
}

impl Assembler {
    fn add_locations(&mut self, counts: &[Counted], images: &mut Images, jits: &Jits) {
        // Code of files by object, since an object names all its addresses at once.
        let mut by_object: BTreeMap<ObjectId, Vec<&Counted>> = BTreeMap::new();
        let kernel = counts.iter().any(|counted| matches!(counted.at.spot, Spot::Kernel(_))).then(Kernel::read);
        for counted in counts {
            match counted.at.spot {
                Spot::Code(place) => by_object.entry(place.object).or_default().push(counted),
                Spot::Kernel(address) => {
                    let location = self.kernel_location(address, kernel.as_ref());
                    self.push(counted, location);
                }
                Spot::Unknown(address) => {
                    self.push(counted, Location { mapping: None, address, frames: Vec::new() });
                }
            }
        }
        for (object, counts) in by_object {
            match images.objects().get(object).backing {
                Backing::File => self.add_file(object, &counts, images),
                Backing::Vdso => self.add_vdso(object, &counts),
                _ => self.add_anonymous(object, &counts, images, jits),
            }
        }
    }

    fn push(&mut self, counted: &Counted, location: Location) {
        self.locations.entry(counted.at).or_insert_with(|| {
            self.parts.locations.push(location);
            self.parts.locations.len() - 1
        });
    }

    fn add_file(&mut self, object: ObjectId, counts: &[&Counted], images: &mut Images) {
        let Some(file) = images.objects().get(object).file else {
            return;
        };
        let symbols = images.objects_mut().symbols_mut();
        let mut places: HashMap<u64, Option<u64>> = HashMap::new();
        for offset in counts.iter().filter_map(|counted| counted.offset()) {
            places.entry(offset).or_insert_with(|| symbols.object(file).svma_of(offset));
        }
        let mut svmas: Vec<u64> = places.values().copied().flatten().collect();
        svmas.sort_unstable();
        svmas.dedup();
        let names = symbols.name(file, &svmas);
        let opened = symbols.object(file);
        let why = opened.file.as_ref().err().copied().or(names.unnamed).unwrap_or(Unnamed::NoSymbol);
        let description = Described {
            kind: MappingKind::File,
            object: opened.display_path.clone(),
            build_id: opened.build_id.clone(),
            stale: opened.is_stale(),
        };
        for counted in counts {
            let Some(offset) = counted.offset() else {
                continue;
            };
            let segment = opened.file.as_ref().ok().and_then(|file| file.segment_of(offset));
            let (mapping, address) = match (segment, places.get(&offset).copied().flatten()) {
                (Some(segment), Some(svma)) => (self.segment(object, segment, &description), svma),
                // No ELF headers to go by: the file is its own address space.
                _ => (self.whole_file(object, offset, &description), offset),
            };
            let frames = match svmas.binary_search(&address) {
                Ok(index) if segment.is_some() => names.frames[index].clone(),
                _ => Vec::new(),
            };
            if frames.is_empty() {
                *self.parts.unnamed.entry((description.object.clone(), why)).or_default() += counted.ticks;
            }
            self.push(counted, Location { mapping: Some(mapping), address, frames });
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

    fn add_vdso(&mut self, object: ObjectId, counts: &[&Counted]) {
        // The same image for every process of this kernel.
        let vdso = Vdso::own().ok();
        let description = Described {
            kind: MappingKind::Vdso,
            object: "[vdso]".to_owned(),
            build_id: vdso.as_ref().and_then(|vdso| vdso.build_id.clone()),
            stale: false,
        };
        for counted in counts {
            let Some(offset) = counted.offset() else {
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
            self.push(counted, location);
        }
    }

    fn add_anonymous(&mut self, object: ObjectId, counts: &[&Counted], images: &Images, jits: &Jits) {
        let name = images.objects().get(object);
        let name = if name.backing == Backing::Anonymous { "[anon]".into() } else { name.path.display().to_string() };
        let description = Described { kind: MappingKind::Anonymous, object: name, build_id: None, stale: false };
        for counted in counts {
            let Some(address) = counted.offset() else {
                continue;
            };
            let frames = jits.get(counted.at.image).map(|map| map.frames(address)).unwrap_or_default();
            let mapping = self.whole_file(object, address, &description);
            self.push(counted, Location { mapping: Some(mapping), address, frames });
        }
    }

    fn kernel_location(&mut self, address: u64, kernel: Option<&Kernel>) -> Location {
        let mapping = self.mapping(None, 0, || Mapping {
            kind: MappingKind::Kernel,
            object: "[kernel]".to_owned(),
            build_id: kernel.and_then(|kernel| kernel.build_id.clone()),
            start: 1 << 63,
            limit: u64::MAX,
            file_offset: 0,
            stale: false,
        });
        let symbols = kernel.and_then(|kernel| kernel.symbols.as_ref());
        let frames: Vec<Frame> = symbols.map(|symbols| symbols.frames(address)).unwrap_or_default();
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
