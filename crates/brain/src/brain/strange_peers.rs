//! A node among peers that say anything that can be said: it neither falls over, nor lets two in,
//! nor keeps more and more.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use mutua_algorithms::Time;

use super::{Brain, Seat, calls::OPEN};
use crate::{
    Answer, CallId, Caller, Connection, Effect, Hello, Limits, LockId, MAX_CALL, Member, Moment,
    Plan, Rule, Ticket, usable,
    wire::{self, Frame, Message},
};

const CLUSTER: &str = "test";
const MEMBERS: u32 = 3;
const NAMES: [&[u8]; 4] = [b"a", b"b", b"", b"another one"];

/// Dice (SplitMix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }

    fn one_in(&mut self, chances: u64) -> bool {
        self.below(chances) == 0
    }

    /// Near this number, or one of those where counting ends.
    fn near(&mut self, number: u64) -> u64 {
        let ends = [0, 199, 200, (1 << 23) - 2, 1 << 23, u64::from(u32::MAX), u64::MAX];
        match self.below(60) {
            0 => ends[self.below(ends.len() as u64) as usize],
            1..=40 => number,
            _ => number.saturating_add(self.below(4)).saturating_sub(1),
        }
    }

    fn epoch(&mut self, epoch: u32) -> u32 {
        self.near(epoch.into()) as u32
    }

    fn clock(&mut self, epoch: u32) -> Time {
        let count = match self.below(8) {
            0 => (1 << 40) - 1 - self.below(1 << 31),
            1 => (1 << 39) + self.below(3),
            _ => self.below(50),
        };
        let epoch = if self.one_in(8) { self.below(1 << 23) as u32 } else { epoch };
        Time::from_number((u64::from(epoch) << 40) | count)
    }

    fn name(&mut self) -> &'static [u8] {
        const LONG: &[u8] = &[7; 5000];
        if self.one_in(30) { LONG } else { NAMES[self.below(4) as usize] }
    }

    fn names(&mut self) -> Vec<&'static [u8]> {
        let most = if self.one_in(20) { 300 } else { 4 };
        (0..self.below(most)).map(|_| self.name()).collect()
    }

    fn question(&mut self) -> &'static [u8] {
        const LONG: &[u8] = &[7; MAX_CALL + 1];
        if self.one_in(200) { LONG } else { self.name() }
    }

    /// Bytes that are often a message of some algorithm: those are short and of small numbers.
    fn body(&mut self) -> Vec<u8> {
        let most = if self.one_in(4) { 256 } else { 5 };
        (0..self.below(14)).map(|_| self.below(most) as u8).collect()
    }
}

struct Stage {
    brain: Brain,
    dice: Dice,
    now: Moment,
    connections: u64,
    locks: Vec<LockId>,
    inside: BTreeMap<LockId, Ticket>,
    waiting: BTreeMap<Ticket, LockId>,
    /// What the node's disk is busy with.
    writes: Vec<u32>,
    /// Questions of ours, and of the peers that we have not answered yet.
    calls: BTreeSet<CallId>,
    called: Vec<(Caller, Vec<u8>)>,
    answers: u32,
    warnings: BTreeMap<String, u32>,
    views: u32,
    entries: u32,
}

fn life(member: Member) -> u64 {
    u64::from(member.0) + 10
}

impl Stage {
    fn new(seed: u64, me: u32, algorithm: &str) -> Self {
        let plan = Plan::new(MEMBERS, &[Rule::new("*", algorithm)]).expect("a rule that suits");
        let limits = Limits { forget_after: Duration::from_millis(40), ..Limits::default() };
        let me = Member(me);
        let seat = Seat {
            cluster: CLUSTER.to_owned(),
            names: (0..MEMBERS).map(|member| format!("n{member}")).collect(),
            me,
            plan: Arc::new(plan),
            incarnation: life(me),
            epoch: 0,
            limits,
        };
        let mut brain = Brain::new(Moment::ZERO, seat);
        let locks = NAMES[..2].iter().map(|name| brain.open(name).expect("short")).collect();
        let mut stage = Self {
            brain,
            dice: Dice(seed),
            now: Moment::ZERO,
            connections: 0,
            locks,
            inside: BTreeMap::new(),
            waiting: BTreeMap::new(),
            writes: Vec::new(),
            calls: BTreeSet::new(),
            called: Vec::new(),
            answers: 0,
            warnings: BTreeMap::new(),
            views: 0,
            entries: 0,
        };
        for peer in stage.brain.others() {
            stage.connect(peer);
        }
        stage
    }

