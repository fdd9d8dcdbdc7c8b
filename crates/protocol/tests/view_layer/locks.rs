//! An abstract lock on top of the view layer: in a view it is any correct algorithm.
//!
//! Per view and name there is one place where the permission is, and a queue; permissions arrive
//! after a while, whether or not the member may grant then. Between views it starts anew from the
//! plan. Guards live in the node's process; external clients are in `clients.rs`.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use mutua_algorithms::{FencingToken, Time};
use mutua_protocol::{
    Moment,
    views::{Claim, Instance, MemberId, Plan, Record, ViewEffect, ViewNumber},
};

use super::{
    clients::Word,
    world::{Event, Layers},
};

pub(crate) const NAMES: usize = 2;

pub(crate) fn name(place: usize) -> Vec<u8> {
    vec![place as u8]
}

/// What a node knows of locks; it dies with the process.
#[derive(Debug, Default)]
pub(crate) struct Locks {
    /// The incarnations that beats have come from.
    pub(crate) heard: BTreeMap<MemberId, u64>,
    pub(crate) held: BTreeMap<usize, Held>,
    pub(crate) waiting: BTreeMap<usize, Vec<Waiter>>,
    pub(crate) claims: BTreeMap<usize, Claim>,
    /// The plan of the view that it has begun last.
    pub(crate) plan: Plan,
}

#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) token: u64,
    /// A guard that was told that it is lost, and when it has stopped.
    pub(crate) until: Option<Moment>,
    pub(crate) session: Option<Session>,
}

#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(crate) client: usize,
    pub(crate) session: u64,
    pub(crate) ttl: Duration,
    pub(crate) expires: Moment,
    pub(crate) told: bool,
    /// The view that it was granted in. In another one the client is notified of nothing new:
    /// while this node was out another may have had the lock, with a higher token.
    pub(crate) view: ViewNumber,
}

#[derive(Clone, Debug)]
pub(crate) struct Waiter {
    pub(crate) since: Moment,
    pub(crate) session: Option<Session>,
}

/// The locks of one view, at all its members.
#[derive(Debug)]
pub(crate) struct ViewLocks {
    pub(crate) plan: Plan,
    pub(crate) epoch: u32,
    pub(crate) names: Vec<Permission>,
}

#[derive(Debug, Default)]
pub(crate) struct Permission {
    pub(crate) at: Option<Instance>,
    pub(crate) arrived: bool,
    pub(crate) queue: VecDeque<Instance>,
    pub(crate) count: u64,
}

impl Layers {
    pub(crate) fn on_lock_effect(&mut self, slot: usize, effect: ViewEffect) {
        let me = self.instance(slot);
        match effect {
            ViewEffect::Leave { view, removed, until } => {
                self.note(|| format!("{me} leaves view {view}, removed {removed}"));
                self.nodes[slot].locks.claims.clear();
                self.take_back(slot);
                if removed {
                    self.lose_guards(slot, until);
                }
            }
            ViewEffect::Lapsed { until } => {
                self.counts.lapses += 1;
                self.note(|| format!("{me} lapses"));
                self.lose_guards(slot, until);
            }
            ViewEffect::Returned => {
                self.counts.returns += 1;
                self.note(|| format!("{me} is good"));
                self.settle(slot);
                self.record_untold(slot);
            }
            ViewEffect::Report { .. } => self.report(slot),
            ViewEffect::Begin(plan) => self.begin(slot, *plan),
            ViewEffect::Recorded(record) => self.on_recorded(slot, &record),
            ViewEffect::Send { .. } | ViewEffect::Propose(_) => unreachable!("done elsewhere"),
        }
    }

    /// A client that was not told holds nothing: it waits again, first of all.
    fn take_back(&mut self, slot: usize) {
        let now = self.local(slot);
        let untold = |held: &Held| held.session.as_ref().is_some_and(|session| !session.told);
        let held = &self.nodes[slot].locks.held;
        let all: Vec<_> =
            held.iter().filter(|(_, held)| untold(held)).map(|(&place, _)| place).collect();
        for place in all {
            let session = self.nodes[slot].locks.held[&place].session.clone();
            self.let_go(slot, place);
            let waiting = self.nodes[slot].locks.waiting.entry(place).or_default();
            waiting.insert(0, Waiter { since: now, session });
        }
    }

