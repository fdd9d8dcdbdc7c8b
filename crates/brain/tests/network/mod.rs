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

use mutua_brain::{
    Brain, CallId, Connection, Effect, Hello, Limits, LockId, Member, Moment, Plan, Refusal, Rule,
    Seat, Ticket,
};

pub(crate) use clients::Client;

/// Dice (SplitMix64).
pub(crate) struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub(crate) fn one_in(&mut self, chances: u64) -> bool {
        self.below(chances) == 0
    }

    /// So many microseconds.
    pub(crate) fn micros(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_micros(from + self.below(to - from))
    }
}

/// A node, or the place of one that is down.
pub(crate) struct Place {
    pub(crate) brain: Option<Brain>,
    pub(crate) life: u64,
    /// The epoch on its disk.
    disk: u32,
    pub(crate) locks: Vec<LockId>,
    pub(crate) clients: Vec<Client>,
    /// Those who outlived the node that let them in, by what they are inside.
    survivors: BTreeMap<usize, survivors::Survivor>,
    /// Which client has which ticket.
    pub(crate) tickets: BTreeMap<Ticket, usize>,
    wake: Moment,
}

/// A connection from `ends[0]`, who dials, to `ends[1]`.
struct Wire {
    ends: [usize; 2],
    lives: [u64; 2],
    alive: bool,
    /// Whether each end has heard the other's hello.
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
        life: u64,
    },
    Written {
        node: usize,
        life: u64,
        epoch: u32,
    },
    /// A client does its next step, unless something happened to it meanwhile.
    Client {
        node: usize,
        life: u64,
        client: usize,
        step: u64,
    },
    /// Somebody who outlived its node claims what it is inside, or leaves.
    Survivor {
        node: usize,
        life: u64,
        name: usize,
    },
    EndClaims {
        node: usize,
        life: u64,
    },
    Fault,
    Start {
        node: usize,
    },
    Heal {
        pair: (usize, usize),
    },
}

/// What a run is about.
#[derive(Clone)]
pub(crate) struct Scene {
    pub(crate) seed: u64,
    pub(crate) nodes: usize,
    pub(crate) rule: Rule,
    pub(crate) names: usize,
    pub(crate) clients: usize,
    pub(crate) limits: Limits,
    /// Until when faults happen.
    pub(crate) faults_until: Moment,
    /// The least and the most microseconds that bytes are on their way; by default it is mostly
    /// short and sometimes long.
    pub(crate) latency: Option<(u64, u64)>,
    /// Every message has a latency of its own, as in the simulator; by default what is written at
    /// one time arrives at one time, as on a connection.
    pub(crate) messages_apart: bool,
}

pub(crate) struct World {
    pub(crate) scene: Scene,
    pub(crate) now: Moment,
    pub(crate) dice: Dice,
    pub(crate) places: Vec<Place>,
    wires: Vec<Wire>,
    /// Pairs that cannot reach each other now.
    cut: Vec<(usize, usize)>,
    queue: BinaryHeap<Reverse<(Moment, u64)>>,
    events: BTreeMap<u64, Event>,
    numbers: u64,
    /// Who is inside what: node, life, ticket.
    pub(crate) inside: BTreeMap<usize, (usize, u64, Ticket)>,
    pub(crate) fences: BTreeMap<usize, u64>,
    pub(crate) entries: u64,
    /// What a test was granted that has no clients but asks itself.
    pub(crate) granted: Vec<(usize, Ticket)>,
    /// Who was told why not, likewise.
    pub(crate) refused: Vec<(usize, Ticket, Refusal)>,
    /// Nobody wants anything for a while.
    pub(crate) resting: bool,
    /// What nodes were answered, `None` if nobody was there to.
    pub(crate) replies: Vec<(usize, CallId, Option<Vec<u8>>)>,
    /// A digest of everything that happened, to compare two runs.
    pub(crate) digest: u64,
    pub(crate) log: Vec<String>,
}

