//! What is shown of a model, and how.

use regex_lite::Regex;

use crate::report::{By, Group};

/// What the rows are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Tab {
    /// Functions.
    #[default]
    Function,
    /// Processes; their threads where these are told apart.
    Process,
    /// CPUs.
    Cpu,
}

impl Tab {
    /// All tabs, in the order in which they are shown.
    pub const ALL: [Tab; 3] = [Tab::Function, Tab::Process, Tab::Cpu];

    /// The tab after this one.
    pub fn next(self) -> Tab {
        match self {
            Tab::Function => Tab::Process,
            Tab::Process => Tab::Cpu,
            Tab::Cpu => Tab::Function,
        }
    }

    /// The tab before this one.
    pub fn previous(self) -> Tab {
        self.next().next()
    }
}

/// What the rows are sorted by; ties by the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Order {
    /// What runs now, the most first.
    #[default]
    Now,
    /// Ticks since the start, the most first.
    Total,
    /// Name, or number.
    Name,
}

impl Order {
    /// The next one.
    pub fn next(self) -> Order {
        match self {
            Order::Now => Order::Total,
            Order::Total => Order::Name,
            Order::Name => Order::Now,
        }
    }

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Order::Now => "now",
            Order::Total => "total",
            Order::Name => "name",
        }
    }
}

/// Which ticks are shown, by the mode that they were taken in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Modes {
    /// All.
    #[default]
    UserAndKernel,
    /// Those taken in user mode.
    User,
}

/// Which names are shown.
#[derive(Clone, Debug)]
pub enum Filter {
    /// Those that match.
    Pattern(Regex),
    /// Those that have it in them: what is typed is no pattern, or not yet.
    Text(String),
}

impl Filter {
    /// The filter that a text stands for; `None` for an empty one.
    pub fn new(text: &str) -> Option<Filter> {
        if text.is_empty() {
            return None;
        }
        Some(Regex::new(text).map_or_else(|_| Filter::Text(text.to_owned()), Filter::Pattern))
    }

    /// Whether a name is shown.
    pub fn lets_pass(&self, name: &str) -> bool {
        match self {
            Filter::Pattern(pattern) => pattern.is_match(name),
            Filter::Text(text) => name.contains(text),
        }
    }
}

/// What is asked for.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// What the rows are.
    pub tab: Tab,
    /// What they are sorted by.
    pub order: Order,
    /// Which of them; all if `None`. Shares stay those of the whole.
    pub filter: Option<Filter>,
    /// Which ticks.
    pub modes: Modes,
}

/// Functions or processes: a group of rows of the profile.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TopRow<'m> {
    /// What the ticks have in common.
    pub group: &'m Group,
    /// Ticks per second, averaged.
    pub now_hz: f64,
    /// Those as a share of all, percent.
    pub now_percent: f64,
    /// Ticks since the start.
    pub ticks: u64,
    /// Those as a share of all, percent.
    pub percent: f64,
    /// Part of them that was taken in the kernel, percent.
    pub kernel_percent: f64,
}

/// A CPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CpuRow {
    /// The CPU.
    pub cpu: u32,
    /// Time of the targets, averaged, percent of the CPU.
    pub targets_percent: f64,
    /// Time of all else that ran, averaged, percent of the CPU.
    pub others_percent: f64,
    /// The rest, percent of the CPU.
    pub idle_percent: f64,
    /// Ticks of the targets per second, averaged.
    pub now_hz: f64,
    /// Ticks of the targets since the start, with or without a place in the code.
    pub ticks: u64,
}

/// A place in a function.
#[derive(Clone, Debug, PartialEq)]
pub struct PlaceRow {
    /// The place; its address is an SVMA where a file stands behind it.
    pub group: Group,
    /// Source line, where debug information has been read.
    pub source_line: Option<String>,
    /// Ticks per second, averaged.
    pub now_hz: f64,
    /// Those as a share of the function's, percent.
    pub now_percent: f64,
    /// Ticks since the start.
    pub ticks: u64,
    /// Those as a share of the function's, percent.
    pub percent: f64,
}

/// The rows of a view, in order.
#[derive(Clone, Debug, PartialEq)]
pub enum Shown<'m> {
    /// Functions or processes.
    Groups {
        /// What the rows are grouped by.
        by: By,
        /// The rows.
        rows: Vec<TopRow<'m>>,
    },
    /// CPUs.
    Cpus(Vec<CpuRow>),
}

impl Shown<'_> {
    /// How many rows there are.
    pub fn len(&self) -> usize {
        match self {
            Shown::Groups { rows, .. } => rows.len(),
            Shown::Cpus(rows) => rows.len(),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
