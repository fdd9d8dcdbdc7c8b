//! Real processes that are killed: one algorithm with a token, one with permissions, one with
//! quorums.
//!
//! This program is the test and the processes in one: called with the word `worker` it runs a node
//! and wants one lock again and again, writing down when it is inside.

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

/// How often somebody is killed.
const KILLS: usize = 6;

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(30);

fn main() {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let words: Vec<_> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["worker", algorithm, me, place, addresses @ ..] => {
            work(algorithm, me.parse().expect("a number"), Path::new(place), addresses);
        }
        words => run_tests(words),
    }
}

/// What a test runner expects of a program with tests.
fn run_tests(words: &[&str]) {
    let filters: Vec<_> = words.iter().filter(|word| !word.starts_with("--")).collect();
    let name = |algorithm| format!("nobody_meets_anybody_inside_when_processes_die::{algorithm}");
    for algorithm in ALGORITHMS {
        let name = name(algorithm);
        if words.contains(&"--list") {
            if !words.contains(&"--ignored") {
                println!("{name}: test");
            }
        } else if filters.is_empty() || filters.iter().any(|filter| name.contains(**filter)) {
            let entries = nobody_meets_anybody_inside_when_processes_die(algorithm);
            println!("test {name} ... ok ({entries} entries)");
        }
    }
}

/// One who was inside: from when to when, who, with which fence. Nobody else may be at the same
/// time.
#[derive(Debug)]
struct Stay {
    from: u64,
    to: u64,
    who: usize,
    fence: u64,
}

enum News {
    Entered { fence: u64, at: u64 },
    Left { at: u64 },
}

fn nobody_meets_anybody_inside_when_processes_die(algorithm: &str) -> usize {
    let mut scene = Scene::new(algorithm);
    for kill in 0..KILLS {
        scene.everybody_gets_in();
        // The lock goes round in a fixed order here, so the moment is moved on each time.
        scene.some_get_in(kill);
        // In turns: the one who is inside, the chair of views, somebody else.
        let victim = match kill % 3 {
            0 => scene.last_inside,
            1 => 0,
            _ => (kill + 1) % PROCESSES,
        };
        scene.kill(victim);
        scene.start(victim);
    }
    scene.everybody_gets_in();
    scene.check()
}

struct Scene {
    place: TempDir,
    members: Vec<MemberConfig>,
    algorithm: String,
    children: Vec<Option<Child>>,
    /// Who listens to each of them.
    listeners: Vec<Option<JoinHandle<()>>>,
    news: Receiver<(usize, u32, News)>,
    sender: Sender<(usize, u32, News)>,
    /// Which life of each process it is.
    lives: Vec<u32>,
    /// Since when somebody is inside, and with which fence.
    inside: Vec<Option<(u64, u64)>>,
    stays: Vec<Stay>,
    last_inside: usize,
}

