//! etcd's `Lock` and `Lease` services.
//!
//! As etcd does it, but for where that is wrong: nobody whose lease is dead is let in, only what a
//! lock answered can be unlocked, names that are prefixes of others do not meet, and the revision
//! in a lock's answer is its fence.

use std::{pin::Pin, sync::Arc, time::Duration};

use tokio::sync::{mpsc, oneshot};
use tokio_stream::{Stream, StreamExt, wrappers::UnboundedReceiverStream};
use tonic::{Request, Response, Status, Streaming};

use super::{Core, Service, Waiter};
use crate::{
    Moment,
    desk::{Client, Name, OpenError, Opening, Outcome, Patience, SessionId, WaitId},
    proto::{
        etcdserverpb::{
            LeaseGrantRequest, LeaseGrantResponse, LeaseKeepAliveRequest, LeaseKeepAliveResponse,
            LeaseLeasesRequest, LeaseLeasesResponse, LeaseRevokeRequest, LeaseRevokeResponse,
            LeaseStatus, LeaseTimeToLiveRequest, LeaseTimeToLiveResponse, ResponseHeader,
            lease_server::Lease,
        },
        v3lockpb::{LockRequest, LockResponse, UnlockRequest, UnlockResponse, lock_server::Lock},
    },
};

/// The lease of a lock that was asked for with none.
const PRIVATE: Duration = Duration::from_secs(60);
/// The shortest and the longest lease, in seconds.
const SHORTEST: i64 = 2;
const LONGEST: i64 = 9_000_000_000;

/// etcd's services, over one server's state.
#[derive(Clone)]
pub(super) struct Etcd(pub(super) Arc<Service>);

impl Etcd {
    fn header(&self, revision: u64) -> Option<ResponseHeader> {
        Some(ResponseHeader {
            cluster_id: 1,
            member_id: 1 + self.0.member_index(),
            revision: revision.cast_signed(),
            raft_term: revision >> 40,
        })
    }

    fn current(&self) -> Option<ResponseHeader> {
        let revision = self.0.lock().revision;
        self.header(revision)
    }
}

#[tonic::async_trait]
impl Lease for Etcd {
    async fn lease_grant(
        &self,
        request: Request<LeaseGrantRequest>,
    ) -> Result<Response<LeaseGrantResponse>, Status> {
        let client = Client { host: peer(&request), ..Client::default() };
        let LeaseGrantRequest { ttl, id } = request.into_inner();
        if ttl > LONGEST {
            return Err(Status::out_of_range("etcdserver: too large lease TTL"));
        }
        let ttl = ttl.max(SHORTEST);
        let opening = Opening { id, ttl: seconds(ttl), client, guarded: true, lease: true };
        let opened = self.0.call(|core, now| core.desk.open(now, opening));
        let (session, _) = opened.map_err(|error| match error {
            OpenError::Exists => Status::failed_precondition("etcdserver: lease already exists"),
            OpenError::TooLong => Status::out_of_range("etcdserver: too large lease TTL"),
        })?;
        let header = self.current();
        let error = String::new();
        Ok(Response::new(LeaseGrantResponse { header, id: session.0, ttl, error }))
    }

    async fn lease_revoke(
        &self,
        request: Request<LeaseRevokeRequest>,
    ) -> Result<Response<LeaseRevokeResponse>, Status> {
        let session = SessionId(request.into_inner().id);
        let revoked =
            |core: &mut Core, now| core.desk.is_lease(session) && core.desk.close(now, session);
        if !self.0.call(revoked) {
            return Err(self.0.no_lease(session));
        }
        Ok(Response::new(LeaseRevokeResponse { header: self.current() }))
    }

    type LeaseKeepAliveStream =
        Pin<Box<dyn Stream<Item = Result<LeaseKeepAliveResponse, Status>> + Send>>;

