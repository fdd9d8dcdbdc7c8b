//! Queries to the other nodes about their clients, and replies to theirs.
//!
//! The replies of several nodes are not of one moment. Of two reported holders the one with the
//! greater fencing token is the later.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use mutua_node::{Action, CallError, MAX_CALL};
use prost::Message;
use tonic::Status;

use super::{Core, Service, caller::Caller, clients::millis};
use crate::{
    Moment,
    leases::Name,
    proto::v1::{self, peer_query::Query, peer_reply::Reply},
};

/// How often the other nodes are queried for the waiters of this one.
const INTERVAL: Duration = Duration::from_secs(1);

/// How long the state of the other nodes is kept after the last query.
const KEPT: Duration = Duration::from_secs(10);

/// How long a denied request is delayed to find the holder at another node.
const HINT: Duration = Duration::from_millis(300);

/// The size of one reply in bytes; another query gets the rest.
const PAGE: usize = MAX_CALL / 2;

/// The state of a lock at the other nodes, as last reported.
#[derive(Default)]
pub(super) struct Reported {
    /// When they were last queried.
    queried: Option<Moment>,
    /// `None` while it is unknown.
    state: Option<PeerState>,
}

/// The holder of a lock at another node, and the number of waiters at all others.
#[derive(Clone, Default)]
pub(super) struct PeerState {
    pub(super) holder: Option<v1::Entry>,
    pub(super) waiting: u32,
}

impl Service {
    /// The reply to another node's query, about this node's own clients only.
    pub(super) async fn answer_peer(self: &Arc<Self>, body: &[u8]) -> Vec<u8> {
        let Ok(v1::PeerQuery { query: Some(query) }) = v1::PeerQuery::decode(body) else {
            return Vec::new();
        };
        let reply = match query {
            Query::List(request) => Reply::List(page(self.list_here(&request))),
            Query::Verify(request) => match self.verify_here(&request) {
                reply if decides(&reply, request.fencing_token) => Reply::Verify(reply),
                _ if self.ignorance().is_some() => return Vec::new(),
                reply => Reply::Verify(reply),
            },
            Query::Break(request) => match self.break_here(&request) {
                reply if reply.broken.is_some() => Reply::Break(reply),
                _ if self.ignorance().is_some() => return Vec::new(),
                reply => Reply::Break(reply),
            },
            Query::Session(query) => Reply::Session(self.report_session(&query)),
            Query::Endpoints(_) => Reply::Endpoints(self.own_endpoints()),
            Query::Lease(call) => Reply::Lease(self.lease_call(&call)),
            Query::Trace(request) => match self.trace_here(&request) {
                Some(trace) => Reply::Trace(trace),
                None => return Vec::new(),
            },
            Query::Member(_) => Reply::Member(self.report_member()),
            Query::Recipe(call) => Reply::Recipe(self.answer_recipe(call).await),
            Query::Relay(relay) => Reply::Relay(self.relay(relay)),
            Query::Relayed(reply) => Reply::Relay(self.relayed(reply)),
        };
        v1::PeerReply { reply: Some(reply) }.encode_to_vec()
    }

    /// The reply of another node; `None` if it does not answer.
    pub(super) async fn query(&self, member: &str, query: Query) -> Option<Reply> {
        read(self.handle.call(member, &write(query)).await)
    }

    /// The replies of all other nodes; `None` for a node that does not answer.
    pub(super) async fn query_all(&self, query: Query) -> Vec<(String, Option<Reply>)> {
        let replies = self.handle.call_all(&write(query)).await.into_iter();
        replies.map(|(name, reply)| (name, read(reply))).collect()
    }

    /// The number of the other nodes, their locks, and those that do not answer or cannot know.
    async fn query_lists(&self, request: v1::ListRequest) -> (usize, Vec<v1::Lock>, Vec<String>) {
        let (mut locks, mut unanswered) = (Vec::new(), Vec::new());
        let replies = self.query_all(Query::List(request.clone())).await;
        let count = replies.len();
        for (name, mut reply) in replies {
            loop {
                let Some(Reply::List(page)) = reply else {
                    unanswered.push(name);
                    break;
                };
                // One that cannot know names itself; it has said what it has.
                if page.unanswered.contains(&name) && !unanswered.contains(&name) {
                    unanswered.push(name.clone());
                }
                let last = page.locks.last().map(|lock| lock.name.clone());
                locks.extend(page.locks);
                let Some(last) = last.filter(|_| page.more) else { break };
                let next = v1::ListRequest { after: Some(last), ..request.clone() };
                reply = self.query(&name, Query::List(next)).await;
            }
        }
        (count, locks, unanswered)
    }

