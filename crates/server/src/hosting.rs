//! Clients that outlive their node, around the lease table: holds are recorded through the node,
//! those of lost nodes are taken over, and a client finds the node that serves it.

use std::{net::SocketAddr, path::Path, sync::Arc, time::Duration};

use mutua_client::proto::v1::{self, peer_query::Query, peer_reply::Reply};
use mutua_node::{Action, FencingToken, Guard, HoldId, Served, ServedClient};
use prost::Message;
use tokio::sync::mpsc;
use tonic::Status;

use super::{
    Core, Options, Service,
    caller::Caller,
    clients::{client, millis},
    node_requests::NodeRequest,
};
use crate::{
    Moment, lease_locks,
    leases::{Name, Opening, RequestId, SessionId, check_name},
    recipes::Wanted,
    recorded::{calendar_ms, recorded, recorded_opening, since},
};

/// The endpoints of other nodes are asked for again after this long.
const ENDPOINTS_AGAIN: Duration = Duration::from_secs(5);

/// How long a client that opens a session waits for them. They are nearly always known.
const ENDPOINTS_SOON: Duration = Duration::from_millis(300);

/// A node that stops waits so many milliseconds at most until what it has promised is recorded, and
/// looks so often.
const RECORDING_ENDS: u64 = 300;
const RECORDING_AGAIN: u64 = 2;

/// Where a node serves clients.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Endpoints {
    host: String,
    anywhere: Vec<String>,
    on_host: Vec<String>,
}

/// Where the other nodes serve clients, by their names.
#[derive(Default)]
pub(crate) struct PeerEndpoints {
    asked: Option<Moment>,
    known: Vec<(String, Endpoints)>,
}

/// The node that serves a session.
pub(crate) enum Location {
    /// This one does, or no node can.
    Here,
    /// Another one, and the endpoints at which the client can connect to it.
    At { node: String, endpoints: Vec<String> },
    /// It is not known yet: the client tries again.
    Unknown,
}

impl Endpoints {
    pub(crate) fn of(options: &Options) -> Self {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let socket = |socket: &Path| {
            let path = std::path::absolute(socket).unwrap_or_else(|_| socket.to_owned());
            format!("unix:{}", path.display())
        };
        let mut endpoints =
            Self { host, anywhere: Vec::new(), on_host: vec![socket(&options.socket)] };
        if let Some(address) = options.tcp {
            let member = options.node.members.iter().find(|one| one.name == options.node.node);
            let text = reachable(address, member.map(|member| member.address.as_str()));
            match address.ip().is_loopback() {
                true => endpoints.on_host.push(text),
                false => endpoints.anywhere.push(text),
            }
        }
        endpoints
    }

    /// The node's host.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    /// The endpoints for a client on this host.
    fn for_host(&self, host: &str) -> Vec<String> {
        let local = self.on_host.iter().filter(|_| host == self.host);
        local.chain(&self.anywhere).cloned().collect()
    }
}

/// An address that clients on other hosts can use: a node that serves on all addresses is reached
/// where the other members reach it.
fn reachable(address: SocketAddr, member: Option<&str>) -> String {
    match member.and_then(|member| member.rsplit_once(':')) {
        Some((host, _)) if address.ip().is_unspecified() => format!("{host}:{}", address.port()),
        _ => address.to_string(),
    }
}

/// How long a call waits until it is known which member serves what it is about: as long as a
/// request waits at etcd without a leader. Clients do not repeat calls that change something.
const PATIENCE: Duration = Duration::from_secs(7);

/// The pause before it looks again.
const AGAIN: Duration = Duration::from_millis(100);

/// The wait of one call until a member serves what a lost one did.
pub(crate) struct Patience {
    ends: tokio::time::Instant,
}

impl Patience {
    pub(crate) fn new() -> Self {
        Self { ends: tokio::time::Instant::now() + PATIENCE }
    }

    /// Waits for a while.
    ///
    /// # Errors
    ///
    /// The reason that it is not known, if the call has waited long enough.
    pub(crate) async fn wait(&self, unknown: Status) -> Result<(), Status> {
        if tokio::time::Instant::now() >= self.ends {
            return Err(unknown);
        }
        tokio::time::sleep(AGAIN).await;
        Ok(())
    }
}

