//! Clients outside the nodes' processes: they outlive their nodes, renew at any node that serves
//! them, and hold until their TTL ends. A node's part of it is what a server around the node does.

use std::time::Duration;

use mutua_algorithms::{FencingToken, Time};
use mutua_protocol::{Answer, Moment, Ticket, views};

use super::{
    promises::Promise,
    world::{Event, NAMES, World},
};

/// What clients and nodes send each other.
#[derive(Clone, Debug)]
pub(crate) enum Word {
    Acquire { session: u64, name: usize, ttl: Duration, sent: u64 },
    Renew { session: u64, held: Option<(usize, u64)>, ttl: Duration, sent: u64 },
    Renewed { session: u64, token: Option<u64>, sent: u64 },
    Release { session: u64 },
    Promised { session: u64, token: u64, lasts: Duration },
    Lost { session: u64 },
}

/// A session at a node.
#[derive(Clone, Debug)]
pub(crate) struct Served {
    pub(crate) client: usize,
    pub(crate) session: u64,
    pub(crate) name: usize,
    ttl: Duration,
    pub(crate) expires: Moment,
    /// When its request arrived.
    pub(crate) asked: Moment,
    /// What was promised, until the hold is recorded.
    pub(crate) promise: Option<Promise>,
    /// The token, once the client may know of it.
    token: Option<u64>,
    /// Of a hold that was taken over, until the client names its token: when it ends. A client that
    /// does not name it may never have held the lock, and others may have held it since.
    unnamed: Option<Moment>,
}

impl Served {
    /// Whether this session holds a lock, and its client knows that.
    pub(crate) fn holds(&self, session: u64) -> bool {
        self.session == session && self.token.is_some() && self.unnamed.is_none()
    }

    /// When its session or its hold ends, if nothing is renewed and named.
    fn ends(&self) -> Moment {
        self.unnamed.map_or(self.expires, |until| until.min(self.expires))
    }
}

impl World {
    /// When a message between a client and a node arrives: late, never, or twice.
    fn arrivals(&mut self) -> Vec<Duration> {
        let copies = match self.dice.below(self.words_lost) {
            0 => 0,
            1 => 2,
            _ => 1,
        };
        let mut latency = || {
            let most = if self.dice.one_in(10) { 800_000 } else { 3000 };
            self.dice.micros(50, most)
        };
        (0..copies).map(|_| latency()).collect()
    }

    pub(crate) fn send_to_node(&mut self, client: usize, word: Word) {
        let slot = self.externals[client].slot;
        for wait in self.arrivals() {
            self.after(wait, Event::ToNode { slot, client, word: word.clone() });
        }
    }

    pub(crate) fn send_to_client(&mut self, client: usize, word: Word) {
        for wait in self.arrivals() {
            self.after(wait, Event::ToClient { client, word: word.clone() });
        }
    }

    fn any_node(&mut self) -> usize {
        let slots: Vec<_> = (0..self.nodes.len()).filter(|&slot| self.holds_locks(slot)).collect();
        slots[self.dice.below(slots.len() as u64) as usize]
    }

    pub(crate) fn on_external(&mut self, client: usize, step: u64) {
        let one = self.externals[client].clone();
        if one.step != step {
            return;
        }
        let (now, session, ttl) = (self.now, one.session, one.ttl);
        if self.gives_up(client) {
            return;
        }
        if one.token.is_some() && now >= one.promised_until {
            return self.external_loses(client);
        }
        if one.token.is_some() && now >= one.leave_at {
            self.note(|| format!("external {client} releases"));
            self.externals[client].token = None;
            self.send_to_node(client, Word::Release { session });
            let wait = self.dice.micros(1000, 1_000_000);
            return self.external_step(client, wait);
        }
        if one.token.is_some() || one.waiting {
            if now - one.renewed_at > ttl.as_nanos() as u64 / 3 {
                self.externals[client].slot = self.any_node();
            }
            let held = one.token.map(|token| (one.name, token));
            self.send_to_node(client, Word::Renew { session, held, ttl, sent: now });
            return self.external_step(client, ttl / 6);
        }
        let slot = self.any_node();
        let name = self.dice.below(NAMES as u64) as usize;
        let ttl = Duration::from_millis([1000, 3000, 6000][self.dice.below(3) as usize]);
        let session = self.dice.below(u64::MAX);
        let known = &mut self.externals[client];
        (known.slot, known.name, known.ttl, known.session) = (slot, name, ttl, session);
        known.waiting = true;
        (known.valid_until, known.renewed_at) = (now + ttl.as_nanos() as u64, now);
        (known.asked_at, known.promised_until) = (now, u64::MAX);
        self.send_to_node(client, Word::Acquire { session, name, ttl, sent: now });
        self.external_step(client, ttl / 6);
    }

