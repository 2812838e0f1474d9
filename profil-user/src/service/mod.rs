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
mod hush;
mod plan;
mod queue;
mod slots;
mod socket;

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use profil_common::{Counters, Event, EventKind, Outcome, Settings, process_flags as pf};
use tokio::sync::{mpsc, oneshot};
use tokio::time::MissedTickBehavior;

use crate::attach::FLUSH_PERIOD;
use crate::bins::Run;
use crate::clock::{Clock, ClockError};
use crate::copier::{ClientId, Copiers, LostClient, OpenError};
use crate::rate::Rate;
use crate::readiness::Readiness;
use crate::session::{self, LaneUse, Session, SessionConfig, SessionError};
use crate::tally::Tally;
use budget::Budget;
use caller::Caller;
use client::Client;
use connections::Connections;
use conversation::{Answer, Order, Refusal};
use hush::Hush;
use plan::{BadBufferMeans, Delivery, Layout, Plan};
use queue::Queue;
use slots::{Place, SlotError, Slots, Storage};

pub use budget::{Limits, OverBudget};
pub use socket::{ListenError, Listener};

/// Ticks per second of CPU time for a call that names no rate: the clock of profil(2).
pub const DEFAULT_HZ: u32 = 100;

/// Orders that wait while the service is at work.
const DESK: usize = 64;

/// How often clients are looked at whose end no event told.
const GONE_PERIOD: Duration = Duration::from_secs(1);

/// How long the end of the service waits for buffers to be written.
const LAST_WRITES: Duration = Duration::from_secs(2);

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
    Events(#[source] std::io::Error),
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
    next_id: u64,
    opened: (mpsc::UnboundedSender<Opened>, mpsc::UnboundedReceiver<Opened>),
    lost: mpsc::UnboundedReceiver<LostClient>,
    hush: Hush,
    cpu_time: Duration,
    expected: f64,
    report: ServiceReport,
}

/// A call that waits for the verdict on its buffers.
struct Opening {
    caller: Caller,
    layout: Box<Layout>,
    place: Place,
    period_ns: u64,
    answer: oneshot::Sender<Answer>,
}

/// The verdict.
struct Opened {
    id: ClientId,
    verdict: Result<(), OpenError>,
}

/// A client that is on its way out.
struct Leaving {
    client: Client,
    /// Who waits for it, and what for.
    answer: Option<(oneshot::Sender<Answer>, Answer)>,
    /// What the kernel said of its end.
    end: Option<Event>,
}

