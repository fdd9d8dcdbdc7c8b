//! A client of a real etcd. It reports the same events as a session with a node.

use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::{Status, transport::Channel};

use super::{Connector, Event, HoldRequest, Scope};
use crate::{
    Moment,
    proto::{
        etcdserverpb::{
            LeaseGrantRequest, LeaseKeepAliveRequest, LeaseRevokeRequest, lease_client::LeaseClient,
        },
        v1,
        v3electionpb::{
            CampaignRequest, LeaderKey, ResignRequest, election_client::ElectionClient,
        },
        v3lockpb::{LockRequest, UnlockRequest, lock_client::LockClient},
    },
};

/// etcd's Lock always waits: a request without a wait is cancelled after this long.
const TRY: Duration = Duration::from_millis(300);

pub(super) async fn run(
    connector: Connector,
    request: HoldRequest,
    report: UnboundedSender<Event>,
    mut release: UnboundedReceiver<()>,
) {
    let channel = match connector().await {
        Ok(channel) => channel,
        Err(error) => return send(&report, Event::Unreachable(error.to_string())),
    };
    let mut lease = LeaseClient::new(channel.clone());
    let begun = crate::now();
    let ttl = i64::try_from(request.ttl.as_secs().max(1)).unwrap_or(i64::MAX);
    let granted = match lease.lease_grant(LeaseGrantRequest { ttl, id: 0 }).await {
        Ok(granted) => granted.into_inner(),
        Err(status) => return send(&report, Event::Unreachable(status.message().to_owned())),
    };
    let ttl = Duration::from_secs(granted.ttl.unsigned_abs());
    let (version, scope) = ("etcd".to_owned(), Scope::Etcd);
    send(
        &report,
        Event::Opened { session: granted.id, version, scope, ttl, suspended_for: Duration::ZERO },
    );
    let mut keep_alive = KeepAlive { valid_until: begun.after(ttl), ttl, id: granted.id };
    let key = tokio::select! {
        result = acquire(channel.clone(), &request, granted.id, begun, &report) => result,
        _ = keep_alive.run(lease.clone(), &report) => None,
        _ = release.recv() => None,
    };
    let key = match key {
        Some(key) if keep_alive.confirm(lease.clone(), &report).await => Some(key),
        Some(_) => {
            refuse(&report, v1::Reason::Unavailable, "the lease expired during the wait");
            None
        }
        None => None,
    };
    if let Some((key, fencing_token)) = key {
        send(&report, Event::ValidUntil(keep_alive.valid_until));
        send(&report, Event::Granted { fencing_token, waited: crate::now().since(begun) });
        tokio::select! {
            why = keep_alive.run(lease.clone(), &report) => {
                send(&report, Event::Lost(why));
                release.recv().await;
            }
            _ = release.recv() => {}
        }
        key.release(channel).await;
    }
    let revoke = lease.lease_revoke(LeaseRevokeRequest { id: granted.id });
    let _ = tokio::time::timeout(Duration::from_secs(2), revoke).await;
    send(&report, Event::Released);
}

/// Ends a lease, which releases all locks that are held on it.
pub(super) async fn revoke(channel: Channel, id: i64) -> Result<(), Status> {
    LeaseClient::new(channel).lease_revoke(LeaseRevokeRequest { id }).await.map(drop)
}

fn send(report: &UnboundedSender<Event>, event: Event) {
    // Without a receiver the process is about to end.
    let _ = report.send(event);
}

fn refuse(report: &UnboundedSender<Event>, reason: v1::Reason, text: &str) {
    let text = text.to_owned();
    send(report, Event::Refused(v1::Refused { id: 1, reason: reason.into(), text, holder: None }));
}

/// What is held at an etcd.
enum Held {
    Lock(Vec<u8>),
    Leadership(LeaderKey),
}

impl Held {
    async fn release(self, channel: Channel) {
        // If it fails, the lease is revoked next.
        let _ = match self {
            Self::Lock(key) => {
                LockClient::new(channel).unlock(UnlockRequest { key }).await.map(drop)
            }
            Self::Leadership(leader) => {
                let request = ResignRequest { leader: Some(leader) };
                ElectionClient::new(channel).resign(request).await.map(drop)
            }
        };
    }
}

