//! The timers of a system that is stepped by hand: any that is set may expire.

use std::collections::BTreeSet;

use mutua_algorithms::{NodeId, Timer};

use crate::Refusal;

/// The timers that are set, by process.
#[derive(Clone, Debug, Default)]
pub(crate) struct Timers(BTreeSet<(NodeId, Timer)>);

impl Timers {
    pub(crate) fn set(&mut self, who: NodeId, timer: Timer) {
        self.0.insert((who, timer));
    }

    /// Whether the timer was set.
    pub(crate) fn cancel(&mut self, who: NodeId, timer: Timer) -> bool {
        self.0.remove(&(who, timer))
    }

    /// A timer expires, which must be set.
    pub(crate) fn expire(&mut self, who: NodeId, name: &str, timer: Timer) -> Result<(), Refusal> {
        if self.cancel(who, timer) {
            return Ok(());
        }
        let set: Vec<_> = self.of(who).map(Timer::word).collect();
        let set = if set.is_empty() { "none".to_owned() } else { set.join(", ") };
        let timer = timer.word();
        Err(Refusal::new(format!("{name} has not set the timer {timer}; set: {set}")))
    }

    /// A crashed process loses its timers.
    pub(crate) fn lose(&mut self, who: NodeId) {
        self.0.retain(|&(of, _)| of != who);
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = (NodeId, Timer)> {
        self.0.iter().copied()
    }

    pub(crate) fn of(&self, who: NodeId) -> impl Iterator<Item = Timer> {
        self.0.iter().filter(move |(of, _)| *of == who).map(|&(_, timer)| timer)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
