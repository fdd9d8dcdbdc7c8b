//! Files that are not as they were left, and reports of the log store.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use mutua_consensus::{
    Call, Directory, Disk, Ended, Engine, EngineConfig, EngineError, HandleError, Origin,
    StateMachine, StoreError, Transport, Unreachable, VoterId, Watcher,
};
use tokio::time::sleep;

use crate::{
    cluster::{Cluster, ids, settings},
    judge::{Judge, List, command},
};

pub(crate) const LONE: VoterId = VoterId(1);

/// A lone voter that has decided a few commands and stopped.
async fn stopped() -> Cluster {
    let mut settings = settings();
    settings.snapshot_every = 10;
    let cluster = Cluster::founded(settings, 1).await;
    for _ in 0..25 {
        cluster.decide(Duration::from_secs(5)).await;
    }
    assert_eq!(cluster.stop(LONE).await, Ended::Stopped);
    cluster
}

#[tokio::test(start_paused = true)]
async fn a_torn_tail_is_cut() {
    let mut cluster = stopped().await;
    let disk = cluster.voters[&LONE].disk.clone();
    let log = disk.contents("log").expect("there is a log");
    for length in [1, 15, 16, 20] {
        // The beginning of another append.
        let mut torn = log.clone();
        torn.extend_from_slice(&log[..length]);
        disk.set_contents("log", torn);
        cluster.start(LONE, Origin::Existing).await.expect("it starts");
        assert!(cluster.judge.lost_at_restart(LONE).is_empty());
        cluster.stop(LONE).await;
        assert!(disk.contents("log").expect("there is a log").len() <= log.len());
    }
    cluster.start(LONE, Origin::Existing).await.expect("it starts");
    cluster.settle().await;
}

#[tokio::test(start_paused = true)]
async fn a_corrupted_file_is_refused() {
    let mut cluster = stopped().await;
    let disk = cluster.voters[&LONE].disk.clone();
    for file in ["identity", "log", "snapshot", "vote"] {
        let contents = disk.contents(file).expect("the file is there");
        for byte in (0..contents.len()).step_by(7) {
            let mut corrupted = contents.clone();
            corrupted[byte] ^= 0x10;
            disk.set_contents(file, corrupted.clone());
            let refused = cluster.start(LONE, Origin::Existing).await;
            let is_corrupt = matches!(&refused,
                Err(EngineError::Store(StoreError::Corrupt { file: name, .. })) if *name == file);
            assert!(is_corrupt, "{file} {byte}: {refused:?}");
            assert_eq!(disk.contents(file), Some(corrupted), "nothing was changed");
        }
        disk.set_contents(file, contents);
    }
    cluster.start(LONE, Origin::Existing).await.expect("all files are as they were");
}

#[tokio::test(start_paused = true)]
async fn a_missing_file_is_refused() {
    for file in ["identity", "log", "snapshot", "vote"] {
        let mut cluster = stopped().await;
        cluster.voters[&LONE].disk.remove(file);
        let refused = cluster.start(LONE, Origin::Existing).await;
        match refused {
            Err(EngineError::Store(StoreError::Wiped(LONE))) if file == "identity" => {}
            Err(EngineError::Store(StoreError::Corrupt { file: name, .. })) if name == file => {}
            other => panic!("{file}: {other:?}"),
        }
        // Not even a new voter takes files that are not its own.
        assert!(cluster.start(LONE, Origin::Founding).await.is_err(), "{file}");
    }
}

#[tokio::test(start_paused = true)]
async fn another_voters_files_are_refused() {
    let mut cluster = stopped().await;
    let voter = cluster.voters.remove(&LONE).expect("the voter");
    cluster.voters.insert(VoterId(2), voter);
    let refused = cluster.start(VoterId(2), Origin::Existing).await;
    let Err(EngineError::Store(StoreError::WrongVoter { found, expected })) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!((found, expected), (LONE, VoterId(2)));
}

#[tokio::test(start_paused = true)]
async fn contradicting_times_are_refused() {
    let mut settings = settings();
    settings.timing.election_min = settings.timing.election_max;
    let mut cluster = Cluster::new(settings, 1);
    let refused = cluster.start(LONE, Origin::Founding).await;
    assert!(matches!(refused, Err(EngineError::Config(_))), "{refused:?}");
}

/// Calls nobody.
struct Alone;

impl Transport for Alone {
    fn call(&self, to: VoterId, _: Vec<u8>) -> Call {
        Box::pin(async move { Err(Unreachable { to, reason: "alone".to_owned() }) })
    }
}

async fn alone(path: &std::path::Path, origin: Origin, list: List) -> Arc<Engine> {
    let disk = Box::new(Directory::open(path).expect("a directory"));
    alone_on(EngineConfig::new(LONE, origin), disk, Box::new(list)).await
}

