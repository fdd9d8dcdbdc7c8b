//! Sessions, leases and gRPC services around a node.
//!
//! A node grants locks to its own process. This crate serves clients in other processes: it keeps
//! their sessions and leases, and offers etcd's services and two of its own. It is a crate of its
//! own so that embedding a node needs no gRPC.
//!
//! All decisions are in `leases.rs`, a state machine without I/O whose time is an argument. The
//! rest connects it to the node, the clock and the clients, on tokio. One mutex guards the state;
//! it is never held across an await, and a free lock is granted within one call.

mod access;
mod audit;
mod caller;
mod clients;
mod connection;
mod control;
mod etcd;
mod etcd_status;
mod fence_record;
mod framed;
mod front;
mod gateway;
#[cfg(test)]
mod harness;
mod hold_record;
mod hosting;
mod incoming;
mod lease_locks;
mod lease_record;
mod leases;
mod listen;
mod locks_service;
mod methods;
mod metrics;
mod monitor;
mod node_requests;
mod peers_query;
mod process;
mod recipes;
mod recorded;
mod relay;
mod reload;
mod session_stream;
mod traces;

pub use leases::LONGEST_LEASE;
pub use listen::{Options, ServeError, serve};

use std::{
    collections::HashMap,
    fs::File,
    io::{self, Read},
    os::unix::fs::OpenOptionsExt,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::AtomicU64},
    time::Duration,
};

use mutua_client::{Scope, endpoint, proto};
use mutua_node::{HoldId, Moment, Node, NodeHandle, now};
use tokio::sync::{Notify, oneshot, watch};

use fence_record::FenceRecord;
use hold_record::HoldRecord;
use lease_record::LeaseRecord;
use leases::{Effect, Held, LeaseTable, Name, Outcome, RequestId, SessionId, WaitId};

/// A server's state, shared by all its calls.
pub(crate) struct Service {
    core: Mutex<Core>,
    node: Node,
    handle: NodeHandle,
    /// The node's name.
    name: String,
    /// The clients that its locks exclude.
    scope: Scope,
    /// What clients may do.
    access: access::Access,
    users: caller::Users,
    /// The names by which plain HTTP reaches this node.
    hosts: gateway::Hosts,
    /// Where this node serves clients.
    endpoints: hosting::Endpoints,
    /// The lowest revision that a response may have, so far.
    floor: AtomicU64,
    /// Wakes the timer's task, which then reads the next deadline again.
    timer: Notify,
    /// A client on this machine has stopped the node.
    stop: Notify,
    /// Why the server has failed: from then on nothing is granted and no reply is sent.
    failure: watch::Sender<Option<String>>,
}

pub(crate) struct Core {
    leases: LeaseTable,
    requests: HashMap<RequestId, node_requests::NodeRequest>,
    /// The requests of holds, as the node names them in its reports.
    holds: HashMap<HoldId, RequestId>,
    /// The sessions in whose names holds are being recorded.
    keeping: HashMap<RequestId, SessionId>,
    /// The calls that wait until changed records of holds are at other members.
    changing: HashMap<RequestId, Vec<oneshot::Sender<()>>>,
    waiters: HashMap<WaitId, Waiter>,
    /// The keys of etcd's recipes.
    recipes: recipes::Recipes,
    /// Those that wait until a lock is free, for watches of its key.
    probes: recipes::Probes,
    /// The connected clients, by session.
    clients: HashMap<SessionId, Vec<clients::Connected>>,
    watched: HashMap<Name, watch::Sender<()>>,
    /// Holders and waiters at other nodes, for the waiters of this one.
    peers: peers_query::PeerStates,
    /// Where the other nodes serve clients.
    endpoints: hosting::PeerEndpoints,
    lease_record: LeaseRecord,
    /// The fencing tokens that may have been granted, if this node is alone.
    fence_record: Option<FenceRecord>,
    /// The greatest fencing token that was granted here.
    revision: u64,
    metrics: metrics::Metrics,
    audit: audit::Audit,
    /// Streams between a client here and a session at another member, and the other way round.
    relays: relay::Relays,
    /// The number of the last stream.
    streams: u64,
    /// When the timer's task wakes up.
    armed: Moment,
    /// Since when there has been no session: a node that is idle for long stops.
    idle_since: Option<Moment>,
}

/// The recipient of an outcome.
enum Waiter {
    /// A call.
    Call { caller: oneshot::Sender<Outcome>, name: Name },
    /// A client's stream, on which the request has this number.
    Client { id: u64, session: SessionId, name: Name, sees_holder: bool, is_candidate: bool },
    /// A key of etcd's recipes, and the call that creates it, if it still waits for the outcome.
    Key { key: Vec<u8>, name: Name, caller: oneshot::Sender<Outcome> },
}

/// Opens a file of one record, private to the user, to be overwritten in place. Returns its text
/// too.
fn open_record(path: &Path) -> io::Result<(File, String)> {
    let mut options = File::options();
    let options = options.create(true).read(true).write(true).truncate(false).mode(0o600);
    let mut file = options.open(path)?;
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    Ok((file, text))
}

