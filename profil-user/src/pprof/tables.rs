//! The tables of a pprof file as they are read, and the profile that they make.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use prost::Message;

use super::error::ReadError;
use super::fields::{Field, Value};
use super::{label, notes, wire};
use crate::build_id::BuildId;
use crate::printable::{printable, readable};
use crate::profile::{Frame, Location, Mapping, MappingKind, Mode, ProcessInfo, Profile, Row};
use crate::tally::Tally;

/// Most memory of the tables, bytes: some five million samples with labels. Two bytes of a hostile file can make a
/// sample of 72, so the limit of the file's size alone would not do.
const MAX_TABLE_BYTES: u64 = 1 << 30;

/// Most bytes of names once they are copied to each location: a hostile file can name one long name a million times.
const MAX_NAME_BYTES: u64 = 1 << 30;

/// What a file's fields gave so far.
#[derive(Default)]
pub(super) struct Tables {
    sample_types: Vec<wire::ValueType>,
    /// Samples, their stacks cut to the leaf.
    samples: Vec<wire::Sample>,
    mappings: Vec<wire::Mapping>,
    locations: Vec<wire::Location>,
    functions: Vec<wire::Function>,
    strings: Vec<String>,
    period_type: Option<wire::ValueType>,
    comments: Vec<i64>,
    time_ns: i64,
    duration_ns: i64,
    period: i64,
    /// Memory that the tables take, bytes.
    bytes: u64,
}

impl Tables {
    /// Whether the file has said what its values count: a sign that it is a profile.
    pub fn has_sample_type(&self) -> bool {
        !self.sample_types.is_empty()
    }

    /// Takes a field of the file.
    pub fn take(&mut self, field: &Field) -> Result<(), ReadError> {
        let bytes = match (field.number, field.value) {
            (1, Value::Bytes(bytes)) => push(&mut self.sample_types, field, bytes)?,
            (2, Value::Bytes(bytes)) => {
                let mut sample: wire::Sample = decode(field, bytes)?;
                sample.location_id = sample.location_id.first().copied().into_iter().collect();
                sample.value.shrink_to_fit();
                sample.label.shrink_to_fit();
                let bytes = size_of_val(&sample)
                    + size_of_val(&sample.location_id[..])
                    + size_of_val(&sample.value[..])
                    + size_of_val(&sample.label[..]);
                self.samples.push(sample);
                bytes
            }
            (3, Value::Bytes(bytes)) => push(&mut self.mappings, field, bytes)?,
            (4, Value::Bytes(bytes)) => {
                let mut location: wire::Location = decode(field, bytes)?;
                location.line.shrink_to_fit();
                let bytes = size_of_val(&location) + size_of_val(&location.line[..]);
                self.locations.push(location);
                bytes
            }
            (5, Value::Bytes(bytes)) => push(&mut self.functions, field, bytes)?,
            (6, Value::Bytes(bytes)) => {
                // The format demands UTF-8; older writers copied raw bytes of symbols.
                let string = readable(bytes);
                let bytes = size_of_val(&string) + string.len();
                self.strings.push(string);
                bytes
            }
            (9, Value::Number(number)) => set(&mut self.time_ns, number),
            (10, Value::Number(number)) => set(&mut self.duration_ns, number),
            (11, Value::Bytes(bytes)) => {
                self.period_type = Some(decode(field, bytes)?);
                0
            }
            (12, Value::Number(number)) => set(&mut self.period, number),
            (13, Value::Number(number)) => {
                self.comments.push(number as i64);
                size_of::<i64>()
            }
            (13, Value::Bytes(mut packed)) => {
                let before = self.comments.len();
                while !packed.is_empty() {
                    let number = prost::encoding::decode_varint(&mut packed);
                    self.comments.push(number.map_err(|source| field.malformed(Some(source)))? as i64);
                }
                size_of_val(&self.comments[before..])
            }
            // Known fields of the wrong type; unknown ones (drop_frames, doc_url, later additions) are passed over.
            (1..=6 | 9..=13, _) => return Err(field.malformed(None)),
            _ => 0,
        };
        self.bytes += bytes as u64;
        within("bytes of tables", self.bytes, MAX_TABLE_BYTES, field.offset)
    }

