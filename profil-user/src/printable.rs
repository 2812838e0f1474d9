//! Names that others chose (of functions, files, commands), made safe to show.

use std::borrow::Cow;

/// The text with each control character replaced by U+FFFD.
///
/// A symbol or a command name may hold newlines, which break tables, and escape sequences, which reprogram terminals.
/// The bidirectional overrides are replaced too: they make a name read as another one.
pub fn printable(text: &str) -> Cow<'_, str> {
    let unsafe_to_show = |c: char| {
        c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}')
    };
    if text.contains(unsafe_to_show) {
        Cow::Owned(text.replace(unsafe_to_show, "\u{fffd}"))
    } else {
        Cow::Borrowed(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        assert_eq!(printable("a\x1b[31mb\nc\u{202e}d\u{9b}"), "a\u{fffd}[31mb\u{fffd}c\u{fffd}d\u{fffd}");
    }

    #[test]
    fn other_text_is_left_alone() {
        assert_eq!(printable("<T as Größe>::f(int, char const*) [k]"), "<T as Größe>::f(int, char const*) [k]");
    }
}
