//! A terminal to look at and to type into: a tmux server of its own for each test.

use std::path::PathBuf;
use std::process::{Command, Output};

use crate::patience::until;
use crate::scratch::Scratch;

/// A terminal with a shell in it; gone when dropped.
#[derive(Debug)]
pub struct Tmux {
    socket: PathBuf,
}

impl Tmux {
    /// A terminal of 80 columns and 24 lines, whose shell is ready.
    ///
    /// # Panics
    ///
    /// If tmux cannot be run.
    pub fn start(scratch: &Scratch) -> Tmux {
        let tmux = Tmux { socket: scratch.path("tmux") };
        // Whatever runs the tests may be in a tmux itself, or have a locale without UTF-8.
        let shell = "PS1='> ' LC_ALL=C.UTF-8 exec sh";
        tmux.tell(&["-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", shell]);
        tmux.tell(&["set-option", "-g", "status", "off"]);
        tmux.resize(80, 24);
        tmux.until_screen("the shell is ready", |screen| screen.contains('>'));
        tmux
    }

    /// Types a line.
    pub fn line(&self, line: &str) {
        self.tell(&["send-keys", "-l", line]);
        self.key("Enter");
    }

    /// Types text as it is.
    pub fn text(&self, text: &str) {
        self.tell(&["send-keys", "-l", text]);
    }

    /// Presses a key by its name in tmux.
    pub fn key(&self, name: &str) {
        self.tell(&["send-keys", name]);
    }

    /// Changes the size of the window.
    pub fn resize(&self, columns: u16, lines: u16) {
        self.tell(&["resize-window", "-x", &columns.to_string(), "-y", &lines.to_string()]);
    }

    /// What is on the screen: a string of lines.
    pub fn screen(&self) -> String {
        self.tell(&["capture-pane", "-p"])
    }

    /// A variable of tmux's, such as `alternate_on`.
    pub fn variable(&self, name: &str) -> String {
        self.tell(&["display-message", "-p", &format!("#{{{name}}}")]).trim().to_owned()
    }

    /// Waits until the screen is as it should be, and returns it.
    ///
    /// # Panics
    ///
    /// If it never is.
    pub fn until_screen(&self, what: &str, is_right: impl Fn(&str) -> bool) -> String {
        let mut last = String::new();
        let wait = std::panic::AssertUnwindSafe(|| {
            until(what, || {
                last = self.screen();
                is_right(&last).then_some(())
            });
        });
        match std::panic::catch_unwind(wait) {
            Ok(()) => last,
            Err(_) => panic!("waited a minute for this: {what}; the screen is:\n{}", self.screen()),
        }
    }

    fn tell(&self, words: &[&str]) -> String {
        let mut command = Command::new("tmux");
        command.arg("-u").arg("-S").arg(&self.socket).args(words).env_remove("TMUX");
        let Output { status, stdout, stderr } =
            command.output().unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
        assert!(status.success(), "{command:?}: {}", String::from_utf8_lossy(&stderr));
        String::from_utf8_lossy(&stdout).into_owned()
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        // It is gone already if its shell has ended.
        let _gone = Command::new("tmux").arg("-S").arg(&self.socket).arg("kill-server").output();
    }
}
