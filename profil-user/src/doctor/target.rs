//! What is special about a process.

use std::fs::File;
use std::io;

use object::{Object, ReadCache};
use rustix::fs::{Mode, OFlags, ResolveFlags};

use super::{Finding, Report, Section, State, reason};
use crate::probe::support;
use crate::process::{ProcDir, Seccomp, Stat, Status, TargetError, TargetProcess, namespace};

/// Findings on a process, whether or not it can be profiled.
pub(super) fn examine(pid: u32) -> Report {
    let opened = TargetProcess::open(pid);
    let read = ProcDir::open(pid).and_then(|directory| Ok((directory.stat()?, directory.status()?, directory)));
    // What a foreign /proc says under this id is about somebody else.
    let read =
        if matches!(opened, Err(TargetError::ForeignProc(_))) { Err(io::ErrorKind::NotFound.into()) } else { read };
    let mut process = vec![target(&opened), own_rights()];
    let mut sections = Vec::new();
    let mut subject = format!("process {pid}");
    if let Ok((stat, status, directory)) = &read {
        subject = format!("process {pid} ({})", stat.comm);
        process.extend(state(stat, directory));
        if !stat.is_kernel_thread() {
            let live = directory.of_live_thread();
            let live = live.as_ref().unwrap_or(directory);
            process.extend(rights(status, live));
            process.extend(namespaces(status, live, opened.as_ref().ok()));
            process.push(seccomp(status));
        }
    }
    sections.push(Section { title: "process".into(), findings: process });
    if let (Ok(_), Ok((_, status, directory))) = (&opened, &read)
        && let Ok(directory) = &directory.of_live_thread()
    {
        sections.push(Section { title: "executable".into(), findings: executable(directory) });
        sections.push(Section { title: "code".into(), findings: code(status, directory) });
    }
    Report { subject, sections }
}

fn target(opened: &Result<TargetProcess, TargetError>) -> Finding {
    let (name, needed) = ("can be profiled", "a process with a user mode");
    let error = match opened {
        Ok(_) => return Finding::ok(name, "yes", needed),
        Err(error) => error,
    };
    let (found, cure) = match error {
        TargetError::NoSuchThread { .. } => ("no such thread", "ps -eL".to_owned()),
        TargetError::NoSuchProcess { .. } => ("no such process", "ps -e".to_owned()),
        TargetError::KernelThread { .. } => ("a kernel thread", "profil -K -a".to_owned()),
        TargetError::Zombie { .. } => ("a zombie", "choose a process that runs".to_owned()),
        TargetError::IsThread { tid, tgid } => ("a thread", format!("profil -t {tid}, or -p {tgid} for its process")),
        TargetError::Permission { .. } => ("not readable", "run as root or with CAP_SYS_PTRACE".to_owned()),
        TargetError::Namespace { .. } => ("in a PID namespace that cannot be seen through", namespace::FIX.to_owned()),
        TargetError::ForeignProc(_) => ("in a /proc of another PID namespace", namespace::PROC_FIX.to_owned()),
        TargetError::Unreadable { .. } => ("not readable", "mount -t proc proc /proc".to_owned()),
    };
    Finding::ok(name, found, needed).but(State::Missing, "everything").cure(cure)
}

/// Whether this user may profile at all; `profil doctor` without a process has the details.
fn own_rights() -> Finding {
    let (name, needed) = ("rights of profil", "to load the eBPF program");
    if support::perf_event_program().works() {
        return Finding::ok(name, "there", needed);
    }
    Finding::ok(name, "lacking", needed).but(State::Missing, "everything").cure("see `profil doctor`")
}

fn state(stat: &Stat, directory: &ProcDir) -> Vec<Finding> {
    let threads = directory.threads().map_or(0, |threads| threads.len());
    let mut findings =
        vec![Finding::ok("state", stat.state.to_string(), ""), Finding::ok("threads", threads.to_string(), "")];
    if stat.has_ended() && threads > 1 {
        findings.push(Finding::ok("main thread", "ended, others go on", "their maps and exe are read instead"));
    }
    findings
}

