//! `profil export`: a profile in the format of another tool.

use std::fs::DirBuilder;
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};

use crate::cli::failure::{NO_TICKS, usage};
use crate::cli::input::InputArgs;
use crate::cli::talk;
use crate::output::{Content, Output, Owner};
use crate::printable::printable;
use crate::profile::Profile;
use crate::report::summary::thousands;
use crate::sink::autofdo::SourceProfile;
use crate::sink::by_object::{Modes, ObjectError, ObjectTicks, by_object, choose};
use crate::sink::gmon_files::{self, GmonFile};
use crate::sink::{bolt, callgrind, folded, gmon, pprof, rows};
use crate::symbols::late::{Files, files_of};
use crate::symbols::source_spans;

/// Examples of `profil export`, each run by the suite, and its formats.
pub const EXAMPLES: &str = "EXAMPLES\n  \
    profil export -f gmon -o gmon && gprof -b -p ./work gmon/gmon.work.*.out\n  \
    profil export -f callgrind -o callgrind.out && callgrind_annotate callgrind.out\n  \
    profil export -f folded -o stacks.folded  for inferno-flamegraph, flamegraph.pl, speedscope\n  \
    profil export -f bolt -o work.preagg      perf2bolt -pa -ba -p work.preagg -o work.fdata ./work\n  \
    profil export -f autofdo -o work.prof     clang -O2 -g -fprofile-sample-use=work.prof work.c\n\n\
    FORMATS\n  \
    gmon       one file for each object, for gprof (-o names their directory)\n  \
    folded     `PROCESS;FUNCTION TICKS` lines, for flame graphs\n  \
    callgrind  ticks by address and line, for callgrind_annotate and KCachegrind\n  \
    bolt       ticks by address of one object, for perf2bolt -pa -ba\n  \
    autofdo    counts by source line of one object, for clang -fprofile-sample-use; needs -g\n  \
    json, csv  every row: object, address, file offset, function, line, process, thread, mode\n  \
    pprof      gzipped profile.proto, for go tool pprof, with the names that were found since";

/// Writes a recorded profile in the format of another tool.
#[derive(Clone, Debug, clap::Args)]
pub struct ExportArgs {
    /// The profile.
    #[command(flatten)]
    pub input: InputArgs,

    /// What to write [default: by the end of the file's name: .folded .callgrind .preagg .json .csv .pb.gz]
    #[arg(short, long, value_name = "FORMAT", value_enum)]
    pub format: Option<Format>,

    /// Where to write it: a file, - for standard output; for gmon, a directory [default: -]
    #[arg(short, long, value_name = "FILE|DIR")]
    pub output: Option<PathBuf>,

    /// The object that bolt and autofdo are for: its path, file name or build ID [default: the program with most ticks]
    #[arg(long = "in", value_name = "OBJECT")]
    pub object: Option<String>,

    /// Say nothing of what was written and what was left out
    #[arg(short, long)]
    pub quiet: bool,
}

/// What is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// gmon.out, for gprof
    Gmon,
    /// Folded stacks, for flame graphs
    Folded,
    /// Callgrind's format
    Callgrind,
    /// A pre-aggregated profile, for perf2bolt
    Bolt,
    /// A sample profile in text, for clang
    Autofdo,
    /// Every row in JSON
    Json,
    /// Every row in comma-separated values
    Csv,
    /// Gzipped pprof
    Pprof,
}

