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
    /// Every role.
    pub const ALL: [Self; 3] = [Self::Voter, Self::Follower, Self::Witness];

    /// The role's name, as it is written everywhere.
    pub fn name(self) -> &'static str {
        match self {
            Self::Voter => "voter",
            Self::Follower => "follower",
            Self::Witness => "witness",
        }
    }

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

/// The most members that vote: more would make every decision and lease slower, not safer.
pub const MAX_VOTERS: usize = 5;

/// A change of the directory. New variants go at the end.
#[derive(Clone, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
pub enum DirectoryChange {
    /// Adds a member under an id that was never used.
    Add(MemberId, DirectoryEntry),
    /// Removes a member; its id is not used again.
    Remove(MemberId),
    /// Changes an address, name or role.
    Change(MemberId, DirectoryEntry),
    /// The member shall vote, in this role, once it has the log of the consensus engine.
    Want(MemberId, Role),
}

/// Why a change of the directory is not possible. Nothing was changed.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum DirectoryError {
    /// The id is or was a member's.
    #[error("id {0} is in use or was used before")]
    UsedId(MemberId),
    /// No member has this id.
    #[error("no member has the id {0}")]
    Unknown(MemberId),
    /// Another member has this name.
    #[error("a member has the name `{0}` already")]
    SameName(String),
    /// Another member has this address.
    #[error("a member has the address {0} already")]
    SameAddress(String),
    /// Too many members would vote.
    #[error("{MAX_VOTERS} members vote already, which is the most: the others follow")]
    TooManyVoters,
    /// No member would vote.
    #[error("it is the last member that votes")]
    LastVoter,
    /// No member would hold locks.
    #[error("it is the last member that holds locks: the others are witnesses")]
    LastHolder,
    /// The last change of the voters has not come into force.
    #[error("the view with the voters of the last change has not begun")]
    Unsettled,
}

/// All members.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq, Serialize, Deserialize)]
pub struct Directory {
    entries: BTreeMap<MemberId, DirectoryEntry>,
    /// The place of each member, and of each former one, in the order in which they were added.
    /// Places are not used again: links are numbered by them, and a link to a former member must
    /// not be taken for one to its replacement.
    places: BTreeMap<MemberId, u32>,
    /// The members that shall vote.
    wanted: BTreeMap<MemberId, Role>,
    /// The number of changes made.
    version: u64,
}

impl Directory {
    /// Makes the change; says whether it was possible.
    pub fn apply(&mut self, change: &DirectoryChange) -> bool {
        if self.check(change).is_err() {
            return false;
        }
        self.version += 1;
        match change {
            DirectoryChange::Add(id, entry) => {
                let place = u32::try_from(self.places.len()).unwrap_or(u32::MAX);
                self.places.insert(*id, place);
                self.entries.insert(*id, entry.clone());
            }
            DirectoryChange::Remove(id) => {
                self.entries.remove(id);
                self.wanted.remove(id);
            }
            DirectoryChange::Change(id, entry) => {
                self.entries.insert(*id, entry.clone());
                self.wanted.remove(id);
            }
            DirectoryChange::Want(id, role) => {
                self.wanted.insert(*id, *role);
            }
        }
        true
    }

    /// Whether a change is possible; returns why not.
    ///
    /// # Errors
    ///
    /// See [`DirectoryError`].
    pub fn check(&self, change: &DirectoryChange) -> Result<(), DirectoryError> {
        match change {
            DirectoryChange::Add(id, entry) => {
                if self.places.contains_key(id) {
                    return Err(DirectoryError::UsedId(*id));
                }
                self.check_entry(*id, entry)
            }
            DirectoryChange::Remove(id) => {
                let entry = self.entries.get(id).ok_or(DirectoryError::Unknown(*id))?;
                self.check_last(*id, entry.role, None)
            }
            DirectoryChange::Change(id, entry) => {
                let known = self.entries.get(id).ok_or(DirectoryError::Unknown(*id))?;
                self.check_last(*id, known.role, Some(entry.role))?;
                self.check_entry(*id, entry)
            }
            DirectoryChange::Want(id, role) => {
                let known = self.entries.get(id).ok_or(DirectoryError::Unknown(*id))?;
                self.check_last(*id, known.role, Some(*role))?;
                self.check_votes(*id, *role)
            }
        }
    }

