//! User mode, kernel mode, idle time, and the filters that select in the kernel.

use std::ffi::OsStr;
use std::fs;
use std::process::Command;

use profil_tests::{By, Cgroup, Profil, Report, Running, Scratch, feature};

/// Records a program of one place under `profil -- CMD`.
fn report(options: &[&str], where_: &str, by: By) -> (Report, f64) {
    let scratch = Scratch::new();
    let target = scratch.build("modes");
    let options = [&["-F", "1999"], options].concat();
    let recorded = Profil::record(&scratch, &options).launch(target, &[where_, "1.5"]).run();
    (recorded.report(by), recorded.truth().of("cpu"))
}

#[test]
fn time_in_system_calls_is_at_their_call_site() {
    let (report, cpu_seconds) = report(&[], "zeros", By::Function);
    let read = report.rows.first().expect("a row");
    assert!(read.function.as_deref().is_some_and(|name| name.contains("read")), "{report:?}");
    assert!(read.percent > 95.0 && read.kernel_percent > 95.0, "{report:?}");
    assert!(report.ratio(cpu_seconds) > 0.95, "{report:?}");
}

#[test]
fn user_mode_only_counts_kernel_ticks_as_excluded() {
    let (report, cpu_seconds) = report(&["-U"], "zeros", By::Function);
    assert!(report.outcomes.kernel_excluded as f64 > 0.9 * report.ticks as f64, "{report:?}");
    assert!(report.rows.iter().all(|row| row.kernel_percent == 0.0), "{report:?}");
    assert!(report.ratio(cpu_seconds) > 0.95, "excluded ticks are ticks: {report:?}");
}

#[test]
fn kernel_mode_only_names_the_kernel_s_functions() {
    let (report, _) = report(&["-K"], "zeros", By::Function);
    assert!(report.outcomes.stray as f64 > 0.9 * report.ticks as f64, "{report:?}");
    for row in &report.rows {
        assert_eq!(row.object.as_deref(), Some("[kernel]"), "{row:?}");
        assert_eq!(row.kernel_percent, 100.0, "{row:?}");
    }
    let kallsyms = fs::read_to_string("/proc/kallsyms").expect("names of the kernel");
    let top = report.rows[0].function.clone().expect("a name");
    assert!(kallsyms.lines().any(|line| line.split_whitespace().nth(2) == Some(&top)), "{top}");
}

#[test]
fn idle_time_fills_the_ticks_up_to_cpus_by_rate_by_time() {
    let scratch = Scratch::new();
    let recorded = Profil::record(&scratch, &["-a", "-I", "-F", "997", "-d", "2"]).run();
    let report = recorded.report(By::Process);
    let cpus = std::thread::available_parallelism().expect("the number of CPUs").get() as f64;
    let due = cpus * 997.0 * 2.0;
    assert!(report.ticks as f64 >= 0.98 * due, "{} ticks of {due}", report.ticks);
    // A recording lasts at least as long as was asked for; how much longer is up to the machine.
    assert!(report.ticks as f64 <= 2.0 * due, "{} ticks of {due}", report.ticks);
    assert!(report.rows.iter().any(|row| row.process.as_deref() == Some("idle")), "{report:?}");
}

#[test]
fn a_single_thread_is_counted_alone() {
    let scratch = Scratch::new();
    let mut target = Running::start(scratch.build("modes"), &["two", "1"]);
    let tid = target.pid();
    let recording = Profil::record(&scratch, &["-F", "1999", "--per-thread", "-t", &tid.to_string()]).start();
    target.go();
    let (_, truth) = target.finish();
    let report = recording.wait().report(By::Thread);
    assert!(report.rows.iter().all(|row| row.tid == Some(tid)), "{report:?}");
    let ratio = report.ratio(truth.of("main"));
    let tolerance = 0.02 + 3.0 / (report.ticks as f64).sqrt();
    assert!((ratio - 1.0).abs() < tolerance, "{ratio:.3}: {report:?}");
}

#[test]
fn a_thread_named_twice_is_counted_once() {
    let scratch = Scratch::new();
    let mut target = Running::start(scratch.build("modes"), &["two", "1"]);
    let tid = target.pid();
    let recording = Profil::record(&scratch, &["-F", "1999", "-t", &format!("{tid},{tid}")]).start();
    target.go();
    let (_, truth) = target.finish();
    let report = recording.wait().report(By::Thread);
    let (counted, main) = (report.cpu_seconds.expect("threads have a clock"), truth.of("main"));
    assert!((counted / main - 1.0).abs() < 0.05, "{counted} {main}");
    let ratio = report.ratio(main);
    assert!((ratio - 1.0).abs() < 0.05 + 3.0 / (report.ticks as f64).sqrt(), "{ratio:.3}: {report:?}");
}

/// Check that `expected` is right for a thread that ends while its process goes on.
#[test]
fn a_thread_that_ends_is_expected_to_tick_for_all_that_it_used() {
    let scratch = Scratch::new();
    for _ in 0..3 {
        let mut target = Running::start(scratch.build("threads"), &["2", "0.8", "unlike"]);
        let pid = target.pid();
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("its threads");
        let tids = tasks.map(|task| task.expect("an entry").file_name().into_string().expect("a tid"));
        // The one that was created last ends first, after seven eighths of the time.
        let tid = tids.max_by_key(|tid| tid.parse::<u32>().expect("a tid")).expect("threads");
        let recording = Profil::record(&scratch, &["-F", "1999", "-t", &tid]).start();
        target.go();
        let recorded = recording.wait();
        let (_, truth) = target.finish();
        let report = recorded.report(By::Thread);
        let (counted, used) = (report.cpu_seconds.expect("threads have a clock"), truth.of(&format!("tid.{tid}")));
        assert!((counted / used - 1.0).abs() < 0.02, "{counted} of {used}: {report:?}");
    }
}

