//! A contender: a process of its own that gets its work on the command line, starts on the driver's
//! signal, works for a while, and reports. It writes `ready` and `done` to the driver and reads `go`
//! and `end` from it; when the driver has ended, it ends too.

mod holder_file;
mod record;

pub(crate) use record::read as read_records;

use std::{cell::RefCell, rc::Rc, time::Duration};

use anyhow::{Context, Result, bail};
use futures_util::future::try_join_all;
use tokio::io::{AsyncBufReadExt, BufReader, Stdin};

use crate::{
    clients::{
        Flock, Grpc, Library, Lock, Mutex, MutuaClient, Ping, Postgres, Redis, Redlock, Ring, Wait,
        Zookeeper,
    },
    machine::{cpu_ns, now, resident_kib},
    spec::{Client, Done, Record, Spec, Work},
};
use holder_file::HolderFile;

/// Pairs shorter than this are timed in batches, so that reading the clock does not count.
const SHORT: Duration = Duration::from_micros(5);
const BATCH: u32 = 500;

/// Runs a contender to its end.
pub(crate) async fn run(spec: &Spec) -> Result<()> {
    let me = spec.me;
    let of = |endpoints: &[String]| endpoints[me % endpoints.len()].clone();
    match &spec.client {
        Client::Library { algorithm, addresses, directory } => {
            let node = Library::start(directory, algorithm, addresses, me).await?;
            serve(spec, (0..spec.tasks).map(|_| Library::new(&node)).collect()).await
        }
        Client::Mutua { endpoints } => one(spec, MutuaClient::connect(&of(endpoints)).await?).await,
        Client::Grpc { endpoints } => one(spec, Grpc::connect(&of(endpoints)).await?).await,
        Client::Zookeeper { endpoints } => {
            one(spec, Zookeeper::connect(&of(endpoints)).await?).await
        }
        Client::RedisPoll { endpoint } => {
            one(spec, Redis::connect(endpoint, Wait::Poll).await?).await
        }
        Client::RedisBlpop { endpoint } => {
            one(spec, Redis::connect(endpoint, Wait::List).await?).await
        }
        Client::Redlock { endpoints } => one(spec, Redlock::connect(endpoints).await?).await,
        Client::Postgres { endpoint } => one(spec, Postgres::connect(endpoint).await?).await,
        Client::Flock { directory } => one(spec, Flock::new(directory)).await,
        Client::Ring { addresses } => one(spec, Ring::join(addresses, me).await?).await,
        Client::Ping { endpoint } => one(spec, Ping::connect(endpoint).await?).await,
        Client::Mutex => one(spec, Mutex::default()).await,
    }
}

async fn one(spec: &Spec, lock: impl Lock) -> Result<()> {
    serve(spec, vec![lock]).await
}

/// The conversation with the driver.
async fn serve<L: Lock>(spec: &Spec, mut locks: Vec<L>) -> Result<()> {
    let mut driver = BufReader::new(tokio::io::stdin());
    let idle_kib = resident_kib(std::process::id());
    prepare(spec, &mut locks).await?;
    println!("ready");
    let (start, end) = wait_for_go(&mut driver).await?;
    tokio::time::sleep(Duration::from_nanos(start.saturating_sub(now()))).await;
    let before = cpu_ns();
    let mut done = work(spec, &mut locks, end).await?;
    done.cpu_ns = cpu_ns() - before;
    done.idle_kib = idle_kib;
    done.loaded_kib = resident_kib(std::process::id());
    println!("done {}", serde_json::to_string(&done)?);
    // The others may need this one's node.
    driver.read_line(&mut String::new()).await?;
    Ok(())
}

async fn prepare<L: Lock>(spec: &Spec, locks: &mut [L]) -> Result<()> {
    let name = match &spec.work {
        Work::Idle | Work::Fresh => return Ok(()),
        Work::Pairs { name } => name,
        Work::Contend { .. } => "contended",
    };
    for lock in locks.iter_mut() {
        lock.name(name).await?;
    }
    // The first entry finds the token, prepares statements and loads scripts.
    if matches!(spec.work, Work::Pairs { .. }) {
        for lock in locks {
            lock.lock().await?;
            lock.unlock().await?;
        }
    }
    Ok(())
}

