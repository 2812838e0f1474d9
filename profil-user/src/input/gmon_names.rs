//! From the bins of a gmon.out to a profile: which program they belong to, and the functions in it.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use profil_common::Outcome;

use super::Origin;
use super::error::InputError;
use super::gathering::{Gathering, Place, Run, Ticker};
use super::gmon::{Bin, Gmon, UNNAMED_OBJECT};
use crate::build_id::BuildId;
use crate::profile::{Frame, Mapping, MappingKind, Mode, Profile};
use crate::symbols::elf_headers::ElfError;
use crate::symbols::object_file::{self, ObjectFile};
use crate::symbols::reader::{Reader, Sources};

/// Most addresses at which functions are looked for: enough for each byte of all bins, which are a few bytes each. Where they
/// are wider, functions shorter than the distance between two addresses may be passed over.
const MOST_ADDRESSES: u64 = 1 << 18;

/// The profile of a gmon.out. Its program is the one that was named, else the one that the file's own name tells.
pub(super) fn profile(gmon: Gmon, origin: Origin<'_>) -> Result<Profile, InputError> {
    let Origin { path, object } = origin;
    let named = path.and_then(Named::parse);
    let found = match object {
        Some(object) => Some(open_named(object, named.as_ref(), &gmon)?),
        None => named.as_ref().and_then(|named| named.open(path?.parent()?)),
    };
    let Gmon { ranges: _, bins, hz } = gmon;
    let mut reader = Reader::new();
    let sources = found.as_ref().map(|object| Sources { object, debug: None, shared: None });
    let pieces = match &sources {
        Some(sources) => split(bins, &mut reader, sources),
        None => bins,
    };
    let svmas: Vec<u64> = pieces.iter().map(|piece| piece.start).collect();
    let names = sources.map(|sources| reader.name(&sources, &svmas).frames);
    let mut gathering = Gathering::default();
    for (index, Bin { start, ticks, .. }) in pieces.into_iter().enumerate() {
        let frames = names.as_ref().map(|names| outermost(&names[index])).unwrap_or_default();
        let mapping = match (&found, &named) {
            (Some(object), _) => mapping_in(object, start),
            (None, Some(Named { name, build_id })) => {
                Mapping { build_id: Some(build_id.clone()), ..Mapping::whole(MappingKind::File, name) }
            }
            (None, None) => Mapping::whole(MappingKind::File, UNNAMED_OBJECT),
        };
        let place = Place { mapping: Some(mapping), address: start, frames };
        gathering.add(place, Ticker { process: None, tid: None, mode: Mode::User }, ticks, index as u64)?;
    }
    let period = hz.map(|hz| Duration::from_secs_f64(1.0 / f64::from(hz))).unwrap_or_default();
    let mut profile = gathering.finish(Outcome::Binned, Run { period, ..Run::default() });
    profile.tally.hz = hz.map_or(0.0, f64::from);
    Ok(profile)
}

/// The program that a file name `gmon.NAME.BUILDID.out` tells.
#[derive(Debug, PartialEq, Eq)]
struct Named {
    name: String,
    build_id: BuildId,
}

impl Named {
    fn parse(path: &Path) -> Option<Named> {
        let middle = path.file_name()?.to_str()?.strip_prefix("gmon.")?.strip_suffix(".out")?;
        let of = |text: &str| {
            let (name, build_id) = text.rsplit_once('.')?;
            // `gmon.NAME.1234.out` has a PID.
            let build_id = BuildId::from_hex(build_id).filter(|id| id.as_bytes().len() >= 8)?;
            (!name.is_empty()).then(|| Named { name: name.to_owned(), build_id })
        };
        // The export numbers files of one name and build.
        let numbered = |text: &str| {
            let (before, number) = text.rsplit_once('.')?;
            number.bytes().all(|byte| byte.is_ascii_digit()).then(|| of(before))?
        };
        of(middle).or_else(|| numbered(middle))
    }

    /// The program, if it is next to the file.
    fn open(&self, directory: &Path) -> Option<ObjectFile> {
        let object = open(&directory.join(&self.name)).ok()?;
        (object.build_id.as_ref() == Some(&self.build_id)).then_some(object)
    }
}

/// Opens the program that the user named, if it can be the one that ran.
fn open_named(path: &Path, named: Option<&Named>, gmon: &Gmon) -> Result<ObjectFile, InputError> {
    let object = open(path).map_err(|source| InputError::Object { path: path.to_owned(), source })?;
    let wanted = named.map(|named| &named.build_id);
    if let Some(wanted) = wanted.filter(|wanted| object.build_id.as_ref() != Some(wanted)) {
        let (path, found, wanted) = (path.to_owned(), object.build_id.clone(), wanted.clone());
        return Err(InputError::OtherBuild { path, found, wanted });
    }
    let has_code = |low: u64, high: u64| {
        object.code_segments().any(|segment| segment.svma < high && low < segment.svma.saturating_add(segment.size))
    };
    match gmon.ranges.iter().find(|(low, high)| !has_code(*low, *high)) {
        Some((low, high)) => Err(InputError::OtherText { path: path.to_owned(), low: *low, high: *high }),
        None => Ok(object),
    }
}

