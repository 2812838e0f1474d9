//! Rules on names: the words of the style guide, and no file that could hold anything.

use super::code::{only_code, without_tests, words};
use super::{File, Finding};

/// Words that the style guide replaces, each with its replacement.
const WORDS: [(&str, &str); 9] = [
    ("sample", "tick"),
    ("samples", "ticks"),
    ("ip", "pc"),
    ("bucket", "bin"),
    ("buckets", "bins"),
    ("exporter", "sink"),
    ("collector", "sink"),
    ("uuid", "build_id"),
    ("slide", "load_bias"),
];

/// Names that the kernel and the file formats gave, where the word is right.
const FOREIGN: [&str; 5] = ["sample_period", "sample_rate", "sample_type", "sample_freq", "sample_index"];

/// Files about formats and tools whose own word is `sample`.
const FOREIGN_FILES: [&str; 4] = ["pprof", "gmon", "perf_script", "folded"];

/// Words that introduce a name of ours.
const DECLARE: [&str; 9] = ["fn", "struct", "enum", "trait", "mod", "const", "static", "let", "type"];

/// File names that say nothing about what is inside.
const EMPTY_NAMES: [&str; 9] = ["util", "utils", "helper", "helpers", "common", "manager", "context", "misc", "types"];

/// No file has a name that could hold anything.
pub fn file_name_says_what_is_inside(file: &File) -> Vec<Finding> {
    let name = file.path.rsplit('/').next().unwrap_or_default();
    match name.strip_suffix(".rs") {
        Some(stem) if EMPTY_NAMES.contains(&stem) => {
            vec![file.finding(0, "a file is named after the one noun inside it")]
        }
        _ => Vec::new(),
    }
}

/// Names declared outside of tests use the words of the style guide.
pub fn words_of_the_style_guide(file: &File) -> Vec<Finding> {
    let is_foreign = FOREIGN_FILES.iter().any(|format| file.path.contains(format));
    if !file.is_rust() || is_foreign {
        return Vec::new();
    }
    let code = only_code(&file.text);
    let mut findings = Vec::new();
    let mut above = "";
    for (at, line) in without_tests(&file.path, &code).lines().enumerate() {
        let is_for_tests = above.contains("#[cfg(test)]");
        above = line;
        for name in declared(line).into_iter().filter(|_| !is_for_tests) {
            let parts = parts(name);
            for (word, instead) in WORDS {
                if parts.iter().any(|part| part == word)
                    && !FOREIGN.iter().any(|foreign| name.to_lowercase().contains(foreign))
                {
                    findings.push(file.finding(at + 1, format!("`{name}`: say {instead}, not {word}")));
                }
            }
        }
    }
    findings
}

/// The names that a line declares.
fn declared(line: &str) -> Vec<&str> {
    let words: Vec<_> = words(line).filter(|word| *word != "mut").collect();
    words.windows(2).filter(|pair| DECLARE.contains(&pair[0])).map(|pair| pair[1]).collect()
}

/// The words that a name is made of, in lower case: `TickRate`, `tick_rate` and `TICK_RATE` are the same two.
fn parts(name: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut was_lower = false;
    for c in name.chars() {
        if c == '_' || (c.is_uppercase() && was_lower) {
            parts.push(String::new());
        }
        if c != '_'
            && let Some(part) = parts.last_mut()
        {
            part.extend(c.to_lowercase());
        }
        was_lower = c.is_lowercase();
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    #[test]
    fn a_sample_is_a_tick() {
        for line in ["fn take_sample() {}", "struct SampleRow;", "let mut samples = 1;", "const SAMPLE: u8 = 0;"] {
            assert_eq!(words_of_the_style_guide(&file("a/src/tick.rs", line)).len(), 1, "{line}");
        }
    }

    #[test]
    fn foreign_words_stand_where_they_are_foreign() {
        for line in [
            "const MAX_SAMPLE_RATE: u8 = 1;",
            "#[cfg(test)]\nmod sample;",
            "attr.sample_period = 1;",
            "// let sample",
            "let description = 0;",
        ] {
            assert_eq!(words_of_the_style_guide(&file("a/src/tick.rs", line)), [], "{line}");
        }
        assert_eq!(words_of_the_style_guide(&file("a/src/sink/pprof.rs", "struct Sample;")), []);
    }

    #[test]
    fn a_file_of_helpers_is_refused() {
        assert_eq!(file_name_says_what_is_inside(&file("a/src/utils.rs", "")).len(), 1);
        assert_eq!(file_name_says_what_is_inside(&file("a/src/bins.rs", "")), []);
    }
}
