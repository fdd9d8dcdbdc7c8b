//! Members come and go by command: the decided directory changes, and connections, engine and
//! voters follow it.
//!
//! Whichever member is asked proposes the change and waits until it is decided. The leader then
//! lets the voters follow, one at a time (`views/voters.rs` in the protocol). Each member dials
//! whom the directory names, starts an engine when it shall vote, and stops when it is removed.

use std::{
    fs::File,
    io::{self, Read},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use mutua_consensus::{Engine, VoterChange, VoterId};
use mutua_protocol::views::{
    Command, Directory, DirectoryChange, DirectoryEntry, DirectoryError, MAX_VOTERS, MemberId,
    Role, VoterStep, voter_step,
};
use tokio::{
    task::AbortHandle,
    time::{Instant, sleep},
};

use super::{Consensus, NotStarted, Reports, Watch, lock};
use crate::{
    control::{Caller, Greeting, Joining, Reply, Request},
    driver::Driver,
    identity::ClusterIdentity,
    network,
};

/// How long a change may take until it is decided. A change of voters waits for the view of the
/// change before.
const DECIDED_WITHIN: Duration = Duration::from_secs(15);

/// The pauses between two looks for a decision, and between two proposals of it.
const LOOK: Duration = Duration::from_millis(20);
const PROPOSE_AGAIN: Duration = Duration::from_millis(500);

/// How long a one-time token is valid, and how many there may be.
const INVITED_FOR: Duration = Duration::from_secs(3600);
const INVITATIONS: usize = 64;

/// How long a member that was removed, and votes no more, goes on: the others may need its
/// acknowledgements, and a word about the view without it.
const FAREWELL: Duration = Duration::from_secs(1);
const LONG_FAREWELL: Duration = Duration::from_secs(5);

/// The pause between two questions of a member that is in no view.
const ASK_AGAIN: Duration = Duration::from_secs(2);

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
    /// The change is impossible.
    #[error(transparent)]
    Impossible(#[from] DirectoryError),
    /// It was not decided in time. It may still be.
    #[error(
        "the change was not decided within {DECIDED_WITHIN:?}: a majority of the voters must reach \
         each other, and the view with the last change must have begun; see `mutua status`"
    )]
    Undecided,
    /// The token cannot be made.
    #[error("no token can be made: {0}")]
    NoToken(String),
}

/// A connection to a member that is dialled, until this is dropped.
pub(super) struct Dialled<T> {
    pub(super) value: T,
    address: String,
    task: AbortHandle,
}

impl<T> Drop for Dialled<T> {
    fn drop(&mut self) {
        self.task.abort();
    }
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

/// Connections follow the directory, until the node stops.
pub(crate) async fn follow_members(consensus: Arc<Consensus>, driver: Arc<Driver>) {
    loop {
        consensus.members_changed.notified().await;
        consensus.dial_members(&driver);
    }
}

/// Connections.
impl Consensus {
    /// Dials the members of the directory, and no other.
    fn dial_members(self: &Arc<Self>, driver: &Arc<Driver>) {
        let Some((cluster_id, me)) =
            self.identity().as_ref().map(|identity| (identity.cluster, identity.me))
        else {
            return;
        };
        let (linked, directory, place) = driver.call(|core, _| {
            let directory = core.protocol.directory().cloned().unwrap_or_default();
            (core.protocol.linked(), directory, core.protocol.me())
        });
        let mut callers = lock(&self.callers);
        let mut links = lock(&self.links);
        callers.retain(|id, _| linked.iter().any(|(_, one)| one == id) || self.replicates(*id));
        links.retain(|member, _| linked.iter().any(|(one, _)| one == member));
        for (member, id) in linked {
            let Some(DirectoryEntry { name, address, .. }) = directory.entry(id) else { continue };
            if callers.get(&id).is_none_or(|known| known.address != *address) {
                let greeting = Greeting {
                    cluster: self.cluster.clone(),
                    from: self.me.clone(),
                    to: name.clone(),
                    incarnation: self.incarnation,
                    cluster_id,
                    id: me.0,
                };
                let (value, task) = Caller::new(self.transport.clone(), address.clone(), greeting);
                let task = tokio::spawn(task).abort_handle();
                callers.insert(id, Dialled { value, address: address.clone(), task });
            }
            // Of two members the later one dials, so that there is one connection.
            if member < place && links.get(&member).is_none_or(|known| known.address != *address) {
                let dial = network::dial(
                    Arc::clone(driver),
                    self.transport.clone(),
                    member,
                    address.clone(),
                );
                let task = tokio::spawn(dial).abort_handle();
                links.insert(member, Dialled { value: (), address: address.clone(), task });
            }
        }
    }

