//! etcd's `Lock` and `Lease` services.
//!
//! They behave as etcd's, except where those are unsafe: no lock is granted on an expired lease,
//! only a key that Lock returned can be unlocked, names that are prefixes of others do not
//! interfere, and the revision in a response of Lock is its fencing token.

use std::{
    pin::Pin,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use mutua_algorithms::Time;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::{Stream, StreamExt, wrappers::UnboundedReceiverStream};
use tonic::{Request, Response, Status, Streaming};

use super::{
    Core, Service, Waiter,
    caller::Caller,
    hosting::{self, Patience},
};
use crate::{
    Moment, lease_locks,
    leases::{
        Client, DEFAULT_ETCD_LEASE, Name, OpenError, Opening, Outcome, SHORTEST_ETCD_LEASE,
        SessionId, WaitId, WaitLimit,
    },
    proto::{
        etcdserverpb::{
            LeaseGrantRequest, LeaseGrantResponse, LeaseKeepAliveRequest, LeaseKeepAliveResponse,
            LeaseLeasesRequest, LeaseLeasesResponse, LeaseRevokeRequest, LeaseRevokeResponse,
            LeaseStatus, LeaseTimeToLiveRequest, LeaseTimeToLiveResponse, ResponseHeader,
            lease_server::Lease,
        },
        v1::{LeaseCall, LeaseReply, lease_call::Call},
        v3lockpb::{LockRequest, LockResponse, UnlockRequest, UnlockResponse, lock_server::Lock},
    },
};

/// How long the record of a new lease may take.
const RECORDED_WITHIN: Duration = Duration::from_secs(5);

/// The longest lease, in seconds.
const LONGEST: i64 = crate::LONGEST_LEASE.as_secs() as i64;

/// etcd's services, over one server's state.
#[derive(Clone)]
pub(super) struct Etcd(pub(super) Arc<Service>);

impl Etcd {
    fn current(&self) -> Option<ResponseHeader> {
        let revision = self.0.lock().revision.max(self.0.floor());
        self.0.header(revision)
    }

    /// A call about a lease at the node that serves it, if that is another one.
    async fn elsewhere(
        &self,
        caller: &Caller,
        session: SessionId,
        call: Call,
    ) -> Result<Option<LeaseReply>, Status> {
        let call = LeaseCall {
            identity: self.0.identity_needed(caller),
            session: session.0,
            call: call.into(),
            lease: true,
            ..LeaseCall::default()
        };
        self.0.lease_call_elsewhere(call).await
    }

    /// Records a new lease at the keepers, so that it outlives this node.
    async fn record_lease(&self, session: SessionId) -> Result<(), Status> {
        if !self.0.handle.is_replicated() {
            return Ok(());
        }
        let unused = Unused::new(&self.0, session);
        let limit = |now: Moment| WaitLimit::Until(now.after(RECORDED_WITHIN));
        let name = lease_locks::name_of(session);
        match self.0.acquire_own(session, &name, limit).await? {
            Outcome::Granted { .. } | Outcome::Already { .. } => {
                unused.keep();
                Ok(())
            }
            // Another member grants the same number.
            Outcome::TimedOut if self.0.handle.is_settled() => Err(exists()),
            Outcome::TimedOut => Err(Status::unavailable("the lease cannot be recorded now")),
            outcome => Err(refusal(outcome)),
        }
    }

    async fn keep_alive(
        &self,
        caller: &Caller,
        session: SessionId,
    ) -> Result<LeaseKeepAliveResponse, Status> {
        if !self.0.handle.may_renew() {
            return Err(hosting::unavailable());
        }
        let renewed = self.0.call(|core, now| {
            let own = core.leases.is_lease(session) && self.0.owns(core, caller, session);
            own.then(|| core.leases.renew(now, session)).flatten()
        });
        let ttl = match renewed {
            Some(ttl) => ttl,
            None => {
                let reply = self.elsewhere(caller, session, Call::Renew).await?;
                let reply = reply.unwrap_or_default();
                Duration::from_millis(reply.ttl_ms)
            }
        };
        let ttl = ttl.as_secs().cast_signed();
        Ok(LeaseKeepAliveResponse { header: self.current(), id: session.0, ttl })
    }
}

#[tonic::async_trait]
impl Lease for Etcd {
    async fn lease_grant(
        &self,
        request: Request<LeaseGrantRequest>,
    ) -> Result<Response<LeaseGrantResponse>, Status> {
        let client = client(&Caller::of(&request));
        let LeaseGrantRequest { ttl, id } = request.into_inner();
        if ttl > LONGEST {
            return Err(Status::out_of_range("etcdserver: too large lease TTL"));
        }
        let ttl = ttl.max(SHORTEST_ETCD_LEASE);
        let opening = Opening { id, ttl: seconds(ttl), client, supervised: true, lease: true };
        let opened = self.0.call(|core, now| core.leases.open(now, opening));
        let (session, granted) = opened.map_err(|error| match error {
            OpenError::Exists => exists(),
            OpenError::TooLong => Status::out_of_range("etcdserver: too large lease TTL"),
        })?;
        if id != 0 && self.0.is_served_elsewhere(session).await {
            self.0.call(|core, now| core.leases.close(now, session));
            return Err(exists());
        }
        self.record_lease(session).await?;
        let header = self.current();
        let (ttl, error) = (granted.as_secs().cast_signed(), String::new());
        Ok(Response::new(LeaseGrantResponse { header, id: session.0, ttl, error }))
    }

    async fn lease_revoke(
        &self,
        request: Request<LeaseRevokeRequest>,
    ) -> Result<Response<LeaseRevokeResponse>, Status> {
        let caller = Caller::of(&request);
        let session = SessionId(request.into_inner().id);
        let revoked = |core: &mut Core, now| {
            let own = core.leases.is_lease(session) && self.0.owns(core, &caller, session);
            own && core.leases.close(now, session)
        };
        let patience = Patience::new();
        loop {
            if self.0.call(revoked) {
                self.0.handle.send_over();
                break;
            }
            match self.elsewhere(&caller, session, Call::Close).await {
                Ok(Some(_)) => break,
                Ok(None) => return Err(self.0.no_lease(session)),
                Err(unknown) => patience.wait(unknown).await?,
            }
        }
        Ok(Response::new(LeaseRevokeResponse { header: self.current() }))
    }

    type LeaseKeepAliveStream =
        Pin<Box<dyn Stream<Item = Result<LeaseKeepAliveResponse, Status>> + Send>>;

    async fn lease_keep_alive(
        &self,
        request: Request<Streaming<LeaseKeepAliveRequest>>,
    ) -> Result<Response<Self::LeaseKeepAliveStream>, Status> {
        let caller = Caller::of(&request);
        let mut requests = request.into_inner();
        let etcd = self.clone();
        let (replies, stream) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Some(Ok(LeaseKeepAliveRequest { id })) = requests.next().await {
                let reply = etcd.keep_alive(&caller, SessionId(id)).await;
                let ended = reply.is_err();
                if replies.send(reply).is_err() || ended {
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
        let identity = self.0.identity_needed(&Caller::of(&request));
        let LeaseTimeToLiveRequest { id, keys } = request.into_inner();
        let session = SessionId(id);
        let header = self.current();
        let call = Call::TimeToLive.into();
        let call = LeaseCall { session: id, call, lease: true, identity, ..LeaseCall::default() };
        let here = Some(self.0.lease_call(&call)).filter(|reply| reply.done);
        let reply = match here {
            Some(reply) => Some(reply),
            None => self.0.lease_call_elsewhere(call).await?,
        };
        Ok(Response::new(match reply {
            None => LeaseTimeToLiveResponse { header, id, ttl: -1, granted_ttl: 0, keys: vec![] },
            Some(LeaseReply { ttl_ms, left_ms, held, .. }) => {
                let names = if keys { held } else { Vec::new() };
                LeaseTimeToLiveResponse {
                    header,
                    id,
                    ttl: (left_ms / 1000).cast_signed(),
                    granted_ttl: (ttl_ms / 1000).cast_signed(),
                    keys: names.iter().map(|name| key(name, session)).collect(),
                }
            }
        }))
    }

    async fn lease_leases(
        &self,
        request: Request<LeaseLeasesRequest>,
    ) -> Result<Response<LeaseLeasesResponse>, Status> {
        let identity = self.0.identity_needed(&Caller::of(&request));
        let (leases, header) = (self.0.all_leases(identity).await?, self.current());
        let leases = leases.into_iter().map(|id| LeaseStatus { id }).collect();
        Ok(Response::new(LeaseLeasesResponse { header, leases }))
    }
}

#[tonic::async_trait]
impl Lock for Etcd {
    async fn lock(&self, request: Request<LockRequest>) -> Result<Response<LockResponse>, Status> {
        let caller = Caller::of(&request);
        let LockRequest { name, lease } = request.into_inner();
        let elsewhere = lease != 0 && !self.0.is_alone();
        if elsewhere && !self.0.lock().leases.is_lease(SessionId(lease)) {
            let locked = self.0.acquire_by_key(&name, SessionId(lease), None, self.0.by(&caller));
            let locked = locked.await?;
            let header = self.0.header(locked.fencing_token.cast_unsigned());
            return Ok(Response::new(LockResponse { header, key: locked.kv.key }));
        }
        let (session, unused) = match lease {
            0 => {
                let session = self.0.private_lease(client(&caller))?;
                (session, Some(Unused::new(&self.0, session)))
            }
            lease => (SessionId(lease), None),
        };
        let acquired = self.0.acquire(&caller, session, &name, |_| WaitLimit::Never);
        let fencing_token = match acquired.await? {
            Outcome::Granted { fencing_token, .. } | Outcome::Already { fencing_token } => {
                fencing_token
            }
            outcome => return Err(refusal(outcome)),
        };
        // From now on the lease belongs to the caller.
        if let Some(unused) = unused {
            unused.keep();
        }
        let key = key(&name, session);
        Ok(Response::new(LockResponse { header: self.0.header(fencing_token), key }))
    }

    async fn unlock(
        &self,
        request: Request<UnlockRequest>,
    ) -> Result<Response<UnlockResponse>, Status> {
        let identity = self.0.identity_needed(&Caller::of(&request));
        let key = request.into_inner().key;
        if key.is_empty() {
            return Err(Status::invalid_argument("etcdserver: key is not provided"));
        }
        let (name, session) = parse_key(&key).ok_or_else(|| {
            Status::invalid_argument("invalid key: use NAME/LEASE, as Lock returned it")
        })?;
        let call = Call::Release.into();
        let name = name.to_vec();
        let call = LeaseCall { session: session.0, call, lease: true, name, identity };
        let patience = Patience::new();
        while !self.0.lease_call(&call).done {
            match self.0.lease_call_elsewhere(call.clone()).await {
                Ok(_) => break,
                Err(unknown) => patience.wait(unknown).await?,
            }
        }
        Ok(Response::new(UnlockResponse { header: self.current() }))
    }
}

impl Service {
    /// The header of a response. The revision of a held lock is its fencing token; any other one is
    /// at least the lowest of this node's view.
    pub(crate) fn header(&self, revision: u64) -> Option<ResponseHeader> {
        let revision = match revision {
            0 => self.floor(),
            revision => revision,
        };
        Some(ResponseHeader {
            cluster_id: 1,
            member_id: 1 + self.member_index(),
            revision: revision.cast_signed(),
            raft_term: Time::from_number(revision).epoch().into(),
        })
    }

    /// The lowest revision of this node's last view: all fencing tokens of earlier views are below
    /// it.
    pub(crate) fn floor(&self) -> u64 {
        let epoch = u64::from(self.handle.epoch().unwrap_or_default());
        let floor = (epoch << Time::COUNT_BITS).max(1);
        self.floor.fetch_max(floor, Ordering::Relaxed).max(floor)
    }

    /// Requests a lock and waits for the outcome. Dropping the future cancels the wait.
    pub(super) async fn acquire(
        self: &Arc<Self>,
        caller: &Caller,
        session: SessionId,
        name: &[u8],
        limit: impl FnOnce(Moment) -> WaitLimit,
    ) -> Result<Outcome, Status> {
        crate::leases::check_name(name).map_err(Status::invalid_argument)?;
        let known = |core: &Core| core.leases.is_lease(session) && self.owns(core, caller, session);
        if !known(&self.lock()) {
            return Err(self.no_lease(session));
        }
        self.acquire_own(session, name, limit).await
    }

    /// Requests a lock for a lease that the caller may use.
    pub(crate) async fn acquire_own(
        self: &Arc<Self>,
        session: SessionId,
        name: &[u8],
        limit: impl FnOnce(Moment) -> WaitLimit,
    ) -> Result<Outcome, Status> {
        let (caller, outcome) = oneshot::channel();
        let wait = self.call(|core: &mut Core, now| {
            let wait = core.leases.acquire(now, session, name, limit(now));
            core.waiters.insert(wait, Waiter::Call { caller, name: Name::from(name) });
            wait
        });
        let waiting = Waiting { service: self, wait, done: false };
        waiting.outcome(outcome).await
    }

    pub(crate) fn private_lease(self: &Arc<Self>, client: Client) -> Result<SessionId, Status> {
        let opening =
            Opening { id: 0, ttl: DEFAULT_ETCD_LEASE, client, supervised: true, lease: true };
        let opened = self.call(|core, now| core.leases.open(now, opening));
        opened.map(|(session, _)| session).map_err(|error| Status::internal(error.to_string()))
    }

    /// The error for a lease that is not found here; its number may contain its member's index.
    pub(crate) fn no_lease(&self, session: SessionId) -> Status {
        let text = "etcdserver: requested lease not found";
        let member = usize::from(session.member());
        match self.handle.member_name(member) {
            Some(name) if session.0 > 0 && name != self.name => Status::not_found(format!(
                "{text}: a lease belongs to the node that granted it, perhaps `{name}` for this one"
            )),
            _ => Status::not_found(text),
        }
    }

    pub(crate) fn member_index(&self) -> u64 {
        u64::from(self.handle.number())
    }
}

/// The error for a lock that was not granted.
pub(super) fn refusal(outcome: Outcome) -> Status {
    match outcome {
        // The session was live when the wait began.
        Outcome::NoSession => Status::unknown("mutex: session is expired"),
        Outcome::Unavailable(why) => Status::unavailable(why),
        Outcome::Busy | Outcome::TimedOut => Status::aborted("held, or has waiters"),
        Outcome::Cancelled => Status::cancelled("the request was cancelled"),
        Outcome::Granted { .. } | Outcome::Already { .. } => Status::internal("granted"),
    }
}

fn exists() -> Status {
    Status::failed_precondition("etcdserver: lease already exists")
}

/// The private lease of a call that has not returned it: no client knows it.
struct Unused<'a> {
    service: &'a Arc<Service>,
    /// The session to close; none if it is used.
    session: Option<SessionId>,
}

impl<'a> Unused<'a> {
    fn new(service: &'a Arc<Service>, session: SessionId) -> Self {
        Self { service, session: Some(session) }
    }

    /// A client knows the lease from now on.
    fn keep(mut self) {
        self.session = None;
    }
}

impl Drop for Unused<'_> {
    fn drop(&mut self) {
        if let Some(session) = self.session {
            self.service.call(|core, now| core.leases.close(now, session));
        }
    }
}

/// The wait of a call, cancelled when the call is.
struct Waiting<'a> {
    service: &'a Arc<Service>,
    wait: WaitId,
    done: bool,
}

