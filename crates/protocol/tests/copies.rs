//! Two processes run as one member, as with a cloned machine or a copied configuration: never two
//! holders, whichever process connects first, and the right one is in the view again when the other
//! one is stopped.
//!
//! One seed decides every delay, every dialled process and every broken link. The link between the
//! original and one other member may be down for long, so that this member accepts the copy; the
//! original's other links last. (A process that is cut off from all others at once looks like one
//! that has ended; see `protocol/fixed_list.rs`.)

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
    sync::Arc,
    time::Duration,
};

use mutua_algorithms::split_mix::Dice;
use mutua_protocol::{
    Answer, Connection, Effect, Hello, Limits, LockId, Member, Moment, Plan, Protocol,
    ProtocolConfig, Rejected, Ticket, ViewSource, WireError,
};

const MEMBERS: usize = 3;
const LOST_AFTER: Duration = Duration::from_millis(300);

/// When the copy is stopped, and until when every member must have got the lock after that.
const STOP: Duration = Duration::from_secs(6);
const RECOVERY: Duration = Duration::from_secs(20);

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Client {
    Idle,
    Waiting(Ticket),
    Holding(Ticket),
}

struct Process {
    member: usize,
    protocol: Option<Protocol>,
    lock: Option<LockId>,
    client: Client,
    entries: u32,
    /// When it is to be called next.
    wake: Moment,
}

/// A connection from `ends[0]`, which dials, to `ends[1]`.
struct Wire {
    ends: [usize; 2],
    alive: bool,
    greeted: [bool; 2],
    /// When the last bytes to each end arrive: order is kept.
    last: [Moment; 2],
}

enum Event {
    Start { process: usize },
    Stop { process: usize },
    Dial { from: usize, member: usize },
    Bytes { wire: usize, end: usize, bytes: Vec<u8> },
    Closed { wire: usize, end: usize, by_other: bool },
    Tick { process: usize },
    Written { process: usize, epoch: u32 },
    Client { process: usize },
    Break,
    Heal,
}

struct World {
    now: Moment,
    dice: Dice,
    /// The members, and the copy behind them.
    processes: Vec<Process>,
    copied: usize,
    /// The member whose link to the original may be down for long.
    victim: usize,
    cut: bool,
    wires: Vec<Wire>,
    queue: BinaryHeap<Reverse<(Moment, u64)>>,
    events: BTreeMap<u64, Event>,
    numbers: u64,
    holder: Option<usize>,
    fence: u64,
    conflicts: u32,
    log: Vec<String>,
}

const COPY: usize = MEMBERS;

impl World {
    fn new(seed: u64) -> Self {
        let mut dice = Dice(seed);
        let copied = dice.below(MEMBERS as u64) as usize;
        let victim = (copied + 1 + dice.below(2) as usize) % MEMBERS;
        let process = |member| Process {
            member,
            protocol: None,
            lock: None,
            client: Client::Idle,
            entries: 0,
            wake: Moment::NEVER,
        };
        let mut world = Self {
            now: Moment::ZERO,
            dice,
            processes: (0..MEMBERS).chain([copied]).map(process).collect(),
            copied,
            victim,
            cut: false,
            wires: Vec::new(),
            queue: BinaryHeap::new(),
            events: BTreeMap::new(),
            numbers: 0,
            holder: None,
            fence: 0,
            conflicts: 0,
            log: Vec::new(),
        };
        for process in 0..=COPY {
            let wait = world.dice.micros(0, 1_000_000);
            world.after(wait, Event::Start { process });
        }
        world.after(STOP, Event::Stop { process: COPY });
        world.after(Duration::from_millis(1500), Event::Break);
        world
    }

    fn after(&mut self, wait: Duration, event: Event) {
        self.at(self.now.after(wait), event);
    }

    fn at(&mut self, at: Moment, event: Event) {
        self.numbers += 1;
        self.queue.push(Reverse((at, self.numbers)));
        self.events.insert(self.numbers, event);
    }

    fn run_until(&mut self, end: Moment) {
        while let Some(&Reverse((at, number))) = self.queue.peek()
            && at <= end
        {
            self.queue.pop();
            self.now = at;
            let event = self.events.remove(&number).expect("an event once");
            self.handle(event);
        }
        self.now = end;
    }

