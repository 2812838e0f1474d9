//! The terminal while we draw on it: taken over, and given back whatever happens.

use std::io::{self, BufWriter, Stdout};
use std::panic;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{self, Event};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use rustix::process::Signal;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::cli::talk;

/// Bytes that are collected before they are written: a screen full of them.
const BUFFER_BYTES: usize = 32 * 1024;

/// Whether the terminal is ours. There is only one.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// What a panic said while the terminal was ours.
static LAST_WORDS: Mutex<Option<String>> = Mutex::new(None);

/// The terminal; dropping it gives it back.
pub struct Screen {
    terminal: Terminal<CrosstermBackend<BufWriter<Stdout>>>,
}

impl Screen {
    /// Takes the terminal over.
    ///
    /// # Errors
    /// What the terminal says.
    pub fn take() -> io::Result<Screen> {
        keep_panics_off();
        let backend = CrosstermBackend::new(BufWriter::with_capacity(BUFFER_BYTES, io::stdout()));
        let screen = Screen { terminal: Terminal::new(backend)? };
        enter().inspect_err(|_| leave())?;
        Ok(screen)
    }

    /// Draws.
    ///
    /// # Errors
    /// What the terminal says.
    pub fn draw(&mut self, draw: impl FnOnce(&mut ratatui::Frame<'_>)) -> io::Result<()> {
        self.terminal.draw(draw).map(drop)
    }

    /// Draws everything again next time, as something else may have written on the terminal.
    ///
    /// # Errors
    /// What the terminal says.
    pub fn clear(&mut self) -> io::Result<()> {
        self.terminal.clear()
    }

    /// Gives the terminal back, and takes it over again when the process is continued.
    ///
    /// # Errors
    /// What the terminal says.
    pub fn suspend(&mut self) -> io::Result<()> {
        leave();
        // The whole group, as the terminal would: a shell that started us in a script is to stop as well.
        rustix::process::kill_current_process_group(Signal::TSTP)?;
        enter()?;
        self.clear()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        leave();
        let last_words = LAST_WORDS.lock().ok().and_then(|mut words| words.take());
        // A panic that somebody caught is no news.
        if let (Some(words), true) = (last_words, std::thread::panicking()) {
            talk::tell(words);
        }
    }
}

fn enter() -> io::Result<()> {
    enable_raw_mode()?;
    TAKEN.store(true, Ordering::Relaxed);
    execute!(io::stdout(), EnterAlternateScreen)
}

/// Gives the terminal back. One that is gone does not want to be.
fn leave() {
    if TAKEN.swap(false, Ordering::Relaxed) {
        let _ = execute!(io::stdout(), LeaveAlternateScreen, Show);
        let _ = disable_raw_mode();
    }
}

/// Keeps what a panic says until the terminal has been given back: on it, nobody could read it.
fn keep_panics_off() {
    let before = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        if !TAKEN.load(Ordering::Relaxed) {
            before(panic);
        } else if let Ok(mut words) = LAST_WORDS.lock() {
            *words = Some(panic.to_string());
        }
    }));
}

/// What comes from the keys and the window, read by a thread of its own; it ends when the terminal is gone.
///
/// # Errors
/// No thread can be made.
pub fn events() -> io::Result<UnboundedReceiver<Event>> {
    let (sender, receiver) = tokio::sync::mpsc::unbounded_channel();
    std::thread::Builder::new().name("keys".to_owned()).spawn(move || {
        while let Ok(event) = event::read() {
            if sender.send(event).is_err() {
                return;
            }
        }
    })?;
    Ok(receiver)
}

#[cfg(test)]
mod tests;
