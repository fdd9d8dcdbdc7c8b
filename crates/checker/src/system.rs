//! The system to be explored, with its clients and its faults.

use mutua_algorithms::{About, Links, NodeId, Setup, repairs::ElectionName};

/// A system and what happens to it.
#[derive(Clone, Debug)]
pub struct System {
    /// Processes, variant and structure.
    pub setup: Setup,
    /// How often each contender enters; in an election, how often it starts one.
    pub entries: u32,
    /// The contenders; all processes if none are given.
    pub contenders: Option<Vec<NodeId>>,
    /// The links; by default those that the algorithm needs.
    pub links: Option<Links>,
    /// When timers run out.
    pub timers: Timers,
    /// The faults, and how often each may happen.
    pub faults: Faults,
    /// How many messages of the application there are where the order of requests is looked at.
    pub app_messages: u32,
    /// The repair after crashes, if there is one.
    pub repair: Option<Repair>,
}

/// The repair after crashes. (Mutual exclusion.)
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Repair {
    /// The algorithm's special repair, where that suffices; else every crash starts a view.
    pub special: bool,
    /// The election of its leader.
    pub election: ElectionName,
    /// When crashes are reported.
    pub detector: Detector,
    /// Messages do not name their view: a negative control.
    pub without_views: bool,
}

/// When crashes are reported.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Detector {
    /// Every crash and no other is reported to every process, after any delay.
    #[default]
    Perfect,
    /// A process that is up may be reported too, as by a timeout that is too short.
    Timeout,
}

impl System {
    /// All processes contend, without faults.
    pub fn new(setup: Setup, entries: u32) -> Self {
        Self {
            setup,
            entries,
            contenders: None,
            links: None,
            timers: Timers::Bounded,
            faults: Faults::default(),
            app_messages: 1,
            repair: None,
        }
    }

    /// The order that the links keep: as given, or else as the algorithm and the repair's election
    /// need it.
    pub(crate) fn links(&self, about: &About) -> Links {
        let elects_in_order =
            self.repair.is_some_and(|repair| repair.election.links() == Links::Fifo);
        let needed = if elects_in_order { Links::Fifo } else { about.links };
        self.links.unwrap_or(needed)
    }

    /// How often this process enters.
    pub(crate) fn entries_of(&self, node: NodeId) -> u8 {
        let contends = match &self.contenders {
            Some(contenders) => contenders.contains(&node),
            None => node.0 < self.setup.nodes,
        };
        let entries = u8::try_from(self.entries).expect("a task with more entries is refused");
        if contends { entries } else { 0 }
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
    /// Processes that restart after a stop. (Elections and repairs.)
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