    fn handle(&mut self, event: Event) {
        let now = self.now;
        match event {
            Event::Start { process } => self.start(process),
            Event::Stop { process } => self.stop(process),
            Event::Dial { from, member } => self.dial(from, member),
            Event::Bytes { wire, end, bytes } => self.arrive(wire, end, &bytes),
            Event::Closed { wire, end, by_other } => {
                let (at, peer) = (self.wires[wire].ends[end], self.peer(wire, end));
                let connection = Connection(wire as u64);
                self.call(at, |protocol| match by_other {
                    true => protocol.disconnected(now, peer, connection),
                    false => protocol.broken(now, peer, connection),
                });
            }
            Event::Tick { process } => {
                if self.processes[process].wake <= now {
                    self.processes[process].wake = Moment::NEVER;
                    self.call(process, |protocol| protocol.tick(now));
                }
            }
            Event::Written { process, epoch } => {
                self.call(process, |protocol| protocol.written(now, epoch));
            }
            Event::Client { process } => self.on_client(process),
            Event::Break => self.break_some(),
            Event::Heal => self.cut = false,
        }
    }

    fn start(&mut self, process: usize) {
        let member = self.processes[process].member;
        let config = ProtocolConfig {
            cluster: "test".to_owned(),
            names: (0..MEMBERS).map(|member| format!("n{member}")).collect(),
            me: Member(member as u32),
            plan: Arc::new(Plan::new(MEMBERS as u32, &[]).expect("the default rule")),
            incarnation: process as u64 + 100,
            epoch: 0,
            limits: Limits {
                lost_after: LOST_AFTER,
                heartbeat: Duration::from_millis(80),
                ..Limits::default()
            },
            views: ViewSource::FixedList,
        };
        let mut protocol = Protocol::new(self.now, config);
        self.processes[process].lock = Some(protocol.open(b"x").expect("a short name"));
        self.processes[process].protocol = Some(protocol);
        self.call(process, |_| ());
        for to in 0..member {
            let wait = self.dice.micros(10, 2000);
            self.after(wait, Event::Dial { from: process, member: to });
        }
        self.after(Duration::from_millis(1), Event::Client { process });
    }

    /// The process ends: the system closes its connections.
    fn stop(&mut self, process: usize) {
        self.note(format!("process {process} ends"));
        self.processes[process].protocol = None;
        if self.holder == Some(process) {
            self.holder = None;
        }
        for wire in 0..self.wires.len() {
            if let Some(end) = self.wires[wire].ends.iter().position(|&one| one == process) {
                self.close(wire, Some(end));
            }
        }
        self.processes.iter_mut().for_each(|process| process.entries = 0);
    }

    /// Dials one of the processes that have this member's address.
    fn dial(&mut self, from: usize, member: usize) {
        let connected = self.wires.iter().any(|wire| {
            wire.alive && wire.ends[0] == from && self.processes[wire.ends[1]].member == member
        });
        if self.processes[from].protocol.is_none() || connected {
            return;
        }
        let there: Vec<_> = (0..=COPY)
            .filter(|&one| self.processes[one].member == member)
            .filter(|&one| self.processes[one].protocol.is_some() && !self.is_cut(from, one))
            .collect();
        if there.is_empty() {
            let wait = self.dice.micros(5000, 40_000);
            return self.after(wait, Event::Dial { from, member });
        }
        let to = there[self.dice.below(there.len() as u64) as usize];
        let wire = self.wires.len();
        self.wires.push(Wire {
            ends: [from, to],
            alive: true,
            greeted: [false; 2],
            last: [self.now; 2],
        });
        let protocol = self.processes[from].protocol.as_mut().expect("it runs");
        let hello = protocol.hello(Member(member as u32));
        self.send(wire, 1, hello);
    }

    fn is_cut(&self, one: usize, other: usize) -> bool {
        let pair = [one.min(other), one.max(other)];
        self.cut && pair == [self.copied.min(self.victim), self.copied.max(self.victim)]
    }

    fn peer(&self, wire: usize, end: usize) -> Member {
        Member(self.processes[self.wires[wire].ends[1 - end]].member as u32)
    }

    fn send(&mut self, wire: usize, end: usize, bytes: Vec<u8>) {
        let wait = if self.dice.below(50) == 0 {
            self.dice.micros(1000, 30_000)
        } else {
            self.dice.micros(50, 1500)
        };
        let last = &mut self.wires[wire].last[end];
        *last = self.now.after(wait).max(last.after(Duration::from_nanos(1)));
        let at = *last;
        self.at(at, Event::Bytes { wire, end, bytes });
    }

