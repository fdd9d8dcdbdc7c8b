//! Sessions and a lease table on a simulated network: clients, their commands, and a node that
//! crashes. One seed decides every delay, fault and choice, so that a run can be repeated.
//!
//! The lease table and the sessions are those of production. The network, the disk and the clients
//! are simulated. A client holds a lock from when the grant is reported until it releases the lock,
//! or until the last reported end of its lease: its command may run until then, whatever replies
//! arrive.

mod client;
mod faults;
mod node;

use std::{collections::BTreeMap, ops::AddAssign, time::Duration};

use mutua_algorithms::split_mix::Dice;

use crate::{
    Moment,
    lease_record::Record,
    leases::{Held, Name},
    proto::v1::{session_reply::Reply, session_request::Request},
};
use client::Client;
use node::Node;

/// When faults stop, and when all clients must be done.
const FAULTS: Moment = Moment::from_nanos(40_000_000_000);
const END: Moment = Moment::from_nanos(300_000_000_000);

/// The number of seeds.
const SEEDS: u64 = 600;

/// More events than a run needs.
const MOST_EVENTS: u64 = 100_000;

const NAMES: [&[u8]; 2] = [b"x", b"y"];
const CLIENTS: usize = 4;

/// A connection between a client and an incarnation of the node.
struct Stream {
    client: usize,
    /// The number of the client's request, and the incarnation of the node.
    request: u64,
    incarnation: u64,
    /// When the last message each way arrives: order is kept.
    last: [Moment; 2],
    broken: bool,
    /// Whether messages are lost that were under way when it broke.
    cut: [bool; 2],
}

#[derive(Debug)]
enum Event {
    ToNode {
        stream: usize,
        request: Option<Request>,
    },
    ToClient {
        stream: usize,
        reply: Option<Reply>,
    },
    NodeWakes {
        incarnation: u64,
    },
    NodeGrants {
        incarnation: u64,
    },
    NodeShortensRecord {
        incarnation: u64,
    },
    NodeStarts,
    ClientWakes {
        client: usize,
        request: u64,
    },
    ClientConnects {
        client: usize,
        request: u64,
    },
    ClientRequests {
        client: usize,
    },
    ClientReleases {
        client: usize,
        request: u64,
    },
    /// The supervisor of a crashed client has ended its command, and closes the session.
    SupervisorCloses {
        session: i64,
    },
    Breaks {
        stream: usize,
    },
    Fault,
}

/// Events of a run, so that a test can require that all kinds have occurred.
#[derive(Debug, Default)]
struct Counts {
    grants: u64,
    losses: u64,
    reclaims: u64,
    refused_reclaims: u64,
    reconnections: u64,
    breaks: u64,
    crashes: u64,
    /// Starts of the node that restore holds, and those that wait for all names.
    restored: u64,
    quarantines: u64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.grants += other.grants;
        self.losses += other.losses;
        self.reclaims += other.reclaims;
        self.refused_reclaims += other.refused_reclaims;
        self.reconnections += other.reconnections;
        self.breaks += other.breaks;
        self.crashes += other.crashes;
        self.restored += other.restored;
        self.quarantines += other.quarantines;
    }
}

struct Harness {
    seed: u64,
    now: Moment,
    dice: Dice,
    /// By time, and by number among equal times.
    events: BTreeMap<(Moment, u64), Event>,
    numbers: u64,
    streams: Vec<Stream>,
    node: Option<Node>,
    incarnation: u64,
    /// Until when the node is stopped, as by SIGSTOP.
    node_stopped: Moment,
    /// The node's records: the longest lease, and the holds by name, if they are readable; and the
    /// greatest fencing token.
    disk: Record,
    holds: Option<BTreeMap<Name, Held>>,
    /// Until when the node, if its holds are readable, waits for all names.
    quarantined: Moment,
    fencing_token: u64,
    clients: Vec<Client>,
    /// The last fencing token that was reported to a client, by name.
    reported: [u64; NAMES.len()],
    counts: Counts,
    notes: Vec<String>,
}

impl Harness {
    fn new(seed: u64) -> Self {
        let mut harness = Self {
            seed,
            now: Moment::from_nanos(1_000_000_000),
            dice: Dice(seed),
            events: BTreeMap::new(),
            numbers: 0,
            streams: Vec::new(),
            node: None,
            incarnation: 0,
            node_stopped: Moment::ZERO,
            disk: Record::default(),
            holds: Some(BTreeMap::new()),
            quarantined: Moment::ZERO,
            fencing_token: 100,
            clients: (0..CLIENTS).map(|_| Client::default()).collect(),
            reported: [0; NAMES.len()],
            counts: Counts::default(),
            notes: Vec::new(),
        };
        harness.after(Duration::ZERO, Event::NodeStarts);
        for client in 0..CLIENTS {
            harness.later(1000, Event::ClientRequests { client });
        }
        harness.later(1000, Event::Fault);
        harness
    }

    fn after(&mut self, wait: Duration, event: Event) {
        self.numbers += 1;
        self.events.insert((self.now.after(wait), self.numbers), event);
    }

    /// A time of at most this many milliseconds.
    fn millis(&mut self, most: u64) -> Duration {
        self.dice.micros(1, most * 1000 + 1)
    }

    /// Mostly short, sometimes long.
    fn latency(&mut self) -> Duration {
        let most = if self.dice.one_in(50) { 3000 } else { 3 };
        self.millis(most)
    }

    /// Within this many milliseconds.
    fn later(&mut self, most: u64, event: Event) {
        let wait = self.millis(most);
        self.after(wait, event);
    }

    fn note(&mut self, text: String) {
        self.notes.push(format!("{:>9.3} {text}", self.now.nanos() as f64 / 1e9));
    }

