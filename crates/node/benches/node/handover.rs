//! Handing over between processes, against a bare ring of as many processes that pass one byte.
//!
//! Every process writes down when it got the lock or the byte, and when it let it go. Entering
//! again is no hand-over, and is not counted.

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

const PROCESSES: usize = 3;

/// How long a run takes, and how long somebody is inside at a time.
const RUN: Duration = Duration::from_millis(1500);
const INSIDE: Duration = Duration::from_millis(120);

/// When somebody got it and when it let it go; since boot, in nanoseconds.
type Turn = (u64, u64);

/// Taken in turns, so that what disturbs one disturbs the other; the median of each counts.
const TURNS: usize = 5;

pub(crate) fn measure() {
    let (ours, theirs) = compare(Duration::ZERO, Run::per_second);
    println!(
        "hand-over, {PROCESSES} processes, nothing done inside: {ours:.0} per second, bare ring \
         {theirs:.0}, ratio {:.2} (at least 0.5)",
        ours / theirs
    );
    let (ours, theirs) = compare(INSIDE, Run::median_delay_micros);
    println!(
        "delay from leaving to the next one's entering, {} ms inside: {ours:.0} us, bare ring \
         {theirs:.0} us, ratio {:.2} (at most 2)",
        INSIDE.as_millis(),
        ours / theirs
    );
}

fn compare(inside: Duration, figure: impl Fn(&Run) -> f64) -> (f64, f64) {
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..TURNS {
        theirs.push(figure(&run("ring", inside)));
        ours.push(figure(&run("node", inside)));
    }
    (median(ours), median(theirs))
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// All turns in order, each with the process that had it.
struct Run(Vec<(Turn, usize)>);

impl Run {
    /// From one's turn to the turn of another.
    fn handovers(&self) -> impl Iterator<Item = (Turn, Turn)> {
        let pairs = self.0.windows(2).filter(|pair| pair[0].1 != pair[1].1);
        pairs.map(|pair| (pair[0].0, pair[1].0))
    }

    fn per_second(&self) -> f64 {
        let (first, last) = (self.0.first().expect("turns"), self.0.last().expect("turns"));
        self.handovers().count() as f64 / ((last.0.0 - first.0.0) as f64 / 1e9)
    }

    fn median_delay_micros(&self) -> f64 {
        let delays = self.handovers().map(|(before, after)| after.0.saturating_sub(before.1));
        median(delays.map(|nanos| nanos as f64 / 1e3).collect())
    }
}

/// Runs one kind of child in several processes; their turns in order.
fn run(kind: &str, inside: Duration) -> Run {
    let place = tempfile::tempdir().expect("a directory");
    let members = members(PROCESSES);
    let addresses: Vec<_> = members.iter().map(|member| member.address.as_str()).collect();
    let mut children: Vec<Child> = (0..PROCESSES)
        .map(|me| {
            Command::new(std::env::current_exe().expect("this program"))
                .args(["child", kind, &me.to_string(), &inside.as_millis().to_string()])
                .arg(place.path())
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
        child.stdin.take().expect("its input").write_all(b"go\n").expect("told");
    }
    // Read side by side: a child whose pipe is full would hold up the others.
    let readers: Vec<_> =
        outputs.into_iter().map(|output| std::thread::spawn(move || turns(output))).collect();
    let mut turns = Vec::new();
    for (process, reader) in readers.into_iter().enumerate() {
        turns.extend(reader.join().expect("its turns").into_iter().map(|turn| (turn, process)));
    }
    for mut child in children {
        assert!(child.wait().expect("its end").success());
    }
    turns.sort_unstable();
    Run(turns)
}

fn turns(output: impl BufRead) -> Vec<Turn> {
    let turn = |line: String| {
        let (got, left) = line.split_once(' ').expect("two times");
        (got.parse().expect("a time"), left.parse().expect("a time"))
    };
    output.lines().map(|line| turn(line.expect("a line"))).collect()
}

fn now() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn wait_for_go() {
    println!("ready");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).expect("told to go");
}

fn print(turns: &[Turn]) {
    // In one piece: the others may still be at it.
    let mut out = BufWriter::new(std::io::stdout().lock());
    for (got, left) in turns {
        writeln!(out, "{got} {left}").expect("written");
    }
}

async fn stay_inside(inside: Duration) {
    if !inside.is_zero() {
        sleep(inside).await;
    }
}

/// Passes a byte round.
pub(crate) fn ring_child(arguments: &[&str]) {
    let (me, inside, _, addresses) = parse(arguments);
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let turns = runtime.block_on(async {
        let listener = TcpListener::bind(addresses[me]).await.expect("its port");
        let next = addresses[(me + 1) % addresses.len()];
        let (mut to, (mut from, _)) =
            tokio::try_join!(connect(next), async { listener.accept().await }).expect("a ring");
        for stream in [&to, &from] {
            stream.set_nodelay(true).expect("no delay");
        }
        wait_for_go();
        let (mut turns, mut byte) = (Vec::new(), [0]);
        let end = now() + RUN.as_nanos() as u64;
        if me == 0 {
            to.write_all(&[1]).await.expect("sent");
        }
        loop {
            from.read_exact(&mut byte).await.expect("the byte");
            let got = now();
            // The byte of the end goes round once and is not answered by who sent it.
            if byte == [0] {
                if me != 0 {
                    to.write_all(&[0]).await.expect("sent");
                }
                return turns;
            }
            stay_inside(inside).await;
            let left = now();
            turns.push((got, left));
            let over = me == 0 && left > end;
            to.write_all(&[u8::from(!over)]).await.expect("sent");
        }
    });
    print(&turns);
}

async fn connect(address: &str) -> std::io::Result<TcpStream> {
    loop {
        match TcpStream::connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(_) => sleep(Duration::from_millis(5)).await,
        }
    }
}

/// Wants the lock again and again.
pub(crate) fn node_child(arguments: &[&str]) {
    let (me, inside, place, addresses) = parse(arguments);
    let mut members = members(addresses.len());
    for (member, address) in members.iter_mut().zip(&addresses) {
        member.address = (*address).to_owned();
    }
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let node = Node::start(config(Path::new(place), &members, me)).await.expect("a node");
        node.ready().await;
        let lock = node.lock("contended");
        wait_for_go();
        let client = tokio::spawn(want_again_and_again(lock.clone(), inside));
        print(&client.await.expect("its turns"));
        // The others may still need this node.
        drop(std::io::stdout().lock());
        let others = lock.acquire();
        let _ = tokio::time::timeout(Duration::from_millis(500), others).await;
        sleep(Duration::from_millis(300)).await;
    });
}

async fn want_again_and_again(lock: Lock, inside: Duration) -> Vec<Turn> {
    let mut turns = Vec::new();
    let end = now() + RUN.as_nanos() as u64;
    while now() < end {
        let guard = lock.acquire().await.expect("inside");
        let got = now();
        stay_inside(inside).await;
        let left = now();
        drop(guard);
        turns.push((got, left));
    }
    turns
}

fn parse<'a>(arguments: &[&'a str]) -> (usize, Duration, &'a str, Vec<&'a str>) {
    let [me, inside, place, addresses @ ..] = arguments else { panic!("too few arguments") };
    let inside = Duration::from_millis(inside.parse().expect("milliseconds"));
    (me.parse().expect("a number"), inside, place, addresses.to_vec())
}
