//! Writes a profile as a gzipped `profile.proto`: see [`crate::pprof`] for what is in it.

use std::collections::HashMap;
use std::io::{self, Write};
use std::time::{Duration, SystemTime};

use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message;

use crate::pprof::{label, notes, wire};
use crate::printable::printable;
use crate::profile::{Frame, Mapping, MappingKind, Mode, ProcessInfo, Profile, Row};

/// Writes a profile, gzipped.
///
/// Rows without ticks are left out. Control characters in names become U+FFFD: the readers of the file print them.
///
/// # Errors
/// Those of `to`.
pub fn write(profile: &Profile, to: impl Write) -> io::Result<()> {
    let mut gzip = GzEncoder::new(to, Compression::default());
    gzip.write_all(&encode(profile).encode_to_vec())?;
    gzip.finish()?.flush()
}

/// The messages for a profile.
pub fn encode(profile: &Profile) -> wire::Profile {
    let mut strings = Strings::new();
    let mut functions = Functions::default();
    let period_ns = nanoseconds(profile.period);
    let samples_count = wire::ValueType { r#type: strings.index("samples"), unit: strings.index("count") };
    let cpu_nanoseconds = wire::ValueType { r#type: strings.index("cpu"), unit: strings.index("nanoseconds") };
    let location = profile
        .locations
        .iter()
        .enumerate()
        .map(|(index, location)| wire::Location {
            id: id(index),
            mapping_id: location.mapping.map_or(0, id),
            address: location.address,
            line: location.frames.iter().map(|frame| functions.line(frame, &mut strings)).collect(),
        })
        .collect();
    let resolved = resolved_mappings(profile);
    let mapping = profile
        .mappings
        .iter()
        .zip(resolved)
        .enumerate()
        .map(|(index, (mapping, resolved))| encode_mapping(id(index), mapping, resolved, &mut strings))
        .collect();
    let rows = profile.rows.iter().filter(|row| row.ticks > 0);
    let sample = rows.map(|row| encode_row(row, profile, period_ns, &mut strings)).collect();
    let comment = notes::comments(profile).iter().map(|comment| strings.index(comment)).collect();
    let since_epoch = profile.start.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    wire::Profile {
        sample_type: vec![samples_count, cpu_nanoseconds],
        sample,
        mapping,
        location,
        function: functions.list,
        string_table: strings.list,
        time_nanos: nanoseconds(since_epoch),
        duration_nanos: nanoseconds(profile.duration),
        period_type: Some(cpu_nanoseconds),
        period: period_ns,
        comment,
    }
}

/// Which mappings have a location with a name.
fn resolved_mappings(profile: &Profile) -> Vec<bool> {
    let mut resolved = vec![false; profile.mappings.len()];
    for location in profile.locations.iter().filter(|location| !location.frames.is_empty()) {
        if let Some(mapping) = location.mapping {
            resolved[mapping] = true;
        }
    }
    resolved
}

/// Says that names are resolved for every mapping that a later reader could only resolve worse: those that have
/// names, whose file is another build by now or cannot be told from one for want of a build ID, or that no file stands
/// behind. `go tool pprof` then leaves them alone.
fn encode_mapping(id: u64, mapping: &Mapping, resolved: bool, strings: &mut Strings) -> wire::Mapping {
    let Mapping { kind, object, build_id, start, limit, file_offset, stale } = mapping;
    let done = resolved || *stale || *kind != MappingKind::File || build_id.is_none();
    wire::Mapping {
        id,
        memory_start: *start,
        memory_limit: *limit,
        file_offset: *file_offset,
        filename: strings.index(object),
        build_id: build_id.as_ref().map_or(0, |id| strings.index(&id.to_string())),
        has_functions: done,
        has_filenames: done,
        has_line_numbers: done,
        has_inline_frames: done,
    }
}

fn encode_row(row: &Row, profile: &Profile, period_ns: i64, strings: &mut Strings) -> wire::Sample {
    let Row { location, process, tid, mode, ticks } = row;
    let mut labels = Vec::with_capacity(6);
    if let Some(process) = process {
        let ProcessInfo { pid, generation, comm, service } = &profile.processes[*process];
        labels.push(text_label(label::PROCESS, comm, strings));
        labels.push(number_label(label::PID, *pid, strings));
        if *generation > 1 {
            labels.push(number_label(label::GENERATION, *generation, strings));
        }
        labels.extend(service.as_ref().map(|service| text_label(label::SERVICE, service, strings)));
    }
    labels.extend(tid.map(|tid| number_label(label::TID, tid, strings)));
    let mode = match mode {
        Mode::User => "user",
        Mode::Kernel => "kernel",
    };
    labels.push(text_label(label::MODE, mode, strings));
    let ticks = i64::try_from(*ticks).unwrap_or(i64::MAX);
    wire::Sample {
        location_id: vec![id(*location)],
        value: vec![ticks, ticks.saturating_mul(period_ns)],
        label: labels,
    }
}

fn text_label(key: &str, text: &str, strings: &mut Strings) -> wire::Label {
    wire::Label { key: strings.index(key), str: strings.index(text), num: 0, num_unit: 0 }
}

fn number_label(key: &str, number: u32, strings: &mut Strings) -> wire::Label {
    wire::Label { key: strings.index(key), str: 0, num: number.into(), num_unit: 0 }
}

/// Ids begin at 1: 0 means none.
fn id(index: usize) -> u64 {
    index as u64 + 1
}

fn nanoseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

/// The string table, each string once.
struct Strings {
    list: Vec<String>,
    index: HashMap<String, i64>,
}

impl Strings {
    fn new() -> Strings {
        Strings { list: vec![String::new()], index: HashMap::from([(String::new(), 0)]) }
    }

    fn index(&mut self, text: &str) -> i64 {
        let text = printable(text);
        if let Some(index) = self.index.get(text.as_ref()) {
            return *index;
        }
        let index = self.list.len() as i64;
        self.list.push(text.clone().into_owned());
        self.index.insert(text.into_owned(), index);
        index
    }
}

/// The function table, each function once.
#[derive(Default)]
struct Functions {
    list: Vec<wire::Function>,
    ids: HashMap<[i64; 3], u64>,
}

impl Functions {
    fn line(&mut self, frame: &Frame, strings: &mut Strings) -> wire::Line {
        let Frame { function, system_name, file, line } = frame;
        let name = strings.index(function);
        let system_name = system_name.as_ref().map_or(name, |system_name| strings.index(system_name));
        let filename = file.as_ref().map_or(0, |file| strings.index(file));
        let list = &mut self.list;
        let function_id = *self.ids.entry([name, system_name, filename]).or_insert_with(|| {
            let id = id(list.len());
            list.push(wire::Function { id, name, system_name, filename, start_line: 0 });
            id
        });
        wire::Line { function_id, line: i64::from(*line) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    #[test]
    fn only_an_unresolved_file_that_a_reader_can_identify_is_left_to_the_reader() {
        let open = |change: fn(&mut Profile)| {
            let mut profile = sample::profile();
            change(&mut profile);
            encode(&profile).mapping.iter().map(|mapping| !mapping.has_functions).collect::<Vec<_>>()
        };
        assert_eq!(open(|_| {}), [false; 4], "resolved, stale, kernel, anonymous");
        assert_eq!(open(|profile| profile.mappings[1].stale = false), [false, true, false, false]);
        let anyone = |profile: &mut Profile| {
            profile.mappings[1].stale = false;
            profile.mappings[1].build_id = None;
        };
        assert_eq!(open(anyone), [false; 4]);
    }

    #[test]
    fn a_string_is_stored_once_and_without_control_characters() {
        let mut strings = Strings::new();
        assert_eq!([strings.index("a\nb"), strings.index("a\u{fffd}b"), strings.index("")], [1, 1, 0]);
        assert_eq!(strings.list, ["", "a\u{fffd}b"]);
    }
}
