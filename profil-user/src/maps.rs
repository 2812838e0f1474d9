//! `/proc/PID/maps`: which files and which nameless memory a process has mapped where.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// One mapping of a process.
///
/// Source: proc_pid_maps(5), `show_map_vma` in the kernel's `fs/proc/task_mmu.c`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapEntry {
    /// First address (AVMA).
    pub start: u64,
    /// First address past the end (AVMA).
    pub end: u64,
    /// Whether its bytes can be read.
    pub readable: bool,
    /// Whether its bytes can be written.
    pub writable: bool,
    /// Whether code can run in it.
    pub executable: bool,
    /// Whether writes are seen by others; a private mapping is copied on write.
    pub shared: bool,
    /// Byte of the file that `start` stands for.
    pub offset: u64,
    /// Major and minor number of the device that holds the file; zeros without a file.
    pub device: (u32, u32),
    /// Inode number of the file; 0 without a file.
    pub inode: u64,
    /// Path as the target's mount namespace has it, or the kernel's name for the memory; empty for plain anonymous
    /// memory.
    ///
    /// For a target in a container (pivot_root) that is the path that the target sees, for one in a mere chroot(2)
    /// it is not: the directory that it is confined to comes first.
    pub path: OsString,
    /// Whether the file has been unlinked since it was mapped.
    ///
    /// The kernel says so by a suffix to the path, so a live file whose name ends in ` (deleted)` looks deleted too.
    pub deleted: bool,
}

impl MapEntry {
    /// What stands behind the mapping.
    pub fn backing(&self) -> Backing {
        Backing::of(&self.path)
    }
}

/// What stands behind a mapping, told by the name that the kernel gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Backing {
    /// A file with a path.
    File,
    /// Memory that no file with symbols stands behind: plain or named anonymous memory, a memfd, shared memory.
    Anonymous,
    /// The heap (brk).
    Heap,
    /// The stack of the main thread.
    Stack,
    /// The vDSO: an ELF image that the kernel maps.
    Vdso,
    /// The page of the old vsyscall calls, at the same address in every x86-64 process.
    Vsyscall,
    /// Other memory that the kernel made, such as `[vvar]` or `[uprobes]`.
    Kernel,
}

impl Backing {
    /// Tells the backing by the path in `/proc/PID/maps` or in a perf MMAP2 record.
    pub fn of(path: &OsStr) -> Backing {
        match path.as_bytes() {
            b"[heap]" => Backing::Heap,
            b"[vdso]" => Backing::Vdso,
            b"[vsyscall]" => Backing::Vsyscall,
            b"" => Backing::Anonymous,
            // Before 4.5 the kernel also named the stacks of threads, by their tid.
            name if name.starts_with(b"[stack") => Backing::Stack,
            // `[anon:NAME]` comes from prctl(PR_SET_VMA_ANON_NAME), `[anon_shmem:NAME]` for shared memory.
            name if name.starts_with(b"[anon") => Backing::Anonymous,
            name if name.starts_with(b"[") => Backing::Kernel,
            // What the kernel backs by a file of its own that no path leads to. `//anon` is perf's name for
            // anonymous memory; /dev/zero is shared anonymous memory.
            name if [&b"//anon"[..], b"/memfd:", b"/SYSV", b"/anon_hugepage", b"/dev/zero", b"anon_inode:"]
                .iter()
                .any(|prefix| name.starts_with(prefix)) =>
            {
                Backing::Anonymous
            }
            name if name.starts_with(b"/") => Backing::File,
            _ => Backing::Kernel,
        }
    }
}

/// Why a text is no `/proc/PID/maps`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot read line {line} of the maps: its {field} is missing or malformed")]
pub struct MapsError {
    /// Number of the line, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub field: MapsField,
}

/// A field of a line of `/proc/PID/maps`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MapsField {
    /// `START-END`, the end not below the start.
    Addresses,
    /// Permissions, such as `r-xp`.
    Permissions,
    /// Offset in the file.
    Offset,
    /// `MAJOR:MINOR` of the device.
    Device,
    /// Inode number.
    Inode,
}

impl std::fmt::Display for MapsField {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            MapsField::Addresses => "address range",
            MapsField::Permissions => "permission field",
            MapsField::Offset => "file offset",
            MapsField::Device => "device number",
            MapsField::Inode => "inode number",
        })
    }
}

