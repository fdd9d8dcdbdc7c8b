//! A named lock and its guard.

use std::{
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use tokio::sync::oneshot;

use super::{
    AcquireError, Lost, Session, Watch,
    shared::Grant,
    state::{Name, Wait},
};

/// A named lock of a node. Cheap to clone; all handles of one name are the same lock.
///
/// Two tasks of one client exclude each other as two clients do. They have one place in the node's
/// queue: among themselves they are granted in order of arrival.
#[derive(Clone)]
pub struct Lock {
    session: Arc<Session>,
    name: Name,
}

impl fmt::Debug for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = String::from_utf8_lossy(&self.name);
        f.debug_struct("Lock").field("name", &name).finish_non_exhaustive()
    }
}

impl Lock {
    pub(super) fn new(session: Arc<Session>, name: Name) -> Self {
        Self { session, name }
    }

    /// The lock's name.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// Watches the lock. Nothing is sent before [`Watch::next_state`].
    pub fn watch(&self) -> Watch {
        Watch::new(self.clone())
    }

    /// Waits until the lock is granted. Dropping the future leaves the queue.
    ///
    /// # Errors
    ///
    /// See [`AcquireError`].
    pub async fn acquire(&self) -> Result<Guard, AcquireError> {
        self.request(Wait::Forever).await
    }

    /// Acquires the lock if it is free.
    ///
    /// # Errors
    ///
    /// [`AcquireError::Busy`] if it is held or has waiters. See [`AcquireError`] for others.
    pub async fn try_acquire(&self) -> Result<Guard, AcquireError> {
        self.request(Wait::Try).await
    }

    /// Waits at most this long.
    ///
    /// # Errors
    ///
    /// [`AcquireError::TimedOut`] if it was not granted in time. See [`AcquireError`] for others.
    pub async fn acquire_within(&self, limit: Duration) -> Result<Guard, AcquireError> {
        self.request(Wait::within(limit)).await
    }

    pub(super) fn session(&self) -> &Session {
        &self.session
    }

    pub(super) fn request(&self, wait: Wait) -> Acquiring {
        self.request_as(wait, None)
    }

    /// Requests the lock, with the value of a candidate.
    pub(super) fn request_as(&self, wait: Wait, value: Option<Vec<u8>>) -> Acquiring {
        let (id, outcome) = self.session.shared.acquire(&self.name, wait, value);
        Acquiring { lock: self.clone(), id, outcome, done: false }
    }
}

/// A request that waits for its outcome.
pub(super) struct Acquiring {
    lock: Lock,
    id: u64,
    outcome: oneshot::Receiver<Result<Arc<Grant>, AcquireError>>,
    done: bool,
}

impl Future for Acquiring {
    type Output = Result<Guard, AcquireError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let outcome = std::task::ready!(Pin::new(&mut self.outcome).poll(context));
        self.done = true;
        // The sender is dropped only with the session.
        let grant = outcome.unwrap_or(Err(AcquireError::Closed))?;
        Poll::Ready(Ok(Guard { lock: self.lock.clone(), grant, released: false }))
    }
}

impl Drop for Acquiring {
    fn drop(&mut self) {
        if !self.done {
            self.lock.session.shared.abandon(self.id);
        }
    }
}

/// A lock that is held until this value is dropped, or until it is lost.
///
/// The lock is lost when its lease expires because no node could be reached in time, when it is
/// broken by `mutua break`, or when the client's runtime ends. Race the work against
/// [`lost`](Self::lost), and send the [fencing token](Self::fencing_token) with every write.
#[must_use = "the lock is released when the guard is dropped"]
pub struct Guard {
    lock: Lock,
    grant: Arc<Grant>,
    released: bool,
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = String::from_utf8_lossy(&self.lock.name);
        let token = self.fencing_token();
        f.debug_struct("Guard").field("name", &name).field("fencing_token", &token).finish()
    }
}

impl Guard {
    /// A number that is greater than that of every earlier guard of the same name. The protected
    /// resource should refuse a smaller one than it has seen.
    pub fn fencing_token(&self) -> u64 {
        self.grant.fencing_token
    }

    /// The lock.
    pub fn lock(&self) -> &Lock {
        &self.lock
    }

    /// Whether the lock is held now, as far as this client can know: its lease is valid for
    /// another tenth of its length. Reads the clock; nothing is sent.
    pub fn is_good(&self) -> bool {
        self.lock.session.shared.is_good(&self.grant)
    }

    /// Completes when the lock is lost, a tenth of the lease before another client can hold it. In
    /// the first milliseconds, before the hold is recorded, that is a tenth of its node's view
    /// lease, at most 0.1 s: see [`Options::record_first`](crate::Options::record_first).
    pub async fn lost(&self) -> Lost {
        self.grant.lost().await
    }

    /// Gives the leader that holds the lock another value.
    pub(super) async fn proclaim(&self, value: Vec<u8>) -> Result<(), Lost> {
        let proclaimed = self.lock.session.shared.proclaim(self.grant.id, value);
        let held = proclaimed.await.unwrap_or(false);
        let reason = || "the node did not confirm that it is held".to_owned();
        if held { Ok(()) } else { Err(Lost { reason: reason() }) }
    }

    /// Releases the lock and waits until the node has done it.
    ///
    /// # Errors
    ///
    /// [`Lost`] if the node cannot confirm that the lock was held until then.
    pub async fn release(mut self) -> Result<(), Lost> {
        self.released = true;
        let released = self.lock.session.shared.release_with_reply(self.grant.id);
        let held = released.await.unwrap_or(false);
        let reason = || "the node did not confirm that it was held until the release".to_owned();
        if held { Ok(()) } else { Err(Lost { reason: reason() }) }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if !self.released {
            self.lock.session.shared.release(self.grant.id);
        }
    }
}
