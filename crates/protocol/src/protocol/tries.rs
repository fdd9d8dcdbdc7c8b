//! Requests that do not wait: granted if no client holds the lock or waits for it, else refused.
//!
//! With the token here that is known at once. Otherwise the node queries the members, and one that
//! replies busy decides it. When all have replied that the lock is free, the node requests it as
//! usual; since another client may have been faster, it goes on querying whether one holds it, and
//! gives up when a member replies so. An algorithm cannot take a request back, so the grant may
//! still come: it is passed on.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use mutua_algorithms::Phase;

use super::{Protocol, Timer, ViewState};
use crate::{
    Answer, Effect, LockId, Member, Moment, Owner, Refusal, Ticket, table::Waiter, wire::Message,
};

/// The pause between two queries for a client that tries.
const QUERY_EVERY: Duration = Duration::from_millis(20);

/// A query to the members.
#[derive(Debug)]
pub(super) struct Query {
    pub(super) ticket: Ticket,
    lock: LockId,
    owner: Owner,
    /// The members that have not replied yet.
    unanswered: BTreeSet<Member>,
    /// The lock has been requested; from now on only a holder counts, not a waiter.
    requested: bool,
}

impl Protocol {
    /// Requests the lock for a client that does not want to wait. If the answer is
    /// [`Answer::Waiting`], the decision comes as soon as the members have replied.
    pub fn try_acquire(&mut self, now: Moment, lock: LockId, owner: Owner) -> Answer {
        if let ViewState::Apart { why } = &self.view_state {
            return Answer::Refused(Refusal::NoView(why.clone()));
        }
        if !self.may_grant(now) {
            let why =
                self.stopped().unwrap_or_else(|| "the next view is about to begin".to_owned());
            return Answer::Refused(Refusal::NoView(why));
        }
        if let Some(peer) = self.unlinked() {
            return Answer::Refused(Refusal::Unreachable(peer));
        }
        if self.table.entry(lock).is_wanted() {
            return Answer::Refused(Refusal::Busy);
        }
        let entry = self.table.entry(lock);
        if entry.frozen.is_none() {
            self.ensure_machine(now, lock);
            let machine = self.table.entry(lock).machine.as_ref().expect("just made");
            if machine.would_enter_at_once() && machine.phase() == Phase::Idle {
                return self.enter_or_wait(now, lock, owner);
            }
        }
        if let Some(full) = self.full_link() {
            return Answer::Refused(Refusal::LinkFull(full));
        }
        let ticket = self.next_ticket();
        self.query(
            now,
            Query { ticket, lock, owner, unanswered: BTreeSet::new(), requested: false },
        );
        Answer::Waiting { ticket }
    }

    /// Queries all members, or goes on at once if there are no others.
    fn query(&mut self, now: Moment, mut query: Query) {
        let Some(epoch) = self.epoch_of_view() else { return };
        let id = self.next_number();
        let name = Arc::clone(&self.table.entry(query.lock).name);
        let waiting_counts = !query.requested;
        for peer in self.others() {
            query.unanswered.insert(peer);
            self.link(peer).send(Message::Query { epoch, id, name: &name, waiting_counts });
            self.ready.insert(peer);
        }
        let all_replied = query.unanswered.is_empty();
        self.queries.insert(id, query);
        if all_replied {
            self.on_all_free(now, id);
        }
    }

    /// Whether a client here holds the lock, or waits for it if waiters count.
    pub(super) fn is_busy(&self, name: &[u8], waiting_counts: bool) -> bool {
        let entry = self.table.find(name).and_then(|lock| self.table.get(lock));
        entry.is_some_and(|entry| {
            entry.holder.is_some() || (waiting_counts && !entry.waiting.is_empty())
        })
    }

    pub(super) fn on_query_reply(&mut self, now: Moment, from: Member, id: u64, busy: bool) {
        let Some(query) = self.queries.get_mut(&id) else { return };
        if !query.unanswered.remove(&from) {
            return;
        }
        if busy {
            let query = self.queries.remove(&id).expect("just found");
            self.give_up(query, Refusal::Busy);
        } else if query.unanswered.is_empty() {
            self.on_all_free(now, id);
        }
    }

    fn on_all_free(&mut self, now: Moment, id: u64) {
        let query = self.queries.get_mut(&id).expect("a query with a reply");
        if query.requested {
            return self.set_timer(now.after(QUERY_EVERY), Timer::Query(id));
        }
        let query = self.queries.remove(&id).expect("just found");
        let Query { ticket, lock, ref owner, .. } = query;
        let entry = self.table.entry(lock);
        if entry.is_wanted() {
            return self.give_up(query, Refusal::Busy);
        }
        entry.waiting.insert(ticket, Waiter { since: now, owner: owner.clone() });
        self.settle(now, lock);
        self.query_holders(now, query);
    }

    /// Queries again, unless the client that tries holds the lock by now.
    pub(super) fn query_again(&mut self, now: Moment, id: u64) {
        let Some(query) = self.queries.remove(&id) else { return };
        self.query_holders(now, query);
    }

    fn query_holders(&mut self, now: Moment, query: Query) {
        if self.table.entry(query.lock).waiting.contains_key(&query.ticket) {
            self.query(now, Query { requested: true, unanswered: BTreeSet::new(), ..query });
        }
    }

    /// The view has ended: no member can be queried.
    pub(super) fn refuse_queries(&mut self, why: &Refusal) {
        for query in std::mem::take(&mut self.queries).into_values() {
            self.give_up(query, why.clone());
        }
    }

    /// This member is disconnected: it will not reply soon.
    pub(super) fn refuse_queries_to(&mut self, peer: Member) {
        let lost = self.queries.iter().filter(|(_, query)| query.unanswered.contains(&peer));
        for id in lost.map(|(&id, _)| id).collect::<Vec<_>>() {
            if let Some(query) = self.queries.remove(&id) {
                self.give_up(query, Refusal::Unreachable(peer));
            }
        }
    }

    /// Refuses the client that tries, unless it holds the lock already.
    fn give_up(&mut self, query: Query, why: Refusal) {
        let waiting = &mut self.table.entry(query.lock).waiting;
        if waiting.remove(&query.ticket).is_some() || !query.requested {
            self.effects.push(Effect::Refused { ticket: query.ticket, why });
        }
    }
}
