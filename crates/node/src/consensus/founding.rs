//! Founding: the members of the configured list become a cluster, once.
//!
//! When all members of the list answer and none has an identity, the first of the list draws ids
//! for all; each member makes them durable before it replies.

use std::{collections::BTreeSet, io, sync::Arc, time::Duration};

use mutua_protocol::views::MemberId;
use tokio::time::sleep;

use super::Consensus;
use crate::{
    control::{Reply, Request},
    driver::Driver,
    identity::{ClusterIdentity, Founder},
};

/// The pause between two attempts to found a cluster.
const FOUND_AGAIN: Duration = Duration::from_millis(50);

impl Consensus {
    /// The identity on disk, or the one with which the cluster is founded now.
    pub(super) async fn await_identity(&self, driver: &Arc<Driver>) -> io::Result<ClusterIdentity> {
        loop {
            let known = self.identity().clone();
            if let Some(identity) = known {
                if identity.founded || self.is_spread(&identity).await {
                    return Ok(identity);
                }
            } else if let Some(why) = self.try_to_found().await? {
                driver.call(|core, _| core.protocol.await_views(why));
            }
            tokio::select! {
                () = self.found.notified() => {}
                () = sleep(FOUND_AGAIN) => {}
            }
        }
    }

    /// Whether all members have the identity: the founder sends it to all until they have it. The
    /// others go on with it at once, and so does a member that has joined.
    async fn is_spread(&self, identity: &ClusterIdentity) -> bool {
        if identity.members.first().is_none_or(|first| first.id != identity.me) {
            return true;
        }
        let mut all = true;
        for (member, caller) in self.members.iter().zip(&self.founding) {
            let Some(caller) = caller else { continue };
            if identity.member(&member.name).is_none() {
                continue;
            }
            let reply = caller.call(Request::Found(Box::new(identity.clone()))).await;
            if let Ok(Reply::Refused(why)) = &reply {
                tracing::warn!("a member refuses to found the cluster: {why}");
            }
            all &= matches!(reply, Ok(Reply::Done));
        }
        all
    }

    /// The first member of the list founds the cluster.
    fn founds(&self) -> bool {
        self.members.first().is_some_and(|first| first.name == self.me)
    }

    /// Draws an identity if all members answer that they have none; returns why not.
    async fn try_to_found(&self) -> io::Result<Option<String>> {
        if let [_] = self.members.as_slice() {
            return Ok(Some(
                "the data directory of this member is empty: stop this node, and use `mutua \
                 cluster init` to found a cluster, `mutua cluster join` to join one, or `mutua \
                 cluster replace` if this member was in one"
                    .to_owned(),
            ));
        }
        let mut silent = Vec::new();
        for (member, caller) in self.members.iter().zip(&self.founding) {
            let Some(caller) = caller else { continue };
            match caller.call(Request::Identity).await {
                Ok(Reply::Identity(None)) => {}
                Ok(Reply::Identity(Some(identity))) if identity.founded => {
                    return Ok(Some(format!(
                        "the data directory of this member is empty, and {} is in a cluster: stop \
                         this node, and use `mutua cluster join`, or `mutua cluster replace` if \
                         this member was in it",
                        member.name
                    )));
                }
                // The founder sends it soon.
                Ok(Reply::Identity(Some(_))) => return Ok(None),
                _ => silent.push(member.name.as_str()),
            }
        }
        if !silent.is_empty() {
            let silent = silent.join(", ");
            return Ok(Some(format!(
                "the cluster starts for the first time, and {silent} cannot be reached"
            )));
        }
        if !self.founds() {
            return Ok(Some("the cluster starts for the first time".to_owned()));
        }
        self.adopt(self.draw())?;
        Ok(None)
    }

    fn draw(&self) -> ClusterIdentity {
        let mut used = BTreeSet::new();
        let mut members = Vec::new();
        for (member, &role) in self.members.iter().zip(&self.roles) {
            let id = std::iter::repeat_with(|| MemberId(crate::random()))
                .find(|id| id.0 != 0 && used.insert(*id));
            members.push(Founder {
                id: id.expect("there are enough numbers"),
                name: member.name.clone(),
                address: member.address.clone(),
                role,
            });
        }
        let identity = ClusterIdentity::new(crate::random().max(1), members, self.rules.clone());
        // `mutua cluster init --above` has left it on this member's disk; the view must be above
        // it though this member may not be in it.
        ClusterIdentity { floor: self.floor, ..identity }
    }

    /// Makes an identity durable and takes it.
    pub(super) fn adopt(&self, identity: ClusterIdentity) -> io::Result<()> {
        let mut known = self.identity();
        self.file.write(&identity)?;
        *known = Some(identity);
        Ok(())
    }

    /// Notes on disk whether an engine runs here.
    pub(super) fn note_engine(&self, engine: bool) -> io::Result<()> {
        let identity = self.identity().clone();
        match identity.filter(|identity| identity.engine != engine) {
            Some(identity) => self.adopt(ClusterIdentity { engine, ..identity }),
            None => Ok(()),
        }
    }

    pub(super) fn on_found(&self, identity: ClusterIdentity) -> Reply {
        let known = self.identity().clone();
        if let Some(known) = known {
            return match known.cluster == identity.cluster {
                true => Reply::Done,
                false => Reply::Refused(format!("{} is in another cluster", self.me)),
            };
        }
        let names: Vec<_> = self.members.iter().map(|member| member.name.clone()).collect();
        let Some(me) = identity.member(&self.me).filter(|_| identity.has_names(&names)) else {
            let (theirs, ours) = (identity.names(), names.join(", "));
            let text = format!("its list of members is {theirs}, that of {} is {ours}", self.me);
            return Reply::Refused(text);
        };
        let me = me.id;
        match self.adopt(ClusterIdentity { me, founded: false, engine: false, ..identity }) {
            Ok(()) => {
                self.found.notify_one();
                Reply::Done
            }
            Err(error) => Reply::Refused(format!("the identity cannot be written: {error}")),
        }
    }
}
