//! Clients, their commands and a node that dies, on a network of the test's own: one seed decides
//! every delay, every fault and every choice, so that a run can be repeated.
//!
//! The desk and the sessions are those that run in production. The network, the disk and the users
//! are the test's. Somebody counts as inside from when it is told so until it has left, or until
//! the last moment it was told to be good: a command may run until then, whatever it has heard.

mod faults;
mod node;
mod user;

use std::{collections::BTreeMap, ops::AddAssign, time::Duration};

use crate::{
    Moment,
    proto::v1::{reply::Answer, request::Ask},
    server::memory::Record,
};
use node::Node;
use user::User;

/// How long there are faults, and when everybody must be done.
const FAULTS: Moment = Moment::from_nanos(40_000_000_000);
const END: Moment = Moment::from_nanos(300_000_000_000);

/// How many seeds are tried.
const SEEDS: u64 = 600;

/// More than there is reason for.
const MOST_EVENTS: u64 = 100_000;

const NAMES: [&[u8]; 2] = [b"x", b"y"];
const USERS: usize = 4;

/// Dice (SplitMix64).
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn one_in(&mut self, chances: u64) -> bool {
        self.below(chances) == 0
    }

    fn millis(&mut self, most: u64) -> Duration {
        Duration::from_micros(self.below(most * 1000) + 1)
    }

    /// Mostly short and sometimes long.
    fn latency(&mut self) -> Duration {
        let most = if self.one_in(50) { 3000 } else { 3 };
        self.millis(most)
    }
}

/// A connection between a user and a life of the node.
struct Stream {
    user: usize,
    /// Which of the user's wishes it is for, and which life of the node it leads to.
    wish: u64,
    life: u64,
    /// When the last word each way arrives: order is kept.
    last: [Moment; 2],
    broken: bool,
    /// Whether words that were on their way when it broke are lost.
    cut: [bool; 2],
}

#[derive(Debug)]
enum Event {
    ToNode {
        stream: usize,
        ask: Option<Ask>,
    },
    ToUser {
        stream: usize,
        answer: Option<Answer>,
    },
    NodeWakes {
        life: u64,
    },
    NodeAnswers {
        life: u64,
    },
    NodeForgets {
        life: u64,
    },
    NodeStarts,
    UserWakes {
        user: usize,
        wish: u64,
    },
    UserConnects {
        user: usize,
        wish: u64,
    },
    UserWishes {
        user: usize,
    },
    UserLeaves {
        user: usize,
        wish: u64,
    },
    /// The guard of one who is dead has ended its command, and says goodbye.
    GuardSaysGoodbye {
        session: i64,
    },
    Breaks {
        stream: usize,
    },
    Fault,
}

/// What happened in a run, so that it is known what it was a trial of.
#[derive(Debug, Default)]
struct Counts {
    entries: u64,
    losses: u64,
    claims: u64,
    refused_claims: u64,
    again: u64,
    breaks: u64,
    deaths: u64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.entries += other.entries;
        self.losses += other.losses;
        self.claims += other.claims;
        self.refused_claims += other.refused_claims;
        self.again += other.again;
        self.breaks += other.breaks;
        self.deaths += other.deaths;
    }
}

