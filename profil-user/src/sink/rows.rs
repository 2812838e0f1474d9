//! Writes every row of a profile, as JSON and as CSV: what other programs compute with.

use std::io::{self, Write};

use serde::Serialize;

use crate::profile::{Mapping, MappingKind, Mode, Profile, Row};
use crate::report::machine::{JsonOutcomes, csv_cell};
use crate::report::{function_name, object_name};

/// The account of the run, and the rows. Times are in seconds, addresses and offsets are hexadecimal strings.
#[derive(Debug, Serialize)]
struct Rows<'a> {
    ticks: u64,
    expected: Option<u64>,
    missed: Option<u64>,
    outcomes: JsonOutcomes,
    hz: Option<f64>,
    cpu_seconds: Option<f64>,
    clock: &'a str,
    title: &'a str,
    rows: Vec<Cells<'a>>,
}

/// A row. Null: not known, or, as a file offset of the kernel, without a meaning.
#[derive(Debug, Serialize)]
struct Cells<'a> {
    object: String,
    build_id: Option<String>,
    address: String,
    file_offset: Option<String>,
    function: String,
    file: Option<&'a str>,
    line: Option<u32>,
    process: Option<&'a str>,
    pid: Option<u32>,
    generation: Option<u32>,
    tid: Option<u32>,
    mode: &'static str,
    ticks: u64,
}

/// Writes JSON: an object with the account of the run and `rows`, those with most ticks first.
///
/// # Errors
/// Those of `to`.
pub fn write_json(profile: &Profile, mut to: impl Write) -> io::Result<()> {
    let Profile { tally, clock, title, .. } = profile;
    let rows = Rows {
        ticks: tally.ticks,
        expected: tally.expected(),
        missed: tally.missed(),
        outcomes: JsonOutcomes::new(tally),
        hz: Some(tally.hz).filter(|hz| *hz > 0.0),
        cpu_seconds: tally.cpu_seconds,
        clock,
        title,
        rows: sorted(profile).map(|row| Cells::new(profile, row)).collect(),
    };
    serde_json::to_writer(&mut to, &rows)?;
    writeln!(to)
}

/// Writes CSV (RFC 4180, with newlines for line ends): a line of names, then the rows, those with most ticks first.
///
/// # Errors
/// Those of `to`.
pub fn write_csv(profile: &Profile, mut to: impl Write) -> io::Result<()> {
    writeln!(to, "object,build_id,address,file_offset,function,file,line,process,pid,generation,tid,mode,ticks")?;
    for row in sorted(profile) {
        let Cells {
            object,
            build_id,
            address,
            file_offset,
            function,
            file,
            line,
            process,
            pid,
            generation,
            tid,
            mode,
            ticks,
        } = Cells::new(profile, row);
        let number = |number: Option<u32>| number.map(|number| number.to_string()).unwrap_or_default();
        let cells = [
            csv_cell(&object),
            build_id.unwrap_or_default(),
            address,
            file_offset.unwrap_or_default(),
            csv_cell(&function),
            csv_cell(file.unwrap_or_default()),
            number(line),
            csv_cell(process.unwrap_or_default()),
            number(pid),
            number(generation),
            number(tid),
            mode.to_owned(),
            ticks.to_string(),
        ];
        writeln!(to, "{}", cells.join(","))?;
    }
    Ok(())
}

/// Rows with ticks, in an order that does not depend on how they were counted.
fn sorted(profile: &Profile) -> impl Iterator<Item = &Row> {
    let mut rows: Vec<&Row> = profile.rows.iter().filter(|row| row.ticks > 0).collect();
    let place = |row: &Row| {
        let location = &profile.locations[row.location];
        (location.mapping, location.address, row.process, row.tid, row.mode)
    };
    rows.sort_by(|a, b| b.ticks.cmp(&a.ticks).then_with(|| place(a).cmp(&place(b))));
    rows.into_iter()
}

