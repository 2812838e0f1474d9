//! Where things are in the workspace.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

/// The workspace that this xtask belongs to.
#[derive(Debug, Clone)]
pub struct Workspace {
    root: PathBuf,
    target: PathBuf,
}

impl Workspace {
    /// The workspace that xtask was built in.
    pub fn find() -> Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask is not inside a workspace")?;
        let target = match std::env::var_os("CARGO_TARGET_DIR") {
            Some(dir) => root.join(dir),
            None => root.join("target"),
        };
        Ok(Self { root: root.to_owned(), target })
    }

    /// The folder with the top Cargo.toml.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Where the eBPF objects for an architecture are put.
    ///
    /// Below the workspace even when `CARGO_TARGET_DIR` says otherwise, because the build script of profil-user and
    /// .cargo/config.toml must find it with no knowledge of that.
    pub fn ebpf_dir(&self, arch: &str) -> PathBuf {
        let name = if arch == std::env::consts::ARCH { "ebpf".to_owned() } else { format!("ebpf-{arch}") };
        self.root.join("target").join(name)
    }

    /// Where cargo builds.
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// Where the release build leaves `profil`.
    pub fn profil(&self) -> PathBuf {
        self.target.join("release/profil")
    }

    /// Where the release build leaves the library that programs preload.
    pub fn libprofil(&self) -> PathBuf {
        self.target.join("release/libprofil.so")
    }

    /// A command that runs in the root of the workspace.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.root);
        command
    }

    /// Cargo of the toolchain in use, in the root of the workspace.
    pub fn cargo(&self, verb: &str) -> Command {
        let mut command = self.command("cargo");
        command.arg(verb);
        command
    }
}
