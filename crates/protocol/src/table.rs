//! The locks of a node, by name.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use mutua_algorithms::{FencingToken, Phase};
use serde::Serialize;

use crate::{
    Member, Moment,
    machine::{Machine, Post},
    protocol::Kept,
    view::Name,
    views::Client,
};

/// A lock of this node, valid while it is open.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct LockId(u32);

/// A waiter or a holder of a lock; no two ever have the same.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Ticket(pub u64);

/// The client's description of itself, shown as the holder or waiter.
pub type Owner = Option<Arc<str>>;

/// One lock as this node knows it.
pub(crate) struct Entry {
    pub(crate) name: Name,
    /// The rule of the plan that serves it.
    pub(crate) rule: u16,
    /// This node's process of the lock's algorithm; `None` while the lock was not used in this
    /// view.
    pub(crate) machine: Option<Box<dyn Machine>>,
    pub(crate) holder: Option<Holder>,
    /// The waiters of this node, in order.
    pub(crate) waiting: BTreeMap<Ticket, Waiter>,
    /// The fencing token of an entry that no client has got yet.
    pub(crate) fence: Option<FencingToken>,
    /// The number of clients of this node that got the lock since its process entered.
    pub(crate) run: u32,
    /// Lazy messages that are not due yet.
    pub(crate) lazies: Vec<Post>,
    /// How often the idle pace has been slowed down.
    pub(crate) slowness: u32,
    /// Until when a client of another member is known to want it.
    pub(crate) wanted_until: Moment,
    /// When it was last used here.
    pub(crate) used: Moment,
    /// Set while all members agree on removing its state: until then it is not used.
    pub(crate) frozen: Option<Frozen>,
    /// The number of open handles.
    handles: u32,
    pub(crate) counts: Counts,
}

/// Messages that arrived for a frozen lock, and their senders.
#[derive(Debug, Default)]
pub(crate) struct Frozen {
    pub(crate) arrived: Vec<(Member, Kept)>,
}

/// Counters since the name was first used here.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Counts {
    /// Grants to clients of this node.
    pub entries: u64,
    /// Messages that this node's process sent, one for each receiver.
    pub messages: u64,
    /// Lazy messages, which are not among those.
    pub lazy: u64,
}

