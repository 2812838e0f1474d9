//! Rules on the tree itself, which no compiler checks. What each allows is data, at the top of its file.

mod code;
mod names;
mod seams;
mod text;

use std::path::Path;

use anyhow::{Context as _, Result, bail};

use crate::workspace::Workspace;

/// A file of the tree, its path relative to the root.
#[derive(Debug)]
struct File {
    path: String,
    text: String,
}

impl File {
    fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    fn finding(&self, line: usize, what: impl Into<String>) -> Finding {
        Finding { path: self.path.clone(), line, what: what.into() }
    }
}

/// A broken rule.
#[derive(Debug, PartialEq, Eq)]
struct Finding {
    path: String,
    /// Counted from 1; 0 for the file as a whole.
    line: usize,
    what: String,
}

/// The rules, each over one file.
const RULES: [fn(&File) -> Vec<Finding>; 9] = [
    names::file_name_says_what_is_inside,
    names::words_of_the_style_guide,
    seams::unsafe_code_stays_in_its_files,
    seams::only_its_files_name_aya,
    text::code_lines,
    text::open_ends_name_an_issue,
    text::crates_describe_themselves,
    text::no_private_registry,
    text::documented_verbs_exist,
];

/// Checks the tree against all rules.
///
/// # Errors
///
/// If a rule is broken; every place is printed.
pub fn run(workspace: &Workspace) -> Result<()> {
    let root = workspace.root();
    let mut files = Vec::new();
    read(root, root, &mut files)?;
    let mut findings: Vec<_> = files.iter().flat_map(|file| RULES.iter().flat_map(|rule| rule(file))).collect();
    let home = std::env::home_dir().unwrap_or_default();
    findings.extend(files.iter().flat_map(|file| text::no_path_of_this_machine(file, &[root, &home])));
    for Finding { path, line, what } in &findings {
        eprintln!("{path}:{line}: {what}");
    }
    match findings.len() {
        0 => Ok(()),
        n => bail!("{n} places break the rules of the tree (CONTRIBUTING.md says why they are there)"),
    }
}

/// Reads the text files below `dir`: all but build output and the folders of git.
///
/// Walked and not asked of git, so that it works on an unpacked source archive too.
fn read(root: &Path, dir: &Path, files: &mut Vec<File>) -> Result<()> {
    let cannot = || format!("cannot list {}", dir.display());
    for entry in std::fs::read_dir(dir).with_context(cannot)? {
        let path = entry.with_context(cannot)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            if name != "target" && name != ".git" {
                read(root, &path, files)?;
            }
        } else if let Ok(text) = std::fs::read_to_string(&path)
            && name != ".git"
        {
            let path = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
            files.push(File { path, text });
        }
    }
    Ok(())
}

/// A file for the tests of the rules.
#[cfg(test)]
fn file(path: &str, text: &str) -> File {
    File { path: path.to_owned(), text: text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_is_tidy() {
        run(&Workspace::find().unwrap()).unwrap();
    }
}
