//! Names that others chose (of functions, files, commands), made safe to show.

use std::borrow::Cow;
use std::fmt::Write;

/// The text with each control character replaced by U+FFFD.
///
/// A symbol or a command name may hold newlines, which break tables, and escape sequences, which reprogram terminals.
/// The bidirectional overrides are replaced too: they make a name read as another one.
pub fn printable(text: &str) -> Cow<'_, str> {
    if text.contains(is_unsafe_to_show) {
        Cow::Owned(text.replace(is_unsafe_to_show, "\u{fffd}"))
    } else {
        Cow::Borrowed(text)
    }
}

/// Lines, with each control character in them replaced by U+FFFD.
pub fn printable_lines(text: &str) -> String {
    text.split('\n').map(printable).collect::<Vec<_>>().join("\n")
}

/// Bytes as text: those that are no UTF-8 become `\xNN`, so that two names stay two.
pub fn readable(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            write!(text, "\\x{byte:02x}").expect("a string takes everything");
        }
    }
    text
}

/// JSON with each character that is not safe to show escaped; it stays the same JSON.
pub fn printable_json(json: &str) -> Cow<'_, str> {
    if !json.contains(is_unsafe_to_show) {
        return Cow::Borrowed(json);
    }
    let mut text = String::with_capacity(json.len() * 2);
    for c in json.chars() {
        // All of them are in the first plane, where one escape is one character.
        match is_unsafe_to_show(c) {
            true => write!(text, "\\u{:04x}", u32::from(c)).expect("a string takes everything"),
            false => text.push(c),
        }
    }
    Cow::Owned(text)
}

fn is_unsafe_to_show(c: char) -> bool {
    c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        assert_eq!(printable("a\x1b[31mb\nc\u{202e}d\u{9b}"), "a\u{fffd}[31mb\u{fffd}c\u{fffd}d\u{fffd}");
    }

    #[test]
    fn json_stays_the_same_json_and_has_no_control_characters() {
        let name = "a\x1b[31m\u{9b}\u{202e}\n\"\\ü\u{7f}";
        let json = serde_json::to_string(name).expect("a string");
        let shown = printable_json(&json);
        assert!(!shown.contains(is_unsafe_to_show), "{shown}");
        assert_eq!(serde_json::from_str::<String>(&shown).expect("JSON"), name);
    }

    #[test]
    fn lines_stay_lines() {
        assert_eq!(printable_lines("a\x1b\nb\n"), "a\u{fffd}\nb\n");
    }

    #[test]
    fn bytes_that_are_no_text_are_told_apart() {
        assert_eq!(readable(b"a\xffb\xc3"), "a\\xffb\\xc3");
        assert_eq!(readable("Größe\n".as_bytes()), "Größe\n");
    }

    #[test]
    fn other_text_is_left_alone() {
        assert_eq!(printable("<T as Größe>::f(int, char const*) [k]"), "<T as Größe>::f(int, char const*) [k]");
    }
}
