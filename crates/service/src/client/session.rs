//! A client of a node of ours, without I/O: what it says to the node, and to its user.
//!
//! Its shell (`run.rs`) connects, passes on what is said, and tells the time.

mod run;
#[cfg(test)]
mod tests;

pub(super) use run::run;

use std::time::Duration;

use super::{Event, Wish};
use crate::{
    Moment,
    proto::v1::{self, reply::Answer, request::Ask},
};

/// After how long without an answer the user is told.
const SILENCE: Duration = Duration::from_millis(1500);
/// After how long without an answer, or without a node, who waits is told that there is none; who
/// wants to wait for a while waits that long first.
const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) struct Session {
    wish: Wish,
    /// 0 until there is one.
    id: i64,
    /// Since when it has wished.
    since: Moment,
    fence: Option<u64>,
    /// The fence is not told yet: first the lease must be known to be good for a while.
    untold: bool,
    /// It was inside and must not be any more: it asks for nothing again.
    lost: bool,
    leaving: bool,
    /// Whether there is a stream.
    attached: bool,
    /// Renewals that are not acknowledged: number and when it was sent. 0 is the Hello.
    sent: Vec<(u64, Moment)>,
    renewals: u64,
    renew_at: Moment,
    /// For how long the last word was good, from when it was asked for.
    ttl: Duration,
    good_until: Moment,
    /// When something was last heard of the node, and whether on this stream.
    heard: Moment,
    heard_here: bool,
    /// Whether the user knows that nothing has been heard for a while.
    complained: bool,
    effects: Vec<Effect>,
}

/// Something to do.
#[derive(Debug)]
pub(crate) enum Effect {
    /// Say this to the node, on the stream that is there.
    Ask(Ask),
    /// Tell this to the user.
    Tell(Event),
}

/// What to do when a stream is of no use any more.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Next {
    /// Nothing: everything has been said.
    Done,
    /// Connect again.
    Again,
    /// Wait until the user leaves: there is nothing to connect for.
    WaitToLeave,
}

impl Session {
    pub(crate) fn new(now: Moment, wish: Wish) -> Self {
        Self {
            ttl: wish.ttl,
            wish,
            id: 0,
            since: now,
            fence: None,
            untold: false,
            lost: false,
            leaving: false,
            attached: false,
            sent: Vec::new(),
            renewals: 0,
            renew_at: now,
            good_until: now,
            heard: now,
            heard_here: false,
            complained: false,
            effects: Vec::new(),
        }
    }

    /// What is to be done, in order.
    pub(crate) fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// For how long it is inside when nothing is heard of it.
    pub(crate) fn lease(&self) -> Duration {
        self.ttl
    }

    fn tell(&mut self, event: Event) {
        self.effects.push(Effect::Tell(event));
    }

    fn ask(&mut self, ask: Ask) {
        self.effects.push(Effect::Ask(ask));
    }
}

/// Connections come and go.
impl Session {
    /// There is a stream. Says what to do if there is no use for it.
    pub(crate) fn attached(&mut self, now: Moment) -> Option<Next> {
        if self.good_until <= now {
            // Others may have been inside since: there is nothing to claim.
            if self.has_run_out(now) && !self.leaving {
                return Some(self.broken(now, "it took long to connect".to_owned()));
            }
            (self.fence, self.untold) = (None, false);
        }
        self.attached = true;
        self.heard_here = false;
        self.sent = vec![(0, now)];
        self.renew_at = now.after(self.ttl / 3);
        self.ask(Ask::Hello(self.hello()));
        if self.leaving {
            self.ask(Ask::Goodbye(v1::Goodbye {}));
        } else if self.fence.is_none() {
            self.ask(Ask::Acquire(self.acquire(now)));
        }
        None
    }

    /// No connection could be made.
    pub(crate) fn unreachable(&mut self, now: Moment, why: String) -> Next {
        if self.id == 0 {
            self.tell(Event::Unreachable(why));
            return Next::Done;
        }
        self.broken(now, why)
    }

    /// The stream is over, or there is none.
    pub(crate) fn broken(&mut self, now: Moment, why: String) -> Next {
        self.attached = false;
        if std::mem::take(&mut self.heard_here) {
            // It was there until now, though it may have had nothing to say for a while.
            self.heard = now;
        }
        if self.leaving {
            self.tell(Event::Left);
            return Next::Done;
        }
        if self.has_run_out(now) {
            self.lose(format!("the lease ran out: {why}"));
        }
        if self.lost {
            return Next::WaitToLeave;
        }
        if self.fence.is_none() && now.since(self.heard) > PATIENCE {
            self.tell(Event::Unreachable(why));
            return Next::Done;
        }
        self.complain_if_silent(now, &why);
        Next::Again
    }

