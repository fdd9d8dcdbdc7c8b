//! Locks and guards.

use std::{
    fmt,
    future::{self, Future},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use mutua_algorithms::{FencingToken, Time};
use mutua_protocol::{Answer, LockId, Moment, Owner, Protocol, Ticket};

use crate::{AcquireError, HoldId, ServedClient, driver::Driver};

/// A lock of the cluster. Cheap to clone; all handles of one name are the same lock.
#[derive(Clone, Debug)]
pub struct Lock {
    handle: Arc<Handle>,
    owner: Owner,
}

/// Keeps the name open in the protocol.
struct Handle {
    driver: Arc<Driver>,
    id: LockId,
    name: Box<[u8]>,
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lock({})", self.name.escape_ascii())
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.driver.call(|core, _| core.protocol.close(self.id));
    }
}

impl Lock {
    pub(crate) fn open(driver: &Arc<Driver>, name: &[u8]) -> Self {
        let id = driver.call(|core, _| core.protocol.open(name)).unwrap_or_else(|| {
            panic!("a name has at most {} bytes, this one {}", crate::MAX_NAME, name.len())
        });
        let handle = Handle { driver: Arc::clone(driver), id, name: name.into() };
        Self { handle: Arc::new(handle), owner: None }
    }

    /// Its name.
    pub fn name(&self) -> &[u8] {
        &self.handle.name
    }

    /// The same lock for a client that describes itself; the description is shown while it holds or
    /// waits.
    #[must_use]
    pub fn owned_by(&self, owner: impl Into<Arc<str>>) -> Self {
        Self { handle: Arc::clone(&self.handle), owner: Some(owner.into()) }
    }

    /// Waits until the lock is granted. Dropping the future takes the caller out of the queue.
    ///
    /// While the node is in no view no lock is granted, and this waits.
    pub async fn acquire(&self) -> Result<Guard, AcquireError> {
        if self.handle.driver.yielding.is_due() {
            self.yield_to_links().await;
        }
        self.acquire_by(Protocol::acquire).await
    }

    /// Acquires the lock if no client holds it or waits for it, else returns
    /// [`AcquireError::Busy`]. If other members must be queried it takes one or two exchanges of
    /// messages; if one of them cannot be reached that is an error of its own.
    pub async fn try_acquire(&self) -> Result<Guard, AcquireError> {
        if self.handle.driver.yielding.is_due() {
            self.yield_to_links().await;
        }
        self.acquire_by(Protocol::try_acquire).await
    }

    /// Waits until the lock is granted, but not longer than this: then it returns
    /// [`AcquireError::TimedOut`], and the caller is in no queue.
    pub async fn acquire_within(&self, wait: Duration) -> Result<Guard, AcquireError> {
        // Not part of the time: a lock that is free is acquired even within a time of zero.
        if self.handle.driver.yielding.is_due() {
            self.yield_to_links().await;
        }
        match tokio::time::timeout(wait, self.acquire_by(Protocol::acquire)).await {
            Ok(result) => result,
            Err(_) => Err(AcquireError::TimedOut),
        }
    }

    /// After so many grants without waiting, the runtime reads the links before the next one, so
    /// that requests that have arrived go first. A client behind another one of this node waits
    /// anyway, and keeps its position.
    async fn yield_to_links(&self) {
        let driver = &self.handle.driver;
        if driver.call(|core, _| core.protocol.is_free(self.handle.id)) {
            driver.yielding.yielded();
            // Tokio polls the sockets before it wakes a task that yields.
            tokio::task::yield_now().await;
        }
    }

    async fn acquire_by(
        &self,
        how: impl FnOnce(&mut Protocol, Moment, LockId, Owner) -> Answer,
    ) -> Result<Guard, AcquireError> {
        let yielding = &self.handle.driver.yielding;
        match self.request(how)? {
            Answer::Granted { ticket, fence } => {
                yielding.granted();
                Ok(self.guard(ticket, fence))
            }
            Answer::Refused(why) => Err(self.handle.driver.explain(why)),
            Answer::Waiting { ticket } => {
                let fence = self.wait(ticket).await?;
                yielding.waited();
                Ok(self.guard(ticket, fence))
            }
        }
    }

    /// Requests the lock; a waiter is registered before the protocol is called again.
    fn request(
        &self,
        how: impl FnOnce(&mut Protocol, Moment, LockId, Owner) -> Answer,
    ) -> Result<Answer, AcquireError> {
        let owner = self.owner.clone();
        self.handle.driver.call(|core, now| {
            if let Some(stopped) = core.stopped() {
                return Err(stopped);
            }
            let answer = how(&mut core.protocol, now, self.handle.id, owner);
            if let Answer::Waiting { ticket } = answer {
                core.park(ticket);
            }
            Ok(answer)
        })
    }

    pub(crate) fn reclaim(&self, fence: FencingToken) -> Option<Guard> {
        let owner = self.owner.clone();
        let reclaimed = self.handle.driver.call(|core, now| {
            let ticket = core.protocol.reclaim(now, self.handle.id, fence, owner)?;
            core.stopped().is_none().then_some(ticket)
        });
        reclaimed.map(|ticket| self.guard(ticket, fence))
    }

