//! Waiting until a lock is free.
//!
//! Clients whose recipe has no queue watch a key until it is deleted and then try to create it. For
//! them one waiter of this node queues for the lock, releases it as soon as it is granted, and all
//! of them are informed.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
    time::Duration,
};

use tokio::{sync::watch, task::AbortHandle};
use tonic::Status;

use crate::{
    Service,
    leases::{Client, Name, Opening, SessionId, WaitLimit},
};

/// The lease of a waiter: short, since after a crash of the node it may still hold the lock.
const LEASE: Duration = Duration::from_secs(3);

/// The waiters of this node, by lock.
pub(crate) type Probes = HashMap<Name, Weak<Probe>>;

/// A waiter, as long as a watch needs it.
pub(crate) struct Probe {
    free: watch::Receiver<bool>,
    task: AbortHandle,
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The session of a waiter, closed with it.
struct Session {
    service: Arc<Service>,
    id: SessionId,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.service.call(|core, now| core.leases.close(now, self.id));
    }
}

impl Service {
    /// Waits until the lock is free, or was free for a moment.
    pub(crate) async fn until_free(self: &Arc<Self>, name: Name) -> Result<(), Status> {
        let probe = self.probe(name);
        let mut free = probe.free.clone();
        let waited = free.wait_for(|free| *free).await;
        waited.map(drop).map_err(|_| Status::unavailable("the node is stopping"))
    }

    fn probe(self: &Arc<Self>, name: Name) -> Arc<Probe> {
        let mut core = self.lock();
        core.probes.retain(|_, probe| probe.strong_count() > 0);
        if let Some(probe) = core.probes.get(&name).and_then(Weak::upgrade)
            && !*probe.free.borrow()
        {
            return probe;
        }
        let (sender, free) = watch::channel(false);
        let (service, own) = (Arc::clone(self), Name::clone(&name));
        let task = tokio::spawn(async move {
            while service.wait_once(&own).await.is_err() {
                tokio::time::sleep(LEASE / 3).await;
            }
            let _ = sender.send(true);
        });
        let probe = Arc::new(Probe { free, task: task.abort_handle() });
        core.probes.insert(name, Arc::downgrade(&probe));
        probe
    }

    /// Queues for the lock, and releases it when it is granted.
    async fn wait_once(self: &Arc<Self>, name: &Name) -> Result<(), Status> {
        let client =
            Client { command: "watches the key of a lock".to_owned(), ..Client::default() };
        let opening = Opening { id: 0, ttl: LEASE, client, supervised: true, lease: true };
        let opened = self.call(|core, now| core.leases.open(now, opening));
        let (id, _) = opened.map_err(|error| Status::internal(error.to_string()))?;
        let session = Session { service: Arc::clone(self), id };
        let acquired = self.acquire_own(id, name, |_| WaitLimit::Never);
        tokio::pin!(acquired);
        let mut renewal = tokio::time::interval(LEASE / 3);
        loop {
            tokio::select! {
                outcome = &mut acquired => {
                    drop(session);
                    return match outcome? {
                        crate::leases::Outcome::Granted { .. } => Ok(()),
                        outcome => Err(crate::etcd::refusal(outcome)),
                    };
                }
                _ = renewal.tick() => {
                    if self.handle.may_renew() {
                        self.call(|core, now| core.leases.renew(now, id));
                    }
                }
            }
        }
    }
}
