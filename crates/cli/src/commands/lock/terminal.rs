//! Handing the terminal to the command and back.
//!
//! The command has a process group of its own, so that all of it can be signalled; only the group
//! that has the terminal may read from it, and receives Ctrl-C. If we are alone in ours, the
//! command gets the terminal at once. If not (a pipeline, a script), it gets it when it is stopped
//! because it tried to read: a pager beside us may need the terminal as well.

use std::os::fd::OwnedFd;

use nix::sys::signal::{SigSet, Signal};
use rustix::{
    fs::{Mode, OFlags},
    process::{Pid, getpid, kill_process},
    termios::{tcgetpgrp, tcsetpgrp},
};

use crate::supervisor::{members, signal_group};

type Number = rustix::process::Signal;

/// The terminal of our session, if it has one.
pub(super) struct Terminal {
    terminal: Option<OwnedFd>,
    /// The process group that we gave it to.
    given: Option<Pid>,
    /// The process group that is stopped because we could not give it the terminal.
    requested: Option<Pid>,
}

impl Terminal {
    pub(super) fn new() -> Self {
        // Standard input may be a file while the command reads a password from the terminal.
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOCTTY;
        let terminal = rustix::fs::open("/dev/tty", flags, Mode::empty()).ok();
        if terminal.is_some() {
            // Taking the terminal back from the background would stop this process.
            let _ = SigSet::from_iter([Signal::SIGTTOU]).thread_block();
        }
        Self { terminal, given: None, requested: None }
    }

    /// The command has started.
    pub(super) fn started(&mut self, group: Pid) {
        if self.is_ours() && others().next().is_none() {
            self.give(group);
        }
    }

    /// Whether the command waits until we have the terminal.
    pub(super) fn is_requested(&self) -> bool {
        self.requested.is_some()
    }

    /// Gives the terminal to the group that requested it, if we have it by now.
    pub(super) fn answer(&mut self) {
        if let Some(group) = self.requested.take()
            && !self.give(group)
        {
            self.requested = Some(group);
        }
    }

    /// Takes it back. Returns whether the command had it.
    pub(super) fn take(&mut self) -> bool {
        let given = self.given.take();
        if let (Some(group), Some(terminal)) = (given, &self.terminal)
            && let Ok(now) = tcgetpgrp(terminal)
            // Not from the shell, which takes it when we are stopped.
            && (now == group || members(now).next().is_none())
            && let Some(own) = own_group()
        {
            let _ = tcsetpgrp(terminal, own);
        }
        given.is_some()
    }

    /// The command was stopped: it needs the terminal, or the user stopped it.
    pub(super) fn stopped(&mut self, group: Pid, signal: i32) {
        if [Signal::SIGTTIN as i32, Signal::SIGTTOU as i32].contains(&signal) {
            if self.has(group) {
                // It was given meanwhile.
                signal_group(group, Number::CONT);
            } else if self.terminal.is_some() && !self.give(group) {
                self.requested = Some(group);
            }
        } else if self.given.is_some() || self.is_ours() {
            self.stop_with(group);
        }
    }

    /// We stop too, so that the shell notices. The supervisor does not: it kills the command in
    /// time if we are not continued.
    fn stop_with(&mut self, group: Pid) {
        let had = self.take();
        for other in others().filter(|_| had) {
            // As the terminal would have done.
            let _ = kill_process(other, Number::TSTP);
        }
        let _ = kill_process(getpid(), Number::STOP);
        // In the background we do not have it now.
        if !had || !self.give(group) {
            signal_group(group, Number::CONT);
        }
    }

    /// Gives it to a process group, if we have it, and continues that group.
    fn give(&mut self, group: Pid) -> bool {
        let Some(terminal) = self.terminal.as_ref().filter(|_| self.is_ours()) else {
            return false;
        };
        let given = tcsetpgrp(terminal, group).is_ok();
        if given {
            self.given = Some(group);
            // It may have tried to read already, and have been stopped.
            signal_group(group, Number::CONT);
        }
        given
    }

    fn is_ours(&self) -> bool {
        own_group().is_some_and(|own| self.has(own))
    }

    fn has(&self, group: Pid) -> bool {
        self.terminal.as_ref().is_some_and(|one| tcgetpgrp(one).is_ok_and(|now| now == group))
    }
}

/// Sends the other processes of our group the signal that the terminal sent only to the command.
pub(super) fn signal_others(signal: i32) {
    if let Some(signal) = Number::from_named_raw(signal) {
        for other in others() {
            let _ = kill_process(other, signal);
        }
    }
}

fn others() -> impl Iterator<Item = Pid> {
    own_group().into_iter().flat_map(members).filter(|&pid| pid != getpid())
}

/// Our process group, if it has a number: not if its leader is in another namespace.
fn own_group() -> Option<Pid> {
    Pid::from_raw(nix::unistd::getpgrp().as_raw())
}
