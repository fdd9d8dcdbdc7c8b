//! Transactions and deletions at the node that serves the lease or the key.

use std::{sync::Arc, time::Duration};

use tokio::sync::oneshot;
use tonic::Status;

use super::{
    AHEAD, Entry, State, bare_name,
    calls::{By, Here},
    next_revision, queue_of,
    shape::{Change, Condition, Read, Transaction},
};
use crate::{
    Core, Moment, Service, Waiter,
    etcd::refusal,
    leases::{Name, Outcome, SessionId, WaitLimit},
    proto::{
        etcdserverpb::{
            DeleteRangeResponse, PutResponse, ResponseOp, TxnResponse, response_op::Response,
        },
        mvccpb::KeyValue,
    },
};

/// How long the creation of a key waits for a lock that is not known to be held.
const HINT: Duration = Duration::from_millis(300);

/// Transactions.
impl Service {
    pub(super) async fn txn_here(
        self: &Arc<Self>,
        transaction: &Transaction,
        by: &By,
    ) -> Here<TxnResponse> {
        match transaction {
            Transaction::Create { key, value, lease, then, otherwise } => {
                let lease = SessionId(*lease);
                let is_own = {
                    let core = self.lock();
                    core.leases.is_lease(lease) && core.is_own(lease, by)
                };
                if !is_own {
                    let zero = "a lock needs a lease: put the key with the number of one";
                    return (lease.0 == 0).then(|| Err(Status::invalid_argument(zero)));
                }
                let created = self.create(key, value.clone(), lease, by.restamped).await;
                Some(match created {
                    Ok(created) => self.created(created, key, then, otherwise).await,
                    Err(error) => Err(error),
                })
            }
            Transaction::Change { key, condition, change, otherwise } => {
                let (succeeded, revision) = match self.change(key, condition, change, by).await? {
                    Ok(changed) => changed,
                    Err(error) => return Some(Err(error)),
                };
                let header = self.header(revision);
                if !succeeded {
                    let responses = self.read_all(otherwise, None).await;
                    return Some(responses.map(|responses| TxnResponse {
                        header,
                        succeeded,
                        responses,
                    }));
                }
                let response = match change {
                    Change::Keep => None,
                    Change::Delete => Some(Response::ResponseDeleteRange(DeleteRangeResponse {
                        header,
                        deleted: 1,
                        prev_kvs: Vec::new(),
                    })),
                    Change::Put(_) => {
                        Some(Response::ResponsePut(PutResponse { header, prev_kv: None }))
                    }
                };
                let responses = response.map(|response| ResponseOp { response: Some(response) });
                let responses = responses.into_iter().collect();
                Some(Ok(TxnResponse { header, succeeded, responses }))
            }
        }
    }

    async fn created(
        self: &Arc<Self>,
        created: Created,
        key: &[u8],
        then: &[Read],
        otherwise: &[Read],
    ) -> Result<TxnResponse, Status> {
        let revision = match created {
            Created::At(revision) => revision,
            Created::Not => {
                let header = self.header(self.lock().revision);
                let mut responses = self.read_all(otherwise, Some(key)).await?;
                self.show_some_holder(key, &mut responses);
                return Ok(TxnResponse { header, succeeded: false, responses });
            }
        };
        let header = self.header(revision);
        let put = Response::ResponsePut(PutResponse { header, prev_kv: None });
        let mut responses = vec![ResponseOp { response: Some(put) }];
        responses.extend(self.read_all(then, Some(key)).await?);
        Ok(TxnResponse { header, succeeded: true, responses })
    }

    /// A client that was refused a lock expects to see a key, though its holder may have none.
    fn show_some_holder(&self, key: &[u8], responses: &mut [ResponseOp]) {
        for response in responses {
            if let Some(Response::ResponseRange(range)) = &mut response.response
                && range.kvs.is_empty()
            {
                let revision = self.lock().revision.cast_signed();
                range.count = 1;
                range.kvs.push(KeyValue {
                    key: key.to_vec(),
                    create_revision: revision,
                    mod_revision: revision,
                    version: 1,
                    ..KeyValue::default()
                });
            }
        }
    }

