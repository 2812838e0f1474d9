//! What is recorded: targets, filters, and how they become settings of the programs.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use profil_common::limits::COMM_BYTES;
use profil_common::{FILTER_CPUS, Settings, process_flags as pf, settings_flags as sf};

use crate::process::TargetProcess;
use crate::rate::Rate;
use crate::session::HookLog;

/// The targets of a recording.
#[derive(Debug)]
pub enum Selection {
    /// Running processes, all their threads.
    Processes(Vec<TargetProcess>),
    /// Single threads, each with its ids in the initial PID namespace and the process it belongs to.
    Threads(Vec<(u32, TargetProcess)>),
    /// A control group (v2) and those below it.
    Cgroup(Cgroup),
    /// Every process.
    All,
    /// A process that waits before its exec.
    Launch(TargetProcess),
}

/// Whether what a target creates is recorded as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follow {
    /// Threads, children, and their children.
    Descendants,
    /// Threads only.
    Threads,
}

/// Which ticks are wanted by the mode they are taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModeFilter {
    /// All; one taken in the kernel counts at the user pc that it returns to.
    Both,
    /// Those taken in user mode.
    User,
    /// Those taken in the kernel, at the kernel's own pc.
    Kernel,
}

/// Whether rows tell threads apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    /// One row for all threads of a process.
    PerProcess,
    /// A row for each thread.
    PerThread,
}

/// Whether the time that CPUs had nothing to do is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idle {
    /// Only what ran.
    Excluded,
    /// As a row of its own, so that the ticks add up to CPUs x rate x time.
    Included,
}

/// What else a tick must satisfy.
#[derive(Clone, Debug, Default)]
pub struct Filters {
    /// CPUs; empty for all.
    pub cpus: Vec<u32>,
    /// Name of the thread.
    pub comm: Option<String>,
    /// User.
    pub uid: Option<u32>,
}

/// A recording to be made.
#[derive(Debug)]
pub struct RecordConfig {
    /// The targets.
    pub selection: Selection,
    /// What else a tick must satisfy.
    pub filters: Filters,
    /// How often they tick.
    pub rate: Rate,
    /// Whether what they create is recorded.
    pub follow: Follow,
    /// Which ticks are wanted.
    pub mode: ModeFilter,
    /// Whether idle time is shown.
    pub idle: Idle,
    /// Whether threads are told apart.
    pub rows: Rows,
    /// Rows of each half of the sparse table.
    pub table_rows: u32,
    /// What the hooks say of their doings.
    pub log: HookLog,
    /// What the user calls it.
    pub title: String,
}

/// A filter that cannot be applied.
#[derive(Debug, thiserror::Error)]
pub enum SelectionError {
    /// The kernel cuts names.
    #[error("cannot filter by the name `{comm}`: the kernel keeps {} bytes of a name, and it has {length}", COMM_BYTES - 1)]
    Comm {
        /// The name.
        comm: String,
        /// Its length.
        length: usize,
    },
    /// The CPU number is too large.
    #[error("cannot filter by CPU {cpu}: the largest is {}", FILTER_CPUS - 1)]
    Cpu {
        /// The CPU.
        cpu: u32,
    },
}

impl RecordConfig {
    /// [`process_flags`](profil_common::process_flags) of the targets.
    pub(super) fn process_flags(&self) -> u32 {
        let start = if matches!(self.selection, Selection::Launch(_)) { pf::FROM_EXEC } else { pf::SELECTED };
        let follow = if self.follow == Follow::Descendants { pf::FOLLOW } else { 0 };
        start | follow
    }

    /// Settings of the programs, but for what the kernel's own layout decides.
    pub(super) fn settings(&self) -> Result<Settings, SelectionError> {
        let RecordConfig { selection, filters, rate, mode, rows, .. } = self;
        let mut settings = Settings { period_ns: rate.period_ns, clock_ns: rate.clock_ns, ..Settings::NONE };
        settings.flags = sf::STRAYS;
        match selection {
            Selection::Processes(_) | Selection::Launch(_) => {}
            Selection::Threads(_) => settings.flags |= sf::FILTER_TID,
            Selection::Cgroup(cgroup) => {
                settings.flags |= sf::ALL_PROCESSES | sf::FILTER_CGROUP;
                settings.cgroup = cgroup.id;
                settings.cgroup_level = cgroup.level;
            }
            Selection::All => settings.flags |= sf::ALL_PROCESSES,
        }
        // Every process is known by its own first tick here, so that nothing is kept of those that never tick.
        settings.all_flags = pf::SELECTED;
        settings.flags |= match mode {
            ModeFilter::Both => 0,
            ModeFilter::User => sf::USER_ONLY,
            ModeFilter::Kernel => sf::KERNEL_ONLY,
        };
        if *rows == Rows::PerThread {
            settings.flags |= sf::PER_THREAD;
        }
        if let Some(uid) = filters.uid {
            settings.flags |= sf::FILTER_UID;
            settings.uid = uid;
        }
        if let Some(comm) = &filters.comm {
            settings.flags |= sf::FILTER_COMM;
            settings.comm = padded(comm)?;
        }
        if !filters.cpus.is_empty() {
            settings.flags |= sf::FILTER_CPU;
            for cpu in &filters.cpus {
                let word = settings.cpus.get_mut(*cpu as usize / 64).ok_or(SelectionError::Cpu { cpu: *cpu })?;
                *word |= 1 << (cpu % 64);
            }
        }
        Ok(settings)
    }
}

