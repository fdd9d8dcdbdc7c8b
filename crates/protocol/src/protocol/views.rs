//! Views: this node leaves one and installs the next.
//!
//! A [`ViewDecider`] decides the next view (`decider.rs`). In this module the node leaves the view
//! it is in, proposes through its decider, and installs what was decided: it writes the epoch to
//! disk, then starts every lock anew from the locks that the view names as held, and requests again
//! for its waiters. No lock is granted without a view.
//!
//! A member that has lost the link to another one, or sees it restarted, leaves the view and sends
//! [`Message::Ended`] to the others. A message names the epoch it belongs to, so no message of one
//! view reaches another.

use mutua_algorithms::Time;

use super::{
    Protocol, ViewState,
    decider::{self, Decided, Step, ViewDecider},
    refusals::Early,
};
use crate::{Effect, Level, LockId, Member, Moment, Refusal, view::View, wire::Message};

/// The state between two views.
#[derive(Debug, Default)]
pub(super) struct ViewChange {
    /// The epoch of the view that was left last.
    pub(super) left: u32,
    /// Messages of a view that is not installed here yet.
    pub(super) early: Early,
}

impl Protocol {
    /// Proposes the next view, if this node is in none and takes part in views.
    pub(super) fn propose_view(&mut self) {
        let apart = matches!(self.view_state, ViewState::Apart { .. });
        if apart && !self.held_back && !self.config.views.is_decided() {
            let (decider, mut node) = self.split();
            let step = decider.propose(&mut node);
            self.take(step);
        }
    }

    /// Handles a message about views.
    pub(super) fn on_view_message(&mut self, from: Member, message: Message<'_>) {
        if self.config.views.is_decided() {
            return;
        }
        if let Message::Ended { epoch } = message {
            if self.epoch_of_view() == Some(epoch) {
                let why = format!("{} has left the view", self.name(from));
                self.leave(&why);
            }
            return;
        }
        let (decider, mut node) = self.split();
        let step = decider.receive(&mut node, from, message);
        self.take(step);
    }

    fn take(&mut self, step: Option<Step>) {
        match step {
            None => {}
            Some(Step::Leave(why)) => {
                self.leave_quietly(why);
                self.propose_view();
            }
            Some(Step::Blocked(why)) => self.show_blocked(why),
            Some(Step::Decided(decided)) => self.install(decided),
        }
    }

    fn show_blocked(&mut self, why: String) {
        if let ViewState::Apart { why: known } = &mut self.view_state
            && *known != why
        {
            known.clone_from(&why);
            self.log(Level::Warning, format!("no view: {why}"));
        }
    }

    /// Installs a decided view: its epoch goes to disk, and then it begins.
    fn install(&mut self, decided: Decided) {
        let Decided { number, epoch, members, held } = decided;
        let linked = decider::incarnations(&self.links, self.config.incarnation);
        if members.iter().any(|(member, named)| linked.get(member.index()) != Some(named)) {
            // A link has passed to another incarnation since the view was proposed.
            return self.send_to_all(&Message::Ended { epoch });
        }
        self.leave_quietly("the next view is decided");
        if epoch <= self.epoch || epoch >= Time::EPOCHS {
            let why = format!("epoch {epoch} cannot follow epoch {}", self.epoch);
            self.log(Level::Warning, why.clone());
            self.view_state = ViewState::Apart { why };
            return;
        }
        self.epoch = epoch;
        let members = members.into_iter().map(|(member, _)| member).collect();
        self.view_state = ViewState::Writing(View::new(number, epoch, members, held));
        self.effects.push(Effect::Write { epoch });
    }

    /// The epoch is on disk for good.
    pub fn written(&mut self, now: Moment, epoch: u32) {
        if !matches!(&self.view_state, ViewState::Writing(view) if view.epoch == epoch) {
            return;
        }
        let apart = ViewState::Apart { why: String::new() };
        let ViewState::Writing(view) = std::mem::replace(&mut self.view_state, apart) else {
            unreachable!("just matched");
        };
        self.begin(now, view);
    }

