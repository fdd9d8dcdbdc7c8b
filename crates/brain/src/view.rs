//! A view: who takes part now, and what they were inside when it began.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use mutua_algorithms::{NodeId, Start};

use crate::{Member, Moment, member::home, plan::Resolved};

/// The name of a lock.
pub type Name = Arc<[u8]>;

/// An epoch and its members: what is decided before any lock is granted.
///
/// Who decides it is another matter. Here it is the first member of a fixed list, once all are
/// there (`brain/views.rs`); a consensus among some of them can take its place, and hands the same
/// value to the same entry.
#[derive(Clone, Debug)]
pub(crate) struct View {
    pub(crate) epoch: u32,
    /// Lowest first. An algorithm's process is a member's place in here.
    pub(crate) members: Vec<Member>,
    /// Who was inside what when it began; everything else was free.
    pub(crate) inside: HashMap<Name, Member>,
    /// Until when this member may act in it, with no word from the others. A view of all members
    /// needs no such lease: nothing is decided without any of them.
    pub(crate) good_until: Moment,
    starts: BTreeMap<(u16, NodeId, Option<NodeId>), Arc<Start>>,
}

impl View {
    pub(crate) fn new(epoch: u32, members: Vec<Member>, inside: HashMap<Name, Member>) -> Self {
        Self { epoch, members, inside, good_until: Moment::NEVER, starts: BTreeMap::new() }
    }

    /// The number of a member's processes in this view.
    pub(crate) fn node(&self, member: Member) -> Option<NodeId> {
        self.members.binary_search(&member).ok().map(NodeId::from)
    }

    /// Where a name has its token or coordinator when nobody has used it.
    pub(crate) fn home(&self, name: &[u8]) -> Member {
        home(name, &self.members)
    }

    /// How every process of this lock starts in this view.
    pub(crate) fn start(&mut self, rule: u16, code: &Resolved, name: &[u8]) -> Arc<Start> {
        let inside = self.inside.get(name).and_then(|&member| self.node(member));
        self.start_with(rule, code, name, inside)
    }

    /// How it would start with nobody inside.
    pub(crate) fn idle_start(&mut self, rule: u16, code: &Resolved, name: &[u8]) -> Arc<Start> {
        self.start_with(rule, code, name, None)
    }

    fn start_with(
        &mut self,
        rule: u16,
        code: &Resolved,
        name: &[u8],
        inside: Option<NodeId>,
    ) -> Arc<Start> {
        let home = self.node(self.home(name)).expect("a name is at home with a member");
        let nodes = u32::try_from(self.members.len()).expect("few members");
        let start = || code.start(nodes, home, inside);
        Arc::clone(self.starts.entry((rule, home, inside)).or_insert_with(start))
    }
}
