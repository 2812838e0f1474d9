//! One function of a profile, instruction by instruction and line by line.
//!
//! [`Annotation::of`] finds the function and the file that ran, takes its code apart, and charges each instruction with
//! its ticks; [`view`] and [`machine`] show what comes of it.

pub mod disassembly;
pub mod error;
pub mod finder;
pub mod machine;
pub mod source;
pub mod view;

mod charge;
mod ticks;
mod wanted;

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

pub use error::{AnnotateError, Match};
pub use finder::{NoCode, ObjectFinder};
pub use source::{Place, Sources};
pub use ticks::Ticks;
pub use wanted::{Query, Wanted};

use crate::build_id::BuildId;
use crate::profile::{Location, Profile};
use finder::{Code, Found};
use ticks::TicksAt;
use wanted::{Chosen, ObjectKey};

/// A function of a profile and where in it the ticks fell.
#[derive(Clone, Debug)]
pub struct Annotation {
    /// Name of the function.
    pub function: String,
    /// Its name in the symbol table, where it differs.
    pub system_name: Option<String>,
    /// Path of its object as the target saw it.
    pub object: String,
    /// Build ID of its object.
    pub build_id: Option<BuildId>,
    /// Ticks of the function.
    pub ticks: Ticks,
    /// Ticks of the whole profile that have a place in the code.
    pub profile_ticks: u64,
    /// The file that its instructions come from, or why there are none.
    pub code: Result<PathBuf, NoCode>,
    /// The pieces of its code that have ticks, the hottest first: compilers put what is seldom run elsewhere.
    pub parts: Vec<Part>,
    /// The source lines that have ticks, the hottest first.
    pub lines: Vec<SourceLine>,
    /// The source files.
    pub sources: Sources,
    /// What a reader should know.
    pub remarks: Vec<Remark>,
}

/// A piece of code that lies together.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// Name in the symbol table; empty without code.
    pub symbol: String,
    /// Addresses: SVMA where a file stands behind the code, else AVMA.
    pub addresses: Range<u64>,
    /// Ticks.
    pub ticks: Ticks,
    /// Its instructions in ascending address order, without a gap; without code, the addresses that have ticks.
    pub rows: Vec<InstructionRow>,
}

/// An instruction and its ticks.
#[derive(Clone, Debug, PartialEq)]
pub struct InstructionRow {
    /// Address, as in [`Part::addresses`].
    pub address: u64,
    /// Ticks that found this instruction as the next one to be executed.
    pub ticks: Ticks,
    /// Share of the function's ticks, percent.
    pub percent: f64,
    /// The instruction, with the function that it jumps to or calls; `None` without code.
    pub instruction: Option<String>,
    /// The address of the system-call instruction right before, where ticks in the kernel return from it to here.
    pub system_call: Option<u64>,
    /// The functions that the instruction belongs to: the innermost inlined one first, the function itself last; empty
    /// without debug information.
    pub frames: Vec<RowFrame>,
    /// Source line: of the innermost of these functions whose source file was found, or else of the innermost. What is
    /// inlined from a library is so shown at its call, where the library's source is not at hand.
    pub place: Option<Place>,
}

/// A function at an instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowFrame {
    /// Name.
    pub function: Arc<str>,
    /// Source line in it.
    pub place: Option<Place>,
}

impl InstructionRow {
    /// The functions that the instruction was inlined from, the innermost first.
    pub fn inlined(&self) -> impl Iterator<Item = &str> {
        let (_, inlined) = self.frames.split_last().map_or((None, &[][..]), |(own, inlined)| (Some(own), inlined));
        inlined.iter().map(|frame| &*frame.function)
    }
}

/// A source line and its ticks.
#[derive(Clone, Debug, PartialEq)]
pub struct SourceLine {
    /// The line.
    pub place: Place,
    /// Ticks of its instructions in this function.
    pub ticks: Ticks,
    /// Share of the function's ticks, percent.
    pub percent: f64,
}