    fn arrive(&mut self, wire: usize, end: usize, bytes: &[u8]) {
        let at = self.wires[wire].ends[end];
        if !self.wires[wire].alive || self.processes[at].protocol.is_none() {
            return;
        }
        let (now, connection) = (self.now, Connection(wire as u64));
        let peer = self.peer(wire, end);
        let mut rest = bytes;
        if !std::mem::replace(&mut self.wires[wire].greeted[end], true) {
            match Hello::decode(bytes) {
                Ok(hello) => {
                    let (hello, length) = hello.expect("a whole hello");
                    rest = &bytes[length..];
                    if !self.greet(wire, end, &hello) {
                        return;
                    }
                }
                Err(WireError::Refused(why)) => {
                    self.call(at, |protocol| protocol.refused(now, peer, &why));
                    return self.close(wire, Some(1 - end));
                }
                Err(other) => panic!("no hello: {other}"),
            }
        }
        if !rest.is_empty() {
            self.call(at, |protocol| protocol.received(now, peer, connection, rest));
        }
    }

    fn greet(&mut self, wire: usize, end: usize, hello: &Hello) -> bool {
        let (now, at, connection) = (self.now, self.wires[wire].ends[end], Connection(wire as u64));
        let protocol = self.processes[at].protocol.as_mut().expect("it runs");
        match protocol.connected(now, connection, hello) {
            Ok(_) if end == 1 => {
                let answer = protocol.hello(hello.from);
                self.send(wire, 0, answer);
            }
            Ok(_) => {}
            Err(rejected @ Rejected::Conflict { .. }) => {
                self.conflicts += 1;
                if end == 1 {
                    self.send(wire, 0, rejected.answer(None));
                } else {
                    self.close(wire, Some(end));
                }
                return false;
            }
            Err(other) => panic!("{other}"),
        }
        self.call(at, |_| ());
        true
    }

    /// A connection ends: the process at one end has closed it, or the network broke it.
    fn close(&mut self, wire: usize, by: Option<usize>) {
        if !std::mem::replace(&mut self.wires[wire].alive, false) {
            return;
        }
        for end in 0..2 {
            let wait = self.dice.micros(1, 900);
            self.after(wait, Event::Closed { wire, end, by_other: by == Some(1 - end) });
        }
        let [from, to] = self.wires[wire].ends;
        let (wait, member) = (self.dice.micros(2000, 40_000), self.processes[to].member);
        self.after(wait, Event::Dial { from, member });
    }

    /// A link breaks: that of the original to the victim, sometimes for long, or one of the copy.
    fn break_some(&mut self) {
        if self.processes[COPY].protocol.is_none() && self.now > Moment::ZERO.after(STOP) {
            return;
        }
        let original = self.dice.below(2) == 0;
        let pair = [self.copied, self.victim];
        let broken = |wire: &Wire| match original {
            true => wire.ends.iter().all(|end| pair.contains(end)),
            false => wire.ends.contains(&COPY),
        };
        for wire in 0..self.wires.len() {
            if broken(&self.wires[wire]) {
                self.close(wire, None);
            }
        }
        if original {
            self.cut = true;
            let wait = self.dice.micros(1000, 900_000);
            self.after(wait, Event::Heal);
        }
        let wait = self.dice.micros(200_000, 1_200_000);
        self.after(wait, Event::Break);
    }

    /// Calls a process that runs, then does what it wants done.
    fn call<T>(&mut self, process: usize, call: impl FnOnce(&mut Protocol) -> T) -> Option<T> {
        let result = call(self.processes[process].protocol.as_mut()?);
        loop {
            let protocol = self.processes[process].protocol.as_mut().expect("it runs");
            let (effects, ready) = (protocol.take_effects(), protocol.take_ready());
            if effects.is_empty() && ready.is_empty() {
                break;
            }
            for effect in effects {
                self.do_effect(process, effect);
            }
            for peer in ready {
                self.write(process, peer);
            }
        }
        let wake = self.processes[process].protocol.as_ref().expect("it runs").wake_at();
        if wake < self.processes[process].wake {
            self.processes[process].wake = wake;
            self.at(wake.max(self.now), Event::Tick { process });
        }
        Some(result)
    }

    fn do_effect(&mut self, process: usize, effect: Effect) {
        match effect {
            Effect::Granted { ticket, fence } => self.on_granted(process, ticket, fence.number()),
            Effect::Write { epoch } => {
                let wait = self.dice.micros(100, 5000);
                self.after(wait, Event::Written { process, epoch });
            }
            Effect::Close { connection, .. } => {
                let wire = connection.0 as usize;
                let end = usize::from(self.wires[wire].ends[1] == process);
                self.close(wire, Some(end));
            }
            Effect::Log { text, .. } => {
                assert!(!text.contains("both hold"), "process {process}: {text}");
                self.note(format!("{process}: {text}"));
            }
            Effect::Trace { .. } => {}
            other => panic!("process {process}: {other:?}"),
        }
    }

