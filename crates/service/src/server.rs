//! The desk, a node and clients put together, on tokio.
//!
//! Everything that decides is in [`desk`](crate::desk). Here the node is asked for it, the clock is
//! read for it, and its answers are sent. One mutex guards it all; it is never held across an
//! await, and a lock that is free is granted within one call.

mod asks;
mod attach;
mod clients;
mod elsewhere;
mod etcd;
mod fences;
mod listen;
pub(crate) mod memory;
mod own;

pub use listen::{Options, ServeError, serve};

use std::{
    collections::HashMap,
    fmt,
    fs::File,
    io::{self, Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use mutua_node::Node;
use tokio::sync::{Notify, mpsc, oneshot, watch};

use crate::{
    Moment,
    desk::{AskId, Desk, Effect, Name, Outcome, SessionId, WaitId},
    proto::v1,
};
use fences::Fences;
use memory::Memory;

/// What is sent to a client on its stream.
type Replies = mpsc::UnboundedSender<Result<v1::Reply, tonic::Status>>;

/// A server's state, shared by all its calls.
pub(crate) struct Service {
    core: Mutex<Core>,
    node: Node,
    /// The node's name among the members, and all of theirs.
    name: String,
    members: Vec<String>,
    /// The timer's task is to look again.
    timer: Notify,
}

pub(crate) struct Core {
    desk: Desk,
    asks: HashMap<AskId, asks::Ask>,
    waiters: HashMap<WaitId, Waiter>,
    /// Clients that are connected, by their sessions.
    clients: HashMap<SessionId, Vec<clients::Connected>>,
    watched: HashMap<Name, watch::Sender<()>>,
    /// Who was seen inside at other nodes, for those who wait here.
    seen: elsewhere::AllSeen,
    memory: Memory,
    /// Which fences may have been given out, if this node is alone.
    fences: Option<Fences>,
    /// The highest fence that was given out here.
    revision: u64,
    /// Counts clients' streams.
    streams: u64,
    /// When the timer's task wakes up.
    armed: Moment,
    /// Since when there has been no session; for leaving when idle.
    idle_since: Option<Moment>,
}

/// Who is to be told of an outcome.
enum Waiter {
    /// A call that waits.
    Call { caller: oneshot::Sender<Outcome>, name: Name },
    /// A client's stream, where it has this number.
    Client { id: u64, session: SessionId, name: Name },
}

/// Tells whoever reads the log. It may be where there is no room for it, which must end nothing.
fn log(text: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "mutua: {text}");
}

/// A file of one record, private to the user, to be written over in place, and what it says.
fn record(path: &Path) -> io::Result<(File, String)> {
    let mut options = File::options();
    let options = options.create(true).read(true).write(true).truncate(false).mode(0o600);
    let mut file = options.open(path)?;
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    Ok((file, text))
}

impl Service {
    /// Does something at the desk, and then all that the desk wants done.
    pub(crate) fn call<T>(self: &Arc<Self>, does: impl FnOnce(&mut Core, Moment) -> T) -> T {
        let mut core = self.lock();
        // Read under the lock, so that the desk never sees time go back.
        let now = crate::now();
        let result = does(&mut core, now);
        self.settle(&mut core, now);
        result
    }

    fn lock(&self) -> MutexGuard<'_, Core> {
        // Who panicked in there has broken its own call, not the others'.
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn settle(self: &Arc<Self>, core: &mut Core, now: Moment) {
        loop {
            let effects = core.desk.take_effects();
            if effects.is_empty() {
                break;
            }
            for effect in effects {
                self.play(core, now, effect);
            }
        }
        core.idle_since = match core.desk.sessions() {
            0 => core.idle_since.or(Some(now)),
            _ => None,
        };
        let wake_at = core.desk.wake_at();
        if wake_at < core.armed {
            core.armed = wake_at;
            self.timer.notify_one();
        }
    }

    fn play(self: &Arc<Self>, core: &mut Core, now: Moment, effect: Effect) {
        match effect {
            Effect::Ask { ask, name, how } => self.ask(core, now, ask, &name, how),
            // Dropping it leaves, or takes the question back.
            Effect::Drop { ask } => drop(core.asks.remove(&ask)),
            Effect::Answer { wait, outcome } => self.answer(core, now, wait, outcome),
            Effect::Lost { session, name, fence, reason } => {
                core.tell_lost(session, &name, fence, reason);
            }
            Effect::Ended { session } => core.tell_end(session),
            Effect::Remember { longest } => self.remember(core, longest),
            Effect::Join => self.node.join(),
            Effect::Changed { name } => core.tell_watchers(&name),
        }
    }

    fn answer(self: &Arc<Self>, core: &mut Core, now: Moment, wait: WaitId, outcome: Outcome) {
        if let Outcome::Granted { fence, .. } = outcome {
            core.revision = core.revision.max(fence);
            let covered = core.fences.as_mut().map_or(Ok(()), |fences| fences.cover(fence));
            if let Err(error) = covered {
                self.end_without(&format!("which fences were given cannot be written: {error}"));
            }
        }
        match core.waiters.remove(&wait) {
            Some(Waiter::Call { caller, name }) => {
                // A call that was given up meanwhile must not leave anybody inside.
                if let Err(Outcome::Granted { fence, .. }) = caller.send(outcome) {
                    core.desk.release(now, &name, fence);
                }
            }
            Some(Waiter::Client { id, session, name }) => {
                let holder = self.holder_here(core, now, &name);
                let kept_out = matches!(outcome, Outcome::Busy | Outcome::TimedOut);
                let quarantined = core.quarantined(now).is_some();
                if kept_out && holder.is_none() && !self.is_alone() && !quarantined {
                    return self.name_holder((id, session), name, outcome);
                }
                core.tell_outcome(now, (id, session), &name, outcome, holder);
            }
            None => {}
        }
    }

    /// Tells somebody who was kept out from elsewhere by whom.
    fn name_holder(self: &Arc<Self>, to: (u64, SessionId), name: Name, outcome: Outcome) {
        let service = Arc::clone(self);
        tokio::spawn(async move {
            let holder = service.holder_anywhere(&name).await;
            service.call(|core, now| core.tell_outcome(now, to, &name, outcome, holder));
        });
    }

    fn remember(&self, core: &Core, longest: Duration) {
        if let Err(error) = core.memory.write(longest) {
            self.end_without(&format!("how long leases are cannot be written: {error}"));
        }
    }

    /// The grant that something was to be written for must not be told to anybody.
    fn end_without(&self, why: &str) -> ! {
        log(format_args!("{why}; so the node ends"));
        self.node.halt();
        std::process::exit(70);
    }

    /// Calls the desk when its time comes, for ever.
    async fn keep_time(self: Arc<Self>) {
        loop {
            let (wake_at, now) = {
                let mut core = self.lock();
                core.armed = core.desk.wake_at();
                (core.armed, crate::now())
            };
            // The runtime's clock stands still while the machine sleeps, so look again now and
            // then.
            let wait = wake_at.since(now).min(Duration::from_secs(1));
            tokio::select! {
                () = tokio::time::sleep(wait) => self.call(|core, now| core.desk.tick(now)),
                () = self.timer.notified() => {}
            }
        }
    }

    /// Why nothing new is granted, if that is so.
    fn stopped(&self) -> Option<String> {
        self.node.status().stopped
    }
}

impl Core {
    fn is_watched(&self) -> bool {
        self.watched.values().any(|watched| watched.receiver_count() > 0)
    }

    /// Why nobody is let in yet, if that is so.
    fn quarantined(&self, now: Moment) -> Option<String> {
        let rest = self.desk.quarantine(now);
        (rest > Duration::ZERO).then(|| {
            let seconds = rest.as_secs_f64();
            format!("the node did not stop cleanly and lets nobody in for {seconds:.1} s more")
        })
    }

    fn tell_watchers(&mut self, name: &Name) {
        let Some(watched) = self.watched.get(name) else { return };
        if watched.send(()).is_err() {
            self.watched.remove(name);
        }
    }
}