impl Scene {
    /// Nodes that find each other quickly and give each other up soon.
    pub(crate) fn new(seed: u64, nodes: usize, rule: Rule) -> Self {
        let limits = Limits {
            run: 3,
            lost_after: Duration::from_millis(300),
            heartbeat: Duration::from_millis(80),
            forget_after: Duration::from_millis(400),
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
        let place = || Place {
            brain: None,
            life: 0,
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
            places: (0..scene.nodes).map(|_| place()).collect(),
            wires: Vec::new(),
            cut: Vec::new(),
            queue: BinaryHeap::new(),
            events: BTreeMap::new(),
            numbers: 0,
            inside: BTreeMap::new(),
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

    /// Does the next thing, if it happens before `until`.
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
            Event::Tick { node, life } => {
                if self.is_alive(node, life) && self.places[node].wake <= self.now {
                    self.places[node].wake = Moment::NEVER;
                    let now = self.now;
                    self.call(node, |brain| brain.tick(now));
                }
            }
            Event::Written { node, life, epoch } => {
                if self.is_alive(node, life) {
                    // An earlier one may come after it.
                    self.places[node].disk = self.places[node].disk.max(epoch);
                    let now = self.now;
                    self.call(node, |brain| brain.written(now, epoch));
                }
            }
            Event::Client { node, life, client, step } => {
                if self.is_alive(node, life) {
                    self.on_client(node, client, step);
                }
            }
            Event::Survivor { node, life, name } => {
                if self.is_alive(node, life) {
                    self.on_survivor(node, name);
                }
            }
            Event::EndClaims { node, life } => {
                if self.is_alive(node, life) {
                    self.end_claims(node);
                }
            }
            Event::Fault => self.on_fault(),
            Event::Start { node } => self.start(node),
            Event::Heal { pair } => {
                if let Some(place) = self.cut.iter().position(|&cut| cut == pair) {
                    self.cut.remove(place);
                }
            }
        }
    }

    /// Lets so much time pass.
    pub(crate) fn pass(&mut self, time: Duration) {
        let end = self.now.after(time);
        while self.step(end) {}
        self.now = end;
    }

    /// Whether no node has a process of this lock any more.
    pub(crate) fn has_forgotten(&self, name: usize) -> bool {
        self.places.iter().all(|place| {
            let lock = place
                .brain
                .as_ref()
                .and_then(|brain| brain.lock_status(self.now, &World::name(name)));
            lock.is_some_and(|lock| lock.variables.is_empty())
        })
    }

    fn is_alive(&self, node: usize, life: u64) -> bool {
        self.places[node].life == life && self.places[node].brain.is_some()
    }

    /// Starts a node, as another one than it was before.
    pub(crate) fn start(&mut self, node: usize) {
        let plan = self.scene.plan();
        let names = self.scene.names;
        let now = self.now;
        let place = &mut self.places[node];
        place.life += 1;
        let seat = Seat {
            cluster: "test".to_owned(),
            names: (0..self.scene.nodes).map(|node| format!("n{node}")).collect(),
            me: Member(node as u32),
            plan,
            incarnation: place.life * 1000 + node as u64 + 1,
            epoch: place.disk,
            limits: self.scene.limits.clone(),
        };
        let mut brain = Brain::new(now, seat);
        if !place.survivors.is_empty() {
            brain.hold_back();
        }
        let open = |name| brain.open(&World::name(name)).expect("a short name");
        place.locks = (0..names).map(open).collect();
        place.brain = Some(brain);
        place.tickets.clear();
        place.wake = Moment::NEVER;
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

    /// Calls a node, then does what it wants done.
    pub(crate) fn call<T>(&mut self, node: usize, call: impl FnOnce(&mut Brain) -> T) -> T {
        let brain = self.places[node].brain.as_mut().expect("a node that is up");
        let result = call(brain);
        self.pump(node);
        result
    }

    fn pump(&mut self, node: usize) {
        let life = self.places[node].life;
        loop {
            let brain = self.places[node].brain.as_mut().expect("a node that is up");
            let effects = brain.take_effects();
            let ready = brain.take_ready();
            if effects.is_empty() && ready.is_empty() {
                break;
            }
            for effect in effects {
                self.do_effect(node, life, effect);
            }
            for peer in ready {
                self.write(node, peer.index());
            }
        }
        let place = &mut self.places[node];
        let wake = place.brain.as_ref().expect("up").wake_at();
        if wake < place.wake {
            place.wake = wake;
            self.at(wake, Event::Tick { node, life });
        }
    }

    fn do_effect(&mut self, node: usize, life: u64, effect: Effect) {
        match effect {
            Effect::Granted { ticket, fence } => self.on_granted(node, ticket, fence.number()),
            Effect::Refused { ticket, why } => self.on_refused(node, ticket, &why),
            Effect::Lost { ticket } => panic!("{ticket:?} of node {node} was lost"),
            Effect::Write { epoch } => {
                let wait = self.dice.micros(100, 5000);
                self.after(wait, Event::Written { node, life, epoch });
            }
            Effect::Trace { .. } => {}
            // The answer is the question, and who gave it.
            Effect::Called { caller, body } => {
                let body = [body, vec![node as u8]].concat();
                self.call(node, |brain| brain.reply(caller, &body));
            }
            Effect::Replied { call, body } => self.replies.push((node, call, Some(body))),
            Effect::Unanswered { call } => self.replies.push((node, call, None)),
            Effect::Close { connection, .. } => self.close(connection.0 as usize),
            Effect::Log { text, .. } => {
                assert!(!text.contains("nothing was changed"), "node {node}: {text}");
                assert!(!text.contains("both inside"), "node {node}: {text}");
                assert!(!text.contains("breaks the protocol"), "node {node}: {text}");
                assert!(!text.contains("too much has come"), "node {node}: {text}");
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
        let life = self.places[node].life;
        let Some(wire) = self.wires.iter().rposition(|wire| {
            let ends = wire.ends == [node, peer] || wire.ends == [peer, node];
            ends && wire.lives[usize::from(wire.ends[1] == node)] == life
        }) else {
            return;
        };
        loop {
            let mut bytes = Vec::new();
            let brain = self.places[node].brain.as_mut().expect("up");
            let connection = Connection(wire as u64);
            if !brain.output(Member(peer as u32), connection, &mut bytes) {
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

    /// Bytes go onto a wire; on a dead one they are lost.
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

    /// The end's life is still the one that the wire was made for.
    fn end_lives(&self, wire: usize, node: usize) -> bool {
        self.is_alive(node, self.wires[wire].lives[self.end_of(wire, node)])
    }

    fn dial(&mut self, from: usize, to: usize) {
        let wait = self.dice.micros(5000, 20_000);
        let pair = (to.min(from), to.max(from));
        let both = [from, to].iter().all(|&node| self.places[node].brain.is_some());
        let connected =
            self.wires.iter().any(|wire| wire.ends == [from, to] && self.is_whole(wire));
        if both && !connected && !self.cut.contains(&pair) {
            let wire = self.wires.len();
            self.wires.push(Wire {
                ends: [from, to],
                lives: [self.places[from].life, self.places[to].life],
                alive: true,
                greeted: [false; 2],
                last: [self.now; 2],
            });
            let brain = self.places[from].brain.as_mut().expect("up");
            let hello = brain.hello(Member(to as u32));
            self.send(wire, to, hello);
        } else if both && !connected {
            self.after(wait, Event::Dial { from, to });
        }
    }

    fn is_whole(&self, wire: &Wire) -> bool {
        wire.alive && (0..2).all(|end| self.is_alive(wire.ends[end], wire.lives[end]))
    }

    fn arrive(&mut self, wire: usize, to: usize, bytes: &[u8]) {
        if !self.wires[wire].alive || !self.end_lives(wire, to) {
            return;
        }
        let (end, now, connection) = (self.end_of(wire, to), self.now, Connection(wire as u64));
        let from = self.wires[wire].ends[1 - end];
        let mut rest = bytes;
        if !self.wires[wire].greeted[end] {
            self.wires[wire].greeted[end] = true;
            let (hello, length) = Hello::decode(bytes).expect("a hello").expect("a whole one");
            rest = &bytes[length..];
            if end == 1 {
                let brain = self.places[to].brain.as_mut().expect("up");
                let answer = brain.hello(Member(from as u32));
                self.send(wire, from, answer);
            }
            self.call(to, |brain| brain.connected(now, connection, &hello)).expect("it fits");
        }
        if !rest.is_empty() {
            let peer = Member(from as u32);
            self.call(to, |brain| brain.received(now, peer, connection, rest));
        }
    }

    /// A connection breaks: what is on it is lost, and each end hears of it in its own time.
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
        if !self.end_lives(wire, at) {
            return;
        }
        let peer = Member(self.wires[wire].ends[1 - self.end_of(wire, at)] as u32);
        let now = self.now;
        self.call(at, |brain| brain.disconnected(now, peer, Connection(wire as u64)));
    }
}

/// Cuts what a node writes into its messages. A frame is four bytes of length, four of tag, and so
/// many; one that begins with a 1 is an acknowledgement, which goes with the message behind it.
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