    fn lose_guards(&mut self, slot: usize, until: Moment) {
        for held in self.nodes[slot].locks.held.values_mut() {
            if held.session.is_none() {
                held.until = Some(held.until.map_or(until, |known| known.min(until)));
            }
        }
        let incarnation = self.nodes[slot].incarnation;
        let wait = until.since(self.local(slot)).mul_f64(1.03) + Duration::from_micros(1);
        self.after(wait, Event::Settle { slot, incarnation });
    }

    /// Lets go of what has ended by its time.
    pub(crate) fn purge(&mut self, slot: usize) {
        let now = self.local(slot);
        let over = |held: &Held| match &held.session {
            Some(session) => session.expires <= now,
            None => held.until.is_some_and(|until| until <= now),
        };
        let locks = &mut self.nodes[slot].locks;
        let gone: Vec<_> =
            locks.held.iter().filter(|(_, held)| over(held)).map(|(&place, _)| place).collect();
        for waiting in locks.waiting.values_mut() {
            waiting.retain(|one| one.session.as_ref().is_none_or(|session| session.expires > now));
        }
        for place in gone {
            self.let_go(slot, place);
        }
    }

    /// The lock is held here no more; the permission goes on.
    pub(crate) fn let_go(&mut self, slot: usize, place: usize) {
        let Some(held) = self.nodes[slot].locks.held.remove(&place) else { return };
        let me = self.instance(slot);
        self.note(|| format!("{me} lets go of {place} ({})", held.token));
        if held.session.is_some() {
            let token = FencingToken(Time::from_number(held.token));
            if let Some(layer) = &mut self.nodes[slot].layer {
                layer.release_record(&name(place), token);
            }
        }
    }

    pub(crate) fn settle(&mut self, slot: usize) {
        self.purge(slot);
        for place in 0..NAMES {
            self.settle_one(slot, place);
        }
    }

    fn settle_one(&mut self, slot: usize, place: usize) {
        let (now, me) = (self.local(slot), self.instance(slot));
        let Some(layer) = self.nodes[slot].layer.as_ref().filter(|one| one.may_grant(now)) else {
            return;
        };
        let view = layer.begun().expect("it may grant").number;
        let locks = &mut self.nodes[slot].locks;
        // The layer is ahead of its effects: the plan comes with one of the next.
        if locks.plan.view != view {
            return;
        }
        let waits = locks.waiting.get(&place).is_some_and(|waiting| !waiting.is_empty());
        let held = locks.held.contains_key(&place);
        let known = self.views.get_mut(&view).expect("begun");
        let permission = &mut known.names[place];
        if permission.at == Some(me) && permission.arrived && !held {
            // Others first, if any wait.
            if waits && (permission.queue.is_empty() || self.dice.one_in(2)) {
                permission.count += 1;
                let token = Time::new(known.epoch, permission.count).number();
                let waiter = locks.waiting.get_mut(&place).expect("somebody waits").remove(0);
                return self.grant(slot, view, place, token, waiter);
            }
            permission.at = None;
        }
        let permission = &mut self.views.get_mut(&view).expect("begun").names[place];
        if waits && permission.at != Some(me) && !permission.queue.contains(&me) {
            permission.queue.push_back(me);
        }
        if permission.at.is_none()
            && let Some(next) = permission.queue.pop_front()
        {
            permission.at = Some(next);
            permission.arrived = false;
            let wait = self.dice.micros(100, 3000);
            self.after(wait, Event::Arrive { view, name: place, member: next });
        }
    }

    pub(crate) fn on_arrive(&mut self, view: ViewNumber, place: usize, member: Instance) {
        let Some(known) = self.views.get_mut(&view) else { return };
        let permission = &mut known.names[place];
        if permission.at == Some(member) {
            permission.arrived = true;
        }
        if let Some(slot) = self.slot_of(member.member)
            && self.instance(slot) == member
        {
            // A process that was stopped handles its lapse first.
            self.call(slot, |layer, now| layer.tick(now));
            self.settle(slot);
        }
    }

