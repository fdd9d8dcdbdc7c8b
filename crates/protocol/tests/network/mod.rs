//! Whole nodes on a network of the test's own: one seed decides every delay, every fault and every
//! choice of a client, so that a run can be repeated.

#![allow(dead_code, reason = "not every test uses all of it")]

mod clients;
mod faults;
mod survivors;

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
    sync::Arc,
    time::Duration,
};

use mutua_algorithms::split_mix::Dice;
use mutua_protocol::{
    CallId, Connection, Effect, Hello, Limits, LockId, Member, Moment, Plan, Protocol,
    ProtocolConfig, Refusal, Rule, Ticket, ViewSource,
};

pub(crate) use clients::Client;

/// A node, and what remains of it while it is down.
pub(crate) struct NodeSlot {
    pub(crate) protocol: Option<Protocol>,
    pub(crate) incarnation: u64,
    /// The epoch on its disk.
    disk: u32,
    pub(crate) locks: Vec<LockId>,
    pub(crate) clients: Vec<Client>,
    /// Clients that outlived the incarnation that granted their locks, by the lock.
    survivors: BTreeMap<usize, survivors::Survivor>,
    /// The client of each ticket.
    pub(crate) tickets: BTreeMap<Ticket, usize>,
    wake: Moment,
}

/// A connection from `ends[0]`, which dials, to `ends[1]`.
struct Wire {
    ends: [usize; 2],
    incarnations: [u64; 2],
    alive: bool,
    /// Whether the hello has arrived at each end.
    greeted: [bool; 2],
    /// When the last bytes to each end arrive: order is kept.
    last: [Moment; 2],
}

pub(crate) enum Event {
    Bytes {
        wire: usize,
        to: usize,
        bytes: Vec<u8>,
    },
    Closed {
        wire: usize,
        at: usize,
    },
    Dial {
        from: usize,
        to: usize,
    },
    Tick {
        node: usize,
        incarnation: u64,
    },
    Written {
        node: usize,
        incarnation: u64,
        epoch: u32,
    },
    /// A client does its next step, unless something happened to it meanwhile.
    Client {
        node: usize,
        incarnation: u64,
        client: usize,
        step: u64,
    },
    /// A client that outlived its node reclaims its lock, or releases it.
    Survivor {
        node: usize,
        incarnation: u64,
        name: usize,
    },
    EndReclaims {
        node: usize,
        incarnation: u64,
    },
    Fault,
    Start {
        node: usize,
    },
    Heal {
        pair: (usize, usize),
    },
}

/// The parameters of a run.
#[derive(Clone)]
pub(crate) struct Scene {
    pub(crate) seed: u64,
    pub(crate) nodes: usize,
    pub(crate) rule: Rule,
    pub(crate) names: usize,
    pub(crate) clients: usize,
    pub(crate) limits: Limits,
    /// Faults happen until then.
    pub(crate) faults_until: Moment,
    /// The least and the most latency of bytes, in microseconds; by default it is mostly short and
    /// sometimes long.
    pub(crate) latency: Option<(u64, u64)>,
    /// Every message has a latency of its own, as in the simulator; by default bytes that are
    /// written at one time arrive at one time, as on a connection.
    pub(crate) messages_apart: bool,
}

pub(crate) struct World {
    pub(crate) scene: Scene,
    pub(crate) now: Moment,
    pub(crate) dice: Dice,
    pub(crate) nodes: Vec<NodeSlot>,
    wires: Vec<Wire>,
    /// Pairs that are cut off from each other now.
    cut: Vec<(usize, usize)>,
    queue: BinaryHeap<Reverse<(Moment, u64)>>,
    events: BTreeMap<u64, Event>,
    numbers: u64,
    /// The holder of each lock: node, incarnation, ticket.
    pub(crate) held: BTreeMap<usize, (usize, u64, Ticket)>,
    pub(crate) fences: BTreeMap<usize, u64>,
    pub(crate) entries: u64,
    /// Grants to a test that has no clients but requests itself.
    pub(crate) granted: Vec<(usize, Ticket)>,
    /// Refusals of such requests.
    pub(crate) refused: Vec<(usize, Ticket, Refusal)>,
    /// No client requests for a while.
    pub(crate) resting: bool,
    /// The replies to calls, `None` for an unanswered one.
    pub(crate) replies: Vec<(usize, CallId, Option<Vec<u8>>)>,
    /// A digest of everything that happened, to compare two runs.
    pub(crate) digest: u64,
    pub(crate) log: Vec<String>,
}

