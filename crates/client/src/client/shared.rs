//! A session's state, shared by its callers and its driver.
//!
//! A caller changes the state and sends what follows in its own thread; only replies and timers
//! need the driver's task.

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio::sync::{Notify, mpsc::UnboundedSender, oneshot};

use super::{
    AcquireError, Lost,
    state::{Effect, Name, State, Wait},
};
use crate::{Moment, endpoint::Mark, frames::Frames, now, proto::v1};

pub(crate) struct Shared {
    inner: Mutex<Inner>,
    /// Wakes the driver: its next deadline is earlier, or it is to connect or to end.
    pub(super) wake: Notify,
    /// The driver has ended.
    ended: Notify,
    /// Until when held locks count as held, in nanoseconds.
    good_until: AtomicU64,
}

struct Inner {
    state: State,
    callers: HashMap<u64, Caller>,
    outgoing: Option<Outgoing>,
    /// When the driver wakes up by itself.
    armed: Moment,
    /// The socket of the present node, if it is on this machine, and the mark of a holder there.
    socket: Option<PathBuf>,
    mark: Option<Mark>,
}

/// The recipient of an outcome.
enum Caller {
    Acquires(oneshot::Sender<Result<Arc<Grant>, AcquireError>>),
    Holds(Arc<Grant>),
    Releases(oneshot::Sender<bool>),
    Proclaims(oneshot::Sender<bool>),
}

/// The sending half of a stream.
pub(super) enum Outgoing {
    Frames(Arc<Frames>),
    Grpc(UnboundedSender<v1::SessionRequest>),
}

impl Outgoing {
    /// Sends a request, or queues it until [`flush`](Self::flush).
    fn send(&self, request: v1::session_request::Request) {
        let request = v1::SessionRequest { request: Some(request) };
        match self {
            Self::Frames(frames) => frames.queue(&request),
            // The reader of the stream notices that it has ended.
            Self::Grpc(requests) => drop(requests.send(request)),
        }
    }

    fn flush(&self) {
        match self {
            Self::Frames(frames) => frames.flush(),
            Self::Grpc(_) => {}
        }
    }
}

/// A grant that was reported.
#[derive(Debug)]
pub(crate) struct Grant {
    pub(crate) id: u64,
    pub(crate) fencing_token: u64,
    /// Until when it is promised, in nanoseconds; never its end, once it is recorded.
    until: AtomicU64,
    lost: OnceLock<Lost>,
    notify: Notify,
}

impl Grant {
    fn lose(&self, reason: String) {
        let _ = self.lost.set(Lost { reason });
        self.notify.notify_waiters();
    }

    /// Waits until the grant is lost.
    pub(crate) async fn lost(&self) -> Lost {
        loop {
            let notified = self.notify.notified();
            if let Some(lost) = self.lost.get() {
                return lost.clone();
            }
            notified.await;
        }
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.lost.get().is_some()
    }

    fn is_promised(&self, now: Moment) -> bool {
        now.nanos() < self.until.load(Ordering::Acquire)
    }
}

impl Shared {
    pub(super) fn new(state: State) -> Self {
        let inner = Inner {
            state,
            callers: HashMap::new(),
            outgoing: None,
            armed: Moment::ZERO,
            socket: None,
            mark: None,
        };
        Self {
            inner: Mutex::new(inner),
            wake: Notify::new(),
            ended: Notify::new(),
            good_until: AtomicU64::new(0),
        }
    }

    /// Calls a function on the state, and performs all effects that follow.
    pub(super) fn call<T>(&self, function: impl FnOnce(&mut State, Moment) -> T) -> T {
        let mut inner = self.lock();
        // Read under the mutex, so that time never goes back for the state.
        let now = now();
        let result = function(&mut inner.state, now);
        self.settle(&mut inner);
        result
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn settle(&self, inner: &mut Inner) {
        // Before a grant is reported, and before its caller asks.
        self.good_until.store(inner.state.good_until().nanos(), Ordering::Release);
        let mut effects = std::mem::take(inner.state.effects());
        for effect in effects.drain(..) {
            inner.perform(effect);
        }
        if let Some(outgoing) = &inner.outgoing {
            outgoing.flush();
        }
        // Its memory is used again.
        *inner.state.effects() = effects;
        let wake_at = inner.state.wake_at();
        if wake_at < inner.armed {
            inner.armed = wake_at;
            self.wake.notify_one();
        }
    }

    /// Whether a reported grant counts as held now.
    pub(crate) fn is_good(&self, grant: &Grant) -> bool {
        let now = now();
        let lasts = now.nanos() < self.good_until.load(Ordering::Acquire);
        lasts && grant.is_promised(now) && !grant.is_lost()
    }
}

/// Calls of guards and locks.
impl Shared {
    /// Requests a lock; returns the number of the request and where its outcome arrives.
    pub(crate) fn acquire(
        &self,
        name: &Name,
        wait: Wait,
        value: Option<Vec<u8>>,
    ) -> (u64, oneshot::Receiver<Result<Arc<Grant>, AcquireError>>) {
        let (sender, receiver) = oneshot::channel();
        let mut inner = self.lock();
        let id = inner.state.acquire(now(), name, wait, value);
        inner.callers.insert(id, Caller::Acquires(sender));
        self.settle(&mut inner);
        (id, receiver)
    }