/// Requests the lock or, with a value, the leadership. Returns its key and its fencing token.
async fn request(
    channel: Channel,
    request: &HoldRequest,
    lease: i64,
) -> Result<(Held, u64), Status> {
    let name = request.name.clone();
    let Some(value) = request.value.clone() else {
        let locked = LockClient::new(channel).lock(LockRequest { name, lease }).await?.into_inner();
        let fencing_token = locked.header.map_or(0, |header| header.revision.unsigned_abs());
        return Ok((Held::Lock(locked.key), fencing_token));
    };
    let campaign = CampaignRequest { name, lease, value };
    let elected = ElectionClient::new(channel).campaign(campaign).await?.into_inner();
    let leader = elected.leader.unwrap_or_default();
    // The revision in the header is that of the request, not that of the election.
    let fencing_token = leader.rev.unsigned_abs();
    Ok((Held::Leadership(leader), fencing_token))
}

/// Waits for the lock or the leadership, up to the request's limit. Returns its key and its fencing
/// token.
async fn acquire(
    channel: Channel,
    request: &HoldRequest,
    lease: i64,
    since: Moment,
    report: &UnboundedSender<Event>,
) -> Option<(Held, u64)> {
    let call = self::request(channel, request, lease);
    let limit = request.wait.map(|wait| wait.max(TRY).saturating_sub(crate::now().since(since)));
    let locked = match limit {
        None => call.await,
        Some(limit) => match tokio::time::timeout(limit, call).await {
            Ok(locked) => locked,
            Err(_) => Err(Status::deadline_exceeded("not acquired in time")),
        },
    };
    match locked {
        Ok(held) => Some(held),
        Err(status) => {
            let reason = match status.code() {
                tonic::Code::DeadlineExceeded => v1::Reason::Timeout,
                tonic::Code::PermissionDenied => v1::Reason::Denied,
                _ => v1::Reason::Unavailable,
            };
            refuse(report, reason, status.message());
            None
        }
    }
}

/// Renews a lease.
struct KeepAlive {
    id: i64,
    ttl: Duration,
    valid_until: Moment,
}

impl KeepAlive {
    /// Renews until the lease has ended; returns the reason.
    async fn run(
        &mut self,
        lease: LeaseClient<Channel>,
        report: &UnboundedSender<Event>,
    ) -> String {
        loop {
            let why = match self.run_on_one_stream(lease.clone(), report, false).await {
                Ok(_) => return "the lease has ended".to_owned(),
                Err(status) => status.message().to_owned(),
            };
            if self.valid_until <= crate::now() {
                return format!("the lease expired: {why}");
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Whether the lease lasts for a while: an etcd before 3.5 grants locks on leases that have
    /// expired, and a client that was stopped reads its grant late.
    async fn confirm(
        &mut self,
        lease: LeaseClient<Channel>,
        report: &UnboundedSender<Event>,
    ) -> bool {
        let now = crate::now();
        self.valid_until.since(now) >= self.ttl / 2
            || (now < self.valid_until
                && matches!(self.run_on_one_stream(lease, report, true).await, Ok(true)))
    }

    /// `Ok(false)` if the lease has ended, `Ok(true)` if it was renewed and `once` is set.
    async fn run_on_one_stream(
        &mut self,
        mut lease: LeaseClient<Channel>,
        report: &UnboundedSender<Event>,
        once: bool,
    ) -> Result<bool, Status> {
        let (sender, requests) = unbounded_channel();
        let mut sent = crate::now();
        let _ = sender.send(LeaseKeepAliveRequest { id: self.id });
        let stream = UnboundedReceiverStream::new(requests);
        let limit = |now: Moment| self.valid_until.since(now);
        let replies = tokio::time::timeout(limit(sent), lease.lease_keep_alive(stream)).await;
        let late = |_| Status::deadline_exceeded("no reply");
        let mut replies = replies.map_err(late)??.into_inner();
        loop {
            let left = self.valid_until.since(crate::now());
            let reply = tokio::time::timeout(left, replies.message()).await.map_err(late)??;
            let reply = reply.ok_or_else(|| Status::unavailable("the stream has ended"))?;
            if reply.ttl <= 0 {
                return Ok(false);
            }
            self.ttl = Duration::from_secs(reply.ttl.unsigned_abs());
            self.valid_until = sent.after(self.ttl);
            send(report, Event::ValidUntil(self.valid_until));
            if once {
                return Ok(true);
            }
            tokio::time::sleep(self.ttl / 3).await;
            sent = crate::now();
            let _ = sender.send(LeaseKeepAliveRequest { id: self.id });
        }
    }
}