    /// The profile that the tables make; `end` is the size of the file.
    pub fn into_profile(self, end: u64) -> Result<Profile, ReadError> {
        let notes = notes::parse(self.comments.iter().filter_map(|index| self.string("comment", *index).ok()));
        let meter = Meter::new(&self)?;
        let mapping_ids = ids(self.mappings.iter().map(|mapping| mapping.id));
        let location_ids = ids(self.locations.iter().map(|location| location.id));
        let function_ids = ids(self.functions.iter().map(|function| function.id));

        let mappings = self
            .mappings
            .iter()
            .map(|mapping| self.mapping(mapping, notes.stale.contains(&mapping.id)))
            .collect::<Result<Vec<_>, _>>()?;
        let mut name_bytes = 0;
        let mut locations = Vec::with_capacity(self.locations.len());
        for location in &self.locations {
            let mapping = optional(&mapping_ids, location.mapping_id, "a location", "mapping")?;
            let mut frames = Vec::with_capacity(location.line.len());
            for line in &location.line {
                if let Some(function) = optional(&function_ids, line.function_id, "a location", "function")? {
                    let frame = self.frame(&self.functions[function], line.line)?;
                    name_bytes += frame_bytes(&frame);
                    within("bytes of names", name_bytes, MAX_NAME_BYTES, end)?;
                    frames.push(frame);
                }
            }
            locations.push(Location { mapping, address: location.address, frames });
        }

        let mut processes = Processes::default();
        let mut rows = Vec::with_capacity(self.samples.len());
        for sample in &self.samples {
            let ticks = meter.ticks(sample)?;
            if ticks == 0 {
                continue;
            }
            let location = match sample.location_id.first() {
                Some(id) => optional(&location_ids, *id, "a sample", "location")?,
                None => None,
            };
            let location = location.unwrap_or_else(|| nowhere(&mut locations));
            let labels = self.labels(sample)?;
            let tid = labels.tid;
            let process = processes.index(labels.process);
            rows.push(Row { location, process, tid, mode: labels.mode, ticks });
        }

        let counted = rows.iter().fold(0u64, |sum, row| sum.saturating_add(row.ticks));
        let hz = meter.period_ns.map_or(0.0, |period| 1e9 / period as f64);
        Ok(Profile {
            tally: tally(notes.tally, counted, hz),
            period: meter.period_ns.map(Duration::from_nanos).unwrap_or_default(),
            clock: notes.clock.unwrap_or_default(),
            start: SystemTime::UNIX_EPOCH + Duration::from_nanos(self.time_ns.try_into().unwrap_or(0)),
            duration: Duration::from_nanos(self.duration_ns.try_into().unwrap_or(0)),
            title: notes.title.unwrap_or_default(),
            mappings,
            locations,
            processes: processes.list,
            rows,
        })
    }

    fn string(&self, from: &'static str, index: i64) -> Result<&str, ReadError> {
        let text = usize::try_from(index).ok().and_then(|index| self.strings.get(index));
        text.map(String::as_str).ok_or(ReadError::Dangling { from, to: "string", id: index.into() })
    }

    fn mapping(&self, mapping: &wire::Mapping, stale: bool) -> Result<Mapping, ReadError> {
        let object = self.string("a mapping", mapping.filename)?;
        let build_id = BuildId::from_hex(self.string("a mapping", mapping.build_id)?);
        let kind = MappingKind::of_object(object, mapping.memory_start);
        let object = if object.is_empty() { "[anon]" } else { object }.to_owned();
        let wire::Mapping { memory_start: start, memory_limit: limit, file_offset, .. } = *mapping;
        Ok(Mapping { kind, object, build_id, start, limit, file_offset, stale })
    }

