//! The clock and memory use for the limits of a search, and its progress: a line of the terminal
//! that is overwritten.

use std::{
    io::{IsTerminal, Write, stderr},
    time::Instant,
};

use mutua_checker::{Host, Progress};

use crate::memory;

/// The host of a check; it shows progress only on a terminal.
pub(crate) struct Line {
    began: Instant,
    shown: bool,
    terminal: bool,
}

impl Line {
    pub(crate) fn new() -> Self {
        Self { began: Instant::now(), shown: false, terminal: stderr().is_terminal() }
    }

    /// Leaves the line empty.
    pub(crate) fn clear(&mut self) {
        if std::mem::take(&mut self.shown) {
            let _ = write!(stderr(), "\r\x1b[K");
        }
    }
}

impl Host for Line {
    /// Seconds since the line was made.
    fn seconds(&mut self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    fn bytes(&mut self) -> u64 {
        memory::resident()
    }

    fn progress(&mut self, now: &Progress) {
        if !self.terminal {
            return;
        }
        self.shown = true;
        let rate = now.states as f64 / now.seconds.max(0.001) / 1e6;
        let memory = now.bytes as f64 / f64::from(1 << 20);
        // A line that cannot be written does not stop the search.
        let _ = write!(
            stderr(),
            "\r\x1b[K{} states, depth {}, {rate:.2} million states/s, {memory:.0} MiB, {:.0} s",
            now.states,
            now.depth,
            now.seconds
        );
    }
}
