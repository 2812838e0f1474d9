//! The histogram of one object: bins of equal size from its first to its last tick.

use std::collections::{BTreeMap, HashMap};

use crate::build_id::BuildId;
use crate::profile::{Location, Mode, Profile};
use crate::report::{base_name, object_name};

/// Most bins of a panel: more would be narrower than a bar can be drawn.
pub const MOST_BINS: u64 = 512;

/// Fewest bins of a panel, but for code at an end of all addresses: fewer would be bars as broad as the panel.
const FEWEST_BINS: u64 = 64;

/// Empty bins at either end, which keep the first and the last bar off the edges.
const MARGIN_BINS: u64 = 4;

/// Smallest bin, bytes: what profil(2) has at its largest scale.
const SMALLEST_BIN_BYTES: u64 = 2;

/// Which objects are drawn.
#[derive(Clone, Debug)]
pub enum Choice {
    /// The objects with the most ticks; all of them if `None`.
    Largest(Option<usize>),
    /// The objects with these paths or file names.
    Named(Vec<String>),
}

/// Why there is no picture.
#[derive(Debug, thiserror::Error)]
#[error("cannot draw {name}: no object of this path or name has ticks; those with ticks are {}", known.join(", "))]
pub struct NoSuchObject {
    /// What was asked for.
    pub name: String,
    /// The file names of the objects with ticks, the largest first.
    pub known: Vec<String>,
}

/// What is drawn of a profile.
#[derive(Clone, Debug)]
pub struct Panels {
    /// The objects, that with the most ticks first.
    pub list: Vec<Panel>,
    /// Objects that are not drawn.
    pub more_objects: usize,
    /// Ticks in them.
    pub more_ticks: u64,
}

/// Ticks of an object over its addresses.
#[derive(Clone, Debug)]
pub struct Panel {
    /// Path of the object.
    pub object: String,
    /// Its build ID, where it has one.
    pub build_id: Option<BuildId>,
    /// Ticks.
    pub ticks: u64,
    /// Those among them taken in the kernel.
    pub kernel: u64,
    /// Lowest address.
    pub start: u64,
    /// Bytes of code in a bin: a power of two.
    pub bin_bytes: u64,
    /// Bins from `start` up.
    pub bins: Vec<Bin>,
    /// Functions in the order of their first ticks.
    pub functions: Vec<Extent>,
}

/// A bin.
#[derive(Clone, Debug, Default)]
pub struct Bin {
    /// Ticks.
    pub ticks: u64,
    /// Those among them taken in the kernel.
    pub kernel: u64,
    /// Functions, that with the most ticks first; `None` for code without a name.
    pub functions: Vec<(Option<String>, u64)>,
}

/// Where a function has ticks.
#[derive(Clone, Debug)]
pub struct Extent {
    /// Name.
    pub function: String,
    /// Address of its first tick.
    pub first: u64,
    /// Address of its last tick.
    pub last: u64,
    /// Ticks.
    pub ticks: u64,
    /// Bin in which it has the most.
    pub peak: usize,
}

/// What ticks at one address are.
#[derive(Clone, Copy, Default)]
struct Spot<'a> {
    ticks: u64,
    kernel: u64,
    function: Option<&'a str>,
}

/// Ticks of an object by address.
type Spots<'a> = BTreeMap<u64, Spot<'a>>;

impl Panels {
    /// Folds the ticks of a profile into bins.
    ///
    /// # Errors
    /// An object that is asked for by name has no ticks.
    pub fn new(profile: &Profile, choice: &Choice) -> Result<Panels, NoSuchObject> {
        let mut objects = objects(profile);
        let chosen = match choice {
            Choice::Largest(limit) => objects.drain(..limit.unwrap_or(usize::MAX).min(objects.len())).collect(),
            Choice::Named(names) => named(&mut objects, names)?,
        };
        let more_ticks = objects.iter().map(|object| object.ticks).sum();
        Ok(Panels { list: chosen.iter().map(Object::panel).collect(), more_objects: objects.len(), more_ticks })
    }
}

/// An object with its ticks.
struct Object<'a> {
    path: String,
    build_id: Option<&'a BuildId>,
    ticks: u64,
    spots: Spots<'a>,
}

