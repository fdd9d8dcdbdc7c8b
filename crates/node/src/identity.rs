//! Who a member is, on its disk: the cluster's id, its own id, the members as the cluster was
//! founded and as they were known last, and the number of this member's starts.
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

use mutua_protocol::Rule;
use mutua_protocol::views::{
    Command, DecidedState, Directory, DirectoryChange, DirectoryEntry, MemberId, Role,
};
use serde::{Deserialize, Serialize};

/// The TTL that most clients have.
const USUAL_TTL: Duration = Duration::from_secs(10);

/// A member's identity, and its cluster as it was founded.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub(crate) struct ClusterIdentity {
    /// Drawn at random when the cluster was founded.
    pub(crate) cluster: u64,
    /// This member.
    pub(crate) me: MemberId,
    /// The members that founded the cluster, in the order of the configured list.
    pub(crate) members: Vec<Founder>,
    /// The rules of the locks, from the configuration of the first of them.
    pub(crate) rules: Vec<Rule>,
    /// The rules that were decided last, if they have changed since.
    #[serde(default)]
    pub(crate) decided_rules: Option<Vec<Rule>>,
    /// No client of the cluster has a longer TTL, before the log says more.
    pub(crate) longest: Duration,
    /// The epoch of the first view is above this one.
    pub(crate) floor: u32,
    /// Whether this member's log has begun: from then on an empty log is a lost one.
    pub(crate) founded: bool,
    /// Whether an engine runs here. It goes on, through restarts, until another voter has the
    /// decision that this one votes no longer: that may need its vote.
    pub(crate) engine: bool,
    /// The members as they were known last.
    pub(crate) known: Directory,
    /// Whether this member has left the cluster.
    pub(crate) left: bool,
    /// The cluster goes on after the loss of a majority: nothing is granted before what its earlier
    /// members granted has expired.
    pub(crate) recovered: bool,
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
        state.apply(&Command::Longest(self.longest.max(USUAL_TTL)));
        state
    }

    /// The identity of a cluster that these members found, of whom this one is the first.
    pub(crate) fn new(cluster: u64, members: Vec<Founder>, rules: Vec<Rule>) -> Self {
        let me = members.first().map_or(MemberId(0), |first| first.id);
        let mut identity = Self {
            cluster,
            me,
            members,
            rules,
            decided_rules: None,
            longest: USUAL_TTL,
            floor: 0,
            founded: false,
            engine: false,
            known: Directory::default(),
            left: false,
            recovered: false,
        };
        identity.known = identity.genesis().directory().clone();
        identity
    }

    /// Whether this member votes from the founding on.
    pub(crate) fn founds_as_voter(&self) -> bool {
        self.members.iter().any(|member| member.id == self.me && member.role.votes())
    }

    /// This member's place in the directory.
    pub(crate) fn place(&self) -> u32 {
        self.known.place(self.me).unwrap_or_default()
    }

    /// This member's name in the directory; that of its founding once it is removed.
    pub(crate) fn name(&self) -> Option<&str> {
        let known = self.known.entry(self.me).map(|entry| entry.name.as_str());
        let founder = || self.members.iter().find(|member| member.id == self.me);
        known.or_else(|| Some(&founder()?.name))
    }

    /// Whether these are the members' names, in any order.
    pub(crate) fn has_names(&self, names: &[String]) -> bool {
        let known = |name: &String| self.member(name).is_some();
        names.len() == self.members.len() && names.iter().all(known)
    }

    /// The member with this name.
    pub(crate) fn member(&self, name: &str) -> Option<&Founder> {
        self.members.iter().find(|member| member.name == name)
    }

    /// The names of the founders, for a sentence.
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

    /// Whether there is an identity on disk.
    pub(crate) fn exists(&self) -> bool {
        self.directory.join("identity").exists()
    }

    /// Removes the identity: the data directory is that of no member from then on.
    pub(crate) fn remove(&self) -> io::Result<()> {
        match fs::remove_file(self.directory.join("identity")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
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
        let rules = vec![Rule::new("votes/*", "maekawa").with("resolution", "reject")];
        let identity = ClusterIdentity::new(9, members, rules);
        file.write(&identity).expect("written");
        assert_eq!(file.read().expect("there"), Some(identity.clone()));
        let names = ["b", "a"].map(str::to_owned);
        assert_eq!((identity.me, identity.place()), (MemberId(7), 0));
        assert!(identity.has_names(&names) && !identity.has_names(&names[..1]));
        fs::write(directory.path().join("identity"), "{").expect("written");
        assert!(file.read().is_err());
    }
}
