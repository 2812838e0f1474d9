//! Why a function cannot be annotated.

use std::fmt::{self, Display};
use std::path::{Path, PathBuf};

use crate::build_id::BuildId;
use crate::printable::printable;
use crate::report::summary::counted;
use crate::symbols::elf_headers::ElfError;
use crate::symbols::symbolizer::Unnamed;

/// Why a function cannot be annotated.
#[derive(Debug, thiserror::Error)]
pub enum AnnotateError {
    /// No function with ticks has such a name.
    #[error("cannot annotate `{}`: no function of that name has a tick{}; `profil report` lists those that have", printable(.wanted), the_hottest(.hottest))]
    NoMatch {
        /// What was asked for.
        wanted: String,
        /// The functions with most ticks.
        hottest: Vec<Match>,
    },
    /// Several have.
    #[error("cannot annotate `{}`: it may be any of {} functions; give the whole name, or --in OBJECT:\n{}", printable(.wanted), .matches.len(), Listed(.matches))]
    Ambiguous {
        /// What was asked for.
        wanted: String,
        /// What it may be, the most ticks first.
        matches: Vec<Match>,
    },
    /// The profile has no code at an address.
    #[error(
        "cannot annotate {address:#x}: no code of the profile is there; `profil report --by address` lists the addresses that have ticks"
    )]
    NoCodeThere {
        /// The address.
        address: u64,
    },
    /// The process that reads symbols cannot read the file.
    #[error("cannot read the symbols of {}: {why:?}", printable(&.path.to_string_lossy()))]
    Reader {
        /// The file.
        path: PathBuf,
        /// Why.
        why: Unnamed,
    },
    /// The function there has no tick.
    #[error("cannot annotate {address:#x}: no tick fell on the function there")]
    NoTicks {
        /// The address.
        address: u64,
    },
    /// The profile has no tick with a place in the code.
    #[error("cannot annotate a function: the profile has no tick with a place in the code")]
    NoTicksAtAll,
    /// The profile's objects do not include what --in names.
    #[error("cannot annotate code in `{}`: no object of the profile has that path, name or build ID; `profil report --by object` lists them", printable(.object))]
    NoObject {
        /// What was asked for.
        object: String,
    },
    /// The file at hand is another build.
    #[error("cannot disassemble {}: the file there is {}, and what ran is {wanted}; give the directory of the one that ran with --debug-dir, or a server in DEBUGINFOD_URLS", shown(.path), build(.found))]
    Stale {
        /// The file.
        path: PathBuf,
        /// Its build ID.
        found: Option<BuildId>,
        /// Build ID of what ran.
        wanted: BuildId,
    },
    /// The file at hand has no build ID to know it by, and is newer than the profile.
    #[error("cannot disassemble {}: it has no build ID and has changed since the profile was recorded; give the directory of the one that ran with --debug-dir", shown(.path))]
    Newer {
        /// The file.
        path: PathBuf,
    },
    /// No file was found.
    #[error("cannot disassemble {}: {} is not on this machine; give the directory of the file with --debug-dir, or a server in DEBUGINFOD_URLS", printable(.object), build(.wanted))]
    Gone {
        /// Path of the object as the target saw it.
        object: String,
        /// Build ID of what ran.
        wanted: Option<BuildId>,
    },
    /// Ticks lie inside instructions: it cannot be what ran.
    #[error("cannot disassemble {}: {} inside its instructions, so that it is not what ran; give the directory of the one that ran with --debug-dir", shown(.path), fell(*.ticks))]
    OtherCode {
        /// The file.
        path: PathBuf,
        /// Ticks that fit no instruction.
        ticks: u64,
    },
    /// No symbol says where the function begins and ends.
    #[error("cannot annotate {} in {}: no symbol says where the function begins and ends; a debug package, --debug-dir or DEBUGINFOD_URLS helps", printable(.function), shown(.path))]
    NoSymbol {
        /// The function or address.
        function: String,
        /// The file.
        path: PathBuf,
    },
    /// A symbol claims more than is sane.
    #[error("cannot disassemble {}: its symbol says that it has {size} bytes, and the limit is {limit}", printable(.function))]
    TooLarge {
        /// The function.
        function: String,
        /// What its symbol says, bytes.
        size: u64,
        /// The most that is taken apart, bytes.
        limit: u64,
    },
    /// Its machine is not known.
    #[error("cannot disassemble {}: its ELF machine is {machine}; x86 and 64-bit Arm are known", shown(.path))]
    Machine {
        /// The file.
        path: PathBuf,
        /// `e_machine` of its header.
        machine: u16,
    },
    /// The code of the file could not be read.
    #[error("cannot read the code of {}", shown(.path))]
    Code {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        #[source]
        source: ElfError,
    },
}

/// A function that may be meant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Match {
    /// Ticks.
    pub ticks: u64,
    /// Its name.
    pub function: String,
    /// Path of its object.
    pub object: String,
    /// Build ID of its object.
    pub build_id: Option<BuildId>,
}

/// Matches, one on a line.
struct Listed<'a>(&'a [Match]);

/// Most matches that are listed.
const LISTED: usize = 20;

impl Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = &self.0[..self.0.len().min(LISTED)];
        for (index, Match { ticks, function, object, build_id }) in shown.iter().enumerate() {
            let end = if index == 0 { "" } else { "\n" };
            let same = |other: &Match| other.object == *object && other.build_id != *build_id;
            write!(f, "{end}{ticks:>10}  {}  {}", printable(function), printable(object))?;
            if let (Some(build_id), true) = (build_id, self.0.iter().any(same)) {
                write!(f, " {build_id}")?;
            }
        }
        match self.0.len() - shown.len() {
            0 => Ok(()),
            more => write!(f, "\nand {more} more"),
        }
    }
}

fn the_hottest(hottest: &[Match]) -> String {
    let names: Vec<String> = hottest.iter().map(|found| format!("`{}`", printable(&found.function))).collect();
    if names.is_empty() { String::new() } else { format!(" (most have {})", names.join(", ")) }
}

fn build(build_id: &Option<BuildId>) -> String {
    match build_id {
        Some(build_id) => format!("build {build_id}"),
        None => "a file without a build ID".to_owned(),
    }
}

fn shown(path: &Path) -> String {
    printable(&path.to_string_lossy()).into_owned()
}

fn fell(ticks: u64) -> String {
    format!("{} fell", counted(ticks, "tick"))
}
