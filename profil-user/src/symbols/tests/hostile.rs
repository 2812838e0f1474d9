//! Files made to mislead or to stop the profiler.

use proptest::prelude::*;

use super::*;
use crate::symbols::elf_headers::{self, ElfHeaders};
use crate::symbols::symbol_table::SymbolTable;

#[test]
fn absolute_links_of_a_target_stay_in_its_root() {
    let workshop = Workshop::new();
    let root = workshop.path();
    std::fs::create_dir(root.join("etc")).expect("made");
    std::fs::write(root.join("etc/hostname"), "inside").expect("written");
    std::os::unix::fs::symlink("/etc/hostname", root.join("link")).expect("linked");
    std::os::unix::fs::symlink("/proc/self/root/etc/hostname", root.join("magic")).expect("linked");
    std::os::unix::fs::symlink("../../../../etc/hostname", root.join("up")).expect("linked");
    for path in ["/link", "/up"] {
        let file = target_files::open_below(root, Path::new(path)).expect("opens");
        assert_eq!(std::io::read_to_string(file).expect("text"), "inside", "{path}");
    }
    assert!(target_files::open_below(root, Path::new("/magic")).is_err());
    assert!(target_files::open_below(Path::new("/"), Path::new("/proc/self/exe")).is_err(), "a magic link");
}

#[test]
fn a_debug_link_to_a_pipe_or_out_of_the_directory_is_not_followed() {
    let workshop = Workshop::new();
    let (program, quiet) = build_stripped(&workshop, &["-Wl,--build-id=none"]);
    workshop.run("objcopy", ["--add-gnu-debuglink=program.debug", "program"]);
    std::fs::remove_file(workshop.path().join("program.debug")).expect("removed");
    workshop.run("mkfifo", ["program.debug"]);
    let mut symbols = symbols();
    let id = symbols.open(&file(&program));
    assert_eq!(symbols.name(id, &[quiet]).unnamed, Some(Unnamed::Stripped));

    let mut bytes = std::fs::read(&program).expect("read");
    let at = bytes.windows(13).position(|bytes| bytes == b"program.debug").expect("the link");
    bytes[at..at + 13].copy_from_slice(b"../../etc/foo");
    std::fs::write(&program, bytes).expect("written");
    let id = symbols.open(&file(&program));
    assert_eq!(symbols.name(id, &[quiet]).unnamed, Some(Unnamed::Stripped));
}

#[test]
fn a_file_cut_short_after_it_was_opened_costs_names_only() {
    let workshop = Workshop::new();
    let program = workshop.program(&[]);
    let mut symbols = symbols();
    let id = symbols.open(&file(&program));
    let hot = symbols.find(id, "hot").expect("read").expect("hot").svma;
    std::fs::File::options().write(true).open(&program).expect("opens").set_len(5000).expect("cut");
    let names = symbols.name(id, &[hot]);
    assert!(names.frames[0].is_empty() && names.unnamed.is_some(), "{names:?}");
}

#[test]
fn notes_that_lie_about_their_size_have_no_build_id() {
    let note = [4u32.to_le_bytes(), 8u32.to_le_bytes(), 3u32.to_le_bytes()].concat();
    let note = [&note[..], b"GNU\0", b"12345678"].concat();
    assert_eq!(elf_headers::build_id_in_notes(&note), BuildId::new(b"12345678"));
    for (field, size) in [(0, 5_000_000u32), (0, u32::MAX), (4, 5_000_000), (4, u32::MAX), (4, 0)] {
        let mut note = note.clone();
        note[field..field + 4].copy_from_slice(&size.to_le_bytes());
        assert_eq!(elf_headers::build_id_in_notes(&note), None, "{field}: {size}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn no_mutation_of_a_file_makes_the_readers_panic(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
        header in any::<bool>(), cut in any::<prop::sample::Index>(), pc: u64,
    ) {
        let mut bytes = small_elf().to_vec();
        let reach = if header { 0x300 } else { bytes.len() };
        for (index, byte) in changes {
            bytes[index.index(reach)] = byte;
        }
        for image in [&bytes[..], &bytes[..cut.index(bytes.len())]] {
            if let Ok(headers) = ElfHeaders::read(image) {
                let _ = headers.build_id(image);
                if let Ok(table) = SymbolTable::read(&headers, image) {
                    let _ = (table.name_of(pc), table.name_of(0x1000), table.find("f"));
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// A panic prints a backtrace, but costs no more than the names of the file.
    #[test]
    fn no_mutation_of_debug_information_stops_the_profiler(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..40),
    ) {
        let original = small_elf();
        let headers = ElfHeaders::read(original).expect("ELF");
        let debug: Vec<usize> = headers.sections.iter().filter(|section| section.name.starts_with(b".debug"))
            .flat_map(|section| section.file_offset as usize..(section.file_offset + section.size) as usize).collect();
        let mut bytes = original.to_vec();
        for (index, byte) in changes {
            bytes[debug[index.index(debug.len())]] = byte;
        }
        let mutated = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(mutated.path(), bytes).expect("written");
        let mut symbols = symbols();
        let id = symbols.open(&file(mutated.path()));
        let f = symbols.find(id, "f").expect("read").expect("the symbol table is whole").svma;
        let names = symbols.name(id, &[f, f + 1, f + 2]);
        prop_assert_eq!(names.frames.len(), 3);
        // Whatever the debug information says, the symbol table still has a name.
        prop_assert!(names.frames.iter().all(|frames| !frames.is_empty()), "{:?}", names);
    }
}