impl<'a> Cells<'a> {
    fn new(profile: &'a Profile, row: &Row) -> Cells<'a> {
        let Row { location, process, tid, mode, ticks } = *row;
        let location = &profile.locations[location];
        let mapping = location.mapping.map(|mapping| &profile.mappings[mapping]);
        let frame = location.frames.first();
        let process = process.map(|process| &profile.processes[process]);
        Cells {
            object: object_name(mapping),
            build_id: mapping.and_then(|mapping| mapping.build_id.as_ref()).map(ToString::to_string),
            address: format!("{:#x}", location.address),
            file_offset: mapping.and_then(|mapping| file_offset(mapping, location.address)),
            function: function_name(frame, mapping, location.address),
            file: frame.and_then(|frame| frame.file.as_deref()),
            line: frame.map(|frame| frame.line).filter(|line| *line > 0),
            process: process.map(|process| process.comm.as_str()),
            pid: process.map(|process| process.pid),
            generation: process.map(|process| process.generation),
            tid,
            mode: match mode {
                Mode::User => "user",
                Mode::Kernel => "kernel",
            },
            ticks,
        }
    }
}

fn file_offset(mapping: &Mapping, address: u64) -> Option<String> {
    match mapping.kind {
        MappingKind::File | MappingKind::Vdso => {
            Some(format!("{:#x}", address.wrapping_sub(mapping.start).wrapping_add(mapping.file_offset)))
        }
        MappingKind::Kernel | MappingKind::Anonymous => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    fn text(write: impl Fn(&Profile, &mut Vec<u8>) -> io::Result<()>) -> String {
        let mut text = Vec::new();
        write(&sample::profile(), &mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn csv_has_every_row_and_quotes_what_it_must() {
        insta::assert_snapshot!(text(|profile, to| write_csv(profile, to)), @r#"
        object,build_id,address,file_offset,function,file,line,process,pid,generation,tid,mode,ticks
        /opt/bin/burn,b1b1b1b1,0x1100,0x1100,spin,/src/burn.c,12,burn,10,1,11,user,500
        /opt/bin/burn,b1b1b1b1,0x1200,0x1200,"core::hash<u8, ""x"">",,,burn,10,1,11,user,150
        /opt/bin/burn,b1b1b1b1,0x1100,0x1100,spin,/src/burn.c,12,burn,10,1,12,kernel,100
        /usr/lib/libz.so.1 [stale],b2b2b2b2,0x3456,0x2456,libz.so.1+0x2456,,,burn,10,1,11,user,90
        [kernel],,0xffffffff81001234,,do_syscall_64,,,"ju st
        in",10,2,21,kernel,70
        [anon],,0x7f0000001000,,[anon],,,"ju st
        in",10,2,21,user,40
        [anon],,0x7f0000002000,,[anon],,,"ju st
        in",10,2,21,user,24
        [unknown],,0xdead0000,,[unknown],,,"ju st
        in",10,2,21,user,16
        [unknown],,0xdead1000,,[unknown],,,"ju st
        in",10,2,21,user,10
        "#);
    }

    #[test]
    fn json_has_the_account_and_the_names_as_they_are() {
        let json: serde_json::Value = serde_json::from_str(&text(|profile, to| write_json(profile, to))).unwrap();
        assert_eq!(
            (&json["ticks"], &json["outcomes"]["stray"], &json["hz"]),
            (&1020.into(), &1000.into(), &100.0.into())
        );
        let rows = json["rows"].as_array().unwrap();
        assert_eq!(rows.iter().map(|row| row["ticks"].as_u64().unwrap()).sum::<u64>(), 1000);
        insta::assert_snapshot!(rows[0], @r#"{"address":"0x1100","build_id":"b1b1b1b1","file":"/src/burn.c","file_offset":"0x1100","function":"spin","generation":1,"line":12,"mode":"user","object":"/opt/bin/burn","pid":10,"process":"burn","ticks":500,"tid":11}"#);
        let row =
            rows.iter().find(|row| row["mode"] == "kernel" && row["pid"] == 10 && row["generation"] == 2).unwrap();
        assert_eq!((&row["process"], &row["file_offset"]), (&"ju st\nin".into(), &serde_json::Value::Null));
    }
}
