//! Members come and go by command: the decided directory changes.
//!
//! Whichever member is asked proposes the change and waits until it is decided. What follows from
//! it is in `following.rs` and `connections.rs`; which voter the leader adds or removes next is in
//! `views/voters.rs` of the protocol.

use std::{
    fs::File,
    io::{self, Read},
    time::Duration,
};

use mutua_protocol::views::{
    Directory, DirectoryChange, DirectoryEntry, DirectoryError, MAX_VOTERS, MemberId, Role,
    majority,
};
use tokio::time::{Instant, sleep};

use super::{Consensus, lock};
use crate::{
    control::{Greeting, Joining, Reply},
    identity::ClusterIdentity,
};

/// How long a change may take until it is decided. A change of voters waits for the view of the
/// change before.
pub(super) const DECIDED_WITHIN: Duration = Duration::from_secs(15);

/// The pauses between two looks for a decision, and between two proposals of it.
pub(super) const LOOK: Duration = Duration::from_millis(20);
pub(super) const PROPOSE_AGAIN: Duration = Duration::from_millis(500);

/// How long a one-time token is valid, and how many there may be.
const INVITED_FOR: Duration = Duration::from_secs(3600);
const INVITATIONS: usize = 64;

/// Why a change of the members was not made.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum MembershipError {
    /// The node runs alone, or its cluster is not founded yet.
    #[error("this node is not in a cluster: found one with `mutua cluster init`, or join one")]
    NoCluster,
    /// No member has this name.
    #[error("`{name}` is none of the members: {members}")]
    UnknownName {
        /// The name.
        name: String,
        /// The members' names.
        members: String,
    },
    /// The member has that role already.
    #[error("member {name} has that role already")]
    SameRole {
        /// The member.
        name: String,
    },
    /// The member that is to be replaced runs.
    #[error(
        "member {name} runs and is connected: stop its node first if its data directory is lost"
    )]
    Runs {
        /// The member.
        name: String,
    },
    /// Nothing could be granted or decided afterwards.
    #[error(
        "without {name} too few voters would be left: of {left} only {seen} can be reached, and a \
         majority is needed; start lost members again, or replace or remove those first; if a \
         majority is lost for good: `mutua cluster recover`"
    )]
    TooFewLeft {
        /// The member that would vote no longer.
        name: String,
        /// The number of voters without it.
        left: usize,
        /// Those of them that can be reached.
        seen: usize,
    },
    /// The change is impossible.
    #[error(transparent)]
    Impossible(#[from] DirectoryError),
    /// It was not decided in time. It may still be.
    #[error(
        "the change was not decided within {DECIDED_WITHIN:?}: a majority of the voters must reach \
         each other, and the view with the last change must have begun; see `mutua status`"
    )]
    Undecided,
    /// A rule of locks cannot be followed. Nothing was changed.
    #[error("rule {rule}: {why}")]
    InvalidRule {
        /// Its number, from 1.
        rule: usize,
        /// The reason.
        why: String,
    },
    /// Not all members understand a change of the rules. Nothing was changed.
    #[error(
        "a member is of a version that does not understand a change of the rules, or holds the \
         level down (highest_level), or has not run since it was upgraded: see `mutua cluster \
         members`"
    )]
    OlderMembers,
    /// The decided rules are of a later version.
    #[error("the decided rules are of a later version than this node's: upgrade it")]
    UnreadableRules,
    /// The token cannot be made.
    #[error("no token can be made: {0}")]
    NoToken(String),
}

/// One-time tokens that were given out and not used.
#[derive(Debug, Default)]
pub(super) struct Invitations(Vec<(String, Instant)>);

impl Invitations {
    fn add(&mut self, secret: String) {
        self.0.retain(|(_, until)| Instant::now() < *until);
        if self.0.len() == INVITATIONS {
            self.0.remove(0);
        }
        self.0.push((secret, Instant::now() + INVITED_FOR));
    }

    /// Takes a token out, if it is valid.
    fn take(&mut self, secret: &str) -> Option<(String, Instant)> {
        let found = self.0.iter().position(|(known, _)| known == secret)?;
        Some(self.0.remove(found)).filter(|(_, until)| Instant::now() < *until)
    }
}

