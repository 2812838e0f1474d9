//! Rules on the text of files.

use std::ffi::OsString;
use std::path::Path;

use super::code::{only_code, without_tests};
use super::{File, Finding};
use crate::arguments::Args;

/// Lines of code in one file, its unit tests not counted.
const MAX_LINES: usize = 400;

/// Files that may be longer, each with its reason.
const LONGER: [(&str, &str); 0] = [];

/// Words for work that is left; put together here, so as not to find themselves.
const OPEN_ENDS: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X:")];

/// A Rust file has at most [`MAX_LINES`] lines of code.
pub fn code_lines(file: &File) -> Vec<Finding> {
    if !file.is_rust() || LONGER.iter().any(|(path, _)| *path == file.path) {
        return Vec::new();
    }
    let code = only_code(&file.text);
    let lines = without_tests(&file.path, &code).lines().filter(|line| !line.trim().is_empty()).count();
    if lines <= MAX_LINES {
        return Vec::new();
    }
    vec![file.finding(0, format!("{lines} lines of code, of {MAX_LINES}: there is more than one noun in it"))]
}

/// Work that is left names its issue: `(#12)`.
pub fn open_ends_name_an_issue(file: &File) -> Vec<Finding> {
    let lines = file.text.lines().enumerate();
    lines
        .filter(|(_, line)| OPEN_ENDS.iter().any(|word| line.contains(word)) && !line.contains("(#"))
        .map(|(at, _)| file.finding(at + 1, "work that is left names its issue, as in (#12)"))
        .collect()
}

/// A Cargo.toml of a package has a description.
pub fn crates_describe_themselves(file: &File) -> Vec<Finding> {
    let is_package = file.path.ends_with("Cargo.toml") && file.text.contains("[package]");
    if is_package && !file.text.contains("\ndescription = ") {
        return vec![file.finding(0, "a package says in `description` what it is for")];
    }
    Vec::new()
}

/// Cargo's files name no registry of their own: a checkout builds wherever its user's cargo is set up.
pub fn no_private_registry(file: &File) -> Vec<Finding> {
    if !file.path.ends_with(".toml") {
        return Vec::new();
    }
    let lines = file.text.lines().enumerate();
    let settings = ["[source.", "[registries", "[registry]", "replace-with", "registry ="];
    lines
        .filter(|(_, line)| settings.iter().any(|setting| line.trim_start().starts_with(setting)))
        .map(|(at, _)| file.finding(at + 1, "where packages come from is set by the user, not by the tree"))
        .collect()
}

/// No file names a folder that is only on the machine of whoever wrote it.
pub fn no_path_of_this_machine(file: &File, folders: &[&Path]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for folder in folders.iter().map(|folder| folder.to_string_lossy()).filter(|folder| folder.len() > 1) {
        for (at, line) in file.text.lines().enumerate() {
            let is_named = line.match_indices(&*folder).any(|(at, _)| {
                // /proc/1/root/etc names no home folder.
                let before = line[..at].chars().next_back().is_none_or(|c| !c.is_alphanumeric() && !"}_*.".contains(c));
                before && line[at + folder.len()..].starts_with('/')
            });
            if is_named {
                findings.push(file.finding(at + 1, format!("{folder} is a folder of this machine")));
            }
        }
    }
    findings
}

/// What README and CONTRIBUTING tell to type as `cargo xtask ...` can be parsed.
pub fn documented_verbs_exist(file: &File) -> Vec<Finding> {
    if !file.path.ends_with(".md") {
        return Vec::new();
    }
    let commands = file.text.lines().enumerate().filter_map(|(at, line)| {
        let command = line.trim().trim_start_matches("$ ").trim_start_matches("sudo ").strip_prefix("cargo xtask")?;
        let command = command.split(['#', '|', '>', '`']).next()?;
        Some((at, command))
    });
    commands
        .filter(|(_, command)| Args::parse(command.split_whitespace().map(OsString::from)).is_err())
        .map(|(at, command)| file.finding(at + 1, format!("xtask has no `{}`", command.trim())))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    #[test]
    fn comments_blank_lines_and_tests_are_no_lines_of_code() {
        let code = "let x = 1;\n".repeat(MAX_LINES);
        let longest = format!("{code}\n\n// why\n#[cfg(test)]\nmod tests {{\n{code}}}\n");
        assert_eq!(code_lines(&file("a.rs", &longest)), []);
        assert_eq!(code_lines(&file("a.rs", &format!("{code}let y = 2;\n"))).len(), 1);
    }

    #[test]
    fn an_open_end_names_its_issue() {
        let word = OPEN_ENDS[0];
        assert_eq!(open_ends_name_an_issue(&file("a.rs", &format!("// {word}: later"))).len(), 1);
        assert_eq!(open_ends_name_an_issue(&file("a.rs", &format!("// {word}(#12): later"))), []);
    }

    #[test]
    fn paths_of_this_machine_are_found() {
        let found = |line: &str| no_path_of_this_machine(&file("a.md", line), &[Path::new("/home/me")]).len();
        assert_eq!(found("see /home/me/x"), 1);
        assert_eq!(found("see /home/metoo/x, /proc/1/home/me/x"), 0);
    }

    #[test]
    fn documented_verbs_are_parsed_as_they_are_typed() {
        let found = |line: &str| documented_verbs_exist(&file("README.md", line)).len();
        assert_eq!(found("$ cargo xtask run -- ls"), 0);
        assert_eq!(found("cargo xtask test --root fork   # one test"), 0);
        assert_eq!(found("cargo xtask tset"), 1);
    }

    #[test]
    fn packages_and_sources_are_checked() {
        assert_eq!(crates_describe_themselves(&file("a/Cargo.toml", "[package]\nname = \"a\"\n")).len(), 1);
        assert_eq!(crates_describe_themselves(&file("a/Cargo.toml", "[package]\ndescription = \"a\"\n")), []);
        assert_eq!(no_private_registry(&file(".cargo/config.toml", "[source.mirror]\n")).len(), 1);
    }
}
