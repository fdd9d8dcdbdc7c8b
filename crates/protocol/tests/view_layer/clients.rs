//! Clients outside the nodes' processes: they outlive their nodes, and hold until their TTL ends.

use std::time::Duration;

use mutua_algorithms::{FencingToken, Time};
use mutua_protocol::views::{Claim, Client, Stage, ViewNumber};

use super::{
    locks::{NAMES, Session, Waiter, name},
    world::{Event, Layers},
};

/// What clients and nodes say to each other.
#[derive(Clone, Debug)]
pub(crate) enum Word {
    Acquire {
        session: u64,
        name: usize,
        ttl: Duration,
        sent: u64,
    },
    Renew {
        session: u64,
        sent: u64,
    },
    Renewed {
        session: u64,
        sent: u64,
    },
    Granted {
        session: u64,
        token: u64,
    },
    Reclaim {
        session: u64,
        name: usize,
        token: u64,
        ttl: Duration,
        sent: u64,
    },
    /// The lock is held for the client elsewhere.
    Elsewhere {
        session: u64,
        slot: usize,
    },
    Release {
        session: u64,
    },
}

impl Layers {
    pub(crate) fn tell_client(&mut self, client: usize, word: Word) {
        if !self.dice.one_in(20) {
            let most = if self.dice.one_in(10) { 800_000 } else { 3000 };
            let wait = self.dice.micros(50, most);
            self.after(wait, Event::ToClient { client, word });
        }
    }

    fn tell_node(&mut self, client: usize, word: Word) {
        let slot = self.externals[client].slot;
        if !self.dice.one_in(20) {
            let most = if self.dice.one_in(10) { 800_000 } else { 3000 };
            let wait = self.dice.micros(50, most);
            self.after(wait, Event::ToNode { slot, client, word });
        }
    }

    fn pick(&mut self) -> usize {
        let slots: Vec<_> =
            (0..self.nodes.len()).filter(|&slot| self.nodes[slot].role.holds_locks()).collect();
        slots[self.dice.below(slots.len() as u64) as usize]
    }

    pub(crate) fn on_external(&mut self, client: usize, step: u64) {
        if self.externals[client].step != step {
            return;
        }
        let now = self.now;
        let one = self.externals[client].clone();
        if self.gives_up(client) {
            return;
        }
        let (session, sent) = (one.session, now);
        if let Some(token) = one.token {
            if now >= one.leave_at {
                self.note(|| format!("client {client} leaves"));
                self.externals[client].token = None;
                self.tell_node(client, Word::Release { session });
                let wait = self.dice.micros(1000, 1_500_000);
                return self.external_step(client, wait);
            }
            if now - one.renewed_at > one.ttl.as_nanos() as u64 / 3 {
                self.externals[client].slot = self.pick();
                let (name, ttl) = (one.name, one.ttl);
                self.tell_node(client, Word::Reclaim { session, name, token, ttl, sent });
            } else {
                self.tell_node(client, Word::Renew { session, sent });
            }
        } else if one.waiting {
            self.tell_node(client, Word::Renew { session, sent });
        } else {
            let slot = self.pick();
            let name = self.dice.below(NAMES as u64) as usize;
            let ttl = Duration::from_millis([1000, 4000, 9000][self.dice.below(3) as usize]);
            let session = self.dice.below(u64::MAX);
            let known = &mut self.externals[client];
            (known.slot, known.name, known.ttl, known.session) = (slot, name, ttl, session);
            known.waiting = true;
            known.valid_until = now + ttl.as_nanos() as u64;
            self.tell_node(client, Word::Acquire { session, name, ttl, sent });
            return self.external_step(client, ttl / 4);
        }
        self.external_step(client, one.ttl / 6);
    }

    pub(crate) fn on_client_word(&mut self, client: usize, word: Word) {
        let now = self.now;
        match word {
            Word::Renewed { session, sent } if session == self.externals[client].session => {
                let one = &mut self.externals[client];
                if now >= one.valid_until && one.token.is_some() {
                    return;
                }
                one.renewed(now, sent);
            }
            Word::Granted { session, token } if session == self.externals[client].session => {
                if !self.externals[client].waiting || now >= self.externals[client].valid_until {
                    return;
                }
                self.counts.external += 1;
                let place = self.externals[client].name;
                self.check_grant(&format!("client {client}"), place, token);
                let hold = self.dice.micros(1000, 6_000_000).as_nanos() as u64;
                let one = &mut self.externals[client];
                one.waiting = false;
                one.token = Some(token);
                one.leave_at = now + hold;
                self.external_step(client, Duration::from_millis(1));
            }
            Word::Elsewhere { session, slot } if session == self.externals[client].session => {
                self.counts.reclaims += 1;
                self.externals[client].slot = slot;
                let (session, sent) = (self.externals[client].session, now);
                self.tell_node(client, Word::Renew { session, sent });
            }
            _ => {}
        }
    }

