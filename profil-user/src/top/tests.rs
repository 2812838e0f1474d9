use std::time::Duration;

use super::*;
use crate::profile::{Mode, Profile, Row};
use crate::record::{CpuWindow, LiveWindow};
use crate::report::By;
use crate::report::sample;

/// A profile that grows as windows come in, as a recording's does.
struct Targets {
    profile: Profile,
    /// Rows that have not come in yet.
    later: Vec<Row>,
}

impl Targets {
    fn new() -> Targets {
        let mut profile = sample::profile();
        let later = std::mem::take(&mut profile.rows);
        profile.tally.ticks = 0;
        profile.duration = Duration::ZERO;
        Targets { profile, later }
    }

    /// A window of a second in which rows got ticks.
    fn window(&mut self, ticks: &[(usize, u64)]) -> LiveWindow {
        self.window_of(Duration::from_secs(1), ticks)
    }

    fn window_of(&mut self, length: Duration, ticks: &[(usize, u64)]) -> LiveWindow {
        for (row, more) in ticks {
            while self.profile.rows.len() <= *row {
                let next = self.later.remove(0);
                self.profile.rows.push(Row { ticks: 0, ..next });
            }
            self.profile.rows[*row].ticks += more;
            self.profile.tally.ticks += more;
        }
        self.profile.duration += length;
        let cpu = |cpu, targets, others| CpuWindow {
            cpu,
            ticks: targets,
            targets: Duration::from_millis(targets),
            others: Duration::from_millis(others),
        };
        let sum = ticks.iter().map(|(_, ticks)| ticks).sum();
        LiveWindow { rows: ticks.to_vec(), cpus: vec![cpu(3, 0, 100), cpu(1, sum, 0)], length, ..LiveWindow::default() }
    }
}

fn names(model: &Model, view: &View) -> Vec<String> {
    match model.shown(view) {
        Shown::Groups { by, rows } => rows.iter().map(|row| row.group.name(by).into_owned()).collect(),
        Shown::Cpus(rows) => rows.iter().map(|row| row.cpu.to_string()).collect(),
    }
}

fn totals(model: &Model, view: &View) -> Vec<u64> {
    match model.shown(view) {
        Shown::Groups { rows, .. } => rows.iter().map(|row| row.ticks).collect(),
        Shown::Cpus(rows) => rows.iter().map(|row| row.ticks).collect(),
    }
}

fn model(targets: &mut Targets, windows: &[&[(usize, u64)]]) -> Model {
    let mut model = Model::new(By::Process);
    for ticks in windows {
        let window = targets.window(ticks);
        model.take(&targets.profile, &window);
    }
    model
}

#[test]
fn totals_are_all_ticks_since_the_start_and_agree_with_the_tally() {
    let mut targets = Targets::new();
    let model = model(&mut targets, &[&[(0, 5), (2, 3)], &[(0, 7), (7, 2)], &[], &[(4, 1)]]);
    for tab in [Tab::Function, Tab::Process] {
        let view = View { tab, ..View::default() };
        assert_eq!(totals(&model, &view).iter().sum::<u64>(), 18, "{tab:?}");
    }
    assert_eq!(model.ticks(Modes::UserAndKernel), model.tally().ticks);
    assert_eq!(totals(&model, &View { tab: Tab::Cpu, ..View::default() }), [18, 0]);
}

#[test]
fn what_runs_now_comes_first_and_what_ran_longest_by_its_total() {
    let mut targets = Targets::new();
    // spin for ten seconds, then core::hash.
    let windows: Vec<&[(usize, u64)]> =
        std::iter::repeat_n(&[(0, 90), (2, 10)][..], 10).chain(std::iter::repeat_n(&[(2, 70)][..], 10)).collect();
    let model = model(&mut targets, &windows);
    let by = |order| names(&model, &View { order, ..View::default() });
    let (spin, hash) = ("spin".to_owned(), "core::hash<u8, \"x\">".to_owned());
    assert_eq!(by(Order::Now), [hash.clone(), spin.clone()]);
    assert_eq!(by(Order::Total), [spin.clone(), hash.clone()]);
    assert_eq!(by(Order::Name), [hash, spin]);
    let Shown::Groups { rows, .. } = model.shown(&View::default()) else { panic!("no groups") };
    assert!((rows.iter().map(|row| row.now_percent).sum::<f64>() - 100.0).abs() < 1e-9, "{rows:?}");
    assert!((rows.iter().map(|row| row.percent).sum::<f64>() - 100.0).abs() < 1e-9, "{rows:?}");
    assert!((rows[0].percent - 800.0 / 17.0).abs() < 1e-9 && rows[0].now_percent > 80.0, "{rows:?}");
}

