//! The network between the voters of one process: cuts in either direction, delay and loss.

use std::{
    collections::{BTreeMap, BTreeSet},
    future::pending,
    sync::{Arc, Mutex, Weak},
    time::Duration,
};

use mutua_consensus::{Call, Engine, Transport, Unreachable, VoterId};
use tokio::{sync::oneshot, time::sleep};

use crate::random::Random;

/// Connects engines. Clones are the same switch.
#[derive(Clone)]
pub(crate) struct Switch(Arc<Mutex<State>>);

struct State {
    engines: BTreeMap<VoterId, Weak<Engine>>,
    /// Links that carry nothing, from and to.
    cut: BTreeSet<(VoterId, VoterId)>,
    /// Messages lost, of 1,000.
    loss: u64,
    /// Greatest delay of a message, in microseconds.
    delay: u64,
    random: Random,
}

impl Switch {
    pub(crate) fn new(seed: u64) -> Switch {
        let state = State {
            engines: BTreeMap::new(),
            cut: BTreeSet::new(),
            loss: 0,
            delay: 1000,
            random: Random::new(seed),
        };
        Switch(Arc::new(Mutex::new(state)))
    }

    pub(crate) fn plug(&self, engine: &Arc<Engine>) {
        self.0.lock().unwrap().engines.insert(engine.id(), Arc::downgrade(engine));
    }

    pub(crate) fn unplug(&self, voter: VoterId) {
        self.0.lock().unwrap().engines.remove(&voter);
    }

    /// Cut one direction.
    pub(crate) fn cut(&self, from: VoterId, to: VoterId) {
        self.0.lock().unwrap().cut.insert((from, to));
    }

    /// Cut both directions.
    pub(crate) fn separate(&self, one: VoterId, other: VoterId) {
        self.cut(one, other);
        self.cut(other, one);
    }

    pub(crate) fn heal(&self) {
        self.0.lock().unwrap().cut.clear();
    }

    pub(crate) fn set_loss(&self, per_mille: u64) {
        self.0.lock().unwrap().loss = per_mille;
    }

    pub(crate) fn set_delay(&self, longest: Duration) {
        self.0.lock().unwrap().delay = longest.as_micros() as u64;
    }

    /// Whether two voters can exchange messages both ways.
    pub(crate) fn connects(&self, one: VoterId, other: VoterId) -> bool {
        let state = self.0.lock().unwrap();
        let runs = |voter| state.engines.get(&voter).is_some_and(|it| it.strong_count() > 0);
        runs(one)
            && runs(other)
            && !state.cut.contains(&(one, other))
            && !state.cut.contains(&(other, one))
    }

    /// The voter's end of its cables.
    pub(crate) fn port(&self, voter: VoterId) -> Arc<dyn Transport> {
        Arc::new(Port { voter, switch: self.clone() })
    }

    /// Carry one message, or lose it and return false.
    async fn carry(&self, from: VoterId, to: VoterId) -> bool {
        let delay = {
            let mut state = self.0.lock().unwrap();
            let longest = state.delay;
            Duration::from_micros(state.random.below(longest))
        };
        sleep(delay).await;
        let mut state = self.0.lock().unwrap();
        let lost = state.loss > 0 && state.random.below(1000) < state.loss;
        !lost && !state.cut.contains(&(from, to))
    }
}

struct Port {
    voter: VoterId,
    switch: Switch,
}

impl Transport for Port {
    fn call(&self, to: VoterId, body: Vec<u8>) -> Call {
        let (from, switch) = (self.voter, self.switch.clone());
        let (answer, answered) = oneshot::channel();
        // A task of its own: the caller may give up, but what it sent arrives all the same.
        tokio::spawn(async move {
            if !switch.carry(from, to).await {
                // Nobody says that a message was lost.
                return pending().await;
            }
            let engine = switch.0.lock().unwrap().engines.get(&to).and_then(Weak::upgrade);
            let Some(engine) = engine else {
                let _ = answer.send(None);
                return;
            };
            let Ok(body) = engine.handle(from, &body).await else {
                let _ = answer.send(None);
                return;
            };
            drop(engine);
            if switch.carry(to, from).await {
                let _ = answer.send(Some(body));
            } else {
                pending().await
            }
        });
        Box::pin(async move {
            let answer = answered.await.ok().flatten();
            answer.ok_or_else(|| Unreachable { to, reason: "not running".to_owned() })
        })
    }
}
