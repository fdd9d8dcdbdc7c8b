//! Real processes that are killed: one algorithm with a token, one with permissions, one with
//! quorums.
//!
//! This program is the test and the processes in one: called with the argument `worker` it runs a
//! node and acquires one lock again and again, and prints when it holds it.

mod cluster;

use std::{
    env,
    io::{self, BufRead, BufReader, Read, Write},
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, Sender, channel},
    thread::{self, JoinHandle},
    time::Duration,
};

use mutua_node::{Config, MemberConfig, Node, Rule};
use rustix::time::{ClockId, clock_gettime};
use tempfile::TempDir;

const ALGORITHMS: [&str; 3] = ["naimi-trehel", "ricart-agrawala", "maekawa"];

const PROCESSES: usize = 3;

/// The number of kills.
const KILLS: usize = 6;

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(30);

fn main() {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let words: Vec<_> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["worker", algorithm, me, directory, addresses @ ..] => {
            work(algorithm, me.parse().expect("a number"), Path::new(directory), addresses);
        }
        words => run_tests(words),
    }
}

/// Implements the command line of a program with tests.
fn run_tests(words: &[&str]) {
    let filters: Vec<_> = words.iter().filter(|word| !word.starts_with("--")).collect();
    let name =
        |algorithm| format!("never_two_hold_the_lock_when_processes_are_killed::{algorithm}");
    for algorithm in ALGORITHMS {
        let name = name(algorithm);
        if words.contains(&"--list") {
            if !words.contains(&"--ignored") {
                println!("{name}: test");
            }
        } else if filters.is_empty() || filters.iter().any(|filter| name.contains(**filter)) {
            let entries = never_two_hold_the_lock_when_processes_are_killed(algorithm);
            println!("test {name} ... ok ({entries} entries)");
        }
    }
}

/// The time for which a process held the lock, and its fencing token. No two overlap.
#[derive(Debug)]
struct Hold {
    from: u64,
    to: u64,
    who: usize,
    fence: u64,
}

enum News {
    Granted { fence: u64, at: u64 },
    Released { at: u64 },
}

fn never_two_hold_the_lock_when_processes_are_killed(algorithm: &str) -> usize {
    let mut scene = Scene::new(algorithm);
    for kill in 0..KILLS {
        scene.all_are_granted();
        // The lock goes round in a fixed order here, so the moment of the kill is moved on each
        // time.
        scene.some_are_granted(kill);
        // Alternately: the holder, the view coordinator, another one.
        let victim = match kill % 3 {
            0 => scene.last_holder,
            1 => 0,
            _ => (kill + 1) % PROCESSES,
        };
        scene.kill(victim);
        scene.start(victim);
    }
    scene.all_are_granted();
    scene.check()
}

struct Scene {
    directory: TempDir,
    members: Vec<MemberConfig>,
    algorithm: String,
    children: Vec<Option<Child>>,
    /// The threads that read the output of each process.
    readers: Vec<Option<JoinHandle<()>>>,
    news: Receiver<(usize, u32, News)>,
    sender: Sender<(usize, u32, News)>,
    /// The incarnation of each process.
    incarnations: Vec<u32>,
    /// Since when each process holds the lock, and with which fencing token.
    holding: Vec<Option<(u64, u64)>>,
    holds: Vec<Hold>,
    last_holder: usize,
}

impl Scene {
    fn new(algorithm: &str) -> Self {
        let (sender, news) = channel();
        let mut scene = Self {
            directory: tempfile::tempdir().expect("a directory"),
            members: cluster::members(PROCESSES),
            algorithm: algorithm.to_owned(),
            children: (0..PROCESSES).map(|_| None).collect(),
            readers: (0..PROCESSES).map(|_| None).collect(),
            news,
            sender,
            incarnations: vec![0; PROCESSES],
            holding: vec![None; PROCESSES],
            holds: Vec::new(),
            last_holder: 0,
        };
        for who in 0..PROCESSES {
            scene.start(who);
        }
        scene
    }

