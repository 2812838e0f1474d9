//! Every example that `--help`, the manual pages and the README show works as it is shown.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use profil_tests::patience::until;
use profil_tests::{Cgroup, Scratch, feature, profil};

/// A recording of `work`.
const RECORDING: &str = "work.pb.gz";

/// What goes on until it is ended, as a person would end it: by Ctrl-C.
const ENDLESS: [&str; 2] = ["profil daemon", "profil top"];

fn profil(arguments: &[&str]) -> String {
    let output = Command::new(profil::binary()).args(arguments).output().expect("profil runs");
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// The verbs that `profil --help` lists.
fn verbs() -> Vec<String> {
    let help = profil(&["--help"]);
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    // A description that is too long goes on below, further to the right.
    listed
        .filter_map(|line| line.strip_prefix("  ")?.split(' ').next())
        .filter(|verb| !verb.is_empty())
        .map(Into::into)
        .collect()
}

/// The commands in the examples of a help text; what they do stands two blanks or more behind them.
fn examples(help: &str) -> Vec<String> {
    let block = help.lines().skip_while(|line| *line != "EXAMPLES").skip(1).take_while(|line| line.starts_with("  "));
    block.map(|line| line.trim().split("  ").next().unwrap_or_default().to_owned()).collect()
}

/// The commands that a Markdown text shows, without what becomes root: behind a prompt, and in its sentences where they are
/// whole, with options and without words for what the reader puts there.
fn commands_of(markdown: &str) -> Vec<String> {
    let is_whole = |code: &&str| {
        code.contains(" -") && !code.contains(|c: char| c.is_ascii_uppercase() || c == '[') && !code.contains("..")
    };
    let prompted = markdown.lines().filter_map(|line| line.strip_prefix("$ "));
    let in_sentences = markdown.split('`').skip(1).step_by(2).filter(is_whole);
    let commands = prompted.chain(in_sentences).map(|line| line.strip_prefix("sudo ").unwrap_or(line));
    commands.filter(|line| line.starts_with("profil ")).map(Into::into).collect()
}

/// A folder in which the examples find what they name, and a process that they may look at.
struct Stage {
    scratch: Scratch,
    target: std::process::Child,
    group: Cgroup,
}

impl Stage {
    fn set() -> Option<Stage> {
        let Some(group) = Cgroup::new() else {
            feature::skip("examples", "no hierarchy of control groups v2 that we may write to");
            return None;
        };
        let scratch = Scratch::new();
        for name in ["work", "split"] {
            scratch.build(name);
        }
        fs::copy(scratch.path("work"), scratch.path("target")).expect("a copy in our own folder");
        // Not where the examples write: one of them makes a file of that name.
        fs::create_dir(scratch.path("bin")).expect("our own folder");
        std::os::unix::fs::symlink(profil::binary(), scratch.path("bin/profil")).expect("a link in our own folder");
        let python =
            "import time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: sum(range(1000))\n";
        fs::write(scratch.path("work.py"), python).expect("our own folder");
        let target =
            Command::new(scratch.path("target")).arg("600").stdin(Stdio::null()).spawn().expect("it was built");
        group.add(target.id());
        let recorded = Command::new(profil::binary())
            .args(["record", "-q", "-o"])
            .arg(scratch.path(RECORDING))
            .arg("--")
            .arg(scratch.path("work"))
            .status()
            .expect("profil runs");
        assert!(recorded.success(), "{recorded}");
        Some(Stage { scratch, target, group })
    }

    /// Runs an example, with the names of this machine in place of those in the text.
    fn play(&self, example: &str) {
        let folder = self.scratch.path("");
        // What the views show when no file is named, the run before it, and another: examples of `record` write them too.
        for file in ["profile.pb.gz", "profile.pb.gz.old", "host.pb.gz"] {
            fs::copy(self.scratch.path(RECORDING), self.scratch.path(file)).expect("our own folder");
        }
        let command = example
            .replace("1234", &self.target.id().to_string())
            .replace("nginx.service", &self.group.path().display().to_string())
            .replace("-d 10", "-d 1");
        let path = std::env::join_paths(
            [self.scratch.path("bin")]
                .into_iter()
                .chain(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())),
        );
        let endless = ENDLESS.iter().any(|endless| example.starts_with(endless));
        // Ctrl-C must reach profil itself, and no shell that would then end by it.
        let (limit, command) = if endless { ("5", format!("exec {command}")) } else { ("120", command) };
        let output = Command::new("timeout")
            .args(["--preserve-status", "--signal=INT", limit, "sh", "-c", &command])
            .current_dir(&folder)
            .env("PATH", path.expect("no colon in a folder of ours"))
            .stdin(Stdio::null())
            .output()
            .expect("timeout(1) runs");
        assert!(output.status.success(), "`{example}`, run as `{command}`: {output:?}");
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // The target was never waited for, so that both work.
        let _ = self.target.kill();
        let _ = self.target.wait();
        until("the control group is empty", || {
            fs::read_to_string(self.group.path().join("cgroup.procs")).ok()?.is_empty().then_some(())
        });
    }
}

