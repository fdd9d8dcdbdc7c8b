//! Handing the terminal to the command and back.
//!
//! The command has a process group of its own, so that all of it can be signalled; only the group
//! that has the terminal may read from it.

use std::io::IsTerminal;

use nix::sys::signal::{SigSet, Signal};
use rustix::{
    process::{Pid, getpgrp, getpid, kill_process},
    termios::{tcgetpgrp, tcsetpgrp},
};

/// The terminal that we have, if we have one.
pub(super) struct Terminal {
    ours: bool,
}

impl Terminal {
    pub(super) fn new() -> Self {
        let stdin = std::io::stdin();
        let ours = stdin.is_terminal() && tcgetpgrp(&stdin).is_ok_and(|group| group == getpgrp());
        if ours {
            // Whoever takes the terminal back does not have it, and would be stopped.
            let _ = SigSet::from_iter([Signal::SIGTTOU]).thread_block();
        }
        Self { ours }
    }

    /// Gives it to a process group.
    pub(super) fn give(&self, group: Pid) {
        if self.ours {
            let _ = tcsetpgrp(std::io::stdin(), group);
            // It may have tried to read already, and have been stopped.
            crate::guard::signal_group(group, rustix::process::Signal::CONT);
        }
    }

    /// Takes it back.
    pub(super) fn take(&self) {
        if self.ours {
            let _ = tcsetpgrp(std::io::stdin(), getpgrp());
        }
    }

    /// The command was stopped from the terminal, so we stop too, for the shell to see. The guard
    /// does not: it ends the command in time if nobody lets us go on.
    pub(super) fn stop_with(&self, group: Pid) {
        if self.ours {
            self.take();
            let _ = kill_process(getpid(), rustix::process::Signal::STOP);
            self.give(group);
        }
    }
}