    /// Whether the engine here sends entries to this member or gets some from it.
    fn replicates(&self, id: MemberId) -> bool {
        self.engine().is_some_and(|engine| {
            let status = engine.status();
            let id = VoterId(id.0);
            status.voters.contains(&id) || status.learners.contains(&id) || status.changing
        })
    }

    /// Whether this member was removed, and nothing is left to be said to it.
    pub(super) fn is_former(&self, id: MemberId) -> bool {
        let Some(driver) = self.driver.upgrade() else { return false };
        let removed = driver.call(|core, _| {
            let removed = core.protocol.directory().is_some_and(|one| one.was_removed(id));
            removed && !core.protocol.is_linked(id)
        });
        removed && !self.replicates(id)
    }

    /// Ends the calls to members that no engine needs any more.
    pub(super) fn hang_up_on_former(&self, driver: &Arc<Driver>) {
        let known: Vec<_> = lock(&self.callers).keys().copied().collect();
        let linked = driver.call(|core, _| core.protocol.linked());
        let is_linked = |id: &MemberId| linked.iter().any(|(_, one)| one == id);
        if known.iter().any(|id| !is_linked(id) && !self.replicates(*id)) {
            self.members_changed.notify_one();
        }
    }

    /// A member that is in no view asks whether it was removed while it did not run.
    pub(super) fn look_for_news(&self, driver: &Arc<Driver>, watch: &mut Watch) {
        let alone = driver.call(|core, now| {
            let out = core.protocol.view_layer().is_some_and(|layer| layer.view().is_none());
            out && !core.protocol.sees_majority(now)
        });
        if alone {
            self.ask_whether_removed(driver, watch);
        }
    }

    /// Asks the others whether this member was removed, and they need its vote no longer. Links are
    /// refused earlier than that.
    fn ask_whether_removed(&self, driver: &Arc<Driver>, watch: &mut Watch) {
        if watch.asked.is_some_and(|last| last.elapsed() < ASK_AGAIN) {
            return;
        }
        watch.asked = Some(Instant::now());
        let callers: Vec<_> = lock(&self.callers).values().map(|one| one.value.clone()).collect();
        for caller in callers {
            let driver = Arc::downgrade(driver);
            tokio::spawn(async move {
                if let Ok(Reply::Removed) = caller.call(Request::Identity).await
                    && let Some(driver) = driver.upgrade()
                {
                    driver.removed();
                }
            });
        }
    }

    /// Ends all connections.
    pub(crate) fn hang_up(&self) {
        lock(&self.callers).clear();
        lock(&self.links).clear();
    }
}

/// Changes.
impl Consensus {
    fn directory(&self) -> Result<Directory, MembershipError> {
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
        self.change(DirectoryChange::Remove(id)).await
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
            false => DirectoryChange::Change(id, DirectoryEntry { role, ..entry }),
        };
        self.change(change).await
    }