/// The error for a client that another member serves, or will serve soon.
pub(crate) fn unavailable() -> Status {
    Status::unavailable("this node does not serve the session now; another member may")
}

/// Holds.
impl Service {
    /// Records the hold of a request in the name of a session.
    pub(crate) fn keep(&self, core: &mut Core, now: Moment, request: RequestId, id: SessionId) {
        let opening = core.leases.opening_of(id);
        let granted = core.requests.get(&request);
        let (Some(NodeRequest::Granted(guard)), Some(opening)) = (granted, opening) else { return };
        core.keeping.insert(request, id);
        let name = core.leases.name_of_request(request);
        let key = name.and_then(|name| core.recipes.recorded(&name, id));
        if !guard.record(recorded(&opening, key, Vec::new(), calendar_ms())) {
            core.leases.lost(now, request, String::new());
        }
    }

    /// Records what was promised, before the node stops. What cannot be recorded in time its client
    /// loses with the node.
    pub(crate) async fn record_promises(self: &Arc<Self>) {
        self.call(|core, _| core.leases.end_promises());
        for _ in 0..RECORDING_ENDS / RECORDING_AGAIN {
            if !self.lock().leases.any_promised() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(RECORDING_AGAIN)).await;
        }
    }

    /// Handles the node's reports. Does not return while the node runs.
    pub(crate) async fn follow_holds(
        self: Arc<Self>,
        mut reports: mpsc::UnboundedReceiver<Served>,
    ) {
        while let Some(report) = reports.recv().await {
            match report {
                Served::Recorded(hold) => self.call(|core, now| core.recorded(now, hold)),
                Served::Lost(hold) => self.call(|core, now| core.hold_lost(now, hold)),
                Served::Custody { name, hold, fence, client } => {
                    self.take_custody(&name, hold, fence, &client);
                }
            }
        }
    }

    fn take_custody(
        self: &Arc<Self>,
        name: &Name,
        hold: HoldId,
        fence: FencingToken,
        served: &ServedClient,
    ) {
        let guard = self.handle.take_custody(name, hold, fence);
        let value = v1::Recorded::decode(&*served.value).unwrap_or_default();
        let (key, waiting) = (value.key.clone(), value.waiting.clone());
        let granted_ms = value.granted_ms;
        let session = served.session.cast_signed();
        let opening = recorded_opening(value, session, served.ttl);
        let owner = opening.client.owner.clone();
        let shown = name.escape_ascii();
        tracing::info!("lock {shown} of {owner} (session {session:x}) is served here from now on");
        let (lease, token) = (SessionId(session), guard.fencing_token().0.number());
        self.call(|core, now| {
            if let Some(key) = &key {
                core.stop_waiting(now, &key.key);
            }
            core.custody(now, name, (opening, since(now, granted_ms)), guard);
            if let Some(key) = key {
                core.recipes.restore(key, name, lease, token);
            }
            if lease_locks::is_reserved(name) {
                core.recipes.list(lease, waiting.clone());
            }
            for key in waiting {
                self.restore_waiter(core, now, lease, key);
            }
            core.list_waiters(lease);
        });
    }
}

impl Core {
    fn leases_of(&self, identity: Option<&str>) -> Vec<i64> {
        let is_own = |session: &SessionId| {
            let owner = self.leases.client_of(*session).map(|client| client.identity.as_str());
            identity.is_none() || identity == owner
        };
        self.leases.leases().filter(is_own).map(|session| session.0).collect()
    }

    fn recorded(&mut self, now: Moment, hold: HoldId) {
        if let Some(&request) = self.holds.get(&hold)
            && let Some(session) = self.keeping.remove(&request)
        {
            self.leases.recorded(now, request, session);
        } else if let Some(&request) = self.holds.get(&hold) {
            self.record_changed(request);
        }
    }

    fn hold_lost(&mut self, now: Moment, hold: HoldId) {
        if let Some(&request) = self.holds.get(&hold) {
            self.leases.lost(now, request, "the node no longer holds the lock".to_owned());
        }
    }

    fn custody(
        &mut self,
        now: Moment,
        name: &Name,
        (opening, since): (Opening, Moment),
        guard: Guard,
    ) {
        let token = guard.fencing_token().0.number();
        self.revision = self.revision.max(token);
        let request = self.leases.custody(now, opening, name, token, since);
        self.holds.insert(guard.hold_id(), request);
        self.requests.insert(request, NodeRequest::Granted(guard));
    }
}

