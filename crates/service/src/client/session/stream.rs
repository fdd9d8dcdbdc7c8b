//! What is said on a session's stream.

use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tonic::Streaming;

use super::{Over, SILENCE, Session};
use crate::{
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
        self.renew_at = crate::now().after(self.ttl / 3);
        loop {
            if self.has_run_out() && !self.leaving {
                self.lose("the lease ran out".to_owned());
            }
            let due = self.due();
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
                    if crate::now() >= self.renew_at {
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
    fn due(&self) -> Duration {
        let now = crate::now();
        let mut due = self.renew_at.min(self.give_up_at());
        if !self.leaving {
            due = due.min(self.inside_until());
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
        let now = crate::now();
        self.renewals += 1;
        self.sent.push((self.renewals, now));
        self.renew_at = now.after(self.ttl / 3);
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
            // Who asked on two streams is let in for one, and refused for the other.
            Answer::Refused(_) if self.fence.is_some() => {}
            Answer::Refused(refused) => self.say(Event::Refused(refused)),
            Answer::Renewed(renewed) => self.acknowledged(renewed.number, renewed.good_for_ms),
            Answer::Lost(lost) => return self.take_away(&lost),
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

    fn take_away(&mut self, lost: &v1::Lost) -> Option<Over> {
        if self.fence != Some(lost.fence) {
            return None;
        }
        self.lose_or_ask_again(lost.reason.clone())
    }

    /// It is not inside any more. Whoever knows that it was must be told; who was not told yet has
    /// only waited, and stands in line again.
    fn lose_or_ask_again(&mut self, why: String) -> Option<Over> {
        if std::mem::take(&mut self.untold) {
            self.fence = None;
            return Some(Over::Broken(why));
        }
        self.lose(why);
        None
    }

    /// The session has ended. Who only waited, and could not renew in time, stands in line again.
    fn farewell(&mut self) -> Over {
        let why = "the node ended the session".to_owned();
        if self.leaving {
            self.say(Event::Left);
            return Over::Done;
        }
        if self.fence.is_some() {
            return self.lose_or_ask_again(why.clone()).unwrap_or(Over::Broken(why));
        }
        if !self.lost {
            let text = "the session ran out; waiting again, at the end of the line";
            self.say(Event::Note(text.to_owned()));
        }
        Over::Broken(why)
    }

    fn welcome(&mut self, welcome: v1::Welcome) -> Option<Over> {
        self.id = welcome.session;
        if !welcome.refused.is_empty() && self.fence.is_some() {
            return self.lose_or_ask_again("the next node did not accept the claim".to_owned());
        }
        self.acknowledged(0, welcome.good_for_ms);
        self.say(Event::Opened { session: self.id, version: welcome.version });
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
        if good_for_ms == 0 {
            // The session has ended, and the next word says so.
            return;
        }
        // What is said later counts, though it may be sooner than what was asked for or said before.
        self.ttl = Duration::from_millis(good_for_ms);
        self.good_until = sent.after(self.ttl);
        self.renew_at = self.renew_at.min(sent.after(self.ttl / 3));
        match (self.fence, self.untold) {
            (Some(_), true) => self.tell_grant(),
            (Some(_), false) => self.say(Event::GoodUntil(self.good_until)),
            (None, _) => {}
        }
    }
}