/// A lone voter that has started on this disk.
pub(crate) async fn alone_on(
    config: EngineConfig,
    disk: Box<dyn Disk>,
    machine: Box<dyn StateMachine>,
) -> Arc<Engine> {
    let watcher = Judge::default().watcher(LONE);
    let engine = Engine::start(config, disk, Arc::new(Alone), machine, watcher);
    let engine = engine.await.expect("it starts");
    engine.sees(&BTreeSet::new());
    Arc::new(engine)
}

async fn wait_for(list: &List, length: usize) {
    while list.0.lock().unwrap().len() < length {
        sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_real_directory_keeps_the_log() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("new").join("consensus");
    let mut decided = 0;
    for round in 0..3 {
        let list = List::default();
        let origin = if round == 0 { Origin::Founding } else { Origin::Existing };
        let engine = alone(&path, origin, list.clone()).await;
        if round == 0 {
            engine.initialize(&ids([1])).await.expect("it is new");
        }
        wait_for(&list, decided).await;
        for number in 0..150 {
            while engine.propose(command(number)).is_err() {
                sleep(Duration::from_millis(5)).await;
            }
        }
        decided += 150;
        wait_for(&list, decided).await;
        assert!(round == 0 || engine.status().snapshot.is_some());
        engine.stop().await;
    }
}

/// Panics on command 13.
struct Unlucky;

impl StateMachine for Unlucky {
    fn apply(&mut self, command: &[u8]) {
        assert_ne!(command[0], 13);
    }

    fn snapshot(&self) -> Vec<u8> {
        Vec::new()
    }

    fn restore(&mut self, _: &[u8]) {}
}

/// Panics when told so.
struct Nervous(Arc<AtomicBool>);

impl Watcher for Nervous {
    fn appended(&mut self, _: u64, _: &[u8]) {
        assert!(!self.0.load(Ordering::Relaxed));
    }

    fn truncated(&mut self, _: u64) {}

    fn snapshot_installed(&mut self, _: &[u8]) {}

    fn decided(&mut self, _: u64, _: &[u8]) {}

    fn leads(&mut self, _: bool) {}
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_reported_as_fatal() {
    for watcher_panics in [false, true] {
        let nervous = Arc::new(AtomicBool::new(watcher_panics));
        let engine = Engine::start(
            EngineConfig::new(LONE, Origin::Founding),
            Box::new(crate::disk::SimDisk::default()),
            Arc::new(Alone),
            Box::new(Unlucky),
            Box::new(Nervous(nervous)),
        );
        let engine = engine.await.expect("it starts");
        engine.sees(&BTreeSet::new());
        engine.initialize(&ids([1])).await.expect("it is new");
        while engine.propose(command(13)).is_err() {
            sleep(Duration::from_millis(5)).await;
        }
        let ended = tokio::time::timeout(Duration::from_secs(60), engine.ended()).await;
        assert_eq!(ended, Ok(Ended::Panicked));
        assert!(engine.propose(command(1)).is_err());
    }
}

#[tokio::test(start_paused = true)]
async fn requests_of_others_are_checked() {
    /// Keeps the first body that it is asked to send.
    struct Keep(Mutex<Option<Vec<u8>>>);

    impl Transport for Keep {
        fn call(&self, to: VoterId, body: Vec<u8>) -> Call {
            self.0.lock().unwrap().get_or_insert(body);
            Alone.call(to, Vec::new())
        }
    }

    let (one, kept) = (VoterId(1), Arc::new(Keep(Mutex::new(None))));
    let start = |id: u64, origin, transport: Arc<dyn Transport>| {
        let judge = Judge::default();
        Engine::start(
            EngineConfig::new(VoterId(id), origin),
            Box::new(crate::disk::SimDisk::default()),
            transport,
            Box::new(List::default()),
            judge.watcher(VoterId(id)),
        )
    };
    let founder = start(1, Origin::Founding, kept.clone()).await.expect("it starts");
    founder.initialize(&ids([1, 2])).await.expect("it is new");
    while kept.0.lock().unwrap().is_none() {
        sleep(Duration::from_millis(5)).await;
    }
    let vote_request = kept.0.lock().unwrap().clone().expect("it asks for a vote");

    let joining = start(2, Origin::Joining, Arc::new(Alone)).await.expect("it starts");
    let founding = start(2, Origin::Founding, Arc::new(Alone)).await.expect("it starts");
    let impostor = HandleError::Impostor { from: VoterId(3), author: one };
    assert_eq!(founding.handle(VoterId(3), &vote_request).await, Err(impostor));
    assert_eq!(founding.handle(one, b"\x01nonsense").await, Err(HandleError::Invalid(one)));
    assert_eq!(founding.handle(one, b"").await, Err(HandleError::Invalid(one)));
    assert_eq!(joining.handle(one, &vote_request).await, Err(HandleError::NoLog));
    assert!(founding.handle(one, &vote_request).await.is_ok());
    founding.stop().await;
    assert_eq!(founding.handle(one, &vote_request).await, Err(HandleError::Ended));
}
