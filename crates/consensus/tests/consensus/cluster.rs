//! Several engines of one process, their disks, and what drives them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use mutua_consensus::{Ended, Engine, EngineConfig, EngineError, Origin, VoterId};
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep},
};

use crate::{
    disk::SimDisk,
    judge::{Judge, List, command},
    switch::Switch,
};

/// How long a voter's caller takes to notice which others it sees.
const DETECTION: Duration = Duration::from_secs(1);

pub(crate) struct Cluster {
    pub(crate) switch: Switch,
    pub(crate) judge: Judge,
    pub(crate) voters: BTreeMap<VoterId, Voter>,
    /// Settings of every voter, but for its id and origin.
    pub(crate) settings: EngineConfig,
    engines: Engines,
    next: AtomicU64,
    detector: JoinHandle<()>,
}

type Engines = Arc<Mutex<BTreeMap<VoterId, Arc<Engine>>>>;

pub(crate) struct Voter {
    pub(crate) disk: SimDisk,
    pub(crate) list: List,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.detector.abort();
    }
}

pub(crate) fn ids(voters: impl IntoIterator<Item = u64>) -> BTreeSet<VoterId> {
    voters.into_iter().map(VoterId).collect()
}

pub(crate) fn settings() -> EngineConfig {
    EngineConfig::new(VoterId(0), Origin::Founding)
}

impl Cluster {
    /// Voters 1 to `size`, not started.
    pub(crate) fn new(settings: EngineConfig, size: u64) -> Cluster {
        let (switch, engines) = (Switch::new(size), Engines::default());
        let detector = tokio::spawn(detect(switch.clone(), Arc::clone(&engines)));
        let voter = |id| (VoterId(id), Voter { disk: SimDisk::default(), list: List::default() });
        let judge = Judge::default();
        judge.set_majority(size as usize / 2 + 1);
        Cluster {
            switch,
            judge,
            voters: (1..=size).map(voter).collect(),
            settings,
            engines,
            next: AtomicU64::new(1),
            detector,
        }
    }

    /// Voters 1 to `size`, which have decided something.
    pub(crate) async fn founded(settings: EngineConfig, size: u64) -> Cluster {
        let mut cluster = Cluster::new(settings, size);
        for id in 1..=size {
            cluster.start(VoterId(id), Origin::Founding).await.expect("it starts");
        }
        cluster.engine(VoterId(1)).initialize(&ids(1..=size)).await.expect("it is new");
        cluster.decide(Duration::from_secs(10)).await;
        cluster
    }

    pub(crate) async fn start(&mut self, id: VoterId, origin: Origin) -> Result<(), EngineError> {
        let voter = self.voters.get_mut(&id).expect("a voter of this cluster");
        voter.list = List::default();
        let engine = Engine::start(
            EngineConfig { id, origin, ..self.settings.clone() },
            Box::new(voter.disk.clone()),
            self.switch.port(id),
            Box::new(voter.list.clone()),
            self.judge.watcher(id),
        );
        let engine = Arc::new(engine.await?);
        self.switch.plug(&engine);
        self.engines.lock().unwrap().insert(id, engine);
        Ok(())
    }

    /// Stop a voter's process, at once as far as the others can see.
    pub(crate) async fn stop(&self, id: VoterId) -> Ended {
        self.switch.unplug(id);
        let engine = self.engines.lock().unwrap().remove(&id).expect("it runs");
        engine.stop().await;
        engine.ended().await
    }

    pub(crate) async fn restart(&mut self, id: VoterId) {
        self.stop(id).await;
        self.start(id, Origin::Existing).await.expect("it starts again");
        assert_eq!(self.judge.lost_at_restart(id), BTreeSet::new());
    }

    pub(crate) fn engine(&self, id: VoterId) -> Arc<Engine> {
        Arc::clone(&self.engines.lock().unwrap()[&id])
    }

    pub(crate) fn running(&self) -> Vec<Arc<Engine>> {
        self.engines.lock().unwrap().values().cloned().collect()
    }

    /// The leader whom a majority has confirmed last.
    pub(crate) fn leader(&self) -> Option<VoterId> {
        let running = self.running();
        let leaders = running.iter().filter(|engine| engine.status().leads);
        let youngest = leaders.filter_map(|it| Some((it.status().acknowledgement_age?, it.id())));
        youngest.min().map(|(_, id)| id)
    }

    pub(crate) fn next_command(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Let every voter that will take proposals propose, until one of these proposals is decided.
    /// Returns how long that took, in virtual time.
    pub(crate) async fn try_decide(&self, bound: Duration) -> Option<Duration> {
        let start = Instant::now();
        let mut proposed = Vec::new();
        while start.elapsed() < bound {
            for engine in self.running() {
                let number = self.next_command();
                if engine.propose(command(number)).is_ok() {
                    proposed.push(number);
                }
            }
            sleep(Duration::from_millis(20)).await;
            self.judge.assert_right();
            if proposed.iter().any(|number| self.judge.is_decided(*number)) {
                return Some(start.elapsed());
            }
        }
        None
    }

    pub(crate) async fn decide(&self, bound: Duration) -> Duration {
        let statuses = || self.running().iter().map(|it| it.status()).collect::<Vec<_>>();
        let decided = self.try_decide(bound).await;
        decided.unwrap_or_else(|| panic!("nothing decided in {bound:?}: {:#?}", statuses()))
    }

    /// Wait until something holds.
    pub(crate) async fn until(&self, what: &str, holds: impl Fn(&Cluster) -> bool) {
        let start = Instant::now();
        while !holds(self) {
            assert!(start.elapsed() < Duration::from_secs(30), "never: {what}");
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// Wait until all running voters have applied everything decided, and compare their states.
    pub(crate) async fn settle(&self) {
        self.decide(Duration::from_secs(20)).await;
        let decided = self.judge.decided();
        let all = |cluster: &Cluster| {
            let running = cluster.running();
            let lists = running.iter().map(|it| cluster.voters[&it.id()].list.0.lock().unwrap());
            lists.into_iter().all(|list| list.starts_with(&decided))
        };
        self.until("all voters have applied the same commands", all).await;
        self.judge.assert_right();
        for engine in self.running() {
            assert!(engine.status().applied.is_some());
        }
    }
}

/// Tell each engine, late, whom it sees: what the protocol does in a node.
async fn detect(switch: Switch, engines: Engines) {
    let mut seen: Vec<(Instant, BTreeMap<VoterId, BTreeSet<VoterId>>)> = Vec::new();
    loop {
        let running: Vec<Arc<Engine>> = engines.lock().unwrap().values().cloned().collect();
        let sees = |engine: &Arc<Engine>| {
            let others = running.iter().map(|it| it.id()).filter(|it| *it != engine.id());
            (engine.id(), others.filter(|it| switch.connects(engine.id(), *it)).collect())
        };
        seen.push((Instant::now(), running.iter().map(sees).collect()));
        let known = seen.iter().rposition(|(at, _)| at.elapsed() >= DETECTION);
        let known = known.unwrap_or(0);
        for engine in &running {
            // A voter that has just started has not noticed anything yet.
            let nobody = BTreeSet::new();
            engine.sees(seen[known].1.get(&engine.id()).unwrap_or(&nobody));
        }
        seen.drain(..known);
        drop(running);
        sleep(Duration::from_millis(50)).await;
    }
}