    fn frame(&self, function: &wire::Function, line: i64) -> Result<Frame, ReadError> {
        let name = self.string("a function", function.name)?;
        let system_name = self.string("a function", function.system_name)?;
        let file = self.string("a function", function.filename)?;
        // Some writers fill in one of the two names only.
        let function = if name.is_empty() { system_name } else { name };
        Ok(Frame {
            function: function.to_owned(),
            system_name: (!system_name.is_empty() && system_name != function).then(|| system_name.to_owned()),
            file: (!file.is_empty()).then(|| file.to_owned()),
            line: u32::try_from(line).unwrap_or(0),
        })
    }

    fn labels(&self, sample: &wire::Sample) -> Result<Labels<'_>, ReadError> {
        let (mut pid, mut tid, mut generation, mut comm, mut service) = (None, None, 1, None, None);
        let mut mode = Mode::User;
        for entry in &sample.label {
            let text = self.string("a label", entry.str)?;
            // A number too large for an id is no id; some writers give numbers as text.
            let number = u32::try_from(entry.num).ok().filter(|_| text.is_empty()).or_else(|| text.parse().ok());
            match self.string("a label", entry.key)? {
                label::PID => pid = number,
                label::TID => tid = number,
                label::GENERATION => generation = number.unwrap_or(1),
                label::PROCESS => comm = Some(text),
                label::SERVICE => service = Some(text).filter(|text| !text.is_empty()),
                label::COMM if comm.is_none() => comm = Some(text),
                label::MODE | label::EXECUTION_MODE if text.to_ascii_lowercase().contains("kernel") => {
                    mode = Mode::Kernel;
                }
                _ => {}
            }
        }
        let named = pid.is_some() || comm.is_some() || service.is_some();
        let process = named.then(|| (pid.unwrap_or(0), generation, comm.unwrap_or_default(), service));
        Ok(Labels { process, tid, mode })
    }
}

/// What the labels of a sample say.
struct Labels<'a> {
    process: Option<ProcessKey<'a>>,
    tid: Option<u32>,
    mode: Mode,
}

/// A process by PID, generation, command name and service.
type ProcessKey<'a> = (u32, u32, &'a str, Option<&'a str>);

/// Processes in the order in which samples name them.
#[derive(Default)]
struct Processes<'a> {
    list: Vec<ProcessInfo>,
    index: HashMap<ProcessKey<'a>, usize>,
}

impl<'a> Processes<'a> {
    fn index(&mut self, process: Option<ProcessKey<'a>>) -> Option<usize> {
        let key @ (pid, generation, comm, service) = process?;
        let list = &mut self.list;
        let index = *self.index.entry(key).or_insert_with(|| {
            let service = service.map(str::to_owned);
            list.push(ProcessInfo { pid, generation, comm: comm.to_owned(), service });
            list.len() - 1
        });
        Some(index)
    }
}

/// How a sample's values become ticks.
struct Meter {
    /// Which of the values.
    index: usize,
    /// Length of the period in the unit of that value when it is a time; `None` when it is a count.
    divisor: Option<u64>,
    /// CPU time of a tick, where the file states it.
    period_ns: Option<u64>,
}