/// Runs `profil export`.
///
/// # Errors
/// The profile cannot be read, has not what the format needs, or the result cannot be written.
pub fn run(args: ExportArgs) -> anyhow::Result<ExitCode> {
    let format = format(&args)?;
    if args.object.is_some() && !matches!(format, Format::Bolt | Format::Autofdo) {
        return Err(usage("cannot choose an object with --in: only -f bolt and -f autofdo are for one object"));
    }
    let profile = args.input.load()?;
    let total = profile.rows.iter().fold(0u64, |sum, row| sum.saturating_add(row.ticks));
    let object = || choose(by_object(&profile, Modes::User), args.object.as_deref());
    let written = match format {
        Format::Bolt | Format::Autofdo if object() == Err(ObjectError::None) => {
            talk::say(ObjectError::None);
            return Ok(ExitCode::from(NO_TICKS));
        }
        Format::Gmon => write_gmon(&args, &profile)?,
        Format::Bolt => write_bolt(&args, &profile, &object()?)?,
        Format::Autofdo => write_autofdo(&args, &object()?)?,
        Format::Folded => write(&args, Content::Text, total, |to| folded::write(&profile, to))?,
        Format::Callgrind => write(&args, Content::Text, total, |to| callgrind::write(&profile, to))?,
        Format::Json => write(&args, Content::Text, total, |to| rows::write_json(&profile, to))?,
        Format::Csv => write(&args, Content::Text, total, |to| rows::write_csv(&profile, to))?,
        Format::Pprof => write(&args, Content::Binary, total, |to| pprof::write(&profile, to))?,
    };
    if !args.quiet {
        tell(&written, total);
    }
    Ok(if written.ticks == 0 { ExitCode::from(NO_TICKS) } else { ExitCode::SUCCESS })
}

/// What was written.
struct Written {
    ticks: u64,
    /// What has them, where not all have a place in the format.
    of: Option<String>,
    /// Where they are; `None` on standard output.
    to: Option<String>,
}

fn tell(written: &Written, total: u64) {
    let Written { ticks, of, to } = written;
    let of = of.as_ref().map(|of| format!(" {of}")).unwrap_or_default();
    let rest = total.saturating_sub(*ticks);
    let left_out = match rest {
        0 => String::new(),
        _ => format!("; {} ({:.1} %) left out", thousands(rest), rest as f64 * 100.0 / total as f64),
    };
    let to = to.as_ref().map(|to| format!("; wrote {to}")).unwrap_or_default();
    talk::say(printable(&format!("{} ticks{of}{left_out}{to}", thousands(*ticks))));
}

/// The format asked for, by name or by that of the file.
fn format(args: &ExportArgs) -> anyhow::Result<Format> {
    const ENDINGS: [(&str, Format); 7] = [
        (".folded", Format::Folded),
        (".callgrind", Format::Callgrind),
        (".json", Format::Json),
        (".csv", Format::Csv),
        (".pb.gz", Format::Pprof),
        (".pprof", Format::Pprof),
        (".preagg", Format::Bolt),
    ];
    let by_name = || {
        let name = args.output.as_ref()?.file_name()?.to_string_lossy().into_owned();
        ENDINGS.into_iter().find_map(|(ending, format)| name.ends_with(ending).then_some(format))
    };
    let formats = "gmon, folded, callgrind, bolt, autofdo, json, csv or pprof";
    args.format.or_else(by_name).ok_or_else(|| usage(format!("cannot tell the format: name one with -f: {formats}")))
}

