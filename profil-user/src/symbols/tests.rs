//! Tests of the whole way from a mapping of a live process to a name.

use std::path::{Path, PathBuf};

use super::debug_files::DebugFiles;
use super::elf_headers::ElfHeaders;
use super::fixtures::{PROGRAM, Running, Workshop, functions, mapped};
use super::symbol_table::SymbolTable;
use super::symbolizer::Unnamed;
use super::target_files::{Identity, Inode, MappedFile};
use super::*;
use crate::build_id::BuildId;
use crate::profile::Frame;

mod hostile;
mod lines;

fn symbols() -> Symbols {
    Symbols::new(DebugFiles::default(), "/".into())
}

/// A file that no process is asked for.
fn file(path: &Path) -> MappedFile {
    MappedFile { pid: None, start: 0, end: 0, path: path.into(), identity: Identity::default() }
}

fn name_one(symbols: &mut Symbols, id: ObjectId, svma: u64) -> Vec<Frame> {
    symbols.name(id, &[svma]).frames.remove(0)
}

fn outermost(frames: &[Frame]) -> Option<&str> {
    frames.last().map(|frame| frame.function.as_str())
}

/// The name of `hot` in a running program, by the pc.
fn name_of_hot(running: &Running, symbols: &mut Symbols) -> Option<String> {
    let entry = running.mapping(running.hot);
    assert!(entry.executable, "{entry:?}");
    let id = symbols.open(&mapped(Some(running.pid()), &entry));
    let svma = symbols.object(id).svma_of(running.hot - entry.start + entry.offset)?;
    outermost(&name_one(symbols, id, svma)).map(str::to_owned)
}

#[test]
fn a_pc_is_named_whatever_linked_the_program() {
    for options in [
        &[][..],
        &["-no-pie"],
        &["-static"],
        &["-static-pie"],
        &["-Wl,-z,noseparate-code"],
        &["-Wl,-z,separate-code"],
        &["-no-pie", "-Wl,-Ttext-segment=0x10000000"],
        &["-Wl,--build-id=none", "-s", "-rdynamic"],
        &["-fuse-ld=lld"],
        &["-fuse-ld=lld", "-Wl,--no-rosegment"],
        &["-fuse-ld=lld", "-no-pie", "-Wl,-z,separate-code"],
        &["-fuse-ld=mold"],
        &["-fuse-ld=mold", "-Wl,-z,separate-code"],
        &["-gz=zlib"],
        &["-gdwarf-4"],
        &["-ffunction-sections", "-Wl,--gc-sections"],
    ] {
        let workshop = Workshop::new();
        let running = Running::start(&workshop.program(options));
        assert_eq!(name_of_hot(&running, &mut symbols()).as_deref(), Some("hot"), "{options:?}");
    }
}

#[test]
fn code_of_a_shared_library_is_named() {
    let workshop = Workshop::new();
    let library = "#include <stdio.h>\nvolatile int sink; int hot(int x) { return sink += x; }\n\
                   void report(void) { printf(\"%lx\\n\", (unsigned long)&hot); fflush(stdout); getchar(); }\n";
    std::fs::write(workshop.path().join("library.c"), library).expect("written");
    workshop.run("gcc", ["-O1", "-fPIC", "-shared", "-o", "libhot.so", "library.c"]);
    let main = "void report(void); int main(void) { report(); }";
    let program = workshop.build("gcc", "c", main, &["libhot.so", "-Wl,-rpath,$ORIGIN"]);
    assert_eq!(name_of_hot(&Running::start(&program), &mut symbols()).as_deref(), Some("hot"));
}

#[test]
fn functions_are_named_from_their_first_to_their_last_byte_and_not_beyond() {
    let workshop = Workshop::new();
    for options in [&[][..], &["-g0"]] {
        let program = workshop.program(options);
        let mut symbols = symbols();
        let id = symbols.open(&file(&program));
        let functions = functions(&program);
        assert!(functions.iter().any(|(name, ..)| name == "quiet"));
        for (name, start, size) in functions {
            let found = symbols.name(id, &[start, start + size - 1, start + size]).frames;
            let found: Vec<_> = found.iter().map(|frames| outermost(frames)).collect();
            assert_eq!(found[..2], [Some(name.as_str()); 2], "{options:?}");
            assert_ne!(found[2], Some(name.as_str()), "{options:?}");
        }
    }
}

