//! From a call to a client: profiling is turned on, or off.

use profil_common::{Process, process_flags as pf};
use tokio::sync::oneshot;

use super::budget::Owner;
use super::caller::Caller;
use super::client::Client;
use super::conversation::{Answer, Order};
use super::parting::Leaving;
use super::plan::{BadBufferMeans, Delivery, Layout, Plan};
use super::slots::{Place, SlotError, Storage};
use super::{DEFAULT_HZ, Service, ServiceError, chain, reply};
use crate::copier::{ClientId, Memory, OpenError};
use crate::process::TargetProcess;

/// A call that waits for the verdict on its buffers.
pub(super) struct Opening {
    target: TargetProcess,
    pub(super) uid: u32,
    layout: Box<Layout>,
    place: Place,
    period_ns: u64,
    answer: oneshot::Sender<Answer>,
    /// The image of the caller: that of the client it is already, or a new one.
    pub(super) image: u64,
    /// Whether the caller has exec'd or ended meanwhile.
    pub(super) is_gone: bool,
}

/// The verdict.
pub(super) struct Opened {
    id: ClientId,
    verdict: Result<(), OpenError>,
}

impl Service {
    /// Begins with what a call asks for.
    pub(super) fn take(&mut self, order: Order) -> Result<(), ServiceError> {
        let Order { caller, plan, hz, answer } = order;
        let tgid = caller.target.initial_tgid();
        // What it was before an exec is not what calls now.
        self.take_events()?;
        match plan {
            Plan::Unchanged { errno } => {
                self.report.refused += u64::from(errno != 0);
                self.leave_as_it_is(tgid, errno, answer);
            }
            Plan::Refused { errno } => self.turn_off(tgid, answer, Answer::failure(errno))?,
            Plan::Off => self.turn_off(tgid, answer, Answer::default())?,
            Plan::Flush => self.flush_for(tgid, answer),
            Plan::On(layout) => self.open(caller, layout, hz, answer)?,
        }
        Ok(())
    }

    /// Answers a call that changes nothing.
    fn leave_as_it_is(&self, tgid: u32, errno: i32, answer: oneshot::Sender<Answer>) {
        let now = self.clients.get(&tgid).map_or_else(Answer::default, |client| Answer::on(client.period_ns));
        reply(answer, Answer { errno, ..now });
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
            + self.opening.values().filter(|opening| opening.uid == uid).count();
        if of_user >= self.limits.user_clients as usize && !self.clients.contains_key(&tgid) {
            self.hush.warn(format_args!("refused process {pid}: user {uid} has {of_user} profiled processes already"));
            self.leave_as_it_is(tgid, libc::EAGAIN, answer);
            return Ok(());
        }
        let mut layout = layout;
        if !self.session.takes_lanes() || self.slots.ghosts_of(uid) >= self.limits.user_clients as usize {
            layout.delivery = Delivery::Copied;
        }
        let nbins = layout.ranges.nbins;
        let owner = Owner { uid, tgid };
        let mut place = self.take_place(layout.delivery, owner, nbins);
        if matches!(place, Err(SlotError::Budget(_))) && !self.vacated.is_empty() {
            // The owner may be over its budget only because what it had is not put back yet.
            self.put_back_vacated();
            place = self.take_place(layout.delivery, owner, nbins);
        }
        let place = match place {
            Ok(place) => place,
            Err(error) => {
                self.hush.warn(format_args!("refused process {pid}: {}", chain(&error)));
                self.leave_as_it_is(tgid, errno_of(&error), answer);
                return Ok(());
            }
        };
        let id = ClientId(self.next_id);
        self.next_id += 1;
        let hz = if hz == 0 { DEFAULT_HZ } else { hz };
        let period_ns = (1_000_000_000 / u64::from(hz)).max(self.clock_ns);
        let image = match self.clients.get(&tgid) {
            Some(client) => client.image,
            None => {
                // Known, but not counted yet: from now on the hooks tell of an exec. One before now is seen by the copier.
                let image = self.session.new_image();
                if let Err(error) = self.session.set_known(tgid, &Process { image, ..Process::default() }) {
                    self.hush.warn(format_args!("refused process {pid}: {}", chain(&error)));
                    self.put_back(place);
                    self.leave_as_it_is(tgid, libc::EAGAIN, answer);
                    return Ok(());
                }
                image
            }
        };
        let buffers = match layout.delivery {
            Delivery::Copied => layout.buffers.clone(),
            // The caller writes to it itself.
            Delivery::Mapped => Vec::new(),
        };
        let Caller { target, space, hazards, uid, is_guarded: _ } = caller;
        self.opening.insert(id, Opening { target, uid, layout, place, period_ns, answer, image, is_gone: false });
        let (done, verdict) = oneshot::channel();
        self.copiers.open(uid, id, Memory { space, hazards }, buffers, done);
        let opened = self.opened.0.clone();
        tokio::spawn(async move {
            let verdict = verdict
                .await
                .unwrap_or_else(|_| Err(OpenError::Ended { source: std::io::ErrorKind::BrokenPipe.into() }));
            // The service that would take it is gone with its clients.
            let _stopped = opened.send(Opened { id, verdict });
        });
        Ok(())
    }

    fn take_place(&mut self, delivery: Delivery, owner: Owner, nbins: u32) -> Result<Place, SlotError> {
        match delivery {
            Delivery::Copied => self.slots.take(&mut self.session, owner, nbins),
            Delivery::Mapped => self.slots.take_lanes(&mut self.session, owner, nbins),
        }
    }

