//! Holds of clients outside the node's process: recorded by the view's keepers before the client is
//! informed of its grant, and taken over by a custodian when the client's node is gone.
//!
//! A grant is first a hold of this process. [`Protocol::record`] sends its record to the keepers;
//! with [`Effect::Recorded`] it is the client's. If the view ends meanwhile, it is still a hold of
//! this process, in the next view too, and is recorded again there. If this node's view lease
//! lapses first, it is lost like every hold of the process: its client was never informed.
//!
//! A node that a view removes keeps what its clients hold, and renews nobody. If that view begins,
//! another member serves the clients, and this node learns in the next view it is in that the holds
//! are no longer its. If that view never begins, the node is the only one that knows.

use mutua_algorithms::FencingToken;

use super::{Protocol, decided::Layered};
use crate::{
    Effect, LockId, Moment, Ticket,
    table::{Entry, HeldFor, Holder},
    views::{Claim, Client, Instance, Plan, Record, Stage, ViewLayer, ViewNumber},
};

/// A hold of a client outside the process, as a node knows it.
#[derive(Clone, Copy, Debug)]
pub struct ClientHold<'a> {
    /// The lock.
    pub name: &'a [u8],
    /// The client's session.
    pub session: u64,
    /// The value that is recorded with it.
    pub value: &'a [u8],
    /// The ticket, if the hold is this node's.
    pub ticket: Option<Ticket>,
}

impl Protocol {
    /// Makes a hold of this process that of a client outside it. [`Effect::Recorded`] follows when
    /// the hold is recorded; before, the client must not be informed of it. Returns whether the
    /// ticket holds the lock.
    pub fn record(&mut self, now: Moment, lock: LockId, ticket: Ticket, client: Client) -> bool {
        let layered = self.config.views.is_decided();
        let entry = self.table.entry(lock);
        let holder = entry.holder.as_mut().filter(|holder| holder.ticket == ticket);
        let Some(holder) = holder.filter(|holder| holder.ends == Moment::NEVER) else {
            return false;
        };
        if layered {
            holder.held_for = HeldFor::Recording(client);
            self.send_record(now, lock);
        } else {
            // The next incarnation of this node waits for the clients of this one.
            holder.held_for = HeldFor::Client(client);
            self.effects.push(Effect::Recorded { ticket });
        }
        true
    }

    /// Changes the value that is recorded with the hold of a client outside the process.
    /// [`Effect::Recorded`] follows when all keepers have it and [`is_changing`](Self::is_changing)
    /// is false; before, a node that takes the hold over may know either value. A later change
    /// replaces one that is on its way. Returns whether the ticket holds the lock for a client.
    pub fn change_record(
        &mut self,
        now: Moment,
        lock: LockId,
        ticket: Ticket,
        value: Vec<u8>,
    ) -> bool {
        let layered = self.config.views.is_decided();
        let holder = self.table.entry(lock).holder.as_mut();
        let Some(holder) = holder.filter(|holder| holder.ticket == ticket) else { return false };
        let HeldFor::Client(client) = &mut holder.held_for else { return false };
        if layered {
            holder.change = Some(Client { value, ..client.clone() });
            self.send_record(now, lock);
        } else {
            client.value = value;
            self.effects.push(Effect::Recorded { ticket });
        }
        true
    }

    /// Whether a change of the hold's record is on its way to the keepers.
    pub fn is_changing(&self, lock: LockId, ticket: Ticket) -> bool {
        let holder = self.table.get(lock).and_then(|entry| entry.holder.as_ref());
        holder.is_some_and(|holder| holder.ticket == ticket && holder.change.is_some())
    }

    fn send_record(&mut self, now: Moment, lock: LockId) {
        let Some(host) = self.layered.as_ref().map(|layered| layered.layer.me()) else { return };
        let entry = self.table.entry(lock);
        let Some(holder) = &entry.holder else { return };
        let Some(Client { session, ttl, value }) = holder.unrecorded().cloned() else { return };
        let (name, token, hosted_since) = (entry.name.to_vec(), holder.fence, ViewNumber(0));
        let record = Record { name, token, session, ttl, host, hosted_since, value };
        self.with_layer(now, |layer| layer.record(now, record));
    }

    /// Records the holds whose records may have been lost with a view or a lease.
    pub(super) fn record_again(&mut self, now: Moment) {
        for lock in self.table.ids() {
            self.send_record(now, lock);
        }
    }

    /// All keepers have a record.
    pub(super) fn on_recorded(&mut self, now: Moment, record: &Record) {
        let good = self.may_grant(now);
        let Some(lock) = self.table.find(&record.name).filter(|_| good) else { return };
        let Some(holder) = &mut self.table.entry(lock).holder else { return };
        let is_this = holder.fence == record.token && holder.ends == Moment::NEVER;
        match &holder.held_for {
            HeldFor::Recording(client) if is_this && client.session == record.session => {
                holder.held_for = HeldFor::Client(client.clone());
                let ticket = holder.ticket;
                self.effects.push(Effect::Recorded { ticket });
            }
            HeldFor::Client(_) => {
                let is_it = |change: &mut Client| is_this && change.value == record.value;
                if let Some(changed) = holder.change.take_if(is_it) {
                    holder.held_for = HeldFor::Client(changed);
                    self.effects.push(Effect::Recorded { ticket: holder.ticket });
                }
            }
            HeldFor::Process | HeldFor::Recording(_) => {}
        }
    }