#[test]
fn a_symbol_without_a_size_ends_with_its_section() {
    let workshop = Workshop::new();
    let assembly = ".globl bare\n.text\nbare: nop\nnop\nret\n.globl sized\nsized: nop\nret\n\
                    .size sized, .-sized\n.type sized, @function\nnop\nnop\n.section .other, \"ax\"\nnop\nnop\n";
    std::fs::write(workshop.path().join("bare.s"), assembly).expect("written");
    workshop.run("gcc", ["-nostdlib", "-shared", "-o", "bare.so", "bare.s"]);
    let image = std::fs::read(workshop.path().join("bare.so")).expect("built");
    let headers = ElfHeaders::read(&image[..]).expect("ELF");
    let table = SymbolTable::read(&headers, &image[..]).expect("a table");
    let bare = table.find("bare").expect("named").svma;
    let name = |svma| table.name_of(svma).map(|name| String::from_utf8_lossy(name).into_owned());
    assert_eq!(name(bare + 2).as_deref(), Some("bare"));
    assert_eq!(name(bare + 4).as_deref(), Some("sized"));
    assert_eq!(name(bare + 5), None, "past the end of a sized symbol");
    let other = headers.section(".other").expect("a section").svma;
    assert_eq!(name(other), None, "another section");
}

#[test]
fn inlined_functions_and_lines_come_from_debug_information() {
    let workshop = Workshop::new();
    let program = workshop.program(&[]);
    let mut symbols = symbols();
    let id = symbols.open(&file(&program));
    let symbol = symbols.find(id, "hot").expect("read").expect("hot");
    let svmas: Vec<u64> = (symbol.svma..symbol.svma + symbol.size).collect();
    let names = symbols.name(id, &svmas);
    let inlined = names.frames.iter().find(|frames| frames.len() == 2).expect("leaf is inlined into hot");
    assert_eq!((inlined[0].function.as_str(), inlined[1].function.as_str()), ("leaf", "hot"));
    let line_of = |text: &str| PROGRAM.lines().position(|line| line.contains(text)).expect("a line") as u32 + 1;
    assert!((line_of("for (int i")..=line_of("return sink;")).contains(&inlined[0].line), "{inlined:?}");
    assert_eq!(inlined[1].line, line_of("return leaf(x)"), "the line of the call");
    assert!(inlined[0].file.as_deref().is_some_and(|file| file.ends_with("program.c")), "{inlined:?}");
}

#[test]
fn rust_and_cpp_functions_are_readable_and_keep_their_system_name() {
    let cpp = "volatile int sink; namespace ns { template <class T> struct Box {\n\
               __attribute__((noinline)) T grow(T x) { return sink += x; } }; }\n\
               int main() { return ns::Box<int>().grow(3); }";
    let rust = "pub mod inner { #[inline(never)] pub fn grow(x: u32) -> u32 { std::hint::black_box(x) + 1 } }\n\
                fn main() { std::process::exit(inner::grow(3) as i32) }";
    let build_rust = |debug: &'static str| {
        move |workshop: &Workshop| {
            std::fs::write(workshop.path().join("program.rs"), rust).expect("written");
            workshop.run("rustc", ["-O", debug, "program.rs"]);
            workshop.path().join("program")
        }
    };
    let build_cpp = |workshop: &Workshop| workshop.build("g++", "cpp", cpp, &[]);
    let check = |build: &dyn Fn(&Workshop) -> PathBuf, mangled: &str, readable: &str| {
        let workshop = Workshop::new();
        let program = build(&workshop);
        let (name, svma, _) = functions(&program).into_iter().find(|(name, ..)| name.contains(mangled)).expect(mangled);
        let mut symbols = symbols();
        let id = symbols.open(&file(&program));
        let frames = name_one(&mut symbols, id, svma);
        assert_eq!(outermost(&frames), Some(readable));
        assert_eq!(frames.last().and_then(|frame| frame.system_name.as_deref()), Some(name.as_str()));
    };
    check(&build_cpp, "grow", "ns::Box<int>::grow(int)");
    for debug in ["-Cdebuginfo=2", "-Cdebuginfo=line-tables-only", "-Cdebuginfo=0"] {
        check(&build_rust(debug), "inner4grow", "program::inner::grow");
    }
}