fn open(path: &Path) -> Result<ObjectFile, ElfError> {
    let read_error = |source| ElfError::Read { offset: 0, size: 0, source };
    // A FIFO would make the open wait.
    if !std::fs::metadata(path).map_err(read_error)?.is_file() {
        return Err(ElfError::Malformed);
    }
    let absolute = std::path::absolute(path).map_err(read_error)?;
    ObjectFile::new(File::open(path).map_err(read_error)?, &absolute, object_file::Origin::Host)
}

fn mapping_in(object: &ObjectFile, svma: u64) -> Mapping {
    let segment = object.code_segments().find(|segment| svma.wrapping_sub(segment.svma) < segment.size);
    let (start, limit, file_offset) = segment.map_or((0, u64::MAX, 0), |segment| {
        (segment.svma, segment.svma.saturating_add(segment.size), segment.file_offset)
    });
    Mapping {
        kind: MappingKind::File,
        object: object.display_path.clone(),
        build_id: object.build_id.clone(),
        start,
        limit,
        file_offset,
        stale: false,
    }
}

/// The function that holds an address. A bin is a few bytes of it, which says nothing sure of what is inlined there; and
/// gprof, whose format this is, knows functions only.
fn outermost(frames: &[Frame]) -> Vec<Frame> {
    frames.last().cloned().into_iter().collect()
}

/// Splits bins where functions begin in them, as gprof does: ticks by the number of bytes.
fn split(bins: Vec<Bin>, reader: &mut Reader, sources: &Sources<'_>) -> Vec<Bin> {
    let bytes = bins.iter().fold(0u64, |sum, bin| sum.saturating_add(bin.end - bin.start));
    let step = bytes.div_ceil(MOST_ADDRESSES).max(1);
    let looked_at = |bin: &Bin| (bin.start..bin.end).step_by(usize::try_from(step).unwrap_or(usize::MAX));
    let svmas: Vec<u64> = bins.iter().flat_map(looked_at).collect();
    // Without symbols a bin cannot straddle any.
    let Ok(functions) = reader.functions(sources, &svmas) else { return bins };
    let mut functions = functions.into_iter();
    let mut pieces = Vec::with_capacity(bins.len());
    for bin in bins {
        // Bytes that belong to no function, such as padding, did not tick.
        let found = functions.by_ref().take(looked_at(&bin).count()).flatten();
        let mut edges: Vec<u64> = found.map(|function| function.svmas.start.max(bin.start)).collect();
        edges.sort_unstable();
        edges.dedup();
        if edges.is_empty() {
            edges.push(bin.start);
        }
        pieces.extend(shares(bin, &edges));
    }
    pieces
}

/// The ticks of a bin, shared among the pieces that begin at `edges` by their bytes, each tick whole.
fn shares(bin: Bin, edges: &[u64]) -> Vec<Bin> {
    let ends = edges.iter().skip(1).copied().chain([bin.end]);
    let bytes = |start: u64, end: u64| u128::from(end - start);
    let all: u128 = edges.first().map_or(1, |first| bytes(*first, bin.end));
    let (mut pieces, mut before, mut given) = (Vec::with_capacity(edges.len()), 0u128, 0u64);
    for (start, end) in edges.iter().copied().zip(ends) {
        before += bytes(start, end);
        // Rounded sums rather than rounded parts: the ticks stay as many as they are.
        let so_far = ((u128::from(bin.ticks) * before + all / 2) / all) as u64;
        pieces.push(Bin { start, end, ticks: so_far - given });
        given = so_far;
    }
    pieces.retain(|piece| piece.ticks > 0);
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_name_tells_program_and_build() {
        let of = |name: &str| Named::parse(Path::new(name)).map(|named| (named.name, named.build_id.to_string()));
        let id = "00112233445566778899aabbccddeeff00112233";
        assert_eq!(of(&format!("dir/gmon.libz.so.1.{id}.out")), Some(("libz.so.1".into(), id.into())));
        assert_eq!(of(&format!("gmon.a.{id}.2.out")), Some(("a".into(), id.into())));
        for name in
            ["gmon.out", "gmon.burn.1234.out", "gmon.123456.out", &format!("gmon..{id}.out"), &format!("{id}.out")]
        {
            assert_eq!(of(name), None, "{name}");
        }
    }

    #[test]
    fn shares_are_whole_ticks_and_keep_their_sum() {
        let bin = Bin { start: 0x10, end: 0x14, ticks: 7 };
        let ticks =
            |edges: &[u64]| shares(bin, edges).iter().map(|piece| (piece.start, piece.ticks)).collect::<Vec<_>>();
        assert_eq!(ticks(&[0x10]), [(0x10, 7)]);
        assert_eq!(ticks(&[0x10, 0x12]), [(0x10, 4), (0x12, 3)]);
        assert_eq!(ticks(&[0x10, 0x11, 0x12]), [(0x10, 2), (0x11, 2), (0x12, 3)]);
        assert_eq!(ticks(&[0x12]), [(0x12, 7)]);
    }
}