impl Service {
    /// Calls a function on the state, and performs all effects that follow.
    pub(crate) fn call<T>(self: &Arc<Self>, function: impl FnOnce(&mut Core, Moment) -> T) -> T {
        let mut core = self.lock();
        // Read under the mutex, so that time never goes back for the lease table.
        let now = crate::now();
        let result = function(&mut core, now);
        self.settle(&mut core, now);
        result
    }

    fn lock(&self) -> MutexGuard<'_, Core> {
        // A panic ends its own call, not the others.
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn settle(self: &Arc<Self>, core: &mut Core, now: Moment) {
        loop {
            let effects = core.leases.take_effects();
            if effects.is_empty() {
                break;
            }
            for effect in effects {
                self.perform(core, now, effect);
            }
        }
        core.idle_since = match core.leases.sessions() {
            0 => core.idle_since.or(Some(now)),
            _ => None,
        };
        let wake_at = core.leases.wake_at();
        if wake_at < core.armed {
            core.armed = wake_at;
            self.timer.notify_one();
        }
    }

    fn perform(self: &Arc<Self>, core: &mut Core, now: Moment, effect: Effect) {
        if self.failure.borrow().is_some() {
            return;
        }
        match effect {
            Effect::Request { request, name, mode } => {
                self.request(core, now, request, &name, mode);
            }
            Effect::Drop { request } => core.drop_request(now, request),
            Effect::Keep { request, session } => self.keep(core, now, request, session),
            Effect::Prolong { request } => core.prolong(request),
            Effect::Promised { session, name, fencing_token } => {
                core.send_promised(session, &name, fencing_token);
            }
            Effect::Moved { session } => {
                core.recipes.list(session, Vec::new());
                core.send_moved(session);
            }
            Effect::Reply { wait, outcome } => self.reply(core, now, wait, outcome),
            Effect::Lost { session, name, fencing_token, reason } => {
                if !lease_locks::is_reserved(&name) {
                    core.metrics.lost();
                    core.audit.lost(&name, fencing_token, &reason);
                }
                core.send_lost(session, &name, fencing_token, reason);
            }
            Effect::Ended { session } => {
                core.recipes.list(session, Vec::new());
                core.send_closed(session);
            }
            Effect::Record { longest } => self.record(core, longest),
            Effect::RecordHold { name, hold } => self.record_hold(core, now, &name, hold),
            Effect::Renewed { left } => core.metrics.renewed(left),
            Effect::Join => self.handle.join(),
            Effect::Changed { name } => {
                let holder = core.leases.holder(now, &name);
                core.recipes.settle(&name, holder.map(|one| (one.session, one.fencing_token)));
                core.notify_watchers(&name);
            }
        }
    }

    fn reply(self: &Arc<Self>, core: &mut Core, now: Moment, wait: WaitId, outcome: Outcome) {
        let hidden = core.waited_name(wait).is_some_and(|name| lease_locks::is_reserved(&name));
        if !hidden {
            core.metrics.replied(now, &outcome);
        }
        if let Outcome::Granted { fencing_token, .. } = outcome {
            core.revision = core.revision.max(fencing_token);
            let record = core.fence_record.as_mut();
            let covered = record.map_or(Ok(()), |record| record.cover(fencing_token));
            if let Err(error) = covered {
                return self.fail(format!("the fencing token cannot be recorded: {error}"));
            }
            if !hidden {
                self.audit_grant(core, now, wait, &outcome);
            }
        }
        core.candidate_outcome(wait, &outcome);
        match core.waiters.remove(&wait) {
            Some(Waiter::Call { caller, name }) => {
                // A call that was cancelled meanwhile must not hold the lock.
                if let Err(Outcome::Granted { fencing_token, .. }) = caller.send(outcome) {
                    core.leases.release(now, &name, fencing_token);
                }
            }
            Some(Waiter::Key { key, name, caller }) => {
                core.key_outcome(now, &key, &name, &outcome);
                // The call may have answered already that the key waits.
                let _ = caller.send(outcome);
            }
            Some(Waiter::Client { id, session, name, sees_holder: false, .. }) => {
                core.send_outcome(now, (id, session), &name, outcome, None);
            }
            Some(Waiter::Client { id, session, name, sees_holder: true, .. }) => {
                let holder = self.holder_here(core, now, &name);
                let denied = matches!(outcome, Outcome::Busy | Outcome::TimedOut);
                let quarantined = core.quarantined(now).is_some();
                if denied && holder.is_none() && !self.is_alone() && !quarantined {
                    return self.reply_with_holder((id, session), name, outcome);
                }
                core.send_outcome(now, (id, session), &name, outcome, holder);
            }
            None => {}
        }
    }

    fn audit_grant(&self, core: &mut Core, now: Moment, wait: WaitId, outcome: &Outcome) {
        let Outcome::Granted { fencing_token, waited } = *outcome else { return };
        let Some(name) = core.waited_name(wait) else { return };
        if core.audit.is_on() {
            let holder = self.holder_here(core, now, &name).and_then(|entry| entry.client);
            core.audit.granted(now, (&name, fencing_token), waited, holder.as_ref());
        }
    }

