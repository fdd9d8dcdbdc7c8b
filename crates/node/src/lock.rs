//! Locks and guards.

use std::{
    fmt,
    future::{self, Future},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use mutua_algorithms::Fence;
use mutua_brain::{Answer, Brain, LockId, Moment, Owner, Ticket};

use crate::{AcquireError, shared::Shared};

/// A lock of the cluster. Cheap to clone; all handles of one name are the same lock.
#[derive(Clone, Debug)]
pub struct Lock {
    handle: Arc<Handle>,
    owner: Owner,
}

/// Keeps the name open in the brain.
struct Handle {
    shared: Arc<Shared>,
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
        self.shared.call(|core, _| core.brain.close(self.id));
    }
}

impl Lock {
    pub(crate) fn open(shared: &Arc<Shared>, name: &[u8]) -> Self {
        let id = shared.call(|core, _| core.brain.open(name)).unwrap_or_else(|| {
            panic!("a name has at most {} bytes, this one {}", crate::MAX_NAME, name.len())
        });
        let handle = Handle { shared: Arc::clone(shared), id, name: name.into() };
        Self { handle: Arc::new(handle), owner: None }
    }

    /// Its name.
    pub fn name(&self) -> &[u8] {
        &self.handle.name
    }

    /// The same lock for somebody who has a name, which is shown to whoever asks who is inside.
    #[must_use]
    pub fn owned_by(&self, owner: impl Into<Arc<str>>) -> Self {
        Self { handle: Arc::clone(&self.handle), owner: Some(owner.into()) }
    }

    /// Waits for its turn. Dropping the future takes the caller out of the queue.
    ///
    /// While not all members are there nobody gets in, and this waits until they are.
    pub async fn acquire(&self) -> Result<Guard, AcquireError> {
        if self.handle.shared.hearing.is_due() {
            self.hear_others().await;
        }
        self.enter(Brain::acquire).await
    }

    /// In if nobody is inside or waits, else [`AcquireError::Busy`]. If the members must be asked
    /// it takes one exchange of messages with them, or two; if one of them cannot be reached it is
    /// an error of its own.
    pub async fn try_acquire(&self) -> Result<Guard, AcquireError> {
        if self.handle.shared.hearing.is_due() {
            self.hear_others().await;
        }
        self.enter(Brain::try_acquire).await
    }

    /// Waits for its turn, but not longer than this: then [`AcquireError::TimedOut`], and the
    /// caller is in no queue any more.
    pub async fn acquire_within(&self, wait: Duration) -> Result<Guard, AcquireError> {
        // Not part of the time: a lock that is free is had in no time at all.
        if self.handle.shared.hearing.is_due() {
            self.hear_others().await;
        }
        match tokio::time::timeout(wait, self.enter(Brain::acquire)).await {
            Ok(result) => result,
            Err(_) => Err(AcquireError::TimedOut),
        }
    }

    /// After so many entries that nobody waited for, the runtime reads the links before the next
    /// one: who has asked meanwhile goes first. Who stands behind somebody of this node has to wait
    /// anyway, and does not lose its place.
    async fn hear_others(&self) {
        let shared = &self.handle.shared;
        if shared.call(|core, _| core.brain.is_free(self.handle.id)) {
            shared.hearing.listen();
            // Tokio wakes who yields when it has polled the sockets.
            tokio::task::yield_now().await;
        }
    }

    async fn enter(
        &self,
        how: impl FnOnce(&mut Brain, Moment, LockId, Owner) -> Answer,
    ) -> Result<Guard, AcquireError> {
        let hearing = &self.handle.shared.hearing;
        match self.ask(how)? {
            Answer::Granted { ticket, fence } => {
                hearing.entered();
                Ok(self.guard(ticket, fence))
            }
            Answer::Refused(why) => Err(self.handle.shared.explain(why)),
            Answer::Waiting { ticket } => {
                let fence = self.wait(ticket).await?;
                hearing.waited();
                Ok(self.guard(ticket, fence))
            }
        }
    }

    /// Asks the brain; who has to wait is waited for before anybody else can call it.
    fn ask(
        &self,
        how: impl FnOnce(&mut Brain, Moment, LockId, Owner) -> Answer,
    ) -> Result<Answer, AcquireError> {
        let owner = self.owner.clone();
        self.handle.shared.call(|core, now| {
            if let Some(stopped) = core.stopped() {
                return Err(stopped);
            }
            let answer = how(&mut core.brain, now, self.handle.id, owner);
            if let Answer::Waiting { ticket } = answer {
                core.park(ticket);
            }
            Ok(answer)
        })
    }

    pub(crate) fn claim(&self, fence: Fence) -> Option<Guard> {
        let owner = self.owner.clone();
        let claimed = self.handle.shared.call(|core, now| {
            let ticket = core.brain.claim(now, self.handle.id, fence, owner)?;
            core.stopped().is_none().then_some(ticket)
        });
        claimed.map(|ticket| self.guard(ticket, fence))
    }

    fn wait(&self, ticket: Ticket) -> Waiting<'_> {
        Waiting { handle: &self.handle, ticket, over: false }
    }

    fn guard(&self, ticket: Ticket, fence: Fence) -> Guard {
        Guard { handle: Arc::clone(&self.handle), ticket, fence, released: false }
    }
}

/// Somebody who waits; dropped early, it gives up.
struct Waiting<'a> {
    handle: &'a Handle,
    ticket: Ticket,
    over: bool,
}

impl Future for Waiting<'_> {
    type Output = Result<Fence, AcquireError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let ticket = self.ticket;
        let decided = self.handle.shared.call(|core, _| core.poll(ticket, context.waker()));
        self.over = decided.is_ready();
        decided
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        self.handle.shared.call(|core, now| {
            core.unpark(self.ticket);
            core.brain.cancel(now, self.handle.id, self.ticket);
        });
    }
}

/// Being inside. Dropped, it leaves.
#[derive(Debug)]
#[must_use = "dropped at once, the lock is left at once"]
pub struct Guard {
    handle: Arc<Handle>,
    ticket: Ticket,
    fence: Fence,
    released: bool,
}

impl Guard {
    /// A number greater than that of every earlier guard of this name. Give it to the resource with
    /// every write, and let the resource refuse a lower one than it has seen.
    pub fn fence(&self) -> Fence {
        self.fence
    }

    /// The lock's name.
    pub fn name(&self) -> &[u8] {
        &self.handle.name
    }

    /// Whether it is still good. With a fixed list of members it is as long as the node lives.
    pub fn is_good(&self) -> bool {
        self.handle.shared.call(|core, _| {
            core.stopped().is_none() && core.brain.holds(self.handle.id, self.ticket).is_some()
        })
    }

    /// Ends when the guard is lost: whoever is inside must stop then, since somebody else may get
    /// in.
    pub async fn lost(&self) {
        future::poll_fn(|context| {
            self.handle.shared.call(|core, _| {
                let holds = core.brain.holds(self.handle.id, self.ticket).is_some();
                if core.stopped().is_some() || !holds {
                    return Poll::Ready(());
                }
                core.watch(self.ticket, context.waker());
                Poll::Pending
            })
        })
        .await;
    }

    /// Leaves. Says whether the guard was good until now.
    pub fn release(mut self) -> bool {
        self.leave()
    }

    fn leave(&mut self) -> bool {
        self.released = true;
        self.handle.shared.release(self.handle.id, self.ticket)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if !self.released {
            self.leave();
        }
    }
}