    async fn lease_keep_alive(
        &self,
        request: Request<Streaming<LeaseKeepAliveRequest>>,
    ) -> Result<Response<Self::LeaseKeepAliveStream>, Status> {
        let mut requests = request.into_inner();
        let etcd = self.clone();
        let (replies, stream) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Some(Ok(LeaseKeepAliveRequest { id })) = requests.next().await {
                let session = SessionId(id);
                let renewed = etcd.0.call(|core, now| {
                    core.desk.is_lease(session).then(|| core.desk.renew(now, session)).flatten()
                });
                let ttl = renewed.map_or(0, |ttl| ttl.as_secs().cast_signed());
                let reply = LeaseKeepAliveResponse { header: etcd.current(), id, ttl };
                if replies.send(Ok(reply)).is_err() {
                    return;
                }
            }
        });
        Ok(Response::new(Box::pin(UnboundedReceiverStream::new(stream))))
    }

    async fn lease_time_to_live(
        &self,
        request: Request<LeaseTimeToLiveRequest>,
    ) -> Result<Response<LeaseTimeToLiveResponse>, Status> {
        let LeaseTimeToLiveRequest { id, keys } = request.into_inner();
        let session = SessionId(id);
        let header = self.current();
        let left = |core: &Core, now| {
            core.desk.time_to_live(now, session).filter(|_| core.desk.is_lease(session))
        };
        let response = self.0.call(|core, now| match left(core, now) {
            None => LeaseTimeToLiveResponse { header, id, ttl: -1, granted_ttl: 0, keys: vec![] },
            Some((granted, left)) => {
                let names = if keys { core.desk.inside(session) } else { &[] };
                LeaseTimeToLiveResponse {
                    header,
                    id,
                    ttl: left.as_secs().cast_signed(),
                    granted_ttl: granted.as_secs().cast_signed(),
                    keys: names.iter().map(|name| key(name, session)).collect(),
                }
            }
        });
        Ok(Response::new(response))
    }

    async fn lease_leases(
        &self,
        _: Request<LeaseLeasesRequest>,
    ) -> Result<Response<LeaseLeasesResponse>, Status> {
        let header = self.current();
        let core = self.0.lock();
        let leases = core.desk.leases().map(|session| LeaseStatus { id: session.0 });
        Ok(Response::new(LeaseLeasesResponse { header, leases: leases.collect() }))
    }
}

#[tonic::async_trait]
impl Lock for Etcd {
    async fn lock(&self, request: Request<LockRequest>) -> Result<Response<LockResponse>, Status> {
        let client = Client { host: peer(&request), ..Client::default() };
        let LockRequest { name, lease } = request.into_inner();
        let (session, unused) = match lease {
            0 => {
                let session = self.0.private_lease(client)?;
                (session, Some(Unused { service: &self.0, session }))
            }
            lease => (SessionId(lease), None),
        };
        let fence = match self.0.acquire(session, &name, |_| Patience::Forever).await? {
            Outcome::Granted { fence, .. } | Outcome::Already { fence } => fence,
            outcome => return Err(refusal(outcome)),
        };
        // From now on it is the caller's.
        std::mem::forget(unused);
        let key = key(&name, session);
        Ok(Response::new(LockResponse { header: self.header(fence), key }))
    }

    async fn unlock(
        &self,
        request: Request<UnlockRequest>,
    ) -> Result<Response<UnlockResponse>, Status> {
        let key = request.into_inner().key;
        if key.is_empty() {
            return Err(Status::invalid_argument("etcdserver: key is not provided"));
        }
        let (name, session) = parse_key(&key).ok_or_else(|| {
            Status::invalid_argument("this is no lock's key: those are NAME/LEASE, as Lock answers")
        })?;
        self.0.call(|core, now| {
            let holder = core.desk.holder(now, name).filter(|holder| holder.session == session);
            if let Some(holder) = holder.filter(|_| core.desk.is_lease(session)) {
                core.desk.release(now, name, holder.fence);
            }
        });
        Ok(Response::new(UnlockResponse { header: self.current() }))
    }
}

impl Service {
    /// Asks for a lock and waits for the answer. If the caller goes away, so does its place.
    pub(super) async fn acquire(
        self: &Arc<Self>,
        session: SessionId,
        name: &[u8],
        patience: impl FnOnce(Moment) -> Patience,
    ) -> Result<Outcome, Status> {
        if name.len() > mutua_node::MAX_NAME {
            let text = format!("a name has at most {} bytes", mutua_node::MAX_NAME);
            return Err(Status::invalid_argument(text));
        }
        let (caller, outcome) = oneshot::channel();
        if !self.lock().desk.is_lease(session) {
            return Err(self.no_lease(session));
        }
        let wait = self.call(|core: &mut Core, now| {
            let wait = core.desk.acquire(now, session, name, patience(now));
            core.waiters.insert(wait, Waiter::Call { caller, name: Name::from(name) });
            wait
        });
        let place = Place { service: self, wait, answered: false };
        place.wait(outcome).await
    }

