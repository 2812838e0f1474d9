//! The command line of xtask.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use lexopt::prelude::*;

use crate::{bench, check, ebpf, fuzz, setup, suite};

/// What `cargo xtask help` prints.
pub const HELP: &str = "\
Usage: cargo xtask VERB

  run [--] ARGS...      set up, build, and run `profil ARGS...` as root
  test [--unit|--root] [FILTER]
                        set up, check, then the suite that needs root and a kernel;
                        --unit: only what needs no root; --root: only the suite
  setup [--tests] [--hook]
                        install what the build needs (--tests: and the suite;
                        --hook: and a git hook that runs `check` before each commit)
  ebpf [--arch ARCH]    build the eBPF object once per change of its sources
  check [--fix]         rustfmt, clippy, tidy, unit and doc tests, documentation
  tidy                  the rules on the tree itself
  bench [--quick] [--only tick|target|calls|footprint]
                        what a tick costs and what profil takes, into docs/benchmarks.md
                        (--quick: a first look; --only: one part; neither is written)
  fuzz [TARGET] [--runs N] [--seed N]
                        mutated input for the parsers of messages (wire), of /proc/PID/maps
                        (maps), of JITs' maps (perf-map) and of the reader of symbols
                        (names); a million each by default
  install [--prefix DIR]
                        put `profil` into DIR/bin (default /usr/local)
";

/// A parsed command line.
#[derive(Debug)]
pub struct Args {
    /// What to do.
    pub verb: Verb,
}

/// What to do.
#[derive(Debug)]
pub enum Verb {
    /// Print [`HELP`].
    Help,
    /// Install what the build needs, and what else is wanted.
    Setup(setup::Wanted),
    /// Build the eBPF object for a CPU architecture, named as Rust names it.
    Ebpf { arch: String },
    /// All checks that need no root.
    Check(check::Mode),
    /// Only the rules on the tree.
    Tidy,
    /// Checks and suite.
    Test { part: suite::Part, filter: Option<String> },
    /// Measure.
    Bench(bench::Plan),
    /// Mutated input for the parsers.
    Fuzz(fuzz::Plan),
    /// Become `profil ARGS`.
    Run { args: Vec<OsString> },
    /// Copy the binary below a prefix.
    Install { prefix: PathBuf },
}

impl Args {
    /// Parses the arguments after the program's name.
    pub fn parse(args: impl Iterator<Item = OsString>) -> Result<Self> {
        let mut parser = lexopt::Parser::from_args(args);
        let verb = match parser.next()? {
            None | Some(Short('h') | Long("help")) => Verb::Help,
            Some(Value(verb)) => Self::verb(&verb.string()?, &mut parser)?,
            Some(other) => return Err(other.unexpected().into()),
        };
        Ok(Self { verb })
    }

    fn verb(verb: &str, parser: &mut lexopt::Parser) -> Result<Verb> {
        Ok(match verb {
            "help" => Verb::Help,
            "setup" => {
                let mut wanted = setup::Wanted::default();
                while let Some(arg) = parser.next()? {
                    match arg {
                        Long("tests") => wanted.tests = true,
                        Long("hook") => wanted.hook = true,
                        other => return Err(other.unexpected().into()),
                    }
                }
                Verb::Setup(wanted)
            }
            "ebpf" => {
                let mut arch = ebpf::HOST_ARCH.to_owned();
                while let Some(arg) = parser.next()? {
                    match arg {
                        Long("arch") => arch = parser.value()?.string()?,
                        other => return Err(other.unexpected().into()),
                    }
                }
                Verb::Ebpf { arch }
            }
            "check" => {
                let mut mode = check::Mode::Report;
                while let Some(arg) = parser.next()? {
                    match arg {
                        Long("fix") => mode = check::Mode::Fix,
                        other => return Err(other.unexpected().into()),
                    }
                }
                Verb::Check(mode)
            }
            "tidy" => match parser.next()? {
                None => Verb::Tidy,
                Some(other) => return Err(other.unexpected().into()),
            },
            "test" => {
                let (mut part, mut filter) = (suite::Part::All, None);
                while let Some(arg) = parser.next()? {
                    match arg {
                        Long("unit") => part = suite::Part::Unit,
                        Long("root") => part = suite::Part::Root,
                        Value(value) if filter.is_none() => filter = Some(value.string()?),
                        other => return Err(other.unexpected().into()),
                    }
                }
                Verb::Test { part, filter }
            }
            // What follows belongs to profil, options and all.
            "run" => {
                let mut args: Vec<OsString> = parser.raw_args()?.collect();
                // `run -- ls` is `profil -- ls`; `run -- -p 1` is `profil -p 1`: profil has to see the `--` only
                // where a command follows it.
                if args.first().is_some_and(|arg| arg == "--")
                    && args.get(1).is_none_or(|arg| arg.as_encoded_bytes().starts_with(b"-"))
                {
                    args.remove(0);
                }
                Verb::Run { args }
            }
            "bench" => {
                let mut plan = bench::Plan { effort: bench::Effort::Full, only: None };
                while let Some(arg) = parser.next()? {
                    match arg {
                        Long("quick") => plan.effort = bench::Effort::Quick,
                        Long("only") => plan.only = Some(parser.value()?.string()?),
                        other => return Err(other.unexpected().into()),
                    }
                }
                Verb::Bench(plan)
            }
            "fuzz" => {
                let mut plan = fuzz::Plan::default();
                while let Some(arg) = parser.next()? {
                    match arg {
                        Long("runs") => plan.runs = parser.value()?.parse()?,
                        Long("seed") => plan.seed = parser.value()?.parse()?,
                        Value(target) if plan.target.is_none() => plan.target = Some(target.string()?),
                        other => return Err(other.unexpected().into()),
                    }
                }
                Verb::Fuzz(plan)
            }
            "install" => {
                let mut prefix = PathBuf::from("/usr/local");
                while let Some(arg) = parser.next()? {
                    match arg {
                        Long("prefix") => prefix = parser.value().context("--prefix needs a folder")?.into(),
                        other => return Err(other.unexpected().into()),
                    }
                }
                Verb::Install { prefix }
            }
            other => bail!("no verb {other:?}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Verb> {
        Ok(Args::parse(line.split_whitespace().map(OsString::from))?.verb)
    }

    fn run_args(line: &str) -> Vec<OsString> {
        match parse(line).unwrap() {
            Verb::Run { args } => args,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn what_follows_run_goes_to_profil_untouched() {
        assert_eq!(run_args("run -- ls"), ["--", "ls"]);
        assert_eq!(run_args("run -- ls -l"), ["--", "ls", "-l"]);
        assert_eq!(run_args("run record -p 1"), ["record", "-p", "1"]);
        assert_eq!(run_args("run -p 1 --json"), ["-p", "1", "--json"]);
        assert_eq!(run_args("run record -- ls --json"), ["record", "--", "ls", "--json"]);
        assert_eq!(run_args("run --help"), ["--help"]);
    }

    #[test]
    fn dashes_before_an_option_of_profil_are_ours() {
        assert_eq!(run_args("run -- --help"), ["--help"]);
        assert_eq!(run_args("run -- -p 1"), ["-p", "1"]);
    }

    #[test]
    fn unknown_words_are_refused() {
        for line in [
            "frobnicate",
            "setup --everything",
            "test one two",
            "tidy now",
            "check --fox",
            "fuzz one two",
            "fuzz --runs many",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
