//! How far a search has come, on a line of the terminal that is written over.

use std::io::{IsTerminal, Write, stderr};

use mutua_checker::Progress;

/// The line; nothing is written where nobody looks.
pub(crate) struct Line {
    shown: bool,
    terminal: bool,
}

impl Line {
    pub(crate) fn new() -> Self {
        Self { shown: false, terminal: stderr().is_terminal() }
    }

    /// Shows how far it is now.
    pub(crate) fn show(&mut self, now: &Progress) {
        if !self.terminal {
            return;
        }
        self.shown = true;
        let rate = now.states as f64 / now.seconds.max(0.001) / 1e6;
        let memory = now.bytes as f64 / f64::from(1 << 20);
        // A line that cannot be shown is no reason to stop.
        let _ = write!(
            stderr(),
            "\r\x1b[K{} states, depth {}, {rate:.2} million states/s, {memory:.0} MiB, {:.0} s",
            now.states,
            now.depth,
            now.seconds
        );
    }

    /// Leaves the line empty.
    pub(crate) fn clear(&mut self) {
        if std::mem::take(&mut self.shown) {
            let _ = write!(stderr(), "\r\x1b[K");
        }
    }
}