/// Parses the text of `/proc/PID/maps`.
///
/// # Errors
/// The first line that is not in the kernel's form. Bytes of the path are taken as they come, whatever they are.
pub fn parse(text: &[u8]) -> Result<Vec<MapEntry>, MapsError> {
    text.split(|byte| *byte == b'\n')
        .enumerate()
        .filter(|(_, line)| !line.is_empty())
        .map(|(index, line)| parse_line(line).map_err(|field| MapsError { line: index + 1, field }))
        .collect()
}

fn parse_line(line: &[u8]) -> Result<MapEntry, MapsField> {
    let (addresses, rest) = field(line);
    let (permissions, rest) = field(rest);
    let (offset, rest) = field(rest);
    let (device, rest) = field(rest);
    let (inode, rest) = field(rest);

    let (start, end) = pair(addresses, b'-', 16).filter(|(start, end)| start <= end).ok_or(MapsField::Addresses)?;
    let &[read, write, execute, share] = permissions else { return Err(MapsField::Permissions) };
    let flag = |byte, set, clear| match byte {
        _ if byte == set => Ok(true),
        _ if byte == clear => Ok(false),
        _ => Err(MapsField::Permissions),
    };
    let (major, minor) = pair(device, b':', 16).ok_or(MapsField::Device)?;
    let device = u32::try_from(major).ok().zip(u32::try_from(minor).ok()).ok_or(MapsField::Device)?;
    let (path, deleted) = path(rest.trim_ascii_start());
    Ok(MapEntry {
        start,
        end,
        readable: flag(read, b'r', b'-')?,
        writable: flag(write, b'w', b'-')?,
        executable: flag(execute, b'x', b'-')?,
        shared: flag(share, b's', b'p')?,
        offset: number(offset, 16).ok_or(MapsField::Offset)?,
        device,
        inode: number(inode, 10).ok_or(MapsField::Inode)?,
        path,
        deleted,
    })
}

/// Splits at the first space.
fn field(line: &[u8]) -> (&[u8], &[u8]) {
    match line.iter().position(|byte| *byte == b' ') {
        Some(space) => (&line[..space], &line[space + 1..]),
        None => (line, &[]),
    }
}

fn pair(text: &[u8], separator: u8, radix: u32) -> Option<(u64, u64)> {
    let middle = text.iter().position(|byte| *byte == separator)?;
    Some((number(&text[..middle], radix)?, number(&text[middle + 1..], radix)?))
}

/// A number without sign or blanks, which `from_str_radix` would let pass.
fn number(digits: &[u8], radix: u32) -> Option<u64> {
    if !digits.first()?.is_ascii_alphanumeric() {
        return None;
    }
    u64::from_str_radix(str::from_utf8(digits).ok()?, radix).ok()
}