/// What a reader should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remark {
    /// Code of the function that was asked for is in these as well, inlined.
    AlsoInlinedInto(Vec<Match>),
    /// So many of its ticks are in functions inlined into it, which a report shows by their own names.
    Inlined(u64),
    /// The file has no build ID: that it is the one that ran is likely, not certain.
    Unproven(PathBuf),
    /// A source file has changed since the program was built.
    NewerSource(PathBuf),
    /// The file of source lines with ticks was not found, or has fewer lines.
    MissingSource(String),
    /// Ticks fell inside instructions, and were charged to those.
    InsideInstructions(u64),
    /// Ticks of the function fell on addresses that no symbol covers, or that the file does not have; they have no row.
    WithoutSymbol(u64),
}

impl Annotation {
    /// Annotates a function of a profile.
    ///
    /// # Errors
    /// [`AnnotateError`]: no function or several match, or the build that ran is not at hand.
    pub fn of(
        profile: &Profile,
        wanted: &Wanted,
        finder: &mut ObjectFinder,
        sources: Sources,
    ) -> Result<Annotation, AnnotateError> {
        let ticks = TicksAt::of(profile);
        if ticks.sum() == 0 {
            return Err(AnnotateError::NoTicksAtAll);
        }
        let (chosen, found) = match &wanted.query {
            Query::Name(name) => {
                let chosen = wanted::by_name(profile, &ticks, wanted, name)?;
                let first = &profile.locations[chosen.locations[0]];
                let found = finder.find(profile, first.mapping.map(|mapping| &profile.mappings[mapping]))?;
                (chosen, found)
            }
            Query::Address(address) => by_address(profile, &ticks, wanted, finder, *address)?,
        };
        let mut annotation = Annotation::bare(profile, &ticks, &chosen, sources);
        match &found {
            Found::NoCode(why) => {
                annotation.code = Err(*why);
                annotation.parts = vec![charge::addresses(profile, &ticks, &chosen)];
            }
            Found::Code(code) => {
                annotation.code = Ok(code.path.clone());
                let charged = charge::instructions(profile, &ticks, &chosen, code)?;
                annotation.parts = charged.parts;
                annotation.remarks.extend(charged.remarks);
            }
        }
        annotation.add_up();
        if let Found::Code(code) = &found
            && let Some(built) = code.built_by(profile)
        {
            let newer = annotation.sources.newer_than(built).into_iter();
            annotation.remarks.extend(newer.map(|path| Remark::NewerSource(path.to_owned())));
        }
        let missing: BTreeSet<&str> = (annotation.lines.iter())
            .filter(|line| annotation.source(&line.place).is_none())
            .map(|line| &*line.place.file)
            .collect();
        let missing: Vec<Remark> = missing.into_iter().map(|file| Remark::MissingSource(file.to_owned())).collect();
        annotation.remarks.extend(missing);
        Ok(annotation)
    }

    /// The text of a source line, where its file was found.
    pub fn source(&self, place: &Place) -> Option<&str> {
        self.sources.text(place)
    }

    /// What is known before the code is looked at.
    fn bare(profile: &Profile, ticks: &TicksAt, chosen: &Chosen, sources: Sources) -> Annotation {
        let first = &profile.locations[chosen.locations[0]];
        let object = ObjectKey::of(first.mapping.map(|mapping| &profile.mappings[mapping]));
        let also = &chosen.also_inlined_into;
        let mut remarks = if also.is_empty() { Vec::new() } else { vec![Remark::AlsoInlinedInto(also.clone())] };
        let is_inlined = |location: &&usize| profile.locations[**location].frames.len() > 1;
        let inlined = chosen.locations.iter().filter(is_inlined).fold(Ticks::default(), |sum, at| sum + ticks.at(*at));
        if inlined.all > 0 {
            remarks.push(Remark::Inlined(inlined.all));
        }
        Annotation {
            function: chosen.function.clone(),
            system_name: chosen.system_name.clone(),
            object: object.path.to_owned(),
            build_id: object.build_id.cloned(),
            ticks: chosen.locations.iter().fold(Ticks::default(), |sum, location| sum + ticks.at(*location)),
            profile_ticks: ticks.sum(),
            code: Err(NoCode::Unknown),
            parts: Vec::new(),
            lines: Vec::new(),
            sources,
            remarks,
        }
    }

