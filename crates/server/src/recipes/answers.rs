//! What this node shows of keys and locks.

use super::{AHEAD, Entry, State, shape::Target};
use crate::{
    Core, Moment,
    etcd::{key, parse_key},
    leases::Name,
    proto::mvccpb::KeyValue,
};

/// A key, and the revision of a response about it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Shown {
    pub(crate) kv: KeyValue,
    pub(crate) revision: u64,
}

/// The answer to a waiter about the keys before its own.
pub(crate) enum Ahead {
    /// There is none: it holds the lock with this fencing token.
    Granted(u64),
    /// There is one.
    One(Shown),
}

impl Core {
    /// Whether a waiter of this node holds the lock, or the one key before its own.
    pub(crate) fn ahead_of(&self, key: &[u8], entry: &Entry) -> Ahead {
        match entry.state {
            State::Held(token) => Ahead::Granted(token),
            State::Waiting(_) => {
                Ahead::One(Shown { kv: entry.ahead(key), revision: self.revision })
            }
        }
    }

    /// A key that this node serves: one of the recipes, or that of a lock which a client holds by
    /// other means.
    pub(crate) fn key_here(&self, now: Moment, wanted: &[u8]) -> Option<Shown> {
        if let Some(waiter) = wanted.strip_suffix(AHEAD) {
            let entry = self.recipes.get(waiter)?;
            return match self.ahead_of(waiter, entry) {
                Ahead::Granted(_) => None,
                Ahead::One(shown) => Some(shown),
            };
        }
        if let Some(entry) = self.recipes.get(wanted) {
            let revision = entry.token().unwrap_or(self.revision);
            return Some(Shown { kv: entry.shown(wanted), revision });
        }
        let (name, session) = parse_key(wanted)?;
        let shown = self.holder_shown(now, name)?;
        (shown.kv.lease == session.0).then_some(shown)
    }

    /// The key of a lock's holder, if it is a client of this node.
    pub(crate) fn first_here(&self, now: Moment, name: &[u8]) -> Option<Shown> {
        match self.recipes.holder(name) {
            Some((key, entry)) => {
                Some(Shown { kv: entry.shown(key), revision: entry.changed.max(entry.created) })
            }
            None => self.holder_shown(now, name),
        }
    }

    /// The holder of a lock as a key.
    fn holder_shown(&self, now: Moment, name: &[u8]) -> Option<Shown> {
        let holder = self.leases.holder(now, name)?;
        let token = holder.fencing_token.cast_signed();
        let kv = KeyValue {
            key: key(name, holder.session),
            create_revision: token,
            mod_revision: token,
            version: 1,
            value: Vec::new(),
            lease: holder.session.0,
        };
        Some(Shown { kv, revision: holder.fencing_token })
    }

    /// The lock of what is watched, if this node may serve it.
    pub(crate) fn name_of(&self, target: &Target) -> Option<Name> {
        let key = match target {
            Target::Lock(name) => return Some(Name::from(&**name)),
            Target::Key(key) => key.strip_suffix(AHEAD).unwrap_or(key),
        };
        let known = self.recipes.get(key).map(|entry| Name::clone(&entry.name));
        known.or_else(|| parse_key(key).map(|(name, _)| Name::from(name)))
    }

    /// The state of what is watched: `None` if this node does not serve it.
    pub(crate) fn watched_here(&self, now: Moment, target: &Target) -> Option<Watched> {
        match target {
            Target::Lock(name) => self.first_here(now, name).map(Watched::Is),
            Target::Key(key) => match key.strip_suffix(AHEAD) {
                Some(waiter) => {
                    let entry = self.recipes.get(waiter)?;
                    Some(match self.ahead_of(waiter, entry) {
                        Ahead::Granted(token) => Watched::Granted(token),
                        Ahead::One(shown) => Watched::Is(shown),
                    })
                }
                None => self.key_here(now, key).map(Watched::Is),
            },
        }
    }
}

/// The state of what is watched.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Watched {
    /// A key.
    Is(Shown),
    /// The watcher has been granted the lock with this fencing token.
    Granted(u64),
}
