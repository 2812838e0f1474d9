//! One process that reads symbols.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::patience::{Allowance, Patience};
use super::wire::{MAX_MESSAGE, Reply, Request};
use crate::jail::socket;
use life::Life;

/// How often to look at a process that keeps us waiting.
const LOOK: Duration = Duration::from_millis(200);

/// Why there is no answer, or none of use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// It ended, or said what makes no sense.
    Ended,
    /// It took too long.
    Stalled,
    /// It is not lost: the file cannot be used.
    NotElf,
}

/// A process; one that is dropped is killed.
#[derive(Debug)]
pub struct Process {
    socket: OwnedFd,
    life: Life,
    buffer: Box<[u8; MAX_MESSAGE]>,
    allowance: Allowance,
    /// CPU time that it had used when the allowance began.
    cpu_before: Duration,
}

impl Process {
    /// Starts one and waits until it has given up what it does not need.
    ///
    /// # Errors
    /// The system refused, or it did not come up.
    pub fn start(program: &Path) -> io::Result<Process> {
        let (life, socket) = Life::start(program)?;
        let allowance = Patience::default().for_bytes(0);
        let buffer = Box::new([0; MAX_MESSAGE]);
        let mut process = Process { socket, life, buffer, allowance, cpu_before: Duration::ZERO };
        match process.reply() {
            Ok(Reply::Ready) => Ok(process),
            Ok(_) | Err(Lost::Ended | Lost::NotElf) => Err(io::ErrorKind::UnexpectedEof.into()),
            Err(Lost::Stalled) => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    /// Whether it is there, and waits for a request.
    pub fn is_there(&self) -> bool {
        let mut ends = [PollFd::new(&self.socket, PollFlags::IN)];
        // Nothing is to come from it now but its end.
        matches!(poll(&mut ends, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })), Ok(0))
    }

    /// Lets it use some more time, from now on.
    pub fn allow(&mut self, allowance: Allowance) {
        self.allowance = allowance;
        self.cpu_before = self.life.cpu_time();
    }

    /// CPU time that it took so far.
    pub fn cpu_time(&self) -> Duration {
        self.life.cpu_time()
    }

    /// Sends a request.
    ///
    /// # Errors
    /// It is lost.
    pub fn send(&mut self, request: &Request, files: &[BorrowedFd<'_>]) -> Result<(), Lost> {
        let bytes = request.to_bytes();
        self.when(PollFlags::OUT, |process| socket::send(&process.socket, &bytes, files))
    }

    /// Waits for the next message.
    ///
    /// # Errors
    /// It is lost.
    pub fn reply(&mut self) -> Result<Reply, Lost> {
        self.when(PollFlags::IN, |process| {
            let received = socket::receive(&process.socket, &mut process.buffer)?;
            // Files that it sends along are closed with the message.
            let reply = received.and_then(|received| Reply::from_bytes(received.bytes));
            reply.ok_or_else(|| io::ErrorKind::InvalidData.into())
        })
        .and_then(|reply| if reply == Reply::NotElf { Err(Lost::NotElf) } else { Ok(reply) })
    }

    /// Does something that would wait, as soon as it need not, unless the process takes too long.
    fn when<T>(&mut self, event: PollFlags, mut act: impl FnMut(&mut Process) -> io::Result<T>) -> Result<T, Lost> {
        let (mut cpu, mut since) = (self.life.cpu_time(), Instant::now());
        loop {
            match act(self) {
                Ok(done) => return Ok(done),
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
                Err(_) => return Err(Lost::Ended),
            }
            let look = Timespec { tv_sec: 0, tv_nsec: LOOK.as_nanos() as i64 };
            let waited = poll(&mut [PollFd::new(&self.socket, event)], Some(&look));
            if !matches!(waited, Ok(0)) {
                continue;
            }
            let cpu_now = self.life.cpu_time();
            if cpu_now > cpu || self.life.wants_cpu() {
                (cpu, since) = (cpu_now, Instant::now());
            }
            if cpu_now.saturating_sub(self.cpu_before) > self.allowance.cpu || since.elapsed() > self.allowance.idle {
                return Err(Lost::Stalled);
            }
        }
    }
}

#[cfg(not(test))]
mod life {
    use std::io;
    use std::os::fd::OwnedFd;
    use std::path::Path;
    use std::process::Child;
    use std::time::Duration;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::process::{Pid, PidfdFlags, pidfd_open};

    use crate::jail;
    use crate::process::{Stat, cpu_time};

    /// How long to wait for the end of a process that was killed; one that waits for a file system may take longer.
    const END: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

    /// What is known of a process besides what it says.
    #[derive(Debug)]
    pub struct Life(Child);

    impl Life {
        pub fn start(program: &Path) -> io::Result<(Life, OwnedFd)> {
            use std::os::unix::process::CommandExt;
            let (mut command, socket) = jail::command(program, "profil-reader", &["reader"])?;
            // Ctrl-C is for us: what has been asked for is still answered.
            Ok((Life(command.process_group(0).spawn()?), socket))
        }

        /// CPU time that it has used.
        pub fn cpu_time(&self) -> Duration {
            cpu_time::of_process(self.0.id()).unwrap_or_default()
        }

        /// Whether it wants a CPU, and waits for nothing else.
        pub fn wants_cpu(&self) -> bool {
            let stat = std::fs::read(format!("/proc/{}/stat", self.0.id())).ok();
            stat.and_then(|line| Stat::parse(&line)).is_some_and(|stat| stat.state == 'R')
        }
    }

    impl Drop for Life {
        fn drop(&mut self) {
            // One that has ended by itself is as good.
            let _killed = self.0.kill();
            let pid = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw);
            if let Some(end) = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()) {
                let _waited = poll(&mut [PollFd::new(&end, PollFlags::IN)], Some(&END));
            }
            let _status = self.0.try_wait();
        }
    }
}

/// Unit tests have no program to start: a thread answers, over the same socket.
#[cfg(test)]
mod life {
    use std::io;
    use std::os::fd::{AsFd, OwnedFd};
    use std::path::Path;
    use std::time::Duration;

    use crate::jail::socket;
    use crate::symbols::reader::serve::serve;

    #[derive(Debug)]
    pub struct Life;

    impl Life {
        pub fn start(_program: &Path) -> io::Result<(Life, OwnedFd)> {
            let (ours, theirs) = socket::pair()?;
            std::thread::spawn(move || serve(theirs.as_fd()));
            Ok((Life, ours))
        }

        pub fn cpu_time(&self) -> Duration {
            Duration::ZERO
        }

        pub fn wants_cpu(&self) -> bool {
            true
        }
    }
}
