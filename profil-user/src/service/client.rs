//! A program that is being profiled.

use std::time::Duration;

use profil_common::Event;
use tokio::sync::oneshot;

use super::slots::Place;
use crate::bins::Run;
use crate::copier::ClientId;
use crate::process::TargetProcess;

/// A process whose ticks go into a buffer of its own.
pub(super) struct Client {
    pub(super) id: ClientId,
    pub(super) uid: u32,
    pub(super) target: TargetProcess,
    /// The image that the ticks are counted for.
    pub(super) image: u64,
    pub(super) place: Place,
    pub(super) period_ns: u64,
    /// CPU time of the process when profiling was turned on.
    pub(super) cpu_at_start: Duration,
    /// Set while bins are on their way into the buffer: those counted meanwhile wait for the next flush.
    pub(super) under_way: Option<oneshot::Receiver<()>>,
}

impl Client {
    /// Bins to be written now; none while others are on their way.
    pub(super) fn drain_for_flush(&mut self) -> Vec<Run> {
        if let Some(written) = &mut self.under_way {
            if written.try_recv() == Err(oneshot::error::TryRecvError::Empty) {
                return Vec::new();
            }
            self.under_way = None;
        }
        self.place.storage.drain()
    }

    /// CPU time since profiling was turned on; `end` is what an event said when the process ended.
    pub(super) fn cpu_time(&self, end: Option<&Event>) -> Option<Duration> {
        let now = match end {
            Some(event) if event.cpu_ns > 0 => Duration::from_nanos(event.cpu_ns),
            _ => self.target.cpu_time().ok()?,
        };
        Some(now.saturating_sub(self.cpu_at_start))
    }
}