    /// Why this node cannot know which locks are held, if that is so: it is in no view, or clients
    /// may hold what it granted before a crash. What it serves now is held in any case.
    pub(super) fn ignorance(self: &Arc<Self>) -> Option<String> {
        let quarantined = self.call(|core, now| core.quarantined(now));
        if quarantined.is_some() || self.is_alone() || self.handle.is_settled() {
            return quarantined;
        }
        let why = self.suspended();
        Some(why.unwrap_or_else(|| "the next view is about to begin".to_owned()))
    }

    /// Why no reply of this node can be "no", if that is so, when all others have answered or not.
    /// A witness is never in a view, and says what the members of the view say.
    fn unknown(self: &Arc<Self>, others: usize, unanswered: &[String]) -> Option<String> {
        let why = self.ignorance()?;
        let asks = others > 0 && unanswered.is_empty() && self.is_witness();
        (!asks).then_some(why)
    }

    fn is_witness(&self) -> bool {
        let own = |member: &mutua_node::MemberStatus| member.name == self.name;
        let status = self.node.status();
        status.members.iter().any(|member| own(member) && member.role == "witness")
    }

    fn list_here(self: &Arc<Self>, request: &v1::ListRequest) -> v1::ListResponse {
        let v1::ListRequest { prefix, exact, after } = request;
        let (mut states, quarantined) = self.call(|core, now| {
            let states = match exact {
                true => vec![core.leases.show(now, prefix)],
                false => core.leases.list(now, prefix),
            };
            (states, core.quarantined(now))
        });
        if let Some(after) = after {
            states.retain(|state| *state.name > **after);
        }
        let locks = states.into_iter().map(|state| self.describe(state)).collect();
        let suspended = quarantined.or_else(|| self.suspended()).unwrap_or_default();
        let unanswered: Vec<_> = self.ignorance().map(|_| self.name.clone()).into_iter().collect();
        let mut response = v1::ListResponse { locks, suspended, unanswered, more: false };
        for lock in &mut response.locks {
            lock.unanswered.clone_from(&response.unanswered);
        }
        response
    }

    /// The locks of all nodes that answer.
    pub(super) async fn list(self: &Arc<Self>, request: v1::ListRequest) -> v1::ListResponse {
        let here = self.list_here(&request);
        if self.is_alone() {
            return here;
        }
        let (replies, others, mut unanswered) = self.query_lists(request).await;
        if self.unknown(replies, &unanswered).is_some() {
            unanswered.insert(0, self.name.clone());
        }
        let mut locks = merge(here.locks.into_iter().chain(others));
        for lock in &mut locks {
            lock.waiting.sort_by_key(|waiter| self.index_of(&waiter.node));
            lock.unanswered.clone_from(&unanswered);
        }
        v1::ListResponse { locks, unanswered, ..here }
    }

    /// The state of one lock at all nodes.
    pub(super) async fn show(self: &Arc<Self>, name: &Name) -> v1::Lock {
        self.list(only(name)).await.locks.pop().unwrap_or_default()
    }

    fn index_of(&self, node: &str) -> u32 {
        self.handle.member_number(node).unwrap_or(u32::MAX)
    }

    pub(super) fn is_alone(&self) -> bool {
        !self.handle.is_replicated()
    }

    fn verify_here(self: &Arc<Self>, request: &v1::VerifyRequest) -> v1::VerifyResponse {
        self.call(|core, now| {
            let state = core.leases.show(now, &request.name);
            // After a crash the node acquires a lock again for its holder, with a token of its own
            // that no client gets.
            let held = state.holder.map(|holder| holder.fencing_token);
            v1::VerifyResponse {
                current: core.leases.verify(now, &request.name, request.fencing_token),
                last_fencing_token: held.unwrap_or(state.last_fencing_token),
            }
        })
    }

