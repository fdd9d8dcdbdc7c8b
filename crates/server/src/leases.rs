//! Sessions, leases and the waiters of each lock. Deterministic: time is an argument, and there is
//! no I/O.
//!
//! A [`LeaseTable`] stands between clients and a node. Clients open sessions, whose leases they
//! renew, and request locks on them. The table keeps one queue per name, in order of arrival, and
//! requests the lock from the node for the first waiter, one grant at a time. Its driver calls it
//! with each event and the time, and performs its effects ([`Effect`]).
//!
//! The rules, and their files:
//!
//! - a session ends when its client closes it, when its client's process is known to have ended, or
//!   when its lease expires: `sessions.rs`;
//! - no lock is granted to a session that has ended, however late its end is noticed: `waiters.rs`;
//! - a broken grant keeps other clients out until its holder has released the lock, or its lease
//!   has expired: `hold.rs`;
//! - in a cluster, a hold is recorded at other members before its client is informed, and a node
//!   takes over the holds of a lost one: `custody.rs`;
//! - a client that takes a promise is informed at once, and counts on no more than the rest of the
//!   node's view lease until the hold is recorded: `promises.rs`;
//! - after a crash, a single node goes on with the holds that are recorded: `custody.rs`; where the
//!   record is lost, no lock is granted until the longest lease that may still be held has expired;
//!   former holders may reclaim their locks meanwhile: `hold.rs`.

mod custody;
mod effect;
mod hold;
mod list;
mod promises;
mod sessions;
#[cfg(test)]
mod tests;
mod waiters;

pub(crate) use effect::{Effect, Held, Mode, Outcome};
pub(crate) use list::{Entry, LockState};
pub(crate) use sessions::{OpenError, Opening};

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use mutua_node::MAX_NAME;

use crate::{Moment, lease_locks::is_reserved};

/// A lock's name: any bytes, and at least one.
pub(crate) type Name = Arc<[u8]>;

/// Checks a name that a client uses.
///
/// # Errors
///
/// What is wrong with it.
pub(crate) fn check_name(name: &[u8]) -> Result<(), String> {
    match name.len() {
        // Most likely a variable is not set: all such clients would wait for each other.
        0 => Err("the lock's name is empty".to_owned()),
        1..=MAX_NAME if is_reserved(name) => {
            Err("names that begin with a zero byte and `lease/` are reserved".to_owned())
        }
        1..=MAX_NAME => Ok(()),
        _ => Err(format!("a name has at most {MAX_NAME} bytes")),
    }
}

/// A session, which is also a lease: etcd's clients know it by this number.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) struct SessionId(pub i64);

/// A client's request for a lock, until its outcome.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) struct WaitId(pub u64);

/// The table's request for a lock to the node, until it is dropped.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) struct RequestId(pub u64);

/// A client, as it describes itself, and its identity.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Client {
    /// Its owner: a user name, or what the client chose.
    pub(crate) owner: String,
    /// Its machine.
    pub(crate) host: String,
    /// Its process on that machine; 0: unknown.
    pub(crate) pid: u32,
    /// The command it runs.
    pub(crate) command: String,
    /// The version of its software.
    pub(crate) version: String,
    /// What the node knows it by, and not what it says: `user:NAME`, `cert:NAME` or empty.
    pub(crate) identity: String,
}

/// The limit on a wait.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum WaitLimit {
    /// No wait.
    Try,
    /// Wait until this moment.
    Until(Moment),
    /// No limit.
    Never,
}

impl WaitLimit {
    /// The limit as messages have it: absent is no limit, 0 is no wait.
    pub(crate) fn from_millis(now: Moment, wait_ms: Option<u64>) -> Self {
        match wait_ms {
            None => Self::Never,
            Some(0) => Self::Try,
            Some(wait) => Self::Until(now.after(Duration::from_millis(wait))),
        }
    }
}

/// The longest lease that can be requested: etcd's bound. A node grants no longer one than its
/// configuration allows.
pub const LONGEST_LEASE: Duration = Duration::from_secs(9_000_000_000);

/// The shortest lease of a session. It is renewed every third of it, and a busy machine may run a
/// client more than 100 ms late.
pub(crate) const SHORTEST_LEASE: Duration = Duration::from_millis(500);

/// The shortest lease of an etcd client, in seconds: etcd's own with its default election timeout
/// of 1 s, of which it takes one and a half, rounded up.
pub(crate) const SHORTEST_ETCD_LEASE: i64 = 2;

/// The lease of a lock that an etcd client requests without one: that of a session in etcd's
/// library `concurrency`, by which etcd serves such requests.
pub(crate) const DEFAULT_ETCD_LEASE: Duration = Duration::from_secs(60);

/// The settings of a lease table.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// A request for a shorter lease gets this one.
    pub(crate) shortest: Duration,
    /// A request for a longer lease gets this one; one beyond [`LONGEST_LEASE`] is refused.
    pub(crate) longest: Duration,
    /// The index of this node among the cluster's members, below 2^15: its session numbers contain
    /// it.
    pub(crate) member: u16,
    /// Whether holds are recorded at other members before their clients are informed. A client then
    /// outlives its node, and no lock is reclaimed here.
    pub(crate) recorded: bool,
    /// Clocks of members and clients gain or lose at most so many millionths.
    pub(crate) drift: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            shortest: SHORTEST_LEASE,
            longest: LONGEST_LEASE,
            member: 0,
            recorded: false,
            drift: 0,
        }
    }
}

