//! The ticks of a profile by the file that they fell in, for formats that hold one object.

use std::collections::{BTreeMap, HashMap};

use crate::build_id::BuildId;
use crate::profile::{MappingKind, Mode, Profile};
use crate::report::base_name;

/// Most objects that an error names.
const NAMED: usize = 6;

/// The ticks that fell in the code of one build of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectTicks<'a> {
    /// Path of the object, as in the profile.
    pub path: &'a str,
    /// Build ID, where it has one.
    pub build_id: Option<&'a BuildId>,
    /// Ticks by address (SVMA).
    pub ticks: BTreeMap<u64, u64>,
}

impl ObjectTicks<'_> {
    /// Sum of the ticks.
    pub fn total(&self) -> u64 {
        self.ticks.values().fold(0, |sum, ticks| sum.saturating_add(*ticks))
    }

    /// Whether it has the name of a shared library; the profile says no more of what kind of file it is.
    fn is_library(&self) -> bool {
        let name = base_name(self.path);
        name.ends_with(".so") || name.contains(".so.")
    }

    fn is_called(&self, name: &str) -> bool {
        self.path == name || base_name(self.path) == name || self.build_id.is_some_and(|id| id.to_string() == name)
    }
}

/// Which ticks are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Modes {
    /// All: a tick in the kernel counts for the user code that it will return to.
    All,
    /// Those in user mode: what the instructions of the object took themselves.
    User,
}

/// Why an object cannot be chosen.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ObjectError {
    /// No tick was in the code of a file.
    #[error("cannot choose an object: the profile has no user-mode tick in the code of a file")]
    None,
    /// The profile knows none of that name.
    #[error("cannot choose the object {wanted}: no tick fell in it; there are {there}")]
    Unknown {
        /// What was asked for.
        wanted: String,
        /// What there is.
        there: String,
    },
    /// Several have that name.
    #[error("cannot choose the object {wanted}: it is one of {there}; name it by its path or its build ID")]
    Ambiguous {
        /// What was asked for.
        wanted: String,
        /// Those that have the name.
        there: String,
    },
}

/// The objects of a profile, those with most ticks first.
pub fn by_object(profile: &Profile, modes: Modes) -> Vec<ObjectTicks<'_>> {
    let mut objects: HashMap<(&str, Option<&BuildId>), BTreeMap<u64, u64>> = HashMap::new();
    for row in &profile.rows {
        let location = &profile.locations[row.location];
        let mapping = location.mapping.map(|mapping| &profile.mappings[mapping]);
        let Some(mapping) = mapping.filter(|mapping| mapping.kind == MappingKind::File) else { continue };
        if row.ticks == 0 || (modes == Modes::User && row.mode == Mode::Kernel) {
            continue;
        }
        let object = objects.entry((&mapping.object, mapping.build_id.as_ref())).or_default();
        let ticks = object.entry(location.address).or_default();
        *ticks = ticks.saturating_add(row.ticks);
    }
    let mut objects: Vec<_> =
        objects.into_iter().map(|((path, build_id), ticks)| ObjectTicks { path, build_id, ticks }).collect();
    objects.sort_by(|a, b| b.total().cmp(&a.total()).then_with(|| (a.path, a.build_id).cmp(&(b.path, b.build_id))));
    objects
}

/// The object with a path, a file name or a build ID; without one, the program with most ticks, and a library only where
/// no program has any.
///
/// # Errors
/// There is no such object, or there are several.
pub fn choose<'a>(objects: Vec<ObjectTicks<'a>>, wanted: Option<&str>) -> Result<ObjectTicks<'a>, ObjectError> {
    let Some(name) = wanted else {
        let program = objects.iter().position(|object| !object.is_library()).unwrap_or(0);
        return objects.into_iter().nth(program).ok_or(ObjectError::None);
    };
    if objects.is_empty() {
        return Err(ObjectError::None);
    }
    let (mut called, others): (Vec<_>, Vec<_>) = objects.into_iter().partition(|object| object.is_called(name));
    let wanted = name.to_owned();
    match called.len() {
        0 => Err(ObjectError::Unknown { wanted, there: listed(&others) }),
        1 => Ok(called.remove(0)),
        _ => Err(ObjectError::Ambiguous { wanted, there: listed(&called) }),
    }
}

fn listed(objects: &[ObjectTicks<'_>]) -> String {
    let name = |object: &ObjectTicks<'_>| match object.build_id {
        Some(id) => format!("{} ({id})", object.path),
        None => object.path.to_owned(),
    };
    let mut names: Vec<String> = objects.iter().take(NAMED).map(name).collect();
    if objects.len() > NAMED {
        names.push(format!("{} more", objects.len() - NAMED));
    }
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    #[test]
    fn ticks_are_added_up_by_file_and_address_in_the_modes_asked_for() {
        let mut profile = sample::profile();
        profile.rows[1].location = 1;
        let of = |modes| {
            let objects = by_object(&profile, modes);
            objects.iter().map(|object| (object.path, object.ticks.clone())).collect::<Vec<_>>()
        };
        let burn = |second| ("/opt/bin/burn", BTreeMap::from([(0x1100, 500), (0x1200, second)]));
        let library = ("/usr/lib/libz.so.1", BTreeMap::from([(0x3456, 90)]));
        assert_eq!(of(Modes::All), [burn(250), library.clone()]);
        assert_eq!(of(Modes::User), [burn(150), library]);
    }

    #[test]
    fn a_program_is_chosen_before_a_library_unless_the_library_is_named() {
        let mut profile = sample::profile();
        profile.rows[3].ticks = 10_000;
        let chosen = |wanted| choose(by_object(&profile, Modes::User), wanted).map(|object| object.path);
        assert_eq!(by_object(&profile, Modes::User)[0].path, "/usr/lib/libz.so.1");
        assert_eq!(chosen(None), Ok("/opt/bin/burn"));
        for name in ["/usr/lib/libz.so.1", "libz.so.1", "b2b2b2b2"] {
            assert_eq!(chosen(Some(name)), Ok("/usr/lib/libz.so.1"), "{name}");
        }
        insta::assert_snapshot!(chosen(Some("libz")).unwrap_err(), @"cannot choose the object libz: no tick fell in it; there are /usr/lib/libz.so.1 (b2b2b2b2), /opt/bin/burn (b1b1b1b1)");
    }

    #[test]
    fn a_name_that_several_objects_have_is_refused() {
        let mut profile = sample::profile();
        profile.mappings[1].object = "/usr/bin/burn".into();
        let refused = choose(by_object(&profile, Modes::User), Some("burn")).unwrap_err();
        assert!(matches!(refused, ObjectError::Ambiguous { .. }), "{refused}");
        profile.rows.clear();
        assert_eq!(choose(by_object(&profile, Modes::User), Some("burn")), Err(ObjectError::None));
    }
}