impl Scene {
    /// Nodes that reconnect quickly and have short timeouts.
    pub(crate) fn new(seed: u64, nodes: usize, rule: Rule) -> Self {
        let limits = Limits {
            run: 3,
            lost_after: Duration::from_millis(300),
            heartbeat: Duration::from_millis(80),
            idle_after: Duration::from_millis(400),
            ..Limits::default()
        };
        Self {
            seed,
            nodes,
            rule,
            names: 2,
            clients: 2,
            limits,
            faults_until: Moment::ZERO,
            latency: None,
            messages_apart: false,
        }
    }

    pub(crate) fn plan(&self) -> Arc<Plan> {
        let rules = [self.rule.clone()];
        Arc::new(Plan::new(self.nodes as u32, &rules).expect("a rule that suits the size"))
    }
}

impl World {
    pub(crate) fn new(scene: Scene) -> Self {
        let slot = || NodeSlot {
            protocol: None,
            incarnation: 0,
            disk: 0,
            locks: Vec::new(),
            clients: Vec::new(),
            survivors: BTreeMap::new(),
            tickets: BTreeMap::new(),
            wake: Moment::NEVER,
        };
        let mut world = Self {
            now: Moment::ZERO,
            dice: Dice(scene.seed),
            nodes: (0..scene.nodes).map(|_| slot()).collect(),
            wires: Vec::new(),
            cut: Vec::new(),
            queue: BinaryHeap::new(),
            events: BTreeMap::new(),
            numbers: 0,
            held: BTreeMap::new(),
            fences: BTreeMap::new(),
            entries: 0,
            granted: Vec::new(),
            refused: Vec::new(),
            resting: false,
            replies: Vec::new(),
            digest: 0,
            log: Vec::new(),
            scene,
        };
        for node in 0..world.scene.nodes {
            world.start(node);
        }
        if world.scene.faults_until > Moment::ZERO {
            world.after(Duration::from_millis(50), Event::Fault);
        }
        world
    }

    pub(crate) fn name(name: usize) -> Vec<u8> {
        format!("lock {name}").into_bytes()
    }

    pub(crate) fn after(&mut self, wait: Duration, event: Event) {
        self.at(self.now.after(wait), event);
    }

    fn at(&mut self, at: Moment, event: Event) {
        self.numbers += 1;
        self.queue.push(Reverse((at, self.numbers)));
        self.events.insert(self.numbers, event);
    }