    /// Proposes a change until it is decided.
    async fn change(&self, change: DirectoryChange) -> Result<(), MembershipError> {
        let driver = self.driver.upgrade().ok_or(MembershipError::NoCluster)?;
        let consensus = driver.consensus.get().ok_or(MembershipError::NoCluster)?;
        let deadline = Instant::now() + DECIDED_WITHIN;
        let (mut proposed, mut checked) = (None::<Instant>, None);
        while Instant::now() < deadline {
            let checked_now = driver.call(|core, _| {
                let state = core.protocol.view_layer()?.state();
                (!is_made(&change, state.directory())).then(|| state.check_change(&change))
            });
            match checked_now {
                None => return Ok(()),
                Some(Ok(())) => {
                    if proposed.is_none_or(|last| last.elapsed() > PROPOSE_AGAIN) {
                        consensus.propose(&Command::Directory(change.clone()));
                        proposed = Some(Instant::now());
                    }
                }
                Some(Err(DirectoryError::Unsettled)) => checked = Some(DirectoryError::Unsettled),
                Some(Err(error)) => return Err(error.into()),
            }
            sleep(LOOK).await;
        }
        Err(match (checked, proposed) {
            (Some(error), None) => error.into(),
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
                return Reply::Refused("a token is needed: `mutua cluster invite`".into());
            }
            (Some(token), _) => match lock(&self.invitations).take(token) {
                Some(invited) => Some(invited),
                None => {
                    let text = "the token is unknown here, used or too old: make another one with \
                                `mutua cluster invite`";
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

    async fn take_in(&self, joining: Joining) -> Result<ClusterIdentity, MembershipError> {
        let Joining { name, address, role, replaces, .. } = joining;
        let directory = self.directory()?;
        let mut wanted = role;
        if replaces {
            let (old, entry) = self.named(&name)?;
            wanted = wanted.or(Some(entry.role));
            self.change(DirectoryChange::Remove(old)).await?;
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
        let recovered = false;
        Ok(ClusterIdentity { me: id, known, founded: false, left: false, recovered, ..identity })
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

/// What follows from the directory.
impl Consensus {
    /// Whether this member has left the cluster.
    pub(crate) fn has_left(&self) -> bool {
        self.left.load(Ordering::Relaxed)
    }

    /// Marks this member's data directory: it is of no cluster any more.
    pub(crate) fn note_left(&self) -> io::Result<()> {
        let Some(identity) = self.identity().clone() else { return Ok(()) };
        self.adopt(ClusterIdentity { left: true, ..identity })?;
        self.left.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// A member that was removed leaves its view, and stops when the others go on without it.
    /// Returns whether it was removed.
    pub(super) fn look_at_removal(
        &self,
        driver: &Arc<Driver>,
        watch: &mut Watch,
    ) -> Result<bool, NotStarted> {
        let Some(me) = self.identity().as_ref().map(|identity| identity.me) else {
            return Ok(false);
        };
        let removed = driver.call(|core, now| {
            let layer = core.protocol.view_layer()?;
            if !layer.directory().was_removed(me) {
                return None;
            }
            let state = layer.state();
            let (out, begun) = (layer.view().is_none(), state.begun() >= state.last_number());
            core.protocol.retire(now);
            Some((out, begun))
        });
        let Some((out, begun)) = removed else { return Ok(false) };
        // Of two voters both are needed until the engine lets one of them vote no longer.
        let engine = self.engine().map(|engine| engine.status());
        let votes = engine.as_ref().is_some_and(|one| one.voters.contains(&VoterId(me.0)));
        let needed = engine.is_some_and(|one| one.leads || one.changing);
        if out && !votes {
            let since = *watch.out_since.get_or_insert_with(Instant::now);
            let settled = begun && !needed;
            if since.elapsed() > if settled { FAREWELL } else { LONG_FAREWELL } {
                self.note_left().map_err(NotStarted::Identity)?;
                driver.stop("this member has left the cluster");
            }
        } else if out && begun {
            // The others may have let it vote no longer without a word to it.
            self.ask_whether_removed(driver, watch);
        }
        Ok(true)
    }

    /// Starts an engine if this member shall vote, and stops it if its votes do not count.
    pub(super) async fn look_at_role(
        self: &Arc<Self>,
        driver: &Arc<Driver>,
    ) -> Result<(), NotStarted> {
        let Some(identity) = self.identity().clone() else { return Ok(()) };
        let me = identity.me;
        let roles = driver.call(|core, _| {
            let layer = core.protocol.view_layer()?;
            let directory = layer.directory();
            let role = directory.role(me)?;
            let shall = role.votes() || directory.wanted(me).is_some_and(Role::votes);
            Some((shall, layer.state().counts(me)))
        });
        match (roles, self.engine()) {
            (Some((true, _)), None) => {
                let reports = Reports::new(driver);
                let engine = self.open_engine(&identity, &reports).await?;
                let version = identity.genesis().version();
                reports.follow(|core, now| core.protocol.start_voting(now, version));
                self.set_engine(driver, engine);
            }
            (Some((false, false)), Some(engine)) => {
                lock(&self.engine).take();
                engine.stop().await;
                driver.call(|core, now| core.protocol.stop_voting(now));
            }
            _ => {}
        }
        Ok(())
    }

    /// The leader lets the voters follow the directory.
    pub(super) fn look_at_voters(self: &Arc<Self>, driver: &Arc<Driver>, engine: &Arc<Engine>) {
        let status = engine.status();
        let voters = status.voters.iter().map(|one| MemberId(one.0)).collect();
        // A voter counts when the change is complete: until then a majority of the voters before it
        // is needed too.
        let step = match status.changing {
            true => None,
            false => {
                driver.call(|core, _| voter_step(core.protocol.view_layer()?.state(), &voters))
            }
        };
        let change = match step {
            // A former leader has left a change half made: any next one completes it first.
            None if status.changing => VoterChange::Remove(VoterId(0)),
            None => return,
            Some(VoterStep::Confirm(change)) => return self.propose(&Command::Directory(change)),
            Some(VoterStep::Admit(id)) => VoterChange::Add(VoterId(id.0)),
            Some(VoterStep::Dismiss(id)) => VoterChange::Remove(VoterId(id.0)),
        };
        if self.changing.swap(true, Ordering::Relaxed) {
            return;
        }
        let (consensus, engine) = (Arc::clone(self), Arc::clone(engine));
        tokio::spawn(async move {
            if let Err(error) = engine.change_voters(change).await {
                tracing::info!("the voters of the engine do not change yet: {error}");
            }
            consensus.changing.store(false, Ordering::Relaxed);
        });
    }

    /// What the configuration of this node says and the cluster has decided otherwise.
    pub(crate) fn differences(&self) -> Vec<String> {
        let Some(identity) = self.identity().clone() else { return Vec::new() };
        let Ok(directory) = self.directory() else { return Vec::new() };
        let mut notes = Vec::new();
        if self.rules != identity.rules {
            notes.push(
                "the lock rules of this node's configuration differ from the decided ones, which \
                 are in force"
                    .to_owned(),
            );
        }
        let own = self.members.iter().find(|member| member.name == self.me);
        let decided = directory.entry(identity.me).map(|entry| entry.address.as_str());
        if let (Some(own), Some(decided)) = (own, decided)
            && own.address != decided
        {
            notes.push(format!(
                "this node listens on {}, and the other members dial the decided address {decided}",
                own.address
            ));
        }
        let listed: Vec<_> = self.members.iter().map(|member| member.name.as_str()).collect();
        let present = |name: &str| directory.named(name).is_some();
        let gone: Vec<_> = listed.iter().copied().filter(|name| !present(name)).collect();
        let new = directory.members().map(|(_, entry)| entry.name.as_str());
        let new: Vec<_> = new.filter(|name| !listed.contains(name)).collect();
        if !gone.is_empty() || !new.is_empty() {
            let names: Vec<_> = directory.members().map(|(_, entry)| &*entry.name).collect();
            notes.push(format!(
                "the members are {}, as decided; the list in this node's configuration ({}) \
                 changes nothing",
                names.join(", "),
                listed.join(", ")
            ));
        }
        notes
    }
}