impl Service {
    /// Loads the eBPF object and starts the clock. Nothing is counted before somebody calls.
    ///
    /// `rate` is the fastest that a client can have.
    ///
    /// # Errors
    /// [`ServiceError`].
    pub fn start(rate: Rate, limits: Limits) -> Result<Service, ServiceError> {
        // Each client has a period of its own.
        let settings = Settings { period_ns: 0, clock_ns: rate.clock_ns, ..Settings::NONE };
        let session = Session::load(&SessionConfig { lanes: LaneUse::Wanted, ..SessionConfig::new(settings) })?;
        let clock = Clock::on_cpus(session.program()?, &session::online_cpus()?, rate.clock_ns)?;
        clock.start()?;
        let (lost_sender, lost) = mpsc::unbounded_channel();
        Ok(Service {
            session,
            clock,
            clock_ns: rate.clock_ns,
            limits,
            slots: Slots::new(Budget::new(limits)),
            copiers: Copiers::new(lost_sender),
            clients: HashMap::new(),
            opening: HashMap::new(),
            leaving: Vec::new(),
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
    pub async fn run(mut self, listener: Listener, stop: impl Future<Output = ()>) -> Result<ServiceReport, ServiceError> {
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
                _ = flush.tick() => self.flush(),
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

    /// Begins with what a call asks for.
    fn take(&mut self, order: Order) -> Result<(), ServiceError> {
        let Order { caller, plan, hz, answer } = order;
        let tgid = caller.target.initial_tgid();
        match plan {
            Plan::Nothing => reply(answer, Answer::default()),
            Plan::Off => self.turn_off(tgid, answer, Answer::default())?,
            Plan::Flush => self.flush_for(tgid, answer),
            Plan::On(layout) => self.open(caller, layout, hz, answer)?,
        }
        Ok(())
    }

    /// Finds a place for the bins of a call, and has its buffers looked at.
    fn open(
        &mut self,
        caller: Caller,
        layout: Box<Layout>,
        hz: u32,
        answer: oneshot::Sender<Answer>,
    ) -> Result<(), ServiceError> {
        let uid = caller.uid;
        let (tgid, pid) = (caller.target.initial_tgid(), caller.target.pid());
        let of_user = self.clients.values().filter(|client| client.uid == uid).count()
            + self.opening.values().filter(|opening| opening.caller.uid == uid).count();
        if of_user >= self.limits.user_clients as usize && !self.clients.contains_key(&tgid) {
            self.hush.warn(format_args!("refused process {pid}: user {uid} has {of_user} profiled processes already"));
            reply(answer, Answer::failure(libc::EAGAIN));
            return Ok(());
        }
        let mut layout = layout;
        if !self.session.takes_lanes() {
            layout.delivery = Delivery::Copied;
        }
        let nbins = layout.ranges.nbins;
        let place = match layout.delivery {
            Delivery::Copied => self.slots.take(&mut self.session, uid, nbins),
            Delivery::Mapped => self.slots.take_lanes(&mut self.session, uid, nbins),
        };
        let place = match place {
            Ok(place) => place,
            Err(error) => {
                self.hush.warn(format_args!("refused process {pid}: {}", chain(&error)));
                reply(answer, Answer::failure(errno_of(&error)));
                return Ok(());
            }
        };
        let space = match caller.space.try_clone() {
            Ok(space) => space,
            Err(error) => {
                self.hush.warn(format_args!("refused process {pid}: {}", chain(&error)));
                self.put_back(place);
                reply(answer, Answer::failure(libc::EMFILE));
                return Ok(());
            }
        };
        let id = ClientId(self.next_id);
        self.next_id += 1;
        let hz = if hz == 0 { DEFAULT_HZ } else { hz };
        let period_ns = (1_000_000_000 / u64::from(hz)).max(self.clock_ns);
        let Layout { delivery, buffers, .. } = &*layout;
        let (delivery, buffers) = (*delivery, buffers.clone());
        self.opening.insert(id, Opening { caller, layout, place, period_ns, answer });
        let opened = self.opened.0.clone();
        if delivery == Delivery::Mapped {
            // The caller writes to its buffer itself: there is nothing to look at.
            let _stopped = opened.send(Opened { id, verdict: Ok(()) });
            return Ok(());
        }
        self.copiers.open(uid, id, space, buffers, move |verdict| {
            // The service that would take it is gone with its clients.
            let _stopped = opened.send(Opened { id, verdict });
        });
        Ok(())
    }

    /// Turns profiling on for a call whose buffers were looked at.
    fn take_opened(&mut self, opened: Opened) -> Result<(), ServiceError> {
        let Opened { id, verdict } = opened;
        let Some(Opening { caller, mut layout, place, period_ns, answer }) = self.opening.remove(&id) else {
            return Ok(());
        };
        let (tgid, pid) = (caller.target.initial_tgid(), caller.target.pid());
        if let Err(error) = verdict {
            log::debug!("no profiling for process {pid}: {}", chain(&error));
            self.put_back(place);
            let errno = match layout.bad_buffer {
                BadBufferMeans::Efault => libc::EFAULT,
                BadBufferMeans::Success => 0,
            };
            return self.turn_off(tgid, answer, Answer::failure(errno));
        }
        layout.ranges.period_ns = period_ns;
        let Caller { target, space, uid } = caller;
        self.session.set_ranges(place.slot, &layout.ranges)?;
        let cpu_at_start = target.cpu_time().unwrap_or_default();
        // From here on the ticks of a call before it go into these bins: one store in the kernel's table.
        let (kind, answered) = match &place.storage {
            Storage::Bins(_) => (pf::DENSE, Answer::on(period_ns)),
            Storage::Lanes(lanes) => match lanes.descriptor() {
                Ok(lanes) => (pf::DENSE | pf::LANES, Answer::on(period_ns).with_lanes(lanes)),
                Err(error) => {
                    self.hush.warn(format_args!("refused process {pid}: {}", chain(&error)));
                    self.put_back(place);
                    return self.turn_off(tgid, answer, Answer::failure(libc::EMFILE));
                }
            },
        };
        let image = self.session.make_known(tgid, pf::SELECTED | kind, place.slot)?;
        let client = Client { id, uid, target, space, image, place, period_ns, cpu_at_start, under_way: None };
        self.report.turned_on += 1;
        let answer = (answer, answered);
        if client.is_gone() {
            // It has exec'd or ended since it called, maybe before the hooks knew it.
            self.session.forget(tgid)?;
            self.leaving.push(Leaving { client, answer: Some((answer.0, Answer::failure(libc::ESRCH))), end: None });
            if let Some(before) = self.clients.remove(&tgid) {
                self.leaving.push(Leaving { client: before, answer: None, end: None });
            }
            return Ok(());
        }
        match self.clients.insert(tgid, client) {
            // The call returns when the last ticks of the one before it are written.
            Some(before) => self.leaving.push(Leaving { client: before, answer: Some(answer), end: None }),
            None => reply(answer.0, answer.1),
        }
        Ok(())
    }

    fn turn_off(&mut self, tgid: u32, answer: oneshot::Sender<Answer>, with: Answer) -> Result<(), ServiceError> {
        match self.clients.remove(&tgid) {
            Some(client) => {
                self.session.forget(tgid)?;
                self.leaving.push(Leaving { client, answer: Some((answer, with)), end: None });
            }
            None => reply(answer, with),
        }
        Ok(())
    }

    /// Turns profiling off for a client that nobody speaks for any more.
    fn drop_client(&mut self, tgid: u32, end: Option<Event>) -> Result<(), ServiceError> {
        if let Some(client) = self.clients.remove(&tgid) {
            self.session.forget(tgid)?;
            self.leaving.push(Leaving { client, answer: None, end });
        }
        Ok(())
    }

    fn take_lost(&mut self, lost: LostClient) -> Result<(), ServiceError> {
        let LostClient { client: id, loss } = lost;
        let Some((tgid, client)) = self.clients.iter().find(|(_, client)| client.id == id) else {
            return Ok(());
        };
        let (tgid, pid) = (*tgid, client.target.pid());
        self.report.lost += 1;
        self.hush.warn(format_args!("profiling of process {pid} is off: {loss}"));
        self.drop_client(tgid, None)
    }

    fn take_events(&mut self) -> Result<(), ServiceError> {
        let mut ends = Vec::new();
        self.session.drain_events(|event| match event.kind() {
            Some(EventKind::Exec) => ends.push((event.other_image, *event)),
            Some(EventKind::Exit) => ends.push((event.image, *event)),
            _ => {}
        });
        for (image, event) in ends {
            if self.clients.get(&event.tgid).is_some_and(|client| client.image == image) {
                self.drop_client(event.tgid, Some(event))?;
            }
        }
        Ok(())
    }

    /// Drops clients whose end no event told, because the ring was full.
    fn look_for_gone(&mut self) -> Result<(), ServiceError> {
        self.slots.bury_ghosts();
        let gone: Vec<u32> =
            self.clients.iter().filter(|(_, client)| client.is_gone()).map(|(tgid, _)| *tgid).collect();
        gone.into_iter().try_for_each(|tgid| self.drop_client(tgid, None))
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

    /// Fetches the last bins of the clients that leave, one grace period for all of them.
    fn see_off(&mut self) -> Result<(), ServiceError> {
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
            self.put_back(client.place);
        }
        Ok(())
    }

    fn put_back(&mut self, place: Place) {
        if let Err(error) = self.slots.put_back(&mut self.session, place) {
            self.hush.warn(format_args!("cannot give bins back: {}", chain(&error)));
        }
    }

    /// Stops the ticks, has every buffer written, and says what was done.
    async fn finish(mut self) -> Result<ServiceReport, ServiceError> {
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

fn errno_of(error: &SlotError) -> i32 {
    match error {
        SlotError::Budget(_) | SlotError::Bins(_) | SlotError::Lanes(_) => libc::ENOMEM,
        SlotError::Full { .. } => libc::EAGAIN,
        SlotError::Session(_) => libc::EIO,
    }
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