    /// Whether a fencing token is current at any node. "No" needs the replies of all nodes, unless
    /// a greater token has been granted.
    pub(super) async fn verify(
        self: &Arc<Self>,
        request: v1::VerifyRequest,
    ) -> Result<v1::VerifyResponse, Status> {
        let here = self.verify_here(&request);
        let token = request.fencing_token;
        if decides(&here, token) {
            return Ok(here);
        }
        let (mut others, mut unanswered) = (0, Vec::new());
        if !self.is_alone() {
            for (name, reply) in self.query_all(Query::Verify(request)).await {
                others += 1;
                match reply {
                    Some(Reply::Verify(reply)) if decides(&reply, token) => return Ok(reply),
                    Some(_) => {}
                    None => unanswered.push(name),
                }
            }
        }
        let what = format!("whether fencing token {token} is current is unknown");
        self.all_known(&what, others, &unanswered).map(|()| here)
    }

    fn break_here(self: &Arc<Self>, request: &v1::BreakRequest) -> v1::BreakResponse {
        let v1::BreakRequest { name, fencing_token, reason, by } = request;
        let wanted = (*fencing_token != 0).then_some(*fencing_token);
        let notice = format!("broken by {by}: {reason}");
        let (holder, rest) = self.call(|core, now| {
            let holder = self.holder_here(core, now, name);
            (holder, core.leases.break_grant(now, name, wanted, notice))
        });
        let Some(rest) = rest else { return v1::BreakResponse::default() };
        let fencing_token = holder.as_ref().map_or(0, |holder| holder.fencing_token);
        let name = name.escape_ascii();
        let held_by = match holder.as_ref().and_then(|holder| holder.client.as_ref()) {
            Some(client) => format!("{} (pid {} on {})", client.owner, client.pid, client.host),
            None => "a client".to_owned(),
        };
        tracing::warn!(
            "lock {name} of {held_by} with fencing token {fencing_token} was broken by {by}: \
             {reason}"
        );
        v1::BreakResponse { broken: holder, quarantine_ms: millis(rest) }
    }

    /// Revokes a lock from its holder for a client: one of its own, or any that a rule allows it to
    /// break.
    pub(super) async fn break_for(
        self: &Arc<Self>,
        caller: &Caller,
        mut request: v1::BreakRequest,
    ) -> Result<v1::BreakResponse, Status> {
        request.by = self.actor(caller, &request.by);
        let Err(denied) = self.access.check(caller, Action::Break, &request.name) else {
            return self.break_grant(request).await;
        };
        let lock = self.show(&Name::from(&*request.name)).await;
        let Some(holder) = lock.holder else {
            // Nothing is broken; whether it is held is not said to a client that may not list it.
            return Err(denied.into());
        };
        let identity = caller.identity().to_string();
        let own = holder.client.is_some_and(|client| client.identity == identity);
        if identity.is_empty() || !own {
            return Err(denied.into());
        }
        let shown = holder.fencing_token;
        if request.fencing_token != 0 && request.fencing_token != shown {
            return Ok(v1::BreakResponse::default());
        }
        // This grant and no later one, which may be another client's.
        self.break_grant(v1::BreakRequest { fencing_token: shown, ..request }).await
    }

    /// The client that breaks a lock, for the log and the holder: as it names itself, as it is
    /// known, and from where.
    fn actor(&self, caller: &Caller, named: &str) -> String {
        let identity = caller.identity().to_string();
        let known = match identity.split_once(':') {
            None => String::new(),
            Some((_, name)) if name == named => String::new(),
            Some(_) => format!(" ({identity})"),
        };
        let host = match caller.is_local() {
            true => self.endpoints.host(),
            false => caller.address(),
        };
        format!("{named}{known} on {host}")
    }

    /// Revokes a lock from its holder, at any node.
    async fn break_grant(
        self: &Arc<Self>,
        mut request: v1::BreakRequest,
    ) -> Result<v1::BreakResponse, Status> {
        if request.fencing_token == 0 && !self.is_alone() {
            // Only this holder, and not one that another node grants the lock to meanwhile.
            let lock = self.show(&Name::from(&*request.name)).await;
            let Some(holder) = lock.holder else {
                let what = "whether the lock is held is unknown, and nothing was broken";
                let nothing = v1::BreakResponse::default();
                return match lock.unanswered.contains(&self.name) {
                    true => Err(cannot_know(what, &self.ignorance().unwrap_or_default())),
                    false => all_answered(what, &lock.unanswered).map(|()| nothing),
                };
            };
            request.fencing_token = holder.fencing_token;
        }
        let here = self.break_here(&request);
        if here.broken.is_some() {
            return Ok(here);
        }
        let (mut others, mut unanswered) = (0, Vec::new());
        if !self.is_alone() {
            for (name, reply) in self.query_all(Query::Break(request)).await {
                others += 1;
                match reply {
                    Some(Reply::Break(reply)) if reply.broken.is_some() => return Ok(reply),
                    Some(_) => {}
                    None => unanswered.push(name),
                }
            }
        }
        // A node that has not answered may still do it.
        self.all_known("whether it was broken is unknown", others, &unanswered).map(|()| here)
    }