    /// Sends the outcome of a denied request, with the holder at another node.
    fn reply_with_holder(self: &Arc<Self>, to: (u64, SessionId), name: Name, outcome: Outcome) {
        let service = Arc::clone(self);
        tokio::spawn(async move {
            let holder = service.holder_anywhere(&name).await;
            service.call(|core, now| core.send_outcome(now, to, &name, outcome, holder));
        });
    }

    fn record(&self, core: &mut Core, longest: Duration) {
        if let Err(error) = core.lease_record.write(longest) {
            self.fail(format!("the longest lease cannot be recorded: {error}"));
        }
    }

    fn record_hold(&self, core: &mut Core, now: Moment, name: &Name, hold: Option<Box<Held>>) {
        let recorded = match hold {
            None => core.lease_record.remove_hold(name),
            Some(held) => {
                let key = core.recipes.recorded(name, SessionId(held.opening.id));
                let hold = HoldRecord::new(now, name, *held);
                core.lease_record.write_hold(&hold, key)
            }
        };
        if let Err(error) = recorded {
            self.fail(format!("a hold cannot be recorded: {error}"));
        }
    }

    /// Stops the node and makes [`serve`] return an error. The grant that could not be recorded,
    /// and everything after it, is not sent to any client.
    fn fail(&self, why: String) {
        self.handle.halt();
        self.failure.send_if_modified(|failure| {
            let first = failure.is_none();
            failure.get_or_insert(why);
            first
        });
    }

    /// Waits until the server fails; returns the cause.
    async fn failed(&self) -> String {
        let mut failure = self.failure.subscribe();
        loop {
            let why = failure.borrow_and_update().clone();
            if let Some(why) = why {
                return why;
            }
            // No error: the sender exists as long as `self`.
            let _ = failure.changed().await;
        }
    }

    /// Calls the lease table at its deadlines. Does not return.
    async fn keep_time(self: Arc<Self>) {
        loop {
            let (wake_at, now) = {
                let mut core = self.lock();
                core.armed = core.leases.wake_at();
                (core.armed, crate::now())
            };
            // The runtime's clock stands still while the machine sleeps, so a wait is short.
            let wait = wake_at.since(now).min(Duration::from_secs(1));
            tokio::select! {
                () = tokio::time::sleep(wait) => self.call(|core, now| core.leases.tick(now)),
                () = self.timer.notified() => {}
            }
        }
    }

    /// Why no lock is granted now, if that is so: also while leases of before a crash are waited
    /// for.
    pub(crate) fn why_not_granting(self: &Arc<Self>) -> Option<String> {
        self.call(|core, now| core.quarantined(now)).or_else(|| self.suspended())
    }

    /// Why grants are suspended, if they are.
    fn suspended(&self) -> Option<String> {
        self.node.status().suspended
    }
}

impl Core {
    fn is_watched(&self) -> bool {
        self.watched.values().any(|watched| watched.receiver_count() > 0)
    }

    /// The lock that a wait is for.
    fn waited_name(&self, wait: WaitId) -> Option<Name> {
        match self.waiters.get(&wait)? {
            Waiter::Call { name, .. } | Waiter::Client { name, .. } | Waiter::Key { name, .. } => {
                Some(Name::clone(name))
            }
        }
    }

    /// Why no lock is granted yet after the start, if that is so.
    fn quarantined(&self, now: Moment) -> Option<String> {
        let rest = self.leases.quarantine(now);
        (rest > Duration::ZERO).then(|| {
            let seconds = rest.as_secs_f64();
            format!(
                "the node did not stop cleanly; leases of its clients expire in {seconds:.1} s at \
                 the latest"
            )
        })
    }

    /// The outcome of the wait of a key.
    fn key_outcome(&mut self, now: Moment, key: &[u8], name: &Name, outcome: &Outcome) {
        let lease = self.recipes.get(key).map(|entry| entry.lease);
        match *outcome {
            Outcome::Granted { fencing_token, .. } => {
                if !self.recipes.granted(key, fencing_token) {
                    self.leases.release(now, name, fencing_token);
                }
            }
            // A lease that holds the lock by other means holds it with this key too; but a key
            // that only tries excludes its own lease.
            Outcome::Already { fencing_token } => {
                let queued = self.recipes.get(key).map(|entry| entry.lease);
                match queued.filter(|lease| recipes::queue_of(key, *lease).is_some()) {
                    Some(_) => drop(self.recipes.granted(key, fencing_token)),
                    None => drop(self.recipes.remove(key)),
                }
            }
            _ => drop(self.recipes.remove(key)),
        }
        // It waits no longer.
        lease.and_then(|lease| self.list_waiters(lease));
    }

    fn notify_watchers(&mut self, name: &Name) {
        let Some(watched) = self.watched.get(name) else { return };
        if watched.send(()).is_err() {
            self.watched.remove(name);
        }
    }
}
