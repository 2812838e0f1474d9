//! `/tmp/perf-PID.map`: the functions that a JIT compiler made, as it tells them to profilers.
//!
//! Source: `tools/perf/Documentation/jit-interface.txt` of the kernel.

use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::demangle;
use super::target_files::{self, OpenError};
use crate::profile::Frame;

/// Largest file that is read, bytes.
const SIZE_LIMIT: u64 = 256 << 20;

/// Why the functions of a JIT cannot be named.
#[derive(Debug, thiserror::Error)]
pub enum PerfMapError {
    /// The process is gone.
    #[error("cannot read the status of process {pid}")]
    Process {
        /// The process (tgid).
        pid: u32,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// There is no map, or it is no regular file.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Somebody else put it there.
    #[error("cannot use {path:?}: it belongs to uid {owner}, the process to uid {expected}")]
    ForeignOwner {
        /// Path as the target sees it.
        path: PathBuf,
        /// Who owns it.
        owner: u32,
        /// Who should.
        expected: u32,
    },
    /// It is larger than is read.
    #[error("cannot use {path:?}: it has {size} bytes, and the limit is {limit}")]
    TooLarge {
        /// Path as the target sees it.
        path: PathBuf,
        /// Its size, bytes.
        size: u64,
        /// The most that is read, bytes.
        limit: u64,
    },
    /// Its bytes could not be read.
    #[error("cannot read {path:?}")]
    Read {
        /// Path as the target sees it.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
}

/// Where a process puts its map: found while it lives, and good for reading it afterwards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PerfMapPlace {
    /// The root directory of the process.
    root: PathBuf,
    /// Its PID as it sees itself: in a container, another than ours for it.
    inner_pid: u32,
    /// Its effective uid, as we see it.
    uid: u32,
}

impl PerfMapPlace {
    /// The place for the map of a live process.
    ///
    /// # Errors
    /// [`PerfMapError::Process`].
    pub fn of_process(pid: u32) -> Result<PerfMapPlace, PerfMapError> {
        let status =
            std::fs::read(format!("/proc/{pid}/status")).map_err(|source| PerfMapError::Process { pid, source })?;
        let root =
            if target_files::shares_our_root(pid) { PathBuf::from("/") } else { format!("/proc/{pid}/root").into() };
        Ok(PerfMapPlace::from_status(pid, &String::from_utf8_lossy(&status), root))
    }

    fn from_status(pid: u32, status: &str, root: PathBuf) -> PerfMapPlace {
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
        // `NSpid:` has the PID in each namespace, the innermost last; `Uid:` the real and the effective one first.
        let inner_pid = field("NSpid:").and_then(|pids| pids.split_ascii_whitespace().next_back()?.parse().ok());
        let uid = field("Uid:").and_then(|uids| uids.split_ascii_whitespace().nth(1)?.parse().ok());
        PerfMapPlace { root, inner_pid: inner_pid.unwrap_or(pid), uid: uid.unwrap_or(0) }
    }

    /// Reads the map.
    ///
    /// A process in another root must still live.
    ///
    /// # Errors
    /// [`PerfMapError`]; most often there is no such file, because the process has no JIT or it was not asked to write
    /// one.
    pub fn read(&self) -> Result<PerfMap, PerfMapError> {
        let path = PathBuf::from(format!("/tmp/perf-{}.map", self.inner_pid));
        let file = target_files::open_below(&self.root, &path)?;
        self.read_file(&file, &path)
    }