/// Builds a program, moves its debug information to `program.debug`, and gives the SVMA of `quiet`.
fn build_stripped(workshop: &Workshop, options: &[&str]) -> (PathBuf, u64) {
    let program = workshop.program(options);
    let quiet = functions(&program).into_iter().find(|(name, ..)| name == "quiet").expect("quiet").1;
    workshop.run("objcopy", ["--only-keep-debug", "program", "program.debug"]);
    workshop.run("objcopy", ["--strip-all", "program"]);
    (program, quiet)
}

#[test]
fn a_stripped_file_has_no_names_and_says_why() {
    let workshop = Workshop::new();
    let (program, quiet) = build_stripped(&workshop, &[]);
    let mut symbols = symbols();
    let id = symbols.open(&file(&program));
    let names = symbols.name(id, &[quiet]);
    assert_eq!((names.frames, names.unnamed), (vec![vec![]], Some(Unnamed::Stripped)));
}

#[test]
fn a_debug_link_leads_to_names_if_build_id_or_checksum_agree() {
    for options in [&[][..], &["-Wl,--build-id=none"]] {
        for directory in ["", ".debug"] {
            let workshop = Workshop::new();
            let (program, quiet) = build_stripped(&workshop, options);
            workshop.run("objcopy", ["--add-gnu-debuglink=program.debug", "program"]);
            let place = workshop.path().join(directory);
            std::fs::create_dir_all(&place).expect("made");
            std::fs::rename(workshop.path().join("program.debug"), place.join("program.debug")).expect("moved");
            let mut symbols = symbols();
            let id = symbols.open(&file(&program));
            let frames = name_one(&mut symbols, id, quiet);
            assert_eq!(outermost(&frames), Some("quiet"), "{options:?}, {directory:?}");
            assert_ne!(frames[0].line, 0);

            // Another build of the same program, at the same place.
            let other = Workshop::new();
            other.build("gcc", "c", &PROGRAM.replace("quiet", "other"), options);
            other.run("objcopy", ["--only-keep-debug", "program", "program.debug"]);
            std::fs::copy(other.path().join("program.debug"), place.join("program.debug")).expect("copied");
            let names = symbols.name(id, &[quiet]);
            assert_eq!(names.unnamed, Some(Unnamed::Stripped), "names of another build");
        }
    }
}

#[test]
fn debug_directories_are_searched_by_build_id() {
    let workshop = Workshop::new();
    let (program, quiet) = build_stripped(&workshop, &[]);
    let mut without = symbols();
    let id = without.open(&file(&program));
    let hex = without.object(id).build_id.as_ref().expect("a build ID").to_string();
    let directory = workshop.path().join("debug/.build-id").join(&hex[..2]);
    std::fs::create_dir_all(&directory).expect("made");
    let place = directory.join(format!("{}.debug", &hex[2..]));
    std::fs::rename(workshop.path().join("program.debug"), place).expect("moved");

    let debug_files = DebugFiles { directories: vec![workshop.path().join("debug")], debuginfod: None };
    let mut symbols = Symbols::new(debug_files, "/".into());
    let id = symbols.open(&file(&program));
    assert_eq!(outermost(&name_one(&mut symbols, id, quiet)), Some("quiet"));
    assert_eq!(
        symbols.find(id, "counters").map(|symbol| symbol.map(|symbol| symbol.size)),
        Ok(Some(64)),
        "data objects too"
    );
}

