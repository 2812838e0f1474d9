//! The Rust toolchain that builds the eBPF object: one with the source of `core`, and with unstable options.
//!
//! No toolchain ships a compiled `core` for bpfel-unknown-none. Two will do, in this order:
//!
//! 1. a rustup nightly that has the component rust-src;
//! 2. Debian's rustc-web, cargo-web and rust-web-src, linked into rustup as [`LINKED`], with `RUSTC_BOOTSTRAP=1`.
//!
//! The second needs nothing from rustup's servers, so it works where only stable can be had.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::command;

/// The name under which Debian's toolchain is linked into rustup.
pub const LINKED: &str = "profil-ebpf";

/// The newest LLVM whose bitcode our bpf-linker reads.
pub const LLVM: u32 = 22;

/// A toolchain that can build for bpfel-unknown-none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Toolchain {
    /// What follows the `+` in `cargo +name`.
    pub name: String,
    /// `rustc -vV` in full: tells one build of a toolchain from the next.
    pub version: String,
}

impl Toolchain {
    /// Finds a nightly with rust-src, else the linked one.
    ///
    /// Asks only for what is installed: rustup must not start to download here, because where it cannot reach its
    /// servers it would hang.
    pub fn find() -> Option<Self> {
        Self::nightly().or_else(Self::linked)
    }

    /// The first rustup nightly that has rust-src and an LLVM that bpf-linker can read.
    pub fn nightly() -> Option<Self> {
        let list = command::answer(rustup().args(["toolchain", "list"]))?;
        list.lines()
            .filter_map(|line| line.split_whitespace().next())
            .filter(|name| name.starts_with("nightly"))
            .filter_map(Self::named)
            .find(|toolchain| toolchain.llvm().is_some_and(|llvm| llvm <= LLVM))
    }

    fn linked() -> Option<Self> {
        Self::named(LINKED)
    }

    /// The toolchain of that name, if it is installed, has the source of `core`, and is new enough for the workspace.
    fn named(name: &str) -> Option<Self> {
        let rustc = |question: &str| command::answer(rustup().args(["run", name, "rustc", question]));
        let sysroot = command::answer(rustup().args(["run", name, "rustc", "--print", "sysroot"]))?;
        Path::new(&sysroot).join("lib/rustlib/src/rust/library/core/src/lib.rs").exists().then_some(())?;
        let toolchain = Self { name: name.to_owned(), version: rustc("-vV")? };
        (toolchain.minor()? >= minor(env!("CARGO_PKG_RUST_VERSION"))?).then_some(toolchain)
    }

    /// The 95 of Rust 1.95.
    fn minor(&self) -> Option<u32> {
        minor(self.version.lines().find_map(|line| line.strip_prefix("release: "))?)
    }

    fn llvm(&self) -> Option<u32> {
        let version = self.version.lines().find_map(|line| line.strip_prefix("LLVM version: "))?;
        version.split('.').next()?.parse().ok()
    }

    /// One line on which toolchain this is.
    pub fn summary(&self) -> String {
        format!("{} ({})", self.name, self.version.lines().next().unwrap_or_default())
    }

    /// Cargo of this toolchain, with unstable options allowed, and nothing inherited from the cargo that runs us.
    pub fn cargo(&self, verb: &str) -> Command {
        let mut cargo = Command::new("cargo");
        cargo.arg(format!("+{}", self.name)).arg(verb).env("RUSTC_BOOTSTRAP", "1");
        for inherited in ["CARGO", "RUSTC", "RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER", "RUSTFLAGS", "RUSTUP_TOOLCHAIN"]
        {
            cargo.env_remove(inherited);
        }
        cargo
    }
}

/// Links Debian's toolchain into rustup. Changes no default.
pub fn link() -> Result<()> {
    command::run(rustup().args(["toolchain", "link", LINKED, "/usr"]))
        .context("cannot link Debian's toolchain into rustup")
}

fn minor(version: &str) -> Option<u32> {
    version.split('.').nth(1)?.parse().ok()
}

fn rustup() -> Command {
    let mut rustup = Command::new("rustup");
    rustup.env("RUSTUP_AUTO_INSTALL", "0").env_remove("RUSTUP_TOOLCHAIN");
    rustup
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_what_rustc_says() {
        let version = "rustc 1.97.0-nightly (e50aa6fba 2026-05-19)\nrelease: 1.97.0-nightly\nLLVM version: 22.1.4";
        let toolchain = Toolchain { name: "nightly".to_owned(), version: version.to_owned() };
        assert_eq!((toolchain.minor(), toolchain.llvm()), (Some(97), Some(22)));
        assert_eq!(toolchain.summary(), "nightly (rustc 1.97.0-nightly (e50aa6fba 2026-05-19))");
    }
}