    fn read_file(&self, file: &File, path: &Path) -> Result<PerfMap, PerfMapError> {
        let failed = |source| PerfMapError::Read { path: path.into(), source };
        let stat = file.metadata().map_err(failed)?;
        if stat.uid() != self.uid && stat.uid() != 0 {
            return Err(PerfMapError::ForeignOwner { path: path.into(), owner: stat.uid(), expected: self.uid });
        }
        if stat.size() > SIZE_LIMIT {
            return Err(PerfMapError::TooLarge { path: path.into(), size: stat.size(), limit: SIZE_LIMIT });
        }
        let mut text = Vec::with_capacity(stat.size() as usize);
        // It may still grow while it is read.
        file.take(SIZE_LIMIT).read_to_end(&mut text).map_err(failed)?;
        Ok(PerfMap::parse(&text))
    }
}

/// The functions of a JIT by address (AVMA).
#[derive(Debug, Default)]
pub struct PerfMap {
    names: Vec<u8>,
    /// Sorted by address, none overlapping the next.
    spans: Vec<Span>,
}

#[derive(Debug)]
struct Span {
    addresses: Range<u64>,
    /// Where the name is in `names`.
    name: Range<usize>,
}

impl PerfMap {
    /// Parses a map: lines of `START SIZE NAME`, numbers in hexadecimal, the name up to the end of the line.
    ///
    /// Where functions overlap, the later line is right: the JIT threw the older one away and used its place again.
    /// Lines in another form are passed over, among them a last line that is being written.
    pub fn parse(text: &[u8]) -> PerfMap {
        let mut lines: Vec<Span> = Vec::new();
        let mut at = 0;
        for line in text.split(|byte| *byte == b'\n') {
            lines.extend(parse_line(line, at));
            at += line.len() + 1;
        }
        let mut by_start: Vec<usize> = (0..lines.len()).collect();
        by_start.sort_by_key(|index| lines[*index].addresses.start);

        // A sweep over the addresses: `open` holds the functions begun, the latest line on top.
        let mut spans: Vec<Span> = Vec::with_capacity(lines.len());
        let mut open: BinaryHeap<usize> = BinaryHeap::new();
        let mut swept = 0;
        let mut sweep = |until: u64, open: &mut BinaryHeap<usize>| {
            while let Some(top) = open.peek().map(|index| &lines[*index]) {
                if swept >= until {
                    break;
                }
                let end = top.addresses.end.min(until);
                if end > swept {
                    spans.push(Span { addresses: swept..end, name: top.name.clone() });
                    swept = end;
                }
                if top.addresses.end <= swept {
                    open.pop();
                }
            }
            swept = swept.max(until);
        };
        for index in by_start {
            sweep(lines[index].addresses.start, &mut open);
            open.push(index);
        }
        sweep(u64::MAX, &mut open);
        PerfMap { names: text.to_vec(), spans }
    }

    /// Number of address ranges with a name.
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether it names nothing.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// The name of the function at an address (AVMA); bytes that are not UTF-8 are replaced.
    pub fn name_of(&self, pc: u64) -> Option<String> {
        let index = self.spans.partition_point(|span| span.addresses.start <= pc).checked_sub(1)?;
        let span = self.spans.get(index).filter(|span| span.addresses.contains(&pc))?;
        Some(String::from_utf8_lossy(&self.names[span.name.clone()]).into_owned())
    }