    fn hello(&self) -> v1::Hello {
        let claim = |fence| v1::Claim { name: self.wish.name.clone(), fence };
        v1::Hello {
            session: self.id,
            ttl_ms: u64::try_from(self.wish.ttl.as_millis()).unwrap_or(u64::MAX),
            client: Some(self.wish.client.clone()),
            guarded: self.wish.guarded,
            claims: self.fence.map(claim).into_iter().collect(),
            only_goodbye: false,
        }
    }

    fn acquire(&self, now: Moment) -> v1::Acquire {
        // Who comes back has waited already.
        let rest = |wait: Duration| match wait.is_zero() {
            true => 0,
            false => wait.saturating_sub(now.since(self.since)).as_millis().max(1),
        };
        let wait_ms = self.wish.wait.map(rest).map(|rest| u64::try_from(rest).unwrap_or(u64::MAX));
        v1::Acquire { id: 1, name: self.wish.name.clone(), wait_ms, watch: true }
    }
}

/// What the user does, and time.
impl Session {
    /// The user leaves, or does not want to wait any longer.
    pub(crate) fn leave(&mut self) -> Option<Next> {
        self.leaving = true;
        if self.attached {
            self.ask(Ask::Goodbye(v1::Goodbye {}));
            return None;
        }
        if self.fence.is_some() {
            // It is said to the next node.
            return None;
        }
        self.tell(Event::Left);
        Some(Next::Done)
    }

    /// When to call [`tick`](Self::tick) at the latest.
    pub(crate) fn wake_at(&self) -> Moment {
        let mut at = self.give_up_at();
        if !self.leaving {
            at = at.min(self.inside_until());
        }
        if self.attached {
            at = at.min(self.renew_at);
        }
        if !self.complained {
            at = at.min(self.silent_since().after(SILENCE));
        }
        at
    }

    /// Time has passed.
    pub(crate) fn tick(&mut self, now: Moment) -> Option<Next> {
        if self.has_run_out(now) && !self.leaving {
            if !self.attached {
                return Some(self.broken(now, "the node does not answer".to_owned()));
            }
            self.lose("the lease ran out".to_owned());
        }
        if self.attached && now >= self.renew_at {
            self.renew(now);
        }
        self.complain_if_silent(now, "it is stopped, or very slow");
        if self.give_up_at() <= now {
            self.tell(Event::Unreachable("the node does not answer".to_owned()));
            return Some(Next::Done);
        }
        None
    }

    /// When whoever does not want to wait for ever has waited long enough for an answer.
    fn give_up_at(&self) -> Moment {
        match self.wish.wait {
            Some(wait) if self.fence.is_none() && !self.lost && !self.leaving => {
                self.since.after(wait).after(PATIENCE)
            }
            _ => Moment::NEVER,
        }
    }

    /// Since when an answer is due.
    fn silent_since(&self) -> Moment {
        match self.attached {
            true => self.sent.first().map_or(Moment::NEVER, |(_, sent)| *sent),
            false => self.heard,
        }
    }

    fn is_silent(&self, now: Moment) -> bool {
        self.silent_since().after(SILENCE) <= now
    }

    /// Said once, whatever it is.
    fn complain_if_silent(&mut self, now: Moment, why: &str) {
        if !self.complained && self.is_silent(now) {
            self.complained = true;
            self.tell(Event::Note(format!("the node does not answer: {why}")));
        }
    }

    fn renew(&mut self, now: Moment) {
        self.renewals += 1;
        self.sent.push((self.renewals, now));
        self.renew_at = now.after(self.ttl / 3);
        self.ask(Ask::Renew(v1::Renew { number: self.renewals }));
    }
}

/// What the node says.
impl Session {
    /// Says what to do if this was its last word.
    pub(crate) fn heard(&mut self, now: Moment, answer: Answer) -> Option<Next> {
        (self.heard, self.heard_here) = (now, true);
        if self.has_run_out(now) {
            // Whatever was guarded has been ended by now, and nothing makes it good again.
            self.lose("the lease ran out".to_owned());
        }
        match answer {
            Answer::Welcome(welcome) => return self.welcome(now, welcome),
            Answer::Waiting(waiting) => self.tell(Event::Waiting(waiting)),
            Answer::Granted(granted) => self.granted(now, granted.fence),
            // Who asked on two streams is let in for one, and refused for the other.
            Answer::Refused(_) if self.fence.is_some() => {}
            Answer::Refused(refused) => self.tell(Event::Refused(refused)),
            Answer::Renewed(renewed) => {
                self.acknowledged(now, renewed.number, renewed.good_for_ms);
            }
            Answer::Lost(lost) if self.fence == Some(lost.fence) => {
                return self.lose_or_ask_again(now, lost.reason);
            }
            Answer::Lost(_) | Answer::Released(_) => {}
            Answer::Farewell(_) => return Some(self.farewell(now)),
        }
        None
    }