/// Sessions.
impl Service {
    /// The error for a client whose session this node does not serve now.
    pub(crate) fn unserved(&self) -> Status {
        self.suspended().map_or_else(unavailable, Status::unavailable)
    }

    /// The node that serves the session of an `Open`.
    pub(crate) async fn locate(self: &Arc<Self>, open: &v1::Open, caller: &Caller) -> Location {
        if open.session == 0 || !self.handle.is_replicated() {
            return Location::Here;
        }
        let session = SessionId(open.session);
        if !self.handle.may_renew() {
            return Location::Unknown;
        }
        if self.call(|core, now| core.leases.serves(now, session)) {
            return Location::Here;
        }
        let query = v1::SessionQuery { session: open.session, reclaims: open.reclaims.clone() };
        let here = self.report_session(&query);
        let (mut keeps, mut settled) = (here.keeps, here.settled);
        for (node, reply) in self.query_all(Query::Session(query)).await {
            match reply {
                Some(Reply::Session(report)) if report.serves => {
                    let endpoints = self.endpoints_of(&node, open, caller).await;
                    return Location::At { node, endpoints };
                }
                Some(Reply::Session(report)) => {
                    keeps |= report.keeps;
                    settled &= report.settled;
                }
                Some(_) | None => settled = false,
            }
        }
        if keeps || (!settled && !open.reclaims.is_empty()) {
            self.claim(open, caller);
            return Location::Unknown;
        }
        Location::Here
    }

    /// A client whose node is gone, and no other serves it yet: if all records are lost, its word
    /// counts.
    fn claim(&self, open: &v1::Open, caller: &Caller) {
        let opening = Opening {
            id: open.session,
            ttl: Duration::from_millis(open.ttl_ms),
            client: client(open.client.clone(), caller.identity().to_string()),
            supervised: open.supervised,
            lease: false,
        };
        for v1::Reclaim { name, fencing_token, .. } in &open.reclaims {
            let allowed = self.access.check(caller, Action::Acquire, name).is_ok();
            if check_name(name).is_ok() && allowed {
                self.handle.claim(name, *fencing_token, recorded(&opening, None, Vec::new(), 0));
            }
        }
    }

    /// What this node knows of a session.
    pub(crate) fn report_session(self: &Arc<Self>, query: &v1::SessionQuery) -> v1::SessionReport {
        let session = SessionId(query.session);
        let serves = self.call(|core, now| core.leases.serves(now, session));
        let keeps = |lock: &v1::Reclaim| self.handle.keeps_record(&lock.name, lock.fencing_token);
        v1::SessionReport {
            serves,
            keeps: query.reclaims.iter().any(keeps),
            settled: self.handle.is_settled(),
        }
    }

    /// A call about a session that this node may serve.
    pub(crate) fn lease_call(self: &Arc<Self>, call: &v1::LeaseCall) -> v1::LeaseReply {
        use v1::lease_call::Call;
        let reply = self.do_lease_call(call);
        if reply.done && matches!(call.call(), Call::Release | Call::Close) {
            self.handle.send_over();
        }
        reply
    }

    fn do_lease_call(self: &Arc<Self>, call: &v1::LeaseCall) -> v1::LeaseReply {
        use v1::lease_call::Call;
        if call.call() == Call::List {
            let sessions = self.lock().leases_of(call.identity.as_deref());
            return v1::LeaseReply { done: true, sessions, ..Default::default() };
        }
        let session = SessionId(call.session);
        let may_renew = self.handle.may_renew();
        self.call(|core, now| {
            let Some((ttl, left)) = core.leases.time_to_live(now, session) else {
                let keeps = self.is_kept(core, &Wanted::Lease(session));
                return v1::LeaseReply { keeps, ..Default::default() };
            };
            let leases = &mut core.leases;
            let owner = leases.client_of(session).map(|client| client.identity.as_str());
            let is_own = call.identity.is_none() || call.identity.as_deref() == owner;
            if leases.is_lease(session) != call.lease || !is_own {
                return v1::LeaseReply::default();
            }
            let held = leases.held(session).map(|name| name.to_vec()).collect();
            let done = match call.call() {
                Call::Renew => may_renew && leases.renew(now, session).is_some(),
                Call::Close => leases.close(now, session),
                Call::TimeToLive => true,
                Call::Release => {
                    let holder = leases.holder(now, &call.name);
                    let own = holder.filter(|holder| holder.session == session);
                    own.is_some_and(|own| leases.release(now, &call.name, own.fencing_token))
                }
                Call::List | Call::Unknown => false,
            };
            // On this node's clock it may last longer than on the client's.
            let left_ms = millis(left.min(ttl));
            let ttl_ms = millis(ttl);
            v1::LeaseReply { done, ttl_ms, left_ms, held, ..Default::default() }
        })
    }