/// The objects of a profile, that with the most ticks first.
fn objects(profile: &Profile) -> Vec<Object<'_>> {
    let mut objects: HashMap<(String, Option<&BuildId>), Spots> = HashMap::new();
    for row in profile.rows.iter().filter(|row| row.ticks > 0) {
        let location = &profile.locations[row.location];
        let mapping = location.mapping.map(|mapping| &profile.mappings[mapping]);
        let spots =
            objects.entry((object_name(mapping), mapping.and_then(|mapping| mapping.build_id.as_ref()))).or_default();
        let spot = spots.entry(location.address).or_default();
        spot.ticks = spot.ticks.saturating_add(row.ticks);
        if row.mode == Mode::Kernel {
            spot.kernel = spot.kernel.saturating_add(row.ticks);
        }
        spot.function = function(location).or(spot.function);
    }
    let mut objects: Vec<_> = objects
        .into_iter()
        .map(|((path, build_id), spots)| {
            let ticks = spots.values().fold(0u64, |sum, spot| sum.saturating_add(spot.ticks));
            Object { path, build_id, ticks, spots }
        })
        .collect();
    objects.sort_by(|a, b| b.ticks.cmp(&a.ticks).then_with(|| (&a.path, a.build_id).cmp(&(&b.path, b.build_id))));
    objects
}

/// The function that the code at a location is in: not one that was inlined there, which is in many places.
fn function(location: &Location) -> Option<&str> {
    location.frames.last().map(|frame| &*frame.function)
}

/// Takes the objects that have one of the names.
fn named<'a>(objects: &mut Vec<Object<'a>>, names: &[String]) -> Result<Vec<Object<'a>>, NoSuchObject> {
    let is = |object: &Object, name: &str| object.path == name || base_name(&object.path) == name;
    if let Some(name) = names.iter().find(|name| !objects.iter().any(|object| is(object, name))) {
        let known = objects.iter().map(|object| base_name(&object.path).to_owned()).collect();
        return Err(NoSuchObject { name: name.clone(), known });
    }
    let (chosen, rest) =
        std::mem::take(objects).into_iter().partition(|object| names.iter().any(|name| is(object, name)));
    *objects = rest;
    Ok(chosen)
}

impl Object<'_> {
    fn panel(&self) -> Panel {
        let Object { path, build_id, ticks, spots } = self;
        let (first, last) = spots.keys().next().zip(spots.keys().next_back()).map_or((0, 0), |(a, b)| (*a, *b));
        let (start, bin_bytes, count) = region(first, last);
        let mut bins = vec![Bin::default(); count];
        let mut by_name: Vec<HashMap<Option<&str>, u64>> = vec![HashMap::new(); count];
        let mut functions: Vec<Extent> = Vec::new();
        let mut peaks: HashMap<(&str, usize), u64> = HashMap::new();
        let mut known: HashMap<&str, usize> = HashMap::new();
        for (address, spot) in spots {
            let index = ((address - start) / bin_bytes) as usize;
            let bin = &mut bins[index];
            bin.ticks = bin.ticks.saturating_add(spot.ticks);
            bin.kernel = bin.kernel.saturating_add(spot.kernel);
            let of_function = by_name[index].entry(spot.function).or_default();
            *of_function = of_function.saturating_add(spot.ticks);
            let Some(name) = spot.function else { continue };
            let at = *known.entry(name).or_insert(functions.len());
            if at == functions.len() {
                let function = name.to_owned();
                functions.push(Extent { function, first: *address, last: *address, ticks: 0, peak: index });
            }
            let extent = &mut functions[at];
            extent.last = *address;
            extent.ticks = extent.ticks.saturating_add(spot.ticks);
            *peaks.entry((name, index)).or_default() += spot.ticks;
            if peaks[&(name, index)] > peaks.get(&(name, extent.peak)).copied().unwrap_or(0) {
                extent.peak = index;
            }
        }
        for (bin, names) in bins.iter_mut().zip(by_name) {
            bin.functions = names.into_iter().map(|(name, ticks)| (name.map(str::to_owned), ticks)).collect();
            bin.functions.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        }
        let kernel = bins.iter().fold(0u64, |sum, bin| sum.saturating_add(bin.kernel));
        let build_id = build_id.cloned();
        Panel { object: path.clone(), build_id, ticks: *ticks, kernel, start, bin_bytes, bins, functions }
    }
}