struct World {
    seed: u64,
    now: Moment,
    dice: Dice,
    /// By when they happen, and when they were thought of.
    events: BTreeMap<(Moment, u64), Event>,
    numbers: u64,
    streams: Vec<Stream>,
    node: Option<Node>,
    life: u64,
    /// Until when it is stopped.
    node_stopped: Moment,
    /// What the node has written down: how long leases are, and a fence that none is above.
    disk: Record,
    fence: u64,
    users: Vec<User>,
    /// The last fence that somebody was told, by name.
    told: [u64; NAMES.len()],
    counts: Counts,
    notes: Vec<String>,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut world = Self {
            seed,
            now: Moment::from_nanos(1_000_000_000),
            dice: Dice(seed),
            events: BTreeMap::new(),
            numbers: 0,
            streams: Vec::new(),
            node: None,
            life: 0,
            node_stopped: Moment::ZERO,
            disk: Record::default(),
            fence: 100,
            users: (0..USERS).map(|_| User::default()).collect(),
            told: [0; NAMES.len()],
            counts: Counts::default(),
            notes: Vec::new(),
        };
        world.after(Duration::ZERO, Event::NodeStarts);
        for user in 0..USERS {
            world.later(1000, Event::UserWishes { user });
        }
        world.later(1000, Event::Fault);
        world
    }

    fn after(&mut self, wait: Duration, event: Event) {
        self.numbers += 1;
        self.events.insert((self.now.after(wait), self.numbers), event);
    }

    /// Within so many milliseconds.
    fn later(&mut self, most: u64, event: Event) {
        let wait = self.dice.millis(most);
        self.after(wait, event);
    }

    fn note(&mut self, text: String) {
        self.notes.push(format!("{:>9.3} {text}", self.now.nanos() as f64 / 1e9));
    }

    fn fails(&self, why: &str) -> ! {
        // One that is looked at is told from its beginning.
        let last = if number("MUTUA_SEED").is_some() { usize::MAX } else { 60 };
        let notes = &self.notes[self.notes.len().saturating_sub(last)..];
        let seed = self.seed;
        panic!(
            "{why}
{}
MUTUA_SEED={seed} repeats it",
            notes.join(
                "
"
            )
        );
    }

    fn run(mut self) -> Counts {
        while let Some(((at, number), event)) = self.events.pop_first() {
            if at > END {
                break;
            }
            if self.numbers >= MOST_EVENTS {
                self.fails("it goes round and round");
            }
            self.now = self.now.max(at);
            match self.stopped_until(&event) {
                // Whatever happens to who is stopped happens later: words in their order, and the
                // clock is looked at before or after them.
                Some(until) => {
                    let timer = matches!(event, Event::NodeWakes { .. } | Event::UserWakes { .. });
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
            | Event::NodeAnswers { .. }
            | Event::NodeForgets { .. }
            | Event::GuardSaysGoodbye { .. } => self.node_stopped,
            Event::ToUser { stream, .. } => self.users[self.streams[*stream].user].stopped,
            Event::UserWakes { user, .. }
            | Event::UserConnects { user, .. }
            | Event::UserLeaves { user, .. }
            | Event::UserWishes { user } => self.users[*user].stopped,
            Event::NodeStarts | Event::Breaks { .. } | Event::Fault => Moment::ZERO,
        };
        (until > self.now).then_some(until)
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::ToNode { stream, ask } => self.node_hears(stream, ask),
            Event::ToUser { stream, answer } => self.user_hears(stream, answer),
            Event::NodeWakes { life } => self.node_wakes(life),
            Event::NodeAnswers { life } => self.node_answers(life),
            Event::NodeForgets { life } => self.node_forgets(life),
            Event::NodeStarts => self.node_starts(),
            Event::UserWakes { user, wish } => self.user_wakes(user, wish),
            Event::UserConnects { user, wish } => self.user_connects(user, wish),
            Event::UserWishes { user } => self.user_wishes(user),
            Event::UserLeaves { user, wish } => self.user_leaves(user, wish),
            Event::GuardSaysGoodbye { session } => self.guard_says_goodbye(session),
            Event::Breaks { stream } => self.break_stream(stream),
            Event::Fault => self.fault(),
        }
    }

    /// Puts a word on its way; none: the connection is closed.
    fn send_to_node(&mut self, stream: usize, ask: Option<Ask>) {
        let at = self.arrival(stream, 0);
        self.numbers += 1;
        self.events.insert((at, self.numbers), Event::ToNode { stream, ask });
    }

    fn send_to_user(&mut self, stream: usize, answer: Option<Answer>) {
        let at = self.arrival(stream, 1);
        self.numbers += 1;
        self.events.insert((at, self.numbers), Event::ToUser { stream, answer });
    }

    fn arrival(&mut self, stream: usize, way: usize) -> Moment {
        let at = self.now.after(self.dice.latency());
        let last = &mut self.streams[stream].last[way];
        *last = (*last).max(at);
        *last
    }

    /// Both ends learn of it, each in its time.
    fn break_stream(&mut self, stream: usize) {
        if !std::mem::replace(&mut self.streams[stream].broken, true) {
            self.streams[stream].cut = [self.dice.one_in(2), self.dice.one_in(2)];
            self.send_to_node(stream, None);
            self.send_to_user(stream, None);
        }
    }

    fn check(&self) {
        for (name, bytes) in NAMES.iter().enumerate() {
            let inside = |(_, user): &(usize, &User)| user.is_inside(self.now, name);
            let who: Vec<_> =
                self.users.iter().enumerate().filter(inside).map(|one| one.0).collect();
            if who.len() > 1 {
                self.fails(&format!("users {who:?} are inside {} at once", bytes.escape_ascii()));
            }
        }
    }

    fn check_end(&self) {
        let Some(node) = &self.node else { self.fails("the node is not there at the end") };
        for (number, user) in self.users.iter().enumerate() {
            if !user.is_done() {
                self.fails(&format!("user {number} is not done at the end"));
            }
        }
        if node.desk.sessions() > 0 || !node.desk.nobody_inside(self.now) {
            self.fails("something is left at the end");
        }
    }
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().expect("a number"))
}

#[test]
fn one_is_inside_at_a_time_and_nothing_is_left_whatever_fails() {
    if let Some(seed) = number("MUTUA_SEED") {
        let world = World::new(seed);
        println!("{:?}", world.run());
        return;
    }
    let mut all = Counts::default();
    for seed in 0..number("MUTUA_SEEDS").unwrap_or(SEEDS) {
        all += World::new(seed).run();
    }
    println!("{all:?}");
    let Counts { entries, losses, claims, refused_claims, again, breaks, deaths } = all;
    let rare = [losses, claims, refused_claims, again, breaks, deaths];
    assert!(entries > 10_000 && rare.iter().all(|&count| count > 10), "{all:?}");
}