fn rights(status: &Status, directory: &ProcDir) -> Vec<Finding> {
    let mut findings = Vec::new();
    let user = if status.uid == status.effective_uid {
        format!("uid {}", status.uid)
    } else {
        format!("uid {}, effective {} (setuid)", status.uid, status.effective_uid)
    };
    findings.push(Finding::ok("user", user, ""));
    // The files of a process that may not be dumped belong to root, whoever runs it.
    let dumpable = directory.owner().map(|owner| owner == status.effective_uid);
    if dumpable.is_ok_and(|dumpable| !dumpable) {
        let finding = Finding::ok("dumpable", "no", "yes, or CAP_SYS_PTRACE");
        findings.push(if directory.read("maps").is_ok() {
            finding
        } else {
            finding.but(State::Degraded, "its mappings, and so all names").cure("run as root or with CAP_SYS_PTRACE")
        });
    } else if let Err(error) = directory.read("maps") {
        findings.push(
            Finding::ok("mappings", reason(&error), "readable")
                .but(State::Degraded, "its mappings, and so all names")
                .cure("run as root or with CAP_SYS_PTRACE"),
        );
    }
    if status.tracer != 0 {
        findings.push(Finding::ok("tracer", format!("process {}", status.tracer), "none; stops cost it no CPU time"));
    }
    findings
}

fn namespaces(status: &Status, directory: &ProcDir, target: Option<&TargetProcess>) -> Vec<Finding> {
    let own = ProcDir::own();
    let kinds = [("pid", "PID namespace"), ("mnt", "mount namespace"), ("user", "user namespace")];
    let mut findings: Vec<Finding> = kinds
        .into_iter()
        .map(|(kind, name)| {
            let pair = own.as_ref().ok().and_then(|own| own.namespace(kind).ok()).zip(directory.namespace(kind).ok());
            let found = match pair {
                None => "not readable".to_owned(),
                Some((own, theirs)) if own == theirs => "the same as profil's".to_owned(),
                Some(_) if kind == "pid" => {
                    format!("another one; it is {} there", status.namespace_pids.last().copied().unwrap_or(0))
                }
                Some(_) if kind == "mnt" => "another one; its files are read through /proc/PID/root".to_owned(),
                Some(_) => "another one".to_owned(),
            };
            Finding::ok(name, found, "")
        })
        .collect();
    if namespace::is_initial().is_ok_and(|initial| !initial)
        && let Some(target) = target
    {
        findings.push(Finding::ok("id outside", target.initial_tgid().to_string(), ""));
    }
    findings
}

fn seccomp(status: &Status) -> Finding {
    let found = match status.seccomp {
        Seccomp::Off => "off",
        Seccomp::Strict => "strict",
        Seccomp::Filter => "filter",
    };
    // profil makes the target call nothing, so no filter of it matters to -p; the shim of `profil run` does.
    Finding::ok("seccomp", found, "any; profil run needs socket and connect")
}

fn executable(directory: &ProcDir) -> Vec<Finding> {
    let path = match directory.link("exe") {
        Ok(path) => path.to_string_lossy().into_owned(),
        Err(error) => {
            return vec![
                Finding::ok("file", reason(&error), "readable")
                    .but(State::Degraded, "names of its functions")
                    .cure("run as root or with CAP_SYS_PTRACE"),
            ];
        }
    };
    let mut findings = vec![Finding::ok("file", path.clone(), "")];
    if path.ends_with(" (deleted)") {
        findings.push(Finding::ok("deleted", "yes, or replaced", "read through /proc/PID/exe while it runs"));
    }
    match directory.open_file("exe") {
        Ok(file) => findings.extend(elf(file)),
        Err(error) => findings.push(
            Finding::ok("contents", reason(&error), "readable")
                .but(State::Degraded, "names of its functions")
                .cure("run as root or with CAP_DAC_READ_SEARCH"),
        ),
    }
    findings
}

fn elf(file: File) -> Vec<Finding> {
    let cache = ReadCache::new(file);
    let Ok(elf) = object::File::parse(&cache) else {
        return vec![Finding::ok("format", "not understood", "ELF").but(State::Degraded, "names of its functions")];
    };
    let mut findings = vec![Finding::ok("class", if elf.is_64() { "64-bit" } else { "32-bit" }, "")];
    let linking = "dynamic for profil run";
    findings.push(if elf.section_by_name(".interp").is_some() {
        Finding::ok("linking", "dynamic", linking)
    } else {
        Finding::ok("linking", "static", linking)
            .but(State::Degraded, "profil run: the library is not loaded into it (-p and attach work)")
    });
    let symbols = ".symtab or debug info";
    let has_debug_link = matches!(elf.gnu_debuglink(), Ok(Some(_)));
    findings.push(if elf.section_by_name(".symtab").is_some() || elf.has_debug_symbols() {
        Finding::ok("symbols", if elf.has_debug_symbols() { "with debug info" } else { "functions only" }, symbols)
    } else if has_debug_link {
        Finding::ok("symbols", "stripped, with a link to debug info", symbols)
    } else {
        Finding::ok("symbols", "stripped", symbols)
            .but(State::Degraded, "names of all but exported functions")
            .cure("install the package's debug symbols, or link without -s")
    });
    let build_id = "for debug info";
    findings.push(match elf.build_id() {
        Ok(Some(bytes)) if let Some(id) = crate::build_id::BuildId::new(bytes) => {
            Finding::ok("build ID", id.to_string(), build_id)
        }
        _ => Finding::ok("build ID", "none", build_id)
            .but(State::Degraded, "telling one build of it from another")
            .cure("link with -Wl,--build-id"),
    });
    findings
}

