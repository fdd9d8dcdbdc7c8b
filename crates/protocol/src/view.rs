//! A view: its members, and the locks they held when it began.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use mutua_algorithms::{NodeId, Start, Time};

use crate::{Member, Moment, member::home, plan::Resolved};

/// The name of a lock.
pub type Name = Arc<[u8]>;

/// A view as this node installed it: locks are granted in a view only, and each lock's algorithm
/// runs among the members of the view. See `protocol/decider.rs` for how views are decided.
#[derive(Clone, Debug)]
pub(crate) struct View {
    pub(crate) number: u64,
    pub(crate) epoch: u32,
    /// Lowest first. A member's index in this list is the id of its processes.
    pub(crate) members: Vec<Member>,
    /// The locks that were held when the view began, and by which member's client. All other locks
    /// were free.
    pub(crate) held: HashMap<Name, Member>,
    /// When this member's view lease lapses. Always [`Moment::NEVER`] with the fixed list, where no
    /// view is decided without this member; zero while the lease has lapsed.
    pub(crate) good_until: Moment,
    /// This member's rank among the waiters of a name, longest wait first: its clock starts there,
    /// so that requests are ordered as before.
    pub(crate) ranks: HashMap<Name, u64>,
    starts: BTreeMap<(u16, NodeId, Option<NodeId>), Arc<Start>>,
}

impl View {
    pub(crate) fn new(
        number: u64,
        epoch: u32,
        members: Vec<Member>,
        held: HashMap<Name, Member>,
    ) -> Self {
        let good_until = Moment::NEVER;
        let (ranks, starts) = (HashMap::new(), BTreeMap::new());
        Self { number, epoch, members, held, good_until, ranks, starts }
    }

    /// The id of a member's processes in this view.
    pub(crate) fn node(&self, member: Member) -> Option<NodeId> {
        self.members.binary_search(&member).ok().map(NodeId::from)
    }

    /// The clock that a process of this name starts with.
    pub(crate) fn first_time(&self, name: &[u8], floor: Time) -> Time {
        let rank = self.ranks.get(name).copied().unwrap_or(0);
        Time::new(self.epoch, rank).max(floor)
    }

    /// The member with the token or the coordinator of a name that is not in use.
    pub(crate) fn home(&self, name: &[u8]) -> Member {
        home(name, &self.members)
    }

    /// The start of every process of this lock in this view.
    pub(crate) fn start(&mut self, rule: u16, code: &Resolved, name: &[u8]) -> Arc<Start> {
        let holder = self.held.get(name).and_then(|&member| self.node(member));
        self.start_with(rule, code, name, holder)
    }

    /// The start if the lock was free when the view began.
    pub(crate) fn idle_start(&mut self, rule: u16, code: &Resolved, name: &[u8]) -> Arc<Start> {
        self.start_with(rule, code, name, None)
    }

    fn start_with(
        &mut self,
        rule: u16,
        code: &Resolved,
        name: &[u8],
        holder: Option<NodeId>,
    ) -> Arc<Start> {
        let home = self.node(self.home(name)).expect("the home of a name is a member of the view");
        let nodes = u32::try_from(self.members.len()).expect("few members");
        let start = || code.start(nodes, home, holder);
        Arc::clone(self.starts.entry((rule, home, holder)).or_insert_with(start))
    }
}
