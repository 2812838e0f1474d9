//! The state behind the live view.

use std::collections::HashMap;
use std::time::Duration;

use super::average::{Step, Weight};
use super::grouping::Grouping;
use super::view::{CpuRow, Modes, Order, PlaceRow, Shown, Tab, TopRow, View};
use crate::profile::{Mode, Profile};
use crate::record::{CpuWindow, LiveWindow};
use crate::report::{By, Group, percent};
use crate::tally::Tally;

/// Whether the view goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pace {
    /// With each window.
    #[default]
    Running,
    /// It stands still; what comes in is counted, and shown when it goes on.
    Paused,
}

/// Totals and averages of all rows of a profile that grows, and of the CPUs.
#[derive(Debug)]
pub struct Model {
    pace: Pace,
    /// Windows that came in while the view stood still.
    held: Held,
    rows: Vec<Amount>,
    weight: Weight,
    cpus: Vec<Cpu>,
    functions: Grouping,
    processes: Grouping,
    tally: Tally,
    elapsed: Duration,
}

/// Ticks of a row of the profile.
#[derive(Clone, Copy, Debug)]
struct Amount {
    ticks: u64,
    /// Per second; to be shown by the weight.
    average: f64,
    mode: Mode,
}

#[derive(Clone, Copy, Debug, Default)]
struct Cpu {
    cpu: u32,
    ticks: u64,
    hz: f64,
    /// Seconds of each second.
    targets: f64,
    others: f64,
}

/// What is not shown yet.
#[derive(Debug, Default)]
struct Held {
    rows: HashMap<usize, u64>,
    cpus: HashMap<u32, CpuWindow>,
    length: Duration,
}

impl Held {
    fn add(&mut self, window: &LiveWindow) {
        let LiveWindow { rows, cpus, length, renamed: _, moved: _ } = window;
        for (row, ticks) in rows {
            *self.rows.entry(*row).or_default() += ticks;
        }
        for CpuWindow { cpu, ticks, targets, others } in cpus {
            let held = self.cpus.entry(*cpu).or_insert(CpuWindow { cpu: *cpu, ..CpuWindow::default() });
            held.ticks += ticks;
            held.targets += *targets;
            held.others += *others;
        }
        self.length += *length;
    }
}

/// Sums of a group.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    ticks: u64,
    kernel: u64,
    average: f64,
}

impl Model {
    /// Nothing yet; `by` is what the second tab shows: processes or threads.
    pub fn new(by: By) -> Model {
        Model {
            pace: Pace::Running,
            held: Held::default(),
            rows: Vec::new(),
            weight: Weight::default(),
            cpus: Vec::new(),
            functions: Grouping::new(By::Function),
            processes: Grouping::new(by),
            tally: Tally::default(),
            elapsed: Duration::ZERO,
        }
    }

    /// Takes in a window of a profile.
    pub fn take(&mut self, profile: &Profile, window: &LiveWindow) {
        if let Some(moved) = &window.moved {
            self.move_rows(moved, profile);
        }
        self.functions.rename(profile, &window.renamed);
        self.functions.extend(profile);
        self.processes.extend(profile);
        self.held.add(window);
        if self.pace == Pace::Running {
            self.show_held(profile);
        }
    }

    /// Follows rows of the profile that were added up.
    fn move_rows(&mut self, moved: &[usize], profile: &Profile) {
        let mut rows: Vec<Amount> = Vec::new();
        for (row, to) in self.rows.iter().zip(moved) {
            if rows.len() <= *to {
                let new = profile.rows[rows.len()..=*to].iter();
                rows.extend(new.map(|row| Amount { ticks: 0, average: 0.0, mode: row.mode }));
            }
            rows[*to].ticks += row.ticks;
            rows[*to].average += row.average;
        }
        self.rows = rows;
        let mut held: HashMap<usize, u64> = HashMap::new();
        for (row, ticks) in std::mem::take(&mut self.held.rows) {
            *held.entry(moved[row]).or_default() += ticks;
        }
        self.held.rows = held;
        self.functions.clear();
        self.processes.clear();
    }

