//! The part of a node for a server around it.
//!
//! A server grants locks to clients in other processes, which may hold them when the node crashes:
//! it restores their holds ([`NodeHandle::reclaim`]) before the node takes part in a view
//! ([`NodeHandle::join`]). It also calls the servers at other members ([`NodeHandle::call`]).

use std::{fmt, pin::Pin, sync::Arc, time::Duration};

use mutua_algorithms::{FencingToken, Time};
use mutua_protocol::{Protocol, Ticket};
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, timeout_at},
};

use crate::{
    Config, Guard, Limits, Lock, LockStatus, MembershipError, Node, NodeFigures, Role, Rule,
    ServedClient, StartError, Traced, driver::Driver,
};

/// The time limit of a call.
const PATIENCE: Duration = Duration::from_secs(2);

type Answer = Pin<Box<dyn Future<Output = Vec<u8>> + Send>>;

/// The function that answers calls of other members.
pub(crate) struct Answering(pub(crate) Box<dyn Fn(Vec<u8>) -> Answer + Send + Sync>);

impl fmt::Debug for Answering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Answering")
    }
}

/// Why another member did not answer a call. Nothing is known of what it did.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// It is not connected, or too many calls to it are open.
    #[error("it is not connected, or too many calls to it are open")]
    NotSent,
    /// The connection broke before the answer.
    #[error("the connection broke")]
    Disconnected,
    /// It did not answer in time.
    #[error("it does not answer")]
    TimedOut,
}

/// A handle on a running node for the server around it. It does not keep the node running.
#[derive(Clone, Debug)]
pub struct NodeHandle {
    driver: Arc<Driver>,
}

impl Node {
    /// The handle for a server around this node.
    pub fn handle(&self) -> NodeHandle {
        NodeHandle { driver: Arc::clone(&self.driver) }
    }
}

/// A hold, in the node's reports to its server.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct HoldId(pub(crate) Ticket);

/// A hold of a client outside the process, as a node knows it.
#[derive(Clone, Copy, Debug)]
pub struct ClientHold<'a> {
    /// The lock's name.
    pub name: &'a [u8],
    /// The client's session.
    pub session: u64,
    /// The value that is recorded with the hold.
    pub value: &'a [u8],
    /// Names the hold, if it is this node's.
    pub hold: Option<HoldId>,
}

/// A report of the node on holds of clients outside its process.
#[derive(Clone, Debug)]
pub enum Served {
    /// The hold is recorded at other members: its client may be informed. Or its record has been
    /// changed there.
    Recorded(HoldId),
    /// This node no longer holds the lock. If the client was informed, another member serves it.
    Lost(HoldId),
    /// This node serves a client of a lost node from now on.
    Custody {
        /// The lock's name.
        name: Arc<[u8]>,
        /// Names the hold.
        hold: HoldId,
        /// The fencing token, which the client has.
        fence: FencingToken,
        /// The client.
        client: ServedClient,
    },
}

impl NodeHandle {
    /// The reports on holds of clients outside the process, from now on; only the first call gets
    /// any.
    pub fn reports(&self) -> mpsc::UnboundedReceiver<Served> {
        let (sender, receiver) = mpsc::unbounded_channel();
        let _ = self.driver.served.set(sender);
        receiver
    }

    /// The guard of a hold of [`Served::Custody`].
    pub fn take_custody(&self, name: &[u8], hold: HoldId, fence: FencingToken) -> Guard {
        Lock::open(&self.driver, name).guard_of(hold, fence)
    }

    /// Limits and times are these from now on, without the number of grants at once.
    pub fn set_limits(&self, limits: Limits) {
        self.driver.call(|core, _| core.protocol.set_limits(limits));
    }

    /// The node's figures since its start.
    pub fn figures(&self) -> NodeFigures {
        self.driver.figures()
    }

    /// Whether consensus decides the node's views: holds of clients outside the process are then
    /// recorded at other members.
    pub fn is_replicated(&self) -> bool {
        self.driver.consensus.get().is_some()
    }

    /// Whether this member of a cluster has no identity yet: the cluster was never founded, or the
    /// data directory is lost.
    pub fn is_new(&self) -> bool {
        self.driver.consensus.get().is_some_and(|consensus| consensus.is_new())
    }

    /// Whether this member has left its cluster: the node has stopped for good.
    pub fn has_left(&self) -> bool {
        self.driver.consensus.get().is_some_and(|consensus| consensus.has_left())
    }

    /// This node's number among the members, which no other member has or had.
    pub fn number(&self) -> u32 {
        self.driver.consensus.get().map_or(0, |consensus| consensus.place())
    }

    /// The name of the member with this number.
    pub fn member_name(&self, number: usize) -> Option<String> {
        self.driver.names().get(number).cloned()
    }

