//! Talk: standard error, which may be closed, full or a pipe that nobody reads.
//!
//! `eprintln!` panics then, and a panic in place of the command's exit status is worse than a line that nobody reads.

use std::fmt::Display;
use std::io::Write;

use crate::printable::printable_lines;

/// Says a line.
pub fn tell(line: impl Display) {
    // Whoever closed standard error does not want to hear of it.
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Says something in the name of the command. Names of files and functions in it are others' and do nothing to a terminal.
pub fn say(message: impl Display) {
    tell(printable_lines(&format!("profil: {message}")));
}
