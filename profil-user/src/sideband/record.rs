//! Records of the stream, parsed. Layouts: include/uapi/linux/perf_event.h.

use perf_event_open_sys::bindings::{
    PERF_RECORD_COMM, PERF_RECORD_EXIT, PERF_RECORD_FORK, PERF_RECORD_LOST, PERF_RECORD_MISC_COMM_EXEC,
    PERF_RECORD_MISC_MMAP_BUILD_ID, PERF_RECORD_MMAP2,
};

use crate::build_id::BuildId;
use crate::symbols::target_files::Inode;

/// Bytes of the trailer that `sample_id_all` puts behind each record: pid, tid, time.
const TRAILER_BYTES: usize = 16;

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// `CLOCK_MONOTONIC`, ns.
    pub time_ns: u64,
    /// Process that changed, in the PID namespace of the reader.
    pub pid: u32,
    /// What changed.
    pub kind: RecordKind,
}

/// What a [`Record`] tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordKind {
    /// Executable memory was mapped, or made executable.
    Mapped(Mapped),
    /// The process runs another program: all its mappings are gone.
    Exec {
        /// Command name.
        comm: Vec<u8>,
    },
    /// The process was created by another one, with a copy of its mappings.
    Forked {
        /// The other one (pid).
        parent: u32,
    },
    /// The thread that the process is named by has ended; others may go on.
    Exited,
    /// The kernel had no room for records.
    Lost {
        /// How many.
        records: u64,
    },
}

/// An executable mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapped {
    /// First address (AVMA).
    pub start: u64,
    /// First address past the end (AVMA).
    pub end: u64,
    /// Byte of the file that `start` shows.
    pub file_offset: u64,
    /// Build ID of the file, where the kernel could read it at once.
    pub build_id: Option<BuildId>,
    /// The file, where the build ID is not known.
    pub inode: Option<Inode>,
    /// Path as the target sees it, `[vdso]`, `//anon` and the like.
    pub path: Vec<u8>,
}

impl Record {
    /// Parses the body of a record; `None` for records of other kinds and for bodies that are too short.
    pub(super) fn parse(kind: u32, misc: u16, body: &[u8]) -> Option<Record> {
        let (body, trailer) = body.split_at_checked(body.len().checked_sub(TRAILER_BYTES)?)?;
        let mut trailer = Reader(trailer);
        let (_pid, _tid, time_ns) = (trailer.u32()?, trailer.u32()?, trailer.u64()?);
        let mut body = Reader(body);
        let misc = u32::from(misc);
        let (pid, kind) = match kind {
            PERF_RECORD_MMAP2 => {
                let (pid, _tid) = (body.u32()?, body.u32()?);
                (pid, RecordKind::Mapped(mapped(misc, &mut body)?))
            }
            PERF_RECORD_COMM if misc & PERF_RECORD_MISC_COMM_EXEC != 0 => {
                let (pid, _tid) = (body.u32()?, body.u32()?);
                (pid, RecordKind::Exec { comm: body.string() })
            }
            PERF_RECORD_FORK => {
                let (pid, parent) = (body.u32()?, body.u32()?);
                // A new thread: nothing changes.
                if pid == parent {
                    return None;
                }
                (pid, RecordKind::Forked { parent })
            }
            PERF_RECORD_EXIT => {
                let (pid, _parent, tid) = (body.u32()?, body.u32()?, body.u32()?);
                if tid != pid {
                    return None;
                }
                (pid, RecordKind::Exited)
            }
            PERF_RECORD_LOST => {
                let (_event, records) = (body.u64()?, body.u64()?);
                (0, RecordKind::Lost { records })
            }
            _ => return None,
        };
        Some(Record { time_ns, pid, kind })
    }
}

fn mapped(misc: u32, body: &mut Reader<'_>) -> Option<Mapped> {
    let (start, length, file_offset) = (body.u64()?, body.u64()?, body.u64()?);
    let (build_id, inode) = if misc & PERF_RECORD_MISC_MMAP_BUILD_ID != 0 {
        let [size, _, _, _] = body.take::<4>()?;
        let bytes = body.take::<20>()?;
        (BuildId::new(bytes.get(..usize::from(size))?), None)
    } else {
        let (major, minor, number, _generation) = (body.u32()?, body.u32()?, body.u64()?, body.u64()?);
        (None, (number != 0).then_some(Inode { major, minor, number }))
    };
    let (_protection, _flags) = (body.u32()?, body.u32()?);
    let end = start.checked_add(length)?;
    Some(Mapped { start, end, file_offset, build_id, inode, path: body.string() })
}

/// Takes fields from the front of a body.
struct Reader<'b>(&'b [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*field)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_ne_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_ne_bytes)
    }

    /// The rest, up to its NUL.
    fn string(&mut self) -> Vec<u8> {
        let length = self.0.iter().position(|byte| *byte == 0).unwrap_or(self.0.len());
        self.0[..length].to_vec()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn body(fields: &[&[u8]], time_ns: u64) -> Vec<u8> {
        let mut body = fields.concat();
        body.extend([0; 8]);
        body.extend(time_ns.to_ne_bytes());
        body
    }

    #[test]
    fn a_mapping_with_a_build_id_reads_back() {
        let numbers: Vec<u8> = [0x7000u64, 0x1000, 0x2000].iter().flat_map(|field| field.to_ne_bytes()).collect();
        let mut id = vec![20, 0, 0, 0];
        id.extend([7; 20]);
        let body = body(&[&5u32.to_ne_bytes(), &6u32.to_ne_bytes(), &numbers, &id, &[0; 8], b"/bin/x\0\0"], 99);
        let record = Record::parse(PERF_RECORD_MMAP2, PERF_RECORD_MISC_MMAP_BUILD_ID as u16, &body);
        let mapped = Mapped {
            start: 0x7000,
            end: 0x8000,
            file_offset: 0x2000,
            build_id: BuildId::new(&[7; 20]),
            inode: None,
            path: b"/bin/x".to_vec(),
        };
        assert_eq!(record, Some(Record { time_ns: 99, pid: 5, kind: RecordKind::Mapped(mapped) }));
    }

    #[test]
    fn a_new_thread_is_no_new_process() {
        let ids: Vec<u8> = [5u32, 5, 9, 5].iter().flat_map(|field| field.to_ne_bytes()).collect();
        assert_eq!(Record::parse(PERF_RECORD_FORK, 0, &body(&[&ids, &[0; 8]], 1)), None);
    }

    proptest! {
        #[test]
        fn no_body_makes_the_parser_panic(kind in 0u32..20, misc: u16, body: Vec<u8>) {
            Record::parse(kind, misc, &body);
        }
    }
}