    fn start(&mut self, who: usize) {
        let addresses = self.members.iter().map(|member| &member.address);
        let mut child = Command::new(env::current_exe().expect("this program"))
            .args(["worker", &self.algorithm, &who.to_string()])
            .arg(self.directory.path())
            .args(addresses)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process");
        self.incarnations[who] += 1;
        let (incarnation, sender) = (self.incarnations[who], self.sender.clone());
        let output = BufReader::new(child.stdout.take().expect("its output"));
        // Ends with the process.
        let reader = thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if let Some(news) = parse(&line) {
                    let _ = sender.send((who, incarnation, news));
                }
            }
        });
        self.readers[who] = Some(reader);
        self.children[who] = Some(child);
    }

    /// Kills a process. Its hold lasts until then.
    fn kill(&mut self, who: usize) {
        let mut child = self.children[who].take().expect("a process that runs");
        let sent = now();
        child.kill().expect("killed");
        child.wait().expect("its end");
        // All that it printed before.
        self.readers[who].take().expect("a reader").join().expect("it reads to the end");
        while let Ok((other, incarnation, news)) = self.news.try_recv() {
            self.note(other, incarnation, news);
        }
        if let Some((from, fence)) = self.holding[who].take() {
            self.holds.push(Hold { from, to: sent.max(from), who, fence });
        }
    }

    /// Waits until every process was granted the lock a few times more.
    fn all_are_granted(&mut self) {
        let mut still = [3_usize; PROCESSES];
        while still.iter().any(|&times| times > 0) {
            let (who, incarnation, news) = self.news.recv_timeout(PATIENCE).unwrap_or_else(|_| {
                panic!(
                    "{}: no process is granted the lock, still to come: {still:?}",
                    self.algorithm
                )
            });
            if matches!(news, News::Granted { .. }) && incarnation == self.incarnations[who] {
                still[who] = still[who].saturating_sub(1);
            }
            self.note(who, incarnation, news);
        }
    }

    /// Waits for so many grants to any process.
    fn some_are_granted(&mut self, count: usize) {
        let mut still = count;
        while still > 0 {
            let (who, incarnation, news) = self.news.recv_timeout(PATIENCE).expect("a grant");
            still -= usize::from(matches!(news, News::Granted { .. }));
            self.note(who, incarnation, news);
        }
    }

    fn note(&mut self, who: usize, incarnation: u32, news: News) {
        match news {
            News::Granted { fence, at } => {
                self.last_holder = who;
                // A late line of a killed process counts for its moment only.
                if incarnation == self.incarnations[who] && self.children[who].is_some() {
                    self.holding[who] = Some((at, fence));
                } else {
                    self.holds.push(Hold { from: at, to: at, who, fence });
                }
            }
            News::Released { at } => {
                if let Some((from, fence)) = self.holding[who].take() {
                    self.holds.push(Hold { from, to: at, who, fence });
                }
            }
        }
    }

    /// Checks that no two holds overlap, and that fencing tokens grow with time.
    fn check(mut self) -> usize {
        for child in self.children.iter_mut().flatten() {
            child.kill().expect("ended");
            child.wait().expect("its end");
        }
        self.holds.sort_by_key(|hold| (hold.from, hold.to));
        for pair in self.holds.windows(2) {
            let [one, next] = pair else { unreachable!("pairs") };
            let who = format!("{}: processes {} and {}", self.algorithm, one.who, next.who);
            assert!(one.to <= next.from, "{who} overlap: {one:?}, {next:?}");
            assert!(
                one.fence < next.fence,
                "{who} have fencing tokens that fall: {one:?}, {next:?}"
            );
        }
        self.holds.len()
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        for child in self.children.iter_mut().flatten() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn parse(line: &str) -> Option<News> {
    let words: Vec<_> = line.split(' ').collect();
    match words.as_slice() {
        ["in", fence, at] => {
            Some(News::Granted { fence: fence.parse().ok()?, at: at.parse().ok()? })
        }
        ["out", at] => Some(News::Released { at: at.parse().ok()? }),
        _ => None,
    }
}

/// Runs a process that acquires the lock again and again, until its input ends.
fn work(algorithm: &str, me: usize, directory: &Path, addresses: &[&str]) {
    thread::spawn(|| {
        // The test has ended.
        let _ = io::stdin().read(&mut [0]);
        std::process::exit(0);
    });
    let members: Vec<_> = addresses
        .iter()
        .enumerate()
        .map(|(index, address)| MemberConfig::new(format!("n{index}"), *address))
        .collect();
    let config = Config {
        data: directory.join(format!("n{me}")),
        ..cluster::config_in(directory, &members, me, &[Rule::new("*", algorithm)])
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let node = Node::start(config).await.expect("a node");
        let lock = node.lock("the one");
        loop {
            let guard = lock.acquire().await.expect("a guard");
            print(&format!("in {} {}", guard.fencing_token(), now()));
            tokio::time::sleep(Duration::from_millis(2)).await;
            print(&format!("out {}", now()));
            drop(guard);
        }
    });
}

/// One write, so that a line is printed whole or not at all.
fn print(text: &str) {
    io::stdout().lock().write_all(format!("{text}\n").as_bytes()).expect("written");
}

fn now() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