    pub(crate) fn on_word_to_client(&mut self, client: usize, word: Word) {
        let now = self.now;
        let one = &mut self.externals[client];
        let (session, token, sent) = match word {
            Word::Renewed { session, token, sent } => (session, token, sent),
            Word::Promised { session, token, lasts } => {
                return self.on_promised(client, session, token, lasts);
            }
            Word::Lost { session } if session == one.session => {
                return self.external_loses(client);
            }
            _ => return,
        };
        if session != one.session || !(one.waiting || one.token.is_some()) || now >= one.valid_until
        {
            return;
        }
        one.renewed(now, sent);
        if token.is_some() && token == one.token && now < one.promised_until {
            // Recorded: it lasts as its session does.
            one.promised_until = u64::MAX;
        }
        let Some(token) = token.filter(|_| one.waiting) else { return };
        self.enter_external(client, token);
    }

    /// A client is informed of its grant.
    pub(crate) fn enter_external(&mut self, client: usize, token: u64) {
        let (now, name) = (self.now, self.externals[client].name);
        self.externals[client].waiting = false;
        self.note(|| format!("external {client} holds {name} with fencing token {token}"));
        self.counts.external += 1;
        self.check_entry(name, token, &format!("external {client}"));
        let short = self.promises.is_some() && self.dice.one_in(2);
        let most = if short { 100_000 } else { 5_000_000 };
        let hold = self.dice.micros(1000, most).as_nanos() as u64;
        let one = &mut self.externals[client];
        (one.token, one.leave_at) = (Some(token), now + hold);
        if self.is_calm() {
            self.served_externals.insert(client);
        }
        self.external_step(client, Duration::from_millis(1));
    }
}

/// The nodes' part.
impl World {
    pub(crate) fn on_word_to_node(&mut self, slot: usize, client: usize, word: Word) {
        if self.nodes[slot].layer.is_none() {
            return;
        }
        // A process that was stopped handles its lapse first.
        self.call(slot, |protocol, now| protocol.tick(now));
        match word {
            Word::Acquire { session, name, ttl, sent } => {
                self.acquire_for(slot, client, session, name, ttl);
                self.renew(slot, session, None, sent);
            }
            Word::Renew { session, held, ttl, sent } => {
                let named = held.map(|(_, token)| token);
                let known = self.renew(slot, session, named, sent);
                if let Some((name, token)) = held.filter(|_| !known) {
                    // The client knows no change; where it is asked, all records are lost.
                    let value = [(client as u64).to_le_bytes(), u64::MAX.to_le_bytes()].concat();
                    let client = views::Client { session, ttl, value };
                    let token = FencingToken(Time::from_number(token));
                    self.call(slot, |protocol, now| {
                        protocol.claim(now, &Self::name(name), token, client);
                    });
                }
                self.change_value(slot, session);
            }
            Word::Release { session } => {
                let served = &self.nodes[slot].served;
                let known = served.iter().find(|(_, one)| one.session == session);
                if let Some((&ticket, _)) = known {
                    self.end_session(slot, ticket);
                }
            }
            Word::Renewed { .. } | Word::Promised { .. } | Word::Lost { .. } => {}
        }
    }

