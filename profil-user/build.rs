//! Hands the eBPF object to the crate, which embeds it: users of the binary need no eBPF toolchain.
//!
//! The object is not built here, but by `cargo xtask ebpf`, once for all profiles and commands. The crate reads it by
//! `aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/profil.bpf.o"))`.

use std::path::{Path, PathBuf};
use std::{env, fs};

use anyhow::{Context as _, Result, ensure};

/// Environment variable with the path of the object; .cargo/config.toml sets it to where xtask puts it.
const OBJECT_ENV: &str = "PROFIL_EBPF_OBJECT";

fn main() -> Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed={OBJECT_ENV}");
    let object = match env::var_os(OBJECT_ENV) {
        Some(path) => PathBuf::from(path),
        None => Path::new(&variable("CARGO_MANIFEST_DIR")?).join("../target/ebpf/profil"),
    };
    println!("cargo::rerun-if-changed={}", object.display());
    let bytes = fs::read(&object).with_context(|| {
        format!(
            "cannot read the eBPF object {}; `cargo xtask ebpf` builds it, {OBJECT_ENV} names another one",
            object.display()
        )
    })?;
    ensure!(bytes.starts_with(b"\x7fELF"), "{} is not an ELF object", object.display());
    let copy = Path::new(&variable("OUT_DIR")?).join("profil.bpf.o");
    fs::write(&copy, bytes).with_context(|| format!("cannot write {}", copy.display()))
}

fn variable(name: &str) -> Result<std::ffi::OsString> {
    env::var_os(name).with_context(|| format!("cargo did not set {name}"))
}
