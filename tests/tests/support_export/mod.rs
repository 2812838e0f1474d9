//! One recording, and `profil export` of it, for all tests of a test program.

#![allow(dead_code, reason = "each test program uses a part of it")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use profil_tests::profil::binary;
use profil_tests::{Profil, Scratch};
use serde_json::Value;

/// One recording of four programs, for all tests.
pub struct Recorded {
    pub folder: PathBuf,
    pub file: PathBuf,
    pub rows: Vec<Value>,
}

impl Recorded {
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Ticks of the rows that `wanted` picks.
    pub fn ticks(&self, wanted: impl Fn(&Value) -> bool) -> u64 {
        self.rows.iter().filter(|row| wanted(row)).map(ticks).sum()
    }

    pub fn in_function(&self, object: &Path, function: &str) -> u64 {
        self.ticks(|row| is_in(row, object) && row["function"] == function)
    }

    pub fn build_id(&self, object: &Path) -> &str {
        let row = self.rows.iter().find(|row| is_in(row, object)).expect("the object has ticks");
        row["build_id"].as_str().expect("the object has a build ID")
    }
}

pub fn is_in(row: &Value, object: &Path) -> bool {
    row["object"].as_str().is_some_and(|path| Path::new(path) == object)
}

pub fn ticks(row: &Value) -> u64 {
    row["ticks"].as_u64().expect("a number")
}

/// Records a position-independent program, one at fixed addresses, one whose time is a library's, and one that clang built
/// for tools that rebuild it; each name says which. The second and the library have no debug information, and so nothing
/// that is known to be inlined.
pub fn recorded() -> &'static Recorded {
    static RECORDED: OnceLock<Recorded> = OnceLock::new();
    RECORDED.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(env!("CARGO_CRATE_NAME"));
        // What another run has left.
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("our own folder");
        let scratch = Scratch::new();
        let keep = |from: PathBuf| {
            let to = folder.join(from.file_name().expect("a file"));
            fs::copy(from, &to).expect("our own folder");
            to
        };
        let pie = keep(scratch.build_as("shares", "pie", &["-fPIE", "-pie"]));
        let fixed = keep(scratch.build_as("shares", "fixed", &["-fno-pie", "-no-pie", "-g0"]));
        let library = keep(scratch.build_as("plugin", "libplugin.so", &["-shared", "-fPIC", "-g0"]));
        let loader = keep(scratch.build("loader"));
        let branchy = folder.join("branchy");
        build_branchy(&branchy, &[]);
        let script = format!(
            "{} 0.4; {} 0.4; {} {} 0.4; {} 6000000",
            pie.display(),
            fixed.display(),
            loader.display(),
            library.display(),
            branchy.display()
        );
        let file = folder.join("profile.pb.gz");
        let arguments = ["-F", "1999"];
        let recorded = Profil::record_to(file.clone(), &arguments).launch("sh", &["-c", &script]).run();
        assert_eq!(recorded.code(), 0, "{}", recorded.stderr);
        let json = stdout(export(&["-f", "json"], &file));
        let json: Value = serde_json::from_str(&json).expect("JSON");
        let rows = json["rows"].as_array().expect("an array").clone();
        assert_eq!(rows.iter().map(ticks).sum::<u64>(), json["outcomes"]["stray"].as_u64().expect("a number"));
        Recorded { folder, file, rows }
    })
}

/// Builds the target of the tools that rebuild programs, by clang where it is there.
pub fn build_branchy(program: &Path, flags: &[&str]) -> Output {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("targets/branchy.c");
    let mut compiler = Command::new(if has("clang-22") { "clang-22" } else { "gcc" });
    if has("clang-22") {
        compiler.args(["-fdebug-info-for-profiling", "-Wno-unknown-attributes"]);
    }
    compiler.args(["-O2", "-g", "-Wall", "-Werror", "-pthread", "-Wl,--emit-relocs,--build-id", "-o"]);
    done(compiler.arg(program).arg(source).args(flags))
}

pub fn has(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// `profil export` of a file.
pub fn export(arguments: &[&str], file: &Path) -> Output {
    Command::new(binary()).arg("export").args(arguments).arg(file).output().expect("profil runs")
}

/// The same to a file, whose path comes back.
pub fn export_to(name: &str, arguments: &[&str]) -> PathBuf {
    let recorded = recorded();
    let path = recorded.path(name);
    let output = export(&[arguments, &["-o", path.to_str().expect("UTF-8")]].concat(), &recorded.file);
    stdout(output);
    path
}

pub fn done(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}{said}", String::from_utf8_lossy(&output.stdout));
    output
}

pub fn stdout(output: Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}
