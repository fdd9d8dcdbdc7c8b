//! The locks of a node, by name.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use mutua_algorithms::{Fence, Phase};
use serde::Serialize;

use crate::{
    Member, Moment,
    brain::Kept,
    machine::{Machine, Post},
    view::Name,
};

/// A lock of this node, for as long as it is kept open.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct LockId(u32);

/// Somebody who waits for a lock or is inside it; no two ever have the same.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub struct Ticket(pub u64);

/// Who a client says it is, for those who ask who is inside.
pub type Owner = Option<Arc<str>>;

/// One lock as this node knows it.
pub(crate) struct Entry {
    pub(crate) name: Name,
    /// Which rule of the plan serves it.
    pub(crate) rule: u16,
    /// This node's process of the lock's algorithm; none while nobody has used it in this view.
    pub(crate) machine: Option<Box<dyn Machine>>,
    pub(crate) holder: Option<Holder>,
    /// Who waits here, in order.
    pub(crate) waiting: BTreeMap<Ticket, Waiter>,
    /// The fence of an entry that nobody here has taken up yet.
    pub(crate) fence: Option<Fence>,
    /// How many of this node have been inside since the process entered.
    pub(crate) run: u32,
    /// Lazy messages that wait for their time.
    pub(crate) lazies: Vec<Post>,
    /// How often the idle pace has been slowed down.
    pub(crate) slowness: u32,
    /// Until when somebody elsewhere is known to want it.
    pub(crate) wanted_until: Moment,
    /// When it was last used here.
    pub(crate) used: Moment,
    /// Whether all members are just agreeing to forget it: nothing moves until they have.
    pub(crate) frozen: Option<Frozen>,
    /// How many handles of clients point here.
    handles: u32,
    pub(crate) counts: Counts,
}

/// What arrived for a lock while it was frozen, and from whom.
#[derive(Debug, Default)]
pub(crate) struct Frozen {
    pub(crate) arrived: Vec<(Member, Kept)>,
}

/// How often what happened, since the name was first used here.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Counts {
    /// Clients of this node that got inside.
    pub entries: u64,
    /// Messages that this node's process sent, one for each receiver.
    pub messages: u64,
    /// Lazy messages, which are not among those.
    pub lazy: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Holder {
    pub(crate) ticket: Ticket,
    pub(crate) fence: Fence,
    pub(crate) since: Moment,
    pub(crate) owner: Owner,
}

#[derive(Clone, Debug)]
pub(crate) struct Waiter {
    pub(crate) since: Moment,
    pub(crate) owner: Owner,
}

impl Entry {
    pub(crate) fn phase(&self) -> Phase {
        self.machine.as_ref().map_or(Phase::Outside, |machine| machine.phase())
    }

    /// Whether anybody here is inside or waits.
    pub(crate) fn is_wanted(&self) -> bool {
        self.holder.is_some() || !self.waiting.is_empty()
    }

    /// Whether nothing would be lost if it were not there.
    fn is_empty(&self) -> bool {
        self.handles == 0 && self.machine.is_none() && !self.is_wanted() && self.frozen.is_none()
    }

    /// Lets somebody in.
    pub(crate) fn hold(&mut self, now: Moment, ticket: Ticket, fence: Fence, owner: Owner) {
        self.holder = Some(Holder { ticket, fence, since: now, owner });
        self.run += 1;
        self.counts.entries += 1;
    }

    /// Forgets everything that belongs to a view.
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
    /// Only ever looked into, never walked through: its order is random.
    by_name: HashMap<Name, LockId>,
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
        }
    }

    /// The lock.
    ///
    /// # Panics
    ///
    /// If it was closed: a mistake of the caller.
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
