//! Mutua's own client at one node, beside the limit of what a socket allows:
//!
//!     cargo bench -p mutua-server --bench client
//!
//! The node and each client are threads with a runtime of their own. A round trip of a few bytes
//! over a Unix socket, and a pair of lock and unlock over another, are made in turns, so that both
//! run under the same conditions. Prints medians and their ratio, hand-overs between three clients,
//! and pairs of eight clients with a name each.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, Barrier,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use mutua_client::{Client, Options};
use mutua_node::Config;
use mutua_server::serve;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{UnixListener, UnixStream},
};

const ROUNDS: usize = 10_000;
const PERIOD: Duration = Duration::from_secs(2);
/// As long as a request.
const PING: usize = 24;

fn main() {
    let directory = tempfile::tempdir().expect("a directory");
    let (socket, ping) = (directory.path().join("s"), directory.path().join("p"));
    let node = Config::alone(directory.path().join("data"));
    let options = mutua_server::Options { node, socket: socket.clone(), tcp: None, idle: None };
    on_thread(serve(options, std::future::pending()));
    on_thread(echo(ping.clone()));
    run(async {
        let lock = connect(&socket).await.lock("bench");
        let mut stream = loop {
            match UnixStream::connect(&ping).await {
                Ok(stream) => break stream,
                Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        };
        let (mut trips, mut pairs, mut bytes) = (Vec::new(), Vec::new(), [0; PING]);
        for _ in 0..ROUNDS {
            let begun = Instant::now();
            stream.write_all(&bytes).await.expect("written");
            stream.read_exact(&mut bytes).await.expect("read");
            trips.push(begun.elapsed());
            let begun = Instant::now();
            drop(lock.acquire().await.expect("acquired"));
            pairs.push(begun.elapsed());
        }
        let (trip, pair) = (median(trips), median(pairs));
        let ratio = pair.as_secs_f64() / trip.as_secs_f64();
        println!("one round trip {trip:?}, lock and unlock {pair:?}: {ratio:.2}x");
    });
    let (pairs, handovers) = contend(&socket, 3, |_| "contended".to_owned());
    println!("3 clients, one name: {pairs} pairs/s, {handovers} hand-overs/s");
    let (pairs, _) = contend(&socket, 8, |client| format!("name-{client}"));
    println!("8 clients, a name each: {pairs} pairs/s");
}

/// Clients that lock and unlock for a while; returns pairs and hand-overs a second.
fn contend(socket: &Path, clients: usize, name: impl Fn(usize) -> String) -> (u64, u64) {
    let (begin, end) = (Arc::new(Barrier::new(clients + 1)), Arc::new(AtomicBool::new(false)));
    // The last holder, and counts of pairs and of changes of the holder.
    let counts = Arc::new([const { AtomicU64::new(0) }; 3]);
    let work = |client: usize| {
        let (socket, name) = (socket.to_owned(), name(client));
        let (begin, end, counts) = (Arc::clone(&begin), Arc::clone(&end), Arc::clone(&counts));
        thread::spawn(move || {
            run(async {
                let lock = connect(&socket).await.lock(name);
                drop(lock.acquire().await.expect("acquired"));
                begin.wait();
                let me = client as u64 + 1;
                while !end.load(Ordering::Relaxed) {
                    let guard = lock.acquire().await.expect("acquired");
                    let changed = counts[0].swap(me, Ordering::Relaxed) != me;
                    counts[1].fetch_add(1, Ordering::Relaxed);
                    counts[2].fetch_add(u64::from(changed), Ordering::Relaxed);
                    drop(guard);
                }
            });
        })
    };
    let threads: Vec<_> = (0..clients).map(work).collect();
    begin.wait();
    thread::sleep(PERIOD);
    let totals = [1, 2].map(|index: usize| counts[index].load(Ordering::Relaxed));
    end.store(true, Ordering::Relaxed);
    threads.into_iter().for_each(|one| one.join().expect("no panic"));
    let [pairs, handovers] = totals.map(|total| total / PERIOD.as_secs());
    (pairs, handovers)
}

async fn connect(socket: &Path) -> Client {
    let endpoint = format!("unix:{}", socket.display());
    loop {
        let options = Options::new([&*endpoint]).lease(Duration::from_secs(60));
        match options.connect().await {
            Ok(client) => return client,
            Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    }
}

async fn echo(path: PathBuf) {
    let listener = UnixListener::bind(path).expect("bound");
    let (mut stream, _) = listener.accept().await.expect("accepted");
    let mut bytes = [0; PING];
    while stream.read_exact(&mut bytes).await.is_ok() {
        stream.write_all(&bytes).await.expect("written");
    }
}

fn on_thread<T>(future: impl Future<Output = T> + Send + 'static) {
    thread::spawn(|| run(async { drop(future.await) }));
}

fn run(future: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(future);
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