#[test]
fn a_steady_rate_is_shown_from_the_first_window_on() {
    let mut targets = Targets::new();
    let mut model = Model::new(By::Process);
    for length in [1000, 200, 3000] {
        let window = targets.window_of(Duration::from_millis(length), &[(0, length / 10)]);
        model.take(&targets.profile, &window);
        assert!((model.now_hz(Modes::UserAndKernel) - 100.0).abs() < 1e-6);
    }
}

#[test]
fn a_filter_hides_rows_and_leaves_shares_as_they_are() {
    let mut targets = Targets::new();
    let model = model(&mut targets, &[&[(0, 75), (2, 25)]]);
    let view = View { filter: Filter::new("^sp.n$"), ..View::default() };
    let Shown::Groups { rows, .. } = model.shown(&view) else { panic!("no groups") };
    assert_eq!(rows.iter().map(|row| (row.ticks, row.percent)).collect::<Vec<_>>(), [(75, 75.0)]);
    // What is no pattern yet is looked for as it stands.
    assert_eq!(names(&model, &View { filter: Filter::new("hash<u8, \"x\">("), ..View::default() }).len(), 0);
    assert_eq!(names(&model, &View { filter: Filter::new("[8,"), ..View::default() }).len(), 0);
    assert!(Filter::new("").is_none());
    let cpus = View { tab: Tab::Cpu, filter: Filter::new("3"), ..View::default() };
    assert_eq!(names(&model, &cpus), ["3"]);
}

#[test]
fn without_the_kernel_only_ticks_in_user_mode_count() {
    let mut targets = Targets::new();
    // Row 1 is spin's, taken in the kernel; row 4 is a function of the kernel's.
    let model = model(&mut targets, &[&[(0, 30), (1, 20), (2, 10), (4, 40)]]);
    let view = View { modes: Modes::User, ..View::default() };
    let Shown::Groups { rows, .. } = model.shown(&view) else { panic!("no groups") };
    assert_eq!(rows.iter().map(|row| (row.ticks, row.kernel_percent)).collect::<Vec<_>>(), [(30, 0.0), (10, 0.0)]);
    assert!((rows[0].percent - 75.0).abs() < 1e-9 && (rows[0].now_percent - 75.0).abs() < 1e-9);
    assert_eq!((model.ticks(Modes::User), model.ticks(Modes::UserAndKernel)), (40, 100));
    let Shown::Groups { rows, .. } = model.shown(&View { order: Order::Total, ..View::default() }) else { panic!() };
    assert_eq!(
        rows.iter().map(|row| (row.ticks, row.kernel_percent)).collect::<Vec<_>>(),
        [(50, 40.0), (40, 100.0), (10, 0.0)]
    );
}

#[test]
fn a_paused_view_stands_still_and_catches_up() {
    let mut targets = Targets::new();
    let mut model = model(&mut targets, &[&[(0, 10)]]);
    model.set_pace(Pace::Paused, &targets.profile);
    let before = (names(&model, &View::default()), totals(&model, &View::default()), *model.tally(), model.elapsed());
    for _ in 0..3 {
        let window = targets.window(&[(0, 1), (2, 20), (6, 4)]);
        model.take(&targets.profile, &window);
    }
    let after = (names(&model, &View::default()), totals(&model, &View::default()), *model.tally(), model.elapsed());
    assert_eq!(before, after);
    assert_eq!(totals(&model, &View { tab: Tab::Cpu, ..View::default() }), [10, 0]);
    model.set_pace(Pace::Running, &targets.profile);
    assert_eq!(totals(&model, &View { order: Order::Total, ..View::default() }), [60, 13, 12]);
    assert_eq!((model.tally().ticks, model.elapsed()), (85, Duration::from_secs(4)));
    assert_eq!(totals(&model, &View { tab: Tab::Cpu, ..View::default() }), [85, 0]);
}