#[test]
fn every_example_of_every_help_runs() {
    let Some(stage) = Stage::set() else { return };
    let verbs = verbs();
    assert!(verbs.len() >= 7, "{verbs:?}");
    for example in examples(&profil(&["--help"])) {
        stage.play(&example);
    }
    for verb in &verbs {
        let examples = examples(&profil(&[verb, "--help"]));
        assert!(!examples.is_empty(), "profil {verb} --help has no example");
        for example in examples {
            stage.play(&example);
        }
    }
}

#[test]
fn every_example_of_the_readme_runs() {
    let Some(stage) = Stage::set() else { return };
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md");
    let examples = commands_of(&fs::read_to_string(readme).expect("the README is there"));
    assert!(examples.len() >= 3, "{examples:?}");
    for example in examples {
        stage.play(&example);
    }
}

#[test]
fn the_manual_has_a_page_for_each_verb_with_the_examples_of_its_help() {
    let scratch = Scratch::new();
    let folder = scratch.path("");
    profil(&["manual", folder.to_str().expect("UTF-8")]);
    for verb in verbs().iter().map(Some).chain([None]) {
        let (name, help) = match verb {
            Some(verb) => (format!("profil-{verb}.1"), profil(&[verb, "--help"])),
            None => ("profil.1".to_owned(), profil(&["--help"])),
        };
        let page = scratch.path(&name);
        // What man(1) would show, and what it would complain of.
        let shown = Command::new("groff").args(["-man", "-Tutf8", "-ww", "-P-cbou", "-rLL=200n"]).arg(&page).output();
        let shown = shown.expect("groff runs");
        assert!(
            shown.status.success() && shown.stderr.is_empty(),
            "{name}: {}",
            String::from_utf8_lossy(&shown.stderr)
        );
        let text = String::from_utf8(shown.stdout).expect("UTF-8");
        for example in examples(&help) {
            assert!(text.contains(&example), "{name} lacks `{example}`:\n{text}");
        }
    }
}

#[test]
fn the_completions_are_understood_by_their_shells() {
    let scratch = Scratch::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = scratch.path(shell);
        fs::write(&script, profil(&["completions", shell])).expect("our own folder");
        let checked = Command::new(shell).arg("-n").arg(&script).output().expect("the shell is installed");
        assert!(checked.status.success() && checked.stderr.is_empty(), "{shell}: {checked:?}");
    }
    // bash offers the verbs and the options of a verb.
    let script = scratch.path("bash");
    let ask = format!(
        ". {}; COMP_WORDS=(profil re); COMP_CWORD=1; _profil profil re profil; echo ${{COMPREPLY[@]}}; \
         COMP_WORDS=(profil report --b); COMP_CWORD=2; _profil profil --b report; echo ${{COMPREPLY[@]}}",
        script.display()
    );
    let asked = Command::new("bash").args(["-c", &ask]).output().expect("bash runs");
    let offered = String::from_utf8_lossy(&asked.stdout).into_owned();
    assert!(offered.contains("record") && offered.contains("report") && offered.contains("--by"), "{asked:?}");
}
