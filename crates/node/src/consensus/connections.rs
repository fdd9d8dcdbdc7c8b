//! Connections between members follow the directory: each member dials whom it names.

use std::sync::Arc;

use mutua_consensus::VoterId;
use mutua_protocol::views::{DirectoryEntry, MemberId};
use tokio::task::AbortHandle;

use super::{Consensus, lock};
use crate::{
    control::{Caller, Greeting},
    driver::Driver,
    network,
};

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

/// Connections follow the directory, until the node stops.
pub(crate) async fn follow_members(consensus: Arc<Consensus>, driver: Arc<Driver>) {
    loop {
        consensus.members_changed.notified().await;
        consensus.dial_members(&driver);
    }
}

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
                    levels: self.settings.levels,
                    view_lease: self.settings.lease,
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
    pub(super) fn replicates(&self, id: MemberId) -> bool {
        self.engine().is_some_and(|engine| {
            let status = engine.status();
            let id = VoterId(id.0);
            status.voters.contains(&id) || status.learners.contains(&id) || status.changing
        })
    }

    /// Whether this member was removed, and the engine needs its vote no longer: only a voter can
    /// tell.
    pub(super) fn is_former(&self, id: MemberId) -> bool {
        let Some(driver) = self.driver.upgrade() else { return false };
        let removed = driver.call(|core, _| {
            let removed = core.protocol.directory().is_some_and(|one| one.was_removed(id));
            removed && !core.protocol.is_linked(id)
        });
        removed && self.engine().is_some() && !self.replicates(id)
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

    pub(super) fn callers(&self) -> Vec<Caller> {
        lock(&self.callers).values().map(|one| one.value.clone()).collect()
    }

    /// Ends all connections.
    pub(crate) fn hang_up(&self) {
        lock(&self.callers).clear();
        lock(&self.links).clear();
    }
}
