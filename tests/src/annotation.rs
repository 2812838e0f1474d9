//! What `profil annotate` says.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde::Deserialize;

use crate::profil::binary;

/// A function, instruction by instruction.
#[derive(Clone, Debug, Deserialize)]
#[expect(missing_docs, reason = "the fields are those of the JSON annotation, documented with the command line")]
pub struct Annotation {
    pub function: String,
    pub object: String,
    pub code: Option<String>,
    pub ticks: u64,
    pub kernel_ticks: u64,
    pub rows: Vec<Instruction>,
    pub lines: Vec<Line>,
}

/// An instruction.
#[derive(Clone, Debug, Deserialize)]
#[expect(missing_docs, reason = "the fields are those of the JSON annotation, documented with the command line")]
pub struct Instruction {
    pub address: String,
    pub symbol: Option<String>,
    pub ticks: u64,
    pub kernel_ticks: u64,
    pub percent: f64,
    pub instruction: Option<String>,
    pub system_call: Option<String>,
    pub inlined: Vec<String>,
    pub file: Option<String>,
    pub line: Option<u32>,
    pub source: Option<String>,
}

/// A source line.
#[derive(Clone, Debug, Deserialize)]
#[expect(missing_docs, reason = "the fields are those of the JSON annotation, documented with the command line")]
pub struct Line {
    pub file: String,
    pub line: u32,
    pub ticks: u64,
    pub percent: f64,
    pub source: Option<String>,
}

impl Annotation {
    /// Annotates a function of a profile, and checks that no tick has vanished in it.
    ///
    /// # Panics
    ///
    /// If it cannot be annotated.
    pub fn of<S: AsRef<OsStr>>(function: &str, profile: &Path, options: &[S]) -> Annotation {
        let mut command = command(function, profile);
        let output = command.arg("--json").args(options).output().expect("profil runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command:?}: {}: {said}", output.status);
        let annotation: Annotation = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("no annotation: {error}: {}", String::from_utf8_lossy(&output.stdout)));
        let in_rows: u64 = annotation.rows.iter().map(|row| row.ticks).sum();
        assert_eq!(in_rows, annotation.ticks, "each tick has a row: {annotation:?}");
        let percent: f64 = annotation.rows.iter().map(|row| row.percent).sum();
        assert!((percent - 100.0).abs() < 0.01, "shares are of the function: {percent}");
        annotation
    }

    /// The row with most ticks.
    ///
    /// # Panics
    ///
    /// If there is no row.
    pub fn hottest(&self) -> &Instruction {
        self.rows.iter().max_by_key(|row| row.ticks).expect("a row")
    }

    /// Asserts that each instruction begins where objdump has one, and that none is left out.
    ///
    /// # Panics
    ///
    /// If it does not.
    pub fn agrees_with_objdump(&self, file: &Path) {
        let ours: Vec<u64> = self.rows.iter().map(|row| number(&row.address)).collect();
        let (first, last) = (ours.first().expect("a row"), ours.last().expect("a row"));
        let mut objdump = Command::new("objdump");
        objdump.args(["-d", "--no-show-raw-insn"]);
        objdump.args([format!("--start-address={first:#x}"), format!("--stop-address={:#x}", last + 1)]);
        let output = objdump.arg(file).output().expect("objdump runs");
        let text = String::from_utf8_lossy(&output.stdout);
        let address = |line: &str| u64::from_str_radix(line.trim_start().split_once(":\t")?.0, 16).ok();
        let theirs: Vec<u64> = text.lines().filter_map(address).collect();
        assert_eq!(ours, theirs, "{text}");
    }
}

/// The number that a hexadecimal address stands for.
///
/// # Panics
///
/// If it is none.
pub fn number(address: &str) -> u64 {
    u64::from_str_radix(address.trim_start_matches("0x"), 16).expect("a hexadecimal address")
}

/// Runs `profil annotate` with options, whatever comes of it.
///
/// # Panics
///
/// If it cannot be run.
pub fn annotate<S: AsRef<OsStr>>(function: &str, profile: &Path, options: &[S]) -> Output {
    command(function, profile).args(options).output().expect("profil runs")
}

fn command(function: &str, profile: &Path) -> Command {
    let mut command = Command::new(binary());
    command.args(["annotate", function]).arg(profile).env_remove("DEBUGINFOD_URLS").stdin(Stdio::null());
    command
}
