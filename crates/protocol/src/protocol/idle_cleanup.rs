//! Idle cleanup: the state of unused names is removed at all members, or at none.
//!
//! One node alone must never remove the state of a name, since its token would exist twice when the
//! name is used again. So the home of a name that was unused for long begins a round among all
//! members:
//!
//! 1. Each member whose process is as it was at the start freezes the lock, so that no further
//!    message is sent for it, and votes so to all; the others vote to keep it.
//! 2. With the first votes of all, each member knows that no message is on its way to it. If all
//!    have frozen the lock and no message has arrived since, it votes so to all, else to keep it.
//! 3. With the second votes of all, each member knows the same votes. The state is removed if all
//!    agreed; messages and requests that arrived meanwhile go on with a new process or the old one.
//!
//! Clocks live on in a floor, so that fencing tokens grow. The end of a view ends a round too: the
//! next view starts all names anew.
//!
//! A token that rests elsewhere is requested by the home first. A ring whose token never rests is
//! never at its start, and its name is kept until the view ends.

use std::{collections::BTreeMap, sync::Arc};

use mutua_algorithms::{Phase, Time};

use super::{Kept, Protocol, Timer, ViewState};
use crate::{
    LockId, Member, Moment,
    table::{Entry, Frozen},
    view::{Name, View},
    wire::Message,
};

/// The most names in one round.
pub(super) const NAMES: usize = 200;

/// The most bytes of messages that are kept for frozen locks. A round takes two trips between all
/// members, so this is far more than correct members send meanwhile; should it come even so, the
/// view ends, which costs only time. (The messages cannot wait on their link: votes are behind
/// them.)
const ARRIVED: usize = 64 << 20;

#[derive(Debug, Default)]
pub(super) struct IdleCleanup {
    /// The number of rounds that this node has begun in this view.
    begun: u64,
    pub(super) rounds: BTreeMap<(Member, u64), Round>,
    /// The number of rounds of each home that have ended.
    ended: BTreeMap<Member, u64>,
    /// Bytes of messages that are kept for frozen locks.
    pub(super) arrived: usize,
}

#[derive(Debug, Default)]
pub(super) struct Round {
    /// `None` until the home's message has arrived.
    names: Option<Vec<Name>>,
    first: BTreeMap<Member, Vote>,
    second: BTreeMap<Member, Vote>,
}

/// A member's vote on a round.
#[derive(Clone, Debug)]
pub(super) struct Vote {
    pub(super) second: bool,
    /// The names to keep, by their indices.
    pub(super) kept: Vec<u32>,
    /// The highest clock of the names.
    pub(super) clock: Time,
}

impl IdleCleanup {
    /// Whether a message about this round can come now.
    ///
    /// A home begins a round when its last one has ended there, for which it needs the second votes
    /// of all. So the round before the last has ended here too, since the first votes of all on the
    /// next one, which a further round needs, come after their second votes on that.
    pub(super) fn expects(&self, home: Member, round: u64) -> bool {
        let ended = self.ended.get(&home).copied().unwrap_or(0);
        round > ended && round - ended <= 2
    }

    pub(super) fn is_begun(&self, round: u64) -> bool {
        round <= self.begun
    }

    pub(super) fn has_names(&self, home: Member, round: u64) -> bool {
        self.rounds.get(&(home, round)).is_some_and(|known| known.names.is_some())
    }

    pub(super) fn has_voted(&self, home: Member, round: u64, from: Member, second: bool) -> bool {
        self.rounds.get(&(home, round)).is_some_and(|known| {
            if second { &known.second } else { &known.first }.contains_key(&from)
        })
    }
}

impl Protocol {
    /// Begins a round if there are unused names.
    pub(super) fn start_cleanup(&mut self, now: Moment) {
        let idle_after = self.config.limits.idle_after;
        self.set_timer(now.after(idle_after / 2), Timer::Cleanup);
        let busy = self.cleanup.rounds.keys().any(|&(home, _)| home == self.config.me);
        if busy || !self.may_grant(now) || self.unlinked().is_some() {
            return;
        }
        let mut idle = Vec::new();
        for lock in self.table.ids() {
            let entry = self.table.entry(lock);
            let used = entry.machine.is_some() && now.since(entry.used) < idle_after;
            if idle.len() < NAMES && is_idle(entry) && !used && self.is_known(lock) {
                idle.push(lock);
            }
        }
        let (ours, theirs): (Vec<_>, _) = idle.into_iter().partition(|&lock| self.is_home(lock));
        let (ready, away): (Vec<_>, _) = ours.into_iter().partition(|&lock| self.is_at_start(lock));
        for lock in theirs {
            // Long enough for its home to have acted.
            if now.since(self.table.entry(lock).used) >= idle_after * 3 {
                self.remind_home(now, lock);
            }
        }
        for lock in away {
            self.bring_home(now, lock);
        }
        if !ready.is_empty() {
            self.begin_round(now, &ready);
        }
    }