impl Waiting<'_> {
    async fn outcome(mut self, outcome: oneshot::Receiver<Outcome>) -> Result<Outcome, Status> {
        let outcome = outcome.await.map_err(|_| Status::unavailable("the node is stopping"))?;
        self.done = true;
        Ok(outcome)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if !self.done {
            self.service.call(|core, now| core.leases.cancel(now, self.wait));
        }
    }
}

/// The key of a lock that is held on a lease, as etcd makes it.
pub(super) fn key(name: &[u8], session: SessionId) -> Vec<u8> {
    let sign = if session.0 < 0 { "-" } else { "" };
    let lease = format!("/{sign}{:x}", session.0.unsigned_abs());
    [name, lease.as_bytes()].concat()
}

pub(super) fn parse_key(key: &[u8]) -> Option<(&[u8], SessionId)> {
    let slash = key.iter().rposition(|&byte| byte == b'/')?;
    let lease = str::from_utf8(&key[slash + 1..]).ok()?;
    // Only the form that `key` writes: no plus sign, no capitals, no leading zeros.
    let session = SessionId(i64::from_str_radix(lease, 16).ok()?);
    (self::key(&key[..slash], session) == key).then_some((&key[..slash], session))
}

fn seconds(seconds: i64) -> Duration {
    Duration::from_secs(seconds.unsigned_abs())
}

/// An etcd client says nothing of itself.
pub(crate) fn client(caller: &Caller) -> Client {
    let (host, identity) = (caller.address().to_owned(), caller.identity().to_string());
    Client { host, identity, ..Client::default() }
}

#[cfg(test)]
mod tests {
    use super::{key, parse_key};
    use crate::leases::SessionId;

    #[test]
    fn keys_have_etcds_form_and_are_parsed_back() {
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