impl Consensus {
    pub(super) fn directory(&self) -> Result<Directory, MembershipError> {
        let driver = self.driver.upgrade().ok_or(MembershipError::NoCluster)?;
        let directory = driver.call(|core, _| core.protocol.directory().cloned());
        directory.ok_or(MembershipError::NoCluster)
    }

    fn named(&self, name: &str) -> Result<(MemberId, DirectoryEntry), MembershipError> {
        let directory = self.directory()?;
        let found = directory.named(name).map(|(id, entry)| (id, entry.clone()));
        found.ok_or_else(|| {
            let names: Vec<_> = directory.members().map(|(_, entry)| &*entry.name).collect();
            MembershipError::UnknownName { name: name.to_owned(), members: names.join(", ") }
        })
    }

    /// A token with which one new member can join here.
    pub(crate) fn invite(&self) -> Result<String, MembershipError> {
        let directory = self.directory()?;
        let me = self.identity().as_ref().map(|identity| identity.me);
        let entry = me.and_then(|me| directory.entry(me)).ok_or(MembershipError::NoCluster)?;
        let secret = secret().map_err(|error| MembershipError::NoToken(error.to_string()))?;
        let token = format!("{}/{secret}", entry.address);
        lock(&self.invitations).add(secret);
        Ok(token)
    }

    /// Removes a member.
    pub(crate) async fn remove(&self, name: &str) -> Result<(), MembershipError> {
        let (id, _) = self.named(name)?;
        self.check_rest(id, name)?;
        self.change(DirectoryChange::Remove(id)).await?;
        self.await_dismissal(id).await;
        Ok(())
    }

    /// Gives a member another role.
    pub(crate) async fn set_role(&self, name: &str, role: Role) -> Result<(), MembershipError> {
        let (id, entry) = self.named(name)?;
        if entry.role == role && self.directory()?.wanted(id).is_none() {
            return Err(MembershipError::SameRole { name: name.to_owned() });
        }
        let change = match role.votes() && !entry.role.votes() {
            // It gets the log first.
            true => DirectoryChange::Want(id, role),
            false => {
                if !role.votes() {
                    self.check_rest(id, name)?;
                }
                DirectoryChange::Change(id, DirectoryEntry { role, ..entry })
            }
        };
        self.change(change).await?;
        if !role.votes() {
            self.await_dismissal(id).await;
        }
        Ok(())
    }

    /// Waits until the engine needs the vote of this member no longer, as far as that is known
    /// here: who reads that it has left may switch it off at once, and of two voters both are
    /// needed until then.
    async fn await_dismissal(&self, id: MemberId) {
        let me = self.identity().as_ref().map(|identity| identity.me);
        let deadline = Instant::now() + DECIDED_WITHIN;
        while me != Some(id) && self.replicates(id) && Instant::now() < deadline {
            sleep(LOOK).await;
        }
    }

    /// Checks that a majority of the voters can be reached when this member votes no longer: the
    /// view that names the others could not begin without one, and this could not be undone.
    fn check_rest(&self, id: MemberId, name: &str) -> Result<(), MembershipError> {
        let driver = self.driver.upgrade().ok_or(MembershipError::NoCluster)?;
        let mut voters = self.directory()?.voters();
        if !voters.remove(&id) || voters.is_empty() {
            return Ok(());
        }
        let me = self.identity().as_ref().map(|identity| identity.me);
        let seen = driver.call(|core, _| {
            let reached = |id: &&MemberId| Some(**id) == me || core.protocol.is_connected(**id);
            voters.iter().filter(reached).count()
        });
        match seen < majority(voters.len()) {
            true => {
                let (name, left) = (name.to_owned(), voters.len());
                Err(MembershipError::TooFewLeft { name, left, seen })
            }
            false => Ok(()),
        }
    }