    /// Whether there is any state of this name to remove.
    fn is_known(&self, lock: LockId) -> bool {
        let Some(entry) = self.table.get(lock) else { return false };
        let held = |view: &View| view.held.contains_key(&entry.name);
        entry.machine.is_some() || matches!(&self.view_state, ViewState::In(view) if held(view))
    }

    /// Nudges the home of a name, which may not know that the name is in use.
    fn remind_home(&mut self, now: Moment, lock: LockId) {
        let ViewState::In(view) = &self.view_state else { return };
        let entry = self.table.entry(lock);
        entry.used = now;
        let (epoch, home, name) = (view.epoch, view.home(&entry.name), Arc::clone(&entry.name));
        self.link(home).send(Message::Nudge { epoch, name: &name });
        self.ready.insert(home);
    }

    fn begin_round(&mut self, now: Moment, locks: &[LockId]) {
        let Some(epoch) = self.epoch_of_view() else { return };
        self.cleanup.begun += 1;
        let round = self.cleanup.begun;
        let names: Vec<Name> =
            locks.iter().map(|&lock| Arc::clone(&self.table.entry(lock).name)).collect();
        let names: Vec<_> = names.iter().map(|name| &**name).collect();
        for peer in self.others() {
            self.link(peer).send(Message::Cleanup { epoch, round, names: names.clone() });
            self.ready.insert(peer);
        }
        self.on_cleanup(now, self.config.me, round, &names);
    }

    /// Freezes the locks whose state can be removed, and votes to keep the others.
    pub(super) fn on_cleanup(&mut self, now: Moment, home: Member, round: u64, names: &[&[u8]]) {
        let names: Vec<Name> = names.iter().map(|&name| name.into()).collect();
        let (mut kept, mut clock) = (Vec::new(), self.floor);
        for (name, index) in names.iter().zip(0..) {
            let plan = &self.config.plan;
            let lock = self.table.find_or_make(name, || plan.rule_of(name));
            if is_idle(self.table.entry(lock)) && self.is_at_start(lock) {
                let entry = self.table.entry(lock);
                entry.frozen = Some(Frozen::default());
                clock = clock.max(entry.machine.as_ref().map_or(Time::ZERO, |one| one.time()));
            } else {
                kept.push(index);
            }
        }
        self.cleanup.rounds.entry((home, round)).or_default().names = Some(names);
        self.vote(now, home, round, Vote { second: false, kept, clock });
    }

    fn vote(&mut self, now: Moment, home: Member, round: u64, vote: Vote) {
        let Some(epoch) = self.epoch_of_view() else { return };
        for peer in self.others() {
            let Vote { second, kept, clock } = vote.clone();
            self.link(peer).send(Message::Vote { epoch, home, round, second, kept, clock });
            self.ready.insert(peer);
        }
        self.on_vote(now, self.config.me, home, round, vote);
    }

    pub(super) fn on_vote(
        &mut self,
        now: Moment,
        from: Member,
        home: Member,
        round: u64,
        vote: Vote,
    ) {
        let members = self.members().len();
        let known = self.cleanup.rounds.entry((home, round)).or_default();
        let (second, votes) = match vote.second {
            false => (false, &mut known.first),
            true => (true, &mut known.second),
        };
        votes.insert(from, vote);
        if votes.len() < members || known.names.is_none() {
            return;
        }
        if second {
            self.conclude(now, home, round);
        } else {
            let vote = self.second_vote(home, round);
            self.vote(now, home, round, vote);
        }
    }

    /// All have voted once: a name is kept if any member keeps it, or if a message has arrived for
    /// it.
    fn second_vote(&mut self, home: Member, round: u64) -> Vote {
        let known = &self.cleanup.rounds[&(home, round)];
        let mut kept = union(&known.first);
        let clock = known.first.values().map(|vote| vote.clock).max().unwrap_or_default();
        for (name, index) in known.names.iter().flatten().zip(0..) {
            let entry = self.table.find(name).and_then(|lock| self.table.get(lock));
            let frozen = entry.and_then(|entry| entry.frozen.as_ref());
            if frozen.is_none_or(|frozen| !frozen.arrived.is_empty()) {
                kept.push(index);
            }
        }
        kept.sort_unstable();
        kept.dedup();
        Vote { second: true, kept, clock }
    }