    /// Handles the next event, if it happens before `until`.
    pub(crate) fn step(&mut self, until: Moment) -> bool {
        let Some(&Reverse((at, number))) = self.queue.peek() else { return false };
        if at > until {
            return false;
        }
        self.queue.pop();
        self.now = at;
        let event = self.events.remove(&number).expect("an event once");
        self.handle(event);
        true
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Bytes { wire, to, bytes } => self.arrive(wire, to, &bytes),
            Event::Closed { wire, at } => self.close_end(wire, at),
            Event::Dial { from, to } => self.dial(from, to),
            Event::Tick { node, incarnation } => {
                if self.is_up(node, incarnation) && self.nodes[node].wake <= self.now {
                    self.nodes[node].wake = Moment::NEVER;
                    let now = self.now;
                    self.call(node, |protocol| protocol.tick(now));
                }
            }
            Event::Written { node, incarnation, epoch } => {
                if self.is_up(node, incarnation) {
                    // An earlier epoch may come after it.
                    self.nodes[node].disk = self.nodes[node].disk.max(epoch);
                    let now = self.now;
                    self.call(node, |protocol| protocol.written(now, epoch));
                }
            }
            Event::Client { node, incarnation, client, step } => {
                if self.is_up(node, incarnation) {
                    self.on_client(node, client, step);
                }
            }
            Event::Survivor { node, incarnation, name } => {
                if self.is_up(node, incarnation) {
                    self.on_survivor(node, name);
                }
            }
            Event::EndReclaims { node, incarnation } => {
                if self.is_up(node, incarnation) {
                    self.end_reclaims(node);
                }
            }
            Event::Fault => self.on_fault(),
            Event::Start { node } => self.start(node),
            Event::Heal { pair } => {
                if let Some(index) = self.cut.iter().position(|&cut| cut == pair) {
                    self.cut.remove(index);
                }
            }
        }
    }

    /// Handles the events of so much time.
    pub(crate) fn pass(&mut self, time: Duration) {
        let end = self.now.after(time);
        while self.step(end) {}
        self.now = end;
    }

    /// Whether no node has a process of this lock any more.
    pub(crate) fn is_cleaned_up(&self, name: usize) -> bool {
        self.nodes.iter().all(|slot| {
            let lock = slot
                .protocol
                .as_ref()
                .and_then(|protocol| protocol.lock_status(self.now, &World::name(name)));
            lock.is_some_and(|lock| lock.variables.is_empty())
        })
    }

    fn is_up(&self, node: usize, incarnation: u64) -> bool {
        self.nodes[node].incarnation == incarnation && self.nodes[node].protocol.is_some()
    }

    /// Starts a node, as a new incarnation.
    pub(crate) fn start(&mut self, node: usize) {
        let plan = self.scene.plan();
        let names = self.scene.names;
        let now = self.now;
        let slot = &mut self.nodes[node];
        slot.incarnation += 1;
        let config = ProtocolConfig {
            cluster: "test".to_owned(),
            names: (0..self.scene.nodes).map(|node| format!("n{node}")).collect(),
            me: Member(node as u32),
            plan,
            incarnation: slot.incarnation * 1000 + node as u64 + 1,
            epoch: slot.disk,
            limits: self.scene.limits.clone(),
            views: ViewSource::FixedList,
        };
        let mut protocol = Protocol::new(now, config);
        if !slot.survivors.is_empty() {
            protocol.hold_back();
        }
        let open = |name| protocol.open(&World::name(name)).expect("a short name");
        slot.locks = (0..names).map(open).collect();
        slot.protocol = Some(protocol);
        slot.tickets.clear();
        slot.wake = Moment::NEVER;
        self.call(node, |_| ());
        self.start_survivors(node);
        for to in 0..node {
            let wait = self.dice.micros(10, 2000);
            self.after(wait, Event::Dial { from: node, to });
        }
        for from in node + 1..self.scene.nodes {
            let wait = self.dice.micros(10, 2000);
            self.after(wait, Event::Dial { from, to: node });
        }
        self.start_clients(node);
    }

    /// Calls a node, then carries out its effects.
    pub(crate) fn call<T>(&mut self, node: usize, call: impl FnOnce(&mut Protocol) -> T) -> T {
        let protocol = self.nodes[node].protocol.as_mut().expect("a node that is up");
        let result = call(protocol);
        self.pump(node);
        result
    }

    fn pump(&mut self, node: usize) {
        let incarnation = self.nodes[node].incarnation;
        loop {
            let protocol = self.nodes[node].protocol.as_mut().expect("a node that is up");
            let effects = protocol.take_effects();
            let ready = protocol.take_ready();
            if effects.is_empty() && ready.is_empty() {
                break;
            }
            for effect in effects {
                self.do_effect(node, incarnation, effect);
            }
            for peer in ready {
                self.write(node, peer.index());
            }
        }
        let slot = &mut self.nodes[node];
        let wake = slot.protocol.as_ref().expect("up").wake_at();
        if wake < slot.wake {
            slot.wake = wake;
            self.at(wake, Event::Tick { node, incarnation });
        }
    }

    fn do_effect(&mut self, node: usize, incarnation: u64, effect: Effect) {
        match effect {
            Effect::Granted { ticket, fence } => self.on_granted(node, ticket, fence.number()),
            Effect::Refused { ticket, why } => self.on_refused(node, ticket, &why),
            Effect::Lost { ticket } => panic!("{ticket:?} of node {node} was lost"),
            Effect::Recorded { .. } | Effect::Custody { .. } => panic!("nothing is recorded"),
            Effect::Propose { command } => panic!("{command:?} of node {node}"),
            Effect::Write { epoch } => {
                let wait = self.dice.micros(100, 5000);
                self.after(wait, Event::Written { node, incarnation, epoch });
            }
            Effect::Trace { .. } | Effect::Members => {}
            // The reply is the body of the call, and the node that replies.
            Effect::Called { caller, body } => {
                let body = [body, vec![node as u8]].concat();
                self.call(node, |protocol| protocol.reply(caller, &body));
            }
            Effect::Replied { call, body } => self.replies.push((node, call, Some(body))),
            Effect::Unanswered { call } => self.replies.push((node, call, None)),
            Effect::Close { connection, .. } => self.close(connection.0 as usize),
            Effect::Log { text, .. } => {
                assert!(!text.contains("nothing was changed"), "node {node}: {text}");
                assert!(!text.contains("both hold"), "node {node}: {text}");
                assert!(!text.contains("violates the protocol"), "node {node}: {text}");
                assert!(!text.contains("too many messages"), "node {node}: {text}");
                self.note(format!("{node}: {text}"));
            }
        }
    }

    pub(crate) fn note(&mut self, text: String) {
        let line = format!("{:>12} {text}", self.now.nanos() / 1000);
        self.digest = line.bytes().fold(self.digest, |digest, byte| {
            (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3).rotate_left(5)
        });
        self.log.push(line);
    }

    fn write(&mut self, node: usize, peer: usize) {
        let incarnation = self.nodes[node].incarnation;
        let Some(wire) = self.wires.iter().rposition(|wire| {
            let ends = wire.ends == [node, peer] || wire.ends == [peer, node];
            ends && wire.incarnations[usize::from(wire.ends[1] == node)] == incarnation
        }) else {
            return;
        };
        loop {
            let mut bytes = Vec::new();
            let protocol = self.nodes[node].protocol.as_mut().expect("up");
            let connection = Connection(wire as u64);
            if !protocol.output(Member(peer as u32), connection, &mut bytes) {
                return;
            }
            if self.scene.messages_apart {
                for message in messages(&bytes) {
                    self.send(wire, peer, message.to_vec());
                }
            } else {
                self.send(wire, peer, bytes);
            }
        }
    }

    /// Sends bytes on a wire; on a broken one they are dropped.
    fn send(&mut self, wire: usize, to: usize, bytes: Vec<u8>) {
        if !self.wires[wire].alive {
            return;
        }
        let wait = match self.scene.latency {
            Some((least, most)) => self.dice.micros(least, most),
            None if self.dice.one_in(50) => self.dice.micros(1000, 60_000),
            None => self.dice.micros(50, 1500),
        };
        let end = self.end_of(wire, to);
        let last = &mut self.wires[wire].last[end];
        *last = self.now.after(wait).max(last.after(Duration::from_nanos(1)));
        let at = *last;
        self.at(at, Event::Bytes { wire, to, bytes });
    }

    fn end_of(&self, wire: usize, node: usize) -> usize {
        usize::from(self.wires[wire].ends[1] == node)
    }

    /// Whether the end's incarnation is still the one that the wire was made for.
    fn end_runs(&self, wire: usize, node: usize) -> bool {
        self.is_up(node, self.wires[wire].incarnations[self.end_of(wire, node)])
    }

    fn dial(&mut self, from: usize, to: usize) {
        let wait = self.dice.micros(5000, 20_000);
        let pair = (to.min(from), to.max(from));
        let both = [from, to].iter().all(|&node| self.nodes[node].protocol.is_some());
        let connected =
            self.wires.iter().any(|wire| wire.ends == [from, to] && self.is_whole(wire));
        if both && !connected && !self.cut.contains(&pair) {
            let wire = self.wires.len();
            self.wires.push(Wire {
                ends: [from, to],
                incarnations: [self.nodes[from].incarnation, self.nodes[to].incarnation],
                alive: true,
                greeted: [false; 2],
                last: [self.now; 2],
            });
            let protocol = self.nodes[from].protocol.as_mut().expect("up");
            let hello = protocol.hello(Member(to as u32));
            self.send(wire, to, hello);
        } else if both && !connected {
            self.after(wait, Event::Dial { from, to });
        }
    }

    fn is_whole(&self, wire: &Wire) -> bool {
        wire.alive && (0..2).all(|end| self.is_up(wire.ends[end], wire.incarnations[end]))
    }

    fn arrive(&mut self, wire: usize, to: usize, bytes: &[u8]) {
        if !self.wires[wire].alive || !self.end_runs(wire, to) {
            return;
        }
        let (end, now, connection) = (self.end_of(wire, to), self.now, Connection(wire as u64));
        let from = self.wires[wire].ends[1 - end];
        let mut rest = bytes;
        if !self.wires[wire].greeted[end] {
            self.wires[wire].greeted[end] = true;
            let (hello, length) = Hello::decode(bytes).expect("a hello").expect("a whole one");
            rest = &bytes[length..];
            let protocol = self.nodes[to].protocol.as_mut().expect("up");
            if let Err(refused) = protocol.connected(now, connection, &hello) {
                // Another incarnation of the member still counts as running; it is dialled again.
                self.note(format!("{to}: {refused}"));
                return self.close(wire);
            }
            if end == 1 {
                let protocol = self.nodes[to].protocol.as_mut().expect("up");
                let answer = protocol.hello(Member(from as u32));
                self.send(wire, from, answer);
            }
            self.call(to, |_| ());
        }
        if !rest.is_empty() {
            let peer = Member(from as u32);
            self.call(to, |protocol| protocol.received(now, peer, connection, rest));
        }
    }

    /// A connection breaks: the bytes on it are dropped, and each end notices at its own time.
    fn close(&mut self, wire: usize) {
        if !std::mem::replace(&mut self.wires[wire].alive, false) {
            return;
        }
        for end in 0..2 {
            let wait = if self.dice.one_in(4) {
                self.dice.micros(1, 400_000)
            } else {
                self.dice.micros(1, 900)
            };
            let at = self.wires[wire].ends[end];
            self.after(wait, Event::Closed { wire, at });
        }
        let [from, to] = self.wires[wire].ends;
        let wait = self.dice.micros(500, 50_000);
        self.after(wait, Event::Dial { from, to });
    }

    fn close_end(&mut self, wire: usize, at: usize) {
        if !self.end_runs(wire, at) {
            return;
        }
        let peer = Member(self.wires[wire].ends[1 - self.end_of(wire, at)] as u32);
        let now = self.now;
        self.call(at, |protocol| protocol.disconnected(now, peer, Connection(wire as u64)));
    }
}

/// Cuts the bytes that a node writes into its messages. A frame is four bytes of length, four of
/// tag, and its body; a body that begins with a 1 is an acknowledgement, which goes with the
/// message behind it.
fn messages(bytes: &[u8]) -> Vec<&[u8]> {
    let (mut messages, mut from, mut end) = (Vec::new(), 0, 0);
    while let Some(length) = bytes[end..].first_chunk() {
        let body = end + 8;
        end = body + u32::from_le_bytes(*length) as usize;
        if bytes[body] != 1 || end == bytes.len() {
            messages.push(&bytes[from..end]);
            from = end;
        }
    }
    messages
}
