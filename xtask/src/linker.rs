//! bpf-linker: makes one BPF object of LLVM bitcode.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::{command, packages};

/// The version that setup installs.
const VERSION: &str = "0.13.0";

/// An installed bpf-linker.
#[derive(Debug, Clone)]
pub struct Linker {
    /// Where it is.
    pub path: PathBuf,
    /// What `--version` says.
    pub version: String,
}

impl Linker {
    /// Looks on PATH, then where cargo installs to.
    ///
    /// Any other version than [`VERSION`] does not count: its LLVM may be too old for the toolchain's bitcode.
    pub fn find() -> Option<Self> {
        let on_path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&on_path)
            .chain(cargo_bin())
            .map(|dir| dir.join("bpf-linker"))
            .filter(|path| path.is_file())
            .find_map(|path| {
                let version = command::answer(Command::new(&path).arg("--version"))?;
                version.contains(VERSION).then_some(Self { path, version })
            })
    }

    /// Builds and installs it with cargo, as the user.
    pub fn install() -> Result<()> {
        eprintln!("setup: installing bpf-linker {VERSION}: links the eBPF object (about a minute)");
        let features = packages::LINKER[0].name.trim_end_matches("-dev");
        let mut cargo = Command::new("cargo");
        cargo
            .args(["install", "--quiet", "--locked", "bpf-linker", "--version", VERSION])
            .args(["--no-default-features", "--features", features])
            .env("LLVM_PREFIX", packages::llvm_prefix());
        command::run(&mut cargo).context("cannot install bpf-linker")
    }
}

fn cargo_bin() -> Option<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    Some(home.or_else(|| Some(std::env::home_dir()?.join(".cargo")))?.join("bin"))
}