    fn grant(&mut self, slot: usize, view: ViewNumber, place: usize, token: u64, waiter: Waiter) {
        let me = self.instance(slot);
        if let Some((later, _)) = self.views.last_key_value().filter(|known| *known.0 > view) {
            let later = *later;
            return self.fails(format!("{me} grants in view {view}, and {later} has begun"));
        }
        let Some(session) = waiter.session else {
            self.counts.grants += 1;
            self.check_grant(&format!("guard at {me}"), place, token);
            if self.is_calm() {
                self.calm_grants.insert(slot);
            }
            let held = Held { token, until: None, session: None };
            self.nodes[slot].locks.held.insert(place, held);
            let long = if self.is_hard() { 2 } else { 5 };
            let most = if self.dice.one_in(long) { 4_000_000 } else { 50_000 };
            let wait = self.dice.micros(100, most);
            let incarnation = me.incarnation.0;
            return self.after(wait, Event::Drop { slot, incarnation, name: place, token });
        };
        let session = Session { view, ..session };
        let held = Held { token, until: None, session: Some(session) };
        self.nodes[slot].locks.held.insert(place, held);
        self.record(slot, place);
    }

    fn record(&mut self, slot: usize, place: usize) {
        let host = self.instance(slot);
        let Some(held) = self.nodes[slot].locks.held.get(&place) else { return };
        let Some(session) = &held.session else { return };
        let record = Record {
            name: name(place),
            token: FencingToken(Time::from_number(held.token)),
            session: session.session,
            ttl: session.ttl,
            host,
            hosted_since: ViewNumber(0),
            value: (session.client as u64).to_le_bytes().to_vec(),
        };
        self.call(slot, |layer, now| layer.record(now, record));
    }

    pub(crate) fn record_untold(&mut self, slot: usize) {
        let untold = |held: &Held| held.session.as_ref().is_some_and(|session| !session.told);
        let held = &self.nodes[slot].locks.held;
        let all: Vec<_> =
            held.iter().filter(|(_, held)| untold(held)).map(|(&place, _)| place).collect();
        for place in all {
            self.record(slot, place);
        }
    }

    fn on_recorded(&mut self, slot: usize, record: &Record) {
        let now = self.local(slot);
        let good = self.nodes[slot].layer.as_ref().is_some_and(|layer| layer.may_grant(now));
        let place = usize::from(record.name[0]);
        let held = self.nodes[slot].locks.held.get_mut(&place);
        let Some(held) = held.filter(|held| held.token == record.token.number()) else { return };
        let Some(session) = held.session.as_mut().filter(|one| !one.told && good) else { return };
        session.told = true;
        let (client, expires) = (session.client, session.expires);
        let word = Word::Granted { session: session.session, token: held.token };
        self.note_lease(slot, expires);
        self.tell_client(client, word);
    }

    /// Written to the node's disk before a client is notified.
    pub(crate) fn note_lease(&mut self, slot: usize, expires: Moment) {
        let node = &mut self.nodes[slot];
        node.leases_until = node.leases_until.max(expires);
    }

    pub(crate) fn on_drop(&mut self, slot: usize, place: usize, token: u64) {
        if self.nodes[slot].locks.held.get(&place).is_some_and(|held| held.token == token) {
            self.let_go(slot, place);
            self.settle(slot);
        }
    }

    /// Guards of this node want something.
    pub(crate) fn on_want(&mut self, slot: usize) {
        if self.nodes[slot].layer.is_none() {
            return;
        }
        let now = self.local(slot);
        let place = self.dice.below(NAMES as u64) as usize;
        let waiting = self.nodes[slot].locks.waiting.entry(place).or_default();
        if waiting.len() < 3 {
            waiting.push(Waiter { since: now, session: None });
        }
        self.call(slot, |layer, now| layer.tick(now));
        self.settle(slot);
        let incarnation = self.nodes[slot].incarnation;
        let wait = self.dice.micros(1000, 600_000);
        self.after(wait, Event::Want { slot, incarnation });
    }
}