    /// Creates a key, unless it exists: it waits for its lock or holds it, or it was refused.
    /// With `restamped` the fencing token becomes the revision of its creation.
    async fn create(
        self: &Arc<Self>,
        key: &[u8],
        value: Vec<u8>,
        lease: SessionId,
        restamped: bool,
    ) -> Result<Created, Status> {
        if key.ends_with(AHEAD) {
            let text = "invalid key: the suffix `:ahead` is reserved for the keys of waiters";
            return Err(Status::invalid_argument(text));
        }
        let queue = queue_of(key, lease);
        let name = queue.unwrap_or_else(|| bare_name(key));
        crate::leases::check_name(name).map_err(Status::invalid_argument)?;
        let limit = if queue.is_some() { WaitLimit::Never } else { WaitLimit::Try };
        let name = Name::from(name);
        let (caller, outcome) = oneshot::channel();
        let created = self.call(|core, now| {
            if core.recipes.get(key).is_some() {
                return None;
            }
            let revision = self.take_revision(core, &name);
            let wait = core.leases.acquire(now, lease, &name, limit);
            let waiter = Waiter::Key { key: key.to_vec(), name: Name::clone(&name), caller };
            core.waiters.insert(wait, waiter);
            let entry = Entry {
                name: Name::clone(&name),
                lease,
                value,
                created: revision,
                changed: revision,
                version: 1,
                state: State::Waiting(wait),
                restamped: restamped || queue.is_none(),
                proposed: None,
            };
            core.recipes.insert(key.to_vec(), entry);
            Some(revision)
        });
        let Some(revision) = created else { return Ok(Created::Not) };
        if queue.is_some() {
            self.until_granted_or_held(&name, key).await;
            self.until_listed(lease).await?;
            let stamped = self.call(|core, _| (!restamped).then(|| self.stamp(core, key)));
            return Ok(Created::At(stamped.flatten().unwrap_or(revision)));
        }
        let outcome = outcome.await.map_err(|_| Status::unavailable("the node is stopping"))?;
        match outcome {
            Outcome::Granted { fencing_token, .. } => Ok(Created::At(fencing_token)),
            Outcome::Busy | Outcome::TimedOut | Outcome::Already { .. } => Ok(Created::Not),
            outcome => Err(refusal(outcome)),
        }
    }

    /// A new revision. Later fencing tokens of the lock are greater.
    pub(super) fn take_revision(&self, core: &mut Core, name: &Name) -> u64 {
        let last = core.revision.max(self.floor());
        let revision = next_revision(last, self.member_index());
        core.revision = revision;
        self.handle.raise_lock(name, revision);
        revision
    }

    /// A key that was granted its lock before any client has been sent its revision gets a revision
    /// that is a fencing token: not below the grant's, and below that of every later grant.
    fn stamp(&self, core: &mut Core, key: &[u8]) -> Option<u64> {
        let entry = core.recipes.get(key)?;
        let (token, name) = (entry.token()?, Name::clone(&entry.name));
        let next = |last| next_revision(last, self.member_index());
        let mut revision = next(token - 1);
        while core.recipes.created_at(&name, revision).is_some_and(|(other, _)| other != key) {
            revision = next(revision);
        }
        core.revision = core.revision.max(revision);
        self.handle.raise_lock(&name, revision);
        let mut entry = core.recipes.remove(key)?;
        (entry.created, entry.changed) = (revision, revision);
        core.recipes.insert(key.to_vec(), entry);
        Some(revision)
    }

    /// Waits until a key holds its lock, or another client is known to hold it or to be before it.
    /// A client that only tries gives up otherwise.
    async fn until_granted_or_held(self: &Arc<Self>, name: &Name, key: &[u8]) {
        let mut changes = self.watch(name);
        let deadline = tokio::time::Instant::now() + HINT;
        let held_elsewhere = self.holder_anywhere(name);
        tokio::pin!(held_elsewhere);
        let mut asked = false;
        loop {
            changes.borrow_and_update();
            let waits = self.call(|core, now| {
                let Some(State::Waiting(wait)) = core.recipes.get(key).map(|entry| entry.state)
                else {
                    return false;
                };
                let first = core.leases.position(wait) == Some(0);
                first && core.leases.holder(now, name).is_none() && !self.is_alone()
            });
            if !waits {
                return;
            }
            tokio::select! {
                _ = changes.changed() => {}
                holder = &mut held_elsewhere, if !asked => match holder {
                    Some(_) => return,
                    None => asked = true,
                },
                () = tokio::time::sleep_until(deadline) => return,
            }
        }
    }

