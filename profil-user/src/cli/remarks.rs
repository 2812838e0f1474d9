//! What is not as it should be, in words.

use crate::record::Remark;
use crate::report::summary::{counted, thousands};
use crate::symbols::symbolizer::Unnamed;
use crate::tally::Tally;

/// Objects without names that are told about; more would bury the table.
const UNNAMED_SHOWN: usize = 3;

/// Why a run has no ticks, as far as its account tells.
pub fn no_ticks(tally: &Tally) -> &'static str {
    match tally.expected() {
        Some(1..) => "no ticks: the targets used CPU time, but none of its ticks reached the counting program",
        _ => "no ticks: the targets used no CPU time",
    }
}

/// The lines to print about remarks, of which those about names are cut to what matters.
pub fn lines(remarks: &[Remark], ticks: u64) -> Vec<String> {
    let mut unnamed_shown = 0;
    remarks
        .iter()
        .filter_map(|remark| match remark {
            Remark::MappingsLost { records } => Some(format!(
                "{} of mappings lost: code that was mapped meanwhile is shown as [unknown]",
                counted(*records, "record")
            )),
            Remark::CodeReplaced { times } => Some(format!(
                "code was mapped over other code {}: ticks of the moments around that may be shown at either",
                if *times == 1 { "once".to_owned() } else { format!("{} times", thousands(*times)) }
            )),
            Remark::TablesFull { unfollowed, unannounced } => Some(format!(
                "too many processes at once: {} of them not counted, {} of them without a name",
                thousands(*unfollowed),
                thousands(*unannounced)
            )),
            Remark::Unaccounted { counted, in_rows } => Some(format!(
                "the counters say {counted} ticks and the rows hold {in_rows}: this is a fault of profil, please report it"
            )),
            Remark::Unnamed { object, why, ticks: unnamed } => {
                let matters = unnamed * 100 >= ticks && unnamed_shown < UNNAMED_SHOWN;
                unnamed_shown += usize::from(matters);
                matters.then(|| format!("{} in {object} without a name: {}", counted(*unnamed, "tick"), cure(*why)))
            }
        })
        .collect()
}

/// What became of the names of code, and what to do about it.
pub fn cure(why: Unnamed) -> &'static str {
    match why {
        Unnamed::FileGone => "its file is gone",
        Unnamed::NotElf => "its file is no ELF file",
        Unnamed::Stale => "the file that is there now is another build [stale]; record again after a restart",
        Unnamed::Stripped => {
            "it is stripped; install its debug package, name a directory with --debug-dir, or set DEBUGINFOD_URLS"
        }
        Unnamed::NoSymbol => "no symbol covers them",
        Unnamed::ReaderEnded => "names lost: the process that reads symbols ended over its file, which may be damaged",
        Unnamed::ReaderStalled => {
            "names lost: the process that reads symbols took too long over its file and was killed"
        }
        Unnamed::NoReader => "names lost: the process that reads symbols cannot be started",
    }
}