    /// Turns profiling on for a call whose buffers were looked at.
    pub(super) fn take_opened(&mut self, opened: Opened) -> Result<(), ServiceError> {
        let Opened { id, verdict } = opened;
        // An exec since the last look, of a caller that is then gone.
        self.take_events()?;
        let Some(opening) = self.opening.remove(&id) else {
            return Ok(());
        };
        let Opening { target, uid, mut layout, place, period_ns, answer, image, is_gone } = opening;
        let (tgid, pid) = (target.initial_tgid(), target.pid());
        if is_gone {
            self.copiers.close(id);
            self.put_back(place);
            reply(answer, Answer::failure(libc::ESRCH));
            return self.forget_unless_client(tgid);
        }
        if let Err(error) = verdict {
            log::debug!("no profiling for process {pid}: {}", chain(&error));
            let errno = match (error, layout.bad_buffer) {
                (OpenError::Buffer(_), BadBufferMeans::Success) => 0,
                (OpenError::Buffer(_), BadBufferMeans::Efault) => libc::EFAULT,
                // Nobody knows what is the matter with the buffer.
                _ => libc::EAGAIN,
            };
            return self.give_up(id, place, tgid, (answer, errno));
        }
        layout.ranges.period_ns = period_ns;
        layout.ranges.first_chunk = place.storage.first_chunk();
        let cpu_at_start = target.cpu_time().unwrap_or_default();
        // From here on the ticks of a call before it go into these bins: one store in the kernel's table.
        let (kind, answered) = match &place.storage {
            Storage::Bins(_) => (pf::DENSE, Answer::on(period_ns)),
            Storage::Lanes(lanes) => match lanes.descriptor() {
                Ok(lanes) => (pf::DENSE | pf::LANES, Answer::on(period_ns).with_lanes(lanes)),
                Err(error) => {
                    self.hush.warn(format_args!("refused process {pid}: {}", chain(&error)));
                    return self.give_up(id, place, tgid, (answer, libc::EMFILE));
                }
            },
        };
        let (clocked_ns, slot) = (cpu_at_start.as_nanos() as u64, place.slot);
        let process = Process { image, clocked_ns, flags: pf::SELECTED | kind, slot };
        let ranges_set = self.session.set_ranges(slot, &layout.ranges);
        if let Err(error) = ranges_set.and_then(|()| self.session.set_known(tgid, &process)) {
            self.hush.warn(format_args!("refused process {pid}: {}", chain(&error)));
            return self.give_up(id, place, tgid, (answer, libc::EIO));
        }
        let client = Client { id, uid, target, image, place, period_ns, cpu_at_start, under_way: None };
        self.report.turned_on += 1;
        let answer = (answer, answered);
        match self.clients.insert(tgid, client) {
            // The call returns when the last ticks of the one before it are written.
            Some(before) => self.leaving.push(Leaving { client: before, answer: Some(answer), end: None }),
            None => reply(answer.0, answer.1),
        }
        // What it exec'd just now, or who has its PID, must not be counted in its place.
        self.take_events()?;
        match self.clients.get(&tgid) {
            Some(client) if !client.target.is_same() => self.drop_client(tgid, None),
            _ => Ok(()),
        }
    }

    /// Ends a call that cannot turn profiling on: it is off afterwards.
    fn give_up(
        &mut self,
        id: ClientId,
        place: Place,
        tgid: u32,
        (answer, errno): (oneshot::Sender<Answer>, i32),
    ) -> Result<(), ServiceError> {
        self.copiers.close(id);
        self.put_back(place);
        self.turn_off(tgid, answer, Answer::failure(errno))?;
        self.forget_unless_client(tgid)
    }

    /// Takes a process out of the kernel's table that was only looked at.
    fn forget_unless_client(&mut self, tgid: u32) -> Result<(), ServiceError> {
        if self.clients.contains_key(&tgid) { Ok(()) } else { self.stop_counting(tgid) }
    }

    /// Lets the ticks pass a process by. One with a call under way stays known: the hooks are to tell of its exec.
    pub(super) fn stop_counting(&mut self, tgid: u32) -> Result<(), ServiceError> {
        let is_under_way = |opening: &&Opening| opening.target.initial_tgid() == tgid && !opening.is_gone;
        match self.opening.values().find(is_under_way) {
            Some(Opening { image, .. }) => {
                self.session.set_known(tgid, &Process { image: *image, ..Process::default() })?;
            }
            None => self.session.forget(tgid)?,
        }
        Ok(())
    }

    fn turn_off(&mut self, tgid: u32, answer: oneshot::Sender<Answer>, with: Answer) -> Result<(), ServiceError> {
        match self.clients.remove(&tgid) {
            Some(client) => {
                self.stop_counting(tgid)?;
                self.leaving.push(Leaving { client, answer: Some((answer, with)), end: None });
            }
            None => reply(answer, with),
        }
        Ok(())
    }
}

fn errno_of(error: &SlotError) -> i32 {
    match error {
        SlotError::Budget(_) | SlotError::Bins(_) | SlotError::Lanes(_) => libc::ENOMEM,
        SlotError::Full { .. } => libc::EAGAIN,
        SlotError::Session(_) => libc::EIO,
    }
}
