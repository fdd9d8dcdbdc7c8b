//! Handing over between processes, against a bare ring of as many processes that pass one byte.
//!
//! Every process prints when it got the lock or the byte, and when it released it. A re-entry is
//! not a hand-over, and is not counted.

use std::{
    io::{BufRead, BufReader, BufWriter, Write},
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use mutua_node::{Lock, Node};
use rustix::time::{ClockId, clock_gettime};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    runtime::Builder,
    time::sleep,
};

use super::reentry::{config, members};

pub(crate) const PROCESSES: usize = 3;

/// The length of a run, and the hold time.
const RUN: Duration = Duration::from_millis(1500);
pub(crate) const HOLD: Duration = Duration::from_millis(120);

/// When a process got it and when it released it; since boot, in nanoseconds.
type Hold = (u64, u64);

/// Both are measured alternately, so that other load disturbs both; the median of each counts.
const ROUNDS: usize = 5;

pub(crate) fn measure() {
    let (ours, theirs) = compare(["node", "ring"], Duration::ZERO, Run::per_second);
    println!(
        "hand-over, {PROCESSES} processes, released at once: {ours:.0} per second, bare ring \
         {theirs:.0}, ratio {:.2} (at least 0.5)",
        ours / theirs
    );
    let (ours, theirs) = compare(["node", "ring"], HOLD, Run::median_delay_micros);
    println!(
        "delay from a release to the next grant, held for {} ms: {ours:.0} us, bare ring \
         {theirs:.0} us, ratio {:.2} (at most 2)",
        HOLD.as_millis(),
        ours / theirs
    );
}

pub(crate) fn compare(
    [our_kind, their_kind]: [&str; 2],
    hold_time: Duration,
    figure: impl Fn(&Run) -> f64,
) -> (f64, f64) {
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        theirs.push(figure(&run(their_kind, hold_time)));
        ours.push(figure(&run(our_kind, hold_time)));
    }
    (median(ours), median(theirs))
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// All holds in order, each with its process.
pub(crate) struct Run(Vec<(Hold, usize)>);

impl Run {
    /// From one hold to that of another process.
    fn handovers(&self) -> impl Iterator<Item = (Hold, Hold)> {
        let pairs = self.0.windows(2).filter(|pair| pair[0].1 != pair[1].1);
        pairs.map(|pair| (pair[0].0, pair[1].0))
    }

    pub(crate) fn per_second(&self) -> f64 {
        let (first, last) = (self.0.first().expect("holds"), self.0.last().expect("holds"));
        self.handovers().count() as f64 / ((last.0.0 - first.0.0) as f64 / 1e9)
    }

    pub(crate) fn median_delay_micros(&self) -> f64 {
        let delays = self.handovers().map(|(before, after)| after.0.saturating_sub(before.1));
        median(delays.map(|nanos| nanos as f64 / 1e3).collect())
    }
}

/// Runs one kind of child in several processes; returns their holds in order.
fn run(kind: &str, hold_time: Duration) -> Run {
    let directory = tempfile::tempdir().expect("a directory");
    let members = members(PROCESSES);
    let addresses: Vec<_> = members.iter().map(|member| member.address.as_str()).collect();
    if kind == "node-tls" {
        super::tls::make_certificates(directory.path(), &members);
    }
    let mut children: Vec<Child> = (0..PROCESSES)
        .map(|me| {
            Command::new(std::env::current_exe().expect("this program"))
                .args(["child", kind, &me.to_string(), &hold_time.as_millis().to_string()])
                .arg(directory.path())
                .args(&addresses)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .expect("a child")
        })
        .collect();
    let mut outputs: Vec<_> = children
        .iter_mut()
        .map(|child| BufReader::new(child.stdout.take().expect("its output")))
        .collect();
    // All are ready before any begins.
    for output in &mut outputs {
        let mut line = String::new();
        output.read_line(&mut line).expect("its first line");
        assert_eq!(line, "ready\n");
    }
    for child in &mut children {
        child.stdin.take().expect("its input").write_all(b"go\n").expect("started");
    }
    // Read in parallel: a child whose pipe is full would hold up the others.
    let readers: Vec<_> =
        outputs.into_iter().map(|output| std::thread::spawn(move || holds(output))).collect();
    let mut holds = Vec::new();
    for (process, reader) in readers.into_iter().enumerate() {
        holds.extend(reader.join().expect("its holds").into_iter().map(|hold| (hold, process)));
    }
    for mut child in children {
        assert!(child.wait().expect("its end").success());
    }
    holds.sort_unstable();
    Run(holds)
}

