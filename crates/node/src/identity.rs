//! Who a member is, on its disk: the cluster's id and the members' ids, drawn once when the cluster
//! is founded, and the number of this member's starts.
//!
//! A member that has lost its data directory has no identity. It is not the member that it was: a
//! voter without its log could undo a decision.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use mutua_protocol::views::{
    Command, DecidedState, Directory, DirectoryChange, DirectoryEntry, MemberId, Role,
};
use serde::{Deserialize, Serialize};

/// The TTL that most clients have.
const USUAL_TTL: Duration = Duration::from_secs(10);

/// The members of a cluster as it was founded.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub(crate) struct ClusterIdentity {
    /// Drawn at random when the cluster was founded.
    pub(crate) cluster: u64,
    /// The members, in the order of the configured list.
    pub(crate) members: Vec<Founder>,
    /// Whether this member's log has begun: from then on an empty log is a lost one.
    pub(crate) founded: bool,
}

/// A member of a cluster that is founded.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub(crate) struct Founder {
    pub(crate) id: MemberId,
    pub(crate) name: String,
    pub(crate) address: String,
    pub(crate) role: Role,
}

impl ClusterIdentity {
    /// The state before the first decision.
    pub(crate) fn genesis(&self) -> DecidedState {
        let mut directory = Directory::default();
        for Founder { id, name, address, role } in self.members.clone() {
            let entry = DirectoryEntry { name, address, role };
            directory.apply(&DirectoryChange::Add(id, entry));
        }
        let mut state = DecidedState::new(directory);
        // The first grant need not wait for a decision.
        state.apply(&Command::Longest(USUAL_TTL));
        state
    }

    /// Whether these are the members' names, in any order.
    pub(crate) fn has_names(&self, names: &[String]) -> bool {
        names.len() == self.members.len() && self.ids(names).is_some()
    }

    /// The ids of the members with these names.
    pub(crate) fn ids(&self, names: &[String]) -> Option<Vec<MemberId>> {
        names.iter().map(|name| self.member(name).map(|member| member.id)).collect()
    }

    /// The member with this name.
    pub(crate) fn member(&self, name: &str) -> Option<&Founder> {
        self.members.iter().find(|member| member.name == name)
    }

    /// The names of the members, for a sentence.
    pub(crate) fn names(&self) -> String {
        let names: Vec<_> = self.members.iter().map(|member| member.name.as_str()).collect();
        names.join(", ")
    }
}

/// The two files in a data directory.
#[derive(Clone, Debug)]
pub(crate) struct IdentityFile {
    directory: PathBuf,
}

impl IdentityFile {
    pub(crate) fn new(directory: &Path) -> Self {
        Self { directory: directory.to_owned() }
    }

    /// The identity on disk, if there is one.
    pub(crate) fn read(&self) -> io::Result<Option<ClusterIdentity>> {
        let Some(text) = self.text("identity")? else { return Ok(None) };
        let identity = serde_json::from_str(&text).map_err(|error| {
            io::Error::new(io::ErrorKind::InvalidData, format!("invalid identity: {error}"))
        })?;
        Ok(Some(identity))
    }

    /// Makes an identity durable.
    pub(crate) fn write(&self, identity: &ClusterIdentity) -> io::Result<()> {
        let text = serde_json::to_string_pretty(identity).expect("plain data");
        self.replace("identity", &text)
    }

    /// The next incarnation, greater than all before on this disk: it is durable before it is
    /// used. It starts from the wall clock, so that of two processes with copies of one directory
    /// the one that started later has the greater one, and its low bits are random.
    pub(crate) fn next_incarnation(&self, now: SystemTime, random: u64) -> io::Result<u64> {
        let millis = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let millis = u64::try_from(millis).unwrap_or(0) & (u64::MAX >> (RANDOM_BITS + 1));
        let after = self.incarnation()?.map_or(1, |last| (last >> RANDOM_BITS) + 1);
        let next = millis.max(after) << RANDOM_BITS | (random & ((1 << RANDOM_BITS) - 1));
        self.replace("incarnation", &format!("{next}\n"))?;
        Ok(next)
    }

    /// Makes the next incarnation greater than this one.
    pub(crate) fn raise_incarnation(&self, known: u64) -> io::Result<()> {
        let next = self.incarnation()?.unwrap_or(0).max(known);
        self.replace("incarnation", &format!("{next}\n"))
    }

    fn incarnation(&self) -> io::Result<Option<u64>> {
        let Some(text) = self.text("incarnation")? else { return Ok(None) };
        let invalid = |_| io::Error::new(io::ErrorKind::InvalidData, "invalid incarnation");
        text.trim().parse().map(Some).map_err(invalid)
    }

    fn text(&self, name: &str) -> io::Result<Option<String>> {
        match fs::read_to_string(self.directory.join(name)) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn replace(&self, name: &str, text: &str) -> io::Result<()> {
        let new = self.directory.join(format!("{name}.new"));
        let mut options = OpenOptions::new();
        let mut file = options.create(true).write(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, self.directory.join(name))?;
        File::open(&self.directory)?.sync_all()
    }
}

/// The bits of an incarnation that are random.
const RANDOM_BITS: u32 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn incarnations_grow_whatever_their_random_bits() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = IdentityFile::new(directory.path());
        let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        let next = |now, random| file.next_incarnation(now, random).expect("written");
        let first = next(at(1000), u64::MAX);
        let second = next(at(1000), 0);
        // The clock was put back.
        let third = next(at(10), 0);
        assert!(0 < first && first < second && second < third);
        assert!(next(at(2000), 0) > third + (900_000 << RANDOM_BITS));
        file.raise_incarnation(u64::MAX >> 2).expect("written");
        assert!(next(at(2000), 0) > u64::MAX >> 2);
    }

    #[test]
    fn an_identity_is_read_as_it_was_written_and_refused_when_it_is_torn() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = IdentityFile::new(directory.path());
        assert_eq!(file.read().expect("nothing there"), None);
        let member = |id: u64, name: &str| Founder {
            id: MemberId(id),
            name: name.to_owned(),
            address: String::new(),
            role: Role::Voter,
        };
        let members = vec![member(7, "a"), member(3, "b")];
        let identity = ClusterIdentity { cluster: 9, members, founded: false };
        file.write(&identity).expect("written");
        assert_eq!(file.read().expect("there"), Some(identity.clone()));
        let names = ["b", "a"].map(str::to_owned);
        assert_eq!(identity.ids(&names), Some(vec![MemberId(3), MemberId(7)]));
        assert!(identity.has_names(&names) && !identity.has_names(&names[..1]));
        fs::write(directory.path().join("identity"), "{").expect("written");
        assert!(file.read().is_err());
    }
}
