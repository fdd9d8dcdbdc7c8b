//! The protocol behind one mutex, and the tasks that wait for its decisions.

use std::{
    collections::{BTreeMap, HashMap},
    fmt, future,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockReadGuard, Weak},
    task::{Poll, Waker},
};

use mutua_host::now;
use mutua_protocol::{
    CallId, Caller, Connection, Effect, Level, LockId, Member, Moment, Protocol, Refusal, Ticket,
    TraceId, views::Command,
};
use tokio::{
    runtime::Handle,
    sync::{Notify, mpsc, oneshot},
};

use crate::{
    AcquireError, HoldId, Served,
    consensus::Consensus,
    disk::Disk,
    handle::Answering,
    timer::Timer,
    trace::{Followed, MOST_FOLLOWED, Sink},
    writer::Writer,
    yielding::Yielding,
};

/// The state that all handles, guards and tasks of a node share.
pub(crate) struct Driver {
    core: Mutex<Core>,
    /// Decides when the runtime reads the links before a client is granted a lock at once.
    pub(crate) yielding: Yielding,
    /// Wakes the timer's task.
    timer: Notify,
    /// `None` once the node has stopped, though guards may live on.
    disk: Mutex<Option<Arc<Disk>>>,
    /// Answers the calls of other members.
    pub(crate) answering: OnceLock<Answering>,
    /// This member's part in consensus, if its cluster has several members.
    pub(crate) consensus: OnceLock<Arc<Consensus>>,
    /// Reports on holds of clients outside the process, for the server around the node.
    pub(crate) served: OnceLock<mpsc::UnboundedSender<Served>>,
    /// The members' names, by place.
    names: RwLock<Vec<String>>,
    /// The node's runtime: a guard may be dropped on any thread.
    runtime: Handle,
}

/// The protocol and its waiting tasks. Its mutex is never held across an await or a system call.
pub(crate) struct Core {
    pub(crate) protocol: Protocol,
    /// The time of the last call.
    now: Moment,
    /// The waiters of locks.
    parked: HashMap<Ticket, Parked>,
    /// The tasks to wake when a lock is lost.
    watching: HashMap<Ticket, Vec<Waker>>,
    /// The tasks that wait for a view.
    waiting_for_view: Vec<Waker>,
    /// The open connections, and the last one to each peer.
    connections: BTreeMap<Connection, Arc<Writer>>,
    writers: BTreeMap<Member, (Connection, Arc<Writer>)>,
    numbers: u64,
    /// When the timer's task runs next.
    armed: Moment,
    stopped: Option<String>,
    /// The tasks that wait for a reply of another member.
    calls: HashMap<CallId, oneshot::Sender<Vec<u8>>>,
    /// Calls of other members, to be answered when the mutex is free.
    called: Vec<(Caller, Vec<u8>)>,
    /// The traces, and where their lines go.
    traces: Vec<(TraceId, Sink)>,
    /// To be woken when the mutex is free.
    wake: Vec<Waker>,
    /// Epochs to be written when the mutex is free.
    write: Vec<u32>,
    /// Commands to be proposed when the mutex is free.
    propose: Vec<Command>,
}

enum Parked {
    Waiting(Option<Waker>),
    Granted(mutua_algorithms::FencingToken),
    Refused(AcquireError),
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").field("names", &self.names()).finish_non_exhaustive()
    }
}

impl Driver {
    pub(crate) fn new(protocol: Protocol, disk: Disk, names: Vec<String>, at_once: u32) -> Self {
        let core = Core {
            protocol,
            now: Moment::ZERO,
            parked: HashMap::new(),
            watching: HashMap::new(),
            waiting_for_view: Vec::new(),
            connections: BTreeMap::new(),
            writers: BTreeMap::new(),
            numbers: 0,
            armed: Moment::NEVER,
            stopped: None,
            calls: HashMap::new(),
            called: Vec::new(),
            traces: Vec::new(),
            wake: Vec::new(),
            write: Vec::new(),
            propose: Vec::new(),
        };
        Self {
            core: Mutex::new(core),
            yielding: Yielding::new(at_once),
            timer: Notify::new(),
            disk: Mutex::new(Some(Arc::new(disk))),
            answering: OnceLock::new(),
            consensus: OnceLock::new(),
            served: OnceLock::new(),
            names: RwLock::new(names),
            runtime: Handle::current(),
        }
    }

