//! What `profil report --json` says.

use serde::Deserialize;

/// What rows are added up by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Function and object.
    Function,
    /// Object.
    Object,
    /// Process and its image.
    Process,
    /// Thread.
    Thread,
    /// Address in the object.
    Address,
}

impl By {
    /// The word of the command line.
    pub fn word(self) -> &'static str {
        match self {
            By::Function => "function",
            By::Object => "object",
            By::Process => "process",
            By::Thread => "thread",
            By::Address => "address",
        }
    }
}

/// The report of a profile.
#[derive(Clone, Debug, Deserialize)]
pub struct Report {
    /// Ticks.
    pub ticks: u64,
    /// Ticks that the CPU time asks for.
    pub expected: Option<u64>,
    /// Those that are missing.
    pub missed: Option<i64>,
    /// Ticks by outcome.
    pub outcomes: Outcomes,
    /// Rate.
    pub hz: Option<f64>,
    /// CPU time of the targets.
    pub cpu_seconds: Option<f64>,
    /// Rows, the largest first.
    pub rows: Vec<Row>,
}

/// Ticks by outcome.
#[derive(Clone, Debug, Deserialize)]
#[expect(missing_docs, reason = "named after the outcomes that profil-common documents")]
pub struct Outcomes {
    pub binned: u64,
    pub stray: u64,
    pub outside: u64,
    pub no_user_pc: u64,
    pub kernel_excluded: u64,
    pub dropped: u64,
}

/// A row of a report.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "the fields are those of the JSON report, documented with the command line")]
pub struct Row {
    pub function: Option<String>,
    pub object: Option<String>,
    pub build_id: Option<String>,
    pub address: Option<String>,
    pub process: Option<String>,
    pub pid: Option<u32>,
    pub generation: Option<u32>,
    pub tid: Option<u32>,
    pub service: Option<String>,
    pub file: Option<String>,
    pub line: Option<u32>,
    pub ticks: u64,
    pub percent: f64,
    pub kernel_percent: f64,
    pub low: f64,
    pub high: f64,
}

impl Report {
    /// Reads the JSON of a report, and checks that no tick has vanished in it.
    ///
    /// # Panics
    ///
    /// If it is no such JSON, or if the sums do not agree.
    pub fn read(json: &[u8]) -> Report {
        let report: Report = serde_json::from_slice(json)
            .unwrap_or_else(|error| panic!("no report: {error}: {}", String::from_utf8_lossy(json)));
        let Outcomes { binned, stray, outside, no_user_pc, kernel_excluded, dropped } = report.outcomes;
        let sum = binned + stray + outside + no_user_pc + kernel_excluded + dropped;
        assert_eq!(report.ticks, sum, "each tick has one outcome: {:?}", report.outcomes);
        let in_rows: u64 = report.rows.iter().map(|row| row.ticks).sum();
        assert_eq!(in_rows, stray + binned, "rows hold what the counters say");
        report
    }

    /// Ticks of the rows that `wanted` picks.
    pub fn ticks_of(&self, wanted: impl Fn(&Row) -> bool) -> u64 {
        self.rows.iter().filter(|row| wanted(row)).map(|row| row.ticks).sum()
    }

    /// Ticks in a function.
    pub fn in_function(&self, name: &str) -> u64 {
        self.ticks_of(|row| row.function.as_deref() == Some(name))
    }

    /// Part of all ticks that are in a function, 0 to 1.
    pub fn share(&self, name: &str) -> f64 {
        self.in_function(name) as f64 / self.ticks as f64
    }

    /// Ticks per tick that `cpu_seconds` asks for.
    pub fn ratio(&self, cpu_seconds: f64) -> f64 {
        self.ticks as f64 / (cpu_seconds * self.hz.expect("the profile says its rate"))
    }
}
