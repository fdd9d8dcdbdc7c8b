//! How long a decision takes, from the proposal to the report at the leader: one voter and three,
//! on disks in memory and in a directory below `target`, beside an append and fdatasync there.
//!
//!     cargo bench -p mutua-consensus

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    fs::File,
    io::{self, Write},
    sync::{Arc, Mutex, mpsc},
    time::{Duration, Instant},
};

use mutua_consensus::{
    Call, Directory, Disk, Engine, EngineConfig, Origin, StateMachine, Transport, Unreachable,
    VoterId, Watcher,
};

const SAMPLES: usize = 2000;

fn main() {
    let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let mut file = File::create(scratch.path().join("sync")).expect("a file");
    for voters in [1, 3] {
        let [decision, _] = measure(voters, &|_| Box::<Memory>::default(), &mut || {});
        println!("{voters} voter(s), memory:    {decision}");
        let directory = |id: u64| -> Box<dyn Disk> {
            let path = scratch.path().join(format!("{voters}-{id}"));
            Box::new(Directory::open(path).expect("a directory"))
        };
        let mut sync = || {
            file.write_all(&[1; 64]).and_then(|()| file.sync_data()).expect("it is written");
        };
        let [decision, sync] = measure(voters, &directory, &mut sync);
        let ratio = decision.median.as_secs_f64() / sync.median.as_secs_f64();
        println!("{voters} voter(s), fdatasync: {decision}; {ratio:.1} x one fdatasync: {sync}");
    }
}

struct Times {
    median: Duration,
    high: Duration,
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p50 {:.1?}, p99 {:.1?}", self.median, self.high)
    }
}

fn times(mut samples: Vec<Duration>) -> Times {
    samples.sort();
    Times { median: samples[samples.len() / 2], high: samples[samples.len() * 99 / 100] }
}

/// Times of decisions, each followed by a call of `between`, and the times of that. They alternate
/// because a disk's speed changes within seconds.
fn measure(
    voters: u64,
    disk: &dyn Fn(u64) -> Box<dyn Disk>,
    between: &mut dyn FnMut(),
) -> [Times; 2] {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let (wires, (decided, decisions)) = (Wires::default(), mpsc::channel());
        let ids: BTreeSet<VoterId> = (1..=voters).map(VoterId).collect();
        for id in &ids {
            let engine = Engine::start(
                EngineConfig::new(*id, Origin::Founding),
                disk(id.0),
                Arc::new(Wire { from: *id, wires: wires.clone() }),
                Box::new(Nothing),
                Box::new(Report { decided: (id.0 == 1).then(|| decided.clone()) }),
            );
            let engine = Arc::new(engine.await.expect("it starts"));
            wires.0.lock().unwrap().insert(*id, engine);
        }
        let leader = Arc::clone(&wires.0.lock().unwrap()[&VoterId(1)]);
        leader.initialize(&ids).await.expect("it is new");
        let (mut samples, mut others) = (Vec::new(), Vec::new());
        for number in 0..SAMPLES as u64 {
            while leader.propose(number.to_le_bytes().to_vec()).is_err() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            let start = Instant::now();
            while decisions.try_recv() != Ok(number) {
                assert!(start.elapsed().as_secs() < 10, "the leader has changed: repeat this");
                tokio::task::yield_now().await;
            }
            samples.push(start.elapsed());
            let start = Instant::now();
            between();
            others.push(start.elapsed());
        }
        let engines = std::mem::take(&mut *wires.0.lock().unwrap());
        for engine in engines.values() {
            engine.stop().await;
        }
        [times(samples), times(others)]
    })
}

/// Calls the other engines directly.
#[derive(Clone, Default)]
struct Wires(Arc<Mutex<BTreeMap<VoterId, Arc<Engine>>>>);

struct Wire {
    from: VoterId,
    wires: Wires,
}

impl Transport for Wire {
    fn call(&self, to: VoterId, body: Vec<u8>) -> Call {
        let (from, engine) = (self.from, self.wires.0.lock().unwrap().get(&to).cloned());
        Box::pin(async move {
            let unreachable = || Unreachable { to, reason: "stopped".to_owned() };
            let engine = engine.ok_or_else(unreachable)?;
            engine.handle(from, &body).await.map_err(|_| unreachable())
        })
    }
}

struct Nothing;

impl StateMachine for Nothing {
    fn apply(&mut self, _: &[u8]) {}

    fn snapshot(&self) -> Vec<u8> {
        Vec::new()
    }

    fn restore(&mut self, _: &[u8]) {}
}

struct Report {
    decided: Option<mpsc::Sender<u64>>,
}

impl Watcher for Report {
    fn appended(&mut self, _: u64, _: &[u8]) {}

    fn truncated(&mut self, _: u64) {}

    fn snapshot_installed(&mut self, _: &[u8]) {}

    fn decided(&mut self, _: u64, command: &[u8]) {
        if let Some(decided) = &self.decided {
            let number = u64::from_le_bytes(command.try_into().expect("a number"));
            let _ = decided.send(number);
        }
    }

    fn leads(&mut self, _: bool) {}
}

/// Keeps files in memory.
#[derive(Default)]
struct Memory(BTreeMap<String, Vec<u8>>);

impl Disk for Memory {
    fn read(&mut self, file: &str) -> io::Result<Option<Vec<u8>>> {
        Ok(self.0.get(file).cloned())
    }

    fn write(&mut self, file: &str, contents: &[u8]) -> io::Result<()> {
        self.0.insert(file.to_owned(), contents.to_vec());
        Ok(())
    }

    fn append(&mut self, file: &str, bytes: &[u8]) -> io::Result<()> {
        self.0.get_mut(file).expect("it exists").extend_from_slice(bytes);
        Ok(())
    }

    fn sync(&mut self, _: &str) -> io::Result<()> {
        Ok(())
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        let contents = self.0.remove(from).expect("it exists");
        self.0.insert(to.to_owned(), contents);
        Ok(())
    }

    fn sync_directory(&mut self) -> io::Result<()> {
        Ok(())
    }
}
