//! The line before a lock.

use super::{AskId, Desk, Effect, How, Name, Outcome, Patience, SessionId, Timer, WaitId};
use crate::Moment;

/// Somebody in a line.
pub(super) struct Wait {
    pub(super) session: SessionId,
    pub(super) name: Name,
    pub(super) since: Moment,
}

/// What the node is being asked for, on behalf of the line or of one who only tries.
pub(super) struct Asked {
    pub(super) ask: AskId,
    trier: Option<WaitId>,
}

impl Desk {
    /// A session asks for a lock. The answer is an effect that names what this gives back.
    pub fn acquire(
        &mut self,
        now: Moment,
        session: SessionId,
        name: &[u8],
        patience: Patience,
    ) -> WaitId {
        let wait = WaitId(self.number());
        if let Some(outcome) = self.answer_at_once(now, session, name, patience) {
            self.effects.push(Effect::Answer { wait, outcome });
            return wait;
        }
        let name = Name::from(name);
        self.waits.insert(wait, Wait { session, name: Name::clone(&name), since: now });
        self.sessions.get_mut(&session).expect("it is alive").waits.push(wait);
        let lock = self.locks.entry(Name::clone(&name)).or_default();
        if patience == Patience::Try {
            self.ask(&name, Some(wait));
        } else {
            lock.line.push_back(wait);
            self.ask_for_next(now, &name);
        }
        if let Patience::Until(limit) = patience {
            self.timers.insert((limit, Timer::Patience(wait)));
        }
        self.changed(&name);
        wait
    }

    fn answer_at_once(
        &self,
        now: Moment,
        session: SessionId,
        name: &[u8],
        patience: Patience,
    ) -> Option<Outcome> {
        if !self.is_alive(now, session) {
            return Some(Outcome::NoSession);
        }
        let lock = self.locks.get(name);
        if let Some(holder) = lock.and_then(|lock| lock.holder.as_ref())
            && holder.session == session
            && holder.is_good()
        {
            return Some(Outcome::Already { fence: holder.fence });
        }
        let taken = lock.is_some() || now < self.quarantine;
        (patience == Patience::Try && taken).then_some(Outcome::Busy)
    }

    /// Somebody does not want to wait any longer. If it has been let in meanwhile, it is inside.
    pub fn cancel(&mut self, now: Moment, wait: WaitId) {
        self.give_up(now, wait, Outcome::Cancelled);
    }

    /// How many stand before somebody who waits.
    pub fn place(&self, wait: WaitId) -> Option<usize> {
        let lock = self.locks.get(&self.waits.get(&wait)?.name)?;
        lock.line.iter().position(|&other| other == wait)
    }

    /// The node let the desk in.
    pub fn granted(&mut self, now: Moment, ask: AskId, fence: u64) {
        let Some(name) = self.asks.get(&ask).cloned() else {
            // It was dropped while the answer was on its way.
            return;
        };
        let lock = self.locks.get_mut(&name).expect("what is asked for is kept");
        if lock.holder.as_ref().is_some_and(|holder| holder.ask == ask) {
            // Somebody has claimed it, and is inside with the fence it had before.
            lock.last_fence = lock.last_fence.max(fence);
            return;
        }
        lock.last_fence = fence;
        let asked = lock.asked.take().expect("the node was asked");
        match self.next_alive(now, &name, asked.trier) {
            Some(wait) => self.let_in(now, wait, ask, fence),
            None => self.drop_ask(ask),
        }
        self.changed(&name);
    }

    /// The node did not let the desk in, because somebody else is there (`None`) or because it
    /// cannot, and says why.
    pub fn refused(&mut self, now: Moment, ask: AskId, why: Option<String>) {
        let Some(name) = self.asks.remove(&ask) else { return };
        let lock = self.locks.get_mut(&name).expect("what is asked for is kept");
        if let Some(claimed) = lock.holder.take_if(|holder| holder.ask == ask) {
            self.forget_claim(&name, &claimed);
        }
        let lock = self.locks.get_mut(&name).expect("just seen");
        let outcome = why.map_or(Outcome::Busy, Outcome::Unavailable);
        let mut answered = Vec::new();
        if let Some(asked) = lock.asked.take_if(|asked| asked.ask == ask) {
            match asked.trier {
                Some(trier) => answered.push(trier),
                None => answered.extend(lock.line.iter()),
            }
        }
        for wait in answered {
            self.give_up(now, wait, outcome.clone());
        }
        self.ask_for_next(now, &name);
        self.changed(&name);
    }

    /// Takes somebody out of the line and tells it so.
    pub(super) fn give_up(&mut self, now: Moment, wait: WaitId, outcome: Outcome) {
        let Some(Wait { session, name, .. }) = self.waits.remove(&wait) else { return };
        if let Some(session) = self.sessions.get_mut(&session) {
            session.waits.retain(|&other| other != wait);
        }
        let lock = self.locks.get_mut(&name).expect("a lock that is waited for is kept");
        lock.line.retain(|&other| other != wait);
        let unwanted = |asked: &mut Asked| match asked.trier {
            Some(trier) => trier == wait,
            None => lock.line.is_empty(),
        };
        if let Some(asked) = lock.asked.take_if(unwanted) {
            self.drop_ask(asked.ask);
            self.ask_for_next(now, &name);
        }
        self.effects.push(Effect::Answer { wait, outcome });
        self.changed(&name);
    }

    /// Asks the node for whoever stands first, unless somebody is inside or it is being asked.
    pub(super) fn ask_for_next(&mut self, now: Moment, name: &Name) {
        let Some(lock) = self.locks.get(name) else { return };
        let idle = lock.holder.is_none() && lock.asked.is_none();
        if idle && !lock.line.is_empty() && self.quarantine <= now {
            self.ask(name, None);
        }
    }

    fn ask(&mut self, name: &Name, trier: Option<WaitId>) {
        let how = if trier.is_some() { How::Try } else { How::Wait };
        let ask = self.new_ask(name, how);
        let lock = self.locks.get_mut(name).expect("what is asked for is kept");
        lock.asked = Some(Asked { ask, trier });
    }

    pub(super) fn new_ask(&mut self, name: &Name, how: How) -> AskId {
        let ask = AskId(self.number());
        self.asks.insert(ask, Name::clone(name));
        self.effects.push(Effect::Ask { ask, name: Name::clone(name), how });
        ask
    }

    pub(super) fn drop_ask(&mut self, ask: AskId) {
        if self.asks.remove(&ask).is_some() {
            self.effects.push(Effect::Drop { ask });
        }
    }

    /// The first in line whose session is good: one may have run out unnoticed.
    fn next_alive(&mut self, now: Moment, name: &Name, trier: Option<WaitId>) -> Option<WaitId> {
        let lock = &self.locks[name];
        let candidates: Vec<_> = match trier {
            Some(trier) => vec![trier],
            None => lock.line.iter().copied().collect(),
        };
        for wait in candidates {
            let alive = self.waits.get(&wait).map(|waits| self.is_alive(now, waits.session));
            match alive {
                Some(true) => return Some(wait),
                Some(false) => self.give_up(now, wait, Outcome::NoSession),
                None => {}
            }
        }
        None
    }
}
