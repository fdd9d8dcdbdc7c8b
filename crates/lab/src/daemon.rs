//! A self-stabilizing ring under a daemon, as one value that is stepped by hand: no messages, every
//! process reads its left neighbour's flag.

use mutua_algorithms::{
    Fields, NodeId,
    self_stabilizing::{Daemon, MoveError, Ring},
};

use crate::{Event, Header, Refusal, What, recorder::Recorder};

/// The flags of a ring, the daemon that lets processes move, and the trace of what happened.
#[derive(Clone, Debug)]
pub struct DaemonRing {
    daemon: Daemon,
    ring: Ring,
    /// The processes that have moved, in order; of those that moved at once the lowest first.
    moves: Vec<NodeId>,
    recorder: Recorder,
}

impl DaemonRing {
    /// A ring under a daemon; the header names its processes.
    pub fn new(daemon: Daemon, ring: Ring, header: Header) -> Self {
        let mut recorder = Recorder::new(header);
        for node in nodes(&ring) {
            recorder.begin(node, false, None, ring.variables(node));
        }
        Self { daemon, ring, moves: Vec::new(), recorder }
    }

    /// Moves these processes at once, each by the flags as they are.
    pub fn move_these(&mut self, movers: &[NodeId]) -> Result<(), Refusal> {
        let mut movers = movers.to_vec();
        movers.sort();
        movers.dedup();
        self.daemon.allow(&self.ring, &movers).map_err(|error| match error {
            MoveError::NotPrivileged(node) => {
                Refusal::new(format!("{} is not privileged", self.header().name(node)))
            }
            MoveError::NotOne | MoveError::NotAll => Refusal::new(error.to_string()),
        })?;
        self.take_step(&movers);
        Ok(())
    }

    /// Moves all privileged processes at once.
    pub fn move_all(&mut self) -> Result<(), Refusal> {
        let all: Vec<_> = self.ring.privileged().collect();
        self.move_these(&all)
    }

    /// The trace so far.
    pub fn events(&self) -> &[Event] {
        self.recorder.events()
    }

    /// The algorithm and its processes.
    pub fn header(&self) -> &Header {
        self.recorder.header()
    }

    /// The flags.
    pub fn ring(&self) -> &Ring {
        &self.ring
    }

    /// The processes that have moved, each move ending a critical section, in order.
    pub fn moves(&self) -> &[NodeId] {
        &self.moves
    }

    /// The state of a process, under the paper's names.
    pub fn variables(&self, who: NodeId) -> Fields {
        self.ring.variables(who)
    }

    fn take_step(&mut self, movers: &[NodeId]) {
        self.ring = self.ring.step(movers);
        self.moves.extend(movers);
        let (first, rest) = movers.split_first().expect("a process is always privileged");
        self.recorder.handled(*first, What::Move, None, self.ring.variables(*first));
        for &who in rest {
            self.recorder.at_once(who, What::Move, None, self.ring.variables(who));
        }
        // A move changes what the right neighbour sees too.
        for who in nodes(&self.ring) {
            self.recorder.noticed(who, self.ring.variables(who));
        }
    }
}

fn nodes(ring: &Ring) -> impl Iterator<Item = NodeId> + use<> {
    (0..ring.flags().len()).map(NodeId::from)
}
