//! Trying: in if nobody is inside or waits, else not at all.
//!
//! With the token here that is known at once. Otherwise the members are asked, and one that says
//! busy decides it. When all have said that it is free the node asks for the lock like anybody
//! else; since somebody may have been faster, it goes on asking whether somebody is inside, and
//! gives up when one says so. An algorithm cannot take a request back, so the lock may still come:
//! it is passed on.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use mutua_algorithms::Phase;

use super::{Brain, Standing, Timer};
use crate::{
    Answer, Effect, LockId, Member, Moment, Owner, Refusal, Ticket, table::Waiter, wire::Message,
};

/// How often somebody who tries asks whether somebody else was faster.
const ASK_EVERY: Duration = Duration::from_millis(20);

/// A question to the members.
#[derive(Debug)]
pub(super) struct Asking {
    pub(super) ticket: Ticket,
    lock: LockId,
    owner: Owner,
    /// Who has not answered yet.
    missing: BTreeSet<Member>,
    /// The lock has been asked for; now it is only about somebody being inside.
    requested: bool,
}

impl Brain {
    /// Somebody wants in if nobody is inside or waits. If it is told to wait, it is not for long:
    /// an answer comes as soon as the members have answered.
    pub fn try_acquire(&mut self, now: Moment, lock: LockId, owner: Owner) -> Answer {
        if let Standing::Apart { why } = &self.standing {
            return Answer::Refused(Refusal::NoView(why.clone()));
        }
        if let Some(peer) = self.missing() {
            return Answer::Refused(Refusal::Unreachable(peer));
        }
        if !self.may_grant(now) {
            let why = "the next view is about to begin".to_owned();
            return Answer::Refused(Refusal::NoView(why));
        }
        if self.table.entry(lock).is_wanted() {
            return Answer::Refused(Refusal::Busy);
        }
        let entry = self.table.entry(lock);
        if entry.frozen.is_none() {
            self.ensure_machine(now, lock);
            let machine = self.table.entry(lock).machine.as_ref().expect("just made");
            if machine.token_here() && machine.phase() == Phase::Outside {
                return self.enter_or_wait(now, lock, owner);
            }
        }
        if let Some(full) = self.full_link() {
            return Answer::Refused(Refusal::LinkFull(full));
        }
        let ticket = self.next_ticket();
        self.ask(now, Asking { ticket, lock, owner, missing: BTreeSet::new(), requested: false });
        Answer::Waiting { ticket }
    }

    /// Asks all members, or goes on at once if there are none.
    fn ask(&mut self, now: Moment, mut asking: Asking) {
        let Some(epoch) = self.epoch_of_view() else { return };
        let id = self.next_number();
        let name = Arc::clone(&self.table.entry(asking.lock).name);
        let waiting_counts = !asking.requested;
        for peer in self.others() {
            asking.missing.insert(peer);
            self.link(peer).send(Message::Ask { epoch, id, name: &name, waiting_counts });
            self.ready.insert(peer);
        }
        let all_answered = asking.missing.is_empty();
        self.asks.insert(id, asking);
        if all_answered {
            self.on_all_free(now, id);
        }
    }

    /// Whether somebody here is inside, or waits too.
    pub(super) fn is_busy(&self, name: &[u8], waiting_counts: bool) -> bool {
        let entry = self.table.find(name).and_then(|lock| self.table.get(lock));
        entry.is_some_and(|entry| {
            entry.holder.is_some() || (waiting_counts && !entry.waiting.is_empty())
        })
    }

    pub(super) fn on_answer(&mut self, now: Moment, from: Member, id: u64, busy: bool) {
        let Some(asking) = self.asks.get_mut(&id) else { return };
        if !asking.missing.remove(&from) {
            return;
        }
        if busy {
            let asking = self.asks.remove(&id).expect("just found");
            self.give_up(asking, Refusal::Busy);
        } else if asking.missing.is_empty() {
            self.on_all_free(now, id);
        }
    }

    fn on_all_free(&mut self, now: Moment, id: u64) {
        let asking = self.asks.get_mut(&id).expect("a question that was just answered");
        if asking.requested {
            return self.set_timer(now.after(ASK_EVERY), Timer::Ask(id));
        }
        let asking = self.asks.remove(&id).expect("just found");
        let Asking { ticket, lock, ref owner, .. } = asking;
        let entry = self.table.entry(lock);
        if entry.is_wanted() {
            return self.give_up(asking, Refusal::Busy);
        }
        entry.waiting.insert(ticket, Waiter { since: now, owner: owner.clone() });
        self.settle(now, lock);
        self.ask_whether_inside(now, asking);
    }

    /// Another question, unless the one who tries is inside by now.
    pub(super) fn ask_again(&mut self, now: Moment, id: u64) {
        let Some(asking) = self.asks.remove(&id) else { return };
        self.ask_whether_inside(now, asking);
    }

    fn ask_whether_inside(&mut self, now: Moment, asking: Asking) {
        if self.table.entry(asking.lock).waiting.contains_key(&asking.ticket) {
            self.ask(now, Asking { requested: true, missing: BTreeSet::new(), ..asking });
        }
    }

    /// The view has ended: nobody can be asked.
    pub(super) fn refuse_asks(&mut self, why: &Refusal) {
        for asking in std::mem::take(&mut self.asks).into_values() {
            self.give_up(asking, why.clone());
        }
    }

    /// This member will not answer, not soon.
    pub(super) fn refuse_asks_of(&mut self, peer: Member) {
        let lost = self.asks.extract_if(.., |_, asking| asking.missing.contains(&peer));
        for asking in lost.map(|(_, asking)| asking).collect::<Vec<_>>() {
            self.give_up(asking, Refusal::Unreachable(peer));
        }
    }

    /// Tells the one who tries, unless it is inside already.
    fn give_up(&mut self, asking: Asking, why: Refusal) {
        let waiting = &mut self.table.entry(asking.lock).waiting;
        if waiting.remove(&asking.ticket).is_some() || !asking.requested {
            self.effects.push(Effect::Refused { ticket: asking.ticket, why });
        }
    }
}
