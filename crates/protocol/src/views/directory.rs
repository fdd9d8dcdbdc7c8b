//! The directory: all members, their addresses and roles, as decided.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::MemberId;

/// What a member takes part in.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
pub enum Role {
    /// Votes, keeps records, holds locks.
    Voter,
    /// Holds locks only.
    Follower,
    /// Votes and keeps records, holds no locks.
    Witness,
}

impl Role {
    /// Whether such a member votes (and may keep records).
    pub fn votes(self) -> bool {
        matches!(self, Self::Voter | Self::Witness)
    }

    /// Whether such a member may hold locks.
    pub fn holds_locks(self) -> bool {
        matches!(self, Self::Voter | Self::Follower)
    }
}

/// A member in the directory.
#[derive(Clone, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
pub struct DirectoryEntry {
    /// Its name, for people.
    pub name: String,
    /// Where it is reached.
    pub address: String,
    /// What it takes part in.
    pub role: Role,
}

/// A change of the directory.
#[derive(Clone, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
pub enum DirectoryChange {
    /// Adds a member under an id that was never used.
    Add(MemberId, DirectoryEntry),
    /// Removes a member; its id is not used again.
    Remove(MemberId),
    /// Changes an address, name or role.
    Change(MemberId, DirectoryEntry),
}

/// All members.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq, Serialize, Deserialize)]
pub struct Directory {
    entries: BTreeMap<MemberId, DirectoryEntry>,
    removed: BTreeSet<MemberId>,
}

impl Directory {
    /// Makes the change; says whether it was possible.
    pub fn apply(&mut self, change: &DirectoryChange) -> bool {
        match change {
            DirectoryChange::Add(id, entry) => {
                let new = !self.entries.contains_key(id) && !self.removed.contains(id);
                if new {
                    self.entries.insert(*id, entry.clone());
                }
                new
            }
            DirectoryChange::Remove(id) => {
                let known = self.entries.remove(id).is_some();
                if known {
                    self.removed.insert(*id);
                }
                known
            }
            DirectoryChange::Change(id, entry) => match self.entries.get_mut(id) {
                Some(known) => {
                    known.clone_from(entry);
                    true
                }
                None => false,
            },
        }
    }

    /// The members, lowest id first.
    pub fn members(&self) -> impl Iterator<Item = (MemberId, &DirectoryEntry)> {
        self.entries.iter().map(|(&id, entry)| (id, entry))
    }

    /// What a member takes part in; none if it is not in the directory.
    pub fn role(&self, id: MemberId) -> Option<Role> {
        self.entries.get(&id).map(|entry| entry.role)
    }

    /// The members that vote.
    pub fn voters(&self) -> BTreeSet<MemberId> {
        self.members().filter(|(_, entry)| entry.role.votes()).map(|(id, _)| id).collect()
    }

    /// Whether this id was a member's that has been removed.
    pub fn was_removed(&self, id: MemberId) -> bool {
        self.removed.contains(&id)
    }
}
