//! From view to view: what nodes report, how the abstract lock starts anew, and what must hold
//! then.

use std::collections::VecDeque;

use mutua_algorithms::{FencingToken, Time};
use mutua_protocol::views::{Client, Contents, DecidedView, Hold, MemberId, Plan, ViewNumber};

use super::{
    locks::{Held, NAMES, Permission, Session, ViewLocks, name},
    world::{Event, Layers},
};

impl Layers {
    pub(crate) fn report(&mut self, slot: usize) {
        self.purge(slot);
        let now = self.local(slot);
        let locks = &self.nodes[slot].locks;
        let client = |session: &Session| Client {
            session: session.session,
            ttl: session.ttl,
            value: (session.client as u64).to_le_bytes().to_vec(),
        };
        let held = locks.held.iter().map(|(&place, held)| {
            let token = FencingToken(Time::from_number(held.token));
            (name(place), Hold { token, client: held.session.as_ref().map(client) })
        });
        let waiting = locks.waiting.iter().filter_map(|(&place, waiting)| {
            let age = waiting.iter().map(|one| now.since(one.since)).max()?;
            Some((name(place), age))
        });
        let claims = locks.claims.iter().map(|(&place, claim)| (name(place), claim.clone()));
        let floors = locks.held.values().map(|held| Time::from_number(held.token).epoch());
        let claimed = locks.claims.values().map(|claim| claim.token.0.epoch());
        let left = self.nodes[slot].leases_until.since(now);
        let contents = Contents {
            floor: floors.chain(claimed).max().unwrap_or(0),
            held: held.collect(),
            waiting: waiting.collect(),
            claims: claims.collect(),
            leases_left: Some(left),
        };
        if let Some(layer) = &mut self.nodes[slot].layer {
            layer.report(now, contents);
        }
        self.do_effects(slot);
    }

    pub(crate) fn begin(&mut self, slot: usize, plan: Plan) {
        let me = self.instance(slot);
        self.note(|| format!("{me} begins {plan:?}"));
        self.counts.begun += 1;
        let layer = self.nodes[slot].layer.as_ref().expect("up");
        let view = layer.begun().expect("just begun").clone();
        match self.views.get(&view.number) {
            Some(known) if known.plan != plan => {
                return self.fails(format!("view {} begins with two plans", view.number));
            }
            Some(_) => {}
            None => {
                self.counts.views += 1;
                self.check_plan(&plan);
                let names = (0..NAMES).map(|place| self.permission(&view, &plan, place)).collect();
                let locks = ViewLocks { plan: plan.clone(), epoch: view.epoch, names };
                self.views.insert(view.number, locks);
            }
        }
        let now = self.local(slot);
        for place in 0..NAMES {
            let mine = plan.held.get(&name(place)).filter(|holder| holder.member == me);
            let token = mine.map(|holder| holder.token.number());
            let here = self.nodes[slot].locks.held.get(&place).map(|held| held.token);
            if here.is_some() && here != token {
                self.let_go(slot, place);
            }
            if let Some(holder) = mine
                && let Some(client) = &holder.client
                && here != token
            {
                self.counts.custodies += u64::from(holder.custody);
                let number = u64::from_le_bytes(client.value[..8].try_into().expect("eight"));
                let expires = now.after(self.settings.on_any_clock(client.ttl));
                let session = Session {
                    client: number as usize,
                    session: client.session,
                    ttl: client.ttl,
                    expires,
                    told: true,
                    view: ViewNumber(0),
                };
                self.note_lease(slot, expires);
                let token = holder.token.number();
                let held = Held { token, until: None, session: Some(session) };
                self.nodes[slot].locks.held.insert(place, held);
                let incarnation = self.nodes[slot].incarnation;
                self.after(client.ttl * 2, Event::Settle { slot, incarnation });
            }
        }
        self.nodes[slot].locks.plan = plan;
        self.settle(slot);
    }

    fn permission(&self, view: &DecidedView, plan: &Plan, place: usize) -> Permission {
        let instance = |id: &MemberId| view.members.iter().find(|one| one.member == *id).copied();
        let mut queue: VecDeque<_> = plan
            .waiting
            .get(&name(place))
            .iter()
            .flat_map(|all| all.iter().filter_map(instance))
            .collect();
        let holder = plan.held.get(&name(place)).map(|holder| holder.member);
        let at = holder.or_else(|| queue.pop_front());
        Permission { at, arrived: at.is_some(), queue, count: 0 }
    }

    /// Whatever anybody holds when a view begins, its plan must know.
    fn check_plan(&mut self, plan: &Plan) {
        if self.views.keys().next_back().is_some_and(|&last| last > plan.view) {
            return;
        }
        for place in 0..NAMES {
            for (holder, token) in self.believers(place) {
                let known = plan.held.get(&name(place)).map(|holder| holder.token.number());
                if known != Some(token) {
                    let view = plan.view;
                    self.fails(format!(
                        "view {view} begins and does not know that {holder} holds {place}"
                    ));
                }
            }
        }
    }

    /// Who believes now that it holds a lock, and with which token.
    pub(crate) fn believers(&self, place: usize) -> Vec<(String, u64)> {
        let mut all = Vec::new();
        for slot in 0..self.nodes.len() {
            let Some(layer) = &self.nodes[slot].layer else { continue };
            let held = self.nodes[slot].locks.held.get(&place);
            let Some(held) = held.filter(|held| held.session.is_none()) else { continue };
            let until = held.until.unwrap_or_else(|| layer.good_until());
            if self.local(slot) < until {
                all.push((format!("guard at {}", self.instance(slot)), held.token));
            }
        }
        for (number, client) in self.externals.iter().enumerate() {
            if let Some(token) = client.believes(self.now, place) {
                all.push((format!("client {number}"), token));
            }
        }
        all
    }

    /// A client is notified that it holds a lock.
    pub(crate) fn check_grant(&mut self, who: &str, place: usize, token: u64) {
        let believers = self.believers(place);
        self.note(|| format!("{who} holds {place} with {token}"));
        if let Some((other, _)) = believers.first() {
            return self.fails(format!("{other} and {who} both hold lock {place}"));
        }
        let last = self.tokens[place];
        if token <= last {
            return self.fails(format!("{who} gets token {token} for {place} after {last}"));
        }
        self.tokens[place] = token;
    }
}