    /// The numbers of the leases at all members, or of those whose clients have this identity.
    ///
    /// # Errors
    ///
    /// If a member does not answer.
    pub(crate) async fn all_leases(
        self: &Arc<Self>,
        identity: Option<String>,
    ) -> Result<Vec<i64>, Status> {
        let mut leases = self.lock().leases_of(identity.as_deref());
        if self.is_alone() {
            return Ok(leases);
        }
        let call = v1::lease_call::Call::List.into();
        let call = v1::LeaseCall { call, lease: true, identity, ..Default::default() };
        for (name, reply) in self.query_all(Query::Lease(call)).await {
            let Some(Reply::Lease(reply)) = reply else {
                return Err(Status::unavailable(format!("{name} did not answer")));
            };
            leases.extend(reply.sessions);
        }
        leases.sort_unstable();
        Ok(leases)
    }

    /// Whether another node serves a session with this number.
    pub(crate) async fn is_served_elsewhere(&self, session: SessionId) -> bool {
        if self.is_alone() {
            return false;
        }
        let query = v1::SessionQuery { session: session.0, reclaims: Vec::new() };
        let replies = self.query_all(Query::Session(query)).await;
        let serves = |(_, reply): &(_, Option<Reply>)| match reply {
            Some(Reply::Session(report)) => report.serves,
            _ => false,
        };
        replies.iter().any(serves)
    }

    /// A call about a session at the node that serves it; `None` if no other node does.
    ///
    /// # Errors
    ///
    /// If that is not known: a member has not answered, or keeps a record of the session, whose
    /// custodian does not serve it yet.
    pub(crate) async fn lease_call_elsewhere(
        &self,
        call: v1::LeaseCall,
    ) -> Result<Option<v1::LeaseReply>, Status> {
        if !self.handle.is_replicated() {
            return Ok(None);
        }
        let epoch = self.handle.epoch();
        let wanted = Wanted::Lease(SessionId(call.session));
        let mut known = !self.is_kept(&self.lock(), &wanted) && self.handle.is_settled();
        for (_, reply) in self.query_all(Query::Lease(call)).await {
            match reply {
                Some(Reply::Lease(reply)) if reply.done => return Ok(Some(reply)),
                Some(Reply::Lease(reply)) => known &= !reply.keeps,
                Some(_) | None => known = false,
            }
        }
        known &= epoch.is_some() && self.handle.epoch() == epoch;
        if known { Ok(None) } else { Err(unavailable()) }
    }
}

/// Endpoints.
impl Service {
    pub(crate) fn own_endpoints(&self) -> v1::EndpointsResponse {
        let Endpoints { host, anywhere, on_host } = self.endpoints.clone();
        v1::EndpointsResponse { host, anywhere, on_host }
    }

    /// Where the other nodes serve clients, as last reported; asked for now and then.
    async fn peer_endpoints(self: &Arc<Self>) -> Vec<(String, Endpoints)> {
        let fresh = self.call(|core, now| {
            let due = |asked: Moment| now.since(asked) >= ENDPOINTS_AGAIN;
            let fresh = core.endpoints.asked.is_some_and(|asked| !due(asked));
            let fresh = fresh && !core.endpoints.known.is_empty();
            fresh.then(|| core.endpoints.known.clone())
        });
        match fresh {
            Some(known) => known,
            None => self.ask_endpoints().await,
        }
    }

