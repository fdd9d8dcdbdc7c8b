//! Streams of clients whose session another member serves and that cannot connect to it: the node
//! that the client reaches passes requests and replies on.
//!
//! Each direction has one call at a time, so that messages keep their order. When a call is not
//! answered, the stream ends; the client then connects anew, and its session is looked for again.
//! The client's own node checks what the client may do; members trust each other.

use std::{
    collections::{HashMap, HashSet},
    hash::{BuildHasher, RandomState},
    os::fd::OwnedFd,
    sync::Arc,
    time::Duration,
};

use mutua_client::proto::v1::{
    self, peer_query::Query, peer_reply::Reply as PeerReply, session_reply::Reply,
    session_request::Request,
};
use mutua_node::Action;
use tokio::sync::mpsc;
use tonic::{Code, Status};

use super::{
    Service,
    caller::{Caller, Identity},
    clients::Replies,
    hosting,
    session_stream::{self, Requests, has_ended},
};

/// How long a process may take to end after it has closed its connection.
const ENDING: Duration = Duration::from_secs(1);

/// The streams that pass through this node.
#[derive(Default)]
pub(crate) struct Relays {
    /// Of clients that are connected here, by number.
    here: HashMap<u64, Relayed>,
    /// Of sessions that are served here, by the node that the client is connected to and its
    /// number there.
    from_peers: HashMap<(String, u64), mpsc::UnboundedSender<v1::SessionRequest>>,
}

/// A client that is connected here.
struct Relayed {
    replies: Replies,
    /// The requests for locks that the client may not list: it does not see their holders.
    hidden: HashSet<u64>,
}

/// A stream, at the node of its client.
struct Stream {
    service: Arc<Service>,
    caller: Caller,
    /// The member that serves the session.
    server: String,
    number: u64,
}

/// Passes a stream on to the member that serves its session, to its end.
pub(crate) async fn run(
    (service, caller): (Arc<Service>, Caller),
    server: String,
    open: v1::Open,
    (mut requests, replies): (Requests, Replies),
    process: Option<OwnedFd>,
) {
    let denied =
        |lock: &v1::Reclaim| service.access.check(&caller, Action::Acquire, &lock.name).err();
    if let Some(denied) = open.reclaims.iter().find_map(denied) {
        return replies.send(Err(denied.into()));
    }
    // At random, so that a reply to a stream of this node's last run is not taken for one of this.
    let number = RandomState::new().hash_one(open.session);
    let relayed = Relayed { replies, hidden: HashSet::new() };
    service.lock().relays.here.insert(number, relayed);
    let stream = Stream { service, caller, server, number };
    let supervised = open.supervised;
    if !stream.send(Some(Request::Open(open))).await {
        return stream.end(Some(hosting::unavailable()));
    }
    while let Some(request) = requests.next().await {
        let Some(request) = request.request else { continue };
        if stream.is_allowed(&request) && !stream.send(Some(request)).await {
            return stream.end(Some(hosting::unavailable()));
        }
    }
    if let Some(process) = process
        && !supervised
        && ends_soon(&process).await
    {
        stream.send(Some(Request::Close(v1::Close {}))).await;
    }
    stream.send(None).await;
    stream.end(None);
}

