//! A run of the live view, from its first window to its account.

use std::io::{self, BufWriter, ErrorKind, IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use ratatui::crossterm::event::Event;
use tokio::sync::mpsc::UnboundedReceiver;

use super::TopArgs;
use super::draw::{self, Scene};
use super::frames::{self, Layout};
use super::screen::{self, Screen};
use super::state::{Focus, Reaction, State};
use super::zoom::Zoom;
use crate::cli::failure;
use crate::cli::interrupt::{self, Came, Interrupts, Wish};
use crate::cli::launched::{Launched, Stay, Stopped};
use crate::cli::{remarks, talk, until};
use crate::readiness::Readiness;
use crate::record::{LastNames, Live, LiveWindow, Remark};
use crate::report::color::{Medium, Paint};
use crate::report::summary::{RunFile, misses_line, summary_line};
use crate::report::{By, Report, table};
use crate::top::{Model, Pace};

/// How often the tables are looked at.
const POLL: Duration = Duration::from_millis(250);

/// Shortest pause between two looks: a fork storm wakes us for each process.
const PAUSE: Duration = Duration::from_millis(5);

/// Rows of a frame of text, and of the table that is left when the screen goes, when no limit is given.
const DEFAULT_LIMIT: usize = 20;

/// Where the view is shown.
enum Show {
    /// On a screen, with keys.
    Screen(Box<OnScreen>),
    /// In frames.
    Frames {
        /// How many have been printed.
        printed: u64,
        /// Nobody reads them any more.
        unread: bool,
    },
}

struct OnScreen {
    screen: Screen,
    state: State,
    zoom: Zoom,
    events: UnboundedReceiver<Event>,
}

/// What the loop waits for.
enum Happened {
    Wish(Wish),
    TimeUp,
    TargetsEnded,
    News,
    Poll,
    FrameDue,
    /// `None`: the terminal is gone.
    Event(Option<Event>),
}

/// A live view under way.
pub struct Run {
    live: Live,
    model: Model,
    child: Option<Launched>,
    interrupts: Interrupts,
    args: TopArgs,
    show: Show,
}

impl Run {
    /// Takes the terminal over, if the view is to be drawn on it.
    ///
    /// # Errors
    /// What the terminal says.
    pub fn new(live: Live, child: Option<Launched>, interrupts: Interrupts, args: TopArgs) -> anyhow::Result<Run> {
        let show = if args.has_screen() {
            let mut state = State::new(args.view());
            state.filter_text = args.filter.as_ref().map(|filter| filter.as_str().to_owned()).unwrap_or_default();
            let screen = Screen::take().context("cannot draw on the terminal")?;
            let zoom = Zoom::new(args.debug_files());
            Show::Screen(Box::new(OnScreen { screen, state, zoom, events: screen::events()? }))
        } else {
            Show::Frames { printed: 0, unread: false }
        };
        let by = if args.ticks.per_thread { By::Thread } else { By::Process };
        Ok(Run { live, model: Model::new(by), child, interrupts, args, show })
    }

    /// Shows window after window until the end; returns the exit status.
    ///
    /// # Errors
    /// Whatever keeps it from going on.
    pub async fn finish(mut self) -> anyhow::Result<ExitCode> {
        let shown = self.until_stopped().await;
        let had_screen = matches!(self.show, Show::Screen(_));
        let Run { live, model, args, show, .. } = &mut self;
        // Whatever comes now is said on a terminal that is as it was before.
        if had_screen {
            *show = Show::Frames { printed: 0, unread: true };
        }
        let stopped = shown?;
        interrupt::abort_on_second(match stopped {
            Stopped::Wished(_) => Came::One,
            Stopped::TargetsEnded | Stopped::TimeUp => Came::None,
        });
        // Nobody has asked for the end: what there was to be seen goes with the screen, and its sum is to stay.
        let leaves_table = had_screen && !matches!(stopped, Stopped::Wished(_)) && !args.quiet;
        let names = if leaves_table || !had_screen { LastNames::Complete } else { LastNames::AsTheyAre };
        let (window, remarks) = live.stop(names)?;
        model.set_pace(Pace::Running, live.profile());
        model.take(live.profile(), &window);
        if !had_screen {
            self.print_frame()?;
        } else if leaves_table {
            self.print_table()?;
        }
        self.account(&remarks);
        let ticks = self.live.profile().tally.ticks;
        match &mut self.child {
            Some(child) => child.see_off(Self::for_command(stopped, had_screen), Stay::Ended),
            None if ticks == 0 => {
                talk::say(remarks::no_ticks(&self.live.profile().tally));
                Ok(ExitCode::from(failure::NO_TICKS))
            }
            None => Ok(ExitCode::SUCCESS),
        }
    }

    /// What the command is told: on a screen, no key of the terminal's reaches it.
    fn for_command(stopped: Stopped, had_screen: bool) -> Stopped {
        match stopped {
            Stopped::Wished(Wish::Interrupt) if had_screen => Stopped::Wished(Wish::Terminate),
            stopped => stopped,
        }
    }

    async fn until_stopped(&mut self) -> anyhow::Result<Stopped> {
        let news = Readiness::of(self.live.events_fd()?)?;
        let ended = match &self.child {
            Some(child) => Some(child.end()?),
            None => None,
        };
        let mut poll = tokio::time::interval(POLL);
        let mut frame = tokio::time::interval_at(tokio::time::Instant::now() + self.args.interval, self.args.interval);
        // A frame that is late is not made up for.
        frame.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        self.draw()?;
        loop {
            let left = self.args.duration.map(|duration| duration.saturating_sub(self.live.elapsed()));
            let happened = tokio::select! {
                wish = self.interrupts.next() => Happened::Wish(wish),
                () = until::passed(left) => Happened::TimeUp,
                () = until::readable(ended.as_ref()) => Happened::TargetsEnded,
                event = next_event(&mut self.show) => Happened::Event(event),
                _ = frame.tick() => Happened::FrameDue,
                () = news.wait() => Happened::News,
                _ = poll.tick() => Happened::Poll,
            };
            match happened {
                // There is no file; what a frame shows is never further away than the next one.
                Happened::Wish(Wish::Interim) => {}
                Happened::Wish(wish) => return Ok(Stopped::Wished(wish)),
                Happened::TimeUp => return Ok(Stopped::TimeUp),
                Happened::TargetsEnded => return Ok(Stopped::TargetsEnded),
                Happened::News => {
                    self.live.poll()?;
                    tokio::time::sleep(PAUSE).await;
                }
                Happened::Poll => {
                    self.live.poll()?;
                    if self.live.is_over() {
                        return Ok(Stopped::TargetsEnded);
                    }
                }
                Happened::FrameDue if self.is_last_frame() => return Ok(Stopped::TimeUp),
                Happened::FrameDue => {
                    let window: LiveWindow = self.live.window()?;
                    self.model.take(self.live.profile(), &window);
                    if !self.show_frame()? {
                        return Ok(Stopped::Wished(Wish::Terminate));
                    }
                }
                Happened::Event(event) => {
                    if !self.react(event)? {
                        return Ok(Stopped::Wished(Wish::Terminate));
                    }
                }
            }
        }
    }

    /// Whether the frame that is due is the last: it is printed when the ticks have stopped, so that it has all of them.
    fn is_last_frame(&self) -> bool {
        match (&self.show, self.args.frames) {
            (Show::Frames { printed, .. }, Some(frames)) => printed + 1 >= frames.get(),
            _ => false,
        }
    }

    /// Shows how it stands; false if nobody looks any more.
    fn show_frame(&mut self) -> anyhow::Result<bool> {
        match self.show {
            Show::Screen(_) => self.draw(),
            Show::Frames { .. } => self.print_frame(),
        }
    }

    /// Draws the screen, if there is one; false if the terminal is gone.
    fn draw(&mut self) -> anyhow::Result<bool> {
        let Run { live, model, args, show, .. } = self;
        let Show::Screen(on_screen) = show else {
            return Ok(true);
        };
        let OnScreen { screen, state, zoom, .. } = &mut **on_screen;
        if let (Focus::Function(function), Pace::Running) = (&state.focus, state.pace) {
            zoom.look(live.profile(), function);
        }
        let scene = Scene { model, profile: live.profile(), zoom, paint: paint(args) };
        match screen.draw(|frame| draw::draw(frame, scene, state)) {
            Err(error) if is_gone(&error) => Ok(false),
            drawn => drawn.map(|()| true).context("cannot draw on the terminal"),
        }
    }

    /// Takes in what came from the terminal; false to stop.
    fn react(&mut self, event: Option<Event>) -> anyhow::Result<bool> {
        let Run { live, model, show, .. } = self;
        let Show::Screen(on_screen) = show else {
            return Ok(true);
        };
        let OnScreen { screen, state, .. } = &mut **on_screen;
        let reaction = match event {
            None => return Ok(false),
            Some(Event::Key(key)) => state.press(key, &model.shown(&state.view)),
            Some(Event::Resize(..)) => Reaction::Redraw,
            Some(_) => Reaction::None,
        };
        match reaction {
            Reaction::None => return Ok(true),
            Reaction::Quit => return Ok(false),
            Reaction::Redraw => {}
            Reaction::Pace(pace) => model.set_pace(pace, live.profile()),
            Reaction::Clear => screen.clear().context("cannot draw on the terminal")?,
            Reaction::Suspend => screen.suspend().context("cannot draw on the terminal")?,
        }
        self.draw()
    }

    /// Prints a frame; false if nobody reads it.
    fn print_frame(&mut self) -> anyhow::Result<bool> {
        let Run { live, model, args, show, .. } = self;
        let Show::Frames { printed, unread } = show else {
            return Ok(true);
        };
        if *unread {
            return Ok(false);
        }
        *printed += 1;
        let stdout = io::stdout().lock();
        let width = terminal_width(&stdout);
        let mut to = BufWriter::new(stdout);
        let limit = |default| match args.limit {
            None => default,
            Some(0) => None,
            limit => limit,
        };
        let view = args.view();
        let written = if args.json {
            frames::write_json(model, &view, limit(None), &mut to)
        } else {
            let layout = Layout { limit: limit(Some(DEFAULT_LIMIT)), width, paint: paint(args) };
            frames::write_text(model, &live.profile().title, &view, layout, &mut to)
        };
        match written.and_then(|()| to.flush()) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => *unread = true,
            written => written.context("cannot write to standard output")?,
        }
        Ok(!*unread)
    }

    /// Prints the functions with their totals, as `record` does at its end.
    fn print_table(&self) -> anyhow::Result<()> {
        let profile = self.live.profile();
        if profile.tally.ticks == 0 {
            return Ok(());
        }
        let stdout = io::stdout().lock();
        let width = terminal_width(&stdout);
        let mut to = BufWriter::new(stdout);
        let layout = table::Layout { limit: Some(DEFAULT_LIMIT), width, paint: paint(&self.args) };
        let report = Report::new(profile, By::Function, |_| true);
        match table::write(&report, layout, &mut to).and_then(|()| to.flush()) {
            Err(error) if is_gone(&error) => Ok(()),
            written => written.context("cannot write to standard output"),
        }
    }

    /// What goes to standard error at the end.
    fn account(&self, remarks: &[Remark]) {
        if self.args.quiet {
            return;
        }
        let profile = self.live.profile();
        for line in remarks::lines(remarks, profile.tally.ticks) {
            talk::say(line);
        }
        if let Some(line) = misses_line(&profile.tally) {
            talk::tell(line);
        }
        talk::tell(summary_line(&profile.tally, &profile.clock, RunFile::None));
    }
}

/// The next event of the terminal; never where there is no screen.
async fn next_event(show: &mut Show) -> Option<Event> {
    match show {
        Show::Screen(on_screen) => on_screen.events.recv().await,
        Show::Frames { .. } => std::future::pending().await,
    }
}

fn paint(args: &TopArgs) -> Paint {
    let medium = if io::stdout().is_terminal() { Medium::Terminal } else { Medium::File };
    args.color.paint(medium, |name| std::env::var_os(name))
}

/// Columns of the terminal; `None` where there is none, or it does not know.
fn terminal_width(stdout: &io::StdoutLock<'_>) -> Option<usize> {
    let size = stdout.is_terminal().then(|| rustix::termios::tcgetwinsize(stdout).ok()).flatten()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// Whether the terminal, or who reads, is gone.
fn is_gone(error: &io::Error) -> bool {
    error.kind() == ErrorKind::BrokenPipe || error.raw_os_error() == Some(libc::EIO)
}
