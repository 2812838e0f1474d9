//! The service behind libprofil.so: profil(3) for whoever connects.
//!
//! ```text
//! program ─ connection ─> conversation ─ order ─> Service ─ bins ─> copier of its user ─> the program's buffer
//!                              <──────── answer ────┘                     └─ when all is written ─> answer to "off"
//! ```
//!
//! A conversation reads and judges; the service alone touches the session; a copier alone touches a program's memory. An
//! answer is sent when what was asked for is done: for "off", when every tick is in the buffer and nobody will write to it
//! any more.

mod budget;
mod caller;
mod client;
mod connections;
mod conversation;
mod descriptors;
mod opening;
mod parting;
mod plan;
mod queue;
mod rights;
mod slots;
mod socket;

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use profil_common::{Outcome, Settings};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc, oneshot};
use tokio::time::MissedTickBehavior;

use crate::attach::FLUSH_PERIOD;
use crate::bins::Run;
use crate::clock::{Clock, ClockError};
use crate::copier::{ClientId, Copiers, LostClient};
use crate::hush::Hush;
use crate::rate::Rate;
use crate::readiness::Readiness;
use crate::session::{self, LaneUse, PoolUse, Session, SessionConfig, SessionError};
use crate::tally::Tally;
use budget::Budget;
use client::Client;
use connections::Connections;
use conversation::{Answer, Refusal};
use opening::{Opened, Opening};
use parting::Leaving;
use queue::Queue;
use slots::{Place, Slots};

pub use budget::{Limits, OverBudget};
pub use plan::{BadBufferMeans, Delivery, Layout, Plan, PlanError};
pub use rights::RIGHTS;
pub use socket::{ListenError, Listener};

/// Ticks per second of CPU time for a call that names no rate: the clock of profil(2).
pub const DEFAULT_HZ: u32 = 100;

/// Orders that wait while the service is at work.
const DESK: usize = 64;

/// How long threads stay that look at callers: as good as for ever.
const LOOKERS_STAY: Duration = Duration::from_secs(1 << 30);

/// How often clients are looked at whose end no event told.
const GONE_PERIOD: Duration = Duration::from_secs(1);

/// A service that cannot be started or go on.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// The eBPF object.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The clock.
    #[error(transparent)]
    Clock(#[from] ClockError),
    /// The events of the hooks cannot be watched.
    #[error("cannot watch for processes that end")]
    Events(#[source] io::Error),
}

/// What a service did.
#[derive(Clone, Debug, Default)]
pub struct ServiceReport {
    /// Ticks by outcome, against the CPU time of the clients while they were profiled.
    pub tally: Tally,
    /// Times that a program turned profiling on.
    pub turned_on: u64,
    /// Ticks that were drained from bins.
    pub drained: u64,
    /// Ticks that the kernel counted in the programs' own buffers.
    pub in_lanes: u64,
    /// Clients whose buffer went away or could not be written.
    pub lost: u64,
    /// Calls that were refused.
    pub refused: u64,
}

impl ServiceReport {
    /// Whether the bins held what the counters say, and every tick has one outcome.
    pub fn adds_up(&self) -> bool {
        self.tally.adds_up() && self.drained + self.in_lanes == self.tally.outcome(Outcome::Binned)
    }
}

/// The runtime that a service runs in: one thread, and some that look at callers and are kept, since there may be no room
/// for new ones when they are needed.
///
/// # Errors
/// What the system says.
pub fn runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().thread_keep_alive(LOOKERS_STAY).build()
}

/// The service.
pub struct Service {
    session: Session,
    clock: Clock,
    clock_ns: u64,
    limits: Limits,
    slots: Slots,
    copiers: Copiers,
    /// By number in the initial PID namespace, as events have it.
    clients: HashMap<u32, Client>,
    /// Clients whose buffers are being looked at.
    opening: HashMap<ClientId, Opening>,
    /// Clients whose ticks are off and whose last bins are to be fetched after a grace period.
    leaving: Vec<Leaving>,
    /// Places of clients that have left.
    vacated: Vec<Place>,
    next_id: u64,
    opened: (mpsc::UnboundedSender<Opened>, mpsc::UnboundedReceiver<Opened>),
    lost: mpsc::UnboundedReceiver<LostClient>,
    hush: Hush,
    cpu_time: Duration,
    expected: f64,
    report: ServiceReport,
}

impl Service {
    /// Loads the eBPF object and starts the clock. Nothing is counted before somebody calls.
    ///
    /// `rate` is the fastest that a client can have. The limit on descriptors of this process is raised as far as it
    /// goes, and `limits` are lowered where that is not enough for them.
    ///
    /// # Errors
    /// [`ServiceError`].
    pub fn start(rate: Rate, limits: Limits) -> Result<Service, ServiceError> {
        let limits = descriptors::within(limits, descriptors::raise());
        // Each client has a period of its own.
        let settings = Settings { period_ns: 0, clock_ns: rate.clock_ns, ..Settings::NONE };
        let config = SessionConfig { pool: PoolUse::Wanted, lanes: LaneUse::Wanted, ..SessionConfig::new(settings) };
        let mut session = Session::load(&config)?;
        let pool = session.take_pool()?;
        let clock = Clock::on_cpus(session.program()?, &session::online_cpus()?, rate.clock_ns)?;
        clock.start()?;
        let (lost_sender, lost) = mpsc::unbounded_channel();
        Ok(Service {
            session,
            clock,
            clock_ns: rate.clock_ns,
            limits,
            slots: Slots::new(Budget::new(limits), pool),
            copiers: Copiers::new(lost_sender),
            clients: HashMap::new(),
            opening: HashMap::new(),
            leaving: Vec::new(),
            vacated: Vec::new(),
            next_id: 1,
            opened: mpsc::unbounded_channel(),
            lost,
            hush: Hush::default(),
            cpu_time: Duration::ZERO,
            expected: 0.0,
            report: ServiceReport::default(),
        })
    }

