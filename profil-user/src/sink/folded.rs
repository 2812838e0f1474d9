//! Writes a profile as folded stacks, the input of flame graphs: `PROCESS;FUNCTION TICKS` on each line.
//!
//! The format quotes nothing. A semicolon in a name becomes a colon, as the tools around the format do it; control
//! characters become U+FFFD. A last word of digits in a function's name would be read as a second count, so the blank
//! before it becomes an underscore.

use std::collections::BTreeMap;
use std::io::{self, Write};

use crate::printable::printable;
use crate::profile::Profile;
use crate::report::function_name;

/// Process of ticks whose process the profile does not know.
const UNKNOWN: &str = "[unknown]";

/// Writes a profile, in the order of names.
///
/// # Errors
/// Those of `to`.
pub fn write(profile: &Profile, mut to: impl Write) -> io::Result<()> {
    let names: Vec<String> = profile
        .locations
        .iter()
        .map(|location| {
            let mapping = location.mapping.map(|mapping| &profile.mappings[mapping]);
            last_frame(&function_name(location.frames.first(), mapping, location.address))
        })
        .collect();
    let processes: Vec<String> = profile.processes.iter().map(|process| frame(&process.comm)).collect();
    let mut stacks: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for row in profile.rows.iter().filter(|row| row.ticks > 0) {
        let process = row.process.map_or(UNKNOWN, |process| &processes[process]);
        let ticks = stacks.entry((process, &names[row.location])).or_default();
        *ticks = ticks.saturating_add(row.ticks);
    }
    for ((process, function), ticks) in stacks {
        writeln!(to, "{process};{function} {ticks}")?;
    }
    Ok(())
}

fn frame(name: &str) -> String {
    match printable(name).trim() {
        "" => UNKNOWN.to_owned(),
        name => name.replace(';', ":"),
    }
}

fn last_frame(name: &str) -> String {
    let frame = frame(name);
    let is_count = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    match frame.rsplit_once(' ') {
        Some((before, word)) if is_count(word) => format!("{before}_{word}"),
        _ => frame,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    #[test]
    fn a_line_has_a_process_a_function_and_its_ticks() {
        let mut text = Vec::new();
        write(&sample::profile(), &mut text).unwrap();
        insta::assert_snapshot!(String::from_utf8(text).unwrap(), @r#"
        burn;core::hash<u8, "x"> 150
        burn;libz.so.1+0x2456 90
        burn;spin 600
        ju st�in;[anon] 64
        ju st�in;[unknown] 26
        ju st�in;do_syscall_64 70
        "#);
    }

    #[test]
    fn what_the_format_would_misread_is_replaced() {
        assert_eq!(frame("a;b c\nd"), "a:b c\u{fffd}d");
        assert_eq!(frame(" \t"), "\u{fffd}");
        assert_eq!(frame(""), UNKNOWN);
        assert_eq!(last_frame("operator new 12 7.5"), "operator new 12_7.5");
        assert_eq!(last_frame("f(int) [k]"), "f(int) [k]");
    }
}
