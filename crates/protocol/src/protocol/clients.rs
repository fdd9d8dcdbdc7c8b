//! Clients: they open names, request, wait, hold and release.

use mutua_algorithms::{FencingToken, Phase};
use mutua_trace::What;

use super::{Protocol, Timer, ViewState};
use crate::{
    Answer, Effect, LockId, MAX_NAME, Member, Moment, Owner, Refusal, Ticket,
    table::{HeldFor, Waiter},
};

impl Protocol {
    /// The lock of this name. It stays until it is closed as often as it was opened. `None` if the
    /// name is longer than [`MAX_NAME`].
    pub fn open(&mut self, name: &[u8]) -> Option<LockId> {
        if name.len() > MAX_NAME {
            return None;
        }
        let plan = &self.config.plan;
        let lock = self.table.find_or_make(name, || plan.rule_of(name));
        self.table.open(lock);
        Some(lock)
    }

    /// Gives back a lock that was [opened](Self::open).
    pub fn close(&mut self, lock: LockId) {
        self.table.close(lock);
    }

    /// Requests the lock for a client, which waits until the lock is granted.
    pub fn acquire(&mut self, now: Moment, lock: LockId, owner: Owner) -> Answer {
        if self.may_grant(now) {
            if self.is_free_here(lock) {
                return self.enter_or_wait(now, lock, owner);
            }
            if self.table.entry(lock).phase() == Phase::Idle
                && let Some(full) = self.full_link()
            {
                return Answer::Refused(Refusal::LinkFull(full));
            }
        }
        let ticket = self.next_ticket();
        self.table.entry(lock).waiting.insert(ticket, Waiter { since: now, owner });
        Answer::Waiting { ticket }
    }

    /// Cancels a ticket: a waiter stops waiting, a holder releases. Returns whether the ticket was
    /// valid until now.
    pub fn cancel(&mut self, now: Moment, lock: LockId, ticket: Ticket) -> bool {
        let queries = self.queries.len();
        self.queries.retain(|_, query| query.ticket != ticket);
        let waited = self.table.entry(lock).waiting.remove(&ticket).is_some();
        // It may have been granted while the cancellation was on its way; a client that tries may
        // still have a query out then.
        let released = !waited && self.release(now, lock, ticket);
        waited || released || self.queries.len() < queries
    }

    /// Releases the lock. Returns whether the ticket held it: a ticket is released once.
    pub fn release(&mut self, now: Moment, lock: LockId, ticket: Ticket) -> bool {
        let entry = self.table.entry(lock);
        let Some(holder) = entry.holder.take_if(|holder| holder.ticket == ticket) else {
            return false;
        };
        entry.used = now;
        if !matches!(holder.held_for, HeldFor::Process) {
            self.end_record(lock, holder.fence);
        }
        let entry = self.table.entry(lock);
        let Some(machine) = &mut entry.machine else {
            // In no view. If it was the last one, the next view need not wait for this node.
            self.set_timer(now, Timer::HoldsEnd);
            return true;
        };
        // Other nodes may have waiters, which this one cannot know of.
        if entry.waiting.is_empty() || entry.run >= self.config.limits.run {
            entry.run = 0;
            let alone = entry.waiting.is_empty();
            machine.release(&mut self.posts);
            self.trace_input(now, lock, What::Exit);
            self.dispatch(now, lock);
            if alone {
                return true;
            }
        }
        self.settle(now, lock);
        true
    }

    /// Whether a release of this lock affects no other client of this node and no trace: no client
    /// here waits, so that nothing is granted. The release may then take an older reading of the
    /// clock.
    pub fn leaves_alone(&self, lock: LockId) -> bool {
        self.tracers.is_empty()
            && self.table.get(lock).is_some_and(|entry| entry.waiting.is_empty())
    }

    /// Whether no client of this node holds the lock or waits for it.
    pub fn is_free(&self, lock: LockId) -> bool {
        self.table.get(lock).is_none_or(|entry| !entry.is_wanted())
    }

    /// The fencing token, if this ticket holds the lock.
    pub fn holds(&self, lock: LockId, ticket: Ticket) -> Option<FencingToken> {
        let holder = self.table.get(lock)?.holder.as_ref()?;
        (holder.ticket == ticket).then_some(holder.fence)
    }

    /// Whether this ticket does not hold the lock, or is losing it: see [`Effect::Lost`].
    pub fn is_lost(&self, lock: LockId, ticket: Ticket) -> bool {
        let holder = self.table.get(lock).and_then(|entry| entry.holder.as_ref());
        holder.is_none_or(|holder| holder.ticket != ticket || holder.ends < Moment::NEVER)
    }

    /// Whether locks can be granted now.
    pub(super) fn may_grant(&self, now: Moment) -> bool {
        matches!(&self.view_state, ViewState::In(view) if now < view.good_until)
    }

    /// Whether this node is in a view, whatever its lease.
    pub(super) fn is_in_view(&self) -> bool {
        matches!(&self.view_state, ViewState::In(_))
    }

    /// Whether a new client would be the first of this node.
    pub(super) fn is_free_here(&mut self, lock: LockId) -> bool {
        let entry = self.table.entry(lock);
        !entry.is_wanted() && entry.frozen.is_none()
    }

    /// Serves the first client of this node: it enters at once if its process can, else the process
    /// requests.
    pub(super) fn enter_or_wait(&mut self, now: Moment, lock: LockId, owner: Owner) -> Answer {
        self.ensure_machine(now, lock);
        let entry = self.table.entry(lock);
        let machine = entry.machine.as_mut().expect("just made");
        let free = machine.phase() == Phase::Idle;
        if free
            && !machine.would_enter_at_once()
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

    /// Grants the lock to the next waiter of this node, whose process is in the critical section.
    pub(super) fn grant_next(&mut self, now: Moment, lock: LockId) {
        let entry = self.table.entry(lock);
        let machine = entry.machine.as_mut().expect("a process in the critical section");
        let stays = entry.fence.is_none();
        let fence = entry.fence.take().unwrap_or_else(|| {
            // The lock stays with this node: the clock steps, so that the fencing token grows.
            machine.raise_time(machine.time().next());
            FencingToken(machine.time())
        });
        let (ticket, waiter) = entry.waiting.pop_first().expect("a waiter");
        entry.hold(now, ticket, fence, waiter.owner);
        if stays {
            self.trace_stay(now, lock, fence);
        }
        self.effects.push(Effect::Granted { ticket, fence });
    }

    /// The first member whose link has too many messages waiting.
    pub(super) fn full_link(&self) -> Option<Member> {
        self.members().iter().copied().find(|peer| {
            let link = self.links[peer.index()].as_ref();
            link.is_some_and(|link| link.is_full(self.config.limits.backlog))
        })
    }
}