#[test]
fn a_profile_of_another_host_is_named_by_build_id_and_by_nothing_else() {
    let workshop = Workshop::new();
    let (program, quiet) = build_stripped(&workshop, &[]);
    let build_id = symbols_of(&program).build_id.clone().expect("a build ID");
    let hex = build_id.to_string();
    let directory = workshop.path().join("debug/.build-id").join(&hex[..2]);
    std::fs::create_dir_all(&directory).expect("made");
    std::fs::rename(workshop.path().join("program.debug"), directory.join(format!("{}.debug", &hex[2..])))
        .expect("moved");
    // Here another build stands at the path.
    workshop.build("gcc", "c", &PROGRAM.replace("quiet", "wrong"), &[]);

    for (build_id, name) in
        [(Some(build_id), Some("quiet")), (BuildId::from_hex("0102030405060708"), None), (None, None)]
    {
        let mut profile = profile_at(&program, build_id, quiet);
        let mut debug_files = DebugFiles { directories: vec![workshop.path().join("debug")], debuginfod: None };
        assert_eq!(late::name_unnamed(&mut profile, &mut debug_files), []);
        assert_eq!(outermost(&profile.locations[0].frames), name);
    }
}

fn symbols_of(program: &Path) -> ObjectFile {
    ObjectFile::new(std::fs::File::open(program).expect("built"), program, Origin::Host).expect("ELF")
}

/// A profile with one location without a name.
fn profile_at(program: &Path, build_id: Option<BuildId>, address: u64) -> crate::profile::Profile {
    use crate::profile::{Location, Mapping, MappingKind, Profile};
    let object = program.display().to_string();
    let (kind, limit) = (MappingKind::File, u64::MAX);
    Profile {
        tally: crate::tally::Tally::default(),
        period: Duration::from_millis(1),
        clock: String::new(),
        start: std::time::SystemTime::UNIX_EPOCH,
        duration: Duration::ZERO,
        title: String::new(),
        mappings: vec![Mapping { kind, object, build_id, start: 0, limit, file_offset: 0, stale: false }],
        locations: vec![Location { mapping: Some(0), address, frames: Vec::new() }],
        processes: Vec::new(),
        rows: Vec::new(),
    }
}

#[test]
fn a_deleted_or_replaced_program_is_named_through_its_mapping() {
    let workshop = Workshop::new();
    let program = workshop.program(&[]);
    let running = Running::start(&program);
    std::fs::remove_file(&program).expect("removed");
    assert_eq!(name_of_hot(&running, &mut symbols()).as_deref(), Some("hot"), "deleted");

    workshop.build("gcc", "c", &PROGRAM.replace("hot", "wrong"), &[]);
    assert_eq!(name_of_hot(&running, &mut symbols()).as_deref(), Some("hot"), "replaced");
}

#[test]
fn a_replaced_program_that_only_its_path_leads_to_is_stale() {
    let workshop = Workshop::new();
    let program = workshop.program(&[]);
    let running = Running::start(&program);
    let entry = running.mapping(running.hot);
    let mut symbols = symbols();
    let id = symbols.open(&mapped(Some(running.pid()), &entry));
    let build_id = symbols.object(id).build_id.clone();
    drop(running);
    std::fs::remove_file(&program).expect("removed");
    workshop.build("gcc", "c", &PROGRAM.replace("hot", "wrong"), &[]);
    let inode = Inode { major: entry.device.0, minor: entry.device.1, number: entry.inode };
    for identity in [
        Identity { build_id: build_id.clone(), inode: None },
        Identity { build_id: BuildId::from_hex("0102030405060708"), inode: None },
        Identity { build_id: None, inode: Some(Inode { number: entry.inode + 1_000_000, ..inode }) },
    ] {
        let id = symbols.open(&MappedFile { identity: identity.clone(), ..mapped(None, &entry) });
        // On overlayfs an inode number proves nothing.
        let proves_nothing = identity.build_id.is_none()
            && target_files::same_inode(&std::fs::File::open(&program).expect("opens"), inode).is_none();
        assert!(symbols.object(id).is_stale() || proves_nothing, "{identity:?}");
        if symbols.object(id).is_stale() {
            assert_eq!(symbols.object(id).svma_of(0x1000), None);
            assert_eq!(symbols.name(id, &[0x1000]).unnamed, Some(Unnamed::Stale));
        }
    }
}

#[test]
fn a_file_that_is_gone_or_no_program_says_so() {
    let workshop = Workshop::new();
    let mut symbols = symbols();
    let id = symbols.open(&file(&workshop.path().join("nowhere")));
    assert_eq!(symbols.name(id, &[0, 1]).unnamed, Some(Unnamed::FileGone));
    std::fs::write(workshop.path().join("text"), "no program").expect("written");
    let id = symbols.open(&file(&workshop.path().join("text")));
    assert_eq!(symbols.name(id, &[0]).unnamed, Some(Unnamed::NotElf));
    let id = symbols.open(&file(workshop.path()));
    assert_eq!(symbols.name(id, &[0]).unnamed, Some(Unnamed::FileGone), "a directory");
}

