//! Rules on the seams: what may be used only where it is kept in check.

use super::code::{only_code, words};
use super::{File, Finding};

/// Where unsafe code may be: where the kernel or C is met. A new place needs a reason in its commit.
const UNSAFE: [&str; 10] = [
    "profil-common/src/pod.rs",
    "profil-ebpf/src/",
    "profil-shim/src/",
    "profil-user/src/bins",
    "profil-user/src/clock",
    "profil-user/src/map_memory.rs",
    "profil-user/src/probe/",
    "profil-user/src/session",
    "profil-user/src/sink/target",
    "tests/",
];

/// Where aya may be named: everything else works on plain data, and is tested with no kernel.
const AYA: [&str; 6] = [
    "profil-common/src/pod.rs",
    "profil-ebpf/src/",
    "profil-user/src/bins",
    "profil-user/src/session",
    "profil-user/src/probe/",
    "tests/",
];

/// Unsafe code is only in [`UNSAFE`].
pub fn unsafe_code_stays_in_its_files(file: &File) -> Vec<Finding> {
    only_in(file, &UNSAFE, "unsafe", |word| word == "unsafe")
}

/// aya is named only in [`AYA`].
pub fn only_its_files_name_aya(file: &File) -> Vec<Finding> {
    only_in(file, &AYA, "aya", |word| word == "aya" || word.starts_with("aya_"))
}

fn only_in(file: &File, places: &[&str], what: &str, is_it: impl Fn(&str) -> bool) -> Vec<Finding> {
    if !file.is_rust() || places.iter().any(|place| file.path.starts_with(place)) {
        return Vec::new();
    }
    let code = only_code(&file.text);
    let lines = code.lines().enumerate().filter(|(_, line)| words(line).any(&is_it));
    lines.map(|(at, _)| file.finding(at + 1, format!("{what} only in {}", places.join(", ")))).collect()
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
