//! The seam behind which views are decided.
//!
//! The rest of the protocol acts in the view that was installed last, whichever members are up;
//! `views.rs` leaves one view and installs the next. A [`ViewDecider`] decides the next view. The
//! first one is the fixed list (`fixed_list.rs`); consensus among voters comes behind the same
//! seam.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use super::Protocol;
use crate::{Effect, Level, Member, link::Link, table::Table, view::Name, wire::Message};

/// Decides the next view, together with the deciders of the other members.
///
/// The contract, which every implementation keeps and `views.rs` relies on:
///
/// - Of two decided views of a cluster the later one has the greater number and the greater epoch,
///   and at most one view is decided for a number. A decision may reach a member late, or never; a
///   member that installs a view may have missed earlier ones.
/// - A decided view names the incarnation of each member, and every lock that a client of a member
///   holds when the view begins. It may name a lock that was released since: a member grants
///   nothing while it is in no view, so what it reports can only be too much.
/// - A decision is final. A member that cannot enter the view (it is linked to another incarnation
///   of a member, or has seen a later epoch) refuses it, and the decider decides another one.
///
/// A decider does no I/O and has no clock. It sends messages to its counterparts and learns about
/// this node through [`Surroundings`]; each call returns at most one [`Step`], which the protocol
/// takes before it calls again. A decider that decides outside of the protocol (an engine for
/// consensus) emits its proposals as effects, and its decisions come in by a call that ends in the
/// same `install`.
pub(super) trait ViewDecider {
    /// Proposes the next view, or contributes to a proposal of another member. Called while this
    /// node is in no view and takes part in views, whenever something changed that a proposal
    /// depends on: a link, an incarnation, the end of a view.
    fn propose(&mut self, node: &mut Surroundings<'_>) -> Option<Step>;

    /// Handles a message about views of another member. It was [checked](Self::check).
    fn receive(
        &mut self,
        node: &mut Surroundings<'_>,
        from: Member,
        message: Message<'_>,
    ) -> Option<Step>;

    /// Checks whether a correct member can send this message about views; returns why not.
    fn check(
        &self,
        protocol: &Protocol,
        from: Member,
        message: &Message<'_>,
    ) -> Result<(), &'static str>;

    /// Discards the contribution of a peer that has restarted, or whose link has.
    fn restarted(&mut self, peer: Member);
}

/// A step that the protocol takes for its decider.
#[derive(Debug)]
pub(super) enum Step {
    /// Leave the view in force, since the next one is being decided, and propose again.
    Leave(&'static str),
    /// Show why no view can be decided now.
    Blocked(String),
    /// Install the next view.
    Decided(Decided),
}

/// A decided view.
#[derive(Debug)]
pub(super) struct Decided {
    /// Counts views. With the fixed list it is the epoch.
    pub(super) number: u64,
    /// The epoch of the fencing tokens in this view.
    pub(super) epoch: u32,
    /// The members with their incarnations, lowest member first.
    pub(super) members: Vec<(Member, u64)>,
    /// The locks that are held when the view begins, and the member whose client holds each.
    pub(super) held: HashMap<Name, Member>,
}

/// The part of the node that a decider sees and uses.
pub(super) struct Surroundings<'a> {
    pub(super) me: Member,
    /// The highest epoch that this node knows.
    pub(super) epoch: u32,
    incarnation: u64,
    names: &'a [String],
    links: &'a mut [Option<Link>],
    ready: &'a mut BTreeSet<Member>,
    table: &'a Table,
    effects: &'a mut Vec<Effect>,
}

impl Protocol {
    /// The decider, and what it may use of the rest.
    pub(super) fn split(&mut self) -> (&mut impl ViewDecider, Surroundings<'_>) {
        let surroundings = Surroundings {
            me: self.config.me,
            epoch: self.epoch,
            incarnation: self.config.incarnation,
            names: &self.config.names,
            links: &mut self.links,
            ready: &mut self.ready,
            table: &self.table,
            effects: &mut self.effects,
        };
        (&mut self.decider, surroundings)
    }
}

impl Surroundings<'_> {
    /// The number of members, this one included.
    pub(super) fn members(&self) -> usize {
        self.links.len()
    }

    /// Whether this node is linked to all other members.
    pub(super) fn is_linked_to_all(&self) -> bool {
        self.links.iter().flatten().all(Link::is_up)
    }

    /// The incarnation of each member that this node is linked to; its own for itself.
    pub(super) fn incarnations(&self) -> Vec<u64> {
        incarnations(self.links, self.incarnation)
    }

    /// The names of the locks that clients of this node hold.
    pub(super) fn held(&self) -> Vec<Name> {
        held(self.table)
    }

    pub(super) fn send(&mut self, to: Member, message: Message<'_>) {
        if let Some(link) = &mut self.links[to.index()] {
            link.send(message);
            self.ready.insert(to);
        }
    }

    pub(super) fn send_to_all(&mut self, message: &Message<'_>) {
        for (link, member) in self.links.iter_mut().zip((0..).map(Member)) {
            if let Some(link) = link {
                link.send(message.clone());
                self.ready.insert(member);
            }
        }
    }

    pub(super) fn warn(&mut self, text: String) {
        self.effects.push(Effect::Log { level: Level::Warning, text });
    }

    /// The name of a member.
    pub(super) fn name(&self, member: Member) -> &str {
        self.names.get(member.index()).map_or("unknown", String::as_str)
    }
}

/// The incarnation at the other end of each link, and `own` at this member's index.
pub(super) fn incarnations(links: &[Option<Link>], own: u64) -> Vec<u64> {
    links.iter().map(|link| link.as_ref().map_or(own, Link::incarnation)).collect()
}

/// The names of the locks that clients of this node hold.
pub(super) fn held(table: &Table) -> Vec<Name> {
    let held = table.iter().filter(|(_, entry)| entry.holder.is_some());
    held.map(|(_, entry)| Arc::clone(&entry.name)).collect()
}