    /// Sorts the parts, computes shares, reads the sources and adds up their lines.
    fn add_up(&mut self) {
        self.parts.sort_by(|a, b| b.ticks.cmp(&a.ticks).then(a.addresses.start.cmp(&b.addresses.start)));
        let mut lines: HashMap<Place, Ticks> = HashMap::new();
        for row in self.parts.iter_mut().flat_map(|part| &mut part.rows) {
            row.percent = row.ticks.percent_of(self.ticks.all);
            let mut places = row.frames.iter().filter_map(|frame| frame.place.as_ref());
            let innermost = places.clone().next();
            row.place = places.find(|place| self.sources.load(&place.file).is_some()).or(innermost).cloned();
            if let (Some(place), 1..) = (&row.place, row.ticks.all) {
                *lines.entry(place.clone()).or_default() += row.ticks;
            }
        }
        let line =
            |(place, ticks): (Place, Ticks)| SourceLine { place, ticks, percent: ticks.percent_of(self.ticks.all) };
        self.lines = lines.into_iter().map(line).collect();
        self.lines.sort_by(|a, b| b.ticks.cmp(&a.ticks).then_with(|| a.place.cmp(&b.place)));
    }
}

/// The function around an address, in whichever object has ticks in it.
fn by_address(
    profile: &Profile,
    ticks: &TicksAt,
    wanted: &Wanted,
    finder: &mut ObjectFinder,
    address: u64,
) -> Result<(Chosen, Found), AnnotateError> {
    let named = |object: &ObjectKey| object.is(wanted.object.as_deref());
    let mut mappings: Vec<usize> = Vec::new();
    for (index, mapping) in profile.mappings.iter().enumerate() {
        let covers = (mapping.start..mapping.limit).contains(&address) && named(&ObjectKey::of(Some(mapping)));
        let is_new = || !mappings.iter().any(|other| same_object(profile, *other, index));
        if covers && is_new() {
            mappings.push(index);
        }
    }
    if let Some(object) = &wanted.object
        && !profile.mappings.iter().any(|mapping| named(&ObjectKey::of(Some(mapping))))
    {
        return Err(AnnotateError::NoObject { object: object.clone() });
    }
    let mut found: Vec<(Chosen, Found)> = Vec::new();
    let mut failure = None;
    let mut has_function = false;
    for index in mappings {
        let code = match finder.find(profile, Some(&profile.mappings[index])) {
            Ok(Found::Code(code)) => code,
            Ok(Found::NoCode(_)) => continue,
            Err(error) => {
                failure = failure.or(Some(error));
                continue;
            }
        };
        match around(profile, ticks, &code, index, address) {
            Ok(Some(chosen)) => found.push((chosen, Found::Code(code))),
            Ok(None) => has_function = true,
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    if found.is_empty()
        && let Some(chosen) = wanted::named_at(profile, ticks, wanted, address)
    {
        let mapping = profile.locations[chosen.locations[0]].mapping.map(|mapping| &profile.mappings[mapping]);
        let none = finder.find(profile, mapping)?;
        return Ok((chosen, none));
    }
    if found.len() > 1 {
        let describe = |(chosen, _): &(Chosen, Found)| Annotation::bare(profile, ticks, chosen, Sources::default());
        let mut matches: Vec<Match> = found
            .iter()
            .map(describe)
            .map(|Annotation { ticks, function, object, build_id, .. }| Match {
                ticks: ticks.all,
                function,
                object,
                build_id,
            })
            .collect();
        matches.sort_by(|a, b| b.cmp(a));
        return Err(AnnotateError::Ambiguous { wanted: format!("{address:#x}"), matches });
    }
    match (found.pop(), failure) {
        (Some(found), _) => Ok(found),
        (None, Some(error)) => Err(error),
        (None, None) if has_function => Err(AnnotateError::NoTicks { address }),
        (None, None) => Err(AnnotateError::NoCodeThere { address }),
    }
}

fn same_object(profile: &Profile, a: usize, b: usize) -> bool {
    ObjectKey::of(Some(&profile.mappings[a])) == ObjectKey::of(Some(&profile.mappings[b]))
}

/// The function of an object around an address of one of its mappings; `None` when it has no tick.
fn around(
    profile: &Profile,
    ticks: &TicksAt,
    code: &Code,
    mapping: usize,
    address: u64,
) -> Result<Option<Chosen>, AnnotateError> {
    let no_symbol = || AnnotateError::NoSymbol { function: format!("{address:#x}"), path: code.path.clone() };
    let svma = code.svma_of(&profile.mappings[mapping], address).ok_or(AnnotateError::NoCodeThere { address })?;
    let function = code.function_at(svma)?.ok_or_else(no_symbol)?;
    let is_inside = |location: &Location| {
        let Some(own) = location.mapping.filter(|own| same_object(profile, *own, mapping)) else { return false };
        let svma = code.svma_of(&profile.mappings[own], location.address);
        svma.is_some_and(|svma| function.svmas.contains(&svma))
    };
    let all = profile.locations.iter().enumerate();
    let locations: Vec<usize> = all
        .filter(|(index, location)| ticks.at(*index).all > 0 && is_inside(location))
        .map(|(index, _)| index)
        .collect();
    if locations.is_empty() {
        return Ok(None);
    }
    let frame = crate::symbols::demangle::frame(&function.name);
    let named = locations.iter().find_map(|location| profile.locations[*location].frames.last()).unwrap_or(&frame);
    Ok(Some(Chosen {
        function: named.function.clone(),
        system_name: named.system_name.clone(),
        locations,
        also_inlined_into: Vec::new(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Frame;
    use crate::report::sample;

    fn annotate(profile: &Profile, query: Query) -> Result<Annotation, AnnotateError> {
        let wanted = Wanted { query, object: None };
        Annotation::of(profile, &wanted, &mut ObjectFinder::default(), Sources::default())
    }

    /// The profile of all tests, with names for the code of a JIT.
    fn profile() -> Profile {
        let mut profile = sample::profile();
        for location in 4..6 {
            let frame = Frame { function: "jitted".into(), system_name: None, file: Some("a.js".into()), line: 3 };
            profile.locations[location].frames = vec![frame];
        }
        profile
    }

    #[test]
    fn code_without_a_file_has_the_addresses_that_have_ticks() {
        for query in [Query::Name("jitted".into()), Query::Address(0x7f00_0000_1234)] {
            let annotation = annotate(&profile(), query).expect("it has a name");
            assert_eq!(annotation.code, Err(NoCode::MadeAtRunTime));
            let rows: Vec<_> = annotation.parts[0].rows.iter().map(|row| (row.address, row.ticks.all)).collect();
            assert_eq!(rows, [(0x7f00_0000_1000, 40), (0x7f00_0000_2000, 24)]);
            let lines: Vec<_> = annotation.lines.iter().map(|line| (line.place.line, line.ticks.all)).collect();
            assert_eq!(lines, [(3, 64)]);
        }
        let kernel = annotate(&profile(), Query::Name("do_syscall_64".into())).expect("it has a name");
        assert_eq!((kernel.code, kernel.ticks), (Err(NoCode::Kernel), Ticks { all: 70, kernel: 70 }));
    }

    #[test]
    fn a_program_that_is_nowhere_is_told() {
        let error = annotate(&profile(), Query::Name("spin".into())).expect_err("no such file here");
        insta::assert_snapshot!(error, @"cannot disassemble /opt/bin/burn: build b1b1b1b1 is not on this machine; give the directory of the file with --debug-dir, or a server in DEBUGINFOD_URLS");
    }

    #[test]
    fn a_profile_without_ticks_has_nothing_to_annotate() {
        let mut profile = profile();
        profile.rows.clear();
        let error = annotate(&profile, Query::Name("spin".into())).expect_err("no ticks");
        assert!(matches!(error, AnnotateError::NoTicksAtAll), "{error}");
    }
}