    /// Lets the view stand still, or go on with all that came in meanwhile.
    pub fn set_pace(&mut self, pace: Pace, profile: &Profile) {
        self.pace = pace;
        if pace == Pace::Running {
            self.show_held(profile);
        }
    }

    /// Whether the view goes on.
    pub fn pace(&self) -> Pace {
        self.pace
    }

    fn show_held(&mut self, profile: &Profile) {
        let Held { rows, cpus, length } = std::mem::take(&mut self.held);
        let step = self.weight.step(length);
        let known = self.rows.len();
        let new = profile.rows.get(known..).unwrap_or_default();
        self.rows.extend(new.iter().map(|row| Amount { ticks: 0, average: 0.0, mode: row.mode }));
        if let Some(step) = step {
            self.rows.iter_mut().for_each(|row| step.fade(&mut row.average));
        }
        for (index, ticks) in rows {
            let row = &mut self.rows[index];
            row.ticks += ticks;
            if let Some(step) = step {
                step.add(&mut row.average, ticks as f64);
            }
        }
        let mut cpus: Vec<CpuWindow> = cpus.into_values().collect();
        cpus.sort_unstable_by_key(|window| window.cpu);
        for window in cpus {
            self.add_cpu(&window, step);
        }
        self.tally = profile.tally;
        self.elapsed = profile.duration;
    }

    fn add_cpu(&mut self, window: &CpuWindow, step: Option<Step>) {
        let CpuWindow { cpu, ticks, targets, others } = *window;
        let at = self.cpus.iter().position(|known| known.cpu == cpu).unwrap_or_else(|| {
            self.cpus.push(Cpu { cpu, ..Cpu::default() });
            self.cpus.len() - 1
        });
        let state = &mut self.cpus[at];
        state.ticks += ticks;
        let Some(step) = step else {
            return;
        };
        let amounts = [ticks as f64, targets.as_secs_f64(), others.as_secs_f64()];
        for (average, amount) in [&mut state.hz, &mut state.targets, &mut state.others].into_iter().zip(amounts) {
            step.fade(average);
            step.add(average, amount);
        }
    }

    /// The account as far as it is shown.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// How long the part that is shown took, wall time.
    pub fn elapsed(&self) -> Duration {
        self.elapsed
    }

    /// How many CPUs tick.
    pub fn cpus(&self) -> usize {
        self.cpus.len()
    }

    /// Ticks per second of all that is shown, averaged.
    pub fn now_hz(&self, modes: Modes) -> f64 {
        self.weight.show(total(self.counted(modes).map(|row| row.average)))
    }

    /// Ticks since the start of all that is shown: those with a place in the code.
    pub fn ticks(&self, modes: Modes) -> u64 {
        self.counted(modes).map(|row| row.ticks).sum()
    }

    fn counted(&self, modes: Modes) -> impl Iterator<Item = &Amount> {
        self.rows.iter().filter(move |row| counts(row, modes))
    }