fn code(status: &Status, directory: &ProcDir) -> Vec<Finding> {
    let Ok(maps) = directory.read("maps") else {
        return Vec::new();
    };
    let executable = executable_mappings(&maps);
    let mut findings = vec![Finding::ok("executable mappings", executable.all.to_string(), "")];
    let jit = jit_map(status, directory);
    findings.push(match (executable.anonymous, jit) {
        (0, Ok(false)) => Finding::ok("JIT names", "no anonymous code", "none needed"),
        (_, Ok(true)) => Finding::ok("JIT names", "perf-PID.map", ""),
        (count, _) => {
            Finding::ok("JIT names", format!("none for {count} anonymous mappings"), "perf-PID.map in its /tmp")
                .but(State::Degraded, "names of code made at run time")
                .cure(
                    "java -XX:+DumpPerfMapAtExit, node --perf-basic-prof, PYTHONPERFSUPPORT=1, DOTNET_PerfMapEnabled=1",
                )
        }
    });
    findings
}

/// Numbers of executable mappings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Executable {
    all: usize,
    /// Those without a file, whose code was made at run time.
    anonymous: usize,
}

fn executable_mappings(maps: &[u8]) -> Executable {
    let mut executable = Executable::default();
    for line in maps.split(|byte| *byte == b'\n') {
        // start-end perms offset device inode name
        let mut fields = line.split(|byte| *byte == b' ').filter(|field| !field.is_empty());
        let permissions = fields.nth(1).unwrap_or_default();
        if permissions.get(2) != Some(&b'x') {
            continue;
        }
        executable.all += 1;
        // The kernel's own, such as [vdso], have names of their own.
        let name = fields.nth(3).unwrap_or_default();
        if name.is_empty() || name.starts_with(b"//anon") || name.starts_with(b"[anon:") {
            executable.anonymous += 1;
        }
    }
    executable
}

/// Whether the process has left a perf map, looked up below its own root so that no link leads out of it.
fn jit_map(status: &Status, directory: &ProcDir) -> io::Result<bool> {
    let inner = status.namespace_pids.last().copied().unwrap_or(status.tgid);
    let root = directory.open_root()?;
    let opened = rustix::fs::openat2(
        root,
        format!("tmp/perf-{inner}.map"),
        OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
        Mode::empty(),
        ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS,
    );
    match opened {
        Ok(_) => Ok(true),
        Err(rustix::io::Errno::NOENT) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executable_mappings_without_a_file_are_code_made_at_run_time() {
        let maps = b"5581a000-5581b000 r--p 00000000 fe:00 1234                 /usr/bin/a b\n\
                     5581b000-5581c000 r-xp 00001000 fe:00 1234                 /usr/bin/a b\n\
                     7f000000-7f001000 rwxp 00000000 00:00 0 \n\
                     7f001000-7f002000 r-xp 00000000 00:00 0                    [anon:v8]\n\
                     7fff0000-7fff1000 r-xp 00000000 00:00 0                    [vdso]\n\
                     7fff1000-7fff2000 rw-p 00000000 00:00 0                    [stack]\n";
        assert_eq!(executable_mappings(maps), Executable { all: 4, anonymous: 2 });
        assert_eq!(executable_mappings(b"\n\nx"), Executable::default());
    }

    #[test]
    fn a_process_that_is_not_there_is_missing_with_a_cure() {
        let report = examine(u32::MAX);
        assert!(!report.can_record());
        let finding = &report.sections[0].findings[0];
        assert_eq!((&*finding.found, finding.cure.as_deref()), ("no such process", Some("ps -e")));
    }

    #[test]
    fn own_process_can_be_profiled() {
        if !namespace::is_initial().is_ok_and(|initial| initial) && !support::perf_event_program().works() {
            // In a container without rights nothing can.
            return;
        }
        let report = examine(std::process::id());
        assert_eq!(report.sections[0].findings[0].state, State::Ok, "{report:?}");
        let titles: Vec<&str> = report.sections.iter().map(|section| &*section.title).collect();
        assert_eq!(titles, ["process", "executable", "code"]);
    }
}
