//! Names that two profiles can be compared by: what one of them knows, the other is told.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::build_id::BuildId;
use crate::profile::{Frame, Location, MappingKind, Profile};

/// Name of all code of an object without names, where the addresses of the two runs mean different code.
pub const UNNAMED: &str = "[unnamed]";

/// The builds that both profiles have code of.
pub fn shared_builds(before: &Profile, after: &Profile) -> HashSet<BuildId> {
    let builds = |profile: &Profile| -> HashSet<BuildId> {
        profile.mappings.iter().filter_map(|mapping| mapping.build_id.clone()).collect()
    };
    let after = builds(after);
    builds(before).into_iter().filter(|build| after.contains(build)).collect()
}

/// Makes names comparable.
///
/// One of the runs may have been recorded, or looked at, without the debug files: in a shared build, an address without
/// a name takes that of the function which the profiles know on both sides of it. Code without a name in a build that
/// only one of them has becomes one row for each object: its offsets mean nothing in another build.
pub fn align(before: &mut Profile, after: &mut Profile, shared: &HashSet<BuildId>) {
    let mut known = HashMap::new();
    learn(before, shared, &mut known);
    learn(after, shared, &mut known);
    for profile in [before, after] {
        teach(profile, shared, &known);
    }
}

/// Functions by build and address.
type Known = HashMap<BuildId, BTreeMap<u64, Vec<Frame>>>;

fn learn(profile: &Profile, shared: &HashSet<BuildId>, known: &mut Known) {
    for location in profile.locations.iter().filter(|location| !location.frames.is_empty()) {
        if let Some(build) = build(profile, location).filter(|build| shared.contains(build)) {
            known.entry(build.clone()).or_default().insert(location.address, location.frames.clone());
        }
    }
}

fn teach(profile: &mut Profile, shared: &HashSet<BuildId>, known: &Known) {
    for index in 0..profile.locations.len() {
        let location = &profile.locations[index];
        let Some(mapping) = location.mapping.filter(|_| location.frames.is_empty()) else { continue };
        let frames = match build(profile, location).filter(|build| shared.contains(build)) {
            Some(build) => known.get(build).and_then(|known| between(known, location.address)),
            // The code of a JIT is one row for its object in every report.
            None if profile.mappings[mapping].kind == MappingKind::Anonymous => None,
            None => Some(vec![Frame { function: UNNAMED.to_owned(), system_name: None, file: None, line: 0 }]),
        };
        if let Some(frames) = frames {
            profile.locations[index].frames = frames;
        }
    }
}

fn build<'a>(profile: &'a Profile, location: &Location) -> Option<&'a BuildId> {
    profile.mappings[location.mapping?].build_id.as_ref()
}

/// The functions at an address, where those at the next known addresses below and above are the same.
fn between(known: &BTreeMap<u64, Vec<Frame>>, address: u64) -> Option<Vec<Frame>> {
    let (at_below, below) = known.range(..=address).next_back()?;
    let (_, above) = known.range(address..).next()?;
    let functions = |frames: &[Frame]| frames.iter().map(|frame| frame.function.clone()).collect::<Vec<_>>();
    if functions(below) != functions(above) {
        return None;
    }
    let mut frames = below.clone();
    if *at_below != address {
        // It is on some line of the function.
        frames.iter_mut().for_each(|frame| frame.line = 0);
    }
    Some(frames)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    fn functions(profile: &Profile) -> Vec<Option<&str>> {
        profile.locations.iter().map(|location| location.frames.first().map(|frame| &*frame.function)).collect()
    }

    #[test]
    fn what_one_profile_knows_of_a_build_names_what_lies_between_in_the_other() {
        let mut before = sample::profile();
        let mut after = sample::profile();
        before.locations[1] = Location { address: 0x1300, ..before.locations[0].clone() };
        for (location, address) in after.locations[..2].iter_mut().zip([0x1200, 0x1301]) {
            location.frames.clear();
            location.address = address;
        }
        let shared = shared_builds(&before, &after);
        align(&mut before, &mut after, &shared);
        let frame = &after.locations[0].frames[0];
        assert_eq!((&*frame.function, frame.line), ("spin", 0));
        assert!(after.locations[1].frames.is_empty(), "one byte past all that is known");
    }

    #[test]
    fn code_without_names_is_one_row_where_the_builds_differ() {
        let mut before = sample::profile();
        let mut after = sample::profile();
        after.mappings[1].build_id = BuildId::new(&[1, 2]);
        let shared = shared_builds(&before, &after);
        align(&mut before, &mut after, &shared);
        for profile in [&before, &after] {
            assert_eq!(functions(profile)[2], Some(UNNAMED));
            assert_eq!(functions(profile)[4..], [None; 4], "code of a JIT, and in no mapping");
        }
    }
}
