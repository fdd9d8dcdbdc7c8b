//! Forgetting names that nobody uses: all members together, or none.
//!
//! One node alone must never forget a name, since its token would be there twice when the name is
//! used again. So the home of a name that nobody has used for long asks all members:
//!
//! 1. Each one whose process is as it was at the start freezes the lock, so that nothing is sent
//!    for it any more, and says so to all; the others say that they keep it.
//! 2. Once it has heard that from all, each one knows that nothing is on the way to it any more.
//!    If all have frozen it and nothing has arrived since, it says so to all, else that it is kept.
//! 3. Once it has heard that from all, each one knows the same votes. The name is forgotten if all
//!    agreed; what arrived and who asked meanwhile goes on with a fresh process or the old one.
//!
//! Clocks live on in a floor, so that fences grow even so. The end of a view ends a round too: the
//! next view starts all names anew.
//!
//! A token that rests elsewhere is called home first. A ring whose token never rests is never at
//! its start, and its name is kept until the view ends.

use std::{collections::BTreeMap, sync::Arc};

use mutua_algorithms::{Phase, Time};

use super::{Brain, Kept, Standing, Timer};
use crate::{
    LockId, Member, Moment,
    table::{Entry, Frozen},
    view::{Name, View},
    wire::Message,
};

/// How many names one round is about at most.
pub(super) const NAMES: usize = 200;

/// How much is kept for frozen locks, in bytes. A round takes two trips between all members, so
/// this is far more than can come honestly meanwhile; should it come even so, the view ends, which
/// loses nothing but time. (To let it wait on its link would not do: votes are behind it.)
const ARRIVED: usize = 64 << 20;

#[derive(Debug, Default)]
pub(super) struct Forgetting {
    /// How many rounds this node has begun in this view.
    begun: u64,
    pub(super) rounds: BTreeMap<(Member, u64), Round>,
    /// How many rounds of each home have ended.
    ended: BTreeMap<Member, u64>,
    /// How much is kept for locks that are frozen, in bytes.
    pub(super) arrived: usize,
}

#[derive(Debug, Default)]
pub(super) struct Round {
    /// None until its home's word has come.
    names: Option<Vec<Name>>,
    first: BTreeMap<Member, Vote>,
    second: BTreeMap<Member, Vote>,
}

/// What a member says about a round.
#[derive(Clone, Debug)]
pub(super) struct Vote {
    pub(super) second: bool,
    /// Which of the names are kept, by their places.
    pub(super) kept: Vec<u32>,
    /// The highest clock of the names.
    pub(super) clock: Time,
}

impl Forgetting {
    /// Whether this can be a word about a round that is on, and not one said before.
    ///
    /// A home begins a round when its last one has ended there, for which it has heard everybody's
    /// second vote. So the one before the last has ended here too, since everybody's first vote on
    /// the next one, which a further round needs, comes after its second on that.
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

impl Brain {
    /// Begins a round if there are names to forget.
    pub(super) fn forget_some(&mut self, now: Moment) {
        let forget_after = self.seat.limits.forget_after;
        self.set_timer(now.after(forget_after / 2), Timer::Forget);
        let busy = self.forgetting.rounds.keys().any(|&(home, _)| home == self.seat.me);
        if busy || !self.may_grant(now) || self.missing().is_some() {
            return;
        }
        let mut idle = Vec::new();
        for lock in self.table.ids() {
            let entry = self.table.entry(lock);
            let used = entry.machine.is_some() && now.since(entry.used) < forget_after;
            if idle.len() < NAMES && is_idle(entry) && !used && self.is_known(lock) {
                idle.push(lock);
            }
        }
        let (ours, theirs): (Vec<_>, _) = idle.into_iter().partition(|&lock| self.is_home(lock));
        let (ready, away): (Vec<_>, _) = ours.into_iter().partition(|&lock| self.at_start(lock));
        for lock in theirs {
            // Long enough after that its home would have acted.
            if now.since(self.table.entry(lock).used) >= forget_after * 3 {
                self.remind_home(now, lock);
            }
        }
        for lock in away {
            self.call_home(now, lock);
        }
        if !ready.is_empty() {
            self.begin_round(now, &ready);
        }
    }

    /// Whether there is anything to forget about this name.
    fn is_known(&self, lock: LockId) -> bool {
        let Some(entry) = self.table.get(lock) else { return false };
        let held = |view: &View| view.inside.contains_key(&entry.name);
        entry.machine.is_some() || matches!(&self.standing, Standing::In(view) if held(view))
    }

    /// The home of a name may never have heard of it; a nudge makes it look after it.
    fn remind_home(&mut self, now: Moment, lock: LockId) {
        let Standing::In(view) = &self.standing else { return };
        let entry = self.table.entry(lock);
        entry.used = now;
        let (epoch, home, name) = (view.epoch, view.home(&entry.name), Arc::clone(&entry.name));
        self.link(home).send(Message::Nudge { epoch, name: &name });
        self.ready.insert(home);
    }

    fn begin_round(&mut self, now: Moment, locks: &[LockId]) {
        let Some(epoch) = self.epoch_of_view() else { return };
        self.forgetting.begun += 1;
        let round = self.forgetting.begun;
        let names: Vec<Name> =
            locks.iter().map(|&lock| Arc::clone(&self.table.entry(lock).name)).collect();
        let names: Vec<_> = names.iter().map(|name| &**name).collect();
        for peer in self.others() {
            self.link(peer).send(Message::Forget { epoch, round, names: names.clone() });
            self.ready.insert(peer);
        }
        self.on_forget(now, self.seat.me, round, &names);
    }

