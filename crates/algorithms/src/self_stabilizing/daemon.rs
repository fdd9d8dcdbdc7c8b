//! The daemons: which privileged processes move at once.

use std::fmt;

use super::Ring;
use crate::{About, NodeId, Settings};

/// Which of the privileged processes may move at once.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Daemon {
    /// One of them.
    Central,
    /// Any of them, one at least.
    Distributed,
    /// All of them.
    Synchronous,
}

/// A move that a daemon does not allow. The ring is unchanged.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum MoveError {
    /// This process is not privileged.
    NotPrivileged(NodeId),
    /// A central daemon lets one process move at a time.
    NotOne,
    /// A synchronous daemon lets all privileged processes move.
    NotAll,
}

impl fmt::Display for MoveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotPrivileged(node) => write!(f, "process {node} is not privileged"),
            Self::NotOne => f.write_str("under daemon=central one process moves at a time"),
            Self::NotAll => {
                f.write_str("under daemon=synchronous all privileged processes move at once")
            }
        }
    }
}

impl std::error::Error for MoveError {}

impl Daemon {
    /// The option of a self-stabilizing algorithm that selects a daemon.
    pub const OPTION: &'static str = "daemon";

    /// Every daemon.
    pub const ALL: &'static [Self] = &[Self::Central, Self::Distributed, Self::Synchronous];

    /// The name, as the option takes it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Central => "central",
            Self::Distributed => "distributed",
            Self::Synchronous => "synchronous",
        }
    }

    /// The settings that select one, for errors: `daemon=a, b or c`.
    pub fn settings_listed() -> String {
        let names: Vec<_> = Self::ALL.iter().map(|daemon| daemon.name()).collect();
        let (last, before) = names.split_last().expect("there are daemons");
        format!("{}={} or {last}", Self::OPTION, before.join(", "))
    }

    /// The daemon that these settings select; none for an algorithm that is not self-stabilizing,
    /// and none where flags travel by messages.
    pub fn of(about: &About, settings: &Settings) -> Option<Self> {
        let name = settings.get(Self::OPTION).filter(|_| about.is_self_stabilizing())?;
        Self::ALL.iter().copied().find(|daemon| daemon.name() == name)
    }

    /// The least K with which a ring of three or more processes always settles: N-1 where one moves
    /// at a time, else N. (Dijkstra's own proof takes K >= N; the bounds here are those that the
    /// exhaustive searches of the tests show.)
    pub fn least_k(self, processes: u32) -> u32 {
        match self {
            Self::Central => processes - 1,
            Self::Distributed | Self::Synchronous => processes,
        }
    }

    /// Every set of processes that may move now.
    ///
    /// # Panics
    ///
    /// If the daemon is distributed and 32 or more processes are privileged: their sets are too
    /// many to list.
    pub fn choices(self, ring: &Ring) -> Vec<Vec<NodeId>> {
        let privileged: Vec<_> = ring.privileged().collect();
        match self {
            Self::Central => privileged.into_iter().map(|node| vec![node]).collect(),
            Self::Synchronous => vec![privileged],
            Self::Distributed => {
                assert!(privileged.len() < 32, "2^{} sets are too many", privileged.len());
                let members = |set: u32| {
                    let bit = |(index, _): &(usize, &NodeId)| set & (1 << index) != 0;
                    privileged.iter().enumerate().filter(bit).map(|(_, &node)| node).collect()
                };
                (1..1 << privileged.len()).map(members).collect()
            }
        }
    }

    /// Whether these processes, each named once, may move at once.
    pub fn allow(self, ring: &Ring, movers: &[NodeId]) -> Result<(), MoveError> {
        if let Some(&node) = movers.iter().find(|&&node| !ring.is_privileged(node)) {
            return Err(MoveError::NotPrivileged(node));
        }
        match self {
            Self::Central if movers.len() != 1 => Err(MoveError::NotOne),
            Self::Synchronous if movers.len() != ring.privileged().count() => {
                Err(MoveError::NotAll)
            }
            Self::Central | Self::Distributed | Self::Synchronous => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Whether from every start, whatever the daemon chooses, the ring comes to be legitimate: no
    /// cycle of choices among the other states.
    fn settles(processes: u32, k: u32, daemon: Daemon) -> bool {
        let mut done: BTreeMap<Ring, bool> = BTreeMap::new();
        Ring::every(processes, k).all(|ring| all_settle(ring, daemon, &mut done))
    }

    /// Depth first; a state that is met again before it is done closes a cycle.
    fn all_settle(ring: Ring, daemon: Daemon, done: &mut BTreeMap<Ring, bool>) -> bool {
        if ring.is_legitimate() {
            return true;
        }
        if let Some(&done) = done.get(&ring) {
            return done;
        }
        done.insert(ring.clone(), false);
        let mut choices = daemon.choices(&ring).into_iter();
        let settles = choices.all(|movers| all_settle(ring.step(&movers), daemon, done));
        done.insert(ring, settles);
        settles
    }

    #[test]
    fn a_ring_settles_from_the_least_k_on() {
        for n in 3..=5 {
            for k in 2..=n + 1 {
                for &daemon in Daemon::ALL {
                    let enough = k >= daemon.least_k(n);
                    assert_eq!(settles(n, k, daemon), enough, "n = {n}, k = {k}, {daemon:?}");
                }
            }
        }
    }

    #[test]
    fn every_choice_of_a_daemon_is_allowed() {
        for &daemon in Daemon::ALL {
            for ring in Ring::every(4, 3) {
                for movers in daemon.choices(&ring) {
                    assert_eq!(daemon.allow(&ring, &movers), Ok(()), "{daemon:?} {ring:?}");
                }
            }
        }
    }

    #[test]
    fn a_move_that_a_daemon_does_not_allow_is_refused() {
        let ring = Ring::new(2, vec![0, 1, 0, 1]);
        let nodes = |nodes: &[u32]| nodes.iter().copied().map(NodeId).collect::<Vec<_>>();
        let refused = |daemon: Daemon, movers: &[u32]| daemon.allow(&ring, &nodes(movers)).err();
        let outsider = Some(MoveError::NotPrivileged(NodeId(0)));
        assert_eq!(refused(Daemon::Distributed, &[0, 1]), outsider);
        assert_eq!(refused(Daemon::Central, &[1, 2]), Some(MoveError::NotOne));
        assert_eq!(refused(Daemon::Synchronous, &[1, 2]), Some(MoveError::NotAll));
    }
}