    fn private_lease(self: &Arc<Self>, client: Client) -> Result<SessionId, Status> {
        let opening = Opening { id: 0, ttl: PRIVATE, client, guarded: true, lease: true };
        let opened = self.call(|core, now| core.desk.open(now, opening));
        opened.map(|(session, _)| session).map_err(|error| Status::internal(error.to_string()))
    }

    /// There is no such lease here; its number tells where it may be.
    fn no_lease(&self, session: SessionId) -> Status {
        let text = "etcdserver: requested lease not found";
        let member = usize::from(session.member());
        match self.members.get(member) {
            Some(name) if session.0 > 0 && *name != self.name => Status::not_found(format!(
                "{text}: a lease belongs to the node that granted it; this one may be `{name}`'s"
            )),
            _ => Status::not_found(text),
        }
    }

    fn member_index(&self) -> u64 {
        let index = self.members.iter().position(|name| *name == self.name);
        index.unwrap_or_default() as u64
    }
}

/// Why a lock was not granted.
pub(super) fn refusal(outcome: Outcome) -> Status {
    match outcome {
        // It was there when the wait began.
        Outcome::NoSession => Status::unknown("mutex: session is expired"),
        Outcome::Unavailable(why) => Status::unavailable(why),
        Outcome::Busy | Outcome::TimedOut => Status::aborted("somebody is inside or waits"),
        Outcome::Cancelled => Status::cancelled("it was called off"),
        Outcome::Granted { .. } | Outcome::Already { .. } => Status::internal("it was granted"),
    }
}

/// A private lease of a call that has not got anywhere: nobody else knows of it.
struct Unused<'a> {
    service: &'a Arc<Service>,
    session: SessionId,
}

impl Drop for Unused<'_> {
    fn drop(&mut self) {
        self.service.call(|core, now| core.desk.close(now, self.session));
    }
}

/// Somebody's place in line, given up when the call is.
struct Place<'a> {
    service: &'a Arc<Service>,
    wait: WaitId,
    answered: bool,
}

impl Place<'_> {
    async fn wait(mut self, outcome: oneshot::Receiver<Outcome>) -> Result<Outcome, Status> {
        let outcome = outcome.await.map_err(|_| Status::unavailable("the node stops"))?;
        self.answered = true;
        Ok(outcome)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if !self.answered {
            self.service.call(|core, now| core.desk.cancel(now, self.wait));
        }
    }
}

/// The key of a lock that a lease is inside, as etcd makes it.
pub(super) fn key(name: &[u8], session: SessionId) -> Vec<u8> {
    let sign = if session.0 < 0 { "-" } else { "" };
    let lease = format!("/{sign}{:x}", session.0.unsigned_abs());
    [name, lease.as_bytes()].concat()
}

fn parse_key(key: &[u8]) -> Option<(&[u8], SessionId)> {
    let slash = key.iter().rposition(|&byte| byte == b'/')?;
    let lease = str::from_utf8(&key[slash + 1..]).ok()?;
    // Only what `key` writes: no plus sign, no capitals, no leading zeros.
    let session = SessionId(i64::from_str_radix(lease, 16).ok()?);
    (self::key(&key[..slash], session) == key).then_some((&key[..slash], session))
}

fn seconds(seconds: i64) -> Duration {
    Duration::from_secs(seconds.unsigned_abs())
}

fn peer<T>(request: &Request<T>) -> String {
    request.remote_addr().map_or_else(|| "local".to_owned(), |address| address.to_string())
}

#[cfg(test)]
mod tests {
    use super::{key, parse_key};
    use crate::desk::SessionId;

    #[test]
    fn keys_are_etcds_and_read_back() {
        assert_eq!(key(b"foo", SessionId(0x1234)), b"foo/1234");
        assert_eq!(key(b"neg", SessionId(-7)), b"neg/-7");
        let names: [&[u8]; 4] = [b"", b"a/b", b"\0\xff", b"a/"];
        for (name, lease) in names
            .into_iter()
            .flat_map(|name| [1, -1, i64::MAX, i64::MIN].map(|lease| (name, lease)))
        {
            let session = SessionId(lease);
            assert_eq!(parse_key(&key(name, session)), Some((name, session)));
        }
        for wrong in ["", "foo", "foo/", "foo/xyz", "foo/+7", "foo/0A", "foo/07"] {
            assert_eq!(parse_key(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
