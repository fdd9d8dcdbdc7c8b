//! A client of a real etcd, with the same events.

use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::{Status, transport::Channel};

use super::{Connector, Event, Wish};
use crate::{
    Moment,
    proto::{
        etcdserverpb::{
            LeaseGrantRequest, LeaseKeepAliveRequest, LeaseRevokeRequest, lease_client::LeaseClient,
        },
        v1,
        v3lockpb::{LockRequest, UnlockRequest, lock_client::LockClient},
    },
};

/// etcd cannot try: who does not want to wait gets this long to be first.
const TRY: Duration = Duration::from_millis(300);

pub(super) async fn run(
    connector: Connector,
    wish: Wish,
    tell: UnboundedSender<Event>,
    mut leave: UnboundedReceiver<()>,
) {
    let channel = match connector().await {
        Ok(channel) => channel,
        Err(text) => return say(&tell, Event::Unreachable(text)),
    };
    let mut lease = LeaseClient::new(channel.clone());
    let asked = crate::now();
    let ttl = i64::try_from(wish.ttl.as_secs().max(1)).unwrap_or(i64::MAX);
    let granted = match lease.lease_grant(LeaseGrantRequest { ttl, id: 0 }).await {
        Ok(granted) => granted.into_inner(),
        Err(status) => return say(&tell, Event::Unreachable(status.message().to_owned())),
    };
    let ttl = Duration::from_secs(granted.ttl.unsigned_abs());
    say(&tell, Event::Opened { session: granted.id, version: "etcd".to_owned() });
    let mut keeper = Keeper { good_until: asked.after(ttl), ttl, id: granted.id };
    let key = tokio::select! {
        result = lock(channel.clone(), &wish, granted.id, asked, &tell) => result,
        _ = keeper.keep(lease.clone(), &tell) => None,
        _ = leave.recv() => None,
    };
    let key = match key {
        Some(key) if keeper.confirm(lease.clone(), &tell).await => Some(key),
        Some(_) => {
            refuse(&tell, v1::Reason::Unavailable, "the lease ran out during the wait");
            None
        }
        None => None,
    };
    if let Some((key, fence)) = key {
        say(&tell, Event::GoodUntil(keeper.good_until));
        say(&tell, Event::Granted { fence, waited: crate::now().since(asked) });
        tokio::select! {
            why = keeper.keep(lease.clone(), &tell) => {
                say(&tell, Event::Lost(why));
                leave.recv().await;
            }
            _ = leave.recv() => {}
        }
        let _ = LockClient::new(channel).unlock(UnlockRequest { key }).await;
    }
    let revoke = lease.lease_revoke(LeaseRevokeRequest { id: granted.id });
    let _ = tokio::time::timeout(Duration::from_secs(2), revoke).await;
    say(&tell, Event::Left);
}

/// Ends a lease, and with it all that is held by it.
pub(super) async fn revoke(channel: Channel, id: i64) -> Result<(), Status> {
    LeaseClient::new(channel).lease_revoke(LeaseRevokeRequest { id }).await.map(drop)
}

fn say(tell: &UnboundedSender<Event>, event: Event) {
    // If nobody listens any more, the process is about to end.
    let _ = tell.send(event);
}

fn refuse(tell: &UnboundedSender<Event>, reason: v1::Reason, text: &str) {
    let text = text.to_owned();
    say(tell, Event::Refused(v1::Refused { id: 1, reason: reason.into(), text, holder: None }));
}

/// Waits for the lock as long as is wished. Its key and its fence.
async fn lock(
    channel: Channel,
    wish: &Wish,
    lease: i64,
    since: Moment,
    tell: &UnboundedSender<Event>,
) -> Option<(Vec<u8>, u64)> {
    let request = LockRequest { name: wish.name.clone(), lease };
    let mut client = LockClient::new(channel);
    let limit = wish.wait.map(|wait| wait.max(TRY).saturating_sub(crate::now().since(since)));
    let locked = match limit {
        None => client.lock(request).await,
        Some(limit) => match tokio::time::timeout(limit, client.lock(request)).await {
            Ok(locked) => locked,
            Err(_) => Err(Status::deadline_exceeded("the time to wait is over")),
        },
    };
    match locked {
        Ok(response) => {
            let response = response.into_inner();
            let fence = response.header.map_or(0, |header| header.revision.unsigned_abs());
            Some((response.key, fence))
        }
        Err(status) => {
            let reason = match status.code() {
                tonic::Code::DeadlineExceeded => v1::Reason::Timeout,
                _ => v1::Reason::Unavailable,
            };
            refuse(tell, reason, status.message());
            None
        }
    }
}

/// Renews a lease.
struct Keeper {
    id: i64,
    ttl: Duration,
    good_until: Moment,
}

impl Keeper {
    /// Renews until that is no use any more; says why.
    async fn keep(&mut self, lease: LeaseClient<Channel>, tell: &UnboundedSender<Event>) -> String {
        loop {
            let why = match self.keep_on_one_stream(lease.clone(), tell, false).await {
                Ok(_) => return "the lease is gone".to_owned(),
                Err(status) => status.message().to_owned(),
            };
            if self.good_until <= crate::now() {
                return format!("the lease ran out: {why}");
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Whether the lease is good for a while: an etcd before 3.5 lets in who has none any more, and
    /// who was stopped for a while reads its answer late.
    async fn confirm(
        &mut self,
        lease: LeaseClient<Channel>,
        tell: &UnboundedSender<Event>,
    ) -> bool {
        let now = crate::now();
        self.good_until.since(now) >= self.ttl / 2
            || (now < self.good_until
                && matches!(self.keep_on_one_stream(lease, tell, true).await, Ok(true)))
    }

    /// `Ok(false)` if the lease is gone, `Ok(true)` if it was renewed and once is enough.
    async fn keep_on_one_stream(
        &mut self,
        mut lease: LeaseClient<Channel>,
        tell: &UnboundedSender<Event>,
        once: bool,
    ) -> Result<bool, Status> {
        let (ask, requests) = unbounded_channel();
        let mut sent = crate::now();
        let _ = ask.send(LeaseKeepAliveRequest { id: self.id });
        let stream = UnboundedReceiverStream::new(requests);
        let limit = |now: Moment| self.good_until.since(now);
        let replies = tokio::time::timeout(limit(sent), lease.lease_keep_alive(stream)).await;
        let late = |_| Status::deadline_exceeded("no answer");
        let mut replies = replies.map_err(late)??.into_inner();
        loop {
            let left = self.good_until.since(crate::now());
            let reply = tokio::time::timeout(left, replies.message()).await.map_err(late)??;
            let reply = reply.ok_or_else(|| Status::unavailable("the stream has ended"))?;
            if reply.ttl <= 0 {
                return Ok(false);
            }
            self.ttl = Duration::from_secs(reply.ttl.unsigned_abs());
            self.good_until = sent.after(self.ttl);
            say(tell, Event::GoodUntil(self.good_until));
            if once {
                return Ok(true);
            }
            tokio::time::sleep(self.ttl / 3).await;
            sent = crate::now();
            let _ = ask.send(LeaseKeepAliveRequest { id: self.id });
        }
    }
}