    /// That "no" is the answer, now that the others have answered or not.
    fn all_known(
        self: &Arc<Self>,
        what: &str,
        others: usize,
        unanswered: &[String],
    ) -> Result<(), Status> {
        match self.unknown(others, unanswered) {
            Some(why) => Err(cannot_know(what, &why)),
            None => all_answered(what, unanswered),
        }
    }

    /// The state of a lock at the other nodes, as last reported; `None` while it is unknown. Starts
    /// the next query when it is due, one for all waiters.
    pub(super) fn peer_state(
        self: &Arc<Self>,
        core: &mut Core,
        now: Moment,
        name: &Name,
    ) -> Option<PeerState> {
        if self.is_alone() {
            return Some(PeerState::default());
        }
        let reported = core.peers.entry(Name::clone(name)).or_default();
        if reported.queried.is_none_or(|queried| now.since(queried) >= INTERVAL) {
            reported.queried = Some(now);
            let (service, name) = (Arc::clone(self), Name::clone(name));
            tokio::spawn(async move {
                let state = service.query_state(&name).await;
                service.call(|core, now| core.peers_reported(now, name, state));
            });
        }
        reported.state.clone()
    }

    async fn query_state(&self, name: &Name) -> Option<PeerState> {
        let (_, locks, unanswered) = self.query_lists(only(name)).await;
        let lock = merge(locks.into_iter()).pop().unwrap_or_default();
        let waiting = u32::try_from(lock.waiting.len()).unwrap_or(u32::MAX);
        let waiting = waiting.saturating_add(lock.left_out);
        // The holder may be a client of a node that did not answer.
        let known = lock.holder.is_some() || unanswered.is_empty();
        known.then_some(PeerState { holder: lock.holder, waiting })
    }

    /// The holder of a lock at any node, as far as it is found soon.
    pub(super) async fn holder_anywhere(self: &Arc<Self>, name: &Name) -> Option<v1::Entry> {
        let here = self.call(|core, now| self.holder_here(core, now, name));
        if here.is_some() || self.is_alone() {
            return here;
        }
        let state = tokio::time::timeout(HINT, self.query_state(name)).await;
        state.ok().flatten().and_then(|state| state.holder)
    }
}

impl Core {
    fn peers_reported(&mut self, now: Moment, name: Name, state: Option<PeerState>) {
        let is_used =
            |reported: &Reported| reported.queried.is_some_and(|queried| now.since(queried) < KEPT);
        self.peers.retain(|_, reported| is_used(reported));
        self.peers.entry(name).or_default().state = state;
    }
}

/// The state of the other nodes, by lock.
pub(super) type PeerStates = HashMap<Name, Reported>;

fn only(name: &Name) -> v1::ListRequest {
    v1::ListRequest { prefix: name.to_vec(), exact: true, after: None }
}

fn write(query: Query) -> Vec<u8> {
    v1::PeerQuery { query: Some(query) }.encode_to_vec()
}

fn read(reply: Result<Vec<u8>, CallError>) -> Option<Reply> {
    v1::PeerReply::decode(&*reply.ok()?).ok()?.reply
}

/// Whether a member's reply is the answer, whatever the others reply.
fn decides(reply: &v1::VerifyResponse, token: u64) -> bool {
    reply.current || reply.last_fencing_token > token
}

fn cannot_know(what: &str, why: &str) -> Status {
    Status::unavailable(format!("{what}, since this node cannot know now: {why}"))
}

fn all_answered(what: &str, unanswered: &[String]) -> Result<(), Status> {
    match unanswered {
        [] => Ok(()),
        names => {
            let text = format!("{what}, since {} did not answer", names.join(", "));
            Err(Status::unavailable(text))
        }
    }
}