    pub(crate) fn on_node_word(&mut self, slot: usize, client: usize, word: Word) {
        if self.nodes[slot].layer.is_none() {
            return;
        }
        // A process that was stopped handles its lapse first.
        self.call(slot, |layer, now| layer.tick(now));
        match word {
            Word::Acquire { session, name, ttl, sent } => {
                let now = self.local(slot);
                let expires = now.after(self.settings.on_any_clock(ttl));
                let view = ViewNumber(0);
                let new = Session { client, session, ttl, expires, told: false, view };
                let waiter = Waiter { since: now, session: Some(new) };
                self.nodes[slot].locks.waiting.entry(name).or_default().push(waiter);
                self.renew(slot, client, session, sent);
                self.settle(slot);
            }
            Word::Renew { session, sent } => {
                self.renew(slot, client, session, sent);
            }
            Word::Reclaim { session, name, token, ttl, sent } => {
                if !self.renew(slot, client, session, sent) {
                    let client =
                        Client { session, ttl, value: (client as u64).to_le_bytes().to_vec() };
                    self.reclaim(slot, name, token, client);
                }
            }
            Word::Release { session } => {
                let held = &self.nodes[slot].locks.held;
                let of = |held: &super::locks::Held| {
                    held.session.as_ref().is_some_and(|one| one.session == session)
                };
                let place = held.iter().find(|(_, held)| of(held)).map(|(&place, _)| place);
                if let Some(place) = place {
                    self.let_go(slot, place);
                    self.settle(slot);
                }
            }
            Word::Renewed { .. } | Word::Granted { .. } | Word::Elsewhere { .. } => {}
        }
    }

    /// Renews a session that is known here, if the lease is good; says whether it is known.
    fn renew(&mut self, slot: usize, client: usize, session: u64, sent: u64) -> bool {
        let now = self.local(slot);
        let good = self.nodes[slot].layer.as_ref().is_some_and(|layer| layer.may_renew(now));
        let locks = &mut self.nodes[slot].locks;
        let held = locks.held.values_mut().filter_map(|held| held.session.as_mut());
        let waiting = locks.waiting.values_mut().flatten().filter_map(|one| one.session.as_mut());
        let known = held.chain(waiting).find(|one| one.session == session && one.expires > now);
        let Some(known) = known else { return false };
        if good {
            known.expires = now.after(self.settings.on_any_clock(known.ttl));
            let (expires, told) = (known.expires, known.told);
            if told {
                self.note_lease(slot, expires);
            }
            self.tell_client(client, Word::Renewed { session, sent });
            self.tell_again(slot, client, session);
        }
        true
    }

    /// The word that it was granted may have been lost.
    fn tell_again(&mut self, slot: usize, client: usize, session: u64) {
        let begun = self.nodes[slot].layer.as_ref().and_then(|layer| layer.begun());
        let view = begun.map(|view| view.number);
        let held = self.nodes[slot].locks.held.values().find_map(|held| {
            let known = held.session.as_ref().filter(|one| one.session == session && one.told)?;
            (Some(known.view) == view).then_some((held.token, known.session))
        });
        let now = self.local(slot);
        let good = self.nodes[slot].layer.as_ref().is_some_and(|layer| layer.may_grant(now));
        if let Some((token, session)) = held.filter(|_| good) {
            self.tell_client(client, Word::Granted { session, token });
        }
    }

    /// A client says that it holds a lock whose node is gone.
    fn reclaim(&mut self, slot: usize, place: usize, token: u64, client: Client) {
        let layer = self.nodes[slot].layer.as_ref().expect("up");
        match layer.stage() {
            Stage::Begun => {
                let known = self.nodes[slot].locks.plan.held.get(&name(place)).cloned();
                if let Some(holder) = known.filter(|holder| holder.token.number() == token)
                    && let Some(at) = self.slot_of(holder.member.member)
                {
                    let number = u64::from_le_bytes(client.value[..8].try_into().expect("eight"));
                    let word = Word::Elsewhere { session: client.session, slot: at };
                    self.tell_client(number as usize, word);
                }
            }
            Stage::Joining | Stage::Reported => {
                let token = FencingToken(Time::from_number(token));
                let reported = layer.stage() == Stage::Reported;
                self.nodes[slot].locks.claims.insert(place, Claim { token, client });
                if reported {
                    self.report(slot);
                }
            }
            Stage::Out | Stage::Waiting { .. } | Stage::Leaving => {}
        }
    }
}
