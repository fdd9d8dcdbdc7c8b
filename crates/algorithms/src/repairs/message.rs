//! The messages between processes with a repair.

use serde::{Deserialize, Serialize};

use super::{Changes, ElectorMessage};
use crate::{ClaimAt, Fields, Message, NodeId, Stamp, Time, Value};

/// A message of the algorithm, which names its view, or one of the repair.
#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub enum RepairMessage<M> {
    /// A message of the algorithm.
    Algorithm {
        /// The number of the sender's view; none in the negative control that does not name it.
        view: Option<u32>,
        /// The message.
        message: M,
    },
    /// A message of the election of the leader.
    Election {
        /// The crashes and restarts that the election is about.
        changes: Changes,
        /// The message.
        message: ElectorMessage,
    },
    /// To the elected leader: the state of the sender's client.
    Report(Report),
    /// From the leader: the next view.
    View(View),
    /// A message of the algorithm on a ring that closes over gaps.
    Ring {
        /// The number of the sender's view.
        view: u32,
        /// The crashes that the sender knows of: the receiver closes the ring over them.
        changes: Changes,
        /// The number of the pass.
        hop: Hop,
        /// Whether it is passed again, over a gap.
        again: bool,
        /// The message.
        message: M,
    },
    /// To the process that passed a message on the ring: it has arrived.
    Acknowledge {
        /// The number of the sender's view.
        view: u32,
        /// The number of the pass.
        hop: Hop,
    },
    /// To the process that takes over an arbiter's part: the sender's request at that arbiter.
    Claim {
        /// The number of the sender's view.
        view: u32,
        /// The crashes that the sender knows of.
        changes: Changes,
        /// The arbiter.
        arbiter: NodeId,
        /// The request, if there is one.
        claim: Option<ClaimAt<M>>,
    },
    /// A message of the algorithm to or from an arbiter whose part another process has taken over.
    StandIn {
        /// The number of the sender's view.
        view: u32,
        /// The process that the message is from, or whose part the sender has taken over.
        from: NodeId,
        /// The process that the message is for, or whose part the receiver has taken over.
        to: NodeId,
        /// The message.
        message: M,
    },
}

/// The number of a pass on a ring. Numbers go round too, so that a checker sees finitely many:
/// those that are compared are less than two rounds of the ring apart.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub struct Hop(u32);

impl Hop {
    /// Before the first pass.
    pub(super) const NONE: Self = Self(0);

    /// The pass after this one, on a ring of so many processes.
    pub(super) fn next(self, processes: usize) -> Self {
        Self(self.0 % Self::numbers(processes) + 1)
    }

    /// Whether this pass came after another one. Before the first pass every one is later, and the
    /// one before the first is later than no other.
    pub(super) fn is_later(self, than: Self, processes: usize) -> bool {
        let numbers = Self::numbers(processes);
        match (self, than) {
            (_, Self::NONE) => true,
            (Self::NONE, _) => false,
            (Self(this), Self(that)) => {
                let ahead = (this + numbers - that) % numbers;
                ahead > 0 && ahead < numbers / 2
            }
        }
    }

    fn numbers(processes: usize) -> u32 {
        4 * processes as u32
    }
}

/// What a survivor reports to the leader.
#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub struct Report {
    /// The crashes and restarts that the repair is about.
    pub changes: Changes,
    /// The number of the leader's group, where an election can be held several times.
    pub term: u32,
    /// Whether the client is in the critical section.
    pub in_cs: bool,
    /// The stamp of the client's pending request.
    pub pending: Option<Stamp>,
}

impl Report {
    /// Whether a clock reading counts that goes with it: the view that it leads to sets the clocks
    /// to readings of its own.
    pub(super) fn counts(&self, sent: Time) -> bool {
        sent.epoch() < self.changes.view()
    }
}

/// The start of a view.
#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub struct View {
    /// The crashes and restarts behind it: they determine its members and its number.
    pub changes: Changes,
    /// The process that has the token, or would be granted first.
    pub holder: NodeId,
    /// Whether the holder is in the critical section.
    pub in_cs: bool,
    /// The members with a pending request, the oldest request first.
    pub pending: Vec<NodeId>,
}

impl View {
    /// The pending requests with the clocks that they have in the view, the oldest first, and with
    /// the members' ids within the view.
    pub(super) fn requests(&self, members: &[NodeId]) -> Vec<Stamp> {
        let position = |node: &NodeId| members.binary_search(node).ok().map(NodeId::from);
        let times = (1..).map(|count| Time::new(self.changes.view(), count));
        let requests = self.pending.iter().filter_map(position).zip(times);
        requests.map(|(node, time)| Stamp::new(time, node)).collect()
    }
}

/// What a message is for.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Purpose {
    /// Mutual exclusion, as without a repair.
    Algorithm,
    /// The election of the leader.
    Election,
    /// The reports to the leader and its view; the messages of a special repair.
    Repair,
    /// Acknowledgements, by which a crash is noticed.
    Detection,
}