    fn acquire_for(
        &mut self,
        slot: usize,
        client: usize,
        session: u64,
        name: usize,
        ttl: Duration,
    ) {
        if self.nodes[slot].served.values().any(|known| known.session == session) {
            return;
        }
        let (now, lock) = (self.local(slot), self.nodes[slot].locks[name]);
        let expires = now.after(self.settings.on_any_clock(ttl));
        let protocol = self.nodes[slot].layer.as_mut().expect("up");
        let answer = protocol.acquire(now, lock, None);
        let (Answer::Granted { ticket, .. } | Answer::Waiting { ticket }) = answer else { return };
        let (token, unnamed, promise) = (None, None, None);
        let served =
            Served { client, session, name, ttl, expires, asked: now, promise, token, unnamed };
        self.nodes[slot].served.insert(ticket, served);
        if matches!(answer, Answer::Granted { .. }) {
            self.inform(slot, ticket);
        }
        self.pump(slot);
        self.expire_later(slot, ticket);
    }

    /// A lock was granted for a client outside: it is promised to it, or recorded first.
    pub(crate) fn inform(&mut self, slot: usize, ticket: Ticket) {
        if !self.promise(slot, ticket) {
            self.record(slot, ticket);
        }
    }

    pub(crate) fn record(&mut self, slot: usize, ticket: Ticket) {
        let served = self.nodes[slot].served[&ticket].clone();
        let value = (served.client as u64).to_le_bytes().to_vec();
        let client = views::Client { session: served.session, ttl: served.ttl, value };
        let lock = self.nodes[slot].locks[served.name];
        let now = self.local(slot);
        let protocol = self.nodes[slot].layer.as_mut().expect("up");
        assert!(protocol.record(now, lock, ticket, client), "it was granted just now");
        let Served { client, name, .. } = served;
        self.note(|| format!("{slot} records {name} for external {client}"));
    }

    pub(crate) fn on_recorded(&mut self, slot: usize, ticket: Ticket) {
        let now = self.local(slot);
        let Some(served) = self.nodes[slot].served.get(&ticket).cloned() else { return };
        let lock = self.nodes[slot].locks[served.name];
        let protocol = self.nodes[slot].layer.as_ref().expect("up");
        let token = protocol.holds(lock, ticket).map(|fence| fence.number());
        if now >= protocol.good_until() || token.is_none() {
            return self.fails(format!("{slot} records after its lease has lapsed"));
        }
        if let Some(token) = served.token {
            return self.on_change_recorded(slot, ticket, (served.session, token));
        }
        if served.expires <= now {
            return;
        }
        let Served { client, name, .. } = served;
        self.note(|| format!("{slot} has recorded {name} for external {client} with {token:?}"));
        let known = self.nodes[slot].served.get_mut(&ticket).expect("just seen");
        (known.token, known.promise) = (token, None);
        self.note_expiry(slot, served.ttl, served.expires);
        // It counts from nothing: only a renewal makes it longer.
        self.send_to_client(
            served.client,
            Word::Renewed { session: served.session, token, sent: 0 },
        );
    }

    pub(crate) fn on_custody(
        &mut self,
        slot: usize,
        ticket: Ticket,
        name: &[u8],
        token: u64,
        client: &views::Client,
    ) {
        self.counts.custodies += 1;
        self.check_change(slot, token, client);
        let name = (0..NAMES).find(|&place| Self::name(place) == name).expect("a known name");
        let number = u64::from_le_bytes(client.value[..8].try_into().expect("eight")) as usize;
        let (session, ttl) = (client.session, client.ttl);
        self.note(|| format!("{slot} holds {name} for external {number}"));
        let expires = self.local(slot).after(self.settings.on_any_clock(ttl));
        self.note_expiry(slot, ttl, expires);
        let (token, unnamed) = (Some(token), Some(expires));
        let (client, asked, promise) = (number, self.local(slot), None);
        let served = Served { client, session, name, ttl, expires, asked, promise, token, unnamed };
        self.nodes[slot].served.insert(ticket, served);
        self.expire_later(slot, ticket);
    }