/// Undoes what the kernel does to a path: it writes a newline as `\012` (and a backslash as itself, so a name that
/// really holds `\012` cannot be told from one with a newline), and marks an unlinked file.
fn path(written: &[u8]) -> (OsString, bool) {
    const NEWLINE: &[u8] = b"\\012";
    let (mut rest, deleted) = match written.strip_suffix(b" (deleted)") {
        Some(path) => (path, true),
        None => (written, false),
    };
    let mut path = Vec::with_capacity(rest.len());
    while let Some((byte, after)) = rest.split_first() {
        match rest.strip_prefix(NEWLINE) {
            Some(after) => {
                path.push(b'\n');
                rest = after;
            }
            None => {
                path.push(*byte);
                rest = after;
            }
        }
    }
    (OsString::from_vec(path), deleted)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TEXT: &[u8] = b"\
55d0c0a00000-55d0c0a02000 r-xp 00001000 fe:00 247749                     /usr/bin/sed\n\
7f0000000000-7f0000001000 rw-s 00000000 00:05 77 /tmp/a b\\012c (deleted)\n\
7f0000002000-7f0000003000 ---p 00000000 00:00 0 \n\
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]\n";

    #[test]
    fn each_field_of_a_line_is_read() {
        let entries = parse(TEXT).expect("text as the kernel writes it");
        assert_eq!(
            entries[0],
            MapEntry {
                start: 0x55d0_c0a0_0000,
                end: 0x55d0_c0a0_2000,
                readable: true,
                writable: false,
                executable: true,
                shared: false,
                offset: 0x1000,
                device: (0xfe, 0),
                inode: 247_749,
                path: "/usr/bin/sed".into(),
                deleted: false,
            }
        );
        assert_eq!((entries[1].path.as_os_str(), entries[1].deleted), (OsStr::new("/tmp/a b\nc"), true));
        assert!(entries[1].shared && entries[1].writable && !entries[1].executable);
        assert_eq!(entries[2].backing(), Backing::Anonymous);
        assert_eq!((entries[3].start, entries[3].backing()), (0xffff_ffff_ff60_0000, Backing::Vsyscall));
    }

    #[test]
    fn names_tell_what_stands_behind_a_mapping() {
        for (name, backing) in [
            ("/usr/lib/libc.so.6", Backing::File),
            ("", Backing::Anonymous),
            ("//anon", Backing::Anonymous),
            ("[anon:jit]", Backing::Anonymous),
            ("[anon_shmem:x]", Backing::Anonymous),
            ("/memfd:doublemapper", Backing::Anonymous),
            ("/SYSV00000000", Backing::Anonymous),
            ("/dev/zero", Backing::Anonymous),
            ("[heap]", Backing::Heap),
            ("[stack]", Backing::Stack),
            ("[stack:42]", Backing::Stack),
            ("[vdso]", Backing::Vdso),
            ("[vvar_vclock]", Backing::Kernel),
            ("[uprobes]", Backing::Kernel),
        ] {
            assert_eq!(Backing::of(OsStr::new(name)), backing, "{name}");
        }
    }

    #[test]
    fn a_malformed_line_is_named_with_its_field() {
        for (line, field) in [
            ("zz-1 r-xp 0 0:0 0", MapsField::Addresses),
            ("2-1 r-xp 0 0:0 0", MapsField::Addresses),
            ("1-+2 r-xp 0 0:0 0", MapsField::Addresses),
            ("1-2 r-x 0 0:0 0", MapsField::Permissions),
            ("1-2 r-xq 0 0:0 0", MapsField::Permissions),
            ("1-2 r-xp  0:0 0", MapsField::Offset),
            ("1-2 r-xp 0 00 0", MapsField::Device),
            ("1-2 r-xp 0 100000000:0 0", MapsField::Device),
            ("1-2 r-xp 0 0:0", MapsField::Inode),
        ] {
            let text = format!("1-2 r-xp 0 0:0 0 /a\n{line}\n");
            assert_eq!(parse(text.as_bytes()), Err(MapsError { line: 2, field }), "{line}");
        }
    }

    #[test]
    fn maps_of_this_process_hold_the_code_of_this_function() {
        let text = std::fs::read("/proc/self/maps").expect("our own maps");
        let pc = maps_of_this_process_hold_the_code_of_this_function as *const () as u64;
        let entries = parse(&text).expect("maps as this kernel writes them");
        let entry = entries.iter().find(|entry| (entry.start..entry.end).contains(&pc)).expect("our own code");
        assert!(entry.executable && entry.backing() == Backing::File);
        assert_eq!(entry.path, std::env::current_exe().expect("our path").into_os_string());
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_parser_panic(text in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&text);
        }

        #[test]
        fn no_mutation_makes_the_parser_panic(at in 0..TEXT.len(), byte: u8, cut in 0..TEXT.len()) {
            let mut text = TEXT.to_vec();
            text[at] = byte;
            let _ = parse(&text);
            let _ = parse(&text[..cut]);
        }

        #[test]
        fn addresses_and_paths_read_back(
            start: u64, length in 0u64..1 << 40, offset: u64, inode: u64,
            path in "(/[a-z \n]{0,8}){1,4}[a-z]",
        ) {
            let end = start.saturating_add(length);
            let written = path.replace('\n', "\\012");
            let text = format!("{start:08x}-{end:08x} rwxs {offset:08x} 08:01 {inode}     {written}\n");
            let entries = parse(text.as_bytes()).expect("well-formed");
            prop_assert_eq!(entries.len(), 1);
            prop_assert_eq!((entries[0].start, entries[0].end), (start, end));
            prop_assert_eq!((entries[0].offset, entries[0].inode), (offset, inode));
            prop_assert_eq!(entries[0].path.to_str(), Some(path.as_str()));
        }
    }
}