#[test]
fn cpus_are_busy_with_targets_or_others_or_idle() {
    let mut targets = Targets::new();
    let model = model(&mut targets, &[&[(0, 600)], &[(0, 600)]]);
    let Shown::Cpus(rows) = model.shown(&View { tab: Tab::Cpu, ..View::default() }) else { panic!("no CPUs") };
    assert_eq!(rows.iter().map(|row| row.cpu).collect::<Vec<_>>(), [1, 3]);
    let close = |number: f64, wanted: f64| assert!((number - wanted).abs() < 1e-6, "{rows:?}");
    close(rows[0].targets_percent, 60.0);
    close(rows[0].idle_percent, 40.0);
    close(rows[0].now_hz, 600.0);
    close(rows[1].others_percent, 10.0);
    close(rows[1].idle_percent, 90.0);
    let by_number = View { tab: Tab::Cpu, order: Order::Name, ..View::default() };
    assert_eq!(names(&model, &by_number), ["1", "3"]);
}

#[test]
fn code_with_a_better_name_takes_its_past_along() {
    let mut targets = Targets::new();
    // Row 3 is in no function that is known.
    let mut model = model(&mut targets, &[&[(0, 10), (3, 7)]]);
    assert!(names(&model, &View::default()).iter().any(|name| name.starts_with("libz.so.1+")));
    let spin = targets.profile.locations[0].frames.clone();
    targets.profile.locations[2].frames = spin;
    targets.profile.locations[2].mapping = Some(0);
    let window = LiveWindow { renamed: vec![2], ..targets.window(&[]) };
    model.take(&targets.profile, &window);
    assert_eq!(names(&model, &View::default()), ["spin"]);
    assert_eq!(totals(&model, &View::default()), [17]);
}

#[test]
fn rows_that_are_added_up_keep_their_ticks_while_the_view_stands_still_and_goes_on() {
    let mut targets = Targets::new();
    let mut model = model(&mut targets, &[&[(0, 10), (1, 5), (2, 30)]]);
    let before = totals(&model, &View::default());
    model.set_pace(Pace::Paused, &targets.profile);
    let window = targets.window(&[(1, 2), (3, 8)]);
    model.take(&targets.profile, &window);
    // The first two rows become one.
    let rows = targets.profile.rows.clone();
    let [first, second, rest @ ..] = &rows[..] else { panic!("four rows") };
    let sum = Row { ticks: first.ticks + second.ticks, ..first.clone() };
    targets.profile.rows = [&[sum][..], rest].concat();
    let window = LiveWindow { moved: Some(vec![0, 0, 1, 2]), ..targets.window(&[(2, 1)]) };
    model.take(&targets.profile, &window);
    assert_eq!(totals(&model, &View::default()), before);
    model.set_pace(Pace::Running, &targets.profile);
    assert_eq!(totals(&model, &View { order: Order::Total, ..View::default() }), [30, 17, 9]);
    assert_eq!(model.ticks(Modes::UserAndKernel), model.tally().ticks);
}

#[test]
fn places_of_a_function_add_up_to_it() {
    let mut targets = Targets::new();
    let model = model(&mut targets, &[&[(0, 30), (1, 10), (2, 60)]]);
    let Shown::Groups { rows, .. } = model.shown(&View::default()) else { panic!("no groups") };
    let spin = rows.iter().find(|row| row.group.function.as_deref() == Some("spin")).expect("spin has ticks");
    let places = model.places(&targets.profile, spin.group, Modes::UserAndKernel);
    assert_eq!(places.iter().map(|place| place.ticks).sum::<u64>(), spin.ticks);
    assert_eq!((places[0].group.address, places[0].source_line.as_deref()), (Some(0x1100), Some("/src/burn.c:12")));
    assert!((places.iter().map(|place| place.now_percent).sum::<f64>() - 100.0).abs() < 1e-9);
    let user = model.places(&targets.profile, spin.group, Modes::User);
    assert_eq!(user.iter().map(|place| place.ticks).sum::<u64>(), 30);
    assert_eq!(targets.profile.rows[1].mode, Mode::Kernel);
}

#[test]
fn what_does_not_tick_has_a_rate_of_zero_and_not_of_minus_zero() {
    let mut targets = Targets::new();
    let model = model(&mut targets, &[&[]]);
    assert!(model.now_hz(Modes::UserAndKernel).is_sign_positive());
}