impl Meter {
    fn new(tables: &Tables) -> Result<Meter, ReadError> {
        let name = |value: &wire::ValueType| {
            Ok::<_, ReadError>((
                tables.string("a value type", value.r#type)?,
                tables.string("a value type", value.unit)?,
            ))
        };
        let types = tables.sample_types.iter().map(name).collect::<Result<Vec<_>, _>>()?;
        let unit = tables.period_type.as_ref().map(name).transpose()?.map_or("", |(_, unit)| unit);
        let period = u64::try_from(tables.period).ok().filter(|period| *period > 0);
        let period_ns = period.zip(unit_ns(unit)).and_then(|(period, unit)| period.checked_mul(unit));
        let count = types.iter().position(|kind| *kind == ("samples", "count"));
        if let Some(index) =
            count.or_else(|| types.iter().position(|(kind, unit)| *unit == "count" && counts_ticks(kind)))
        {
            return Ok(Meter { index, divisor: None, period_ns });
        }
        let time = types.iter().enumerate().find_map(|(index, (_, unit))| Some((index, unit_ns(unit)?)));
        if let (Some((index, unit)), Some(period_ns)) = (time, period_ns) {
            return Ok(Meter { index, divisor: Some((period_ns / unit).max(1)), period_ns: Some(period_ns) });
        }
        let types = types.iter().map(|(kind, unit)| format!("{kind}/{unit}")).collect::<Vec<_>>().join(", ");
        Err(ReadError::NoTicks { types: printable(&types).into_owned() })
    }

    fn ticks(&self, sample: &wire::Sample) -> Result<u64, ReadError> {
        let value = sample.value.get(self.index);
        let value = *value.ok_or(ReadError::Dangling { from: "a sample", to: "value", id: self.index as i128 })?;
        let value = u64::try_from(value).map_err(|_| ReadError::Negative { value })?;
        Ok(match self.divisor {
            None => value,
            Some(divisor) => value / divisor + u64::from(value % divisor >= divisor.div_ceil(2)),
        })
    }
}

/// Whether a sample type that is a count is one of ticks, by the names that CPU profilers give it. Others count objects
/// (`alloc_objects`), waits (`contentions`) or goroutines, which are no shares of CPU time.
fn counts_ticks(kind: &str) -> bool {
    kind.contains("sample") || ["cpu", "ticks", "cycles"].contains(&kind)
}

/// Nanoseconds of a unit of time.
fn unit_ns(unit: &str) -> Option<u64> {
    match unit {
        "nanoseconds" => Some(1),
        "microseconds" => Some(1_000),
        "milliseconds" => Some(1_000_000),
        "seconds" => Some(1_000_000_000),
        _ => None,
    }
}

/// The tally stated in the file, if the samples still agree with it: other tools copy comments to what they filtered.
fn tally(stated: Option<Tally>, counted: u64, hz: f64) -> Tally {
    use profil_common::Outcome::{Binned, Stray};
    let agrees = |tally: &Tally| tally.outcome(Stray).saturating_add(tally.outcome(Binned)) == counted;
    stated.filter(agrees).unwrap_or_else(|| Tally::of_counted(Stray, counted, hz))
}

/// The location of samples without any.
fn nowhere(locations: &mut Vec<Location>) -> usize {
    let nowhere = Location { mapping: None, address: 0, frames: Vec::new() };
    if locations.last() != Some(&nowhere) {
        locations.push(nowhere);
    }
    locations.len() - 1
}

fn frame_bytes(frame: &Frame) -> u64 {
    let Frame { function, system_name, file, line: _ } = frame;
    let optional = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    (function.len() + optional(system_name) + optional(file)) as u64
}

fn ids(ids: impl Iterator<Item = u64>) -> HashMap<u64, usize> {
    ids.enumerate().map(|(index, id)| (id, index)).collect()
}

/// Index of an id; `None` for the id 0, which means none.
fn optional(
    ids: &HashMap<u64, usize>,
    id: u64,
    from: &'static str,
    to: &'static str,
) -> Result<Option<usize>, ReadError> {
    if id == 0 {
        return Ok(None);
    }
    ids.get(&id).copied().map(Some).ok_or(ReadError::Dangling { from, to, id: id.into() })
}

fn within(what: &'static str, asked: u64, limit: u64, offset: u64) -> Result<(), ReadError> {
    if asked > limit { Err(ReadError::TooLarge { what, asked, limit, offset }) } else { Ok(()) }
}

fn decode<M: Message + Default>(field: &Field, bytes: &[u8]) -> Result<M, ReadError> {
    M::decode(bytes).map_err(|source| field.malformed(Some(source)))
}

fn push<M: Message + Default>(list: &mut Vec<M>, field: &Field, bytes: &[u8]) -> Result<usize, ReadError> {
    list.push(decode(field, bytes)?);
    Ok(size_of::<M>())
}

fn set(slot: &mut i64, number: u64) -> usize {
    *slot = number as i64;
    0
}
