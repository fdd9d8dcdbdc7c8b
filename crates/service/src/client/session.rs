//! A client of a node of ours.

mod stream;
#[cfg(test)]
mod tests;

use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::transport::Channel;

use super::{Connector, Event, Wish};
use crate::{
    Moment,
    place::Mark,
    proto::v1::{self, locks_client::LocksClient, request::Ask},
};

/// How often to look for a node while there is none.
const AGAIN: Duration = Duration::from_millis(50);
/// After how long without an answer the user is told.
const SILENCE: Duration = Duration::from_millis(1500);
/// After how long without an answer who does not want to wait for ever is told that there is none.
const PATIENCE: Duration = Duration::from_secs(10);

struct Session {
    wish: Wish,
    tell: UnboundedSender<Event>,
    /// 0 until there is one.
    id: i64,
    /// Since when it has wished.
    since: Moment,
    fence: Option<u64>,
    /// It was inside and must not be any more: it asks for nothing again.
    lost: bool,
    /// Kept while inside.
    mark: Option<Mark>,
    /// The fence is not told yet: first the lease must be known to be good for a while.
    untold: bool,
    good_until: Moment,
    /// Renewals that are not acknowledged: number and when it was sent. 0 is the Hello.
    sent: Vec<(u64, Moment)>,
    renewals: u64,
    renew_at: Moment,
    /// For how long the last word was good, from when it was asked for.
    ttl: Duration,
    leaving: bool,
    /// When something was last heard of the node.
    heard: Moment,
    /// Whether the user knows that nothing has been heard for a while.
    complained: bool,
}

/// Why a stream is not read any more.
enum Over {
    /// Everything has been said.
    Done,
    /// It broke, or the session has ended that only waited.
    Broken(String),
}

pub(super) async fn run(
    connector: Connector,
    wish: Wish,
    tell: UnboundedSender<Event>,
    mut leave: UnboundedReceiver<()>,
) {
    let mut session = Session::new(wish, tell);
    loop {
        let connecting = connector();
        let heard = session.heard;
        let over = match session.hear(connecting).await {
            Err(over) => over,
            Ok(Ok(channel)) => session.attach(LocksClient::new(channel), &mut leave).await,
            Ok(Err(text)) if session.id == 0 => {
                session.say(Event::Unreachable(text));
                Over::Done
            }
            Ok(Err(text)) => Over::Broken(text),
        };
        let Over::Broken(text) = over else { return };
        if session.heard > heard {
            // It was there until now, though it may have had nothing to say for a while.
            session.heard = crate::now();
        }
        if session.leaving {
            return session.say(Event::Left);
        }
        if session.has_run_out() {
            session.lose(format!("the lease ran out: {text}"));
        }
        if session.lost {
            return session.wait_to_leave(&mut leave).await;
        }
        let silence = crate::now().since(session.heard);
        if session.fence.is_none() && silence > PATIENCE {
            return session.say(Event::Unreachable(text));
        }
        session.complain_if_silent(&text);
        tokio::time::sleep(AGAIN).await;
    }
}

impl Session {
    fn new(wish: Wish, tell: UnboundedSender<Event>) -> Self {
        let now = crate::now();
        Self {
            ttl: wish.ttl,
            wish,
            tell,
            id: 0,
            since: now,
            fence: None,
            lost: false,
            mark: None,
            untold: false,
            good_until: now,
            sent: Vec::new(),
            renewals: 0,
            renew_at: now,
            leaving: false,
            heard: now,
            complained: false,
        }
    }

    fn say(&self, event: Event) {
        // If nobody listens any more, the process is about to end.
        let _ = self.tell.send(event);
    }

    /// Until when it is inside, as the user knows it.
    fn inside_until(&self) -> Moment {
        if self.fence.is_some() && !self.untold { self.good_until } else { Moment::NEVER }
    }

    fn has_run_out(&self) -> bool {
        self.inside_until() <= crate::now()
    }

    fn lose(&mut self, why: String) {
        self.fence = None;
        self.lost = true;
        self.say(Event::Lost(why));
    }

    fn complain_if_silent(&mut self, why: &str) {
        if !self.complained && crate::now().since(self.heard) >= SILENCE {
            self.complained = true;
            self.say(Event::Note(format!("the node does not answer: {why}")));
        }
    }

    /// When whoever does not want to wait for ever has waited long enough for an answer.
    fn give_up_at(&self) -> Moment {
        match self.wish.wait {
            Some(wait) if self.fence.is_none() => self.since.after(wait).after(PATIENCE),
            _ => Moment::NEVER,
        }
    }

    /// Waits for something of the node's, and tells the user if it takes long. An error if whoever
    /// waits has given up, or is not inside any more.
    async fn hear<T>(&mut self, what: impl Future<Output = T>) -> Result<T, Over> {
        tokio::pin!(what);
        loop {
            let now = crate::now();
            let look = if self.complained { Duration::from_secs(1) } else { SILENCE };
            let wait = look.min(self.give_up_at().min(self.inside_until()).since(now));
            tokio::select! {
                biased;
                heard = &mut what => return Ok(heard),
                () = tokio::time::sleep(wait) => {}
            }
            self.complain_if_silent("no word for a while");
            if self.has_run_out() {
                return Err(Over::Broken("the node does not answer".to_owned()));
            }
            if self.give_up_at() <= crate::now() {
                self.say(Event::Unreachable("the node does not answer".to_owned()));
                return Err(Over::Done);
            }
        }
    }

    async fn wait_to_leave(self, leave: &mut UnboundedReceiver<()>) {
        leave.recv().await;
        self.say(Event::Left);
    }

    async fn attach(
        &mut self,
        mut client: LocksClient<Channel>,
        leave: &mut UnboundedReceiver<()>,
    ) -> Over {
        let (asks, requests) = unbounded_channel();
        let now = crate::now();
        self.sent = vec![(0, now)];
        // The other end of the channel is held below.
        let _ = asks.send(v1::Request { ask: Some(Ask::Hello(self.hello())) });
        if self.fence.is_none() {
            let acquire = Ask::Acquire(self.acquire(now));
            let _ = asks.send(v1::Request { ask: Some(acquire) });
        }
        match self.hear(client.attach(UnboundedReceiverStream::new(requests))).await {
            Ok(Ok(replies)) => self.converse(replies.into_inner(), &asks, leave).await,
            Ok(Err(status)) => Over::Broken(status.message().to_owned()),
            Err(over) => over,
        }
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
