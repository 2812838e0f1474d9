//! All tests, and the one line that sums them up.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::check::{self, Mode};
use crate::setup::{self, Talk, Wanted};
use crate::tally::Tally;
use crate::workspace::Workspace;
use crate::{ebpf, install, root};

/// Which tests to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The checks of the sources, then all tests.
    All,
    /// Only the tests that need neither root nor a kernel.
    Unit,
    /// Only the suite that needs both.
    Root,
}

/// Runs tests whose name contains `filter`; the last line on stdout is `N passed, N failed, N skipped`.
///
/// # Errors
///
/// If a check or a test failed, or if no test ran at all.
pub fn run(workspace: &Workspace, part: Part, filter: Option<&str>) -> Result<()> {
    setup::run(workspace, Wanted { tests: part != Part::Unit, hook: false }, Talk::Changes)?;
    ebpf::build(workspace, ebpf::HOST_ARCH)?;
    // A failed check is reported at the end: what the tests say is wanted all the same.
    let checked = if part == Part::All { check::sources(workspace, Mode::Report) } else { Ok(()) };
    let mut tally = Tally::default();
    let mut tested = Ok(());
    if part != Part::Root {
        tested = tested.and(count(check::unit_tests(workspace), Order::Parallel, filter, &mut tally));
    }
    if part != Part::Unit {
        install::build(workspace)?;
        tested = tested.and(count(kernel_tests(workspace)?, Order::Serial, filter, &mut tally));
    }
    for skip in tally.skips() {
        println!("SKIP: {skip}");
    }
    println!("{tally}");
    checked.and(tested)?;
    if tally.ran() == 0 {
        bail!("no test ran{}", filter.map(|filter| format!(": no name contains {filter:?}")).unwrap_or_default());
    }
    Ok(())
}

/// The suite: built as the user, run as root, one test at a time, for ticks are counted per CPU.
fn kernel_tests(workspace: &Workspace) -> Result<Command> {
    let mut cargo = workspace.cargo("test");
    cargo.args(["--package", "profil-tests", "--tests"]).env("PROFIL_BIN", workspace.profil());
    if !root::is_root()? {
        // Cargo starts each test program by this command; so only they run as root, and no file that cargo writes is root's.
        let runner = format!("CARGO_TARGET_{}_RUNNER", host_triple()?.to_uppercase().replace('-', "_"));
        root::command("true", "run the kernel suite")?;
        cargo.env(runner, "sudo --preserve-env --");
    }
    Ok(cargo)
}

fn host_triple() -> Result<String> {
    let version = crate::command::answer(Command::new("rustc").arg("-vV")).context("cannot run rustc")?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).context("rustc -vV names no host")?;
    Ok(host.to_owned())
}

/// Whether tests of one program may run at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Parallel,
    Serial,
}

impl Order {
    fn options(self) -> &'static [&'static str] {
        match self {
            Self::Parallel => &[],
            Self::Serial => &["--test-threads=1"],
        }
    }
}

/// Runs `cargo test` to the end, showing and counting what it prints.
fn count(mut cargo: Command, order: Order, filter: Option<&str>, tally: &mut Tally) -> Result<()> {
    // Tests say on stdout why they skip, and libtest hides the stdout of tests that pass.
    cargo.args(["--no-fail-fast", "--", "--show-output"]).args(order.options()).args(filter);
    eprintln!("$ {}", crate::command::shown(&cargo));
    let mut child = cargo.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context("cannot run cargo test")?;
    let stdout = child.stdout.take().context("no pipe from cargo test")?;
    for line in BufReader::new(stdout).lines() {
        let line = line.context("cannot read what cargo test prints")?;
        tally.line(&line);
        println!("{line}");
    }
    let status = child.wait().context("cannot wait for cargo test")?;
    if !status.success() {
        bail!("`cargo test` failed: {status}");
    }
    Ok(())
}