    pub(crate) fn name(&self, member: Member) -> String {
        self.names().get(member.index()).cloned().unwrap_or_else(|| member.to_string())
    }

    /// The members' names, by place.
    pub(crate) fn names(&self) -> RwLockReadGuard<'_, Vec<String>> {
        self.names.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls the protocol, then carries out its effects.
    pub(crate) fn call<T>(self: &Arc<Self>, call: impl FnOnce(&mut Core, Moment) -> T) -> T {
        let mut core = self.lock();
        // Read under the lock, so that the protocol never sees time go back.
        core.now = now();
        let now = core.now;
        let result = call(&mut core, now);
        self.finish(core);
        result
    }

    /// Releases a lock. Returns whether it was held until now.
    pub(crate) fn release(self: &Arc<Self>, lock: LockId, ticket: Ticket) -> bool {
        let mut core = self.lock();
        if core.stopped.is_some() {
            // A node that has stopped sends no release.
            return false;
        }
        // Reading the clock is a third of what a re-entry costs.
        if !core.protocol.leaves_alone(lock) {
            core.now = now();
        }
        core.unwatch(ticket);
        let now = core.now;
        let released = core.protocol.release(now, lock, ticket);
        self.finish(core);
        released
    }

    /// Carries out the protocol's effects, if there are any.
    fn finish(self: &Arc<Self>, mut core: MutexGuard<'_, Core>) {
        let wake_at = core.protocol.wake_at();
        if wake_at < core.armed {
            core.armed = wake_at;
            self.timer.notify_one();
        }
        if core.protocol.has_news() {
            self.carry_out(core);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Core> {
        // A panic in a call has broken that call, not the others.
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether locks are granted now.
    pub(crate) fn is_granting(&self) -> bool {
        self.lock().protocol.stopped().is_none()
    }

    /// Appends the bytes to write to a connection now; returns whether there were any.
    pub(crate) fn output(
        &self,
        peer: Member,
        connection: Connection,
        buffer: &mut Vec<u8>,
    ) -> bool {
        self.lock().protocol.output(peer, connection, buffer)
    }

    /// Carries out the effects, the last of them without the mutex.
    fn carry_out(self: &Arc<Self>, mut core: MutexGuard<'_, Core>) {
        for effect in core.protocol.take_effects() {
            self.do_effect(&mut core, effect);
        }
        let ready = core.protocol.take_ready();
        let writer = |peer| core.writers.get(peer).map(|(_, writer)| Arc::clone(writer));
        let writers: Vec<_> = ready.iter().filter_map(writer).collect();
        let wake = std::mem::take(&mut core.wake);
        let write = std::mem::take(&mut core.write);
        let called = std::mem::take(&mut core.called);
        let propose = std::mem::take(&mut core.propose);
        drop(core);
        // Clients that were granted a lock run before bytes are written.
        let at_once = wake.is_empty();
        wake.into_iter().for_each(Waker::wake);
        let now = if writers.is_empty() { Moment::ZERO } else { now() };
        for writer in writers {
            writer.announce(self, now, at_once);
        }
        for epoch in write {
            self.write(epoch);
        }
        for (caller, body) in called {
            self.answer(caller, body);
        }
        if let Some(consensus) = self.consensus.get() {
            propose.iter().for_each(|command| consensus.propose(command));
        }
    }

    fn do_effect(&self, core: &mut Core, effect: Effect) {
        match effect {
            Effect::Granted { ticket, fence } => core.resolve(ticket, Parked::Granted(fence)),
            Effect::Refused { ticket, why } => {
                let why = self.explain(why);
                core.resolve(ticket, Parked::Refused(why));
            }
            Effect::Lost { ticket } => {
                let watching = core.watching.remove(&ticket);
                core.wake.extend(watching.into_iter().flatten());
                self.report(Served::Lost(HoldId(ticket)));
            }
            Effect::Recorded { ticket } => self.report(Served::Recorded(HoldId(ticket))),
            Effect::Custody { name, ticket, fence, client } => {
                self.report(Served::Custody { name, hold: HoldId(ticket), fence, client });
            }
            Effect::Propose { command } => core.propose.push(command),
            Effect::Members => {
                let names = core.protocol.names().to_vec();
                *self.names.write().unwrap_or_else(PoisonError::into_inner) = names;
                if let Some(consensus) = self.consensus.get() {
                    consensus.members_changed.notify_one();
                }
            }
            Effect::Write { epoch } => core.write.push(epoch),
            Effect::Close { connection, .. } => {
                if let Some(writer) = core.connections.get(&connection) {
                    writer.close.notify_one();
                }
            }
            Effect::Trace { trace, line } => {
                let known = core.traces.iter().position(|(id, _)| *id == trace);
                let Some(index) = known else { return };
                core.traces[index].1.take(*line);
                core.end_old_traces();
            }
            Effect::Called { caller, body } => core.called.push((caller, body)),
            Effect::Replied { call, body } => {
                if let Some(caller) = core.calls.remove(&call) {
                    // The caller may have given up.
                    let _ = caller.send(body);
                }
            }
            Effect::Unanswered { call } => drop(core.calls.remove(&call)),
            Effect::Log { level: Level::Info, text } => tracing::info!("{text}"),
            Effect::Log { level: Level::Warning, text } => tracing::warn!("{text}"),
        }
    }

    fn report(&self, event: Served) {
        if let Some(served) = self.served.get() {
            // The server has ended, and with it the node.
            let _ = served.send(event);
        }
    }

    /// Writes an epoch on a thread that may block.
    fn write(self: &Arc<Self>, epoch: u32) {
        let driver = Arc::clone(self);
        let disk = self.disk.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(disk) = disk else { return };
        self.runtime.spawn_blocking(move || match disk.write_epoch(epoch) {
            Ok(()) => driver.call(|core, now| {
                core.protocol.written(now, epoch);
                let waiting = std::mem::take(&mut core.waiting_for_view);
                core.wake.extend(waiting);
            }),
            // Nothing may be granted in an epoch that could be used again.
            Err(error) => driver.stop(&format!("its epoch cannot be written: {error}")),
        });
    }

    /// Answers in a task: the answering function has locks of its own, and may be calling the node
    /// now.
    fn answer(self: &Arc<Self>, caller: Caller, body: Vec<u8>) {
        let driver = Arc::clone(self);
        self.runtime.spawn(async move {
            let answer = match driver.answering.get() {
                Some(answering) => answering.0(body).await,
                None => Vec::new(),
            };
            driver.call(|core, _| core.protocol.reply(caller, &answer));
        });
    }

    /// The directory, to see when it is no longer in use.
    pub(crate) fn disk(&self) -> Weak<Disk> {
        let disk = self.disk.lock().unwrap_or_else(PoisonError::into_inner);
        disk.as_ref().map(Arc::downgrade).unwrap_or_default()
    }

    /// The error for a client, with names instead of numbers.
    pub(crate) fn explain(&self, why: Refusal) -> AcquireError {
        match why {
            Refusal::Busy => AcquireError::Busy,
            Refusal::Unreachable(member) => AcquireError::Unreachable(self.name(member)),
            Refusal::LinkFull(member) => AcquireError::LinkFull(self.name(member)),
            Refusal::NoView(why) => AcquireError::NoView(why),
            other => AcquireError::NoView(other.to_string()),
        }
    }

    /// Stops the node, and logs why.
    pub(crate) fn stop(self: &Arc<Self>, why: &str) {
        if self.end(why) {
            tracing::info!("the node stops: {why}");
        }
    }

    /// Stops the node: no lock is granted any more, and all guards are lost. Returns whether it
    /// ran.
    pub(crate) fn end(self: &Arc<Self>, why: &str) -> bool {
        let mut core = self.lock();
        let ran = core.stopped.is_none();
        if ran {
            core.stopped = Some(why.to_owned());
        }
        let tickets: Vec<_> = core.parked.keys().copied().collect();
        for ticket in tickets {
            core.resolve(ticket, Parked::Refused(AcquireError::Stopped(why.to_owned())));
        }
        let watching = std::mem::take(&mut core.watching);
        let mut wake: Vec<_> = watching.into_values().flatten().collect();
        wake.append(&mut core.wake);
        wake.append(&mut core.waiting_for_view);
        core.traces.clear();
        core.calls.clear();
        // Guards may outlive the node, and its connections must not.
        core.writers.clear();
        for writer in std::mem::take(&mut core.connections).into_values() {
            writer.close.notify_one();
        }
        drop(core);
        if let Some(consensus) = self.consensus.get() {
            consensus.hang_up();
        }
        self.disk.lock().unwrap_or_else(PoisonError::into_inner).take();
        wake.into_iter().for_each(Waker::wake);
        ran
    }

    /// A later process has run as this member: this one stops, and the next start is later still.
    pub(crate) fn outdated(self: &Arc<Self>, known: u64) {
        let raised = self.consensus.get().map_or(Ok(()), |one| one.raise_incarnation(known));
        if let Err(error) = raised {
            tracing::warn!("the incarnation cannot be written: {error}");
        }
        self.stop("another process has run as this member since; start this one again");
    }

    /// Another member says that this one was removed from the cluster.
    pub(crate) fn removed(self: &Arc<Self>) {
        let noted = self.consensus.get().map_or(Ok(()), |one| one.note_left());
        if let Err(error) = noted {
            tracing::warn!("the identity cannot be written: {error}");
        }
        self.stop("this member was removed from the cluster");
    }

    pub(crate) async fn ready(self: &Arc<Self>) {
        future::poll_fn(|context| {
            self.call(|core, _| {
                if core.protocol.epoch().is_some() || core.stopped.is_some() {
                    return Poll::Ready(());
                }
                core.waiting_for_view.push(context.waker().clone());
                Poll::Pending
            })
        })
        .await;
    }
}

impl Core {
    /// Sends the trace of a lock there from now on.
    pub(crate) fn trace(&mut self, now: Moment, lock: Option<&[u8]>, to: Sink) {
        let id = self.protocol.trace(now, lock);
        self.traces.push((id, to));
    }

    /// Ends the traces of locks that nobody follows any more.
    fn end_old_traces(&mut self) {
        let now = self.now;
        let is_old = |sink: &Sink| sink.followed().is_some_and(|one| one.is_old(now));
        for (id, _) in self.traces.extract_if(.., |(_, sink)| is_old(sink)) {
            self.protocol.end_trace(id);
        }
    }

    /// The last events of a lock; see [`NodeHandle::follow`](crate::NodeHandle::follow).
    pub(crate) fn follow(&mut self, now: Moment, lock: &[u8]) -> Option<&mut Followed> {
        self.end_old_traces();
        let of_lock = |(_, sink): &(TraceId, Sink)| {
            sink.followed().is_some_and(|followed| *followed.lock == *lock)
        };
        let known = self.traces.iter().position(of_lock);
        if known.is_none() {
            let others = self.traces.iter().filter(|(_, sink)| sink.followed().is_some());
            if others.count() >= MOST_FOLLOWED {
                return None;
            }
            self.trace(now, Some(lock), Sink::Kept(Box::new(Followed::new(now, lock))));
        }
        let index = known.unwrap_or(self.traces.len() - 1);
        self.traces[index].1.followed_mut()
    }

    /// Calls a member; `None` if the call cannot be sent.
    pub(crate) fn call_member(
        &mut self,
        peer: Member,
        body: &[u8],
    ) -> Option<oneshot::Receiver<Vec<u8>>> {
        if self.stopped.is_some() {
            return None;
        }
        let call = self.protocol.call(peer, body)?;
        let (caller, answer) = oneshot::channel();
        self.calls.insert(call, caller);
        Some(answer)
    }

    pub(crate) fn stopped(&self) -> Option<AcquireError> {
        self.stopped.clone().map(AcquireError::Stopped)
    }

    /// Registers a waiter.
    pub(crate) fn park(&mut self, ticket: Ticket) {
        self.parked.insert(ticket, Parked::Waiting(None));
    }

    /// Removes a waiter.
    pub(crate) fn unpark(&mut self, ticket: Ticket) {
        self.parked.remove(&ticket);
    }

    /// The decision about a waiter, once there is one.
    pub(crate) fn poll(
        &mut self,
        ticket: Ticket,
        waker: &Waker,
    ) -> Poll<Result<mutua_algorithms::FencingToken, AcquireError>> {
        match self.parked.remove(&ticket).expect("a waiter") {
            Parked::Granted(fence) => Poll::Ready(Ok(fence)),
            Parked::Refused(why) => Poll::Ready(Err(why)),
            Parked::Waiting(_) => {
                self.parked.insert(ticket, Parked::Waiting(Some(waker.clone())));
                Poll::Pending
            }
        }
    }

    /// Wakes `waker` when this lock is lost.
    pub(crate) fn watch(&mut self, ticket: Ticket, waker: &Waker) {
        let watching = self.watching.entry(ticket).or_default();
        if !watching.iter().any(|known| known.will_wake(waker)) {
            watching.push(waker.clone());
        }
    }

    fn unwatch(&mut self, ticket: Ticket) {
        if !self.watching.is_empty() {
            self.watching.remove(&ticket);
        }
    }

    /// A number for a connection.
    pub(crate) fn new_connection(&mut self) -> Connection {
        self.numbers += 1;
        Connection(self.numbers)
    }

    /// Writes to that peer by this writer from now on.
    pub(crate) fn connect(&mut self, peer: Member, connection: Connection, writer: &Arc<Writer>) {
        if self.stopped.is_some() {
            return writer.close.notify_one();
        }
        self.connections.insert(connection, Arc::clone(writer));
        self.writers.insert(peer, (connection, Arc::clone(writer)));
    }

    /// The address from which a peer is connected.
    pub(crate) fn address_of(&self, peer: Member) -> Option<String> {
        self.writers.get(&peer).and_then(|(_, writer)| writer.address())
    }

    /// Drops the connection, so that it is closed.
    pub(crate) fn end_connection(&mut self, peer: Member, connection: Connection) {
        self.connections.remove(&connection);
        if self.writers.get(&peer).is_some_and(|(last, _)| *last == connection) {
            self.writers.remove(&peer);
        }
    }

    fn resolve(&mut self, ticket: Ticket, decision: Parked) {
        // A waiter that cancels at this moment is not registered any more, and its cancellation
        // passes the grant on.
        if let Some(parked) = self.parked.get_mut(&ticket)
            && let Parked::Waiting(waker) = std::mem::replace(parked, decision)
        {
            self.wake.extend(waker);
        }
    }
}

/// Calls the protocol when its timers are due.
pub(crate) async fn keep_time(driver: Arc<Driver>) {
    let timer = Timer::new();
    loop {
        let wake_at = driver.call(|core, now| {
            core.protocol.tick(now);
            core.armed = core.protocol.wake_at();
            core.armed
        });
        if let Some(consensus) = driver.consensus.get() {
            consensus.ticked.notify_one();
        }
        tokio::select! {
            biased;
            () = driver.timer.notified() => {}
            () = timer.sleep_until(wake_at) => {}
        }
    }
}