    /// Starts every lock anew: the holders of the view are in the critical section, and requests
    /// are made again.
    pub(super) fn begin(&mut self, now: Moment, view: View) {
        let (number, members) = (view.number, view.members.len());
        let held: Vec<_> = self.held_in(&view);
        self.view_state = ViewState::In(view);
        self.counted.view_begins();
        let word = if members == 1 { "member" } else { "members" };
        self.log(Level::Info, format!("view {number} of {members} {word} begins"));
        for lock in held {
            self.ensure_machine(now, lock);
        }
        self.settle_all(now);
        self.catch_up(now);
        for lock in self.table.ids() {
            self.table.drop_if_empty(lock);
        }
    }

    /// The locks that this node holds according to the view, even if released since.
    fn held_in(&mut self, view: &View) -> Vec<LockId> {
        let me = self.config.me;
        let mut names: Vec<_> =
            view.held.iter().filter(|&(_, &member)| member == me).map(|(name, _)| name).collect();
        names.sort();
        let plan = &self.config.plan;
        names.into_iter().map(|name| self.table.find_or_make(name, || plan.rule_of(name))).collect()
    }

    /// Settles all locks, in the order of their longest waits where views are decided.
    pub(super) fn settle_all(&mut self, now: Moment) {
        let mut locks = self.table.ids();
        if self.layered.is_some() {
            let since = |lock: &LockId| self.table.get(*lock).and_then(crate::table::Entry::oldest);
            locks.sort_by_key(|lock| since(lock).unwrap_or(Moment::NEVER));
        }
        for lock in locks {
            if self.table.get(lock).is_some() {
                self.settle(now, lock);
            }
        }
    }

    /// The view must end, for all members: this node leaves it, or calls for the next one.
    pub(super) fn end_view(&mut self, why: &str) {
        match (&self.layered, self.epoch_of_view()) {
            (Some(_), Some(epoch)) => {
                self.log(Level::Warning, format!("the next view is needed: {why}"));
                self.raise_floor(epoch);
            }
            _ => self.leave(why),
        }
    }

    /// Leaves the view, notifies the other members, and proposes the next one.
    pub(super) fn leave(&mut self, why: &str) {
        let Some(epoch) = self.epoch_of_view() else { return };
        self.leave_quietly(why);
        self.send_to_all(&Message::Ended { epoch });
        self.propose_view();
    }

    /// Leaves the view: holders keep their locks, waiters go on waiting, all other state of the
    /// view is dropped.
    pub(super) fn leave_quietly(&mut self, why: &str) {
        let (ViewState::Writing(view) | ViewState::In(view)) = &self.view_state else { return };
        let number = view.number;
        self.view_change.left = view.epoch;
        self.view_state = ViewState::Apart { why: why.to_owned() };
        // The change to a decided view is no loss.
        let level = if self.layered.is_some() { Level::Info } else { Level::Warning };
        self.log(level, format!("view {number} ends: {why}"));
        self.refuse_queries(&Refusal::NoView(why.to_owned()));
        self.cleanup = super::idle_cleanup::IdleCleanup::default();
        for lock in self.table.ids() {
            self.table.entry(lock).leave_view();
            self.table.drop_if_empty(lock);
        }
    }

    /// A peer is another incarnation than before.
    pub(super) fn on_restart(&mut self, peer: Member, earlier: u64) {
        if self.config.views.is_decided() {
            return self.on_link_lost(peer, earlier);
        }
        self.decider.restarted(peer);
        self.view_change.early.drop_from(peer);
        let why = format!("{} has restarted", self.name(peer));
        self.leave(&why);
    }

    /// A link may have been down for `lost_after`, unless it was up in between.
    pub(super) fn on_long_silence(&mut self, now: Moment, peer: Member) {
        if self.config.views.is_decided() {
            return;
        }
        let lost_after = self.config.limits.lost_after;
        let link = self.link(peer);
        if !link.is_up() && now.since(link.since) >= lost_after {
            let why = format!("not connected to {} for {lost_after:?}", self.name(peer));
            self.leave(&why);
        }
    }

    fn send_to_all(&mut self, message: &Message<'_>) {
        self.split().1.send_to_all(message);
    }

    /// The epoch of the view that this node is in or is about to enter.
    pub(super) fn epoch_of_view(&self) -> Option<u32> {
        match &self.view_state {
            ViewState::Apart { .. } => None,
            ViewState::Writing(view) | ViewState::In(view) => Some(view.epoch),
        }
    }
}