    /// All have voted twice, and all know the same votes.
    fn conclude(&mut self, now: Moment, home: Member, round: u64) {
        let known = self.cleanup.rounds.remove(&(home, round)).expect("a round that ends");
        let kept = union(&known.second);
        let clock = known.second.values().map(|vote| vote.clock).max().unwrap_or_default();
        self.floor = self.floor.max(clock);
        self.cleanup.ended.insert(home, round);
        let mut arrived = Vec::new();
        let mut thawed = Vec::new();
        for (name, index) in known.names.into_iter().flatten().zip(0_u32..) {
            let Some(lock) = self.table.find(&name) else { continue };
            let entry = self.table.entry(lock);
            let Some(frozen) = entry.frozen.take() else { continue };
            if !kept.contains(&index) {
                entry.machine = None;
                entry.fence = None;
                if let ViewState::In(view) = &mut self.view_state {
                    view.held.remove(&name);
                }
            }
            arrived.extend(frozen.arrived);
            thawed.push(lock);
        }
        for (from, kept) in arrived {
            self.cleanup.arrived = self.cleanup.arrived.saturating_sub(kept.size());
            // One of these messages may end the view, which drops the rest.
            self.on_message(now, from, kept.message());
        }
        for lock in thawed {
            self.settle(now, lock);
            self.table.drop_if_empty(lock);
        }
    }

    /// Keeps a message for a frozen lock until it is thawed.
    pub(super) fn keep_if_frozen(
        &mut self,
        from: Member,
        lock: LockId,
        message: &Message<'_>,
    ) -> bool {
        let entry = self.table.entry(lock);
        let moves_by_itself = self.config.plan.rule(entry.rule).moves_by_itself;
        let Some(frozen) = &mut entry.frozen else { return false };
        // A nudge to clean up a name that is being cleaned up is no reason to keep it.
        if moves_by_itself || !matches!(message, Message::Nudge { .. }) {
            let kept = Kept::of(message);
            self.cleanup.arrived += kept.size();
            frozen.arrived.push((from, kept));
        }
        if self.cleanup.arrived > ARRIVED {
            self.end_view("too many messages arrived for locks that are being cleaned up");
        }
        true
    }

    fn is_home(&mut self, lock: LockId) -> bool {
        let entry = self.table.entry(lock);
        matches!(&self.view_state, ViewState::In(view) if view.home(&entry.name) == self.config.me)
    }

    /// Whether this node's process could be made anew without any effect.
    fn is_at_start(&mut self, lock: LockId) -> bool {
        let ViewState::In(view) = &mut self.view_state else { return false };
        let entry = self.table.entry(lock);
        let start = view.idle_start(entry.rule, self.config.plan.rule(entry.rule), &entry.name);
        match &entry.machine {
            Some(machine) => machine.is_at_start(&start),
            // Never used here: at its start, unless the lock was held then.
            None => !view.held.contains_key(&entry.name),
        }
    }

    /// Requests a token that rests elsewhere, to let it rest here.
    fn bring_home(&mut self, now: Moment, lock: LockId) {
        self.ensure_machine(now, lock);
        let entry = self.table.entry(lock);
        entry.used = now;
        if self.config.plan.rule(entry.rule).moves_by_itself || entry.phase() != Phase::Idle {
            return;
        }
        let machine = entry.machine.as_mut().expect("just made");
        entry.fence = machine.request(&mut self.posts);
        let fence = entry.fence;
        self.trace_request(now, lock, fence);
        self.dispatch(now, lock);
        self.settle(now, lock);
    }
}

/// Whether no client here wants the lock and no message of it is pending here.
fn is_idle(entry: &Entry) -> bool {
    !entry.is_wanted()
        && entry.frozen.is_none()
        && entry.lazies.is_empty()
        && entry.phase() == Phase::Idle
}

fn union(votes: &BTreeMap<Member, Vote>) -> Vec<u32> {
    let mut all: Vec<_> = votes.values().flat_map(|vote| vote.kept.iter().copied()).collect();
    all.sort_unstable();
    all.dedup();
    all
}
