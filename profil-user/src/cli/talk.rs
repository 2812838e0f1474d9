//! Talk: standard error, which may be closed, full or a pipe that nobody reads.
//!
//! `eprintln!` panics then, and a panic in place of the command's exit status is worse than a line that nobody reads.

use std::fmt::Display;
use std::io::Write;

/// Says a line.
pub fn tell(line: impl Display) {
    // Whoever closed standard error does not want to hear of it.
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Says a line in the name of the command.
pub fn say(message: impl Display) {
    tell(format_args!("profil: {message}"));
}
