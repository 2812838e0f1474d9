//! Writes ticks as a pre-aggregated profile of basic samples, which perf2bolt turns into the profile of llvm-bolt.
//!
//! ```text
//! $ perf2bolt -pa -ba -p program.preagg -o program.fdata program
//! ```
//!
//! Addresses are those of the object (SVMA). The format can name an object by build ID before each address, but
//! perf2bolt 22 takes samples of any build ID for those of its program: hence one object for each file, and no names.
//!
//! # Source
//! `bolt/include/bolt/Profile/DataAggregator.h` of LLVM 22.

use std::collections::BTreeMap;
use std::io::{self, Write};

/// Writes the ticks of one object by address (SVMA); `clock` is what made them.
///
/// # Errors
/// Those of `to`.
pub fn write(ticks: &BTreeMap<u64, u64>, clock: &str, mut to: impl Write) -> io::Result<()> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':');
    let clock = if !clock.is_empty() && clock.chars().all(is_plain) { clock } else { "ticks" };
    writeln!(to, "E {clock}")?;
    for (address, ticks) in ticks {
        writeln!(to, "S {address:x} {ticks}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_and_its_ticks_make_a_line_under_the_name_of_the_clock() {
        let text = |clock| {
            let mut text = Vec::new();
            write(&BTreeMap::from([(0x41be60, 6), (0x41be50, 70_000)]), clock, &mut text).unwrap();
            String::from_utf8(text).unwrap()
        };
        assert_eq!(text("cpu-clock"), "E cpu-clock\nS 41be50 70000\nS 41be60 6\n");
        assert_eq!(text("a\nS 1 1").lines().next(), Some("E ticks"), "a name cannot be a line of its own");
    }
}
