//! Installs what the build needs; does nothing, quickly, where nothing is missing.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};

use crate::linker::Linker;
use crate::packages::{self, Package};
use crate::toolchain::{self, Toolchain};
use crate::workspace::Workspace;
use crate::{command, root};

/// What to set up besides what every build needs.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// The Debian packages of the suite.
    pub tests: bool,
    /// A git hook that runs the checks before each commit.
    pub hook: bool,
}

/// How much to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Talk {
    /// Everything that was found or installed.
    All,
    /// Only what was installed.
    Changes,
}

impl Talk {
    fn found(self, what: &str) {
        match self {
            Self::All => eprintln!("setup: found {what}"),
            Self::Changes => {}
        }
    }
}

/// The hook: nothing but the checks.
const HOOK: &str =
    "#!/bin/sh\n# Installed by `cargo xtask setup --hook`; delete it to be rid of it.\nexec cargo xtask check\n";

/// Finds or installs the toolchain, the linker, and what else is wanted.
///
/// # Errors
///
/// If something is missing and cannot be installed: the text says what to do.
pub fn run(workspace: &Workspace, wanted: Wanted, talk: Talk) -> Result<()> {
    let Wanted { tests, hook } = wanted;
    linker(talk)?;
    toolchain(talk)?;
    if tests {
        packages(packages::TESTS, talk)?;
    }
    if hook {
        install_hook(workspace)?;
    }
    Ok(())
}

fn toolchain(talk: Talk) -> Result<()> {
    if Toolchain::nightly().is_none() && root::on_path("apt-get") {
        packages(packages::TOOLCHAIN, talk)?;
        if Toolchain::find().is_none() {
            toolchain::link()?;
        }
        if Toolchain::find().is_none() {
            eprintln!("setup: Debian's rustc is older than the workspace asks for: looking for a newer one");
            packages::update()?;
            packages::install(packages::TOOLCHAIN)?;
        }
    }
    match Toolchain::find() {
        Some(toolchain) => talk.found(&format!("toolchain {} for the eBPF object", toolchain.summary())),
        None => bail!(
            "no toolchain since Rust {} has the source of `core`, from which the eBPF object is built: \
             `rustup toolchain install nightly --component rust-src`",
            env!("CARGO_PKG_RUST_VERSION")
        ),
    }
    Ok(())
}

fn linker(talk: Talk) -> Result<()> {
    if Linker::find().is_none() {
        if !packages::llvm_prefix().join("include/llvm-c").exists() {
            packages(packages::LINKER, talk)?;
        }
        Linker::install()?;
    }
    let linker = Linker::find().context("bpf-linker was installed, but is not where cargo installs to")?;
    talk.found(&format!("{} at {}", linker.version, linker.path.display()));
    Ok(())
}

fn packages(wanted: &[Package], talk: Talk) -> Result<()> {
    let missing = packages::missing(wanted);
    for Package { name, why } in wanted.iter().filter(|package| !missing.contains(package)) {
        talk.found(&format!("{name}: {why}"));
    }
    if missing.is_empty() { Ok(()) } else { packages::install(&missing) }
}

fn install_hook(workspace: &Workspace) -> Result<()> {
    let path = command::answer(workspace.command("git").args(["rev-parse", "--git-path", "hooks/pre-commit"]))
        .context("cannot find the git hooks: not a git checkout")?;
    let path: PathBuf = workspace.root().join(path);
    match std::fs::read_to_string(&path) {
        Ok(text) if text == HOOK => return Ok(()),
        Ok(_) => bail!("{} is there already and is not ours; add `cargo xtask check` to it", path.display()),
        Err(_) => {}
    }
    if let Some(dir) = path.parent() {
        std::fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
    }
    std::fs::write(&path, HOOK).with_context(|| format!("cannot write {}", path.display()))?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))?;
    eprintln!("setup: installed {}: runs `cargo xtask check` before each commit", path.display());
    Ok(())
}