/// Runs a target beside `profil -a` with a filter; ticks in the target, and per tick that is due.
fn filtered(scratch: &Scratch, options: &[&str], command: Command) -> (Report, f64) {
    let mut target = Running::of(command);
    let options = [&["-F", "1999"], options].concat();
    let recording = Profil::record(scratch, &options).start();
    target.go();
    let (_, truth) = target.finish();
    let report = recording.stop().report(By::Process);
    let pid = truth.of("pid") as u32;
    let ticks = report.ticks_of(|row| row.pid == Some(pid)) as f64;
    let ratio = ticks / (truth.of("cpu") * report.hz.expect("the profile says its rate"));
    (report, ratio)
}

/// The burning target, run by another program.
fn burning<S: AsRef<OsStr>>(scratch: &Scratch, runner: &[S]) -> Command {
    let target = scratch.build("modes");
    let mut words: Vec<_> = runner.iter().map(|word| word.as_ref().to_owned()).collect();
    words.extend([target.into_os_string(), "user".into(), "1".into()]);
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    command
}

#[test]
fn a_name_selects_threads() {
    let scratch = Scratch::new();
    let (report, ratio) = filtered(&scratch, &["-a", "--comm", "modes"], burning::<&str>(&scratch, &[]));
    assert!((0.9..1.1).contains(&ratio), "{ratio:.3}: {report:?}");
    assert_eq!(report.rows.len(), 1, "{report:?}");
    let (report, ratio) = filtered(&scratch, &["-a", "--comm", "mode"], burning::<&str>(&scratch, &[]));
    assert_eq!(ratio, 0.0, "{report:?}");
}

#[test]
fn a_user_selects_threads() {
    const TEST: &str = "a_user_selects_threads";
    if !feature::has_program(TEST, "setpriv") {
        return;
    }
    let scratch = Scratch::new();
    let as_nobody = ["setpriv", "--reuid=65534", "--clear-groups"];
    let (report, ratio) = filtered(&scratch, &["-a", "--uid", "65534"], burning(&scratch, &as_nobody));
    assert!((0.9..1.1).contains(&ratio), "{ratio:.3}: {report:?}");
    let (report, ratio) = filtered(&scratch, &["-a", "--uid", "65533"], burning(&scratch, &as_nobody));
    assert_eq!(ratio, 0.0, "{report:?}");
}

#[test]
fn cpus_select_ticks() {
    let scratch = Scratch::new();
    if !feature::has_program("cpus_select_ticks", "taskset") {
        return;
    }
    let on_cpu_0 = ["taskset", "-c", "0"];
    let (report, ratio) = filtered(&scratch, &["-a", "-C", "0"], burning(&scratch, &on_cpu_0));
    assert!((0.9..1.1).contains(&ratio), "{ratio:.3}: {report:?}");
    if std::thread::available_parallelism().expect("the number of CPUs").get() > 1 {
        let (report, ratio) = filtered(&scratch, &["-a", "-C", "1"], burning(&scratch, &on_cpu_0));
        assert_eq!(ratio, 0.0, "{report:?}");
    }
}

#[test]
fn a_control_group_selects_processes() {
    let Some(group) = Cgroup::new() else {
        feature::skip("a_control_group_selects_processes", "no hierarchy of control groups v2 that we may write to");
        return;
    };
    let scratch = Scratch::new();
    let path = group.path().display().to_string();
    let enter = format!("echo $$ > {path}/cgroup.procs; exec \"$@\"");
    let inside = ["sh", "-c", &enter, "sh"];
    let (report, ratio) = filtered(&scratch, &["-G", &path], burning(&scratch, &inside));
    assert!((0.9..1.1).contains(&ratio), "{ratio:.3}: {report:?}");
    let (report, ratio) = filtered(&scratch, &["-G", &path], burning::<&str>(&scratch, &[]));
    assert_eq!(ratio, 0.0, "{report:?}");
}

#[test]
fn a_recording_of_a_control_group_ends_when_the_group_is_removed() {
    const TEST: &str = "a_recording_of_a_control_group_ends_when_the_group_is_removed";
    let Some(group) = Cgroup::new() else {
        feature::skip(TEST, "no hierarchy of control groups v2 that we may write to");
        return;
    };
    let scratch = Scratch::new();
    let path = group.path().display().to_string();
    let enter = format!("echo $$ > {path}/cgroup.procs; exec \"$@\"");
    let mut target = Running::of(burning(&scratch, &["sh", "-c", &enter, "sh"]));
    let recording = Profil::record(&scratch, &["-F", "1999", "-G", &path]).start();
    target.go();
    let (_, truth) = target.finish();
    fs::remove_dir(group.path()).expect("nobody is left in it");
    let recorded = recording.wait();
    assert_eq!(recorded.code(), 0, "{recorded:?}");
    let report = recorded.report(By::Function);
    let (counted, used) = (report.cpu_seconds.expect("the last reading"), truth.of("cpu"));
    assert!((counted / used - 1.0).abs() < 0.1, "{counted} of {used}: {report:?}");
    assert!(report.ratio(used) > 0.9, "{report:?}");
}