    /// Proposes a change until it is decided.
    async fn change(&self, change: DirectoryChange) -> Result<(), MembershipError> {
        let driver = self.driver.upgrade().ok_or(MembershipError::NoCluster)?;
        let consensus = driver.consensus.get().ok_or(MembershipError::NoCluster)?;
        let deadline = Instant::now() + DECIDED_WITHIN;
        let (mut proposed, mut unsettled) = (None, false);
        while Instant::now() < deadline {
            let checked = driver.call(|core, _| {
                let state = core.protocol.view_layer()?.state();
                let command = || state.check_change(&change).map(|()| state.change(change.clone()));
                (!is_made(&change, state.directory())).then(command)
            });
            match checked {
                None => return Ok(()),
                Some(Ok(command)) => {
                    // Another change was decided before this one: it is of a later version now.
                    let again = proposed.as_ref().is_none_or(|(last, at): &(_, Instant)| {
                        *last != command || at.elapsed() > PROPOSE_AGAIN
                    });
                    if again {
                        consensus.propose(&command);
                        proposed = Some((command, Instant::now()));
                    }
                }
                Some(Err(DirectoryError::Unsettled)) => unsettled = true,
                Some(Err(error)) => return Err(error.into()),
            }
            sleep(LOOK).await;
        }
        Err(match (unsettled, proposed) {
            (true, None) => DirectoryError::Unsettled.into(),
            _ => MembershipError::Undecided,
        })
    }

    /// Takes in a new member, or another one in the place of a lost one.
    pub(super) async fn on_join(
        &self,
        greeting: &Greeting,
        known: bool,
        joining: Joining,
    ) -> Reply {
        if greeting.from != joining.name {
            return Reply::Refused(format!("it is {}, not {}", greeting.from, joining.name));
        }
        let invited = match (&joining.token, known) {
            // The certificate proves its name.
            (None, true) => None,
            (None, false) => {
                return Reply::Refused("an invitation is needed: `mutua cluster invite`".into());
            }
            (Some(token), _) => match lock(&self.invitations).take(token) {
                Some(invited) => Some(invited),
                None => {
                    let text = "the invitation is unknown here, used or too old: make another one \
                                with `mutua cluster invite`";
                    return Reply::Refused(text.to_owned());
                }
            },
        };
        match self.take_in(joining).await {
            Ok(identity) => Reply::Joined(Box::new(identity)),
            Err(error) => {
                lock(&self.invitations).0.extend(invited);
                Reply::Refused(error.to_string())
            }
        }
    }

    /// Whether a member is connected here.
    fn reaches(&self, id: MemberId) -> bool {
        let driver = self.driver.upgrade();
        driver.is_some_and(|driver| driver.call(|core, _| core.protocol.is_connected(id)))
    }

    async fn take_in(&self, joining: Joining) -> Result<ClusterIdentity, MembershipError> {
        let Joining { name, address, role, replaces, .. } = joining;
        let directory = self.directory()?;
        let mut wanted = role;
        if replaces {
            let (old, entry) = self.named(&name)?;
            if self.reaches(old) {
                return Err(MembershipError::Runs { name });
            }
            wanted = wanted.or(Some(entry.role));
            self.check_rest(old, &name)?;
            self.change(DirectoryChange::Remove(old)).await?;
            self.await_dismissal(old).await;
        }
        let votes = |(id, entry): &(MemberId, &DirectoryEntry)| {
            entry.role.votes() || directory.wanted(*id).is_some_and(Role::votes)
        };
        let voters = directory.members().filter(votes).count();
        let role = wanted.unwrap_or(match voters < MAX_VOTERS {
            true => Role::Voter,
            false => Role::Follower,
        });
        let id = MemberId(crate::random().max(1));
        // It holds locks as a follower until it votes; a witness holds none then.
        let entry = DirectoryEntry { name: name.clone(), address, role: Role::Follower };
        self.change(DirectoryChange::Add(id, entry)).await?;
        if role.votes() {
            self.change(DirectoryChange::Want(id, role)).await?;
        }
        tracing::info!("{name} has joined the cluster as member {id}");
        let known = self.directory()?;
        let identity = self.identity().clone().ok_or(MembershipError::NoCluster)?;
        Ok(ClusterIdentity {
            me: id,
            known,
            founded: false,
            engine: false,
            left: false,
            recovered: false,
            ..identity
        })
    }
}

/// Whether a change has been made.
fn is_made(change: &DirectoryChange, directory: &Directory) -> bool {
    match change {
        DirectoryChange::Add(id, _) => directory.place(*id).is_some(),
        DirectoryChange::Remove(id) => directory.was_removed(*id),
        DirectoryChange::Change(id, entry) => {
            directory.entry(*id) == Some(entry) && directory.wanted(*id).is_none()
        }
        DirectoryChange::Want(id, role) => {
            directory.wanted(*id) == Some(*role) || directory.role(*id) == Some(*role)
        }
    }
}

/// 128 random bits as text.
fn secret() -> io::Result<String> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
