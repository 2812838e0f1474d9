//! Building `profil`, putting it on PATH, and becoming it.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::setup::{self, Talk, Wanted};
use crate::workspace::Workspace;
use crate::{command, ebpf, root};

/// Sets up and builds; leaves `target/release/profil` and `target/release/libprofil.so` behind.
pub fn build(workspace: &Workspace) -> Result<()> {
    setup::run(workspace, Wanted::default(), Talk::Changes)?;
    ebpf::build(workspace, ebpf::HOST_ARCH)?;
    let mut cargo = workspace.cargo("build");
    cargo.args(["--release", "--package", "profil-user", "--package", "profil-shim"]);
    // The first build shows its progress; later, what `run` says should be what profil says.
    if workspace.profil().exists() {
        cargo.arg("--quiet");
    }
    command::run_quietly(&mut cargo)
}

/// Builds, then becomes `profil ARGS` as root, so that its exit status and its signals are its own.
///
/// Returns only if that fails.
pub fn exec(workspace: &Workspace, args: &[OsString]) -> Result<std::convert::Infallible> {
    build(workspace)?;
    let mut profil = root::command(workspace.profil(), "load the eBPF program")?;
    forget_cargo(&mut profil, workspace);
    let error = profil.args(args).exec();
    Err(error).with_context(|| format!("cannot run {}", workspace.profil().display()))
}

/// Takes back what `cargo run` and rustup put into the environment: the command that profil starts has its user's.
fn forget_cargo(command: &mut Command, workspace: &Workspace) {
    const NAMES: [&str; 4] = ["CARGO", "RUSTUP_TOOLCHAIN", "RUSTUP_TOOLCHAIN_SOURCE", "RUST_RECURSION_COUNT"];
    const PREFIXES: [&str; 3] = ["CARGO_PKG_", "CARGO_MANIFEST_", "PROFIL_EBPF_"];
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if NAMES.contains(&&*text) || PREFIXES.iter().any(|prefix| text.starts_with(prefix)) {
            command.env_remove(&name);
        }
    }
    // Cargo puts its own folders, and those of the toolchain's libraries, in front of the user's.
    let Some(path) = std::env::var_os("LD_LIBRARY_PATH") else { return };
    let is_cargos = |dir: &Path| {
        dir.starts_with(workspace.target())
            || dir.join("rustlib").exists()
            || dir.components().any(|part| part.as_os_str() == "rustlib")
    };
    let users: Vec<_> = std::env::split_paths(&path).filter(|dir| !is_cargos(dir)).collect();
    match std::env::join_paths(&users) {
        Ok(users) if !users.is_empty() => command.env("LD_LIBRARY_PATH", users),
        _ => command.env_remove("LD_LIBRARY_PATH"),
    };
}

/// Builds, then copies the binary, the library and its header to `prefix`, as root where the folder is not ours.
///
/// The library goes into a folder of its own: it is preloaded by its path, and a linker finds it with `-L`.
pub fn install(workspace: &Workspace, prefix: &Path) -> Result<()> {
    build(workspace)?;
    let files = [
        (workspace.profil(), "bin/profil", "755"),
        (workspace.libprofil(), "lib/profil/libprofil.so", "755"),
        (workspace.root().join("profil-shim/include/profil.h"), "include/profil.h", "644"),
    ];
    for (from, to, mode) in files {
        let to = prefix.join(to);
        let mut install = if is_writable(&to) {
            Command::new("install")
        } else {
            root::command("install", &format!("write {}", to.display()))?
        };
        command::run(install.args(["-D", "-m", mode]).arg(from).arg(&to))?;
        println!("{}", to.display());
    }
    Ok(())
}

/// Whether we may write the file: in its folder, or in the nearest one above it that exists.
fn is_writable(file: &Path) -> bool {
    let existing = file.ancestors().skip(1).find(|dir| dir.exists());
    // test(1) asks access(2), which knows of root, groups and read-only mounts; the mode bits do not.
    existing.is_some_and(|dir| Command::new("test").arg("-w").arg(dir).status().is_ok_and(|s| s.success()))
}
