//! Names for a profile that was recorded without them: on a stripped host, or before the debug package was there.

use std::collections::BTreeMap;
use std::path::Path;

use super::debug_files::DebugFiles;
use super::object_file::{ObjectFile, Origin};
use super::reader::{Reader, Sources};
use super::symbolizer::Unnamed;
use super::target_files;
use crate::build_id::BuildId;
use crate::profile::{Mapping, MappingKind, Profile};

/// Names the locations of files that have no name yet, by build ID: names of another build are never used, and the
/// kernel of this machine says nothing about a profile of another one.
///
/// Returns the objects whose files could not be read to the end, and why.
pub fn name_unnamed(profile: &mut Profile, debug_files: &mut DebugFiles) -> Vec<(String, Unnamed)> {
    let (mut reader, mut lost) = (Reader::new(), Vec::new());
    let mut unnamed: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (index, location) in profile.locations.iter().enumerate().filter(|(_, location)| location.frames.is_empty()) {
        if let Some(mapping) = location.mapping {
            unnamed.entry(mapping).or_default().push(index);
        }
    }
    for (mapping, locations) in unnamed {
        let Mapping { kind: MappingKind::File, object, build_id: Some(build_id), .. } = &profile.mappings[mapping]
        else {
            continue;
        };
        let Files { object, debug } = files_of(object, Some(build_id), debug_files);
        let Some(file) = object.as_ref().or(debug.as_ref()) else {
            continue;
        };
        let svmas: Vec<u64> = locations.iter().map(|location| profile.locations[*location].address).collect();
        let shared = debug_files.find_shared(debug.as_ref().unwrap_or(file));
        let sources = Sources { object: file, debug: debug.as_ref(), shared: shared.as_ref() };
        let names = reader.name(&sources, &svmas);
        if let Some(why @ (Unnamed::ReaderEnded | Unnamed::ReaderStalled | Unnamed::NoReader)) = names.unnamed {
            lost.push((profile.mappings[mapping].object.clone(), why));
        }
        for (location, frames) in locations.into_iter().zip(names.frames) {
            profile.locations[location].frames = frames;
        }
    }
    lost
}

/// The files of this host that belong to an object.
#[derive(Debug)]
pub struct Files {
    /// The object itself.
    pub object: Option<ObjectFile>,
    /// Its debug information, where that is in a file of its own.
    pub debug: Option<ObjectFile>,
}

/// Finds the files of the build of an object that ran: those of another build are none.
pub fn files_of(object: &str, build_id: Option<&BuildId>, debug_files: &mut DebugFiles) -> Files {
    let path = Path::new(object);
    let object = same_build(path, build_id);
    let debug = match (&object, build_id) {
        (Some(object), _) if object.has_debug_info() => None,
        (Some(object), _) => debug_files.find(object, path),
        (None, Some(build_id)) => debug_files.find_by_build_id(build_id),
        (None, None) => None,
    };
    Files { object, debug }
}

/// The file at a path of this host, if it is the build that ran.
fn same_build(path: &Path, build_id: Option<&BuildId>) -> Option<ObjectFile> {
    let file = target_files::open_below(Path::new("/"), path).ok()?;
    let object = ObjectFile::new(file, path, Origin::Host).ok()?;
    (object.build_id.as_ref() == build_id).then_some(object)
}
