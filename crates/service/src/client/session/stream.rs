//! What is said on a session's stream.

use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tonic::Streaming;

use super::{Over, SILENCE, Session};
use crate::{
    Moment,
    client::Event,
    place::Mark,
    proto::v1::{self, reply::Answer, request::Ask},
};

type Asks = UnboundedSender<v1::Request>;

impl Session {
    pub(super) async fn converse(
        &mut self,
        mut replies: Streaming<v1::Reply>,
        asks: &Asks,
        leave: &mut UnboundedReceiver<()>,
    ) -> Over {
        let mut renew_at = crate::now().after(self.ttl / 3);
        loop {
            if self.is_lost() && !self.leaving {
                self.say(Event::Lost("the lease ran out".to_owned()));
                self.fence = None;
                self.good_until = Moment::NEVER;
            }
            let due = self.due(renew_at);
            tokio::select! {
                biased;
                Some(()) = leave.recv(), if !self.leaving => {
                    self.leaving = true;
                    let goodbye = Ask::Goodbye(v1::Goodbye {});
                    if asks.send(v1::Request { ask: Some(goodbye) }).is_err() {
                        return Over::Broken("the stream is closed".to_owned());
                    }
                }
                reply = replies.message() => match reply {
                    Ok(Some(v1::Reply { answer })) => {
                        self.heard = crate::now();
                        self.complained = false;
                        if let Some(over) = answer.and_then(|answer| self.take_in(answer, asks)) {
                            return over;
                        }
                    }
                    Ok(None) => return Over::Broken("the node closed the connection".to_owned()),
                    Err(status) => return Over::Broken(status.message().to_owned()),
                },
                () = tokio::time::sleep(due) => {
                    if crate::now() >= renew_at {
                        renew_at = crate::now().after(self.ttl / 3);
                        self.renew(asks);
                    }
                    if let Some(over) = self.look_for_silence() {
                        return over;
                    }
                }
            }
        }
    }

    /// How long nothing has to be done.
    fn due(&self, renew_at: Moment) -> Duration {
        let now = crate::now();
        let mut due = renew_at.min(self.give_up_at());
        if self.fence.is_some() && !self.untold {
            due = due.min(self.good_until);
        }
        if let Some((_, sent)) = self.sent.first().filter(|_| !self.complained) {
            due = due.min(sent.after(SILENCE));
        }
        due.since(now)
    }

    fn look_for_silence(&mut self) -> Option<Over> {
        if self.sent.first().is_some_and(|(_, sent)| crate::now().since(*sent) >= SILENCE) {
            self.complain_if_silent("it is stopped, or very slow");
            // Said once, whatever it is.
            self.complained = true;
        }
        if self.give_up_at() <= crate::now() && !self.leaving {
            self.say(Event::Unreachable("the node does not answer".to_owned()));
            return Some(Over::Done);
        }
        None
    }

    fn renew(&mut self, asks: &Asks) {
        self.renewals += 1;
        self.sent.push((self.renewals, crate::now()));
        let renew = Ask::Renew(v1::Renew { number: self.renewals });
        let _ = asks.send(v1::Request { ask: Some(renew) });
    }

    /// Says whether and how this was the last word.
    fn take_in(&mut self, answer: Answer, asks: &Asks) -> Option<Over> {
        match answer {
            Answer::Welcome(welcome) => return self.welcome(welcome),
            Answer::Waiting(waiting) => self.say(Event::Waiting(waiting)),
            Answer::Granted(granted) => {
                self.fence = Some(granted.fence);
                self.untold = true;
                // Who was stopped for a while may read this long after it was written.
                if self.good_until.since(crate::now()) < self.ttl / 2 {
                    self.renew(asks);
                } else {
                    self.tell_grant();
                }
            }
            Answer::Refused(refused) => self.say(Event::Refused(refused)),
            Answer::Renewed(renewed) => self.acknowledged(renewed.number, renewed.good_for_ms),
            Answer::Lost(lost) => return self.lose(&lost),
            Answer::Released(_) => {}
            Answer::Farewell(_) => return Some(self.farewell()),
        }
        None
    }

    fn tell_grant(&mut self) {
        if let Some(fence) = self.fence.filter(|_| self.untold) {
            self.untold = false;
            // What the node has written down is enough, unless its directory is lost with it.
            self.mark = self.wish.place.as_ref().and_then(|place| Mark::new(place, self.ttl).ok());
            self.say(Event::GoodUntil(self.good_until));
            let waited = crate::now().since(self.since);
            self.say(Event::Granted { fence, waited });
        }
    }

    fn lose(&mut self, lost: &v1::Lost) -> Option<Over> {
        if self.fence != Some(lost.fence) {
            return None;
        }
        self.fence = None;
        if std::mem::take(&mut self.untold) {
            return Some(Over::Broken("the lock was taken away before it was used".to_owned()));
        }
        self.say(Event::Lost(lost.reason.clone()));
        None
    }

    /// The session has ended. Who only waited, and could not renew in time, stands in line again.
    fn farewell(&mut self) -> Over {
        if self.leaving {
            self.say(Event::Left);
            return Over::Done;
        }
        if self.fence.is_some() && !self.untold {
            self.say(Event::Lost("the node ended the session".to_owned()));
            return Over::Done;
        }
        self.fence = None;
        self.untold = false;
        self.say(Event::Note("the session ran out; waiting again, at the end of the line".into()));
        Over::Broken("the node ended the session".to_owned())
    }

    fn welcome(&mut self, welcome: v1::Welcome) -> Option<Over> {
        self.id = welcome.session;
        self.ttl = Duration::from_millis(welcome.good_for_ms);
        self.acknowledged(0, welcome.good_for_ms);
        self.say(Event::Opened { session: self.id, version: welcome.version });
        if !welcome.refused.is_empty() && self.fence.take().is_some() {
            let why = "the next node did not accept the claim".to_owned();
            if std::mem::take(&mut self.untold) {
                return Some(Over::Broken(why));
            }
            self.say(Event::Lost(why));
        }
        if welcome.quarantine_ms > 0 && self.fence.is_none() {
            self.say(Event::Note(format!(
                "the node did not stop cleanly and grants nothing for {} ms",
                welcome.quarantine_ms
            )));
        }
        None
    }

    /// Good from when it was sent, not from when the answer came.
    fn acknowledged(&mut self, number: u64, good_for_ms: u64) {
        let Some(index) = self.sent.iter().position(|sent| sent.0 == number) else { return };
        let (_, sent) = self.sent.remove(index);
        let good_until = sent.after(Duration::from_millis(good_for_ms));
        if good_for_ms > 0 && (good_until > self.good_until || self.fence.is_none()) {
            self.good_until = good_until;
            match (self.fence, self.untold) {
                (Some(_), true) => self.tell_grant(),
                (Some(_), false) => self.say(Event::GoodUntil(good_until)),
                (None, _) => {}
            }
        }
    }
}