/// The locks that fit into one reply.
fn page(mut list: v1::ListResponse) -> v1::ListResponse {
    let mut size = 0;
    for (index, lock) in list.locks.iter_mut().enumerate() {
        shorten(lock);
        size += lock.encoded_len();
        if size > PAGE && index > 0 {
            list.locks.truncate(index);
            list.more = true;
            break;
        }
    }
    list
}

/// Leaves out the waiters at the end of a queue that is too long.
fn shorten(lock: &mut v1::Lock) {
    let mut size = 0;
    let fits = |waiter: &v1::Entry| {
        size += waiter.encoded_len();
        size <= PAGE
    };
    let listed = lock.waiting.iter().map(fits).take_while(|fits| *fits).count();
    lock.left_out = u32::try_from(lock.waiting.len() - listed).unwrap_or(u32::MAX);
    lock.waiting.truncate(listed);
}

/// Merges the reports of several nodes on the same locks, in order of the names.
fn merge(locks: impl Iterator<Item = v1::Lock>) -> Vec<v1::Lock> {
    let mut merged: BTreeMap<Vec<u8>, v1::Lock> = BTreeMap::new();
    for lock in locks {
        let known = merged.entry(lock.name.clone()).or_default();
        let fencing_token =
            |lock: &v1::Lock| lock.holder.as_ref().map(|holder| holder.fencing_token);
        if fencing_token(&lock) > fencing_token(known) {
            known.holder = lock.holder;
        }
        known.name = lock.name;
        known.waiting.extend(lock.waiting);
        known.left_out += lock.left_out;
        known.last_fencing_token = known.last_fencing_token.max(lock.last_fencing_token);
        if known.algorithm.is_empty() {
            known.algorithm = lock.algorithm;
        }
    }
    merged.into_values().collect()
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::{PAGE, all_answered, merge, page, v1};

    fn lock(name: &str, fencing_token: Option<u64>, waiting: &[&str]) -> v1::Lock {
        let entry = |node: &&str| v1::Entry { node: (*node).to_owned(), ..Default::default() };
        v1::Lock {
            name: name.into(),
            holder: fencing_token
                .map(|fencing_token| v1::Entry { fencing_token, ..Default::default() }),
            waiting: waiting.iter().map(entry).collect(),
            ..Default::default()
        }
    }

    #[test]
    fn the_later_of_two_holders_counts_and_the_waiters_of_all_nodes_do() {
        let reports =
            [lock("y", None, &["a"]), lock("x", Some(3), &["a"]), lock("x", None, &["b"])];
        let merged =
            merge(reports.into_iter().chain([lock("x", Some(5), &[]), lock("y", None, &[])]));
        let waiting: Vec<_> = merged.iter().map(|lock| (&*lock.name, lock.waiting.len())).collect();
        assert_eq!(waiting, [(&b"x"[..], 2), (&b"y"[..], 1)]);
        assert_eq!(merged[0].holder.as_ref().map(|holder| holder.fencing_token), Some(5));
        assert_eq!(merged[1].holder, None);
    }

    #[test]
    fn no_is_answered_only_when_all_nodes_have_answered() {
        assert!(all_answered("?", &[]).is_ok());
        let names = ["b".to_owned(), "c".to_owned()];
        let status = all_answered("it is unknown", &names).expect_err("not all");
        assert_eq!(status.code(), tonic::Code::Unavailable);
        assert!(status.message().contains("b, c"), "{}", status.message());
    }

    #[test]
    fn a_reply_reports_what_did_not_fit_into_it() {
        let name = |number: u32| format!("{number:04096}");
        let locks: Vec<_> = (0..1000).map(|number| lock(&name(number), Some(1), &["a"])).collect();
        let first = page(v1::ListResponse { locks: locks.clone(), ..Default::default() });
        assert!(first.more && first.encoded_len() <= PAGE + 100);
        assert!((50..1000).contains(&first.locks.len()), "{} locks", first.locks.len());
        let rest = locks[first.locks.len()..][..10].to_vec();
        assert!(!page(v1::ListResponse { locks: rest, ..Default::default() }).more);

        let long = "n".repeat(1000);
        let waiters = vec![&*long; 1000];
        let cut = page(v1::ListResponse {
            locks: vec![lock("x", Some(1), &waiters)],
            ..Default::default()
        });
        let listed = cut.locks[0].waiting.len();
        assert!((50..1000).contains(&listed), "{listed} waiters");
        assert_eq!(listed + cut.locks[0].left_out as usize, 1000);
    }
}
