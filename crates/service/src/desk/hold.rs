//! Being inside: how it begins, is claimed again, is taken away and ends.

use std::{ops::Range, time::Duration};

use super::{AskId, Desk, Effect, How, Name, Outcome, SessionId, Timer, WaitId};
use crate::Moment;

/// What a fence can be. There are many more, so that whatever is claimed, later ones fit into the
/// signed numbers of etcd.
const FENCES: Range<u64> = 1..3 << 61;

/// Somebody inside.
pub(super) struct Hold {
    pub(super) session: SessionId,
    pub(super) fence: u64,
    pub(super) since: Moment,
    pub(super) ask: AskId,
    /// Since it was taken away: when its holder cannot think any more that it is inside.
    broken: Option<Moment>,
}

impl Hold {
    /// Whether it has not been taken away.
    pub(super) fn is_good(&self) -> bool {
        self.broken.is_none()
    }
}

impl Desk {
    /// Lets somebody in.
    pub(super) fn let_in(&mut self, now: Moment, wait: WaitId, ask: AskId, fence: u64) {
        let waited = self.waits.remove(&wait).expect("somebody who waits");
        let name = waited.name;
        self.remember(waited.session);
        self.hold(now, waited.session, &name, ask, fence);
        let session = self.sessions.get_mut(&waited.session).expect("it is alive");
        session.waits.retain(|&other| other != wait);
        let waits = session.waits.clone();
        let outcome = Outcome::Granted { fence, waited: now.since(waited.since) };
        self.effects.push(Effect::Answer { wait, outcome });
        let lock = self.locks.get_mut(&name).expect("a lock that is held");
        lock.line.retain(|&other| other != wait);
        // Whoever asked twice on one session is inside twice.
        for other in waits {
            if self.waits.get(&other).is_some_and(|wait| wait.name == name) {
                self.give_up(now, other, Outcome::Already { fence });
            }
        }
    }

    fn hold(&mut self, now: Moment, id: SessionId, name: &Name, ask: AskId, fence: u64) {
        let session = self.sessions.get_mut(&id).expect("it is alive");
        session.inside.push(Name::clone(name));
        let lock = self.locks.entry(Name::clone(name)).or_default();
        lock.last_fence = lock.last_fence.max(fence);
        lock.holder = Some(Hold { session: id, fence, since: now, ask, broken: None });
    }

    /// A lease that somebody is inside with must be remembered across a crash.
    fn remember(&mut self, session: SessionId) {
        let ttl = self.sessions[&session].ttl;
        if self.remembered < ttl || std::mem::take(&mut self.dated) {
            self.remembered = self.remembered.max(ttl);
            self.effects.push(Effect::Remember { longest: self.remembered });
        }
    }

    /// Looks how long the leases are that are still out there: longer ones need not be remembered.
    /// To be called now and then.
    pub fn forget_leases(&mut self, now: Moment) {
        if now < self.quarantine || !std::mem::take(&mut self.somebody_left) {
            return;
        }
        let holders = self.locks.values().filter_map(|lock| lock.holder.as_ref());
        let leases = holders.filter_map(|holder| Some(self.sessions.get(&holder.session)?.ttl));
        let longest = leases.max().unwrap_or_default();
        if longest < self.remembered {
            self.remembered = longest;
            self.effects.push(Effect::Remember { longest });
        }
    }

    /// Somebody who was inside with this fence when its connection broke says so. Says whether it
    /// is: still, if the session is the same, or again, if the node has died meanwhile; that only
    /// while nobody else is let in, and only if nobody else has claimed it.
    pub fn claim(&mut self, now: Moment, id: SessionId, name: &[u8], fence: u64) -> bool {
        if !self.is_alive(now, id) {
            return false;
        }
        let holder = self.locks.get(name).and_then(|lock| lock.holder.as_ref());
        if let Some(holder) = holder.filter(|holder| holder.session == id) {
            return holder.fence == fence && holder.is_good();
        }
        let older = holder.map_or(0, |holder| holder.fence);
        if now >= self.quarantine || !FENCES.contains(&fence) || fence < older {
            return false;
        }
        let name = Name::from(name);
        if older > 0 {
            // Who claimed it before was inside before this one, and not any more; or it is the same
            // one, which did not hear that it was welcome, and has come again.
            self.lose(now, &name, "it was claimed later".to_owned());
        }
        self.remember(id);
        let ask = self.new_ask(&name, How::Claim(fence));
        self.hold(now, id, &name, ask, fence);
        self.changed(&name);
        true
    }

