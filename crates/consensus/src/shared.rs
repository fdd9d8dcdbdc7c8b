//! What the parts of one engine share.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use crate::{guards::Guards, interface::Watcher};

/// Shared by the log store, the state machine, the network and the engine's monitor.
pub(crate) struct Shared {
    watcher: Mutex<Box<dyn Watcher>>,
    guards: Mutex<Guards>,
    /// The first error of the log store, in words: openraft reports less.
    failure: Mutex<Option<String>>,
    /// When a leader's message was last accepted here, or else the start.
    leader_heard: Mutex<Instant>,
}

impl Shared {
    pub(crate) fn new(watcher: Box<dyn Watcher>, guards: Guards) -> Shared {
        Shared {
            watcher: Mutex::new(watcher),
            guards: Mutex::new(guards),
            failure: Mutex::new(None),
            leader_heard: Mutex::new(Instant::now()),
        }
    }

    /// The watcher, for one report.
    pub(crate) fn watcher(&self) -> MutexGuard<'_, Box<dyn Watcher>> {
        lock(&self.watcher)
    }

    pub(crate) fn guards(&self) -> MutexGuard<'_, Guards> {
        lock(&self.guards)
    }

    pub(crate) fn may_send(&self) -> bool {
        self.guards().may_send(Instant::now())
    }

    /// A leader's message was accepted.
    pub(crate) fn heard_leader(&self) {
        *lock(&self.leader_heard) = Instant::now();
    }

    /// For how long no leader was heard of.
    pub(crate) fn silence(&self) -> Duration {
        lock(&self.leader_heard).elapsed()
    }

    pub(crate) fn fail(&self, error: &impl ToString) {
        lock(&self.failure).get_or_insert_with(|| error.to_string());
    }

    pub(crate) fn failure(&self) -> Option<String> {
        lock(&self.failure).clone()
    }
}

/// Lock, also after a panic of another holder: a panic ends the engine anyway.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