    /// Makes every later fencing token of the lock at this node greater than this time.
    pub(crate) fn raise(&self, time: Time) {
        self.handle.driver.call(|core, _| core.protocol.raise_lock(self.handle.id, time));
    }

    /// The guard of a hold that the protocol has taken over for a client.
    pub(crate) fn guard_of(&self, hold: HoldId, fence: FencingToken) -> Guard {
        self.guard(hold.0, fence)
    }

    fn wait(&self, ticket: Ticket) -> Waiting<'_> {
        Waiting { handle: &self.handle, ticket, over: false }
    }

    fn guard(&self, ticket: Ticket, fence: FencingToken) -> Guard {
        Guard { handle: Arc::clone(&self.handle), ticket, fence, released: false }
    }
}

/// A waiter; dropped early, it cancels.
struct Waiting<'a> {
    handle: &'a Handle,
    ticket: Ticket,
    over: bool,
}

impl Future for Waiting<'_> {
    type Output = Result<FencingToken, AcquireError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let ticket = self.ticket;
        let decided = self.handle.driver.call(|core, _| core.poll(ticket, context.waker()));
        self.over = decided.is_ready();
        decided
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        self.handle.driver.call(|core, now| {
            core.unpark(self.ticket);
            core.protocol.cancel(now, self.handle.id, self.ticket);
        });
    }
}

/// The hold of a lock. Dropping it releases the lock.
#[derive(Debug)]
#[must_use = "dropped at once, the lock is released at once"]
pub struct Guard {
    handle: Arc<Handle>,
    ticket: Ticket,
    fence: FencingToken,
    released: bool,
}

impl Guard {
    /// A number greater than that of every earlier guard of this name. Send it to the guarded
    /// resource with every write, and let the resource refuse a lower one than it has seen.
    pub fn fencing_token(&self) -> FencingToken {
        self.fence
    }

    /// The lock's name.
    pub fn name(&self) -> &[u8] {
        &self.handle.name
    }

    /// Whether the lock is still held: not when the node has stopped, or has reached no majority of
    /// the voters for so long that the other members may go on without it.
    pub fn is_good(&self) -> bool {
        self.handle.driver.call(|core, now| {
            let until = core.protocol.holds_until(self.handle.id, self.ticket);
            let lost = core.protocol.is_lost(self.handle.id, self.ticket);
            core.stopped().is_none() && !lost && until.is_some_and(|until| now < until)
        })
    }

    /// Until when no other member grants this lock, whatever happens to this node: as long as it
    /// may grant locks unless its view lease is renewed. The first moment if the lock is lost.
    pub fn excludes_until(&self) -> Moment {
        self.handle.driver.call(|core, _| {
            let lost = core.protocol.is_lost(self.handle.id, self.ticket);
            if lost || core.stopped().is_some() { Moment::ZERO } else { core.protocol.good_until() }
        })
    }

    /// Names this hold in the node's reports to its server.
    pub fn hold_id(&self) -> HoldId {
        HoldId(self.ticket)
    }

    /// Makes this the hold of a client outside the process. The client must not be informed before
    /// [`Served::Recorded`](crate::Served::Recorded). Returns whether the lock is still held.
    pub fn record(&self, client: ServedClient) -> bool {
        self.handle
            .driver
            .call(|core, now| core.protocol.record(now, self.handle.id, self.ticket, client))
    }

    /// Changes the value that is recorded with the hold of a client outside the process.
    /// [`Served::Recorded`](crate::Served::Recorded) follows when other members have it and
    /// [`is_changing`](Self::is_changing) is false. Returns whether it is the hold of such a
    /// client.
    pub fn change_record(&self, value: Vec<u8>) -> bool {
        let (lock, ticket) = (self.handle.id, self.ticket);
        self.handle.driver.call(|core, now| core.protocol.change_record(now, lock, ticket, value))
    }

    /// Whether a change of the hold's record is on its way to other members.
    pub fn is_changing(&self) -> bool {
        let (lock, ticket) = (self.handle.id, self.ticket);
        self.handle.driver.call(|core, _| core.protocol.is_changing(lock, ticket))
    }

    /// Waits until the lock is lost: the caller must stop using the resource then, since another
    /// client may get the lock.
    pub async fn lost(&self) {
        future::poll_fn(|context| {
            self.handle.driver.call(|core, _| {
                let lost = core.protocol.is_lost(self.handle.id, self.ticket);
                if core.stopped().is_some() || lost {
                    return Poll::Ready(());
                }
                core.watch(self.ticket, context.waker());
                Poll::Pending
            })
        })
        .await;
    }

    /// Releases the lock. Returns whether it was held until now.
    pub fn release(mut self) -> bool {
        self.end()
    }

    fn end(&mut self) -> bool {
        self.released = true;
        self.handle.driver.release(self.handle.id, self.ticket)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if !self.released {
            self.end();
        }
    }
}
