//! What follows from the decided directory at this member: it starts an engine when it shall vote,
//! stops when it is removed, and lets the voters follow if it leads.

use std::{
    collections::BTreeSet,
    io,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use mutua_consensus::{Engine, VoterChange, VoterId};
use mutua_protocol::views::{EngineMembers, MemberId, Role, VoterStep, voter_step};
use tokio::time::Instant;

use super::{Consensus, NotStarted, Reports, Watch, lock};
use crate::{
    control::{Caller, Reply, Request},
    driver::Driver,
    identity::ClusterIdentity,
};

/// How long a member that was removed goes on: the others may need a word about the view without
/// it.
const FAREWELL: Duration = Duration::from_secs(1);

/// The pause between two questions of a member that is in no view, or votes no longer.
const ASK_AGAIN: Duration = Duration::from_millis(500);

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
        if !out {
            return Ok(true);
        }
        // Of two voters both are needed until the engine lets one of them vote no longer, and this
        // one may not get the entry that says so. A voter that has it tells.
        self.ask_whether_removed(driver, watch);
        if begun && self.engine().is_none() {
            let since = *watch.out_since.get_or_insert_with(Instant::now);
            if since.elapsed() > FAREWELL {
                self.note_left().map_err(NotStarted::Identity)?;
                driver.stop("this member has left the cluster");
            }
        }
        Ok(true)
    }

    /// Starts an engine if this member shall vote, and stops it if its votes do not count.
    pub(super) async fn look_at_role(
        self: &Arc<Self>,
        driver: &Arc<Driver>,
        watch: &mut Watch,
    ) -> Result<(), NotStarted> {
        let Some(identity) = self.identity().clone() else { return Ok(()) };
        let me = identity.me;
        let roles = driver.call(|core, _| {
            let layer = core.protocol.view_layer()?;
            let directory = layer.directory();
            let role = directory.role(me)?;
            let shall = role.votes() || directory.wanted(me).is_some_and(Role::votes);
            Some((shall, layer.state().counts(me), directory.version()))
        });
        match (roles, self.engine()) {
            (Some((true, ..)), None) => {
                let reports = Reports::new(driver);
                let engine = self.open_engine(&identity, &reports).await?;
                let version = identity.genesis().version();
                reports.follow(|core, now| core.protocol.start_voting(now, version));
                self.set_engine(driver, engine);
            }
            (Some((false, false, version)), Some(engine)) => {
                // Its vote may be needed for the decision that it votes no longer. Another voter
                // has that decision, or this one stops too early.
                if self.dismissed.load(Ordering::Relaxed) > version {
                    lock(&self.engine).take();
                    engine.stop().await;
                    self.note_engine(false).map_err(NotStarted::Identity)?;
                    driver.call(|core, now| core.protocol.stop_voting(now));
                } else {
                    self.ask_whether_dismissed(version, watch);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// The leader lets the voters follow the directory.
    pub(super) fn look_at_voters(self: &Arc<Self>, driver: &Arc<Driver>, engine: &Arc<Engine>) {
        let status = engine.status();
        if status.applied != status.last_log {
            // By what was decided before, a voter that was confirmed since would be let go.
            return;
        }
        let ids = |voters: &BTreeSet<VoterId>| voters.iter().map(|one| MemberId(one.0)).collect();
        let members =
            EngineMembers { voters: ids(&status.voters), learners: ids(&status.learners) };
        let all = members.voters.union(&members.learners).copied().collect();
        driver.call(|core, _| core.protocol.set_engine_voters(all));
        // A voter counts when the change is complete: until then a majority of the voters before it
        // is needed too.
        let step = match status.changing {
            true => None,
            false => driver.call(|core, now| {
                let seen = core.protocol.sees(now).collect();
                voter_step(core.protocol.view_layer()?.state(), &members, &seen)
            }),
        };
        let change = match step {
            // A former leader has left a change half made: any next one completes it first.
            None if status.changing => VoterChange::Remove(VoterId(0)),
            None => return,
            Some(VoterStep::Confirm(command)) => return self.propose(&command),
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

    /// The members that refuse this node, and why.
    fn refusals(&self) -> Vec<String> {
        lock(&self.callers).values().filter_map(|one| one.value.refusal()).collect()
    }

    /// What the configuration of this node says and the cluster has decided otherwise, and who
    /// refuses this node. Before the cluster is founded these are the members of the list.
    pub(crate) fn differences(&self) -> Vec<String> {
        let Some(identity) = self.identity().clone() else {
            return self.founding.iter().flatten().filter_map(Caller::refusal).collect();
        };
        let mut notes = self.refusals();
        let Ok(directory) = self.directory() else { return notes };
        if self.rules().is_ok_and(|(_, decided)| decided != self.rules) {
            notes.push(
                "the lock rules of this node's configuration differ from the decided ones, which \
                 are in force: see `mutua cluster rules`"
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
        // A list of this node alone says nothing of the others.
        if listed != [self.me.as_str()] && (!gone.is_empty() || !new.is_empty()) {
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

/// Questions to the others.
impl Consensus {
    /// A member that nobody acknowledges asks whether it was removed while it did not run, or was
    /// cut off.
    pub(super) fn look_for_news(&self, driver: &Arc<Driver>, watch: &mut Watch) {
        if driver.call(|core, now| core.protocol.may_be_removed(now)) {
            self.ask_whether_removed(driver, watch);
        }
    }

    /// A member that is a voter no longer asks whether the engine needs its vote: it may not have
    /// got the entry that says so.
    fn ask_whether_dismissed(self: &Arc<Self>, version: u64, watch: &mut Watch) {
        if watch.asked.is_some_and(|last| last.elapsed() < ASK_AGAIN) {
            return;
        }
        watch.asked = Some(Instant::now());
        for caller in self.callers() {
            let consensus = Arc::downgrade(self);
            tokio::spawn(async move {
                if let Ok(Reply::Dismissed(true)) =
                    caller.call(Request::Dismissed { version }).await
                    && let Some(consensus) = consensus.upgrade()
                {
                    consensus.dismissed.fetch_max(version + 1, Ordering::Relaxed);
                }
            });
        }
    }

    /// Whether the engine has let a member vote no longer, which the directory of this version, or
    /// of a later one, does not call a voter.
    pub(super) fn is_dismissed(&self, id: MemberId, version: u64) -> bool {
        let Some(driver) = self.driver.upgrade() else { return false };
        let unneeded = driver.call(|core, _| {
            let state = core.protocol.view_layer()?.state();
            let directory = state.directory();
            let wanted = directory.wanted(id).is_some_and(Role::votes);
            Some(directory.version() >= version && !wanted && !state.counts(id))
        });
        unneeded == Some(true) && self.engine().is_some() && !self.replicates(id)
    }

    /// Asks the others whether this member was removed, and they need its vote no longer. Links are
    /// refused earlier than that.
    fn ask_whether_removed(&self, driver: &Arc<Driver>, watch: &mut Watch) {
        if watch.asked.is_some_and(|last| last.elapsed() < ASK_AGAIN) {
            return;
        }
        watch.asked = Some(Instant::now());
        for caller in self.callers() {
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
}