/// Writes one file.
fn write(
    args: &ExportArgs,
    content: Content,
    ticks: u64,
    fill: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> anyhow::Result<Written> {
    let path = args.output.as_deref().unwrap_or(Path::new("-"));
    put(path, content, fill)?;
    let to = (path != Path::new("-")).then(|| path.display().to_string());
    Ok(Written { ticks, of: None, to })
}

fn put(path: &Path, content: Content, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> anyhow::Result<()> {
    match Output::create(path, content, Owner::of_sudo())?.write(fill) {
        // Whoever reads no further has what they wanted.
        Err(error) if error.is_broken_pipe() => Ok(()),
        written => Ok(written?),
    }
}

fn write_bolt(args: &ExportArgs, profile: &Profile, object: &ObjectTicks<'_>) -> anyhow::Result<Written> {
    let written = write(args, Content::Text, object.total(), |to| bolt::write(&object.ticks, &profile.clock, to))?;
    Ok(Written { of: Some(format!("in user mode in {}", object.path)), ..written })
}

fn write_autofdo(args: &ExportArgs, object: &ObjectTicks<'_>) -> anyhow::Result<Written> {
    let source = source_profile(args, object)?;
    let written = write(args, Content::Text, source.ticks, |to| source.write(to))?;
    Ok(Written { of: Some(format!("in user mode on source lines of {}", object.path)), ..written })
}

fn source_profile(args: &ExportArgs, object: &ObjectTicks<'_>) -> anyhow::Result<SourceProfile> {
    let ObjectTicks { path, build_id, ticks } = object;
    let Files { object, debug } = files_of(path, *build_id, &mut args.input.debug_files());
    let build = build_id.map(|id| format!(" of build ID {id}")).unwrap_or_default();
    let Some(file) = debug.as_ref().or(object.as_ref()) else {
        bail!(
            "cannot find source lines: there is no {path}{build} here, nor its debug file; name its directory with --debug-dir"
        );
    };
    let needed = "compile with -g, or name the directory of its debug file with --debug-dir";
    if !file.has_debug_info() {
        bail!("cannot find source lines: {path}{build} has no debug information; {needed}");
    }
    let svmas: Vec<u64> = ticks.keys().copied().collect();
    let source = SourceProfile::new(&source_spans::spans(file, &svmas)?, ticks);
    if source.ticks == 0 && !ticks.is_empty() {
        bail!(
            "cannot find source lines: the debug information of {path}{build} has none for code with ticks; {needed}"
        );
    }
    Ok(source)
}

fn write_gmon(args: &ExportArgs, profile: &Profile) -> anyhow::Result<Written> {
    let Some(directory) = args.output.as_deref().filter(|path| *path != Path::new("-")) else {
        return Err(usage("cannot write gmon.out files to standard output: name a directory with -o DIR"));
    };
    let hz = rate(profile).context("cannot write gmon.out files: the profile states no rate, which gprof needs")?;
    // All are made before the first is written, so that what cannot be written leaves nothing behind.
    let made = |GmonFile { name, ticks, histograms }: GmonFile| {
        let mut bytes = Vec::new();
        gmon::write(&histograms, hz, &mut bytes).with_context(|| printable(&name).into_owned())?;
        anyhow::Ok((name, ticks, bytes))
    };
    let files = gmon_files::files(profile)?.into_iter().map(made).collect::<anyhow::Result<Vec<_>>>()?;
    create_directory(directory)?;
    for (name, _, bytes) in &files {
        put(&directory.join(name), Content::Binary, |to| to.write_all(bytes))?;
    }
    let ticks = files.iter().fold(0u64, |sum, (_, ticks, _)| sum.saturating_add(*ticks));
    let plural = if files.len() == 1 { "" } else { "s" };
    Ok(Written {
        ticks,
        of: Some("in code of files".to_owned()),
        to: Some(format!("{} file{plural} in {}", files.len(), directory.display())),
    })
}

/// Ticks per second, rounded as the format wants it.
fn rate(profile: &Profile) -> Option<u32> {
    let period = profile.period.as_secs_f64();
    let hz = if profile.tally.hz > 0.0 { profile.tally.hz } else { 1.0 / period };
    (hz.is_finite() && hz > 0.0).then(|| (hz.round() as u32).max(1))
}

/// Creates the directory unless it is there, for its owner's eyes only, as the files in it.
fn create_directory(directory: &Path) -> anyhow::Result<()> {
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
        created => created.with_context(|| format!("cannot create the directory {}", directory.display()))?,
    }
    if let Some(Owner { uid, gid }) = Owner::of_sudo() {
        std::os::unix::fs::chown(directory, Some(uid), Some(gid))
            .with_context(|| format!("cannot give the directory {} to its user", directory.display()))?;
    }
    Ok(())
}
