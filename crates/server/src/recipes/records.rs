//! Keys as other members record them, so that a node which takes a lease over knows them: a key
//! that holds a lock is in the record of the hold, and those that wait are in that of the lease's
//! own lock.
//!
//! A change is answered when it is recorded: a waiter that was answered waits on when its node is
//! lost, one that has given up does not, and a value that was proclaimed stays the leader's.

use std::{sync::Arc, time::Duration};

use tokio::sync::oneshot;
use tonic::Status;

use super::{Entry, State, queue_of, shape::Condition};
use crate::{
    Core, Moment, Service, Waiter, lease_locks,
    leases::{Name, RequestId, SessionId, WaitLimit},
    node_requests::NodeRequest,
    proto::v1::RecordedKey,
    recorded::{granted_ms, recorded},
};

/// How long the record of a change may take.
const RECORDED_WITHIN: Duration = Duration::from_secs(5);

/// The record of a change that is on its way.
pub(super) type Recording = oneshot::Receiver<()>;

/// What comes of putting a value.
enum Put {
    /// The condition does not hold.
    Refused,
    /// The key has it, at this revision.
    Done(u64),
    /// It has it at this revision when it is recorded.
    Recording(u64, Recording),
    /// Another value is being recorded.
    Wait(Recording),
}

/// Waits until a change is recorded. Returns whether it is: if not, its hold has ended before.
async fn until_recorded(recording: Recording) -> Result<bool, Status> {
    let late = |_| Status::unavailable("the change cannot be recorded at other members now");
    Ok(tokio::time::timeout(RECORDED_WITHIN, recording).await.map_err(late)?.is_ok())
}

impl Service {
    /// Waits until other members have recorded which keys of a lease wait.
    pub(super) async fn until_listed(self: &Arc<Self>, lease: SessionId) -> Result<(), Status> {
        match self.call(|core, _| core.list_waiters(lease)) {
            Some(recording) => until_recorded(recording).await.map(drop),
            None => Ok(()),
        }
    }

    /// Gives a key another value if the condition holds. Returns whether it does, and the revision;
    /// `None` if this node does not serve the key.
    pub(super) async fn put(
        self: &Arc<Self>,
        key: &[u8],
        condition: &Condition,
        value: &[u8],
    ) -> Option<Result<(bool, u64), Status>> {
        loop {
            let put = self.call(|core, now| self.start_put(core, now, key, condition, value))?;
            let (revision, recording) = match put {
                Put::Refused => return Some(Ok((false, self.lock().revision))),
                Put::Done(revision) => return Some(Ok((true, revision))),
                Put::Recording(revision, recording) => (Some(revision), recording),
                Put::Wait(recording) => (None, recording),
            };
            match (until_recorded(recording).await, revision) {
                (Ok(true), Some(revision)) => return Some(Ok((true, revision))),
                (Err(error), _) => return Some(Err(error)),
                (Ok(_), _) => {}
            }
        }
    }

    fn start_put(
        self: &Arc<Self>,
        core: &mut Core,
        now: Moment,
        key: &[u8],
        condition: &Condition,
        value: &[u8],
    ) -> Option<Put> {
        let shown = core.key_here(now, key)?;
        if !condition.holds(&shown.kv) {
            return Some(Put::Refused);
        }
        // Only keys of the recipes have values that can change.
        let entry = core.recipes.get(key)?;
        let (name, lease, state) = (Name::clone(&entry.name), entry.lease, entry.state);
        let request = core.leases.request_of(&name).filter(|_| !self.is_alone());
        if let Some(request) = request.filter(|_| entry.proposed.is_some()) {
            return Some(Put::Wait(core.await_report(request)));
        }
        let revision = self.take_revision(core, &name);
        let recording = match (state, request) {
            (State::Held(_), Some(request)) => {
                core.recipes.propose(key, value.to_vec(), revision);
                core.record_hold(now, request, lease);
                return Some(Put::Recording(revision, core.await_report(request)));
            }
            (State::Waiting(_), _) => {
                core.recipes.put(key, value.to_vec(), revision);
                core.list_waiters(lease)
            }
            (State::Held(_), None) => {
                core.recipes.put(key, value.to_vec(), revision);
                core.leases.record_hold(&name);
                None
            }
        };
        core.notify_watchers(&name);
        Some(recording.map_or(Put::Done(revision), |one| Put::Recording(revision, one)))
    }