    /// The frames at an address: one, or none when no function is known there.
    pub fn frames(&self, pc: u64) -> Vec<Frame> {
        self.name_of(pc).map(|name| demangle::frame(&name)).into_iter().collect()
    }
}

/// Longest name that is kept, bytes.
const NAME_LIMIT: usize = 4096;

fn parse_line(line: &[u8], at: usize) -> Option<Span> {
    let number = |field: &[u8]| {
        let text = str::from_utf8(field).ok()?;
        u64::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok()
    };
    let first = line.iter().position(|byte| *byte == b' ')?;
    let second = first + 1 + line[first + 1..].iter().position(|byte| *byte == b' ')?;
    let start = number(&line[..first])?;
    let end = start.checked_add(number(&line[first + 1..second])?).filter(|end| *end > start)?;
    let name = second + 1..line.len().min(second + 1 + NAME_LIMIT);
    if line[name.clone()].is_empty() {
        return None;
    }
    Some(Span { addresses: start..end, name: at + name.start..at + name.end })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_go_to_the_end_of_the_line() {
        let map = PerfMap::parse(b"1000 10 LazyCompile:~f a.js:1:2\n0x2000 0x8 b\n");
        assert_eq!(map.name_of(0x1000).as_deref(), Some("LazyCompile:~f a.js:1:2"));
        assert_eq!(map.name_of(0x100f).as_deref(), Some("LazyCompile:~f a.js:1:2"));
        assert_eq!(map.name_of(0x1010), None);
        assert_eq!(map.name_of(0x0fff), None);
        assert_eq!(map.name_of(0x2007).as_deref(), Some("b"));
    }

    #[test]
    fn lines_in_another_form_are_passed_over() {
        let map = PerfMap::parse(b"\nx y z\n10 0 empty\n10 4 \n10 4\nffffffffffffffff 2 past\n20 4 good\n30 4 torn");
        assert_eq!(map.len(), 2);
        assert_eq!(map.name_of(0x20).as_deref(), Some("good"));
    }

    #[test]
    fn a_map_of_somebody_else_is_refused() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), "10 4 f\n").expect("written");
        // Root's maps are good for everybody, so root gives this one away; others own it themselves.
        let _ = std::os::unix::fs::chown(file.path(), Some(4242), None);
        let owner = file.as_file().metadata().expect("stat").uid();
        let place = |uid| PerfMapPlace { root: "/".into(), inner_pid: 1, uid };
        assert_eq!(place(owner).read_file(file.as_file(), file.path()).expect("its own").len(), 1);
        let foreign = place(owner + 1).read_file(file.as_file(), file.path());
        assert!(matches!(foreign, Err(PerfMapError::ForeignOwner { .. })), "{foreign:?}");
    }

    #[test]
    fn a_pipe_in_place_of_a_map_does_not_make_us_wait() {
        let root = tempfile::tempdir().expect("a directory");
        std::fs::create_dir(root.path().join("tmp")).expect("made");
        let pipe = root.path().join("tmp/perf-7.map");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs").success());
        let place = PerfMapPlace { root: root.path().into(), inner_pid: 7, uid: 0 };
        assert!(matches!(place.read(), Err(PerfMapError::Open(OpenError::NotRegular { .. }))));
    }

    #[test]
    fn a_process_in_a_container_names_its_map_by_its_inner_pid() {
        let status = "Name:\tnode\nPid:\t4242\nUid:\t0\t1000\t0\t1000\nNSpid:\t4242\t17\t7\n";
        let place = PerfMapPlace::from_status(4242, status, "/proc/4242/root".into());
        assert_eq!(place, PerfMapPlace { root: "/proc/4242/root".into(), inner_pid: 7, uid: 1000 });
    }

    #[test]
    fn this_process_sees_itself_by_its_own_pid() {
        let place = PerfMapPlace::of_process(std::process::id()).expect("we live");
        assert_eq!(place.inner_pid, std::process::id());
        assert_eq!(place.uid, rustix::process::geteuid().as_raw());
        assert_eq!(place.root, Path::new("/"));
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in proptest::collection::vec(any::<u8>(), 0..300), pc: u64) {
            let _ = PerfMap::parse(&text).name_of(pc);
        }

        #[test]
        fn the_last_line_that_covers_a_pc_names_it(lines in proptest::collection::vec((0u64..60, 1u64..30), 0..12)) {
            let text: String = lines.iter().enumerate().map(|(i, (start, size))| format!("{start:x} {size:x} f{i}\n"))
                .collect();
            let map = PerfMap::parse(text.as_bytes());
            for pc in 0..100 {
                let expected = lines.iter().rposition(|(start, size)| (*start..start + size).contains(&pc));
                prop_assert_eq!(map.name_of(pc), expected.map(|index| format!("f{index}")), "pc {:#x}", pc);
            }
        }
    }
}
