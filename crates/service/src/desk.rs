//! Who is inside and who waits, for how long, and for whom: sessions and leases without I/O.
//!
//! A [`Desk`] stands between clients and a node. Clients open sessions, which are good for a time
//! and are renewed; on a session they ask for locks. The desk keeps one line for each name, in
//! order of arrival, and asks the node for one entry at a time on behalf of whoever stands first.
//! It has no clock and no sockets: it is told what happened, with the time, and says what it wants
//! done ([`Effect`]).
//!
//! The rules, and where they are:
//!
//! - a session ends by goodbye, by the known death of its client, or when its lease runs out:
//!   `sessions.rs`;
//! - nobody whose session has ended is ever let in, however late the desk learns of it: `line.rs`;
//! - a grant that is taken away keeps others out until its holder has left, or could not think any
//!   more that it is inside: `hold.rs`;
//! - after a stop that was not clean nobody is let in until the longest lease that may be out there
//!   has run out; who was inside may claim that meanwhile: `hold.rs`.

mod effect;
mod hold;
mod line;
mod list;
mod sessions;
#[cfg(test)]
mod tests;

pub use effect::{Effect, How, Outcome};
pub use list::{LockState, Standing};
pub use sessions::{OpenError, Opening};

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use crate::Moment;

/// A lock's name: any bytes.
pub type Name = Arc<[u8]>;

/// A session, which is a lease: etcd's clients know it by this number.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct SessionId(pub i64);

/// Somebody's asking for a lock, until it is answered.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct WaitId(pub u64);

/// The desk's asking the node for an entry, until it is dropped.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct AskId(pub u64);

/// Who a client says it is.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Client {
    /// What it calls itself.
    pub owner: String,
    /// Its machine.
    pub host: String,
    /// Its process there; 0: unknown.
    pub pid: u32,
    /// What it runs.
    pub command: String,
    /// The version of its software.
    pub version: String,
}

/// How long somebody wants to wait.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Patience {
    /// Not at all.
    Try,
    /// Until then.
    Until(Moment),
    /// For ever.
    Forever,
}

/// What can be set.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Leases that are asked for shorter are made this long.
    pub shortest: Duration,
    /// Leases that are asked for longer are made this long.
    pub longest: Duration,
    /// Which member of its cluster this is, below 2^15: its leases tell.
    pub member: u16,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            shortest: Duration::from_millis(500),
            longest: Duration::from_secs(9_000_000_000),
            member: 0,
        }
    }
}

/// Sessions, leases and lines. See the module's text.
pub struct Desk {
    settings: Settings,
    sessions: BTreeMap<SessionId, sessions::Session>,
    locks: BTreeMap<Name, Lock>,
    waits: BTreeMap<WaitId, line::Wait>,
    asks: BTreeMap<AskId, Name>,
    timers: BTreeSet<(Moment, Timer)>,
    /// Until when nobody is let in.
    quarantine: Moment,
    /// The longest lease that somebody inside may have, as it was told to be remembered.
    remembered: Duration,
    /// Whether that has an end, as it was told: it is what is left of a life before.
    dated: bool,
    /// Whether the longest may be shorter by now.
    somebody_left: bool,
    numbers: u64,
    /// Where the numbers of leases begin, so that no two lives of a node give the same.
    seed: u32,
    effects: Vec<Effect>,
}

/// One name.
#[derive(Default)]
struct Lock {
    holder: Option<hold::Hold>,
    line: VecDeque<WaitId>,
    /// What the node is being asked for.
    asked: Option<line::Asked>,
    last_fence: u64,
}

#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Timer {
    /// A lease may have run out.
    Lease(SessionId),
    /// Somebody may have waited long enough.
    Patience(WaitId),
    /// A grant that was taken away may be over.
    Broken(Name),
    /// The quarantine is over.
    Quarantine,
}

impl Desk {
    /// A desk that opens now. `unclean` is for how long somebody may still be inside from the
    /// node's last life, as it was written down with its end; none if it stopped cleanly. `seed`
    /// differs between lives.
    pub fn new(now: Moment, settings: Settings, unclean: Option<Duration>, seed: u32) -> Self {
        let quarantine = unclean.map_or(Moment::ZERO, |longest| now.after(longest));
        let mut desk = Self {
            settings,
            sessions: BTreeMap::new(),
            locks: BTreeMap::new(),
            waits: BTreeMap::new(),
            asks: BTreeMap::new(),
            timers: BTreeSet::new(),
            quarantine,
            remembered: unclean.unwrap_or_default(),
            dated: unclean.is_some(),
            somebody_left: false,
            numbers: 0,
            seed,
            effects: Vec::new(),
        };
        match unclean {
            Some(_) => drop(desk.timers.insert((quarantine, Timer::Quarantine))),
            None => desk.effects.push(Effect::Join),
        }
        desk
    }

    /// What is to be done, in order.
    pub fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// When to call [`tick`](Self::tick) at the latest.
    pub fn wake_at(&self) -> Moment {
        self.timers.first().map_or(Moment::NEVER, |(at, _)| *at)
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Moment) {
        while self.timers.first().is_some_and(|(at, _)| *at <= now) {
            match self.timers.pop_first().expect("just seen").1 {
                Timer::Lease(session) => self.look_at_lease(now, session),
                Timer::Patience(wait) => self.give_up(now, wait, Outcome::TimedOut),
                Timer::Broken(name) => self.look_at_broken(now, &name),
                Timer::Quarantine => self.end_quarantine(now),
            }
        }
    }

    /// For how long nobody is let in yet.
    pub fn quarantine(&self, now: Moment) -> Duration {
        self.quarantine.since(now)
    }

    /// How many sessions there are.
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }

    /// Whether nobody is inside: a node that stops now stops cleanly.
    pub fn nobody_inside(&self, now: Moment) -> bool {
        self.quarantine <= now && self.locks.values().all(|lock| lock.holder.is_none())
    }

    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    fn changed(&mut self, name: &Name) {
        let idle =
            |lock: &Lock| lock.holder.is_none() && lock.line.is_empty() && lock.asked.is_none();
        if self.locks.get(name).is_some_and(idle) {
            self.locks.remove(name);
        }
        self.effects.push(Effect::Changed { name: Name::clone(name) });
    }
}
