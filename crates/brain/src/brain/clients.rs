//! Clients: they open names, ask, wait, are inside, leave.

use mutua_algorithms::{Fence, Phase};
use mutua_trace::What;

use super::{Brain, Standing};
use crate::{
    Answer, Effect, LockId, MAX_NAME, Member, Moment, Owner, Refusal, Ticket, table::Waiter,
};

impl Brain {
    /// The lock of this name, which stays until it is closed as often as it was opened. `None` if
    /// the name is longer than [`MAX_NAME`].
    pub fn open(&mut self, name: &[u8]) -> Option<LockId> {
        if name.len() > MAX_NAME {
            return None;
        }
        let plan = &self.seat.plan;
        let lock = self.table.find_or_make(name, || plan.rule_of(name));
        self.table.open(lock);
        Some(lock)
    }

    /// The caller will not use the lock any more.
    pub fn close(&mut self, lock: LockId) {
        self.table.close(lock);
    }

    /// Somebody asks for the lock and waits until it is its turn.
    pub fn acquire(&mut self, now: Moment, lock: LockId, owner: Owner) -> Answer {
        if self.may_grant(now) {
            if self.is_free_here(lock) {
                return self.enter_or_wait(now, lock, owner);
            }
            if self.table.entry(lock).phase() == Phase::Outside
                && let Some(full) = self.full_link()
            {
                return Answer::Refused(Refusal::LinkFull(full));
            }
        }
        let ticket = self.next_ticket();
        self.table.entry(lock).waiting.insert(ticket, Waiter { since: now, owner });
        Answer::Waiting { ticket }
    }

    /// Somebody does not want to wait any longer, or leaves: its ticket is worth nothing from now
    /// on. Says whether it still was.
    pub fn cancel(&mut self, now: Moment, lock: LockId, ticket: Ticket) -> bool {
        let asked = self.asks.len();
        self.asks.retain(|_, asking| asking.ticket != ticket);
        let waited = self.table.entry(lock).waiting.remove(&ticket).is_some();
        // It may have been granted while the word that it gives up was on its way; one who tries
        // may still have a question out then.
        let left = !waited && self.release(now, lock, ticket);
        waited || left || self.asks.len() < asked
    }

    /// Somebody leaves. Says whether it was inside: a ticket opens nothing twice.
    pub fn release(&mut self, now: Moment, lock: LockId, ticket: Ticket) -> bool {
        let entry = self.table.entry(lock);
        if entry.holder.take_if(|holder| holder.ticket == ticket).is_none() {
            return false;
        }
        entry.used = now;
        let Some(machine) = &mut entry.machine else { return true };
        // Others get their turn: whether any wait is not for us to know.
        if entry.waiting.is_empty() || entry.run >= self.seat.limits.run {
            entry.run = 0;
            let alone = entry.waiting.is_empty();
            machine.release(&mut self.posts);
            self.trace_told(now, lock, What::Exit);
            self.dispatch(now, lock);
            if alone {
                return true;
            }
        }
        self.settle(now, lock);
        true
    }

    /// Whether leaving this lock is nobody's business but its own: no client of this node waits, so
    /// that nothing is granted, nor is it written down; and an older reading of the clock does.
    pub fn leaves_alone(&self, lock: LockId) -> bool {
        self.tracer.is_none() && self.table.get(lock).is_some_and(|entry| entry.waiting.is_empty())
    }

    /// Whether nobody of this node is inside or waits.
    pub fn is_free(&self, lock: LockId) -> bool {
        self.table.get(lock).is_none_or(|entry| !entry.is_wanted())
    }

    /// The fence, if this ticket is inside.
    pub fn holds(&self, lock: LockId, ticket: Ticket) -> Option<Fence> {
        let holder = self.table.get(lock)?.holder.as_ref()?;
        (holder.ticket == ticket).then_some(holder.fence)
    }

    /// Whether grants are possible at all.
    pub(super) fn may_grant(&self, now: Moment) -> bool {
        matches!(&self.standing, Standing::In(view) if now < view.good_until)
    }

    /// Whether nobody of this node stands before a new client.
    pub(super) fn is_free_here(&mut self, lock: LockId) -> bool {
        let entry = self.table.entry(lock);
        !entry.is_wanted() && entry.frozen.is_none()
    }

    /// The first client of this node: in at once if the token is here, else the node asks for it.
    pub(super) fn enter_or_wait(&mut self, now: Moment, lock: LockId, owner: Owner) -> Answer {
        self.ensure_machine(now, lock);
        let entry = self.table.entry(lock);
        let machine = entry.machine.as_mut().expect("just made");
        let free = machine.phase() == Phase::Outside;
        if free
            && !machine.token_here()
            && let Some(full) = self.full_link()
        {
            return Answer::Refused(Refusal::LinkFull(full));
        }
        let ticket = self.next_ticket();
        let entry = self.table.entry(lock);
        entry.used = now;
        let machine = entry.machine.as_mut().expect("just made");
        let fence = if free { machine.request(&mut self.posts) } else { None };
        if let Some(fence) = fence {
            entry.hold(now, ticket, fence, owner);
            self.trace_request(now, lock, Some(fence));
            self.dispatch(now, lock);
            return Answer::Granted { ticket, fence };
        }
        entry.waiting.insert(ticket, Waiter { since: now, owner });
        if free {
            self.trace_request(now, lock, None);
        }
        self.dispatch(now, lock);
        if free {
            self.nudge_if_slow(now, lock);
        }
        Answer::Waiting { ticket }
    }

    /// The next of this node's clients is inside: the process is, and nobody else is.
    pub(super) fn grant_next(&mut self, now: Moment, lock: LockId) {
        let entry = self.table.entry(lock);
        let machine = entry.machine.as_mut().expect("a process that is inside");
        let stays = entry.fence.is_none();
        let fence = entry.fence.take().unwrap_or_else(|| {
            // The lock stayed with this node: the clock steps, so that the fence grows.
            machine.raise_time(machine.time().next());
            Fence(machine.time())
        });
        let (ticket, waiter) = entry.waiting.pop_first().expect("somebody who waits");
        entry.hold(now, ticket, fence, waiter.owner);
        if stays {
            self.trace_stay(now, lock, fence);
        }
        self.effects.push(Effect::Granted { ticket, fence });
    }

    /// The first link on which too much waits.
    pub(super) fn full_link(&self) -> Option<Member> {
        self.others().find(|peer| {
            let link = self.links[peer.index()].as_ref();
            link.is_some_and(|link| link.is_full(self.seat.limits.backlog))
        })
    }
}
