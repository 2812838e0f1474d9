//! Which function is meant.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use super::error::{AnnotateError, Match};
use super::ticks::{Ticks, TicksAt};
use crate::build_id::BuildId;
use crate::profile::{Frame, Mapping, MappingKind, Profile};

/// Most functions that are told when none matches.
const HOTTEST: usize = 3;

/// What to annotate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The function.
    pub query: Query,
    /// Path, base name, or the beginning of the build ID of the object that it is in; `None` when any will do.
    pub object: Option<String>,
}

/// How a function is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Query {
    /// By its name as the profile or the symbol table has it, without parameters, or by any part of it.
    Name(String),
    /// By an address in it, as the profile has addresses: SVMA where a file stands behind the code.
    Address(u64),
}

impl FromStr for Query {
    type Err = std::convert::Infallible;

    /// `0x` and hexadecimal digits are an address; everything else is a name.
    fn from_str(text: &str) -> Result<Query, Self::Err> {
        let address = text.strip_prefix("0x").and_then(|hex| u64::from_str_radix(hex, 16).ok());
        Ok(address.map_or_else(|| Query::Name(text.to_owned()), Query::Address))
    }
}

/// An object of a profile; it may have several mappings there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ObjectKey<'a> {
    pub(super) path: &'a str,
    pub(super) build_id: Option<&'a BuildId>,
}

impl<'a> ObjectKey<'a> {
    pub(super) fn of(mapping: Option<&'a Mapping>) -> ObjectKey<'a> {
        match mapping {
            Some(Mapping { object, build_id, .. }) => ObjectKey { path: object, build_id: build_id.as_ref() },
            None => ObjectKey { path: "[unknown]", build_id: None },
        }
    }

    /// Whether it is the object that a user named.
    pub(super) fn is(&self, named: Option<&str>) -> bool {
        let Some(named) = named else { return true };
        let base = self.path.rsplit('/').next();
        // Fewer digits are too likely a name.
        let by_build_id = || named.len() >= 6 && self.build_id.is_some_and(|id| id.to_string().starts_with(named));
        self.path == named || base == Some(named) || by_build_id()
    }
}

/// The function that was found: all code that has its name, in one object.
#[derive(Clone, Debug)]
pub(super) struct Chosen {
    pub(super) function: String,
    pub(super) system_name: Option<String>,
    /// Indexes of its locations with ticks, at least one, ascending.
    pub(super) locations: Vec<usize>,
    /// The functions besides it that the function asked for is inlined into.
    pub(super) also_inlined_into: Vec<Match>,
}

/// What a function is known by; its code may be in several places of the object, as `.cold` parts are.
type Key<'a> = (ObjectKey<'a>, &'a str);

/// The functions with ticks, as the profile names them: those that contain the ones inlined into them.
fn containers<'a>(
    profile: &'a Profile,
    ticks: &TicksAt,
    wanted: &Wanted,
) -> Result<BTreeMap<Key<'a>, Vec<usize>>, AnnotateError> {
    let mut found: BTreeMap<Key, Vec<usize>> = BTreeMap::new();
    let mut any_object = false;
    for (index, location) in profile.locations.iter().enumerate().filter(|(index, _)| ticks.at(*index).all > 0) {
        let object = ObjectKey::of(location.mapping.map(|mapping| &profile.mappings[mapping]));
        if !object.is(wanted.object.as_deref()) {
            continue;
        }
        any_object = true;
        if let Some(frame) = location.frames.last() {
            found.entry((object, &frame.function)).or_default().push(index);
        }
    }
    match &wanted.object {
        Some(object) if !any_object => Err(AnnotateError::NoObject { object: object.clone() }),
        _ => Ok(found),
    }
}