/// Whether a process that has closed its connection ends.
async fn ends_soon(process: &OwnedFd) -> bool {
    let limit = tokio::time::Instant::now() + ENDING;
    while !has_ended(process) {
        if tokio::time::Instant::now() >= limit {
            return false;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    true
}

impl Stream {
    /// Sends a request, or that there are no more. Returns whether the other member takes it.
    async fn send(&self, request: Option<Request>) -> bool {
        let is_first = matches!(request, Some(Request::Open(_)));
        let client = is_first.then(|| v1::RelayedClient {
            identity: self.caller.identity().to_string(),
            admin: self.service.access.is_admin(&self.caller),
        });
        let request = request.map(|request| v1::SessionRequest { request: Some(request) });
        let (node, number) = (self.service.name.clone(), self.number);
        let relay = v1::Relay { node, number, client, request };
        self.service.is_taken(&self.server, Query::Relay(relay)).await
    }

    /// Whether the client may request this. If not, it gets the answer here.
    fn is_allowed(&self, request: &Request) -> bool {
        let Request::Acquire(v1::Acquire { id, name, .. }) = request else { return true };
        let access = &self.service.access;
        let mut core = self.service.lock();
        let Some(relayed) = core.relays.here.get_mut(&self.number) else { return false };
        if let Err(denied) = access.check(&self.caller, Action::Acquire, name) {
            let (reason, text) = (v1::Reason::Denied.into(), denied.to_string());
            let refused = v1::Refused { id: *id, reason, text, holder: None };
            relayed.replies.send(Ok(Reply::Refused(refused)));
            return false;
        }
        if access.check(&self.caller, Action::List, name).is_err() {
            relayed.hidden.insert(*id);
        }
        true
    }

    /// The stream ends, for this reason if there is one.
    fn end(&self, why: Option<Status>) {
        let relayed = self.service.lock().relays.here.remove(&self.number);
        if let (Some(relayed), Some(why)) = (relayed, why) {
            relayed.replies.send(Err(why));
        }
    }
}

impl Relayed {
    fn send(&self, reply: Reply) {
        let hides = |id: u64| self.hidden.contains(&id);
        self.replies.send(match reply {
            Reply::Waiting(waiting) if hides(waiting.id) => {
                Ok(Reply::Waiting(v1::Waiting { holder: None, ..waiting }))
            }
            Reply::Refused(refused) if hides(refused.id) => {
                Ok(Reply::Refused(v1::Refused { holder: None, ..refused }))
            }
            Reply::Failed(v1::Failed { code, text }) => {
                Err(Status::new(Code::from_i32(code.cast_signed()), text))
            }
            reply => Ok(reply),
        });
    }
}

/// At the member that serves the session.
impl Service {
    /// A request of a client that is connected to another node.
    pub(crate) fn relay(self: &Arc<Self>, relay: v1::Relay) -> v1::RelayAnswer {
        let v1::Relay { node, number, client, request } = relay;
        let key = (node, number);
        let Some(request) = request else {
            let known = self.lock().relays.from_peers.remove(&key).is_some();
            return v1::RelayAnswer { taken: known };
        };
        if let Some(client) = client {
            self.begin_relay(&key, client);
        }
        let core = self.lock();
        let stream = core.relays.from_peers.get(&key);
        v1::RelayAnswer { taken: stream.is_some_and(|stream| stream.send(request).is_ok()) }
    }

    fn begin_relay(self: &Arc<Self>, key: &(String, u64), client: v1::RelayedClient) {
        let (requests, receiver) = mpsc::unbounded_channel();
        let (replies, outgoing) = mpsc::unbounded_channel();
        self.lock().relays.from_peers.insert(key.clone(), requests);
        let v1::RelayedClient { identity, admin } = client;
        let caller = Caller::remote(Identity::Relayed { identity, admin }, key.0.clone());
        let (receiver, replies) = (Requests::Relayed(receiver), Replies::Channel(replies));
        tokio::spawn(session_stream::run(Arc::clone(self), receiver, replies, caller));
        tokio::spawn(Arc::clone(self).send_replies(key.clone(), outgoing));
    }

    /// Sends the replies of a stream to the client's node, until the stream ends at either.
    async fn send_replies(
        self: Arc<Self>,
        key: (String, u64),
        mut outgoing: mpsc::UnboundedReceiver<Result<v1::SessionReply, Status>>,
    ) {
        let (node, number) = (&key.0, key.1);
        let failed = |status: Status| {
            let (code, text) = (status.code(), status.message().to_owned());
            let reply = Reply::Failed(v1::Failed { code: i32::from(code).unsigned_abs(), text });
            v1::SessionReply { reply: Some(reply) }
        };
        while let Some(reply) = outgoing.recv().await {
            let reply = Some(reply.unwrap_or_else(failed));
            if !self.is_taken(node, Query::Relayed(v1::RelayedReply { number, reply })).await {
                break;
            }
        }
        let end = v1::RelayedReply { number, reply: None };
        // If it does not arrive, the client's node notices with the next request.
        self.is_taken(node, Query::Relayed(end)).await;
        self.lock().relays.from_peers.remove(&key);
    }

    /// A reply to a client that is connected here.
    pub(crate) fn relayed(&self, reply: v1::RelayedReply) -> v1::RelayAnswer {
        let v1::RelayedReply { number, reply } = reply;
        let mut core = self.lock();
        let Some(v1::SessionReply { reply: Some(reply) }) = reply else {
            return v1::RelayAnswer { taken: core.relays.here.remove(&number).is_some() };
        };
        let relayed = core.relays.here.get(&number);
        v1::RelayAnswer { taken: relayed.map(|relayed| relayed.send(reply)).is_some() }
    }

    async fn is_taken(&self, member: &str, query: Query) -> bool {
        let reply = self.query(member, query).await;
        matches!(reply, Some(PeerReply::Relay(v1::RelayAnswer { taken: true })))
    }
}
