//! Following a key or the keys of a lock, here or at another member.

use std::{sync::Arc, time::Duration};

use tokio::sync::mpsc;
use tonic::Status;

use super::{
    AHEAD,
    answers::{Shown, Watched},
    bare_name, queue_of,
    shape::{Target, Watch},
};
use crate::{
    Service,
    leases::{Name, SessionId},
    proto::mvccpb::{Event, KeyValue, event::EventType},
};

/// How often the other members are asked for what none of them has.
const PAUSE: Duration = Duration::from_millis(300);

/// An event, and the revision of the response with it.
pub(crate) struct Happened {
    pub(crate) event: Event,
    pub(crate) revision: u64,
}

/// A watch and what it has reported.
pub(crate) struct Follower {
    service: Arc<Service>,
    watch: Watch,
    /// The state that was reported last; the outer `None`: nothing was read yet.
    known: Option<Option<KeyValue>>,
    ended: bool,
}

impl Follower {
    pub(crate) fn new(service: Arc<Service>, watch: Watch) -> Self {
        Self { service, watch, known: None, ended: false }
    }

    /// The next events; `None` when none can follow.
    pub(crate) async fn next(&mut self) -> Option<Vec<Happened>> {
        loop {
            if self.ended {
                return None;
            }
            let happened = self.step().await;
            if !happened.is_empty() {
                return Some(happened);
            }
        }
    }

    /// Waits for another state than the one that is known, for a while, and compares.
    async fn step(&mut self) -> Vec<Happened> {
        let Ok(state) = self.read().await else {
            tokio::time::sleep(PAUSE).await;
            return Vec::new();
        };
        match state {
            Some(Watched::Granted(token)) => self.deleted(token),
            Some(Watched::Is(shown)) if self.is_tried(&shown.kv) => self.absent().await,
            Some(Watched::Is(shown)) => self.is(shown),
            None => self.absent().await,
        }
    }

    /// The state, as soon as it differs from the one that is known, or after a while.
    async fn read(&self) -> Result<Option<Watched>, Status> {
        let service = &self.service;
        let name = service.lock().name_of(&self.watch.target);
        let mut changes = name.map(|name| service.watch(&name));
        let mut waited = false;
        loop {
            if let Some(changes) = &mut changes {
                changes.borrow_and_update();
            }
            let epoch = service.handle.epoch();
            let here = service.call(|core, now| core.watched_here(now, &self.watch.target));
            let Some(state) = here else {
                let known = self.known.as_ref().and_then(Option::as_ref);
                return service.watched_elsewhere(&self.watch.target, known, epoch).await;
            };
            let same = matches!(&state, Watched::Is(shown)
                if self.known.as_ref() == Some(&Some(shown.kv.clone())));
            match &mut changes {
                Some(changes) if same && !waited => {
                    // The other members may serve it meanwhile.
                    let changed = tokio::time::timeout(Duration::from_secs(1), changes.changed());
                    waited = changed.await.is_err();
                }
                _ => return Ok(Some(state)),
            }
        }
    }

    /// Whether the key is one that its clients try to create, and watch until the lock is free.
    fn is_tried(&self, kv: &KeyValue) -> bool {
        let key = matches!(self.watch.target, Target::Key(_));
        let waits = kv.key.ends_with(AHEAD) || queue_of(&kv.key, SessionId(kv.lease)).is_some();
        key && !waits && self.watch.deletes
    }

    fn is(&mut self, shown: Shown) -> Vec<Happened> {
        let Shown { kv, revision } = shown;
        let before = self.known.replace(Some(kv.clone()));
        let mut happened = Vec::new();
        let is_new = match before {
            // A lock's holder is reported in any case: its revision may be another node's.
            None => {
                let lock = matches!(self.watch.target, Target::Lock(_));
                lock || (self.watch.start > 0 && kv.mod_revision >= self.watch.start)
            }
            Some(None) => true,
            Some(Some(old)) => {
                if old.key != kv.key && self.watch.deletes {
                    happened.push(deletion(old.key, revision));
                } else if old == kv {
                    return happened;
                }
                true
            }
        };
        let is_ahead = kv.key.ends_with(AHEAD);
        if is_new && self.watch.puts && !is_ahead {
            let event = Event { r#type: EventType::Put.into(), kv: Some(kv), prev_kv: None };
            happened.push(Happened { event, revision });
        }
        happened
    }

    async fn absent(&mut self) -> Vec<Happened> {
        let revision = self.service.lock().revision;
        let key = match &self.watch.target {
            Target::Key(key) => key.clone(),
            Target::Lock(_) => {
                let known = self.known.replace(None).flatten();
                let happened = known.filter(|_| self.watch.deletes);
                let happened: Vec<_> =
                    happened.map(|old| deletion(old.key, revision)).into_iter().collect();
                if happened.is_empty() {
                    self.pause().await;
                }
                return happened;
            }
        };
        let known = self.known.as_ref().and_then(Option::as_ref);
        let queued = known.is_some_and(|kv| queue_of(&key, SessionId(kv.lease)).is_some());
        let name = bare_name(&key);
        if !queued && !key.ends_with(AHEAD) && name.len() <= mutua_node::MAX_NAME {
            // A client that watches the key of a lock waits until it can try again.
            let _ = self.service.until_free(Name::from(name)).await;
        }
        let revision = self.service.lock().revision;
        self.deleted(revision)
    }

    /// The one key that is watched is deleted.
    fn deleted(&mut self, revision: u64) -> Vec<Happened> {
        self.ended = true;
        match &self.watch.target {
            Target::Key(key) if self.watch.deletes => vec![deletion(key.clone(), revision)],
            Target::Key(_) | Target::Lock(_) => Vec::new(),
        }
    }

    /// Waits for a change here, or for a while.
    async fn pause(&self) {
        let Target::Lock(name) = &self.watch.target else { return };
        let mut changes = self.service.watch(&Name::from(&**name));
        changes.borrow_and_update();
        let here = self.service.call(|core, now| core.first_here(now, name).is_some());
        if !here {
            let _ = tokio::time::timeout(PAUSE, changes.changed()).await;
        }
    }
}

/// Reports when the holder of a lock or its value changes, at this node or another one, until the
/// receiver is dropped. Several changes in a row may be reported as one.
pub(crate) fn holder_changes(service: Arc<Service>, name: &Name) -> mpsc::Receiver<()> {
    let watch = Watch { target: Target::Lock(name.to_vec()), start: 0, puts: true, deletes: true };
    let mut follower = Follower::new(service, watch);
    let (sender, changes) = mpsc::channel(1);
    tokio::spawn(async move {
        loop {
            tokio::select! {
                _ = follower.next() => drop(sender.try_send(())),
                () = sender.closed() => return,
            }
        }
    });
    changes
}

fn deletion(key: Vec<u8>, revision: u64) -> Happened {
    let kv = KeyValue { key, mod_revision: revision.cast_signed(), ..KeyValue::default() };
    let event = Event { r#type: EventType::Delete.into(), kv: Some(kv), prev_kv: None };
    Happened { event, revision }
}
