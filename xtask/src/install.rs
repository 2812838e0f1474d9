//! Building `profil`, putting it on PATH, and becoming it.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::Path;

use anyhow::{Context as _, Result};

use crate::setup::{self, Talk, Wanted};
use crate::workspace::Workspace;
use crate::{command, ebpf, root};

/// Sets up and builds; leaves `target/release/profil` behind.
pub fn build(workspace: &Workspace) -> Result<()> {
    setup::run(workspace, Wanted::default(), Talk::Changes)?;
    ebpf::build(workspace, ebpf::HOST_ARCH)?;
    // Quiet unless there is something to build: what `run` says should be what profil says.
    command::run_quietly(workspace.cargo("build").args(["--release", "--package", "profil-user", "--bin", "profil"]))
}

/// Builds, then becomes `profil ARGS` as root, so that its exit status and its signals are its own.
///
/// Returns only if that fails.
pub fn exec(workspace: &Workspace, args: &[OsString]) -> Result<std::convert::Infallible> {
    build(workspace)?;
    let error = root::command(workspace.profil(), "load the eBPF program")?.args(args).exec();
    Err(error).with_context(|| format!("cannot run {}", workspace.profil().display()))
}

/// Builds, then copies the binary into `prefix`/bin, as root where the folder is not ours.
pub fn install(workspace: &Workspace, prefix: &Path) -> Result<()> {
    build(workspace)?;
    let to = prefix.join("bin/profil");
    let install = |mut command: std::process::Command| {
        command::run(command.args(["-D", "-m", "755"]).arg(workspace.profil()).arg(&to))
    };
    let as_user = std::process::Command::new("install");
    if is_writable(prefix) {
        install(as_user)?;
    } else {
        install(root::command("install", &format!("write {}", to.display()))?)?;
    }
    println!("{}", to.display());
    Ok(())
}

/// Whether we may create files in the folder, or in the nearest one above it that exists.
fn is_writable(dir: &Path) -> bool {
    let dir = if dir.join("bin").exists() { dir.join("bin") } else { dir.to_owned() };
    let existing = dir.ancestors().find(|dir| dir.exists());
    // test(1) asks access(2), which knows of root, groups and read-only mounts; the mode bits do not.
    existing
        .is_some_and(|dir| std::process::Command::new("test").arg("-w").arg(dir).status().is_ok_and(|s| s.success()))
}