    /// The number of the member with this name.
    pub fn member_number(&self, name: &str) -> Option<u32> {
        self.driver.call(|core, _| core.protocol.member_named(name)).map(|member| member.0)
    }

    /// A one-time token with which a new member can join the cluster at this node.
    ///
    /// # Errors
    ///
    /// See [`MembershipError`].
    pub fn invite(&self) -> Result<String, MembershipError> {
        self.driver.consensus.get().ok_or(MembershipError::NoCluster)?.invite()
    }

    /// Removes a member from the cluster; it returns when that is decided.
    ///
    /// # Errors
    ///
    /// See [`MembershipError`].
    pub async fn remove_member(&self, name: &str) -> Result<(), MembershipError> {
        self.driver.consensus.get().ok_or(MembershipError::NoCluster)?.remove(name).await
    }

    /// Gives a member another role; it returns when that is decided. A new voter votes as soon as
    /// it has the log.
    ///
    /// # Errors
    ///
    /// See [`MembershipError`].
    pub async fn set_role(&self, name: &str, role: Role) -> Result<(), MembershipError> {
        self.driver.consensus.get().ok_or(MembershipError::NoCluster)?.set_role(name, role).await
    }

    /// The rules of locks that the cluster has decided, as a file has them, and the number of their
    /// changes.
    ///
    /// # Errors
    ///
    /// See [`MembershipError`].
    pub fn rules(&self) -> Result<(u64, String), MembershipError> {
        let rules = self.driver.consensus.get().ok_or(MembershipError::NoCluster)?.rules();
        rules.map(|(number, rules)| (number, crate::rules_text(&rules)))
    }

    /// Makes these the rules of locks at all members. It returns when a view with them has begun,
    /// with the number of changes.
    ///
    /// # Errors
    ///
    /// See [`MembershipError`].
    pub async fn change_rules(&self, rules: &[Rule]) -> Result<u64, MembershipError> {
        let consensus = self.driver.consensus.get().ok_or(MembershipError::NoCluster)?;
        consensus.change_rules(rules).await
    }

    /// Whether sessions may be renewed now: not while the node's view lease has lapsed, since other
    /// members may serve its clients then.
    pub fn may_renew(&self) -> bool {
        self.driver.call(|core, now| core.protocol.may_renew(now))
    }

    /// Whether this node knows who holds what: it is in a view, and its view lease is good.
    pub fn is_settled(&self) -> bool {
        self.driver.call(|core, now| core.protocol.is_settled(now))
    }

    /// Whether this node keeps a record of a lock that is held with this fencing token.
    pub fn keeps_record(&self, name: &[u8], fence: u64) -> bool {
        let fence = FencingToken(Time::from_number(fence));
        self.driver.call(|core, _| core.protocol.keeps_record(name, fence))
    }