    /// Freezes what can be forgotten, and says what cannot.
    pub(super) fn on_forget(&mut self, now: Moment, home: Member, round: u64, names: &[&[u8]]) {
        let names: Vec<Name> = names.iter().map(|&name| name.into()).collect();
        let (mut kept, mut clock) = (Vec::new(), self.floor);
        for (name, place) in names.iter().zip(0..) {
            let plan = &self.seat.plan;
            let lock = self.table.find_or_make(name, || plan.rule_of(name));
            if is_idle(self.table.entry(lock)) && self.at_start(lock) {
                let entry = self.table.entry(lock);
                entry.frozen = Some(Frozen::default());
                clock = clock.max(entry.machine.as_ref().map_or(Time::ZERO, |one| one.time()));
            } else {
                kept.push(place);
            }
        }
        self.forgetting.rounds.entry((home, round)).or_default().names = Some(names);
        self.vote(now, home, round, Vote { second: false, kept, clock });
    }

    fn vote(&mut self, now: Moment, home: Member, round: u64, vote: Vote) {
        let Some(epoch) = self.epoch_of_view() else { return };
        for peer in self.others() {
            let Vote { second, kept, clock } = vote.clone();
            self.link(peer).send(Message::Vote { epoch, home, round, second, kept, clock });
            self.ready.insert(peer);
        }
        self.on_vote(now, self.seat.me, home, round, vote);
    }

    pub(super) fn on_vote(
        &mut self,
        now: Moment,
        from: Member,
        home: Member,
        round: u64,
        vote: Vote,
    ) {
        let members = self.links.len();
        let known = self.forgetting.rounds.entry((home, round)).or_default();
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

    /// All have spoken once: kept is what anybody keeps, and what something has arrived for.
    fn second_vote(&mut self, home: Member, round: u64) -> Vote {
        let known = &self.forgetting.rounds[&(home, round)];
        let mut kept = union(&known.first);
        let clock = known.first.values().map(|vote| vote.clock).max().unwrap_or_default();
        for (name, place) in known.names.iter().flatten().zip(0..) {
            let entry = self.table.find(name).and_then(|lock| self.table.get(lock));
            let frozen = entry.and_then(|entry| entry.frozen.as_ref());
            if frozen.is_none_or(|frozen| !frozen.arrived.is_empty()) {
                kept.push(place);
            }
        }
        kept.sort_unstable();
        kept.dedup();
        Vote { second: true, kept, clock }
    }

    /// All have spoken twice, and all know the same.
    fn conclude(&mut self, now: Moment, home: Member, round: u64) {
        let known = self.forgetting.rounds.remove(&(home, round)).expect("a round that ends");
        let kept = union(&known.second);
        let clock = known.second.values().map(|vote| vote.clock).max().unwrap_or_default();
        self.floor = self.floor.max(clock);
        self.forgetting.ended.insert(home, round);
        let mut arrived = Vec::new();
        let mut thawed = Vec::new();
        for (name, place) in known.names.into_iter().flatten().zip(0_u32..) {
            let Some(lock) = self.table.find(&name) else { continue };
            let entry = self.table.entry(lock);
            let Some(frozen) = entry.frozen.take() else { continue };
            if !kept.contains(&place) {
                entry.machine = None;
                entry.fence = None;
                if let Standing::In(view) = &mut self.standing {
                    view.inside.remove(&name);
                }
            }
            arrived.extend(frozen.arrived);
            thawed.push(lock);
        }
        for (from, kept) in arrived {
            self.forgetting.arrived = self.forgetting.arrived.saturating_sub(kept.size());
            // One of them may end the view, and the rest with it.
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
        let moves_by_itself = self.seat.plan.rule(entry.rule).moves_by_itself;
        let Some(frozen) = &mut entry.frozen else { return false };
        // A reminder to forget what is just being forgotten is no reason to keep it.
        if moves_by_itself || !matches!(message, Message::Nudge { .. }) {
            let kept = Kept::of(message);
            self.forgetting.arrived += kept.size();
            frozen.arrived.push((from, kept));
        }
        if self.forgetting.arrived > ARRIVED {
            self.leave("too much has come for locks that are being forgotten");
        }
        true
    }

    fn is_home(&mut self, lock: LockId) -> bool {
        let entry = self.table.entry(lock);
        matches!(&self.standing, Standing::In(view) if view.home(&entry.name) == self.seat.me)
    }

    /// Whether this node's process could be made anew with nobody noticing.
    fn at_start(&mut self, lock: LockId) -> bool {
        let Standing::In(view) = &mut self.standing else { return false };
        let entry = self.table.entry(lock);
        let start = view.idle_start(entry.rule, self.seat.plan.rule(entry.rule), &entry.name);
        match &entry.machine {
            Some(machine) => machine.at_start(&start),
            // Never used here: as at the start, unless that had somebody inside.
            None => !view.inside.contains_key(&entry.name),
        }
    }

    /// Asks for a token that rests elsewhere, to let it rest here.
    fn call_home(&mut self, now: Moment, lock: LockId) {
        self.ensure_machine(now, lock);
        let entry = self.table.entry(lock);
        entry.used = now;
        if self.seat.plan.rule(entry.rule).moves_by_itself || entry.phase() != Phase::Outside {
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

/// Whether nobody here wants the lock and nothing is under way.
fn is_idle(entry: &Entry) -> bool {
    !entry.is_wanted()
        && entry.frozen.is_none()
        && entry.lazies.is_empty()
        && entry.phase() == Phase::Outside
}

fn union(votes: &BTreeMap<Member, Vote>) -> Vec<u32> {
    let mut all: Vec<_> = votes.values().flat_map(|vote| vote.kept.iter().copied()).collect();
    all.sort_unstable();
    all.dedup();
    all
}
