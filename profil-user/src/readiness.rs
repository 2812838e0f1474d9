//! Waiting for a descriptor to become readable, without reading from it.

use std::io;
use std::os::fd::OwnedFd;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// A descriptor that the event loop watches.
pub struct Readiness(AsyncFd<OwnedFd>);

impl Readiness {
    /// Watches a descriptor; it must be one that epoll(7) takes.
    ///
    /// # Errors
    /// What epoll_ctl(2) says.
    pub fn of(descriptor: OwnedFd) -> io::Result<Readiness> {
        // SAFETY: the descriptor is owned by the AsyncFd, so it stays open and the same for its whole life.
        let watched = unsafe { AsyncFd::register_with_interest(descriptor, Interest::READABLE) };
        Ok(Readiness(watched.map_err(io::Error::from)?))
    }

    /// Waits until there is something to read, or until the event loop is broken, which the next read shows.
    pub async fn wait(&self) {
        if let Ok(mut guard) = self.0.readable().await {
            guard.clear_ready();
        }
    }
}
