//! Rules on the seams: what may be used only where it is kept in check.

use super::code::{only_code, without_tests, words};
use super::{File, Finding};

/// Where unsafe code may be: where the kernel or C is met. A new place needs a reason in its commit.
const UNSAFE: [&str; 21] = [
    "profil-common/src/pod.rs",
    "profil-ebpf/src/",
    "profil-shim/src/",
    "profil-user/src/address_space.rs",
    "profil-user/src/bins",
    "profil-user/src/cli/interrupt.rs",
    "profil-user/src/clock",
    "profil-user/src/jail/confine.rs",
    "profil-user/src/launch.rs",
    "profil-user/src/map_memory.rs",
    "profil-user/src/probe/",
    "profil-user/src/process/cpu_time.rs",
    "profil-user/src/readiness.rs",
    "profil-user/src/rows.rs",
    "profil-user/src/service/socket.rs",
    "profil-user/src/session",
    "profil-user/src/sideband/",
    "profil-user/src/sink/target",
    "profil-user/src/symbols/file_map.rs",
    "profil-user/tests/",
    "tests/",
];

/// Where aya may be named: everything else works on plain data, and is tested with no kernel.
const AYA: [&str; 8] = [
    "profil-common/src/pod.rs",
    "profil-ebpf/src/",
    "profil-user/src/bins",
    "profil-user/src/lanes.rs",
    "profil-user/src/probe/",
    "profil-user/src/rows.rs",
    "profil-user/src/session",
    "tests/",
];

/// Unsafe code is only in [`UNSAFE`].
pub fn unsafe_code_stays_in_its_files(file: &File) -> Vec<Finding> {
    let is_unsafe = |code: &str| line_with(code, |word| word == "unsafe");
    only_in(&UNSAFE, "unsafe code", file, is_unsafe)
}

/// aya is named only in [`AYA`], and in unit tests.
pub fn only_its_files_name_aya(file: &File) -> Vec<Finding> {
    let names_aya =
        |code: &str| line_with(without_tests(&file.path, code), |word| word == "aya" || word.starts_with("aya_"));
    only_in(&AYA, "aya", file, names_aya)
}

/// At most one finding: whoever opens a seam in a file does so on many lines.
fn only_in(places: &[&str], what: &str, file: &File, find: impl Fn(&str) -> Option<usize>) -> Vec<Finding> {
    if !file.is_rust() || places.iter().any(|place| file.path.starts_with(place)) {
        return Vec::new();
    }
    let found = find(&only_code(&file.text));
    found
        .map(|line| file.finding(line, format!("{what} outside the files listed in xtask's tidy/seams.rs")))
        .into_iter()
        .collect()
}

/// The first line, counted from 1, with a word that fits.
fn line_with(code: &str, fits: impl Fn(&str) -> bool) -> Option<usize> {
    Some(code.lines().position(|line| words(line).any(&fits))? + 1)
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    #[test]
    fn unsafe_code_is_found_outside_its_files() {
        let text = "// unsafe\nfn f() { unsafe {} }\n#[allow(unsafe_op_in_unsafe_fn)]";
        let found = unsafe_code_stays_in_its_files(&file("profil-user/src/tally.rs", text));
        assert_eq!(found.iter().map(|finding| finding.line).collect::<Vec<_>>(), [2]);
        assert_eq!(unsafe_code_stays_in_its_files(&file("profil-user/src/bins.rs", text)), []);
    }

    #[test]
    fn naming_aya_is_found_outside_its_files() {
        assert_eq!(only_its_files_name_aya(&file("profil-user/src/tally.rs", "use aya::Ebpf;")).len(), 1);
        assert_eq!(only_its_files_name_aya(&file("profil-user/src/session.rs", "use aya::Ebpf;")), []);
        assert_eq!(only_its_files_name_aya(&file("profil-user/src/tally.rs", "let payasada = 1;")), []);
    }
}