impl Purpose {
    /// The purpose in one word, for tables.
    pub fn word(self) -> &'static str {
        match self {
            Self::Algorithm => "algorithm",
            Self::Election => "election",
            Self::Repair => "repair",
            Self::Detection => "detection",
        }
    }
}

impl<M> RepairMessage<M> {
    /// What the message is for.
    pub fn purpose(&self) -> Purpose {
        match self {
            Self::Algorithm { .. } | Self::StandIn { .. } | Self::Ring { again: false, .. } => {
                Purpose::Algorithm
            }
            Self::Election { .. } => Purpose::Election,
            Self::Report(_)
            | Self::View(_)
            | Self::Claim { .. }
            | Self::Ring { again: true, .. } => Purpose::Repair,
            Self::Acknowledge { .. } => Purpose::Detection,
        }
    }

    /// The view that it belongs to, `here` if it does not name one; none for a message of a view
    /// change.
    pub(super) fn view(&self, here: u32) -> Option<u32> {
        match self {
            Self::Algorithm { view, .. } => Some(view.unwrap_or(here)),
            Self::Ring { view, .. }
            | Self::Acknowledge { view, .. }
            | Self::Claim { view, .. }
            | Self::StandIn { view, .. } => Some(*view),
            Self::Election { .. } | Self::Report(_) | Self::View(_) => None,
        }
    }
}

impl<M: Message> Message for RepairMessage<M> {
    fn kind(&self) -> &'static str {
        match self {
            Self::Algorithm { message, .. }
            | Self::Ring { message, .. }
            | Self::StandIn { message, .. } => message.kind(),
            Self::Election { message, .. } => message.kind(),
            Self::Report(_) => "report",
            Self::View(_) => "view",
            Self::Acknowledge { .. } => "ack",
            Self::Claim { .. } => "claim",
        }
    }

    fn fields(&self) -> Fields {
        self.fields_for_all(&|_, position| position)
    }

    fn fields_for_all(&self, member: &dyn Fn(Option<u32>, NodeId) -> NodeId) -> Fields {
        let of = |view: Option<u32>, message: &M| -> Fields {
            let id = |position| member(view, position);
            let fields = message.fields().into_iter();
            fields.map(|(name, value)| (name, value.with_ids(&id))).collect()
        };
        match self {
            Self::Algorithm { view, message } => {
                let mut fields = of(*view, message);
                fields.extend(view.map(|view| ("view", view.into())));
                fields
            }
            Self::Ring { view, again, message, .. } => {
                let mut fields = of(Some(*view), message);
                fields.push(("view", (*view).into()));
                if *again {
                    fields.push(("again", true.into()));
                }
                fields
            }
            Self::StandIn { view, from, to, message } => {
                let mut fields = of(Some(*view), message);
                let part =
                    [("view", (*view).into()), ("of", (*from).into()), ("for", (*to).into())];
                fields.extend(part);
                fields
            }
            Self::Acknowledge { view, .. } => vec![("view", (*view).into())],
            Self::Claim { view, arbiter, claim, .. } => {
                let request = Value::from(claim.as_ref().map(|claim| claim.request));
                vec![
                    ("arbiter", (*arbiter).into()),
                    ("request", request.with_ids(&|position| member(Some(*view), position))),
                    ("granted", claim.as_ref().is_some_and(|claim| claim.granted).into()),
                ]
            }
            Self::Election { changes, message } => {
                let mut fields = message.fields();
                fields.push(("view", changes.view().into()));
                fields
            }
            Self::Report(report) => {
                vec![("in_cs", report.in_cs.into()), ("pending", report.pending.into())]
            }
            Self::View(view) => vec![
                ("view", view.changes.view().into()),
                ("members", Value::list(view.changes.members())),
                ("holder", view.holder.into()),
                ("in_cs", view.in_cs.into()),
                ("pending", Value::list(view.pending.iter().copied())),
            ],
        }
    }

    fn times(&mut self, visit: &mut dyn FnMut(&mut Time)) {
        match self {
            Self::Algorithm { message, .. }
            | Self::StandIn { message, .. }
            | Self::Ring { message, .. } => message.times(visit),
            Self::Claim { claim: Some(claim), .. } => {
                visit(&mut claim.request.time);
                claim.message.times(visit);
            }
            Self::Report(report) => {
                // A reading of the view that the report leads to is of no use once that runs, and
                // before that nobody shifts readings of it.
                let forming = report.changes.view();
                let pending = report.pending.iter_mut().map(|stamp| &mut stamp.time);
                pending.filter(|time| time.epoch() < forming).for_each(visit);
            }
            Self::Election { .. }
            | Self::View(_)
            | Self::Acknowledge { .. }
            | Self::Claim { .. } => {}
        }
    }
}
