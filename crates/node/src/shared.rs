//! The brain behind one lock, and those who wait for what it decides.

use std::{
    collections::{BTreeMap, HashMap},
    fmt, future,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak, mpsc::Sender},
    task::{Poll, Waker},
    time::Duration,
};

use mutua_brain::{
    Brain, CallId, Caller, Connection, Effect, Level, LockId, Member, Moment, Refusal, Ticket,
    TraceLine,
};
use tokio::{
    runtime::Handle,
    sync::{Notify, oneshot},
};

use crate::{AcquireError, calls::Answering, clock, disk::Disk, hearing::Hearing, line::Line};

/// What all handles, guards and tasks of a node share.
pub(crate) struct Shared {
    core: Mutex<Core>,
    /// When to let the runtime read the links before somebody enters at once.
    pub(crate) hearing: Hearing,
    /// The timer's task is to look again.
    timer: Notify,
    /// Somebody on this machine wants the node to end.
    pub(crate) asked_to_stop: Notify,
    /// Given up when the node stops, though guards may live on.
    disk: Mutex<Option<Arc<Disk>>>,
    /// Answers what other members ask.
    pub(crate) answering: OnceLock<Answering>,
    /// The members' names.
    names: Vec<String>,
    /// Where the node lives: a guard may be dropped on a thread of somebody else's.
    runtime: Handle,
}

/// The brain and who waits for it. Its lock is never held across an await or a system call.
pub(crate) struct Core {
    pub(crate) brain: Brain,
    /// When it was last called.
    now: Moment,
    /// Those who wait for a lock.
    parked: HashMap<Ticket, Parked>,
    /// Those who want to know when a guard is lost.
    watching: HashMap<Ticket, Vec<Waker>>,
    /// Those who wait for a view.
    waiting_for_view: Vec<Waker>,
    /// The connections that are open, and the last one to each peer.
    connections: BTreeMap<Connection, Arc<Line>>,
    lines: BTreeMap<Member, (Connection, Arc<Line>)>,
    numbers: u64,
    /// When the timer's task wakes up.
    armed: Moment,
    stopped: Option<String>,
    /// Those who have asked another member something.
    calls: HashMap<CallId, oneshot::Sender<Vec<u8>>>,
    /// Questions of other members, to be answered when the lock is no longer held.
    called: Vec<(Caller, Vec<u8>)>,
    /// To whoever writes the trace.
    trace: Option<Sender<TraceLine>>,
    /// Woken when the lock is no longer held.
    wake: Vec<Waker>,
    /// Epochs to write, likewise.
    write: Vec<u32>,
}

enum Parked {
    Waiting(Option<Waker>),
    Granted(mutua_algorithms::Fence),
    Refused(AcquireError),
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("names", &self.names).finish_non_exhaustive()
    }
}

impl Shared {
    pub(crate) fn new(brain: Brain, disk: Disk, names: Vec<String>, at_once: u32) -> Self {
        let core = Core {
            brain,
            now: Moment::ZERO,
            parked: HashMap::new(),
            watching: HashMap::new(),
            waiting_for_view: Vec::new(),
            connections: BTreeMap::new(),
            lines: BTreeMap::new(),
            numbers: 0,
            armed: Moment::NEVER,
            stopped: None,
            calls: HashMap::new(),
            called: Vec::new(),
            trace: None,
            wake: Vec::new(),
            write: Vec::new(),
        };
        Self {
            core: Mutex::new(core),
            hearing: Hearing::new(at_once),
            timer: Notify::new(),
            asked_to_stop: Notify::new(),
            disk: Mutex::new(Some(Arc::new(disk))),
            answering: OnceLock::new(),
            names,
            runtime: Handle::current(),
        }
    }

    pub(crate) fn name(&self, member: Member) -> String {
        self.names.get(member.index()).cloned().unwrap_or_else(|| member.to_string())
    }

    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// Calls the brain, then sees to what it wants done.
    pub(crate) fn call<T>(self: &Arc<Self>, call: impl FnOnce(&mut Core, Moment) -> T) -> T {
        let mut core = self.lock();
        // Read under the lock, so that the brain never sees time go back.
        core.now = clock::now();
        let now = core.now;
        let result = call(&mut core, now);
        self.see_to(core);
        result
    }

    /// Somebody leaves. Says whether it was inside until now.
    pub(crate) fn release(self: &Arc<Self>, lock: LockId, ticket: Ticket) -> bool {
        let mut core = self.lock();
        if core.stopped.is_some() {
            // A node that has ended tells nobody that somebody has left.
            return false;
        }
        // Reading the clock is a third of what a re-entry costs.
        if !core.brain.leaves_alone(lock) {
            core.now = clock::now();
        }
        core.unwatch(ticket);
        let now = core.now;
        let released = core.brain.release(now, lock, ticket);
        self.see_to(core);
        released
    }