/// Sessions, leases and queues. See the module's documentation.
pub(crate) struct LeaseTable {
    settings: Settings,
    sessions: BTreeMap<SessionId, sessions::Session>,
    locks: BTreeMap<Name, Lock>,
    waits: BTreeMap<WaitId, waiters::Wait>,
    requests: BTreeMap<RequestId, Name>,
    timers: BTreeSet<(Moment, Timer)>,
    /// No lock is granted before this moment.
    quarantine: Moment,
    /// The longest lease that a holder may have, as last recorded.
    recorded: Duration,
    /// Whether the record has an end: it then covers the leases of the node's last incarnation.
    record_ends: bool,
    /// Whether a lock was released since: the longest lease may be shorter now.
    released: bool,
    /// Until when no other member grants the lock that is being granted.
    excludes_until: Moment,
    /// The locks that were promised since the timer of promises was last due.
    promised: BTreeSet<Name>,
    promises_end: bool,
    numbers: u64,
    /// The beginning of this incarnation's session numbers: no two incarnations give the same.
    seed: u32,
    effects: Vec<Effect>,
}

/// One name.
#[derive(Default)]
struct Lock {
    holder: Option<hold::Hold>,
    queue: VecDeque<WaitId>,
    /// The request to the node that is not granted yet.
    pending: Option<waiters::Pending>,
    /// The grant that is being recorded at other members: its waiter is not informed yet.
    recording: Option<custody::Recording>,
    last_fencing_token: u64,
}

#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Timer {
    /// A lease may have expired.
    Lease(SessionId),
    /// A wait has reached its limit.
    WaitLimit(WaitId),
    /// The lease of a broken grant may have expired, or that of a hold that was taken over and that
    /// its client has not named.
    Broken(Name),
    /// Holds that were promised are due to be recorded, or their promises to grow.
    Promises,
    /// The quarantine is over.
    Quarantine,
}

impl LeaseTable {
    /// A lease table that opens now. `unclean` is how long locks may still be held that the node's
    /// last incarnation granted, as it is recorded with its end; `None` if that one stopped
    /// cleanly. `seed` differs between incarnations.
    pub(crate) fn new(
        now: Moment,
        settings: Settings,
        unclean: Option<Duration>,
        seed: u32,
    ) -> Self {
        let quarantine = unclean.map_or(Moment::ZERO, |longest| now.after(longest));
        let mut leases = Self {
            settings,
            sessions: BTreeMap::new(),
            locks: BTreeMap::new(),
            waits: BTreeMap::new(),
            requests: BTreeMap::new(),
            timers: BTreeSet::new(),
            quarantine,
            recorded: unclean.unwrap_or_default(),
            record_ends: unclean.is_some(),
            released: false,
            excludes_until: Moment::ZERO,
            promised: BTreeSet::new(),
            promises_end: false,
            numbers: 0,
            seed,
            effects: Vec::new(),
        };
        match unclean {
            Some(_) => drop(leases.timers.insert((quarantine, Timer::Quarantine))),
            None => leases.effects.push(Effect::Join),
        }
        leases
    }

    /// The effects to perform, in order.
    pub(crate) fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// When to call [`tick`](Self::tick) at the latest.
    pub(crate) fn wake_at(&self) -> Moment {
        self.timers.first().map_or(Moment::NEVER, |(at, _)| *at)
    }

    /// Time has passed.
    pub(crate) fn tick(&mut self, now: Moment) {
        while self.timers.first().is_some_and(|(at, _)| *at <= now) {
            match self.timers.pop_first().expect("just seen").1 {
                Timer::Lease(session) => self.check_lease(now, session),
                Timer::WaitLimit(wait) => self.give_up(now, wait, Outcome::TimedOut),
                Timer::Broken(name) => self.check_broken(now, &name),
                Timer::Promises => self.check_promises(now),
                Timer::Quarantine => self.end_quarantine(now),
            }
        }
    }

    /// How long grants are still suspended after a stop that was not clean.
    pub(crate) fn quarantine(&self, now: Moment) -> Duration {
        self.quarantine.since(now)
    }

    /// The number of sessions.
    pub(crate) fn sessions(&self) -> usize {
        self.sessions.len()
    }

    /// Whether no lock is held.
    #[cfg(test)]
    pub(crate) fn none_held(&self, now: Moment) -> bool {
        self.quarantine <= now && self.locks.values().all(|lock| lock.holder.is_none())
    }

    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    fn changed(&mut self, name: &Name) {
        let idle = |lock: &Lock| {
            let requested = lock.pending.is_some() || lock.recording.is_some();
            lock.holder.is_none() && lock.queue.is_empty() && !requested
        };
        if self.locks.get(name).is_some_and(idle) {
            self.locks.remove(name);
        }
        self.effects.push(Effect::Changed { name: Name::clone(name) });
    }
}