impl Counts {
    fn add(&mut self, other: Self) {
        self.entries += other.entries;
        self.messages += other.messages;
        self.lazy += other.lazy;
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Holder {
    pub(crate) ticket: Ticket,
    pub(crate) fence: FencingToken,
    pub(crate) since: Moment,
    pub(crate) owner: Owner,
    /// When the hold ends by itself, since the view lease has lapsed; else [`Moment::NEVER`].
    pub(crate) ends: Moment,
    pub(crate) held_for: HeldFor,
    /// A changed record of the client's hold, on its way to the keepers.
    pub(crate) change: Option<Client>,
}

/// The client that a lock is held for.
#[derive(Clone, Debug)]
pub(crate) enum HeldFor {
    /// One in this node's process: its hold ends with the process, or with the view lease.
    Process,
    /// One outside the process that does not know of its grant yet: the keepers are getting the
    /// record. Until they have it, the hold counts as one of this process.
    Recording(Client),
    /// One outside the process. It outlives this node until its TTL ends.
    Client(Client),
}

impl Holder {
    pub(crate) fn new(now: Moment, ticket: Ticket, fence: FencingToken, owner: Owner) -> Self {
        let (ends, held_for) = (Moment::NEVER, HeldFor::Process);
        Self { ticket, fence, since: now, owner, ends, held_for, change: None }
    }

    /// The client outside the process that knows of its grant.
    pub(crate) fn client(&self) -> Option<&Client> {
        match &self.held_for {
            HeldFor::Client(client) => Some(client),
            HeldFor::Process | HeldFor::Recording(_) => None,
        }
    }

    /// What the keepers are to record next.
    pub(crate) fn unrecorded(&self) -> Option<&Client> {
        match &self.held_for {
            HeldFor::Process => None,
            HeldFor::Recording(client) => Some(client),
            HeldFor::Client(_) => self.change.as_ref(),
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Waiter {
    pub(crate) since: Moment,
    pub(crate) owner: Owner,
}

impl Entry {
    pub(crate) fn phase(&self) -> Phase {
        self.machine.as_ref().map_or(Phase::Idle, |machine| machine.phase())
    }

    /// Since when the first waiter of this node waits.
    pub(crate) fn oldest(&self) -> Option<Moment> {
        self.waiting.values().map(|waiter| waiter.since).min()
    }

    /// Whether a client here holds the lock or waits for it.
    pub(crate) fn is_wanted(&self) -> bool {
        self.holder.is_some() || !self.waiting.is_empty()
    }

    /// Whether the entry has no state to keep.
    fn is_empty(&self) -> bool {
        self.handles == 0 && self.machine.is_none() && !self.is_wanted() && self.frozen.is_none()
    }

    /// Makes a client the holder.
    pub(crate) fn hold(&mut self, now: Moment, ticket: Ticket, fence: FencingToken, owner: Owner) {
        self.holder = Some(Holder::new(now, ticket, fence, owner));
        self.run += 1;
        self.counts.entries += 1;
    }

    /// Drops the state that belongs to a view.
    pub(crate) fn leave_view(&mut self) {
        self.machine = None;
        self.fence = None;
        self.run = 0;
        self.lazies.clear();
        self.frozen = None;
    }
}

/// All locks: by name for messages, by number for clients that have looked the name up before.
#[derive(Default)]
pub(crate) struct Table {
    slots: Vec<Option<Entry>>,
    free: Vec<u32>,
    /// Never iterated: its order is random.
    by_name: HashMap<Name, LockId>,
    /// The counters of the entries that were dropped: a node's sums never fall.
    dropped: Counts,
}

impl Table {
    pub(crate) fn find(&self, name: &[u8]) -> Option<LockId> {
        self.by_name.get(name).copied()
    }

    /// The lock of this name, made if there is none.
    pub(crate) fn find_or_make(&mut self, name: &[u8], rule: impl FnOnce() -> u16) -> LockId {
        if let Some(lock) = self.find(name) {
            return lock;
        }
        let name: Name = name.into();
        let entry = Entry {
            name: Arc::clone(&name),
            rule: rule(),
            machine: None,
            holder: None,
            waiting: BTreeMap::new(),
            fence: None,
            run: 0,
            lazies: Vec::new(),
            slowness: 0,
            wanted_until: Moment::ZERO,
            used: Moment::ZERO,
            frozen: None,
            handles: 0,
            counts: Counts::default(),
        };
        let lock = match self.free.pop() {
            Some(index) => {
                self.slots[index as usize] = Some(entry);
                LockId(index)
            }
            None => {
                self.slots.push(Some(entry));
                LockId(u32::try_from(self.slots.len() - 1).expect("fewer than 2^32 locks"))
            }
        };
        self.by_name.insert(name, lock);
        lock
    }

    /// Counts a handle to the lock, which stays while there is one.
    pub(crate) fn open(&mut self, lock: LockId) {
        self.entry(lock).handles += 1;
    }

    pub(crate) fn close(&mut self, lock: LockId) {
        self.entry(lock).handles -= 1;
        self.drop_if_empty(lock);
    }

    pub(crate) fn drop_if_empty(&mut self, lock: LockId) {
        let slot = &mut self.slots[lock.0 as usize];
        if let Some(entry) = slot.take_if(|entry| entry.is_empty()) {
            self.by_name.remove(&entry.name);
            self.free.push(lock.0);
            self.dropped.add(entry.counts);
        }
    }

    /// The counters of all names since the node started.
    pub(crate) fn counts(&self) -> Counts {
        let mut counts = self.dropped;
        self.slots.iter().flatten().for_each(|entry| counts.add(entry.counts));
        counts
    }

    /// The lock's entry.
    ///
    /// # Panics
    ///
    /// If the lock was closed, which is a bug of the caller.
    pub(crate) fn entry(&mut self, lock: LockId) -> &mut Entry {
        self.slots[lock.0 as usize].as_mut().expect("a lock that is open or in use")
    }

    pub(crate) fn get(&self, lock: LockId) -> Option<&Entry> {
        self.slots.get(lock.0 as usize)?.as_ref()
    }

    /// All locks, in an order that is the same in every run.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (LockId, &Entry)> {
        let entry = |(index, slot): (usize, &'_ Option<Entry>)| {
            slot.is_some().then_some(LockId(u32::try_from(index).expect("fewer than 2^32 locks")))
        };
        self.slots
            .iter()
            .enumerate()
            .filter_map(entry)
            .map(|lock| (lock, self.get(lock).expect("just found")))
    }

    pub(crate) fn ids(&self) -> Vec<LockId> {
        self.iter().map(|(lock, _)| lock).collect()
    }
}