    /// Sees to what the brain wants done.
    fn see_to(self: &Arc<Self>, mut core: MutexGuard<'_, Core>) {
        let wake_at = core.brain.wake_at();
        if wake_at < core.armed {
            core.armed = wake_at;
            self.timer.notify_one();
        }
        if core.brain.has_news() {
            self.attend(core);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Core> {
        // Who panicked in there has broken its own call, not the others'.
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What to write to a connection now, behind what is in the buffer; whether there was anything.
    pub(crate) fn output(
        &self,
        peer: Member,
        connection: Connection,
        buffer: &mut Vec<u8>,
    ) -> bool {
        self.lock().brain.output(peer, connection, buffer)
    }

    /// Does what the brain wants done, the last of it without the lock.
    fn attend(self: &Arc<Self>, mut core: MutexGuard<'_, Core>) {
        for effect in core.brain.take_effects() {
            self.do_effect(&mut core, effect);
        }
        let ready = core.brain.take_ready();
        let line = |peer| core.lines.get(peer).map(|(_, line)| Arc::clone(line));
        let lines: Vec<_> = ready.iter().filter_map(line).collect();
        let wake = std::mem::take(&mut core.wake);
        let write = std::mem::take(&mut core.write);
        let called = std::mem::take(&mut core.called);
        drop(core);
        // Who was let in just now goes before what is to be written.
        let at_once = wake.is_empty();
        wake.into_iter().for_each(Waker::wake);
        let now = if lines.is_empty() { Moment::ZERO } else { clock::now() };
        for line in lines {
            line.announce(self, now, at_once);
        }
        for epoch in write {
            self.write(epoch);
        }
        for (caller, body) in called {
            self.answer(caller, body);
        }
    }

    fn do_effect(&self, core: &mut Core, effect: Effect) {
        match effect {
            Effect::Granted { ticket, fence } => core.tell(ticket, Parked::Granted(fence)),
            Effect::Refused { ticket, why } => {
                let why = self.explain(why);
                core.tell(ticket, Parked::Refused(why));
            }
            Effect::Lost { ticket } => {
                let watching = core.watching.remove(&ticket);
                core.wake.extend(watching.into_iter().flatten());
            }
            Effect::Write { epoch } => core.write.push(epoch),
            Effect::Close { connection, .. } => {
                if let Some(line) = core.connections.get(&connection) {
                    line.close.notify_one();
                }
            }
            Effect::Trace { line } => {
                if let Some(trace) = &core.trace {
                    // Who cannot write it has said so.
                    let _ = trace.send(*line);
                }
            }
            Effect::Called { caller, body } => core.called.push((caller, body)),
            Effect::Replied { call, body } => {
                if let Some(asker) = core.calls.remove(&call) {
                    // Who does not want to know any more does not.
                    let _ = asker.send(body);
                }
            }
            Effect::Unanswered { call } => drop(core.calls.remove(&call)),
            Effect::Log { level: Level::Info, text } => tracing::info!("{text}"),
            Effect::Log { level: Level::Warning, text } => tracing::warn!("{text}"),
        }
    }

    /// Writes an epoch where it does not hold anybody up.
    fn write(self: &Arc<Self>, epoch: u32) {
        let shared = Arc::clone(self);
        let disk = self.disk.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(disk) = disk else { return };
        self.runtime.spawn_blocking(move || match disk.write_epoch(epoch) {
            Ok(()) => shared.call(|core, now| {
                core.brain.written(now, epoch);
                let waiting = std::mem::take(&mut core.waiting_for_view);
                core.wake.extend(waiting);
            }),
            // Nothing may be granted in an epoch that could be used again.
            Err(error) => shared.stop(&format!("its epoch cannot be written: {error}")),
        });
    }

    /// Answers in a task: whoever answers has locks of its own, and may be calling the node now.
    fn answer(self: &Arc<Self>, caller: Caller, body: Vec<u8>) {
        let shared = Arc::clone(self);
        self.runtime.spawn(async move {
            let answer = shared.answering.get().map(|answering| answering.0(&body));
            let answer = answer.unwrap_or_default();
            shared.call(|core, _| core.brain.reply(caller, &answer));
        });
    }

    /// The directory, to see when nobody uses it any more.
    pub(crate) fn disk(&self) -> Weak<Disk> {
        let disk = self.disk.lock().unwrap_or_else(PoisonError::into_inner);
        disk.as_ref().map(Arc::downgrade).unwrap_or_default()
    }

    /// The reason for a client, with names instead of numbers.
    pub(crate) fn explain(&self, why: Refusal) -> AcquireError {
        match why {
            Refusal::Busy => AcquireError::Busy,
            Refusal::Unreachable(member) => AcquireError::Unreachable(self.name(member)),
            Refusal::LinkFull(member) => AcquireError::LinkFull(self.name(member)),
            Refusal::NoView(why) => AcquireError::NoView(why),
            other => AcquireError::NoView(other.to_string()),
        }
    }

    /// Ends everything: nobody gets in any more, and who is inside is told.
    pub(crate) fn stop(self: &Arc<Self>, why: &str) {
        let mut core = self.lock();
        if core.stopped.is_none() {
            core.stopped = Some(why.to_owned());
            tracing::info!("the node stops: {why}");
        }
        let tickets: Vec<_> = core.parked.keys().copied().collect();
        for ticket in tickets {
            core.tell(ticket, Parked::Refused(AcquireError::Stopped(why.to_owned())));
        }
        let watching = std::mem::take(&mut core.watching);
        let mut wake: Vec<_> = watching.into_values().flatten().collect();
        wake.append(&mut core.wake);
        wake.append(&mut core.waiting_for_view);
        core.trace = None;
        core.calls.clear();
        // Guards may outlive the node, and its connections must not.
        core.lines.clear();
        for line in std::mem::take(&mut core.connections).into_values() {
            line.close.notify_one();
        }
        drop(core);
        self.disk.lock().unwrap_or_else(PoisonError::into_inner).take();
        wake.into_iter().for_each(Waker::wake);
    }

    pub(crate) async fn ready(self: &Arc<Self>) {
        future::poll_fn(|context| {
            self.call(|core, _| {
                if core.brain.epoch().is_some() || core.stopped.is_some() {
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
    /// From now on what happens to a lock goes there.
    pub(crate) fn trace(&mut self, lock: Option<&[u8]>, to: Sender<TraceLine>) {
        self.brain.trace(lock);
        self.trace = Some(to);
    }

    /// Asks a member something; `None` if it cannot be asked.
    pub(crate) fn ask(&mut self, peer: Member, body: &[u8]) -> Option<oneshot::Receiver<Vec<u8>>> {
        if self.stopped.is_some() {
            return None;
        }
        let call = self.brain.call(peer, body)?;
        let (asker, answer) = oneshot::channel();
        self.calls.insert(call, asker);
        Some(answer)
    }

    pub(crate) fn stopped(&self) -> Option<AcquireError> {
        self.stopped.clone().map(AcquireError::Stopped)
    }

    /// Somebody waits from now on.
    pub(crate) fn park(&mut self, ticket: Ticket) {
        self.parked.insert(ticket, Parked::Waiting(None));
    }

    /// Somebody does not wait any more.
    pub(crate) fn unpark(&mut self, ticket: Ticket) {
        self.parked.remove(&ticket);
    }

    /// What was decided about somebody who waits.
    pub(crate) fn poll(
        &mut self,
        ticket: Ticket,
        waker: &Waker,
    ) -> Poll<Result<mutua_algorithms::Fence, AcquireError>> {
        match self.parked.remove(&ticket).expect("somebody who waits") {
            Parked::Granted(fence) => Poll::Ready(Ok(fence)),
            Parked::Refused(why) => Poll::Ready(Err(why)),
            Parked::Waiting(_) => {
                self.parked.insert(ticket, Parked::Waiting(Some(waker.clone())));
                Poll::Pending
            }
        }
    }

    /// Wakes `waker` when this guard is lost.
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

    /// This is how to write to that peer from now on.
    pub(crate) fn connect(&mut self, peer: Member, connection: Connection, line: &Arc<Line>) {
        if self.stopped.is_some() {
            return line.close.notify_one();
        }
        self.connections.insert(connection, Arc::clone(line));
        self.lines.insert(peer, (connection, Arc::clone(line)));
    }

    /// Lets go of the connection, so that it is closed.
    pub(crate) fn end_connection(&mut self, peer: Member, connection: Connection) {
        self.connections.remove(&connection);
        if self.lines.get(&peer).is_some_and(|(last, _)| *last == connection) {
            self.lines.remove(&peer);
        }
    }

    fn tell(&mut self, ticket: Ticket, news: Parked) {
        // Who has given up in this very moment is not there any more, and its cancelling sees to
        // the grant.
        if let Some(parked) = self.parked.get_mut(&ticket)
            && let Parked::Waiting(waker) = std::mem::replace(parked, news)
        {
            self.wake.extend(waker);
        }
    }
}

/// Calls the brain when its time has come.
pub(crate) async fn keep_time(shared: Arc<Shared>) {
    loop {
        let (now, wake_at) = shared.call(|core, now| {
            core.brain.tick(now);
            core.armed = core.brain.wake_at();
            (now, core.armed)
        });
        // A sleep of tokio's has a millisecond's grain and never ends early.
        let sleep = wake_at.since(now).min(Duration::from_secs(3600));
        tokio::select! {
            biased;
            () = shared.timer.notified() => {}
            () = tokio::time::sleep(sleep) => {}
        }
    }
}