async fn wait_for_go(driver: &mut BufReader<Stdin>) -> Result<(u64, u64)> {
    let mut line = String::new();
    driver.read_line(&mut line).await?;
    let words: Vec<_> = line.split_whitespace().collect();
    let ["go", start, end] = words.as_slice() else {
        bail!("expected `go`, got `{}`", line.trim())
    };
    Ok((start.parse()?, end.parse()?))
}

async fn work<L: Lock>(spec: &Spec, locks: &mut Vec<L>, end: u64) -> Result<Done> {
    match &spec.work {
        Work::Idle => Ok(Done::default()),
        Work::Pairs { .. } => pairs(locks.first_mut().context("no lock")?, end).await,
        Work::Fresh => fresh(locks.first_mut().context("no lock")?, end).await,
        Work::Contend { hold_us, holder_file } => {
            let hold = Duration::from_micros(*hold_us);
            let holder_file = HolderFile::open(holder_file)?;
            contend(spec, std::mem::take(locks), hold, &holder_file, end).await
        }
    }
}

async fn pairs<L: Lock>(lock: &mut L, end: u64) -> Result<Done> {
    let begun = now();
    let mut done = Done::default();
    let mut batch = 1;
    while now() < end {
        let from = now();
        for _ in 0..batch {
            lock.lock().await?;
            lock.unlock().await?;
        }
        let took = (now() - from) as f64 / f64::from(batch);
        done.pair_ns.push(took);
        done.pairs += u64::from(batch);
        batch = if took < SHORT.as_nanos() as f64 { BATCH } else { 1 };
    }
    done.pairs_ns = now() - begun;
    Ok(done)
}

async fn fresh<L: Lock>(lock: &mut L, end: u64) -> Result<Done> {
    let begun = now();
    let mut done = Done::default();
    while now() < end {
        let name = format!("fresh-{}", done.pairs);
        let from = now();
        lock.name(&name).await?;
        lock.lock().await?;
        lock.unlock().await?;
        done.pair_ns.push((now() - from) as f64);
        done.pairs += 1;
    }
    done.pairs_ns = now() - begun;
    Ok(done)
}

async fn contend<L: Lock>(
    spec: &Spec,
    locks: Vec<L>,
    hold: Duration,
    holder_file: &HolderFile,
    end: u64,
) -> Result<Done> {
    let overlaps = Rc::new(RefCell::new(0));
    let mut loops = Vec::new();
    for (task, lock) in locks.into_iter().enumerate() {
        let name = u64::try_from(task * spec.processes + spec.me + 1)?;
        loops.push(enter_again(
            lock,
            name,
            hold,
            holder_file.try_clone()?,
            Rc::clone(&overlaps),
            end,
        ));
    }
    let (mut kept, all): (Vec<L>, Vec<_>) = try_join_all(loops).await?.into_iter().unzip();
    for lock in &mut kept {
        lock.finish().await?;
    }
    record::write(&spec.records, &all)?;
    // A lock that is dropped would leave the ring or the cluster, which others may still need.
    std::mem::forget(kept);
    Ok(Done { overlaps: overlaps.take(), ..Done::default() })
}

/// One contender's loop, the same for every system: request, record the entry, hold, record the
/// exit, release, and request again at once. Whether others get their turn depends on the lock.
async fn enter_again<L: Lock>(
    mut lock: L,
    me: u64,
    hold: Duration,
    holder_file: HolderFile,
    overlaps: Rc<RefCell<u64>>,
    end: u64,
) -> Result<(L, Vec<Record>)> {
    let mut records = Vec::new();
    loop {
        let requested = now();
        if requested >= end {
            return Ok((lock, records));
        }
        lock.lock().await?;
        let entered = now();
        // What comes after the end does not count, so that the end needs no order.
        let counts = entered < end;
        if counts && !holder_file.enter(me)? {
            *overlaps.borrow_mut() += 1;
        }
        if counts && !hold.is_zero() {
            tokio::time::sleep(hold).await;
        }
        if counts && !holder_file.exit(me)? {
            *overlaps.borrow_mut() += 1;
        }
        let (exited, fencing_token) = (now(), lock.fencing_token());
        lock.unlock().await?;
        records.push(Record { requested, entered, exited, fencing_token });
    }
}