    fn check_entry(&self, id: MemberId, entry: &DirectoryEntry) -> Result<(), DirectoryError> {
        let DirectoryEntry { name, address, role } = entry;
        let others = || self.members().filter(|(other, _)| *other != id).map(|(_, entry)| entry);
        if !name.is_empty() && others().any(|other| other.name == *name) {
            return Err(DirectoryError::SameName(name.clone()));
        }
        if !address.is_empty() && others().any(|other| other.address == *address) {
            return Err(DirectoryError::SameAddress(address.clone()));
        }
        self.check_votes(id, *role)
    }

    /// Checks that at most [`MAX_VOTERS`] vote when this member has this role.
    fn check_votes(&self, id: MemberId, role: Role) -> Result<(), DirectoryError> {
        let votes = |(other, entry): &(MemberId, &DirectoryEntry)| {
            let wanted = self.wanted.get(other).is_some_and(|role| role.votes());
            *other != id && (entry.role.votes() || wanted)
        };
        let others = self.members().filter(votes).count();
        match role.votes() && others >= MAX_VOTERS {
            true => Err(DirectoryError::TooManyVoters),
            false => Ok(()),
        }
    }

    /// Checks that others vote and hold locks when this member has this role, or is gone.
    fn check_last(
        &self,
        id: MemberId,
        was: Role,
        role: Option<Role>,
    ) -> Result<(), DirectoryError> {
        let mut others = self.members().filter(|(other, _)| *other != id);
        let votes = role.is_some_and(Role::votes);
        if was.votes() && !votes && !others.any(|(_, entry)| entry.role.votes()) {
            return Err(DirectoryError::LastVoter);
        }
        let mut others = self.members().filter(|(other, _)| *other != id);
        let holds = role.is_some_and(Role::holds_locks);
        if was.holds_locks() && !holds && !others.any(|(_, entry)| entry.role.holds_locks()) {
            return Err(DirectoryError::LastHolder);
        }
        Ok(())
    }

    /// The members, lowest id first.
    pub fn members(&self) -> impl Iterator<Item = (MemberId, &DirectoryEntry)> {
        self.entries.iter().map(|(&id, entry)| (id, entry))
    }

    /// The entry of a member.
    pub fn entry(&self, id: MemberId) -> Option<&DirectoryEntry> {
        self.entries.get(&id)
    }

    /// The member with this name.
    pub fn named(&self, name: &str) -> Option<(MemberId, &DirectoryEntry)> {
        self.members().find(|(_, entry)| entry.name == name)
    }

    /// What a member takes part in; none if it is not in the directory.
    pub fn role(&self, id: MemberId) -> Option<Role> {
        self.entries.get(&id).map(|entry| entry.role)
    }

    /// The role in which a member shall vote, if it does not yet.
    pub fn wanted(&self, id: MemberId) -> Option<Role> {
        self.wanted.get(&id).copied()
    }

    /// The members that shall vote, and do not yet.
    pub fn wanted_voters(&self) -> impl Iterator<Item = MemberId> {
        self.wanted.iter().filter(|(_, role)| role.votes()).map(|(&id, _)| id)
    }

    /// The members that vote.
    pub fn voters(&self) -> BTreeSet<MemberId> {
        self.members().filter(|(_, entry)| entry.role.votes()).map(|(id, _)| id).collect()
    }

    /// The place of a member or a former one.
    pub fn place(&self, id: MemberId) -> Option<u32> {
        self.places.get(&id).copied()
    }

    /// The member, or former one, at a place.
    pub fn at(&self, place: u32) -> Option<MemberId> {
        self.places.iter().find(|(_, known)| **known == place).map(|(&id, _)| id)
    }

    /// Whether this id was a member's that has been removed.
    pub fn was_removed(&self, id: MemberId) -> bool {
        self.places.contains_key(&id) && !self.entries.contains_key(&id)
    }

    /// The members that have been removed.
    pub fn former(&self) -> impl Iterator<Item = MemberId> {
        self.places.keys().copied().filter(|id| self.was_removed(*id))
    }

    /// The number of changes that it is made of: of two directories of a cluster, the later one has
    /// the greater version.
    pub fn version(&self) -> u64 {
        self.version
    }
}