    fn welcome(&mut self, now: Moment, welcome: v1::Welcome) -> Option<Next> {
        self.id = welcome.session;
        if !welcome.refused.is_empty() && self.fence.is_some() {
            self.sent.clear();
            let why = "the next node did not accept the claim";
            return self.lose_or_ask_again(now, why.to_owned());
        }
        self.acknowledged(now, 0, welcome.good_for_ms);
        self.tell(Event::Opened { session: self.id, version: welcome.version });
        if welcome.quarantine_ms > 0 && self.fence.is_none() {
            self.tell(Event::Note(format!(
                "the node did not stop cleanly and grants nothing for {} ms",
                welcome.quarantine_ms
            )));
        }
        None
    }

    fn granted(&mut self, now: Moment, fence: u64) {
        if self.lost || self.leaving || self.fence == Some(fence) {
            // It asked twice, or wants it no more.
            return;
        }
        (self.fence, self.untold) = (Some(fence), true);
        self.tell_grant(now);
        if self.untold {
            self.renew(now);
        }
    }

    /// Tells a grant, if it is good for a while: who was stopped may read this, and answers to
    /// older renewals, long after it was written.
    fn tell_grant(&mut self, now: Moment) {
        let good = self.good_until.since(now) >= self.ttl / 2;
        if let Some(fence) = self.fence.filter(|_| self.untold && good && !self.leaving) {
            self.untold = false;
            self.tell(Event::GoodUntil(self.good_until));
            let waited = now.since(self.since);
            self.tell(Event::Granted { fence, waited });
        }
    }

    /// Good from when it was sent, not from when the answer came.
    fn acknowledged(&mut self, now: Moment, number: u64, good_for_ms: u64) {
        let Some(index) = self.sent.iter().position(|sent| sent.0 == number) else { return };
        let (_, sent) = self.sent.remove(index);
        // What it did not answer for a while it may answer word by word.
        self.complained &= self.is_silent(now);
        if good_for_ms == 0 {
            // The session has ended, and the next word says so.
            return;
        }
        // What is said last counts, though it may be sooner than what was asked for or said before.
        self.ttl = Duration::from_millis(good_for_ms);
        self.good_until = sent.after(self.ttl);
        self.renew_at = self.renew_at.min(sent.after(self.ttl / 3));
        match (self.fence, self.untold) {
            (Some(_), true) => self.tell_grant(now),
            (Some(_), false) => self.tell(Event::GoodUntil(self.good_until)),
            (None, _) => {}
        }
    }

    /// The session has ended. Who only waited, and could not renew in time, stands in line again.
    fn farewell(&mut self, now: Moment) -> Next {
        let why = "the node ended the session".to_owned();
        if self.leaving {
            self.tell(Event::Left);
            return Next::Done;
        }
        if self.fence.is_some() {
            let next = self.lose_or_ask_again(now, why.clone());
            return next.unwrap_or_else(|| self.broken(now, why));
        }
        if !self.lost {
            let text = "the session ran out; waiting again, at the end of the line";
            self.tell(Event::Note(text.to_owned()));
        }
        self.broken(now, why)
    }
}

/// Being inside, and not any more.
impl Session {
    /// Until when it is inside, as the user knows it.
    fn inside_until(&self) -> Moment {
        if self.fence.is_some() && !self.untold { self.good_until } else { Moment::NEVER }
    }

    fn has_run_out(&self, now: Moment) -> bool {
        self.inside_until() <= now
    }

    fn lose(&mut self, why: String) {
        self.fence = None;
        self.lost = true;
        if !self.leaving {
            self.tell(Event::Lost(why));
        }
    }

    /// It is not inside any more. Whoever knows that it was must be told; who was not told yet has
    /// only waited, and stands in line again.
    fn lose_or_ask_again(&mut self, now: Moment, why: String) -> Option<Next> {
        if std::mem::take(&mut self.untold) {
            self.fence = None;
            return Some(self.broken(now, why));
        }
        self.lose(why);
        None
    }
}
