//! What all processes of a system with a repair are made from.

use super::{Changes, ElectionName, View};
use crate::{About, Kind, Links, Mutex, NodeId, Setup, SpecialRepair, Start, StartError, registry};

/// A system, the election of its repair, and the start of each of its views.
#[derive(Clone, Debug)]
pub struct Plan {
    setup: Setup,
    start: Start,
    election: ElectionName,
    names_views: bool,
    special: bool,
}

impl Plan {
    /// The plan of a system of this algorithm.
    ///
    /// # Errors
    ///
    /// If the algorithm cannot start like this, or not with fewer processes.
    pub fn new<M: Mutex>(setup: &Setup, election: ElectionName) -> Result<Self, StartError> {
        let start = setup.start::<M>()?;
        for nodes in 1..setup.nodes {
            let fewer = Setup {
                nodes,
                holder: NodeId(0),
                coordinator: NodeId(0),
                ring: None,
                ..setup.clone()
            };
            fewer.start_or_fall_back::<M>()?;
        }
        Ok(Self { setup: setup.clone(), start, election, names_views: true, special: false })
    }

    /// The same with messages that do not name their view: a negative control, in which an old
    /// token comes back.
    #[must_use]
    pub fn without_view_numbers(mut self) -> Self {
        self.names_views = false;
        self
    }

    /// The same with the algorithm's special repair, where it has one and that suffices; a view
    /// change does the rest.
    #[must_use]
    pub fn with_special(mut self) -> Self {
        self.special = true;
        self
    }

    /// The start of the first view.
    pub fn start(&self) -> &Start {
        &self.start
    }

    /// The order that the algorithm and the election need of the links.
    pub fn links(&self) -> Links {
        match (self.start.about().links, self.election.links()) {
            (Links::Any, Links::Any) => Links::Any,
            (Links::Fifo, _) | (_, Links::Fifo) => Links::Fifo,
        }
    }

    /// How a survivor goes on without a new view, if special repairs are wanted.
    pub fn special<M: Mutex>(&self) -> SpecialRepair {
        if self.special { M::special_repair(&self.start) } else { SpecialRepair::None }
    }

    pub(super) fn election(&self) -> ElectionName {
        self.election
    }

    pub(super) fn processes(&self) -> u32 {
        self.start.processes()
    }

    /// The view that an algorithm's message names.
    pub(super) fn named(&self, view: u32) -> Option<u32> {
        self.names_views.then_some(view)
    }

    /// Whether an algorithm's message of view `theirs` counts in view `ours`.
    pub(super) fn is_current(&self, ours: u32, theirs: u32) -> bool {
        ours == theirs || !self.names_views
    }

    /// The members of a view, lowest first. Their positions are their ids within the view.
    pub(super) fn members(changes: &Changes) -> Vec<NodeId> {
        changes.members().collect()
    }

    /// The start of a view under this leader; none if no member contends.
    pub(super) fn start_of<M: Mutex>(&self, view: &View, leader: NodeId) -> Option<Start> {
        let members = Self::members(&view.changes);
        let nodes = members.iter().filter(|node| node.0 < self.setup.nodes).count() as u32;
        let position = |node: NodeId| members.binary_search(&node).ok().map(NodeId::from);
        let contender = |node| position(node).filter(|at| at.0 < nodes);
        let mut settings = self.setup.settings.clone();
        let dedicated = NodeId(self.setup.nodes);
        if self.processes() > self.setup.nodes && !view.changes.is_up(dedicated) {
            settings.set("coordinator", "member");
        }
        let ring = self.setup.ring.as_ref();
        let setup = Setup {
            nodes,
            holder: contender(view.holder).unwrap_or_default(),
            in_cs: view.in_cs,
            coordinator: contender(leader).unwrap_or_default(),
            settings,
            ring: ring.map(|order| order.iter().copied().filter_map(position).collect()),
            ..self.setup.clone()
        };
        setup.start_or_fall_back::<M>().ok()
    }
}

/// Whether the algorithm of this name has a special repair; others are repaired by a view change
/// after every crash.
pub fn has_special(name: &str) -> bool {
    struct Special;

    impl registry::MutexVisitor for Special {
        type Output = bool;

        fn visit<M: Mutex>(self) -> bool {
            let start = Setup::new(3).start::<M>();
            start.is_ok_and(|start| M::special_repair(&start) != SpecialRepair::None)
        }
    }

    registry::visit_mutex(name, Special).unwrap_or(false)
}

/// The algorithms that have a special repair, the negative controls left out.
pub fn with_special() -> impl Iterator<Item = &'static About> {
    let mutexes = registry::ALGORITHMS.iter().copied().filter(|about| about.kind == Kind::Mutex);
    mutexes.filter(|about| !about.control && has_special(about.name))
}