    /// The node did not let in who claimed; `refused` has taken it out.
    pub(super) fn forget_claim(&mut self, name: &Name, claimed: &Hold) {
        let &Hold { session, fence, .. } = claimed;
        self.somebody_left = true;
        if let Some(session) = self.sessions.get_mut(&session) {
            session.inside.retain(|inside| inside != name);
        }
        let (name, reason) = (Name::clone(name), "it could not be claimed again".to_owned());
        self.effects.push(Effect::Lost { session, name, fence, reason });
    }

    /// Somebody leaves. Says whether this fence was inside.
    pub fn release(&mut self, now: Moment, name: &[u8], fence: u64) -> bool {
        let Some((name, lock)) = self.locks.get_key_value(name) else { return false };
        let name = Name::clone(name);
        let Some(holder) = lock.holder.as_ref().filter(|holder| holder.fence == fence) else {
            return false;
        };
        let good = holder.is_good();
        if let Some(session) = self.sessions.get_mut(&holder.session) {
            session.inside.retain(|inside| *inside != name);
        }
        self.leave(now, &name);
        good
    }

    /// Takes the holder out and lets the next one ask.
    pub(super) fn leave(&mut self, now: Moment, name: &Name) {
        let Some(lock) = self.locks.get_mut(name) else { return };
        if let Some(hold) = lock.holder.take() {
            self.drop_ask(hold.ask);
            self.somebody_left = true;
        }
        self.ask_for_next(now, name);
        self.changed(name);
    }

    /// Whether this fence is inside.
    pub fn verify(&self, now: Moment, name: &[u8], fence: u64) -> bool {
        let holder = self.locks.get(name).and_then(|lock| lock.holder.as_ref());
        holder.is_some_and(|holder| {
            holder.fence == fence && holder.is_good() && self.is_alive(now, holder.session)
        })
    }

    /// Takes a lock away from whoever is inside, or from this fence only. Others get in when its
    /// holder has left, or when its lease, as good as it is now, has run out; says how long that
    /// is.
    pub fn break_grant(
        &mut self,
        now: Moment,
        name: &[u8],
        fence: Option<u64>,
        reason: String,
    ) -> Option<Duration> {
        let (name, _) = self.locks.get_key_value(name)?;
        let name = Name::clone(name);
        let lock = self.locks.get_mut(&name)?;
        let holder = lock.holder.as_mut()?;
        if fence.is_some_and(|fence| fence != holder.fence) || !holder.is_good() {
            return None;
        }
        let (session, fence) = (holder.session, holder.fence);
        let until = self.sessions.get(&session).map_or(now, |session| session.good_until);
        holder.broken = Some(until);
        self.timers.insert((until, Timer::Broken(Name::clone(&name))));
        let lost = Effect::Lost { session, name: Name::clone(&name), fence, reason };
        self.effects.push(lost);
        self.changed(&name);
        Some(until.since(now))
    }

    pub(super) fn look_at_broken(&mut self, now: Moment, name: &Name) {
        let holder = self.locks.get(name).and_then(|lock| lock.holder.as_ref());
        let Some(holder) = holder else { return };
        if holder.broken.is_some_and(|until| until <= now) {
            self.release(now, name, holder.fence);
        }
    }

    /// The node is no longer inside for the desk.
    pub fn lost(&mut self, now: Moment, ask: AskId, reason: String) {
        let Some(name) = self.asks.get(&ask).cloned() else { return };
        let holder = self.locks.get(&name).and_then(|lock| lock.holder.as_ref());
        if holder.is_none_or(|holder| holder.ask != ask) {
            return;
        }
        self.lose(now, &name, reason);
    }

    /// Takes the holder out and tells it.
    fn lose(&mut self, now: Moment, name: &Name, reason: String) {
        let holder = self.locks.get(name).and_then(|lock| lock.holder.as_ref());
        let Some(&Hold { session, fence, .. }) = holder else { return };
        let told = Name::clone(name);
        self.effects.push(Effect::Lost { session, name: told, fence, reason });
        self.release(now, name, fence);
    }

    pub(super) fn end_quarantine(&mut self, now: Moment) {
        self.somebody_left = true;
        self.effects.push(Effect::Join);
        let names: Vec<_> = self.locks.keys().cloned().collect();
        for name in names {
            self.ask_for_next(now, &name);
        }
    }
}