    /// The hold of a client is over: no keeper needs its record.
    pub(super) fn end_record(&mut self, lock: LockId, token: FencingToken) {
        let name = &self.table.entry(lock).name;
        if let Some(layered) = &mut self.layered {
            layered.layer.release_record(name, token);
        }
    }

    /// Sends the keepers now which holds of clients are over, and not with the next batch: a client
    /// whose release is confirmed does not find the lock held by itself if this node is lost.
    pub fn send_over(&mut self, now: Moment) {
        self.with_layer(now, |layer| layer.send_over());
    }

    /// Holds the locks for clients of lost nodes that the plan of a view gives to this node.
    pub(super) fn take_custody(&mut self, now: Moment, plan: &Plan, me: Instance) {
        let Some(layered) = &mut self.layered else { return };
        let claims = std::mem::take(&mut layered.claims);
        for (name, planned) in plan.held.iter().filter(|(_, planned)| planned.member == me) {
            let Some(client) = &planned.client else { continue };
            let claimed = claims.get(name).is_some_and(|claim| claim.token == planned.token);
            let rules = &self.config.plan;
            let lock = self.table.find_or_make(name, || rules.rule_of(name));
            if !(planned.custody || claimed) || self.table.entry(lock).holder.is_some() {
                // It has held it all the time, or the client has released it since the report.
                continue;
            }
            let ticket = self.next_ticket();
            let mut holder = Holder::new(now, ticket, planned.token, None);
            holder.held_for = HeldFor::Client(client.clone());
            let entry = self.table.entry(lock);
            entry.holder = Some(holder);
            let (name, fence, client) = (entry.name.clone(), planned.token, client.clone());
            self.effects.push(Effect::Custody { name, ticket, fence, client });
        }
    }
}

/// Clients of lost nodes, and renewals.
impl Protocol {
    /// A client reports that it holds a lock, and no node serves it. That counts only if records
    /// are lost, and for a view that has not begun: then [`Effect::Custody`] follows with the view.
    pub fn claim(&mut self, now: Moment, name: &[u8], token: FencingToken, client: Client) {
        let Some(layered) = &mut self.layered else { return };
        if layered.claim(name, Claim { token, client }) {
            self.report_if_due(now);
        }
    }

    /// What earlier incarnations of this member granted is held until this moment at the latest.
    /// Without it, the longest TTL in the cluster is waited for where records are lost.
    pub fn set_leases_until(&mut self, until: Moment) {
        self.leases_until = Some(until);
    }

    /// Whether sessions of clients outside the process may be renewed now.
    pub fn may_renew(&self, now: Moment) -> bool {
        self.view_layer().is_none_or(|layer| layer.may_renew(now))
    }

    /// Whether this node keeps a record of a lock that is held with this token.
    pub fn keeps_record(&self, name: &[u8], token: FencingToken) -> bool {
        self.view_layer().is_some_and(|layer| layer.keeps(name, token))
    }

    /// Whether any hold is such, among those of this node for clients outside the process, and
    /// those that it keeps a record of and whose host is not in its view. Of another member's
    /// holds that one knows best.
    pub fn any_kept(&self, mut is_such: impl FnMut(ClientHold<'_>) -> bool) -> bool {
        let own = |entry: &Entry, is_such: &mut dyn FnMut(ClientHold<'_>) -> bool| {
            let Some(holder) = &entry.holder else { return false };
            let Some(Client { session, value, .. }) = holder.client() else { return false };
            let ticket = Some(holder.ticket);
            is_such(ClientHold { name: &entry.name, session: *session, value, ticket })
        };
        if self.table.iter().any(|(_, entry)| own(entry, &mut is_such)) {
            return true;
        }
        let mut orphans = self.view_layer().into_iter().flat_map(ViewLayer::orphans);
        orphans.any(|Record { name, session, value, .. }| {
            is_such(ClientHold { name, session: *session, value, ticket: None })
        })
    }

    /// Whether this node is in a view that has begun, so that it knows who holds what.
    pub fn is_settled(&self, now: Moment) -> bool {
        self.may_grant(now)
    }
}

impl Layered {
    /// Notes a claim; returns whether it has to be reported.
    fn claim(&mut self, name: &[u8], claim: Claim) -> bool {
        let possible = matches!(self.layer.stage(), Stage::Joining | Stage::Reported);
        let news = possible && self.claims.get(name) != Some(&claim);
        if news {
            self.claims.insert(name.to_vec(), claim);
            self.report_due |= self.layer.stage() == Stage::Reported;
        }
        news
    }
}