    /// Changes a key of this node. Returns whether the condition holds, and the revision.
    async fn change(
        self: &Arc<Self>,
        key: &[u8],
        condition: &Condition,
        change: &Change,
        by: &By,
    ) -> Here<(bool, u64)> {
        let may = self.call(|core, now| core.may_change(now, key, by));
        if *change != Change::Keep && !may {
            return Some(Err(not_own(key)));
        }
        if let Change::Put(value) = change {
            return self.put(key, condition, value).await;
        }
        let (holds, revision, lease) = self.call(|core, now| {
            let shown = core.key_here(now, key)?;
            let holds = condition.holds(&shown.kv);
            if holds && *change == Change::Delete {
                core.remove_key(now, key);
            }
            Some((holds, core.revision, shown.kv.lease))
        })?;
        self.handle.send_over();
        let listed = self.until_listed(SessionId(lease)).await;
        Some(listed.map(|()| (holds, revision)))
    }

    pub(super) async fn delete_here(
        self: &Arc<Self>,
        key: &[u8],
        by: &By,
    ) -> Here<DeleteRangeResponse> {
        let deleted = self.call(|core, now| {
            let shown = core.key_here(now, key).filter(|_| !key.ends_with(AHEAD))?;
            if !core.may_change(now, key, by) {
                return Some(Err(not_own(key)));
            }
            core.remove_key(now, key);
            Some(Ok((core.revision, SessionId(shown.kv.lease))))
        });
        let (revision, lease) = match deleted? {
            Ok(deleted) => deleted,
            Err(error) => return Some(Err(error)),
        };
        self.handle.send_over();
        let header = self.header(revision);
        let response = DeleteRangeResponse { header, deleted: 1, prev_kvs: Vec::new() };
        // From then on no member would let it wait again.
        Some(self.until_listed(lease).await.map(|()| response))
    }
}

impl Core {
    /// Releases the lock of a key, or cancels its wait.
    fn remove_key(&mut self, now: Moment, key: &[u8]) {
        let core = self;
        let held = match core.recipes.get(key) {
            Some(Entry { state: State::Waiting(wait), .. }) => {
                let wait = *wait;
                core.recipes.remove(key);
                return core.leases.cancel(now, wait);
            }
            Some(Entry { state: State::Held(token), name, .. }) => {
                Some((Name::clone(name), *token))
            }
            // Of a lock that is held by other means, only a lease can be released this way.
            None => crate::etcd::parse_key(key).and_then(|(name, session)| {
                let holder = core.leases.holder(now, name)?;
                let own = holder.session == session && core.leases.is_lease(session);
                own.then(|| (Name::from(name), holder.fencing_token))
            }),
        };
        if let Some((name, token)) = held {
            core.leases.release(now, &name, token);
        }
    }

    /// Whether a session's client has the identity that a call needs.
    fn is_own(&self, session: SessionId, by: &By) -> bool {
        let owner = self.leases.client_of(session).map(|client| &client.identity);
        by.identity.is_none() || by.identity.as_ref() == owner
    }

    /// Whether a call may change a key: only the client of its lease may, and admins. The locks of
    /// a session of Mutua's own service are changed by that session only.
    fn may_change(&self, now: Moment, key: &[u8], by: &By) -> bool {
        let session = match self.recipes.get(key) {
            Some(entry) => Some(entry.lease),
            None => crate::etcd::parse_key(key)
                .and_then(|(name, _)| self.leases.holder(now, name))
                .map(|holder| holder.session),
        };
        session.is_none_or(|session| self.leases.is_lease(session) && self.is_own(session, by))
    }
}

fn not_own(key: &[u8]) -> Status {
    let key = key.escape_ascii();
    Status::permission_denied(format!("the key `{key}` is another client's"))
}

/// The result of creating a key.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Created {
    /// It was created at this revision.
    At(u64),
    /// It exists, or its lock is held.
    Not,
}
