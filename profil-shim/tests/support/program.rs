//! C programs that are run with libprofil.so.

use std::env::current_exe;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// The library that cargo built together with the tests.
pub fn library() -> PathBuf {
    let tests = current_exe().expect("our own path");
    let library = tests.parent().expect("a folder").join("libprofil.so");
    assert!(library.exists(), "{} is not there", library.display());
    library
}

/// A folder with C programs.
#[derive(Debug)]
pub struct Programs {
    folder: TempDir,
}

impl Programs {
    /// An empty one, which any user may read.
    pub fn new() -> Programs {
        let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        let folder = TempDir::with_prefix("profil-shim-").expect("a folder");
        std::fs::set_permissions(folder.path(), permissions).expect("our own folder");
        Programs { folder }
    }

    /// Compiles `programs/NAME.c` with these flags.
    pub fn build(&self, name: &str, flags: &[&str]) -> PathBuf {
        let package = Path::new(env!("CARGO_MANIFEST_DIR"));
        let source = package.join("tests/programs").join(name).with_extension("c");
        let program = self.folder.path().join(name);
        let mut cc = Command::new("cc");
        cc.args(["-O1", "-Wall", "-Wextra", "-Werror", "-Wno-nonnull", "-I"]).arg(package.join("include"));
        cc.arg(&source).args(flags).arg("-o").arg(&program);
        let output = cc.output().expect("a C compiler");
        assert!(output.status.success(), "{cc:?}: {}", String::from_utf8_lossy(&output.stderr));
        program
    }

    /// Compiles the program of [`Run::calls`].
    fn calls(&self) -> PathBuf {
        self.build("calls", &[])
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

/// A run of a program.
#[derive(Debug)]
pub struct Run {
    command: Command,
    /// What goes away after the run.
    _folder: Option<Programs>,
}

impl Run {
    /// A run of `programs/calls.c` with libprofil.so preloaded and no service.
    pub fn calls() -> Run {
        let programs = Programs::new();
        let run = Run::preloaded(&programs.calls());
        Run { _folder: Some(programs), ..run }
    }

    /// A run with libprofil.so preloaded and no service.
    pub fn preloaded(program: &Path) -> Run {
        let mut run = Run::bare(program);
        run.command.env("LD_PRELOAD", library());
        run.env("PROFIL_SOCKET", "/nonexistent/socket")
    }

    /// A run as it would be without us.
    pub fn bare(program: &Path) -> Run {
        let mut command = Command::new(program);
        for name in ["SOCKET", "CONVENTION", "HZ", "DEBUG", "ZEROCOPY"] {
            command.env_remove(format!("PROFIL_{name}"));
        }
        command.env_remove("GMON_OUT_PREFIX").env_remove("PROFDIR");
        Run { command, _folder: None }
    }

    /// With a variable.
    pub fn env(mut self, name: &str, value: impl AsRef<std::ffi::OsStr>) -> Run {
        self.command.env(name, value);
        self
    }

    /// With arguments, which a blank separates.
    pub fn args(mut self, arguments: &str) -> Run {
        self.command.args(arguments.split_whitespace());
        self
    }

    /// With changes to its command.
    pub fn with(mut self, change: impl FnOnce(&mut Command)) -> Run {
        change(&mut self.command);
        self
    }

    /// As the argument of another program, with these options.
    pub fn below(mut self, program: &str, options: &[&str]) -> Run {
        let mut command = Command::new(program);
        command.args(options).arg(self.command.get_program()).args(self.command.get_args());
        for (name, value) in self.command.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        self.command = command;
        self
    }

    /// Runs it: what it did.
    pub fn output(mut self) -> Output {
        self.command.output().expect("a program that was just compiled")
    }

    /// Runs it, which must succeed: the lines that it printed.
    pub fn lines(self) -> Vec<String> {
        let shown = format!("{self:?}");
        let output = self.output();
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{shown}: {:?}\n{out}{err}", output.status);
        out.lines().map(str::to_owned).collect()
    }
}

/// Whether the tests run as root, which those with several users need.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
