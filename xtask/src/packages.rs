//! The Debian packages that the build and the suite need, and why.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::{command, root};

/// A Debian package and the reason for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Package {
    /// Its name in Debian 12.
    pub name: &'static str,
    /// Why it is needed.
    pub why: &'static str,
}

/// Debian's Rust toolchain: it has the source of `core`, from which the eBPF object is built.
pub const TOOLCHAIN: &[Package] = &[
    Package { name: "rustc-web", why: "compiles the eBPF object" },
    Package { name: "cargo-web", why: "builds `core` for the eBPF target" },
    Package { name: "rust-web-src", why: "the source of `core`" },
    Package { name: "rust-web-clippy", why: "checks the eBPF code" },
];

/// What bpf-linker is built against.
pub const LINKER: &[Package] = &[Package { name: "llvm-22-dev", why: "bpf-linker links against LLVM 22" }];

/// What the suite runs beside, against, or as its targets.
pub const TESTS: &[Package] = &[
    Package { name: "gcc", why: "compiles the C targets" },
    Package { name: "g++", why: "compiles the C++ targets" },
    Package { name: "libc6-dev", why: "headers of the C targets, and gcrt1.o for -pg" },
    Package {
        name: "binutils",
        why: "gprof reads our gmon.out; objcopy splits debug files; objdump knows where instructions begin",
    },
    Package { name: "lld", why: "targets with lld's segment layout" },
    Package { name: "mold", why: "targets with mold's segment layout" },
    Package { name: "golang-go", why: "`go tool pprof` reads our profiles; Go targets" },
    Package { name: "google-perftools", why: "a second reader of profiles" },
    Package { name: "libgoogle-perftools-dev", why: "a target that uses ITIMER_PROF itself" },
    Package { name: "bpftrace", why: "a neighbour whose tracepoints blind the tick" },
    Package { name: "linux-perf", why: "the profiler that shares are compared with" },
    Package { name: "bpftool", why: "lists what is left in the kernel after a run" },
    Package { name: "util-linux", why: "unshare, setpriv and taskset put targets into other places" },
    Package { name: "python3", why: "a target that uses setitimer itself; a strict reader of our SVG" },
    Package { name: "chromium", why: "shows our SVG, and tells what is where in it" },
    Package { name: "tmux", why: "a terminal for the live view" },
    Package { name: "groff-base", why: "reads our manual pages as man(1) does" },
    Package { name: "zsh", why: "reads our completions" },
    Package { name: "fish", why: "reads our completions" },
    Package { name: "gdb", why: "profiles itself through monstartup" },
    Package { name: "gcl", why: "calls profil(3) itself" },
    Package { name: "valgrind", why: "looks into libprofil.so; callgrind_annotate reads our profiles" },
    Package { name: "clang-22", why: "optimises a target by our profile of it" },
    Package { name: "bolt-22", why: "lays a target out by our profile of it" },
    Package { name: "musl-tools", why: "a target of another libc" },
];

/// Those of `wanted` that are not installed.
pub fn missing(wanted: &[Package]) -> Vec<Package> {
    // One question for all: dpkg-query fails if one is unknown, but prints those that it knows.
    let output = Command::new("dpkg-query")
        .args(["--show", "--showformat", "${db:Status-Status} ${Package}\n"])
        .args(wanted.iter().map(|package| package.name))
        .output();
    let installed = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let is_installed =
        |package: &Package| installed.lines().any(|line| line.strip_prefix("installed ") == Some(package.name));
    wanted.iter().filter(|package| !is_installed(package)).copied().collect()
}

/// Installs packages with apt-get, or brings them to the newest version; `apt-get update` only where it does not work
/// without: apt does not know one of them yet, or knows only versions that its server no longer has.
///
/// # Errors
///
/// If there is no apt-get, a package has no candidate, or apt-get fails.
pub fn install(packages: &[Package]) -> Result<()> {
    let names = || packages.iter().map(|package| package.name);
    if !root::on_path("apt-get") {
        bail!(
            "cannot install {}: this is no Debian (no apt-get on PATH); install what stands for them here",
            names().collect::<Vec<_>>().join(", ")
        );
    }
    for Package { name, why } in packages {
        eprintln!("setup: installing {name}: {why}");
    }
    let mut install = apt_get()?;
    install.args(["--quiet", "--quiet", "--yes", "--no-install-recommends", "install"]).args(names());
    if names().all(has_candidate) && command::run(&mut install).is_ok() {
        return Ok(());
    }
    update()?;
    let unknown: Vec<_> = names().filter(|name| !has_candidate(name)).collect();
    if !unknown.is_empty() {
        bail!(
            "apt has no candidate for {}: Debian 12 with its security updates has them; see /etc/apt/sources.list",
            unknown.join(", ")
        );
    }
    command::run(&mut install).context("cannot install Debian packages")
}

/// Fetches the lists of packages.
pub fn update() -> Result<()> {
    command::run(apt_get()?.args(["--quiet", "--quiet", "update"])).context("cannot refresh the package lists")
}

fn apt_get() -> Result<Command> {
    // env, because sudo passes no environment on, and a question from debconf would wait for ever.
    let mut command = root::command("env", "install Debian packages")?;
    command.args(["DEBIAN_FRONTEND=noninteractive", "apt-get", "-o", "Dpkg::Use-Pty=0"]);
    Ok(command)
}

fn has_candidate(name: &str) -> bool {
    let Some(policy) = command::answer(Command::new("apt-cache").args(["policy", name]).env("LC_ALL", "C")) else {
        return false;
    };
    policy.lines().any(|line| line.trim().strip_prefix("Candidate: ").is_some_and(|version| version != "(none)"))
}

/// The folder of the LLVM that [`LINKER`] installs.
pub fn llvm_prefix() -> &'static Path {
    Path::new("/usr/lib/llvm-22")
}