    fn connect(&mut self, peer: Member) {
        self.connections += 1;
        let hello = Hello {
            cluster: CLUSTER.to_owned(),
            plan: self.brain.seat.plan.digest(),
            from: peer,
            to: self.brain.me(),
            incarnation: life(peer),
            knows: life(self.brain.me()),
            received: 0,
        };
        let connection = Connection(self.connections);
        self.brain.connected(self.now, connection, &hello).expect("a greeting that fits");
        self.pump();
    }

    /// A peer says this, in a frame that is in order.
    fn say(&mut self, from: Member, message: Message<'_>) {
        let number = self.brain.link(from).received() + 1;
        self.arrive(from, &Frame::Data { number, message });
    }

    fn arrive(&mut self, from: Member, frame: &Frame<'_>) {
        if !self.brain.link(from).is_up() {
            self.connect(from);
        }
        let tag = wire::tag(CLUSTER, [life(from), life(self.brain.me())]);
        let connection = self.brain.link(from).connection.expect("just connected");
        self.brain.received(self.now, from, connection, &wire::encode(tag, frame));
        self.pump();
    }

    /// A peer acknowledges all that it was sent.
    fn acknowledge(&mut self, from: Member) {
        let upto = self.brain.link(from).sent();
        self.arrive(from, &Frame::Ack { upto });
    }

    fn pump(&mut self) {
        for effect in self.brain.take_effects() {
            match effect {
                Effect::Granted { ticket, .. } => {
                    let lock = self.waiting.remove(&ticket).expect("somebody who waits");
                    self.enter(lock, ticket);
                }
                Effect::Refused { ticket, .. } => drop(self.waiting.remove(&ticket)),
                Effect::Lost { ticket } => panic!("{ticket:?} was lost"),
                Effect::Write { epoch } => self.writes.push(epoch),
                Effect::Log { text, .. } => *self.warnings.entry(text).or_default() += 1,
                Effect::Called { caller, body } => self.called.push((caller, body)),
                Effect::Replied { call, .. } | Effect::Unanswered { call } => {
                    assert!(self.calls.remove(&call), "an answer to nothing");
                }
                Effect::Close { .. } | Effect::Trace { .. } => {}
            }
        }
        self.brain.take_ready();
    }

    fn enter(&mut self, lock: LockId, ticket: Ticket) {
        self.entries += 1;
        let other = self.inside.insert(lock, ticket);
        assert_eq!(other, None, "two are inside");
    }

    fn client(&mut self) {
        let lock = self.locks[self.dice.below(self.locks.len() as u64) as usize];
        let answer = match self.inside.remove(&lock) {
            Some(ticket) => {
                assert!(self.brain.release(self.now, lock, ticket), "it was inside");
                return self.pump();
            }
            None if self.waiting.len() > 20 => {
                let (ticket, lock) = self.waiting.pop_first().expect("many wait");
                self.brain.cancel(self.now, lock, ticket);
                return self.pump();
            }
            None if self.dice.one_in(3) => self.brain.try_acquire(self.now, lock, None),
            None => self.brain.acquire(self.now, lock, None),
        };
        match answer {
            Answer::Granted { ticket, .. } => self.enter(lock, ticket),
            Answer::Waiting { ticket } => drop(self.waiting.insert(ticket, lock)),
            Answer::Refused(_) => {}
        }
        self.pump();
    }

    fn finish_writes(&mut self) {
        for epoch in std::mem::take(&mut self.writes) {
            self.brain.written(self.now, epoch);
            self.views += u32::from(self.brain.epoch() == Some(epoch));
            self.pump();
        }
    }

