//! The ways out: a call for "off", a buffer that goes away, an exec, an end, and the end of the service.

use std::time::{Duration, Instant};

use profil_common::{Counters, Event, EventKind};
use tokio::sync::oneshot;

use super::client::Client;
use super::conversation::Answer;
use super::{DEFAULT_HZ, Service, ServiceError, ServiceReport, answer_after, total};
use crate::copier::LostClient;
use crate::tally::Tally;

/// How long the end of the service waits for buffers to be written.
const LAST_WRITES: Duration = Duration::from_secs(2);

/// A client that is on its way out.
pub(super) struct Leaving {
    pub(super) client: Client,
    /// Who waits for it, and what for.
    pub(super) answer: Option<(oneshot::Sender<Answer>, Answer)>,
    /// What the kernel said of its end.
    pub(super) end: Option<Event>,
}

impl Service {
    /// Turns profiling off for a client that nobody speaks for any more.
    pub(super) fn drop_client(&mut self, tgid: u32, end: Option<Event>) -> Result<(), ServiceError> {
        if let Some(client) = self.clients.remove(&tgid) {
            self.stop_counting(tgid)?;
            self.leaving.push(Leaving { client, answer: None, end });
        }
        Ok(())
    }

    pub(super) fn take_lost(&mut self, lost: LostClient) -> Result<(), ServiceError> {
        let LostClient { client: id, loss } = lost;
        let Some((tgid, client)) = self.clients.iter().find(|(_, client)| client.id == id) else {
            return Ok(());
        };
        let (tgid, pid) = (*tgid, client.target.pid());
        self.report.lost += 1;
        self.hush.warn(format_args!("profiling of process {pid} is off: {loss}"));
        self.drop_client(tgid, None)
    }

    pub(super) fn take_events(&mut self) -> Result<(), ServiceError> {
        let mut ends = Vec::new();
        self.session.drain_events(|event| match event.kind() {
            Some(EventKind::Exec) => ends.push((event.other_image, *event)),
            Some(EventKind::Exit) => ends.push((event.image, *event)),
            _ => {}
        });
        for (image, event) in ends {
            for opening in self.opening.values_mut().filter(|opening| opening.image == image) {
                opening.is_gone = true;
            }
            if self.clients.get(&event.tgid).is_some_and(|client| client.image == image) {
                self.drop_client(event.tgid, Some(event))?;
            }
        }
        Ok(())
    }

    /// Drops clients whose end no event told, because the ring was full.
    pub(super) fn look_for_gone(&mut self) -> Result<(), ServiceError> {
        self.slots.bury_ghosts();
        let gone: Vec<u32> =
            self.clients.iter().filter(|(_, client)| !client.target.is_same()).map(|(tgid, _)| *tgid).collect();
        gone.into_iter().try_for_each(|tgid| self.drop_client(tgid, None))
    }

    /// Fetches the last bins of the clients that leave, one grace period for all of them.
    pub(super) fn see_off(&mut self) -> Result<(), ServiceError> {
        if self.leaving.is_empty() {
            return Ok(());
        }
        self.session.wait_for_ticks()?;
        for Leaving { mut client, answer, end } in std::mem::take(&mut self.leaving) {
            let runs = client.place.storage.drain_all();
            self.report.drained += total(&runs);
            if let Some(used) = client.cpu_time(end.as_ref()) {
                self.cpu_time += used;
                self.expected += used.as_nanos() as f64 / client.period_ns as f64;
            }
            let (written, done) = oneshot::channel();
            self.copiers.flush(client.id, runs, Some(written));
            self.copiers.close(client.id);
            if let Some((answer, with)) = answer {
                answer_after(done, answer, with);
            }
            // Taking lanes out of their slot takes a grace period, for which nobody should have to wait.
            self.vacated.push(client.place);
        }
        Ok(())
    }

    /// Stops the ticks, has every buffer written, and says what was done.
    pub(super) async fn finish(mut self) -> Result<ServiceReport, ServiceError> {
        self.clock.stop()?;
        let clients: Vec<u32> = self.clients.keys().copied().collect();
        for tgid in clients {
            self.drop_client(tgid, None)?;
        }
        let mut writes = Vec::new();
        for leaving in &mut self.leaving {
            let (sender, receiver) = oneshot::channel();
            leaving.answer.get_or_insert((sender, Answer::default()));
            writes.push(receiver);
        }
        self.see_off()?;
        let deadline = Instant::now() + LAST_WRITES;
        for write in writes {
            // Who was to be answered is told by the connection that breaks off.
            let _late = tokio::time::timeout_at(deadline.into(), write).await;
        }
        let counters = self.session.counters();
        Ok(self.report(&counters))
    }

    fn report(&self, counters: &Counters) -> ServiceReport {
        let seconds = self.cpu_time.as_secs_f64();
        // Clients may have had different rates; what counts is how many ticks there should have been.
        let hz = if seconds > 0.0 { self.expected / seconds } else { f64::from(DEFAULT_HZ) };
        let tally = Tally::new(counters, hz, Some(seconds));
        ServiceReport { tally, in_lanes: counters.in_lanes, ..self.report.clone() }
    }
}