    /// The rows of a view.
    pub fn shown(&self, view: &View) -> Shown<'_> {
        match view.tab {
            Tab::Function => Shown::Groups { by: By::Function, rows: self.groups(&self.functions, view) },
            Tab::Process => Shown::Groups { by: self.processes.by(), rows: self.groups(&self.processes, view) },
            Tab::Cpu => Shown::Cpus(self.cpu_rows(view)),
        }
    }

    fn groups<'m>(&'m self, grouping: &'m Grouping, view: &View) -> Vec<TopRow<'m>> {
        let View { tab: _, order, filter, modes } = view;
        let mut sums = vec![Sum::default(); grouping.groups().len()];
        for (row, group) in self.rows.iter().zip(grouping.of_rows()).filter(|(row, _)| counts(row, *modes)) {
            let sum = &mut sums[group];
            sum.ticks += row.ticks;
            sum.average += row.average;
            if row.mode == Mode::Kernel {
                sum.kernel += row.ticks;
            }
        }
        let ticks: u64 = sums.iter().map(|sum| sum.ticks).sum();
        let average = total(sums.iter().map(|sum| sum.average));
        let by = grouping.by();
        let passes = |group: &Group| filter.as_ref().is_none_or(|filter| filter.lets_pass(&group.name(by)));
        let mut rows: Vec<TopRow<'m>> = grouping
            .groups()
            .iter()
            .zip(&sums)
            .filter(|(group, sum)| sum.ticks > 0 && passes(group))
            .map(|(group, sum)| TopRow {
                group,
                now_hz: self.weight.show(sum.average),
                now_percent: share(sum.average, average),
                ticks: sum.ticks,
                percent: percent(sum.ticks, ticks),
                kernel_percent: percent(sum.kernel, sum.ticks),
            })
            .collect();
        rows.sort_by(|a, b| {
            let now = || b.now_hz.total_cmp(&a.now_hz);
            let total = || b.ticks.cmp(&a.ticks);
            let name = || a.group.name(by).cmp(&b.group.name(by)).then_with(|| a.group.cmp(b.group));
            match order {
                Order::Now => now().then_with(total).then_with(name),
                Order::Total => total().then_with(now).then_with(name),
                Order::Name => name(),
            }
        });
        rows
    }

    fn cpu_rows(&self, view: &View) -> Vec<CpuRow> {
        let View { tab: _, order, filter, modes: _ } = view;
        let mut rows: Vec<CpuRow> = self
            .cpus
            .iter()
            .filter(|cpu| filter.as_ref().is_none_or(|filter| filter.lets_pass(&cpu.cpu.to_string())))
            .map(|Cpu { cpu, ticks, hz, targets, others }| {
                let in_percent = |part: f64| (self.weight.show(part) * 100.0).clamp(0.0, 100.0);
                let (targets_percent, others_percent) = (in_percent(*targets), in_percent(*others));
                CpuRow {
                    cpu: *cpu,
                    targets_percent,
                    others_percent,
                    idle_percent: (100.0 - targets_percent - others_percent).max(0.0),
                    now_hz: self.weight.show(*hz),
                    ticks: *ticks,
                }
            })
            .collect();
        rows.sort_by(|a, b| {
            let name = || a.cpu.cmp(&b.cpu);
            match order {
                Order::Now => b.now_hz.total_cmp(&a.now_hz).then_with(name),
                Order::Total => b.ticks.cmp(&a.ticks).then_with(name),
                Order::Name => name(),
            }
        });
        rows
    }

    /// The places of a function that ticks were taken at, in the order of their addresses. `profile` is the one whose
    /// windows were taken in.
    pub fn places(&self, profile: &Profile, function: &Group, modes: Modes) -> Vec<PlaceRow> {
        let Some(number) = self.functions.find(function) else {
            return Vec::new();
        };
        let mut sums: HashMap<usize, Sum> = HashMap::new();
        let rows = self.rows.iter().zip(self.functions.of_rows()).zip(&profile.rows);
        for ((amount, group), row) in rows {
            if group == number && counts(amount, modes) {
                let sum = sums.entry(row.location).or_default();
                sum.ticks += amount.ticks;
                sum.average += amount.average;
            }
        }
        let ticks = sums.values().map(|sum| sum.ticks).sum();
        let average = total(sums.values().map(|sum| sum.average));
        let place = |(location, sum): (usize, Sum)| {
            let location = &profile.locations[location];
            let frame = location.frames.first().filter(|frame| frame.line > 0);
            let line = frame.and_then(|frame| Some(format!("{}:{}", frame.file.as_ref()?, frame.line)));
            PlaceRow {
                group: Group { address: Some(location.address), ..function.clone() },
                source_line: line,
                now_hz: self.weight.show(sum.average),
                now_percent: share(sum.average, average),
                ticks: sum.ticks,
                percent: percent(sum.ticks, ticks),
            }
        };
        let mut places: Vec<PlaceRow> = sums.into_iter().filter(|(_, sum)| sum.ticks > 0).map(place).collect();
        places.sort_by_key(|place| place.group.address);
        places
    }
}

fn counts(row: &Amount, modes: Modes) -> bool {
    modes == Modes::UserAndKernel || row.mode == Mode::User
}

/// Part of a whole in percent; 0 of nothing.
fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole * 100.0 } else { 0.0 }
}

/// A sum that is 0 where there is nothing: that of the standard library is -0, and is shown so.
fn total(averages: impl Iterator<Item = f64>) -> f64 {
    averages.fold(0.0, |sum, average| sum + average)
}
