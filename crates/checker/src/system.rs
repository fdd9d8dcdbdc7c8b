//! What is to be explored: a system, its clients and its faults.

use mutua_algorithms::{Links, NodeId, Setup};

/// A system and what happens to it.
#[derive(Clone, Debug)]
pub struct System {
    /// Processes, variant and structure.
    pub setup: Setup,
    /// How often each contender enters; in an election, how often it starts one.
    pub entries: u32,
    /// Who contends; everybody if none is given.
    pub contenders: Option<Vec<NodeId>>,
    /// What the links do; what the algorithm asks for if it is not given.
    pub links: Option<Links>,
    /// When timers run out.
    pub timers: Timers,
    /// What goes wrong, and how often.
    pub faults: Faults,
    /// How many messages of the application there are where the order of requests is looked at.
    pub tells: u32,
}

impl System {
    /// Everybody contends, nothing goes wrong.
    pub fn new(setup: Setup, entries: u32) -> Self {
        Self {
            setup,
            entries,
            contenders: None,
            links: None,
            timers: Timers::Bounded,
            faults: Faults::default(),
            tells: 1,
        }
    }

    /// How often this process enters.
    pub(crate) fn entries_of(&self, node: NodeId) -> u8 {
        let contends = match &self.contenders {
            Some(contenders) => contenders.contains(&node),
            None => node.0 < self.setup.nodes,
        };
        if contends { u8::try_from(self.entries).unwrap_or(u8::MAX) } else { 0 }
    }
}

/// When timers run out.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Timers {
    /// Only when no message is under way: the bounds on transmission hold.
    #[default]
    Bounded,
    /// At any time: the bounds do not hold.
    Any,
}

/// How often what goes wrong, in the whole run.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Faults {
    /// Processes that stop.
    pub crashes: u32,
    /// Processes that come back after a stop. (Elections.)
    pub restarts: u32,
    /// Messages that are lost.
    pub losses: u32,
    /// Messages that are delivered twice.
    pub duplicates: u32,
}

impl Faults {
    /// Whether anything goes wrong at all.
    pub fn is_none(self) -> bool {
        self == Self::default()
    }
}
