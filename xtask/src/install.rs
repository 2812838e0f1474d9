//! Building `profil`, putting it on PATH, and becoming it.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
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

/// Builds, then copies the binary, the library and its header, the manual pages and the completions to `prefix`, as root
/// where the folder is not ours.
///
/// The library goes into a folder of its own: it is preloaded by its path, and a linker finds it with `-L`.
pub fn install(workspace: &Workspace, prefix: &Path) -> Result<()> {
    build(workspace)?;
    let mut files = vec![
        (workspace.profil(), "bin/profil".to_owned(), "755"),
        (workspace.libprofil(), "lib/profil/libprofil.so".to_owned(), "755"),
        (workspace.root().join("profil-shim/include/profil.h"), "include/profil.h".to_owned(), "644"),
    ];
    let folder = workspace.target().join("manual");
    // Pages of verbs that are no more would be installed too.
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    files.extend(write_manual(workspace, &folder)?.into_iter().map(|(from, to)| (from, to, "644")));
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

/// Writes what the binary says of itself into `folder`: manual pages, and completions under the names that the shells look
/// for. Returns each with the place below a prefix where it belongs.
fn write_manual(workspace: &Workspace, folder: &Path) -> Result<Vec<(PathBuf, String)>> {
    command::run(Command::new(workspace.profil()).arg("manual").arg(folder))?;
    let mut files = Vec::new();
    for page in std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let page = page?;
        files.push((page.path(), format!("share/man/man1/{}", page.file_name().display())));
    }
    let completions = [
        ("bash", "share/bash-completion/completions/profil"),
        ("zsh", "share/zsh/site-functions/_profil"),
        ("fish", "share/fish/vendor_completions.d/profil.fish"),
    ];
    for (shell, place) in completions {
        let script = Command::new(workspace.profil()).args(["completions", shell]).output();
        let script = script.with_context(|| format!("cannot run {}", workspace.profil().display()))?;
        let path = folder.join(shell);
        std::fs::write(&path, script.stdout).with_context(|| format!("cannot write {}", path.display()))?;
        files.push((path, place.to_owned()));
    }
    Ok(files)
}

/// Whether we may write the file: in its folder, or in the nearest one above it that exists.
fn is_writable(file: &Path) -> bool {
    let existing = file.ancestors().skip(1).find(|dir| dir.exists());
    // test(1) asks access(2), which knows of root, groups and read-only mounts; the mode bits do not.
    existing.is_some_and(|dir| Command::new("test").arg("-w").arg(dir).status().is_ok_and(|s| s.success()))
}