/// Finds the function with a name.
pub(super) fn by_name(
    profile: &Profile,
    ticks: &TicksAt,
    wanted: &Wanted,
    name: &str,
) -> Result<Chosen, AnnotateError> {
    let containers = containers(profile, ticks, wanted)?;
    // The best way in which the functions match, and those that match so. A function in its own right comes before one
    // that has it inlined.
    let mut best: Option<(Likeness, bool)> = None;
    let mut matching: BTreeSet<Key> = BTreeSet::new();
    let mut also: BTreeSet<Key> = BTreeSet::new();
    for (key, locations) in &containers {
        let frames = locations.iter().map(|location| profile.locations[*location].frames.as_slice());
        let likeness = frames.filter_map(|frames| {
            let (container, inlined) = frames.split_last()?;
            let own = Likeness::of(container, name).map(|likeness| (likeness, false));
            let inlined = inlined.iter().filter_map(|frame| Likeness::of(frame, name)).min();
            own.into_iter().chain(inlined.map(|likeness| (likeness, true))).min()
        });
        let Some(likeness) = likeness.min() else { continue };
        if best.is_none_or(|best| likeness < best) {
            let worse = std::mem::take(&mut matching);
            // Inlined copies of a function that is also there in its own right are told.
            also = if best.is_some_and(|best| best.0 == likeness.0) { worse } else { BTreeSet::new() };
            best = Some(likeness);
        }
        match best {
            Some(best) if best == likeness => drop(matching.insert(*key)),
            Some(best) if best.0 == likeness.0 => drop(also.insert(*key)),
            _ => {}
        }
    }
    let described = |keys: &BTreeSet<Key>| {
        let mut matches: Vec<Match> = keys.iter().map(|key| describe(*key, &containers[key], ticks)).collect();
        matches.sort_by(|a, b| b.cmp(a));
        matches
    };
    let mut keys = matching.iter();
    match (keys.next(), keys.next()) {
        (Some(key), None) => Ok(choose(profile, &containers[key], described(&also))),
        (Some(_), Some(_)) => Err(AnnotateError::Ambiguous { wanted: name.to_owned(), matches: described(&matching) }),
        (None, _) => {
            let mut hottest = described(&containers.keys().copied().collect());
            hottest.truncate(HOTTEST);
            Err(AnnotateError::NoMatch { wanted: name.to_owned(), hottest })
        }
    }
}

/// The functions that the profile knows around an address, by object; those of the kernel and of JIT code by name.
pub(super) fn named_at(profile: &Profile, ticks: &TicksAt, wanted: &Wanted, address: u64) -> Option<Chosen> {
    let nearest = profile
        .locations
        .iter()
        .enumerate()
        .filter(|(index, location)| location.address <= address && ticks.at(*index).all > 0)
        .filter(|(_, location)| {
            let mapping = location.mapping.map(|mapping| &profile.mappings[mapping]);
            let has_no_file =
                mapping.is_none_or(|mapping| matches!(mapping.kind, MappingKind::Kernel | MappingKind::Anonymous));
            has_no_file && ObjectKey::of(mapping).is(wanted.object.as_deref())
        })
        .max_by_key(|(_, location)| location.address)?;
    let key = |location: &crate::profile::Location| {
        let mapping = location.mapping.map(|mapping| &profile.mappings[mapping]);
        let function = location.frames.last().map(|frame| frame.function.clone());
        (mapping.map(|mapping| mapping.object.clone()), function)
    };
    let same = key(nearest.1);
    same.1.as_ref()?;
    let all = profile.locations.iter().enumerate();
    let locations: Vec<usize> = all
        .filter(|(index, location)| ticks.at(*index).all > 0 && key(location) == same)
        .map(|(index, _)| index)
        .collect();
    Some(choose(profile, &locations, Vec::new()))
}

fn choose(profile: &Profile, locations: &[usize], also_inlined_into: Vec<Match>) -> Chosen {
    let frame = locations.first().and_then(|location| profile.locations[*location].frames.last());
    Chosen {
        function: frame.map(|frame| frame.function.clone()).unwrap_or_default(),
        system_name: frame.and_then(|frame| frame.system_name.clone()),
        locations: locations.to_vec(),
        also_inlined_into,
    }
}

fn describe((object, function): Key<'_>, locations: &[usize], ticks: &TicksAt) -> Match {
    Match {
        ticks: locations.iter().fold(Ticks::default(), |sum, location| sum + ticks.at(*location)).all,
        function: function.to_owned(),
        object: object.path.to_owned(),
        build_id: object.build_id.cloned(),
    }
}

/// How well a name fits what was asked for; the best is the least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Likeness {
    /// It is the name, or the name in the symbol table.
    Whole,
    /// It is the name without parameters and return type.
    WithoutParameters,
    /// It is the last part of the path: `bar` of `foo::bar<int>(int)`, or of Go's `main.bar`.
    LastPart,
    /// It is a part of the name.
    Part,
}

impl Likeness {
    fn of(frame: &Frame, wanted: &str) -> Option<Likeness> {
        let Frame { function, system_name, .. } = frame;
        if function == wanted || system_name.as_deref() == Some(wanted) {
            return Some(Likeness::Whole);
        }
        let path = path(function);
        let last = |path: &str| {
            path.strip_suffix(wanted).is_some_and(|before| before.is_empty() || before.ends_with([':', '.', '/']))
        };
        if path == wanted {
            Some(Likeness::WithoutParameters)
        } else if last(path) || last(without_arguments(path)) {
            Some(Likeness::LastPart)
        } else if !wanted.is_empty() && function.contains(wanted) {
            Some(Likeness::Part)
        } else {
            None
        }
    }
}

