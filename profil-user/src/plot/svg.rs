//! The text of an SVG: names made safe, numbers made short, colours for light and dark.

use std::borrow::Cow;
use std::fmt::Write;

use crate::printable::printable;

/// The text, so that it means itself in XML and is allowed there.
///
/// XML has no place for most control characters, escaped or not, nor for U+FFFE and U+FFFF.
pub fn escaped(text: &str) -> Cow<'_, str> {
    let shown = printable(text);
    if !shown.contains(['&', '<', '>', '"', '\'', '\u{fffe}', '\u{ffff}']) {
        return shown;
    }
    let mut escaped = String::with_capacity(shown.len() + 16);
    for c in shown.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    Cow::Owned(escaped)
}

/// A coordinate, to a tenth of a pixel.
pub fn px(value: f64) -> impl std::fmt::Display {
    (value * 10.0).round() / 10.0
}

/// Colours of one appearance.
struct Palette {
    page: &'static str,
    text: &'static str,
    faint: &'static str,
    grid: &'static str,
    user: &'static str,
    kernel: &'static str,
    even: &'static str,
    odd: &'static str,
}

const LIGHT: Palette = Palette {
    page: "#ffffff",
    text: "#1b1f24",
    faint: "#5f6873",
    grid: "#e3e7ec",
    user: "#2f6fc0",
    kernel: "#e0861a",
    even: "#c3cfdf",
    odd: "#8fa5c2",
};

const DARK: Palette = Palette {
    page: "#12161c",
    text: "#e6eaf0",
    faint: "#98a3b0",
    grid: "#2a313b",
    user: "#62a0ee",
    kernel: "#f2a548",
    even: "#33445a",
    odd: "#52698a",
};

/// The style sheet. Plain rules and no variables: not only browsers show SVG. On paper, it is the light one.
pub fn style() -> String {
    let mut style = String::from(
        "svg{font-family:system-ui,sans-serif;font-size:12px}\
         .m{font-family:ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace;font-size:11px}\
         .e{text-anchor:end}.c{text-anchor:middle}.s{stroke-width:1;fill:none}\
         .h{fill:none;pointer-events:all}.b:hover .u,.b:hover .k{opacity:.6}",
    );
    rules(&LIGHT, &mut style);
    style.push_str("@media screen and (prefers-color-scheme:dark){");
    rules(&DARK, &mut style);
    style.push('}');
    style
}

fn rules(palette: &Palette, style: &mut String) {
    let Palette { page, text, faint, grid, user, kernel, even, odd } = palette;
    let written = write!(
        style,
        ".p{{fill:{page}}}text{{fill:{text}}}text.f{{fill:{faint}}}.g{{stroke:{grid}}}.l{{stroke:{faint};opacity:.55}}\
         .u{{fill:{user}}}.k{{fill:{kernel}}}.v{{fill:{even}}}.o{{fill:{odd}}}"
    );
    written.expect("a string takes everything");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_mean_themselves_and_hold_nothing_that_xml_forbids() {
        assert_eq!(escaped("plain"), "plain");
        assert_eq!(escaped("a<b> & \"c\" 'd'"), "a&lt;b&gt; &amp; &quot;c&quot; &#39;d&#39;");
        assert_eq!(escaped("\0\x1b\n\u{fffe}\u{ffff}\u{202e}ü"), "\u{fffd}\u{fffd}\u{fffd}\u{fffd}\u{fffd}\u{fffd}ü");
    }

    #[test]
    fn coordinates_are_short() {
        assert_eq!([10.0, 1.0 / 3.0, 99.96].map(|value| px(value).to_string()), ["10", "0.3", "100"]);
    }
}
