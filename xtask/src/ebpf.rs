//! Builds the eBPF objects, once per change of what they are made of.
//!
//! Cargo would build them anew for every profile and every command that has a build script ask for them, and each
//! time with `core`. So they are built here, and every other build is handed the path, in `PROFIL_EBPF_OBJECT`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::command;
use crate::instructions::{self, Function};
use crate::linker::Linker;
use crate::stamp::Stamp;
use crate::toolchain::Toolchain;
use crate::workspace::Workspace;

/// The CPU architecture of this machine, as Rust names it.
pub const HOST_ARCH: &str = std::env::consts::ARCH;

/// The Rust target: little-endian BPF, as are all machines that profil supports.
pub const TARGET: &str = "bpfel-unknown-none";

/// The binaries of profil-ebpf: what is shipped, and what only the suite loads.
const OBJECTS: [&str; 2] = ["profil", "profil-testrun"];

/// The objects of one build.
#[derive(Debug)]
pub struct Objects {
    /// What is shipped.
    pub profil: PathBuf,
    /// What only the suite loads.
    pub testrun: PathBuf,
}

impl Objects {
    /// Prints path, size and instructions per program.
    pub fn print(&self) -> Result<()> {
        let Self { profil, testrun } = self;
        for path in [profil, testrun] {
            let size = fs::metadata(path).with_context(|| format!("cannot stat {}", path.display()))?.len();
            println!("{}: {size} bytes", path.display());
            for Function { section, name, instructions } in instructions::count(path)? {
                println!("  {section:<28} {name:<28} {instructions:>6} instructions");
            }
        }
        Ok(())
    }
}

/// Builds the objects unless the last build was of the same sources with the same tools.
///
/// # Errors
///
/// If a tool is missing (`cargo xtask setup` installs it) or the build fails.
pub fn build(workspace: &Workspace, arch: &str) -> Result<Objects> {
    let toolchain = Toolchain::find().context("no toolchain for the eBPF object; `cargo xtask setup` installs one")?;
    let linker = Linker::find().context("no bpf-linker; `cargo xtask setup` installs it")?;
    let dir = workspace.ebpf_dir(arch);
    let [profil, testrun] = OBJECTS.map(|name| dir.join(name));
    let stamp_path = dir.join("stamp");
    let stamp = stamp(workspace, &toolchain, &linker, arch)?;
    let is_current =
        profil.exists() && testrun.exists() && fs::read_to_string(&stamp_path).is_ok_and(|old| old == stamp);
    if !is_current {
        // Its own target folder: another toolchain in the shared one would have cargo re-ask rustc for its facts at
        // every other call, and wait for the lock of a host build that runs us.
        let build_dir = workspace.root().join("target/ebpf-build");
        let mut cargo = cargo(workspace, &toolchain, &linker, arch, "build");
        cargo.args(["--release", "--bins", "--target-dir"]).arg(&build_dir);
        command::run(&mut cargo).context("cannot build the eBPF object")?;
        fs::create_dir_all(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
        for (name, path) in OBJECTS.iter().zip([&profil, &testrun]) {
            replace(&build_dir.join(TARGET).join("release").join(name), path)?;
        }
        fs::write(&stamp_path, stamp).with_context(|| format!("cannot write {}", stamp_path.display()))?;
    }
    Ok(Objects { profil, testrun })
}

/// Cargo as the eBPF crate needs it: its `core` from source, our linker, and the flags that aya-build would pass.
pub fn cargo(
    workspace: &Workspace,
    toolchain: &Toolchain,
    linker: &Linker,
    arch: &str,
    verb: &str,
) -> std::process::Command {
    let flags = [
        format!("--cfg=bpf_target_arch=\"{arch}\""),
        // Else every cfg on it is a warning: only a build script could declare it, and profil-ebpf has none.
        "--check-cfg=cfg(bpf_target_arch, values(\"aarch64\", \"x86_64\"))".to_owned(),
        "-Cdebuginfo=2".to_owned(),
        "-Clink-arg=--btf".to_owned(),
    ];
    let mut cargo = toolchain.cargo(verb);
    cargo
        .current_dir(workspace.root())
        .args(["--quiet", "--package", "profil-ebpf", "--target", TARGET, "-Z", "build-std=core"])
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"))
        .env("CARGO_TARGET_BPFEL_UNKNOWN_NONE_LINKER", &linker.path);
    cargo
}

fn stamp(workspace: &Workspace, toolchain: &Toolchain, linker: &Linker, arch: &str) -> Result<String> {
    let mut stamp = Stamp::default();
    for word in [&toolchain.name, &toolchain.version, &linker.version, arch] {
        stamp.word(word);
    }
    // This file too: it holds the flags.
    for input in ["profil-ebpf", "profil-common", "Cargo.toml", "Cargo.lock", "xtask/src/ebpf.rs"] {
        stamp.path(&workspace.root().join(input))?;
    }
    Ok(stamp.text())
}

/// Copies a file unless the content is the same: its time is what makes profil-user build again.
fn replace(from: &Path, to: &Path) -> Result<()> {
    let new = fs::read(from).with_context(|| format!("cannot read {}", from.display()))?;
    if new.is_empty() {
        bail!("{} is empty", from.display());
    }
    if fs::read(to).is_ok_and(|old| old == new) {
        return Ok(());
    }
    fs::write(to, new).with_context(|| format!("cannot write {}", to.display()))
}
