//! Whether and how text is coloured.

use std::ffi::OsString;
use std::fmt::{self, Display};

/// When to use colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum ColorChoice {
    /// On a terminal, unless NO_COLOR is set; elsewhere if CLICOLOR_FORCE is.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// How text gets its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paint {
    /// Not at all.
    Plain,
    /// By ANSI escape sequences.
    Ansi,
}

/// What a text is, which decides its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// A heading.
    Heading,
    /// 5 % of the ticks or more, as in perf report.
    Hot,
    /// 0.5 % or more.
    Warm,
    /// It takes more time than it did.
    Worse,
    /// It takes less time than it did.
    Better,
    /// All else.
    Plain,
}

/// Where text goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// A terminal.
    Terminal,
    /// A file or a pipe.
    File,
}

impl ColorChoice {
    /// Decides, with `variable` to look at the environment.
    ///
    /// # Source
    /// no-color.org, and the CLICOLOR convention: a set NO_COLOR wins over CLICOLOR_FORCE, the option over both.
    pub fn paint(self, medium: Medium, variable: impl Fn(&str) -> Option<OsString>) -> Paint {
        let set = |name| variable(name).is_some_and(|value| !value.is_empty());
        let forced = || variable("CLICOLOR_FORCE").is_some_and(|value| !value.is_empty() && value != "0");
        let off = || variable("CLICOLOR").is_some_and(|value| value == "0");
        let dumb = || variable("TERM").is_some_and(|value| value == "dumb");
        let colour = match self {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto if set("NO_COLOR") => false,
            ColorChoice::Auto => forced() || medium == Medium::Terminal && !off() && !dumb(),
        };
        if colour { Paint::Ansi } else { Paint::Plain }
    }
}

impl Tone {
    /// The tone of a share in percent.
    pub fn of_percent(percent: f64) -> Tone {
        match percent {
            5.0.. => Tone::Hot,
            0.5.. => Tone::Warm,
            _ => Tone::Plain,
        }
    }
}

impl Paint {
    /// The text in its tone.
    pub fn show<T: Display>(self, tone: Tone, text: T) -> impl Display {
        Painted { paint: self, tone, text }
    }
}

struct Painted<T> {
    paint: Paint,
    tone: Tone,
    text: T,
}

impl<T: Display> Display for Painted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Painted { paint, tone, text } = self;
        let code = match (paint, tone) {
            (Paint::Plain, _) | (_, Tone::Plain) => return text.fmt(f),
            (Paint::Ansi, Tone::Heading) => "1",
            (Paint::Ansi, Tone::Hot | Tone::Worse) => "31",
            (Paint::Ansi, Tone::Warm | Tone::Better) => "32",
        };
        write!(f, "\x1b[{code}m{text}\x1b[0m")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decide(choice: ColorChoice, medium: Medium, environment: &[(&str, &str)]) -> Paint {
        choice.paint(medium, |name| {
            environment.iter().find(|(variable, _)| *variable == name).map(|(_, value)| OsString::from(value))
        })
    }

    #[test]
    fn the_option_wins_then_no_color_then_clicolor_force_then_the_terminal() {
        use ColorChoice::{Always, Auto, Never};
        use Medium::{File, Terminal};
        let both = [("NO_COLOR", "1"), ("CLICOLOR_FORCE", "1")];
        assert_eq!(decide(Always, File, &both), Paint::Ansi);
        assert_eq!(decide(Never, Terminal, &[("CLICOLOR_FORCE", "1")]), Paint::Plain);
        assert_eq!(decide(Auto, Terminal, &both), Paint::Plain);
        assert_eq!(decide(Auto, File, &both[1..]), Paint::Ansi);
        assert_eq!(decide(Auto, File, &[("CLICOLOR_FORCE", "0")]), Paint::Plain);
        assert_eq!(decide(Auto, File, &[]), Paint::Plain);
        assert_eq!(decide(Auto, Terminal, &[("NO_COLOR", "")]), Paint::Ansi);
        assert_eq!(decide(Auto, Terminal, &[("TERM", "dumb")]), Paint::Plain);
    }
}