    /// Whether any hold of a client outside the process is such that this node knows best of: its
    /// own ones, and those whose node is not in the view. Called with the lock's name, the client,
    /// and the name of the hold if it is this node's.
    pub fn any_kept(&self, mut is_such: impl FnMut(ClientHold<'_>) -> bool) -> bool {
        self.driver.call(|core, _| {
            core.protocol.any_kept(|kept| {
                let mutua_protocol::ClientHold { name, session, value, ticket } = kept;
                is_such(ClientHold { name, session, value, hold: ticket.map(HoldId) })
            })
        })
    }

    /// Sends other members now which holds of clients outside the process are over. They learn it
    /// soon in any case.
    pub fn send_over(&self) {
        self.driver.call(|core, now| core.protocol.send_over(now));
    }

    /// A client outside the process says that it holds a lock that no node serves. It counts if all
    /// records are lost; [`Served::Custody`] follows then.
    pub fn claim(&self, name: &[u8], fence: u64, client: ServedClient) {
        let fence = FencingToken(Time::from_number(fence));
        self.driver.call(|core, now| core.protocol.claim(now, name, fence, client));
    }

    /// What earlier processes of this member granted is held for so long at most.
    pub fn set_leases_left(&self, left: Duration) {
        self.driver.call(|core, now| core.protocol.set_leases_until(now.after(left)));
    }

    /// Takes part in no view from now on, and waits until the others go on without this node, or
    /// until this much time has passed.
    pub async fn retire(&self, patience: Duration) {
        if !self.is_replicated() {
            return;
        }
        self.driver.call(|core, now| core.protocol.retire(now));
        let begun = Instant::now();
        while begun.elapsed() < patience {
            let left =
                self.driver.call(|core, _| core.stopped().is_some() || core.protocol.is_out());
            if left {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Like [`Node::start`], but the node takes part in no view before [`join`](Self::join): with
    /// several members no lock is granted anywhere meanwhile.
    pub async fn start_held_back(config: Config) -> Result<Node, StartError> {
        Node::begin(config, Protocol::hold_back).await
    }

    /// Takes part in views from now on.
    pub fn join(&self) {
        self.driver.call(|core, _| core.protocol.join());
    }

    /// Makes every later fencing token greater than this one, though the directory with the last
    /// epoch may have been lost.
    pub fn raise(&self, fence: u64) {
        self.driver.call(|core, _| core.protocol.raise(Time::from_number(fence)));
    }

    /// Makes every later fencing token of this lock at this node greater than this one.
    ///
    /// # Panics
    ///
    /// If the name is longer than [`MAX_NAME`](crate::MAX_NAME).
    pub fn raise_lock(&self, name: &[u8], fence: u64) {
        let lock = Lock::open(&self.driver, name);
        lock.raise(Time::from_number(fence));
    }

    /// The epoch of the view that the node is in: all fencing tokens of earlier views are below it.
    pub fn epoch(&self) -> Option<u32> {
        self.driver.call(|core, _| core.protocol.epoch())
    }

    /// Restores the hold of a client that held the lock with this fencing token when the node
    /// crashed; `None` once the node has joined, or if the lock is held.
    ///
    /// # Panics
    ///
    /// If the name is longer than [`MAX_NAME`](crate::MAX_NAME).
    pub fn reclaim(&self, name: impl AsRef<[u8]>, fence: u64) -> Option<Guard> {
        Lock::open(&self.driver, name.as_ref()).reclaim(FencingToken(Time::from_number(fence)))
    }

    /// The state of a lock as this node knows it.
    pub fn lock_status(&self, name: impl AsRef<[u8]>) -> Option<LockStatus> {
        self.driver.call(|core, now| core.protocol.lock_status(now, name.as_ref()))
    }

    /// What this node's process of a lock did, from the event of this number on, at most `most`
    /// events. The node keeps the last few thousand from the first call on, until there is no call
    /// for half a minute; `None` if too many locks are followed. With it comes the node's clock, in
    /// which the events are, in nanoseconds.
    pub fn follow(&self, name: &[u8], from: u64, most: usize) -> Option<(Traced, u64)> {
        self.driver.call(|core, now| {
            core.follow(now, name).map(|followed| (followed.read(now, from, most), now.nanos()))
        })
    }

    /// Why the node has ended, if it has: it does not go on where it cannot write.
    pub fn ended(&self) -> Option<String> {
        self.driver.call(|core, _| core.stopped().map(|stopped| stopped.to_string()))
    }

    /// Ends the node at once and releases nothing: the other members know as much of its holds as
    /// if the process had crashed.
    pub fn halt(&self) {
        self.driver.stop("stopped by its server");
    }

    /// Answers calls of other members with this function from now on. It runs on the node's
    /// runtime, so it must not block, and a caller waits for two seconds at most. Only the first
    /// function counts. Without one, or if the answer is longer than
    /// [`MAX_CALL`](crate::MAX_CALL) bytes, the answer is empty.
    pub fn answer_calls<F>(&self, answering: impl Fn(Vec<u8>) -> F + Send + Sync + 'static)
    where
        F: Future<Output = Vec<u8>> + Send + 'static,
    {
        let boxed = move |body| -> Answer { Box::pin(answering(body)) };
        let _ = self.driver.answering.set(Answering(Box::new(boxed)));
    }

    /// Calls all other members of the view, or all that are known while there is none: their
    /// names, and what they answered. It takes two seconds at most.
    pub async fn call_all(&self, body: &[u8]) -> Vec<(String, Result<Vec<u8>, CallError>)> {
        let limit = Instant::now() + PATIENCE;
        let calls: Vec<_> = self.driver.call(|core, _| {
            let me = core.protocol.me();
            let mut members = core.protocol.members().to_vec();
            if members.is_empty() {
                members = core.protocol.linked().into_iter().map(|(member, _)| member).collect();
            }
            let others = members.into_iter().filter(|&one| one != me);
            others.map(|one| (one, core.call_member(one, body))).collect()
        });
        let mut answers = Vec::new();
        for (member, call) in calls {
            answers.push((self.driver.name(member), answer_of(call, limit).await));
        }
        answers
    }

    /// Calls one other member. It takes two seconds at most.
    ///
    /// # Errors
    ///
    /// See [`CallError`].
    pub async fn call(&self, member: &str, body: &[u8]) -> Result<Vec<u8>, CallError> {
        let limit = Instant::now() + PATIENCE;
        let call = self.driver.call(|core, _| {
            let other = core.protocol.member_named(member);
            let other = other.filter(|&one| one != core.protocol.me());
            other.and_then(|one| core.call_member(one, body))
        });
        answer_of(call, limit).await
    }
}

async fn answer_of(
    call: Option<oneshot::Receiver<Vec<u8>>>,
    limit: Instant,
) -> Result<Vec<u8>, CallError> {
    match timeout_at(limit, call.ok_or(CallError::NotSent)?).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(_)) => Err(CallError::Disconnected),
        Err(_) => Err(CallError::TimedOut),
    }
}