    /// Renews a session that is known here, if this node may; returns whether it is known. A hold
    /// that was taken over is confirmed to a client that names its token, and reported to no other.
    fn renew(&mut self, slot: usize, session: u64, named: Option<u64>, sent: u64) -> bool {
        let now = self.local(slot);
        let node = &mut self.nodes[slot];
        let may = node.layer.as_ref().is_some_and(|protocol| protocol.may_renew(now));
        let known = node.served.values_mut().find(|one| one.session == session);
        let Some(served) = known.filter(|one| now < one.expires) else { return false };
        if may {
            served.expires = now.after(self.settings.on_any_clock(served.ttl));
            let names_it = named.is_some() && named == served.token;
            served.unnamed.take_if(|until| names_it && now < *until);
            let token = served.token.filter(|_| served.unnamed.is_none());
            let (client, expires, ttl) = (served.client, served.expires, served.ttl);
            if served.token.is_some() {
                self.note_expiry(slot, ttl, expires);
            }
            self.send_to_client(client, Word::Renewed { session, token, sent });
        }
        true
    }

    /// Written to the node's disk before the client is informed.
    fn note_expiry(&mut self, slot: usize, ttl: Duration, expires: Moment) {
        let node = &mut self.nodes[slot];
        node.leases_until = node.leases_until.max(expires);
        node.longest = node.longest.max(ttl);
    }

    fn expire_later(&mut self, slot: usize, ticket: Ticket) {
        let Some(served) = self.nodes[slot].served.get(&ticket) else { return };
        let at = self.real(slot, served.ends());
        let incarnation = self.nodes[slot].incarnation;
        self.at(at, Event::Expire { slot, incarnation, ticket });
    }

    pub(crate) fn on_expire(&mut self, slot: usize, ticket: Ticket) {
        let now = self.local(slot);
        match self.nodes[slot].served.get(&ticket) {
            Some(served) if served.expires <= now => self.end_session(slot, ticket),
            Some(served) if served.ends() <= now => {
                // The client waits: it has renewed its session, and never named a token.
                let Served { client, session, name, ttl, .. } = *served;
                self.end_session(slot, ticket);
                self.acquire_for(slot, client, session, name, ttl);
            }
            Some(_) => self.expire_later(slot, ticket),
            None => {}
        }
    }

    pub(crate) fn end_session(&mut self, slot: usize, ticket: Ticket) {
        let Some(served) = self.nodes[slot].served.remove(&ticket) else { return };
        let lock = self.nodes[slot].locks[served.name];
        self.call(slot, |protocol, now| protocol.cancel(now, lock, ticket));
    }

    /// The hold is lost: a client that was not informed waits again, and another member serves one
    /// that was.
    pub(crate) fn on_lost_for(&mut self, slot: usize, ticket: Ticket) {
        if self.keep_promise(slot, ticket) {
            return;
        }
        let served = self.nodes[slot].served[&ticket].clone();
        let lock = self.nodes[slot].locks[served.name];
        self.nodes[slot].served.remove(&ticket);
        let Served { client, name, token, .. } = served;
        self.note(|| format!("{slot} loses {name} of external {client}, informed of {token:?}"));
        let now = self.local(slot);
        let protocol = self.nodes[slot].layer.as_mut().expect("up");
        protocol.cancel(now, lock, ticket);
        if served.token.is_none() && served.expires > now {
            let answer = protocol.acquire(now, lock, None);
            let (Answer::Granted { ticket, .. } | Answer::Waiting { ticket }) = answer else {
                return;
            };
            let good = now < protocol.good_until();
            self.nodes[slot].served.insert(ticket, served);
            // A process that was paused past its lease may read the answer that renews it at once.
            match answer {
                Answer::Granted { .. } if good => self.inform(slot, ticket),
                Answer::Granted { .. } => self.fails(format!("{slot} grants without a lease")),
                Answer::Waiting { .. } | Answer::Refused(_) => {}
            }
            self.expire_later(slot, ticket);
        }
    }

    /// Whether every client outside was served since the faults stopped.
    pub(crate) fn unserved_external(&self) -> Option<usize> {
        (0..self.externals.len()).find(|client| !self.served_externals.contains(client))
    }

    pub(crate) fn add_externals(&mut self, seed: u64) {
        for _ in 0..seed % 4 {
            self.add_external();
        }
    }
}
