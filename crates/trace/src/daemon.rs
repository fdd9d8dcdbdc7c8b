//! Dijkstra's ring under a daemon, as one value that is stepped by hand: no messages, every process
//! reads its left neighbour's flag.

use mutua_algorithms::{
    Fields, NodeId, Start,
    mutexes::{Daemon, DijkstraRing},
};

use crate::{Event, Header, Refusal, What, recorder::Recorder};

/// The flags of a ring, the daemon that lets processes move, and the trace of what happened.
#[derive(Clone, Debug)]
pub struct DaemonRing {
    daemon: Daemon,
    ring: DijkstraRing,
    /// Who has moved, in order; who moves at the same time, lowest first.
    moves: Vec<NodeId>,
    recorder: Recorder,
}

impl DaemonRing {
    /// A ring at its start, or with other flags; the header names its processes.
    pub fn new(
        start: &Start,
        daemon: Daemon,
        flags: Option<&[u32]>,
        header: Header,
    ) -> Result<Self, Refusal> {
        let mut ring = DijkstraRing::at_start(start);
        if let Some(flags) = flags {
            let (k, processes) = (ring.k(), ring.flags().len());
            if flags.len() != processes {
                let count = flags.len();
                return Err(Refusal::new(format!("{count} flags for {processes} processes")));
            }
            if let Some(flag) = flags.iter().find(|&&flag| flag >= k) {
                return Err(Refusal::new(format!("a flag of {flag}; with k={k} it is below {k}")));
            }
            ring = DijkstraRing::new(k, flags.to_vec());
        }
        let mut recorder = Recorder::new(header);
        for who in start.all() {
            recorder.begin(who, false, None, variables(&ring, who));
        }
        Ok(Self { daemon, ring, moves: Vec::new(), recorder })
    }

    /// These move at once, each by the flags as they are.
    pub fn move_these(&mut self, movers: &[NodeId]) -> Result<(), Refusal> {
        let mut movers = movers.to_vec();
        movers.sort();
        movers.dedup();
        for &who in &movers {
            if !self.ring.is_privileged(who) {
                let name = self.header().name(who);
                return Err(Refusal::new(format!("{name} is not privileged")));
            }
        }
        let all = self.ring.privileged().count();
        match self.daemon {
            Daemon::Central if movers.len() != 1 => {
                return Err(Refusal::new("under daemon=central one moves at a time"));
            }
            Daemon::Synchronous if movers.len() != all => {
                return Err(Refusal::new("under daemon=synchronous all who are privileged move"));
            }
            Daemon::Central | Daemon::Distributed | Daemon::Synchronous => {}
        }
        self.take_step(&movers);
        Ok(())
    }

    /// All who are privileged move at once.
    pub fn move_all(&mut self) -> Result<(), Refusal> {
        let all: Vec<_> = self.ring.privileged().collect();
        self.move_these(&all)
    }

    /// The trace so far.
    pub fn events(&self) -> &[Event] {
        self.recorder.events()
    }

    /// What ran, and who took part.
    pub fn header(&self) -> &Header {
        self.recorder.header()
    }

    /// The flags.
    pub fn ring(&self) -> &DijkstraRing {
        &self.ring
    }

    /// Who has moved, that is, had its turn inside, in order.
    pub fn moves(&self) -> &[NodeId] {
        &self.moves
    }

    /// The state of a process, under the paper's names.
    pub fn variables(&self, who: NodeId) -> Fields {
        variables(&self.ring, who)
    }

    fn take_step(&mut self, movers: &[NodeId]) {
        self.ring = self.ring.step(movers);
        self.moves.extend(movers);
        let (first, rest) = movers.split_first().expect("somebody is always privileged");
        self.recorder.told(*first, What::Move, None, variables(&self.ring, *first));
        for &who in rest {
            self.recorder.at_once(who, What::Move, None, variables(&self.ring, who));
        }
        // A move changes what the right neighbour sees too.
        for who in (0..self.ring.flags().len()).map(NodeId::from) {
            self.recorder.noticed(who, variables(&self.ring, who));
        }
    }
}

fn variables(ring: &DijkstraRing, who: NodeId) -> Fields {
    let flag = ring.flags()[who.index()];
    vec![("flag", flag.into()), ("privileged", ring.is_privileged(who).into())]
}