fn padded(comm: &str) -> Result<[u8; COMM_BYTES], SelectionError> {
    let length = comm.len();
    if length >= COMM_BYTES {
        return Err(SelectionError::Comm { comm: comm.to_owned(), length });
    }
    let mut padded = [0; COMM_BYTES];
    padded[..length].copy_from_slice(comm.as_bytes());
    Ok(padded)
}

/// A control group of the unified hierarchy (v2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cgroup {
    /// Its directory.
    pub directory: PathBuf,
    /// Its inode number, which is its id in the kernel.
    pub id: u64,
    /// Its depth below the root of the hierarchy, which is 0.
    pub level: u32,
}

/// A control group that cannot be found.
#[derive(Debug, thiserror::Error)]
pub enum CgroupError {
    /// No cgroup2 file system is mounted.
    #[error(
        "cannot select a control group: no cgroup2 file system is mounted; `mount -t cgroup2 none /sys/fs/cgroup/unified`"
    )]
    NotMounted,
    /// Nothing has that name.
    #[error("cannot find the control group or unit `{name}` below {}", root.display())]
    NotFound {
        /// Name asked for.
        name: String,
        /// Where the hierarchy is mounted.
        root: PathBuf,
    },
    /// Several have that name.
    #[error("`{name}` names {count} control groups, among them {} and {}; give the path of one", first.display(), second.display())]
    Ambiguous {
        /// Name asked for.
        name: String,
        /// How many there are.
        count: usize,
        /// One of them.
        first: PathBuf,
        /// Another.
        second: PathBuf,
    },
    /// The hierarchy cannot be read.
    #[error("cannot read {}", path.display())]
    Unreadable {
        /// File or directory.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

impl Cgroup {
    /// Finds a control group by its path (below the hierarchy or in the file system) or by the name of its directory,
    /// such as a systemd unit.
    ///
    /// # Errors
    /// [`CgroupError`].
    pub fn find(name: &str) -> Result<Cgroup, CgroupError> {
        let mounts = Path::new("/proc/self/mountinfo");
        let text =
            fs::read_to_string(mounts).map_err(|source| CgroupError::Unreadable { path: mounts.to_owned(), source })?;
        let root = text.lines().find_map(mount_of_cgroup2).ok_or(CgroupError::NotMounted)?;
        let by_path = [PathBuf::from(name), root.join(name.trim_start_matches('/'))]
            .into_iter()
            .find(|path| path.starts_with(&root) && path.join("cgroup.procs").exists());
        match by_path {
            Some(directory) => Cgroup::at(&root, directory),
            None => Cgroup::named(&root, name),
        }
    }

    fn named(root: &Path, name: &str) -> Result<Cgroup, CgroupError> {
        let mut found = Vec::new();
        let mut unread = vec![root.to_owned()];
        while let Some(directory) = unread.pop() {
            // A group may be removed while we look.
            let Ok(entries) = fs::read_dir(&directory) else {
                continue;
            };
            for entry in entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
                if entry.file_name() == name {
                    found.push(entry.path());
                }
                unread.push(entry.path());
            }
        }
        match found.as_slice() {
            [] => Err(CgroupError::NotFound { name: name.to_owned(), root: root.to_owned() }),
            [directory] => Cgroup::at(root, directory.clone()),
            [first, second, ..] => Err(CgroupError::Ambiguous {
                name: name.to_owned(),
                count: found.len(),
                first: first.clone(),
                second: second.clone(),
            }),
        }
    }

    /// Whether the group was removed; another one that was made under its name since is not it.
    pub fn is_gone(&self) -> bool {
        fs::metadata(&self.directory).map_or(true, |metadata| metadata.ino() != self.id)
    }

    fn at(root: &Path, directory: PathBuf) -> Result<Cgroup, CgroupError> {
        let metadata =
            fs::metadata(&directory).map_err(|source| CgroupError::Unreadable { path: directory.clone(), source })?;
        let level = directory.strip_prefix(root).map_or(0, |below| below.components().count()) as u32;
        Ok(Cgroup { id: metadata.ino(), level, directory })
    }
}

/// Mount point of a line of mountinfo, if it is the unified hierarchy from its root.
fn mount_of_cgroup2(line: &str) -> Option<PathBuf> {
    let (mount, file_system) = line.split_once(" - ")?;
    let mut fields = mount.split(' ').skip(3);
    let (_root, point) = (fields.next()?, fields.next()?);
    file_system.starts_with("cgroup2 ").then(|| PathBuf::from(point))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_longer_than_the_kernel_keeps_are_refused() {
        assert!(padded("fifteen-bytes-x").is_ok());
        assert!(matches!(padded("sixteen-bytes-xy"), Err(SelectionError::Comm { length: 16, .. })));
    }

    #[test]
    fn a_group_is_gone_with_its_directory_even_if_another_one_gets_its_name() {
        let parent = tempfile::tempdir().expect("a temporary folder");
        let directory = parent.path().join("group");
        fs::create_dir(&directory).expect("a folder in ours");
        let group = Cgroup::at(parent.path(), directory.clone()).expect("a folder");
        assert!(!group.is_gone());
        // Another folder, made while the first is there, has another inode number.
        let other = parent.path().join("other");
        fs::create_dir(&other).expect("a folder in ours");
        fs::remove_dir(&directory).expect("our folder");
        assert!(group.is_gone());
        fs::rename(other, directory).expect("our folder");
        assert!(group.is_gone());
    }

    #[test]
    fn only_the_unified_hierarchy_is_taken() {
        let unified = "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw";
        assert_eq!(mount_of_cgroup2(unified), Some(PathBuf::from("/sys/fs/cgroup/unified")));
        let legacy = "32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu";
        assert_eq!(mount_of_cgroup2(legacy), None);
    }
}