    fn nonsense(&mut self, from: Member) {
        let epoch_now = self.brain.view_epoch();
        let round_now = match self.brain.me() {
            Member(0) => self.brain.council.chair_round(),
            _ => self.brain.council.reported.unwrap_or(1),
        };
        let dice = &mut self.dice;
        let (epoch, name, body) = (dice.epoch(epoch_now), dice.name(), dice.body());
        let id = dice.near(self.brain.numbers);
        let forgetting = dice.near(1 + dice.0 % 3);
        let round = dice.near(round_now);
        let member = Member(dice.near(dice.0 % 3) as u32);
        // Few end the view, so that it lasts for a while.
        let message = match dice.below(46) {
            0..=14 => Message::Lock { epoch, name, sent: dice.clock(epoch), body: &body },
            15..=17 => Message::Nudge { epoch, name },
            18..=20 => Message::Ask { epoch, id, name, waiting_counts: dice.one_in(2) },
            21..=23 => Message::Answer { epoch, id, busy: dice.one_in(2) },
            24..=28 => Message::Forget { epoch, round: forgetting, names: dice.names() },
            29..=33 => {
                let most = if dice.one_in(20) { 400 } else { 3 };
                let kept = (0..dice.below(most)).map(|place| dice.near(place) as u32).collect();
                let (second, clock) = (dice.one_in(2), dice.clock(epoch));
                Message::Vote { epoch, home: member, round: forgetting, second, kept, clock }
            }
            34 => Message::Gather { round: dice.near(round_now.saturating_add(1)) },
            35 => Message::Inside { round, names: dice.names() },
            36 => Message::Report { round, epoch },
            37 => {
                let names = dice.names().into_iter().map(|name| (member, name)).collect();
                Message::Held { round, names }
            }
            38 => Message::Install { round, epoch: dice.epoch(epoch_now + 1) },
            39..=41 => Message::Call { id, body: dice.question() },
            42..=44 => Message::Reply { id, body: dice.question() },
            _ => Message::Ended { epoch },
        };
        self.say(from, message);
    }

    fn step(&mut self) {
        let peers: Vec<_> = self.brain.others().collect();
        let peer = peers[self.dice.below(2) as usize];
        match self.dice.below(20) {
            0..=2 => self.client(),
            3 => self.finish_writes(),
            4 => self.acknowledge(peer),
            5 => {
                let wait = Duration::from_millis(self.dice.below(60));
                self.now = self.now.after(wait);
                self.brain.tick(self.now);
                self.pump();
            }
            6 => self.form_a_view(),
            7 => self.ask_and_answer(peer),
            _ => self.nonsense(peer),
        }
    }

    fn ask_and_answer(&mut self, peer: Member) {
        self.calls.extend(self.brain.call(peer, b"who?"));
        if let Some((caller, body)) = self.called.pop() {
            self.answers += 1;
            self.brain.reply(caller, &body);
        }
        self.pump();
    }

    /// The peers do for once what they should.
    fn form_a_view(&mut self) {
        let epoch = self.brain.epoch;
        if self.brain.epoch().is_some() || epoch > 1 << 22 {
            return;
        }
        for peer in self.brain.others() {
            if !self.brain.link(peer).is_up() {
                self.connect(peer);
            }
        }
        if self.brain.me() == Member(0) {
            let round = self.brain.council.chair_round();
            for peer in self.brain.others() {
                self.say(peer, Message::Report { round, epoch });
            }
        } else {
            let (chair, round) = (Member(0), self.dice.below(1000));
            self.say(chair, Message::Gather { round });
            let inside = self.brain.inside_here();
            let names = inside.iter().map(|name| (self.brain.me(), &**name)).collect();
            self.say(chair, Message::Held { round, names });
            self.say(chair, Message::Install { round, epoch: epoch + 1 });
        }
        self.finish_writes();
    }

    fn check_memory(&self) {
        let brain = &self.brain;
        let known = brain.table.iter().count();
        assert!(known <= NAMES.len(), "{known} names");
        let rounds = brain.forgetting.rounds.len();
        assert!(rounds <= 2 * MEMBERS as usize, "{rounds} rounds");
        assert!(brain.timers.len() < 2000, "{} timers", brain.timers.len());
        assert!(brain.asks.len() <= 30, "{} questions", brain.asks.len());
        assert!(self.called.len() <= 2 * OPEN, "{} to be answered", self.called.len());
    }
}

#[test]
fn whatever_peers_say_a_node_stands_and_lets_in_one_at_a_time() {
    let (mut views, mut entries) = (0, 0);
    let mut warnings = BTreeMap::new();
    for (number, about) in usable().enumerate() {
        for run in 0..6 {
            let seed = 1000 * number as u64 + run;
            println!("{} seed {seed}", about.name);
            let mut stage = Stage::new(seed, (run % 3) as u32, about.name);
            for _ in 0..1000 {
                stage.step();
                stage.check_memory();
            }
            views += stage.views;
            entries += stage.entries;
            warnings.append(&mut stage.warnings);
        }
    }
    println!("{views} views, {entries} entries");
    assert!(views > 500 && entries > 300, "{views} views, {entries} entries: a dull test");
    let breaches = ["not on", "not due", "already", "beyond all", "too long", "not in the list"];
    for breach in breaches.into_iter().chain(["more than a question has"]) {
        assert!(warnings.keys().any(|text| text.contains(breach)), "never refused: {breach}");
    }
}

