//! A client of a node of ours.

use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::Streaming;

use super::{Connector, Event, Wish};
use crate::{
    Moment,
    proto::v1::{self, locks_client::LocksClient, reply::Answer, request::Ask},
};

/// How often to look for a node while there is none.
const AGAIN: Duration = Duration::from_millis(50);

struct Session {
    wish: Wish,
    tell: UnboundedSender<Event>,
    /// 0 until there is one.
    id: i64,
    /// Since when it has wished.
    since: Moment,
    fence: Option<u64>,
    good_until: Moment,
    /// Renewals that are not acknowledged: number and when it was sent. 0 is the Hello.
    sent: Vec<(u64, Moment)>,
    renewals: u64,
    ttl: Duration,
    leaving: bool,
}

/// Why a stream is not read any more.
enum Over {
    /// Everything has been said.
    Done,
    /// It broke.
    Broken(String),
}

pub(super) async fn run(
    connector: Connector,
    wish: Wish,
    tell: UnboundedSender<Event>,
    mut leave: UnboundedReceiver<()>,
) {
    let since = Moment::now();
    let mut session = Session {
        ttl: wish.ttl,
        wish,
        tell,
        id: 0,
        since,
        fence: None,
        good_until: since,
        sent: Vec::new(),
        renewals: 0,
        leaving: false,
    };
    let mut attempts = 0_u32;
    loop {
        let over = match connector().await {
            Ok(channel) => session.attach(LocksClient::new(channel), &mut leave).await,
            Err(text) if session.id == 0 => {
                session.say(Event::Unreachable(text));
                return;
            }
            Err(text) => Over::Broken(text),
        };
        let Over::Broken(text) = over else { return };
        if session.leaving {
            return session.say(Event::Left);
        }
        attempts += 1;
        if session.fence.is_none() && attempts > 200 {
            return session.say(Event::Unreachable(text));
        }
        if session.is_lost() {
            return session.wait_to_leave(text, &mut leave).await;
        }
        tokio::time::sleep(AGAIN).await;
    }
}

impl Session {
    fn say(&self, event: Event) {
        // If nobody listens any more, the process is about to end.
        let _ = self.tell.send(event);
    }

    fn is_lost(&self) -> bool {
        self.fence.is_some() && self.good_until <= Moment::now()
    }

    async fn wait_to_leave(self, why: String, leave: &mut UnboundedReceiver<()>) {
        self.say(Event::Lost(format!("the lease ran out: {why}")));
        leave.recv().await;
        self.say(Event::Left);
    }

    async fn attach(
        &mut self,
        mut client: LocksClient<tonic::transport::Channel>,
        leave: &mut UnboundedReceiver<()>,
    ) -> Over {
        let (asks, requests) = unbounded_channel();
        let now = Moment::now();
        self.sent = vec![(0, now)];
        // The other end of the channel is held below.
        let _ = asks.send(v1::Request { ask: Some(Ask::Hello(self.hello())) });
        if self.fence.is_none() {
            let acquire = Ask::Acquire(self.acquire(now));
            let _ = asks.send(v1::Request { ask: Some(acquire) });
        }
        let replies = match client.attach(UnboundedReceiverStream::new(requests)).await {
            Ok(replies) => replies.into_inner(),
            Err(status) => return Over::Broken(status.message().to_owned()),
        };
        self.converse(replies, &asks, leave).await
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

    async fn converse(
        &mut self,
        mut replies: Streaming<v1::Reply>,
        asks: &UnboundedSender<v1::Request>,
        leave: &mut UnboundedReceiver<()>,
    ) -> Over {
        let mut renew_at = Moment::now().after(self.ttl / 3);
        loop {
            let now = Moment::now();
            if self.is_lost() && !self.leaving {
                self.say(Event::Lost("the lease ran out".to_owned()));
                self.fence = None;
                self.good_until = Moment::NEVER;
            }
            let due = renew_at.min(self.good_until.max(now)).since(now);
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
                    Ok(Some(v1::Reply { answer: Some(answer) })) => {
                        if self.take_in(answer) {
                            return Over::Done;
                        }
                    }
                    Ok(Some(v1::Reply { answer: None })) => {}
                    Ok(None) => return Over::Broken("the node closed the connection".to_owned()),
                    Err(status) => return Over::Broken(status.message().to_owned()),
                },
                () = tokio::time::sleep(due) => if Moment::now() >= renew_at {
                    renew_at = Moment::now().after(self.ttl / 3);
                    self.renewals += 1;
                    self.sent.push((self.renewals, Moment::now()));
                    let renew = Ask::Renew(v1::Renew { number: self.renewals });
                    let _ = asks.send(v1::Request { ask: Some(renew) });
                },
            }
        }
    }

    /// Says whether this was the last word.
    fn take_in(&mut self, answer: Answer) -> bool {
        match answer {
            Answer::Welcome(welcome) => self.welcome(welcome),
            Answer::Waiting(waiting) => self.say(Event::Waiting(waiting)),
            Answer::Granted(granted) => {
                self.fence = Some(granted.fence);
                self.say(Event::GoodUntil(self.good_until));
                let waited = Moment::now().since(self.since);
                self.say(Event::Granted { fence: granted.fence, waited });
            }
            Answer::Refused(refused) => self.say(Event::Refused(refused)),
            Answer::Renewed(renewed) => self.acknowledged(renewed.number, renewed.good_for_ms),
            Answer::Lost(lost) => {
                if self.fence == Some(lost.fence) {
                    self.fence = None;
                    self.say(Event::Lost(lost.reason));
                }
            }
            Answer::Released(_) => {}
            Answer::Farewell(_) => {
                let expected = self.leaving;
                self.say(if expected {
                    Event::Left
                } else {
                    Event::Lost("the node ended the session".to_owned())
                });
                return true;
            }
        }
        false
    }

    fn welcome(&mut self, welcome: v1::Welcome) {
        self.id = welcome.session;
        self.ttl = Duration::from_millis(welcome.good_for_ms);
        self.acknowledged(0, welcome.good_for_ms);
        self.say(Event::Opened { session: self.id, version: welcome.version });
        if !welcome.refused.is_empty() && self.fence.take().is_some() {
            self.say(Event::Lost("the next node did not accept the claim".to_owned()));
        }
        if welcome.quarantine_ms > 0 && self.fence.is_none() {
            self.say(Event::Note(format!(
                "the node did not stop cleanly and grants nothing for {} ms",
                welcome.quarantine_ms
            )));
        }
    }

    /// Good from when it was sent, not from when the answer came.
    fn acknowledged(&mut self, number: u64, good_for_ms: u64) {
        let Some(index) = self.sent.iter().position(|sent| sent.0 == number) else { return };
        let (_, sent) = self.sent.remove(index);
        let good_until = sent.after(Duration::from_millis(good_for_ms));
        if good_for_ms > 0 && (good_until > self.good_until || self.fence.is_none()) {
            self.good_until = good_until;
            if self.fence.is_some() {
                self.say(Event::GoodUntil(good_until));
            }
        }
    }
}