#[test]
fn one_file_is_one_object() {
    let workshop = Workshop::new();
    let program = workshop.program(&[]);
    let mut symbols = symbols();
    assert_eq!(symbols.open(&file(&program)), symbols.open(&file(&program)));
}

#[test]
fn text_and_segments_hold_the_code() {
    let workshop = Workshop::new();
    let program = workshop.program(&["-fuse-ld=lld"]);
    let mut symbols = symbols();
    let id = symbols.open(&file(&program));
    let hot = symbols.find(id, "hot").expect("read").expect("hot").svma;
    let object = symbols.object(id).file.as_ref().expect("usable");
    assert!(object.text_span().expect("text").contains(&hot));
    let offset = object.file_offset_of(hot).expect("in the file");
    assert_ne!(offset, hot, "lld gives code another address than its place in the file");
    assert_eq!(object.svma_of(offset), Some(hot));
    assert!(object.segment_of(offset).is_some_and(|segment| segment.is_code()));
}

#[test]
fn a_file_without_section_headers_still_has_addresses_and_a_build_id() {
    let workshop = Workshop::new();
    let program = workshop.program(&["-Wl,--build-id"]);
    let with_sections = symbols();
    let (hot, expected) = {
        let mut symbols = with_sections;
        let id = symbols.open(&file(&program));
        (symbols.find(id, "hot").expect("read").expect("hot").svma, symbols.object(id).build_id.clone())
    };
    let mut bytes = std::fs::read(&program).expect("read");
    // e_shoff; e_shentsize is left, e_shnum and e_shstrndx are cleared.
    bytes[40..48].fill(0);
    bytes[60..64].fill(0);
    std::fs::write(workshop.path().join("bare"), bytes).expect("written");
    let mut symbols = symbols();
    let id = symbols.open(&file(&workshop.path().join("bare")));
    assert!(expected.is_some() && symbols.object(id).build_id == expected);
    let object = symbols.object(id).file.as_ref().expect("usable");
    assert!(object.text_span().expect("a code segment").contains(&hot));
    assert_eq!(object.svma_of(object.file_offset_of(hot).expect("in the file")), Some(hot));
    assert_eq!(symbols.name(id, &[hot]).unnamed, Some(Unnamed::Stripped));
}

#[test]
fn more_files_than_descriptors_are_named_all_the_same() {
    let workshop = Workshop::new();
    let mut symbols = symbols();
    let paths: Vec<PathBuf> = (0..OPEN_LIMIT + 3).map(|index| workshop.path().join(index.to_string())).collect();
    let ids: Vec<ObjectId> = paths
        .iter()
        .map(|path| {
            std::fs::write(path, small_elf()).expect("written");
            symbols.open(&file(path))
        })
        .collect();
    let closed = |symbols: &Symbols| {
        ids.iter().filter(|id| symbols.object(**id).file.as_ref().expect("usable").handle.is_closed()).count()
    };
    assert_eq!(closed(&symbols), 3);
    let f = symbols.find(ids[0], "f").expect("read").expect("the file is opened again").svma;
    assert_eq!(outermost(&name_one(&mut symbols, ids[0], f)), Some("f"));
    std::fs::remove_file(&paths[1]).expect("removed");
    assert_eq!(symbols.name(ids[1], &[f]).unnamed, Some(Unnamed::FileGone));
}

/// A small program to mutate, built once.
fn small_elf() -> &'static [u8] {
    static BYTES: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
    BYTES.get_or_init(|| {
        let workshop = Workshop::new();
        std::fs::write(workshop.path().join("a.c"), "int f(int x) { return x + 1; } int g = 3;").expect("written");
        workshop.run("gcc", ["-O1", "-g", "-nostdlib", "-shared", "-Wl,--build-id", "-o", "a.so", "a.c"]);
        std::fs::read(workshop.path().join("a.so")).expect("read")
    })
}
