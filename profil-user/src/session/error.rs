//! Why a session cannot be.

use std::io;

use aya::EbpfError;
use aya::maps::MapError;
use aya::programs::ProgramError;

use crate::probe::btf::BtfError;

/// A session that cannot be.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The kernel's layout is not known.
    #[error(transparent)]
    Layout(#[from] BtfError),
    /// The kernel refused the object or a map of it.
    #[error("cannot load the eBPF object")]
    Load {
        /// What aya said.
        #[source]
        source: EbpfError,
    },
    /// The kernel refused a half of the sparse table.
    #[error("cannot make a table of {rows} rows in the kernel")]
    Rows {
        /// Rows asked for.
        rows: u32,
        /// What aya said.
        #[source]
        source: EbpfError,
    },
    /// The kernel refused the array of the one process that has bins.
    #[error("cannot make an array of {nbins} bins in the kernel")]
    SingleBins {
        /// Bins asked for.
        nbins: u32,
        /// What aya said.
        #[source]
        source: EbpfError,
    },
    /// The verifier or the kernel refused a program.
    #[error("cannot load the eBPF program `{program}`{}", verdict(verifier_log))]
    Program {
        /// Name of the program.
        program: &'static str,
        /// What the kernel's verifier said; empty when it said nothing.
        verifier_log: String,
        /// What the system call said.
        #[source]
        source: io::Error,
    },
    /// A hook cannot be attached.
    #[error("cannot attach the eBPF program `{program}`")]
    Attach {
        /// Name of the program.
        program: &'static str,
        /// What aya said.
        #[source]
        source: ProgramError,
    },
    /// The object lacks a map or program: it was built from other sources.
    #[error("the eBPF object has no `{name}`: it does not belong to this version of profil")]
    Missing {
        /// What it lacks.
        name: &'static str,
    },
    /// A map cannot be used.
    #[error("cannot use the map `{name}`")]
    Map {
        /// Name of the map.
        name: &'static str,
        /// What aya said.
        #[source]
        source: MapError,
    },
    /// A map, or a list of the system, cannot be read.
    #[error("cannot read {name}")]
    Read {
        /// Name of the map or list.
        name: &'static str,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

/// The verifier's last meaningful line, and how many come before it.
fn verdict(log: &str) -> String {
    let lines: Vec<&str> = log.lines().filter(|line| !line.trim().is_empty()).collect();
    let meaningful = lines.iter().rposition(|line| {
        !line.starts_with("processed ") && !line.starts_with("verification time") && !line.starts_with("stack depth")
    });
    match meaningful {
        Some(index) => format!(": {} ({} lines of the verifier's log omitted; -v shows them)", lines[index], index),
        None => String::new(),
    }
}

/// The error of an object that the kernel does not take; `rows` are those of a half of the sparse table.
pub(super) fn not_loaded(source: EbpfError, rows: u32, single_bins: u32) -> SessionError {
    match &source {
        EbpfError::MapError(MapError::CreateError { name, .. }) if name.starts_with("ROWS_") => {
            SessionError::Rows { rows, source }
        }
        EbpfError::MapError(MapError::CreateError { name, .. }) if name == "POOL" && single_bins > 0 => {
            SessionError::SingleBins { nbins: single_bins, source }
        }
        _ => SessionError::Load { source },
    }
}

/// The error of a program that the kernel does not take, with the verifier's words.
pub(super) fn refused(program: &'static str, error: ProgramError) -> SessionError {
    match error {
        ProgramError::LoadError { io_error, verifier_log } => {
            SessionError::Program { program, verifier_log: verifier_log.to_string(), source: io_error }
        }
        source => SessionError::Attach { program, source },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verdict_is_the_last_line_that_says_something() {
        let log = "0: (bf) r6 = r1\n1: (61) r1 = *(u32 *)(r6 +0)\nR6 invalid mem access 'scalar'\n\
                   verification time 12 usec\nprocessed 2 insns (limit 1000000)\n";
        let verdict = verdict(log);
        assert!(verdict.starts_with(": R6 invalid mem access 'scalar' (2 lines"), "{verdict}");
        assert_eq!(super::verdict(""), "");
    }
}
