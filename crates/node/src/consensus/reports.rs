//! What the engine reports, on its way to the protocol.

use std::sync::{Arc, Mutex, PoisonError};

use mutua_consensus::{StateMachine, Watcher};
use mutua_protocol::{
    Moment,
    views::{Command, DecidedState},
};

use crate::driver::{Core, Driver};

/// What is decided, for the engine's snapshots.
pub(super) struct Decided(pub(super) DecidedState);

impl StateMachine for Decided {
    fn apply(&mut self, command: &[u8]) {
        // A command of a later version: all voters of this one ignore it alike.
        if let Some(command) = Command::decode(command) {
            self.0.apply(&command);
        }
    }

    fn snapshot(&self) -> Vec<u8> {
        self.0.encode()
    }

    fn restore(&mut self, state: &[u8]) {
        if let Some(state) = DecidedState::decode(state) {
            self.0 = state;
        }
    }
}

/// A report of the engine.
enum Event {
    Appended(u64, Command),
    Truncated(u64),
    Installed(DecidedState),
    Decided(u64, Command),
    Leads(bool),
}

/// Passes the engine's reports to the protocol. Until the protocol follows, they are kept.
#[derive(Clone)]
pub(super) struct Reports {
    driver: Arc<Driver>,
    kept: Arc<Mutex<Option<Vec<Event>>>>,
}

impl Reports {
    pub(super) fn new(driver: &Arc<Driver>) -> Self {
        Self { driver: Arc::clone(driver), kept: Arc::new(Mutex::new(Some(Vec::new()))) }
    }

    fn report(&self, event: Event) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        match kept.as_mut() {
            Some(kept) => kept.push(event),
            None => {
                drop(kept);
                self.driver.call(|core, now| pass(core, now, event));
            }
        }
    }

    /// The protocol follows from now on: it starts by this call, and gets what was kept with it. It
    /// answers no other member in between.
    pub(super) fn follow(&self, start: impl FnOnce(&mut Core, Moment)) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let events = kept.take().unwrap_or_default();
        self.driver.call(|core, now| {
            start(core, now);
            events.into_iter().for_each(|event| pass(core, now, event));
        });
    }
}

fn pass(core: &mut Core, now: Moment, event: Event) {
    let protocol = &mut core.protocol;
    match event {
        Event::Appended(index, command) => protocol.appended(index, &command),
        Event::Truncated(since) => protocol.truncated(since),
        Event::Installed(state) => protocol.snapshot_installed(now, None, state),
        Event::Decided(index, command) => protocol.decided(now, index, &command),
        Event::Leads(leads) => protocol.leads(now, leads),
    }
}

impl Watcher for Reports {
    fn appended(&mut self, index: u64, command: &[u8]) {
        if let Some(command) = Command::decode(command) {
            self.report(Event::Appended(index, command));
        }
    }

    fn truncated(&mut self, since: u64) {
        self.report(Event::Truncated(since));
    }

    fn snapshot_installed(&mut self, state: &[u8]) {
        if let Some(state) = DecidedState::decode(state) {
            self.report(Event::Installed(state));
        }
    }

    fn decided(&mut self, index: u64, command: &[u8]) {
        if let Some(command) = Command::decode(command) {
            self.report(Event::Decided(index, command));
        }
    }

    fn leads(&mut self, leads: bool) {
        if leads {
            tracing::info!("this node leads the consensus engine");
        }
        self.report(Event::Leads(leads));
    }
}