fn holds(output: impl BufRead) -> Vec<Hold> {
    let hold = |line: String| {
        let (got, left) = line.split_once(' ').expect("two times");
        (got.parse().expect("a time"), left.parse().expect("a time"))
    };
    output.lines().map(|line| hold(line.expect("a line"))).collect()
}

fn now() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn wait_for_go() {
    println!("ready");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).expect("a line");
}

fn print(holds: &[Hold]) {
    // In one piece: the others may still print.
    let mut out = BufWriter::new(std::io::stdout().lock());
    for (got, left) in holds {
        writeln!(out, "{got} {left}").expect("written");
    }
}

async fn hold(hold_time: Duration) {
    if !hold_time.is_zero() {
        sleep(hold_time).await;
    }
}

/// Passes a byte round.
pub(crate) fn ring_child(arguments: &[&str]) {
    let (me, hold_time, _, addresses) = parse(arguments);
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let holds = runtime.block_on(async {
        let listener = TcpListener::bind(addresses[me]).await.expect("its port");
        let next = addresses[(me + 1) % addresses.len()];
        let (mut to, (mut from, _)) =
            tokio::try_join!(connect(next), async { listener.accept().await }).expect("a ring");
        for stream in [&to, &from] {
            stream.set_nodelay(true).expect("no delay");
        }
        wait_for_go();
        let (mut holds, mut byte) = (Vec::new(), [0]);
        let end = now() + RUN.as_nanos() as u64;
        if me == 0 {
            to.write_all(&[1]).await.expect("sent");
        }
        loop {
            from.read_exact(&mut byte).await.expect("the byte");
            let got = now();
            // The last byte goes round once and is not answered by its sender.
            if byte == [0] {
                if me != 0 {
                    to.write_all(&[0]).await.expect("sent");
                }
                return holds;
            }
            hold(hold_time).await;
            let left = now();
            holds.push((got, left));
            let over = me == 0 && left > end;
            to.write_all(&[u8::from(!over)]).await.expect("sent");
        }
    });
    print(&holds);
}

async fn connect(address: &str) -> std::io::Result<TcpStream> {
    loop {
        match TcpStream::connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(_) => sleep(Duration::from_millis(5)).await,
        }
    }
}

/// Acquires the lock again and again.
pub(crate) fn node_child(arguments: &[&str], with_tls: bool) {
    let (me, hold_time, directory, addresses) = parse(arguments);
    let mut members = members(addresses.len());
    for (member, address) in members.iter_mut().zip(&addresses) {
        member.address = (*address).to_owned();
    }
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let mut config = config(Path::new(directory), &members, me);
        config.tls = with_tls.then(|| super::tls::files(Path::new(directory), &members[me].name));
        let node = Node::start(config).await.expect("a node");
        node.ready().await;
        let lock = node.lock("contended");
        wait_for_go();
        let client = tokio::spawn(acquire_repeatedly(lock.clone(), hold_time));
        print(&client.await.expect("its holds"));
        // The others may still need this node.
        drop(std::io::stdout().lock());
        let others = lock.acquire();
        let _ = tokio::time::timeout(Duration::from_millis(500), others).await;
        sleep(Duration::from_millis(300)).await;
    });
}

async fn acquire_repeatedly(lock: Lock, hold_time: Duration) -> Vec<Hold> {
    let mut holds = Vec::new();
    let end = now() + RUN.as_nanos() as u64;
    while now() < end {
        let guard = lock.acquire().await.expect("a guard");
        let got = now();
        hold(hold_time).await;
        let left = now();
        drop(guard);
        holds.push((got, left));
    }
    holds
}

fn parse<'a>(arguments: &[&'a str]) -> (usize, Duration, &'a str, Vec<&'a str>) {
    let [me, hold_time, directory, addresses @ ..] = arguments else { panic!("too few arguments") };
    let hold_time = Duration::from_millis(hold_time.parse().expect("milliseconds"));
    (me.parse().expect("a number"), hold_time, directory, addresses.to_vec())
}