#[test]
fn what_comes_too_early_is_kept_up_to_a_bound_and_taken_in_later() {
    let mut stage = Stage::new(1, 1, "naimi-trehel");
    let big = vec![7; 1 << 19];
    let message = || Message::Lock { epoch: 1, name: b"a", sent: Time::ZERO, body: &big };
    for _ in 0..100 {
        stage.say(Member(2), message());
    }
    let kept = stage.brain.link(Member(2)).received();
    assert!((20..40).contains(&kept), "{kept} messages of half a MiB are kept");
    stage.form_a_view();
    assert_eq!(stage.brain.epoch(), Some(1));
    stage.say(Member(2), message());
    assert_eq!(stage.brain.link(Member(2)).received(), kept + 1);
}

#[test]
fn what_comes_for_a_lock_that_is_being_forgotten_is_kept_up_to_a_bound() {
    let mut stage = Stage::new(1, 1, "naimi-trehel");
    stage.form_a_view();
    let (name, big) = (name_at_home_with(Member(0)), vec![7; 1 << 19]);
    stage.say(Member(0), Message::Forget { epoch: 1, round: 1, names: vec![&name] });
    let mut kept = 0;
    while stage.brain.epoch().is_some() {
        assert!(stage.brain.forgetting.arrived <= 64 << 20, "more than 64 MiB are kept");
        kept += 1;
        let sent = Time::new(1, 1);
        stage.say(Member(2), Message::Lock { epoch: 1, name: &name, sent, body: &big });
    }
    // The view ends, which loses nothing but time, and what was kept goes with it.
    assert!((120..=130).contains(&kept), "{kept} messages of half a MiB were kept");
    assert!(stage.warnings.keys().any(|text| text.contains("too much has come")));
    assert_eq!(stage.brain.forgetting.arrived, 0);
    stage.form_a_view();
    assert_eq!(stage.brain.epoch(), Some(2));
}

#[test]
fn who_asks_and_asks_is_answered_up_to_a_bound_and_again_later() {
    let mut stage = Stage::new(1, 1, "naimi-trehel");
    let ask = |stage: &mut Stage, id| stage.say(Member(2), Message::Call { id, body: b"who?" });
    for id in 0..2 * OPEN as u64 {
        ask(&mut stage, id);
    }
    assert_eq!(stage.called.len(), OPEN, "the others were answered with nothing");
    let (caller, body) = stage.called.pop().expect("many");
    stage.brain.reply(caller, &body);
    ask(&mut stage, 0);
    assert_eq!(stage.called.len(), OPEN);
    for _ in 0..2 * OPEN {
        stage.calls.extend(stage.brain.call(Member(2), b"who?"));
    }
    assert_eq!(stage.calls.len(), OPEN, "and we do not ask more ourselves");
}

#[test]
fn a_view_that_forgets_who_is_inside_is_refused() {
    let mut stage = Stage::new(1, 1, "naimi-trehel");
    let alone = Message::Install { round: 5, epoch: 2 };
    stage.form_a_view();
    let lock = stage.brain.open(&home_name()).expect("short");
    let answer = stage.brain.acquire(stage.now, lock, None);
    assert!(matches!(answer, Answer::Granted { .. }), "{answer:?}");
    stage.say(Member(0), Message::Gather { round: 5 });
    stage.say(Member(0), alone.clone());
    assert!(stage.writes.is_empty());
    let name = home_name();
    let names = vec![(Member(1), name.as_slice())];
    stage.say(Member(0), Message::Held { round: 5, names });
    stage.say(Member(0), alone);
    assert_eq!(stage.writes, [2]);
}

fn home_name() -> Vec<u8> {
    name_at_home_with(Member(1))
}

fn name_at_home_with(home: Member) -> Vec<u8> {
    let members: Vec<_> = (0..MEMBERS).map(Member).collect();
    let name = |number: u32| format!("name {number}").into_bytes();
    let at_home = |name: &Vec<u8>| crate::member::home(name, &members) == home;
    (0..).map(name).find(at_home).expect("names spread over the members")
}