    /// This node serves the lease of a key that waited at a lost node: it waits here.
    pub(crate) fn restore_waiter(
        &self,
        core: &mut Core,
        now: Moment,
        lease: SessionId,
        key: RecordedKey,
    ) {
        let RecordedKey { key, value, create_revision, mod_revision } = key;
        let Some(name) = queue_of(&key, lease).map(Name::from) else { return };
        if core.recipes.get(&key).is_some() {
            return;
        }
        let restamped = create_revision == 0;
        let created = match create_revision {
            0 => self.take_revision(core, &name),
            revision => {
                core.revision = core.revision.max(revision);
                self.handle.raise_lock(&name, revision);
                revision
            }
        };
        let wait = core.leases.acquire(now, lease, &name, WaitLimit::Never);
        // No call waits for the outcome.
        let (caller, _) = oneshot::channel();
        core.waiters
            .insert(wait, Waiter::Key { key: key.clone(), name: Name::clone(&name), caller });
        let entry = Entry {
            name,
            lease,
            value,
            created,
            changed: mod_revision.max(created),
            version: 1,
            state: State::Waiting(wait),
            restamped,
            proposed: None,
        };
        core.recipes.insert(key, entry);
    }
}

impl Core {
    /// Records which keys of a lease wait, if others do than was recorded last. Returns the record
    /// that is on its way, if one is.
    pub(crate) fn list_waiters(&mut self, lease: SessionId) -> Option<Recording> {
        let request = self.leases.request_of(&lease_locks::name_of(lease))?;
        let waiting = self.recipes.waiting_of(lease);
        if self.recipes.listed(lease) != waiting {
            let opening = self.leases.opening_of(lease)?;
            // The lock of a lease is not shown, so that the time of its grant is of no use.
            let value = recorded(&opening, None, waiting.clone(), 0).value;
            self.change_record(request, value);
            self.recipes.list(lease, waiting);
        }
        self.await_record(request)
    }

    /// Records the key of a hold with its present value, or the one that is proposed.
    pub(super) fn record_hold(&mut self, now: Moment, request: RequestId, session: SessionId) {
        let Some(name) = self.leases.name_of_request(request) else { return };
        let key = self.recipes.recorded(&name, session);
        let granted = self.leases.held_since(&name).map_or(0, |since| granted_ms(now, since));
        if let Some(opening) = self.leases.opening_of(session) {
            self.change_record(request, recorded(&opening, key, Vec::new(), granted).value);
        }
    }

    fn change_record(&self, request: RequestId, value: Vec<u8>) {
        if let Some(NodeRequest::Granted(guard)) = self.requests.get(&request) {
            // A hold that is lost is reported as such.
            let _ = guard.change_record(value);
        }
    }

    /// The record of a change that is on its way.
    fn await_record(&mut self, request: RequestId) -> Option<Recording> {
        let Some(NodeRequest::Granted(guard)) = self.requests.get(&request) else { return None };
        guard.is_changing().then(|| self.await_report(request))
    }

    /// The report of a change that was made. The change itself may be complete already: other
    /// members answer while this one is still at it.
    fn await_report(&mut self, request: RequestId) -> Recording {
        let (done, recording) = oneshot::channel();
        self.changing.entry(request).or_default().push(done);
        recording
    }

    /// A change of a hold's record may be complete.
    pub(crate) fn record_changed(&mut self, request: RequestId) {
        let Some(NodeRequest::Granted(guard)) = self.requests.get(&request) else { return };
        if guard.is_changing() {
            // A later change is on its way.
            return;
        }
        if let Some(name) = self.leases.name_of_request(request)
            && self.recipes.take_proposed(&name)
        {
            self.notify_watchers(&name);
        }
        for done in self.changing.remove(&request).unwrap_or_default() {
            // Its call may have ended.
            let _ = done.send(());
        }
    }

    /// A key that was restored as a waiter holds its lock, as the record of the lock says.
    pub(crate) fn stop_waiting(&mut self, now: Moment, key: &[u8]) {
        if let Some(State::Waiting(wait)) = self.recipes.get(key).map(|entry| entry.state) {
            self.recipes.remove(key);
            self.waiters.remove(&wait);
            self.leases.cancel(now, wait);
        }
    }
}
