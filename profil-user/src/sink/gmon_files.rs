//! A profile as files for gprof: one for each object.

use std::collections::{BTreeMap, HashSet};

use super::by_object::{Modes, ObjectTicks, by_object};
use super::gmon::{GmonError, GmonHistogram};
use crate::printable::printable;
use crate::profile::Profile;
use crate::report::base_name;

/// Bytes of text for which bins are written when a tick fell in them: where there was none, the file says nothing.
const PAGE_BYTES: u64 = 4096;

/// gprof's unit: with bins of two bytes it charges each tick to the function that has it, and splits none.
const BYTES_PER_BIN: u64 = 2;

/// Most pages of an object that may have ticks: 256 MiB of code in use.
const MAX_PAGES: usize = 1 << 16;

/// Most bytes of an object's name in that of its file: the system allows 255 in all.
const MAX_NAME_BYTES: usize = 120;

/// A file for gprof.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GmonFile {
    /// `gmon.NAME.BUILDID.out`.
    pub name: String,
    /// Sum of the bins.
    pub ticks: u64,
    /// What is in it.
    pub histograms: Vec<GmonHistogram>,
}

/// The files of a profile, those with most ticks first. Ticks in the kernel's name count for the user code that they will
/// return to, as for profil(2); ticks in no file are in none of them.
///
/// # Errors
/// An object has ticks in more pages than any program has.
pub fn files(profile: &Profile) -> Result<Vec<GmonFile>, GmonError> {
    let mut taken = HashSet::new();
    let file = |object: ObjectTicks<'_>| {
        let histograms = histograms(&object.ticks)?;
        Ok(GmonFile { name: name(&object, &mut taken), ticks: object.total(), histograms })
    };
    by_object(profile, Modes::All).into_iter().map(file).collect()
}

fn name(object: &ObjectTicks<'_>, taken: &mut HashSet<String>) -> String {
    let base = printable(base_name(object.path)).replace('/', "_");
    let base = &base[..base.floor_char_boundary(MAX_NAME_BYTES)];
    let build_id = object.build_id.map(|id| format!(".{id}")).unwrap_or_default();
    // Two files of one name and build, such as a copy, or two without a build ID.
    let numbers = std::iter::once(String::new()).chain((2..).map(|number| format!(".{number}")));
    let mut names = numbers.map(|number| format!("gmon.{base}{build_id}{number}.out"));
    names.find(|name| taken.insert(name.clone())).unwrap_or_default()
}

/// Histograms of the pages that have ticks, neighbours in one.
fn histograms(ticks: &BTreeMap<u64, u64>) -> Result<Vec<GmonHistogram>, GmonError> {
    let mut histograms: Vec<GmonHistogram> = Vec::new();
    let mut pages = 0;
    // First address of the last page.
    let mut last = None;
    for (address, ticks) in ticks {
        let page = address / PAGE_BYTES * PAGE_BYTES;
        if last != Some(page) {
            pages += 1;
            if pages > MAX_PAGES {
                return Err(GmonError::TooLarge { bytes: pages as u64 * PAGE_BYTES });
            }
            if histograms.is_empty() || last.and_then(|last: u64| last.checked_add(PAGE_BYTES)) != Some(page) {
                histograms.push(GmonHistogram { low_pc: page, bytes_per_bin: BYTES_PER_BIN, bins: Vec::new() });
            }
            last = Some(page);
        }
        let Some(GmonHistogram { low_pc, bins, .. }) = histograms.last_mut() else { continue };
        bins.resize(((page - *low_pc + PAGE_BYTES) / BYTES_PER_BIN) as usize, 0);
        let bin = &mut bins[((address - *low_pc) / BYTES_PER_BIN) as usize];
        *bin = bin.saturating_add(*ticks);
    }
    Ok(histograms)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    #[test]
    fn each_build_of_each_object_has_a_file_of_its_own() {
        let mut profile = sample::profile();
        let names = |profile: &Profile| {
            let files = files(profile).unwrap();
            files.into_iter().map(|file| (file.name, file.ticks)).collect::<Vec<_>>()
        };
        let file = |name: &str, ticks| (name.to_owned(), ticks);
        assert_eq!(names(&profile), [file("gmon.burn.b1b1b1b1.out", 750), file("gmon.libz.so.1.b2b2b2b2.out", 90)]);
        profile.mappings[1].object = "/tmp/burn".into();
        profile.mappings[1].build_id = profile.mappings[0].build_id.clone();
        assert_eq!(names(&profile), [file("gmon.burn.b1b1b1b1.out", 750), file("gmon.burn.b1b1b1b1.2.out", 90)]);
        profile.mappings[1].object = format!("/tmp/{}\n", "ä".repeat(200));
        profile.mappings[1].build_id = None;
        let long = &names(&profile)[1].0;
        assert!(long.len() < 200 && long.ends_with("ää.out"), "{long}");
    }

    #[test]
    fn only_pages_with_ticks_are_written_and_every_tick_is_in_its_bin() {
        let ticks = BTreeMap::from([(0x1003, 5), (0x1ffe, 6), (0x2000, 7), (0x9001, 70_000)]);
        let [first, second] = histograms(&ticks).unwrap().try_into().expect("two runs of pages");
        assert_eq!((first.low_pc, first.bins.len()), (0x1000, 4096));
        assert_eq!((first.bins[1], first.bins[2047], first.bins[2048]), (5, 6, 7));
        assert_eq!((second.low_pc, second.bins.len(), second.bins[0]), (0x9000, 2048, 70_000));
        let scattered: BTreeMap<u64, u64> = (0..=MAX_PAGES as u64).map(|page| (page * 0x2000, 1)).collect();
        assert!(matches!(histograms(&scattered), Err(GmonError::TooLarge { .. })));
    }
}