impl Scene {
    fn new(algorithm: &str) -> Self {
        let (sender, news) = channel();
        let mut scene = Self {
            place: tempfile::tempdir().expect("a directory"),
            members: cluster::members(PROCESSES),
            algorithm: algorithm.to_owned(),
            children: (0..PROCESSES).map(|_| None).collect(),
            listeners: (0..PROCESSES).map(|_| None).collect(),
            news,
            sender,
            lives: vec![0; PROCESSES],
            inside: vec![None; PROCESSES],
            stays: Vec::new(),
            last_inside: 0,
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
            .arg(self.place.path())
            .args(addresses)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process");
        self.lives[who] += 1;
        let (life, sender) = (self.lives[who], self.sender.clone());
        let output = BufReader::new(child.stdout.take().expect("its output"));
        // Ends with the process it listens to.
        let listener = thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if let Some(news) = parse(&line) {
                    let _ = sender.send((who, life, news));
                }
            }
        });
        self.listeners[who] = Some(listener);
        self.children[who] = Some(child);
    }

    /// Kills a process. Whatever it was inside lasts until then.
    fn kill(&mut self, who: usize) {
        let mut child = self.children[who].take().expect("a process that runs");
        let sent = now();
        child.kill().expect("killed");
        child.wait().expect("its end");
        // What it managed to say before, once all of it has been heard.
        self.listeners[who].take().expect("a listener").join().expect("it listens to the end");
        while let Ok((other, life, news)) = self.news.try_recv() {
            self.note(other, life, news);
        }
        if let Some((from, fence)) = self.inside[who].take() {
            self.stays.push(Stay { from, to: sent.max(from), who, fence });
        }
    }

    /// Waits until every process has been inside a few times more.
    fn everybody_gets_in(&mut self) {
        let mut missing = [3_usize; PROCESSES];
        while missing.iter().any(|&times| times > 0) {
            let (who, life, news) = self.news.recv_timeout(PATIENCE).unwrap_or_else(|_| {
                panic!("{}: nobody gets in, still to come: {missing:?}", self.algorithm)
            });
            if matches!(news, News::Entered { .. }) && life == self.lives[who] {
                missing[who] = missing[who].saturating_sub(1);
            }
            self.note(who, life, news);
        }
    }

    /// Waits for so many entries, whoever's.
    fn some_get_in(&mut self, count: usize) {
        let mut missing = count;
        while missing > 0 {
            let (who, life, news) = self.news.recv_timeout(PATIENCE).expect("somebody gets in");
            missing -= usize::from(matches!(news, News::Entered { .. }));
            self.note(who, life, news);
        }
    }

    fn note(&mut self, who: usize, life: u32, news: News) {
        match news {
            News::Entered { fence, at } => {
                self.last_inside = who;
                // A late word of one who is dead counts for nothing but its moment.
                if life == self.lives[who] && self.children[who].is_some() {
                    self.inside[who] = Some((at, fence));
                } else {
                    self.stays.push(Stay { from: at, to: at, who, fence });
                }
            }
            News::Left { at } => {
                if let Some((from, fence)) = self.inside[who].take() {
                    self.stays.push(Stay { from, to: at, who, fence });
                }
            }
        }
    }

    /// No two stays overlap, and fences grow with time.
    fn check(mut self) -> usize {
        for child in self.children.iter_mut().flatten() {
            child.kill().expect("ended");
            child.wait().expect("its end");
        }
        self.stays.sort_by_key(|stay| (stay.from, stay.to));
        for pair in self.stays.windows(2) {
            let [one, next] = pair else { unreachable!("pairs") };
            let who = format!("{}: processes {} and {}", self.algorithm, one.who, next.who);
            assert!(one.to <= next.from, "{who} overlap: {one:?}, {next:?}");
            assert!(one.fence < next.fence, "{who} have fences that fall: {one:?}, {next:?}");
        }
        self.stays.len()
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
            Some(News::Entered { fence: fence.parse().ok()?, at: at.parse().ok()? })
        }
        ["out", at] => Some(News::Left { at: at.parse().ok()? }),
        _ => None,
    }
}

/// A process that wants the lock again and again, until its input ends.
fn work(algorithm: &str, me: usize, place: &Path, addresses: &[&str]) {
    thread::spawn(|| {
        // Nobody is left to work for.
        let _ = io::stdin().read(&mut [0]);
        std::process::exit(0);
    });
    let members: Vec<_> = addresses
        .iter()
        .enumerate()
        .map(|(place, address)| MemberConfig {
            name: format!("n{place}"),
            address: (*address).to_owned(),
        })
        .collect();
    let config = Config {
        data: place.join(format!("n{me}")),
        ..cluster::config_in(place, &members, me, &[Rule::new("*", algorithm)])
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let node = Node::start(config).await.expect("a node");
        let lock = node.lock("the one");
        loop {
            let guard = lock.acquire().await.expect("inside");
            say(&format!("in {} {}", guard.fence(), now()));
            tokio::time::sleep(Duration::from_millis(2)).await;
            say(&format!("out {}", now()));
            drop(guard);
        }
    });
}

/// One write, so that a line is there whole or not at all.
fn say(text: &str) {
    io::stdout().lock().write_all(format!("{text}\n").as_bytes()).expect("said");
}

fn now() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