/// A C++ name without parameters, return type and what follows them; other names have none of these.
fn path(name: &str) -> &str {
    let end = name.find(" [clone ").unwrap_or(name.len());
    let mut rest = name[..end].trim_end();
    for suffix in [" const", " volatile", " &", " &&"] {
        rest = rest.strip_suffix(suffix).unwrap_or(rest);
    }
    if !rest.ends_with(')') {
        return name;
    }
    let Some(open) = matching(rest, '(', ')') else { return name };
    let before = &rest[..open];
    if before.is_empty() {
        return name;
    }
    // A template's name begins with its return type: up to the last blank that no bracket encloses.
    let mut depth = 0i32;
    let blank = before.char_indices().rev().find(|(_, c)| {
        match c {
            '>' | ')' | '}' => depth += 1,
            '<' | '(' | '{' => depth -= 1,
            _ => {}
        }
        *c == ' ' && depth == 0
    });
    match blank {
        Some((at, _)) if !before.contains("operator") => &before[at + 1..],
        _ => before,
    }
}

/// A name without the arguments of the template that it ends with.
fn without_arguments(path: &str) -> &str {
    match matching(path, '<', '>') {
        Some(open) if path.ends_with('>') && open > 0 => path[..open].trim_end_matches("::"),
        _ => path,
    }
}

/// Where the bracket opens that the last character closes.
fn matching(text: &str, open: char, close: char) -> Option<usize> {
    let mut depth = 0i32;
    text.char_indices().rev().find_map(|(at, c)| {
        depth += i32::from(c == close) - i32::from(c == open);
        (depth == 0).then_some(at)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    fn find(name: &str, object: Option<&str>) -> Result<Chosen, AnnotateError> {
        let profile = sample::profile();
        let wanted = Wanted { query: Query::Name(name.into()), object: object.map(Into::into) };
        by_name(&profile, &TicksAt::of(&profile), &wanted, name)
    }

    #[test]
    fn an_address_is_hexadecimal_with_its_prefix() {
        assert_eq!("0x11Af".parse(), Ok(Query::Address(0x11af)));
        for name in ["0x", "0xyz", "cafe", "main"] {
            assert_eq!(name.parse(), Ok(Query::Name(name.into())));
        }
    }

    #[test]
    fn names_fit_whole_then_without_parameters_then_by_their_end_then_in_part() {
        let frame = |function: &str, system_name: Option<&str>| Frame {
            function: function.into(),
            system_name: system_name.map(Into::into),
            file: None,
            line: 0,
        };
        for (function, wanted, likeness) in [
            ("spin", "spin", Some(Likeness::Whole)),
            ("ns::f(int) const", "ns::f", Some(Likeness::WithoutParameters)),
            ("(anonymous namespace)::f(char (*)(int))", "(anonymous namespace)::f", Some(Likeness::WithoutParameters)),
            ("ns::f(int) [clone .cold]", "ns::f", Some(Likeness::WithoutParameters)),
            ("std::pair<int, int> ns::f<int, int>(int)", "ns::f<int, int>", Some(Likeness::WithoutParameters)),
            ("std::pair<int, int> ns::f<int, int>(int)", "f", Some(Likeness::LastPart)),
            ("T::operator()(int)", "T::operator()", Some(Likeness::WithoutParameters)),
            ("main.burn", "burn", Some(Likeness::LastPart)),
            ("core::hash::Hash<T>::hash", "hash", Some(Likeness::LastPart)),
            ("fwrite", "write", Some(Likeness::Part)),
            ("fwrite", "", None),
            ("fwrite", "read", None),
        ] {
            assert_eq!(Likeness::of(&frame(function, None), wanted), likeness, "{wanted} of {function}");
        }
        assert_eq!(Likeness::of(&frame("f(int)", Some("_Z1fi")), "_Z1fi"), Some(Likeness::Whole));
    }

    #[test]
    fn an_inlined_function_is_shown_in_the_one_that_contains_it() {
        let chosen = find("core::hash", None).expect("it is inlined into main only");
        assert_eq!((chosen.function.as_str(), chosen.locations), ("main", vec![1]));
    }

    #[test]
    fn a_part_of_several_names_lists_them_with_their_ticks() {
        insta::assert_snapshot!(find("i", None).expect_err("spin, main, do_syscall_64"), @r"
        cannot annotate `i`: it may be any of 2 functions; give the whole name, or --in OBJECT:
               600  spin  /opt/bin/burn
               150  main  /opt/bin/burn
        ");
    }

    #[test]
    fn an_unknown_name_tells_those_that_are_hot() {
        insta::assert_snapshot!(find("nothing", None).expect_err("no such function"), @"cannot annotate `nothing`: no function of that name has a tick (most have `spin`, `main`, `do_syscall_64`); `profil report` lists those that have");
        insta::assert_snapshot!(find("spin", Some("libz.so.1")).expect_err("not there"), @"cannot annotate `spin`: no function of that name has a tick; `profil report` lists those that have");
        insta::assert_snapshot!(find("spin", Some("libq.so")).expect_err("no such object"), @"cannot annotate code in `libq.so`: no object of the profile has that path, name or build ID; `profil report --by object` lists them");
    }
}