    /// Asks the other nodes where they serve clients. A node that does not answer now counts as it
    /// answered last, as long as it is a member.
    async fn ask_endpoints(self: &Arc<Self>) -> Vec<(String, Endpoints)> {
        let replies = self.query_all(Query::Endpoints(v1::EndpointsRequest {})).await;
        let is_member = |node: &str| self.handle.member_number(node).is_some();
        self.call(|core, now| {
            core.endpoints.asked = Some(now);
            core.endpoints.known.retain(|(node, _)| is_member(node));
            for (node, reply) in replies {
                let Some(Reply::Endpoints(reply)) = reply else { continue };
                let v1::EndpointsResponse { host, anywhere, on_host } = reply;
                core.endpoints.known.retain(|(known, _)| *known != node);
                core.endpoints.known.push((node, Endpoints { host, anywhere, on_host }));
            }
            core.endpoints.known.sort_by(|(one, _), (other, _)| one.cmp(other));
            core.endpoints.known.clone()
        })
    }

    /// Where all nodes serve clients over TCP, as URLs.
    pub(crate) async fn all_endpoints(self: &Arc<Self>) -> Vec<(String, Vec<String>)> {
        let scheme = if self.node.identity().is_some() { "https" } else { "http" };
        let urls = |endpoints: &Endpoints| {
            let tcp = endpoints.anywhere.iter().chain(&endpoints.on_host);
            let tcp = tcp.filter(|endpoint| !endpoint.starts_with("unix:"));
            tcp.map(|endpoint| format!("{scheme}://{endpoint}")).collect()
        };
        let peers = if self.is_alone() { Vec::new() } else { self.peer_endpoints().await };
        let own = [(self.name.clone(), self.endpoints.clone())];
        own.iter().chain(&peers).map(|(node, known)| (node.clone(), urls(known))).collect()
    }

    /// The endpoints of another node at which a client can connect to it. With TLS, one that came
    /// by a Unix socket has no certificate, as far as this node knows.
    async fn endpoints_of(
        self: &Arc<Self>,
        node: &str,
        open: &v1::Open,
        caller: &Caller,
    ) -> Vec<String> {
        let host = open.client.as_ref().map_or("", |client| client.host.as_str());
        let only_sockets = caller.is_local() && self.node.identity().is_some();
        let is_usable = |endpoint: &String| !only_sockets || endpoint.starts_with("unix:");
        let known = self.peer_endpoints().await;
        let of = known.iter().find(|(name, _)| name == node);
        let all = of.map(|(_, endpoints)| endpoints.for_host(host)).unwrap_or_default();
        all.into_iter().filter(is_usable).collect()
    }

    /// The endpoints of the other nodes for a client on this host. A client gets them before its
    /// first grant, or it would have nowhere to go if this node crashed behind the grant. Nodes
    /// that do not answer soon are sent later, by [`follow_peers`](Self::follow_peers).
    pub(crate) async fn peers_for(self: &Arc<Self>, host: &str) -> Option<v1::Peers> {
        if self.is_alone() {
            return None;
        }
        let known = tokio::time::timeout(ENDPOINTS_SOON, self.peer_endpoints()).await;
        let known = known.unwrap_or_else(|_| self.lock().endpoints.known.clone());
        Some(peers(&known, host))
    }

    /// Sends the connected clients the endpoints of the other nodes when these have changed:
    /// members join, and others were not up yet. Does not return while the node runs.
    pub(crate) async fn follow_peers(self: Arc<Self>) {
        let mut sent = Vec::new();
        while self.handle.is_replicated() {
            tokio::time::sleep(ENDPOINTS_AGAIN).await;
            if self.lock().clients.is_empty() {
                continue;
            }
            let known = self.ask_endpoints().await;
            if known != sent {
                self.call(|core, _| core.send_peers(&known));
                sent = known;
            }
        }
    }
}

impl Core {
    fn send_peers(&mut self, known: &[(String, Endpoints)]) {
        let sessions: Vec<SessionId> = self.clients.keys().copied().collect();
        for session in sessions {
            let client = self.leases.client_of(session);
            let peers = peers(known, client.map_or("", |client| client.host.as_str()));
            self.send(session, v1::session_reply::Reply::Peers(peers));
        }
    }
}

fn peers(known: &[(String, Endpoints)], host: &str) -> v1::Peers {
    let endpoints = known.iter().flat_map(|(_, endpoints)| endpoints.for_host(host)).collect();
    v1::Peers { endpoints }
}