    fn fails(&self, why: &str) -> ! {
        // A single seed is printed from the beginning.
        let last = if number("MUTUA_SEED").is_some() { usize::MAX } else { 60 };
        let notes = &self.notes[self.notes.len().saturating_sub(last)..];
        let seed = self.seed;
        panic!("{why}\n{}\nMUTUA_SEED={seed} repeats it", notes.join("\n"));
    }

    fn run(mut self) -> Counts {
        while let Some(((at, number), event)) = self.events.pop_first() {
            if at > END {
                break;
            }
            if self.numbers >= MOST_EVENTS {
                self.fails("the run does not end");
            }
            self.now = self.now.max(at);
            match self.stopped_until(&event) {
                // Events of a stopped process happen later: messages in their order, and timers
                // before or after them.
                Some(until) => {
                    let timer =
                        matches!(event, Event::NodeWakes { .. } | Event::ClientWakes { .. });
                    let last = if timer && self.dice.one_in(2) { MOST_EVENTS } else { 0 };
                    self.events.insert((until, number + last), event);
                }
                None => self.happens(event),
            }
            self.check();
        }
        self.check_end();
        self.counts
    }

    fn stopped_until(&self, event: &Event) -> Option<Moment> {
        let until = match event {
            Event::ToNode { .. }
            | Event::NodeWakes { .. }
            | Event::NodeGrants { .. }
            | Event::NodeShortensRecord { .. }
            | Event::SupervisorCloses { .. } => self.node_stopped,
            Event::ToClient { stream, .. } => self.clients[self.streams[*stream].client].stopped,
            Event::ClientWakes { client, .. }
            | Event::ClientConnects { client, .. }
            | Event::ClientReleases { client, .. }
            | Event::ClientRequests { client } => self.clients[*client].stopped,
            Event::NodeStarts | Event::Breaks { .. } | Event::Fault => Moment::ZERO,
        };
        (until > self.now).then_some(until)
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::ToNode { stream, request } => self.node_receives(stream, request),
            Event::ToClient { stream, reply } => self.client_receives(stream, reply),
            Event::NodeWakes { incarnation } => self.node_wakes(incarnation),
            Event::NodeGrants { incarnation } => self.node_grants(incarnation),
            Event::NodeShortensRecord { incarnation } => self.node_shortens_record(incarnation),
            Event::NodeStarts => self.node_starts(),
            Event::ClientWakes { client, request } => self.client_wakes(client, request),
            Event::ClientConnects { client, request } => self.client_connects(client, request),
            Event::ClientRequests { client } => self.client_requests(client),
            Event::ClientReleases { client, request } => self.client_releases(client, request),
            Event::SupervisorCloses { session } => self.supervisor_closes(session),
            Event::Breaks { stream } => self.break_stream(stream),
            Event::Fault => self.fault(),
        }
    }

    /// Sends a request; `None` closes the connection.
    fn send_to_node(&mut self, stream: usize, request: Option<Request>) {
        let at = self.arrival(stream, 0);
        self.numbers += 1;
        self.events.insert((at, self.numbers), Event::ToNode { stream, request });
    }

    fn send_to_client(&mut self, stream: usize, reply: Option<Reply>) {
        let at = self.arrival(stream, 1);
        self.numbers += 1;
        self.events.insert((at, self.numbers), Event::ToClient { stream, reply });
    }

    fn arrival(&mut self, stream: usize, way: usize) -> Moment {
        let at = self.now.after(self.latency());
        let last = &mut self.streams[stream].last[way];
        *last = (*last).max(at);
        *last
    }

    /// Both ends notice it, each after a delay of its own.
    fn break_stream(&mut self, stream: usize) {
        if !std::mem::replace(&mut self.streams[stream].broken, true) {
            self.streams[stream].cut = [self.dice.one_in(2), self.dice.one_in(2)];
            self.send_to_node(stream, None);
            self.send_to_client(stream, None);
        }
    }

    fn check(&self) {
        for (name, bytes) in NAMES.iter().enumerate() {
            let holds = |(_, client): &(usize, &Client)| client.holds(self.now, name);
            let holders: Vec<_> =
                self.clients.iter().enumerate().filter(holds).map(|one| one.0).collect();
            if holders.len() > 1 {
                let name = bytes.escape_ascii();
                self.fails(&format!("clients {holders:?} hold {name} at the same time"));
            }
        }
    }

    fn check_end(&self) {
        let Some(node) = &self.node else { self.fails("the node does not run at the end") };
        for (number, client) in self.clients.iter().enumerate() {
            if !client.is_done() {
                self.fails(&format!("client {number} is not done at the end"));
            }
        }
        if node.leases.sessions() > 0 || !node.leases.none_held(self.now) {
            self.fails("a session or a hold is left at the end");
        }
    }
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().expect("a number"))
}

#[test]
fn a_lock_has_one_holder_at_a_time_and_all_clients_end_whatever_fails() {
    if let Some(seed) = number("MUTUA_SEED") {
        let harness = Harness::new(seed);
        println!("{:?}", harness.run());
        return;
    }
    let mut all = Counts::default();
    for seed in 0..number("MUTUA_SEEDS").unwrap_or(SEEDS) {
        all += Harness::new(seed).run();
    }
    println!("{all:?}");
    let Counts { grants, losses, reclaims, refused_reclaims, reconnections, .. } = all;
    let Counts { breaks, crashes, restored, quarantines, .. } = all;
    let node = [crashes, restored, quarantines];
    let rare = [losses, reclaims, refused_reclaims, reconnections, breaks];
    let rare = rare.into_iter().chain(node).collect::<Vec<_>>();
    assert!(grants > 10_000 && rare.iter().all(|&count| count > 10), "{all:?}");
}