/// Where the bins of a range begin, how many bytes each has, and how many there are: with some empty ones at both ends.
fn region(first: u64, last: u64) -> (u64, u64, usize) {
    let mut bin_bytes = SMALLEST_BIN_BYTES;
    let count_of = |bin_bytes: u64| last / bin_bytes - first / bin_bytes + 1;
    while count_of(bin_bytes) + 2 * MARGIN_BINS > MOST_BINS {
        bin_bytes <<= 1;
    }
    let margin = (FEWEST_BINS.saturating_sub(count_of(bin_bytes)) / 2).max(MARGIN_BINS);
    // In units of bins, where nothing overflows.
    let start = (first / bin_bytes).saturating_sub(margin);
    let end = (last / bin_bytes).saturating_add(margin).min(u64::MAX / bin_bytes);
    (start * bin_bytes, bin_bytes, (end - start + 1) as usize)
}

impl Panel {
    /// Last address.
    pub fn last(&self) -> u64 {
        self.addresses(self.bins.len() - 1).1
    }

    /// First and last address of a bin.
    pub fn addresses(&self, bin: usize) -> (u64, u64) {
        let first = self.start + bin as u64 * self.bin_bytes;
        (first, first + (self.bin_bytes - 1))
    }

    /// Ticks of the fullest bin.
    pub fn most(&self) -> u64 {
        self.bins.iter().map(|bin| bin.ticks).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::report::sample;

    #[test]
    fn every_object_has_a_panel_and_every_tick_a_bin() {
        let panels = Panels::new(&sample::profile(), &Choice::Largest(None)).unwrap();
        let objects: Vec<_> = panels.list.iter().map(|panel| (&*panel.object, panel.ticks, panel.kernel)).collect();
        assert_eq!(
            objects,
            [
                ("/opt/bin/burn", 750, 100),
                ("/usr/lib/libz.so.1 [stale]", 90, 0),
                ("[kernel]", 70, 70),
                ("[anon]", 64, 0),
                ("[unknown]", 26, 0)
            ]
        );
        for panel in &panels.list {
            assert_eq!(panel.bins.iter().map(|bin| bin.ticks).sum::<u64>(), panel.ticks, "{panel:?}");
        }
    }

    #[test]
    fn a_limit_says_what_it_leaves_out_and_names_choose() {
        let panels = Panels::new(&sample::profile(), &Choice::Largest(Some(2))).unwrap();
        assert_eq!((panels.list.len(), panels.more_objects, panels.more_ticks), (2, 3, 160));
        let choice = Choice::Named(vec!["[kernel]".into(), "burn".into()]);
        let panels = Panels::new(&sample::profile(), &choice).unwrap();
        assert_eq!((panels.list.len(), panels.more_objects, panels.more_ticks), (2, 3, 180));
        let error = Panels::new(&sample::profile(), &Choice::Named(vec!["brun".into()])).unwrap_err();
        insta::assert_snapshot!(error, @"cannot draw brun: no object of this path or name has ticks; those with ticks are burn, libz.so.1 [stale], [kernel], [anon], [unknown]");
    }

    #[test]
    fn a_function_is_marked_where_it_has_the_most_ticks() {
        let panels = Panels::new(&sample::profile(), &Choice::Named(vec!["burn".into()])).unwrap();
        let panel = &panels.list[0];
        let functions: Vec<_> =
            panel.functions.iter().map(|function| (&*function.function, panel.addresses(function.peak).0)).collect();
        assert_eq!(functions, [("spin", 0x1100), ("main", 0x1200)], "main, and not what was inlined there");
    }

    proptest! {
        #[test]
        fn a_range_of_any_size_has_bins_that_can_be_drawn(a: u64, shift in 0u32..64, b: u64) {
            let (first, last) = (a, a.saturating_add(b >> shift));
            let (start, bin_bytes, count) = region(first, last);
            prop_assert!(start <= first && (last - start) / bin_bytes < count as u64);
            prop_assert!(count as u64 <= MOST_BINS && start % bin_bytes == 0 && bin_bytes.is_power_of_two());
            prop_assert!(u128::from(start) + count as u128 * u128::from(bin_bytes) <= 1 << 64);
            prop_assert!(count as u64 >= FEWEST_BINS / 2, "{count}");
            // No finer bins would have done.
            prop_assert!(bin_bytes == SMALLEST_BIN_BYTES || (last - first) / (bin_bytes / 2) >= MOST_BINS - 2 * MARGIN_BINS - 1);
        }
    }
}
