use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags};

use super::namespace::{self, ForeignProc, InitialIds, NamespaceError};
use super::{ProcDir, Stat, Status, cpu_time};

/// Why a process cannot be a target.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// No process has the id.
    #[error("cannot profile process {pid}: there is no such process; see `ps -e`")]
    NoSuchProcess {
        /// The id asked for.
        pid: u32,
    },
    /// No thread has the id.
    #[error("cannot profile thread {tid}: there is no such thread; see `ps -eL`")]
    NoSuchThread {
        /// The id asked for.
        tid: u32,
    },
    /// It is a thread of the kernel.
    #[error("cannot profile process {pid} ({comm}): it is a kernel thread and has no user pc; use -K -a")]
    KernelThread {
        /// The id asked for.
        pid: u32,
        /// Its name.
        comm: String,
    },
    /// It has ended and waits for its parent.
    #[error("cannot profile process {pid} ({comm}): it has ended already and is a zombie; choose one that runs")]
    Zombie {
        /// The id asked for.
        pid: u32,
        /// Its name.
        comm: String,
    },
    /// The id is that of a thread, where one of a process is wanted.
    #[error(
        "cannot profile process {tid}: it is a thread of {tgid}; use -t {tid} for the thread or -p {tgid} for the process"
    )]
    IsThread {
        /// The id asked for.
        tid: u32,
        /// The process that the thread belongs to.
        tgid: u32,
    },
    /// This user may not look at it.
    #[error(
        "cannot profile process {pid}: /proc/{pid} is not readable; run as root or with CAP_SYS_PTRACE, or see whether /proc is mounted with hidepid"
    )]
    Permission {
        /// The id asked for.
        pid: u32,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Its number in the initial PID namespace is not to be had.
    #[error("cannot profile process {pid} from inside a PID namespace")]
    Namespace {
        /// The id asked for.
        pid: u32,
        /// What is missing.
        #[source]
        source: NamespaceError,
    },
    /// /proc shows other processes than those that ids here mean.
    #[error(transparent)]
    ForeignProc(#[from] ForeignProc),
    /// The system does not tell.
    #[error("cannot profile process {pid}: {}", verdict_on_system(*pid, source))]
    Unreadable {
        /// The id asked for.
        pid: u32,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

/// A process that is to be profiled, held by a pidfd: it can end, but its id cannot come to mean another one unnoticed.
#[derive(Debug)]
pub struct TargetProcess {
    pidfd: OwnedFd,
    directory: ProcDir,
    stat: Stat,
    status: Status,
    initial: InitialIds,
}

impl TargetProcess {
    /// Opens a process by its id in this PID namespace.
    ///
    /// # Errors
    /// [`TargetError`] says why it is no target, and what to do.
    ///
    /// # Minimum kernel
    /// 5.3 for pidfd_open(2); 6.1 from inside a child PID namespace.
    pub fn open(pid: u32) -> Result<TargetProcess, TargetError> {
        let no_such_process = || TargetError::NoSuchProcess { pid };
        let number = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or_else(no_such_process)?;
        namespace::check_proc()?;
        let (directory, stat, status) = read(pid)?;
        if stat.is_kernel_thread() {
            return Err(TargetError::KernelThread { pid, comm: stat.comm });
        }
        if status.tgid != pid {
            return Err(TargetError::IsThread { tid: pid, tgid: status.tgid });
        }
        let pidfd = match rustix::process::pidfd_open(number, PidfdFlags::empty()) {
            Ok(pidfd) => pidfd,
            Err(rustix::io::Errno::SRCH) => return Err(no_such_process()),
            Err(error) => return Err(TargetError::Unreadable { pid, source: error.into() }),
        };
        if has_exited(pidfd.as_fd()) {
            return Err(TargetError::Zombie { pid, comm: stat.comm });
        }
        // The pidfd was opened last: what was read before belongs to it only if that process is still the one there.
        match directory.stat() {
            Ok(now) if now.start_ticks == stat.start_ticks => {}
            Err(source) if source.raw_os_error() == Some(libc::EMFILE) => {
                return Err(TargetError::Unreadable { pid, source });
            }
            _ => return Err(no_such_process()),
        }
        let initial = match namespace::is_initial() {
            Ok(true) => InitialIds { tgid: pid, tid: pid },
            Ok(false) => {
                namespace::translate_process(pidfd.as_fd()).map_err(|source| TargetError::Namespace { pid, source })?
            }
            Err(source) => return Err(TargetError::Unreadable { pid, source }),
        };
        Ok(TargetProcess { pidfd, directory, stat, status, initial })
    }

    /// Its id in this PID namespace: for /proc and for people.
    pub fn pid(&self) -> u32 {
        self.stat.pid
    }

    /// Its id in the initial PID namespace: for the eBPF programs.
    pub fn initial_tgid(&self) -> u32 {
        self.initial.tgid
    }

    /// Its name when it was opened.
    pub fn comm(&self) -> &str {
        &self.stat.comm
    }

    /// When it started, clock ticks (1/100 s) after the boot.
    pub fn start_ticks(&self) -> u64 {
        self.stat.start_ticks
    }

    /// Its real user when it was opened.
    pub fn uid(&self) -> u32 {
        self.status.uid
    }

    /// Its directory in /proc.
    pub fn directory(&self) -> &ProcDir {
        &self.directory
    }

    /// Ids of its threads in this PID namespace, ascending.
    ///
    /// # Errors
    /// As [`ProcDir::threads`].
    pub fn threads(&self) -> io::Result<Vec<u32>> {
        self.directory.threads()
    }

    /// Whether it is still there: it has not ended, and so its id means it and nobody else.
    pub fn is_same(&self) -> bool {
        !has_exited(self.pidfd.as_fd())
    }

    /// Whether its first thread has ended, as far as can be told, while others may run.
    pub fn leader_has_ended(&self) -> bool {
        self.directory.stat().is_ok_and(|stat| stat.state == 'Z')
    }

    /// CPU time of the whole process, its exited threads included.
    ///
    /// # Errors
    /// ESRCH when it has ended.
    pub fn cpu_time(&self) -> io::Result<Duration> {
        let time = cpu_time::of_process(self.pid())?;
        // The clock goes by the id: see afterwards that the id was still its own.
        if self.is_same() { Ok(time) } else { Err(io::Error::from_raw_os_error(libc::ESRCH)) }
    }

    /// CPU time of one of its threads.
    ///
    /// # Errors
    /// ENOENT or ESRCH when the thread has ended, InvalidData when the kernel keeps no schedstat.
    pub fn thread_cpu_time(&self, tid: u32) -> io::Result<Duration> {
        let text = self.directory.read(&format!("task/{tid}/schedstat"))?;
        cpu_time::of_schedstat(&text).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

impl AsFd for TargetProcess {
    /// The pidfd, which polls readable when the process has ended.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }
}

fn read(pid: u32) -> Result<(ProcDir, Stat, Status), TargetError> {
    let opened = ProcDir::open(pid).and_then(|directory| {
        let stat = directory.stat()?;
        let status = directory.status()?;
        Ok((directory, stat, status))
    });
    opened.map_err(|source| match source.raw_os_error() {
        // hidepid makes the processes of others look absent; kill(2) tells.
        Some(libc::ENOENT | libc::ESRCH) if exists(pid) => TargetError::Permission { pid, source },
        Some(libc::ENOENT | libc::ESRCH) => TargetError::NoSuchProcess { pid },
        Some(libc::EACCES | libc::EPERM) => TargetError::Permission { pid, source },
        _ => TargetError::Unreadable { pid, source },
    })
}

fn exists(pid: u32) -> bool {
    let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
    number.is_some_and(|pid| rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
}

fn verdict_on_system(pid: u32, source: &io::Error) -> String {
    match source.raw_os_error() {
        // /proc is there: the trouble is our own.
        Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM) => format!("/proc/{pid} cannot be opened"),
        _ => format!("neither /proc/{pid} nor pidfd_open(2) tells about it; mount -t proc proc /proc"),
    }
}

/// Whether all threads of the process have ended: a pidfd is readable from then on.
fn has_exited(pidfd: BorrowedFd<'_>) -> bool {
    let mut polled = [PollFd::from_borrowed_fd(pidfd, PollFlags::IN)];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    matches!(rustix::event::poll(&mut polled, Some(&at_once)), Ok(ready) if ready > 0)
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use super::*;

    /// Whether processes can be opened: from inside a PID namespace it takes the right to load programs.
    fn ids_are_known() -> bool {
        namespace::is_initial().is_ok_and(|initial| initial) || crate::probe::support::perf_event_program().works()
    }

    fn sleeper() -> Child {
        Command::new("sleep").arg("60").spawn().expect("sleep is installed")
    }

    #[test]
    fn own_process_is_a_target() {
        if !ids_are_known() {
            return;
        }
        let target = TargetProcess::open(std::process::id()).expect("this process runs");
        assert!(target.is_same());
        assert_eq!(target.pid(), std::process::id());
        assert!(target.cpu_time().is_ok_and(|time| time > Duration::ZERO));
        let threads = target.threads().expect("own threads are readable");
        assert!(threads.contains(&std::process::id()));
        assert!(threads.iter().all(|tid| target.thread_cpu_time(*tid).is_ok() || !target.is_same()));
    }

    #[test]
    fn what_cannot_be_a_pid_is_no_such_process() {
        for pid in [0, 0x3fff_ffff, u32::MAX] {
            assert!(matches!(TargetProcess::open(pid), Err(TargetError::NoSuchProcess { .. })), "{pid}");
        }
    }

    #[test]
    fn a_thread_is_told_from_a_process() {
        let (tell, told) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            let _ = tell.send(rustix::thread::gettid().as_raw_nonzero().get() as u32);
            let _ = ended.recv();
        });
        let tid = told.recv().expect("the thread tells its id");
        let error = TargetProcess::open(tid).expect_err("a thread is no process");
        drop(end);
        thread.join().expect("the thread ends");
        let own = std::process::id();
        assert_eq!(
            error.to_string(),
            format!(
                "cannot profile process {tid}: it is a thread of {own}; use -t {tid} for the thread or -p {own} for the process"
            )
        );
    }

    #[test]
    fn a_zombie_is_no_target_and_an_ended_target_is_not_the_same() {
        if !ids_are_known() {
            return;
        }
        let mut child = sleeper();
        let target = TargetProcess::open(child.id()).expect("the child runs");
        child.kill().expect("the child is ours");
        // The pidfd becomes readable when the child is a zombie; nobody has waited for it yet.
        let mut polled = [PollFd::from_borrowed_fd(target.as_fd(), PollFlags::IN)];
        rustix::event::poll(&mut polled, None).expect("poll waits");
        assert!(!target.is_same());
        let error = TargetProcess::open(child.id()).expect_err("a zombie is no target");
        assert!(matches!(error, TargetError::Zombie { .. }), "{error}");
        child.wait().expect("the child is ours");
        assert_eq!(target.cpu_time().map_err(|error| error.raw_os_error()), Err(Some(libc::ESRCH)));
        assert!(matches!(TargetProcess::open(child.id()), Err(TargetError::NoSuchProcess { .. })));
    }

    #[test]
    fn kernel_threads_are_no_targets() {
        // kthreadd is process 2 everywhere but in a child PID namespace.
        if namespace::is_initial().is_ok_and(|initial| initial) {
            let error = TargetProcess::open(2).expect_err("kthreadd has no user mode");
            assert_eq!(
                error.to_string(),
                "cannot profile process 2 (kthreadd): it is a kernel thread and has no user pc; use -K -a"
            );
        }
    }

    /// Check the translation where it can be: in the initial namespace it must change nothing.
    #[test]
    fn translation_from_the_initial_namespace_is_the_identity() {
        if !namespace::is_initial().is_ok_and(|initial| initial) {
            return;
        }
        let target = TargetProcess::open(std::process::id()).expect("this process runs");
        match namespace::translate_process(target.as_fd()) {
            Ok(ids) => assert_eq!(ids, InitialIds { tgid: target.pid(), tid: target.pid() }),
            Err(error) => assert!(!crate::probe::support::perf_event_program().works(), "{error:?}"),
        }
    }
}