    /// Descriptor that becomes readable when a client execs or ends.
    fn events_fd(&self) -> Result<OwnedFd, ServiceError> {
        self.session.events_fd().map_err(ServiceError::Events)
    }

    /// Serves until `stop` is done; then all clients' buffers are written a last time.
    ///
    /// # Errors
    /// [`ServiceError`].
    pub async fn run(
        mut self,
        listener: Listener,
        stop: impl Future<Output = ()>,
    ) -> Result<ServiceReport, ServiceError> {
        // With one thread that stays, callers are looked at also when the system has no room for another.
        let _first = tokio::task::spawn_blocking(|| {}).await;
        let news = Readiness::of(self.events_fd()?).map_err(ServiceError::Events)?;
        let (desk, mut orders) = mpsc::channel(DESK);
        let mut connections = Connections::new(self.limits);
        let mut flush = tokio::time::interval(FLUSH_PERIOD);
        flush.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut gone = tokio::time::interval(GONE_PERIOD);
        gone.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut stop = std::pin::pin!(stop);
        let mut waiting = Queue::default();
        loop {
            tokio::select! {
                () = &mut stop => break,
                accepted = listener.accept() => connections.welcome(accepted, &desk, &self.hush).await,
                Some(result) = connections.next_ended() => self.note_ended(result),
                Some(order) = orders.recv() => waiting.push(order),
                Some(opened) = self.opened.1.recv() => self.take_opened(opened)?,
                Some(lost) = self.lost.recv() => self.take_lost(lost)?,
                () = news.wait() => self.take_events()?,
                () = std::future::ready(()), if !waiting.is_empty() => {}
                _ = gone.tick() => self.look_for_gone()?,
                _ = flush.tick() => {
                    self.flush();
                    self.put_back_vacated();
                    self.cool_some();
                }
            }
            while let Ok(order) = orders.try_recv() {
                waiting.push(order);
            }
            // One order of each user, so that one who calls all the time does not keep the others waiting.
            for order in waiting.next_round() {
                self.take(order)?;
            }
            while let Ok(opened) = self.opened.1.try_recv() {
                self.take_opened(opened)?;
            }
            self.see_off()?;
        }
        drop(listener);
        self.finish().await
    }
}

impl Service {
    fn note_ended(&mut self, result: Result<(), Refusal>) {
        if let Err(refusal) = result {
            self.report.refused += 1;
            if !refusal.is_ordinary() {
                self.hush.warn(format_args!("refused a call: {}", chain(&refusal)));
            }
        }
    }

    /// Sends what was counted on its way into the buffers.
    fn flush(&mut self) {
        for client in self.clients.values_mut() {
            let runs = client.drain_for_flush();
            if !runs.is_empty() {
                self.report.drained += total(&runs);
                let (written, under_way) = oneshot::channel();
                client.under_way = Some(under_way);
                self.copiers.flush(client.id, runs, Some(written));
            }
        }
    }

    /// Writes what one client has so far, and answers it then.
    fn flush_for(&mut self, tgid: u32, answer: oneshot::Sender<Answer>) {
        let Some(client) = self.clients.get_mut(&tgid) else {
            return reply(answer, Answer::default());
        };
        // Behind what is under way: the copier keeps the order.
        let runs = client.place.storage.drain();
        self.report.drained += total(&runs);
        let (written, done) = oneshot::channel();
        self.copiers.flush(client.id, runs, Some(written));
        answer_after(done, answer, Answer::on(client.period_ns));
    }

    fn put_back_vacated(&mut self) {
        for place in std::mem::take(&mut self.vacated) {
            self.put_back(place);
        }
    }

    fn cool_some(&mut self) {
        if let Err(error) = self.slots.cool_some(&mut self.session) {
            self.hush.warn(format_args!("cannot let bins go: {}", chain(&error)));
        }
    }

    fn put_back(&mut self, place: Place) {
        if let Err(error) = self.slots.put_back(&mut self.session, place) {
            self.hush.warn(format_args!("cannot give bins back: {}", chain(&error)));
        }
    }
}

fn total(runs: &[Run]) -> u64 {
    runs.iter().flat_map(|run| &run.added).map(|added| u64::from(*added)).sum()
}

/// Answers a conversation, which may have ended without waiting.
fn reply(answer: oneshot::Sender<Answer>, with: Answer) {
    let _nobody_waits = answer.send(with);
}

/// Answers when a write is done, or cannot be done any more.
fn answer_after(done: oneshot::Receiver<()>, answer: oneshot::Sender<Answer>, with: Answer) {
    tokio::spawn(async move {
        let _written_or_lost = done.await;
        reply(answer, with);
    });
}

/// An error with its causes, on one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(source) = cause {
        text = format!("{text}: {source}");
        cause = source.source();
    }
    text
}