    fn write(&mut self, process: usize, peer: Member) {
        for wire in (0..self.wires.len()).rev() {
            let Some(end) = self.wires[wire].ends.iter().position(|&one| one == process) else {
                continue;
            };
            if self.peer(wire, end) != peer || !self.wires[wire].alive {
                continue;
            }
            let mut bytes = Vec::new();
            let protocol = self.processes[process].protocol.as_mut().expect("it runs");
            while protocol.output(peer, Connection(wire as u64), &mut bytes) {}
            if !bytes.is_empty() {
                self.send(wire, 1 - end, bytes);
            }
        }
    }

    fn on_client(&mut self, process: usize) {
        let (now, lock) = (self.now, self.processes[process].lock.expect("it was started"));
        let client = self.processes[process].client;
        let Some(protocol) = self.processes[process].protocol.as_mut() else { return };
        match client {
            Client::Idle => match protocol.acquire(now, lock, None) {
                Answer::Granted { ticket, fence } => {
                    self.processes[process].client = Client::Waiting(ticket);
                    self.on_granted(process, ticket, fence.number());
                }
                Answer::Waiting { ticket } => {
                    self.processes[process].client = Client::Waiting(ticket);
                }
                Answer::Refused(why) => panic!("{why}"),
            },
            Client::Waiting(_) => {}
            Client::Holding(ticket) => {
                assert_eq!(self.holder.take(), Some(process));
                assert!(protocol.release(now, lock, ticket));
                self.processes[process].client = Client::Idle;
                let wait = self.dice.micros(10, 20_000);
                self.after(wait, Event::Client { process });
            }
        }
        self.call(process, |_| ());
    }

    fn on_granted(&mut self, process: usize, ticket: Ticket, fence: u64) {
        assert_eq!(self.processes[process].client, Client::Waiting(ticket));
        self.note(format!("{process}: holds the lock with fencing token {fence}"));
        if let Some(other) = self.holder.replace(process) {
            panic!("processes {other} and {process} both hold the lock");
        }
        assert!(fence > self.fence, "fencing token {fence} after {}", self.fence);
        self.fence = fence;
        self.processes[process].client = Client::Holding(ticket);
        self.processes[process].entries += 1;
        let long = self.dice.below(4) == 0;
        let wait = if long { self.dice.micros(1000, 900_000) } else { self.dice.micros(1, 4000) };
        self.after(wait, Event::Client { process });
    }

    fn note(&mut self, text: String) {
        self.log.push(format!("{:>9} {text}", self.now.nanos() / 1000));
    }
}

/// Prints what happened when the test fails.
struct Shown(World);

impl Drop for Shown {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.log.iter().rev().take(60).rev().for_each(|line| eprintln!("{line}"));
            for (number, process) in self.0.processes.iter().enumerate() {
                let stopped = process.protocol.as_ref().map(Protocol::stopped);
                eprintln!("process {number}: {stopped:?}, client {:?}", process.client);
            }
        }
    }
}

#[test]
fn two_processes_as_one_member_never_both_hold_a_lock_and_the_right_one_is_back_in_the_view() {
    let seeds = match std::env::var("MUTUA_SEED") {
        Ok(seed) => seed.parse().map(|seed: u64| seed..seed + 1).expect("a number"),
        Err(_) => 0..std::env::var("MUTUA_SEEDS").map_or(300, |seeds| seeds.parse().expect("one")),
    };
    let (mut conflicts, mut before) = (0, 0);
    for seed in seeds {
        println!("seed {seed}");
        let mut world = Shown(World::new(seed));
        world.0.run_until(Moment::ZERO.after(STOP));
        before += world.0.fence.min(1);
        world.0.processes.iter_mut().for_each(|process| process.entries = 0);
        world.0.run_until(Moment::ZERO.after(STOP).after(RECOVERY));
        let got = world.0.processes[..MEMBERS].iter().map(|process| process.entries);
        let got: Vec<_> = got.collect();
        assert!(got.iter().all(|&entries| entries > 0), "seed {seed}: entries {got:?}");
        conflicts += world.0.conflicts;
    }
    println!("{conflicts} hellos refused; {before} runs with grants beside the copy");
    assert!(conflicts > 0 && before > 0, "a dull test");
}