    /// The caller has dropped its request.
    pub(crate) fn abandon(&self, id: u64) {
        let mut inner = self.lock();
        inner.callers.remove(&id);
        inner.state.abandon(now(), id);
        self.settle(&mut inner);
    }

    /// Releases a lock, and does not wait for the node.
    pub(crate) fn release(&self, id: u64) {
        let mut inner = self.lock();
        inner.callers.remove(&id);
        inner.state.release(now(), id, false);
        self.settle(&mut inner);
    }

    /// Releases a lock; the reply is whether it was held until then.
    pub(crate) fn release_with_reply(&self, id: u64) -> oneshot::Receiver<bool> {
        let (sender, receiver) = oneshot::channel();
        let mut inner = self.lock();
        inner.callers.insert(id, Caller::Releases(sender));
        inner.state.release(now(), id, true);
        self.settle(&mut inner);
        receiver
    }

    /// Gives the leader of a request another value; the reply is whether it leads.
    pub(crate) fn proclaim(&self, request: u64, value: Vec<u8>) -> oneshot::Receiver<bool> {
        let (sender, receiver) = oneshot::channel();
        let mut inner = self.lock();
        let id = inner.state.proclaim(request, value);
        inner.callers.insert(id, Caller::Proclaims(sender));
        self.settle(&mut inner);
        receiver
    }

    /// The endpoints of the other members, as far as they are known.
    pub(super) fn members(&self) -> Vec<String> {
        self.lock().state.members()
    }

    /// Closes the session: its locks are released, and the driver ends.
    pub(crate) fn close(&self) {
        self.call(|state, _| state.close());
        self.wake.notify_one();
    }
}

/// For the driver.
impl Shared {
    /// A stream is attached, to a node with this socket.
    pub(super) fn attach(&self, outgoing: Outgoing, socket: Option<PathBuf>) {
        let mut inner = self.lock();
        inner.outgoing = Some(outgoing);
        inner.mark = None;
        inner.socket = socket;
        inner.state.attached(now());
        self.settle(&mut inner);
    }

    /// The stream has ended.
    pub(super) fn detach(&self) {
        self.lock().outgoing = None;
    }

    /// The driver ends.
    pub(super) fn end(&self) {
        self.detach();
        self.call(|state, now| state.end(now));
        self.ended.notify_one();
    }

    /// Waits until the driver has ended.
    pub(super) async fn ended(&self) {
        self.ended.notified().await;
    }

    /// When the driver has to call `tick`. It is woken if that becomes earlier.
    pub(super) fn arm(&self) -> Moment {
        let mut inner = self.lock();
        inner.armed = inner.state.wake_at();
        if !inner.state.holds() {
            // Not at each release, so that a loop of locks does not mark again and again.
            inner.mark = None;
        }
        inner.armed
    }
}

impl Inner {
    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Send(request) => {
                if let Some(outgoing) = &self.outgoing {
                    outgoing.send(request);
                }
            }
            Effect::Granted { id, fencing_token, until } => self.granted(id, fencing_token, until),
            Effect::Prolonged { id, until } => {
                if let Some(Caller::Holds(grant)) = self.callers.get(&id) {
                    grant.until.store(until.nanos(), Ordering::Release);
                }
            }
            Effect::Failed { id, error } => {
                if let Some(Caller::Acquires(caller)) = self.callers.remove(&id) {
                    // A caller that has dropped its request needs no error.
                    drop(caller.send(Err(error)));
                }
            }
            Effect::Lost { id, why } => {
                if let Some(Caller::Holds(grant)) = self.callers.get(&id) {
                    grant.lose(why);
                }
            }
            Effect::Released { id, held } => {
                if let Some(Caller::Releases(caller)) = self.callers.remove(&id) {
                    let _ = caller.send(held);
                }
            }
            Effect::Proclaimed { id, held } => {
                if let Some(Caller::Proclaims(caller)) = self.callers.remove(&id) {
                    let _ = caller.send(held);
                }
            }
        }
    }

    fn granted(&mut self, id: u64, fencing_token: u64, until: Moment) {
        if self.mark.is_none() {
            // The mark serves only if the node's data directory is lost, so an error is ignored.
            let (session, ttl) = (self.state.session(), self.state.ttl());
            let mark = |socket| Mark::new(socket, session, ttl).ok();
            self.mark = self.socket.as_deref().and_then(mark);
        }
        let Some(Caller::Acquires(caller)) = self.callers.remove(&id) else { return };
        let (lost, notify) = (OnceLock::new(), Notify::new());
        let until = AtomicU64::new(until.nanos());
        let grant = Arc::new(Grant { id, fencing_token, until, lost, notify });
        self.callers.insert(id, Caller::Holds(Arc::clone(&grant)));
        // A caller that has dropped its request abandons it.
        drop(caller.send(Ok(grant)));
    }
}
