//! A node whose peers send any message at any time: it neither panics, nor grants a lock twice, nor
//! fills its memory.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use mutua_algorithms::{Time, split_mix};

use super::{Protocol, ProtocolConfig, calls::OPEN};
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
        split_mix::next(&mut self.0) % bound
    }

    fn one_in(&mut self, chances: u64) -> bool {
        self.below(chances) == 0
    }

    /// Near this number, or one at the end of a range.
    fn near(&mut self, number: u64) -> u64 {
        let epochs = u64::from(Time::EPOCHS);
        let ends = [0, 199, 200, epochs - 2, epochs, u64::from(u32::MAX), u64::MAX];
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
            0 => Time::COUNTS - 1 - self.below(1 << 31),
            1 => (1 << 39) + self.below(3),
            _ => self.below(50),
        };
        let epoch = if self.one_in(8) { self.below(Time::EPOCHS.into()) as u32 } else { epoch };
        Time::from_number((u64::from(epoch) << Time::COUNT_BITS) | count)
    }

    fn name(&mut self) -> &'static [u8] {
        const LONG: &[u8] = &[7; 5000];
        if self.one_in(30) { LONG } else { NAMES[self.below(4) as usize] }
    }

    fn names(&mut self) -> Vec<&'static [u8]> {
        let most = if self.one_in(20) { 300 } else { 4 };
        (0..self.below(most)).map(|_| self.name()).collect()
    }

    /// Often the members as they are.
    fn incarnations(&mut self) -> Vec<u64> {
        match self.below(8) {
            0 => (0..self.below(5)).map(|_| self.below(15)).collect(),
            1 => incarnations().into_iter().map(|number| self.near(number)).collect(),
            _ => incarnations(),
        }
    }

    fn call(&mut self) -> &'static [u8] {
        const LONG: &[u8] = &[7; MAX_CALL + 1];
        if self.one_in(200) { LONG } else { self.name() }
    }

    /// Bytes that are often a message of some algorithm, which are short and have small numbers.
    fn body(&mut self) -> Vec<u8> {
        let most = if self.one_in(4) { 256 } else { 5 };
        (0..self.below(14)).map(|_| self.below(most) as u8).collect()
    }
}

struct Stage {
    protocol: Protocol,
    dice: Dice,
    now: Moment,
    connections: u64,
    locks: Vec<LockId>,
    held: BTreeMap<LockId, Ticket>,
    waiting: BTreeMap<Ticket, LockId>,
    /// Epochs that the node's disk has not written yet.
    writes: Vec<u32>,
    /// Calls of this node, and calls of the peers without a reply yet.
    calls: BTreeSet<CallId>,
    called: Vec<(Caller, Vec<u8>)>,
    answers: u32,
    warnings: BTreeMap<String, u32>,
    views: u32,
    entries: u32,
}

fn incarnation_of(member: Member) -> u64 {
    u64::from(member.0) + 10
}

/// The report of every member when all are linked to each other.
fn incarnations() -> Vec<u64> {
    (0..MEMBERS).map(|member| incarnation_of(Member(member))).collect()
}

impl Stage {
    fn new(seed: u64, me: u32, algorithm: &str) -> Self {
        let plan = Plan::new(MEMBERS, &[Rule::new("*", algorithm)]).expect("a rule that suits");
        let limits = Limits { idle_after: Duration::from_millis(40), ..Limits::default() };
        let me = Member(me);
        let config = ProtocolConfig {
            cluster: CLUSTER.to_owned(),
            names: (0..MEMBERS).map(|member| format!("n{member}")).collect(),
            me,
            plan: Arc::new(plan),
            incarnation: incarnation_of(me),
            epoch: 0,
            limits,
            views: crate::ViewSource::FixedList,
        };
        let mut protocol = Protocol::new(Moment::ZERO, config);
        let locks = NAMES[..2].iter().map(|name| protocol.open(name).expect("short")).collect();
        let mut stage = Self {
            protocol,
            dice: Dice(seed),
            now: Moment::ZERO,
            connections: 0,
            locks,
            held: BTreeMap::new(),
            waiting: BTreeMap::new(),
            writes: Vec::new(),
            calls: BTreeSet::new(),
            called: Vec::new(),
            answers: 0,
            warnings: BTreeMap::new(),
            views: 0,
            entries: 0,
        };
        for peer in stage.protocol.peers() {
            stage.connect(peer);
        }
        stage
    }

    fn connect(&mut self, peer: Member) {
        self.connections += 1;
        let hello = Hello {
            cluster: CLUSTER.to_owned(),
            plan: self.protocol.rules_digest(),
            from: peer,
            to: self.protocol.me(),
            incarnation: incarnation_of(peer),
            session: self.protocol.link(peer).session().max(1),
            received: self.protocol.link(peer).acknowledged(),
            levels: self.protocol.levels(),
        };
        let connection = Connection(self.connections);
        self.protocol.connected(self.now, connection, &hello).expect("a greeting that fits");
        self.pump();
    }

    /// A peer sends this, in the next frame.
    fn deliver(&mut self, from: Member, message: Message<'_>) {
        let number = self.protocol.link(from).received() + 1;
        self.arrive(from, &Frame::Data { number, message });
    }

    fn arrive(&mut self, from: Member, frame: &Frame<'_>) {
        if !self.protocol.link(from).is_up() {
            self.connect(from);
        }
        let tag = wire::tag(CLUSTER, [incarnation_of(from), incarnation_of(self.protocol.me())]);
        let connection = self.protocol.link(from).connection.expect("just connected");
        self.protocol.received(self.now, from, connection, &wire::encode(tag, frame));
        self.pump();
    }

    /// A peer acknowledges all frames that it was sent.
    fn acknowledge(&mut self, from: Member) {
        let upto = self.protocol.link(from).sent();
        self.arrive(from, &Frame::Ack { upto });
    }

    fn pump(&mut self) {
        for effect in self.protocol.take_effects() {
            match effect {
                Effect::Granted { ticket, .. } => {
                    let lock = self.waiting.remove(&ticket).expect("a waiter");
                    self.enter(lock, ticket);
                }
                Effect::Refused { ticket, .. } => drop(self.waiting.remove(&ticket)),
                Effect::Lost { ticket } => panic!("{ticket:?} was lost"),
                Effect::Recorded { .. } | Effect::Custody { .. } => panic!("nothing is recorded"),
                Effect::Propose { command } => panic!("{command:?} was proposed"),
                Effect::Write { epoch } => self.writes.push(epoch),
                Effect::Log { text, .. } => *self.warnings.entry(text).or_default() += 1,
                Effect::Called { caller, body } => self.called.push((caller, body)),
                Effect::Replied { call, .. } | Effect::Unanswered { call } => {
                    assert!(self.calls.remove(&call), "an answer without a call");
                }
                Effect::Close { .. } | Effect::Trace { .. } | Effect::Members => {}
            }
        }
        self.protocol.take_ready();
    }

    fn enter(&mut self, lock: LockId, ticket: Ticket) {
        self.entries += 1;
        let other = self.held.insert(lock, ticket);
        assert_eq!(other, None, "the lock is held already");
    }

    fn client(&mut self) {
        let lock = self.locks[self.dice.below(self.locks.len() as u64) as usize];
        let answer = match self.held.remove(&lock) {
            Some(ticket) => {
                assert!(self.protocol.release(self.now, lock, ticket), "it held the lock");
                return self.pump();
            }
            None if self.waiting.len() > 20 => {
                let (ticket, lock) = self.waiting.pop_first().expect("many waiters");
                self.protocol.cancel(self.now, lock, ticket);
                return self.pump();
            }
            None if self.dice.one_in(3) => self.protocol.try_acquire(self.now, lock, None),
            None => self.protocol.acquire(self.now, lock, None),
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
            self.protocol.written(self.now, epoch);
            self.views += u32::from(self.protocol.epoch() == Some(epoch));
            self.pump();
        }
    }

    fn nonsense(&mut self, from: Member) {
        let epoch_now = self.protocol.view_epoch();
        let round_now = match self.protocol.me() {
            Member(0) => self.protocol.decider.gathering_round(),
            _ => self.protocol.decider.reported_round().unwrap_or(1),
        };
        let dice = &mut self.dice;
        let (epoch, name, body) = (dice.epoch(epoch_now), dice.name(), dice.body());
        let id = dice.near(self.protocol.numbers);
        let cleanup = dice.near(1 + dice.0 % 3);
        let round = dice.near(round_now);
        let member = Member(dice.near(dice.0 % 3) as u32);
        // Few of these end the view, so that it lasts for a while.
        let message = match dice.below(46) {
            0..=14 => Message::Lock { epoch, name, sent: dice.clock(epoch), body: &body },
            15..=17 => Message::Nudge { epoch, name },
            18..=20 => Message::Query { epoch, id, name, waiting_counts: dice.one_in(2) },
            21..=23 => Message::QueryReply { epoch, id, busy: dice.one_in(2) },
            24..=28 => Message::Cleanup { epoch, round: cleanup, names: dice.names() },
            29..=33 => {
                let most = if dice.one_in(20) { 400 } else { 3 };
                let kept = (0..dice.below(most)).map(|index| dice.near(index) as u32).collect();
                let (second, clock) = (dice.one_in(2), dice.clock(epoch));
                Message::Vote { epoch, home: member, round: cleanup, second, kept, clock }
            }
            34 => Message::Gather { round: dice.near(round_now.saturating_add(1)) },
            35 => Message::Holds { round, names: dice.names() },
            36 => Message::Report { round, epoch, incarnations: dice.incarnations() },
            37 => {
                let names = dice.names().into_iter().map(|name| (member, name)).collect();
                Message::Held { round, names }
            }
            38 => Message::Install {
                round,
                epoch: dice.epoch(epoch_now + 1),
                incarnations: dice.incarnations(),
            },
            39..=41 => Message::Call { id, body: dice.call() },
            42..=44 => Message::Reply { id, body: dice.call() },
            _ => Message::Ended { epoch },
        };
        self.deliver(from, message);
    }

    fn step(&mut self) {
        let peers: Vec<_> = self.protocol.peers().collect();
        let peer = peers[self.dice.below(2) as usize];
        match self.dice.below(20) {
            0..=2 => self.client(),
            3 => self.finish_writes(),
            4 => self.acknowledge(peer),
            5 => {
                let wait = Duration::from_millis(self.dice.below(60));
                self.now = self.now.after(wait);
                self.protocol.tick(self.now);
                self.pump();
            }
            6 => self.form_a_view(),
            7 => self.call_and_reply(peer),
            _ => self.nonsense(peer),
        }
    }

    fn call_and_reply(&mut self, peer: Member) {
        self.calls.extend(self.protocol.call(peer, b"call"));
        if let Some((caller, body)) = self.called.pop() {
            self.answers += 1;
            self.protocol.reply(caller, &body);
        }
        self.pump();
    }

    /// The peers form a view, as correct ones do.
    fn form_a_view(&mut self) {
        let epoch = self.protocol.epoch;
        if self.protocol.epoch().is_some() || epoch > 1 << 22 {
            return;
        }
        for peer in self.protocol.peers() {
            if !self.protocol.link(peer).is_up() {
                self.connect(peer);
            }
        }
        if self.protocol.me() == Member(0) {
            let round = self.protocol.decider.gathering_round();
            for peer in self.protocol.peers() {
                self.deliver(peer, Message::Report { round, epoch, incarnations: incarnations() });
            }
        } else {
            let (coordinator, round) = (Member(0), self.dice.below(1000));
            self.deliver(coordinator, Message::Gather { round });
            let held = super::decider::held(&self.protocol.table);
            let names = held.iter().map(|name| (self.protocol.me(), &**name)).collect();
            self.deliver(coordinator, Message::Held { round, names });
            self.deliver(
                coordinator,
                Message::Install { round, epoch: epoch + 1, incarnations: incarnations() },
            );
        }
        self.finish_writes();
    }

    fn check_memory(&self) {
        let protocol = &self.protocol;
        let known = protocol.table.iter().count();
        assert!(known <= NAMES.len(), "{known} names");
        let rounds = protocol.cleanup.rounds.len();
        assert!(rounds <= 2 * MEMBERS as usize, "{rounds} rounds");
        assert!(protocol.timers.len() < 2000, "{} timers", protocol.timers.len());
        assert!(protocol.queries.len() <= 30, "{} queries", protocol.queries.len());
        assert!(self.called.len() <= 2 * OPEN, "{} without a reply", self.called.len());
    }
}

#[test]
fn whatever_peers_send_a_node_goes_on_and_grants_a_lock_to_one_at_a_time() {
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
    let breaches = [
        "not running",
        "not due",
        "already",
        "above the",
        "name that is too long",
        "not in the list",
    ];
    for breach in breaches.into_iter().chain(["call or reply that is too long"]) {
        assert!(warnings.keys().any(|text| text.contains(breach)), "never refused: {breach}");
    }
}

#[test]
fn early_messages_are_kept_up_to_a_bound_and_handled_later() {
    let mut stage = Stage::new(1, 1, "naimi-trehel");
    let big = vec![7; 1 << 19];
    let message = || Message::Lock { epoch: 1, name: b"a", sent: Time::ZERO, body: &big };
    for _ in 0..100 {
        stage.deliver(Member(2), message());
    }
    let kept = stage.protocol.link(Member(2)).received();
    assert!((20..40).contains(&kept), "{kept} messages of half a MiB are kept");
    stage.form_a_view();
    assert_eq!(stage.protocol.epoch(), Some(1));
    stage.deliver(Member(2), message());
    assert_eq!(stage.protocol.link(Member(2)).received(), kept + 1);
}

#[test]
fn messages_for_a_lock_that_is_being_cleaned_up_are_kept_up_to_a_bound() {
    let mut stage = Stage::new(1, 1, "naimi-trehel");
    stage.form_a_view();
    let (name, big) = (name_with_home(Member(0)), vec![7; 1 << 19]);
    stage.deliver(Member(0), Message::Cleanup { epoch: 1, round: 1, names: vec![&name] });
    let mut kept = 0;
    while stage.protocol.epoch().is_some() {
        assert!(stage.protocol.cleanup.arrived <= 64 << 20, "more than 64 MiB are kept");
        kept += 1;
        let sent = Time::new(1, 1);
        stage.deliver(Member(2), Message::Lock { epoch: 1, name: &name, sent, body: &big });
    }
    // The view ends, which costs only time, and the kept messages are dropped.
    assert!((120..=130).contains(&kept), "{kept} messages of half a MiB were kept");
    assert!(stage.warnings.keys().any(|text| text.contains("too many messages arrived")));
    assert_eq!(stage.protocol.cleanup.arrived, 0);
    stage.form_a_view();
    assert_eq!(stage.protocol.epoch(), Some(2));
}

#[test]
fn calls_of_a_peer_are_answered_up_to_a_bound_and_again_later() {
    let mut stage = Stage::new(1, 1, "naimi-trehel");
    let call =
        |stage: &mut Stage, id| stage.deliver(Member(2), Message::Call { id, body: b"call" });
    for id in 0..2 * OPEN as u64 {
        call(&mut stage, id);
    }
    assert_eq!(stage.called.len(), OPEN, "the others got empty replies");
    let (caller, body) = stage.called.pop().expect("many");
    stage.protocol.reply(caller, &body);
    call(&mut stage, 0);
    assert_eq!(stage.called.len(), OPEN);
    for _ in 0..2 * OPEN {
        stage.calls.extend(stage.protocol.call(Member(2), b"call"));
    }
    assert_eq!(stage.calls.len(), OPEN, "this node does not call more often itself");
}

#[test]
fn a_view_that_omits_a_held_lock_is_refused() {
    let mut stage = Stage::new(1, 1, "naimi-trehel");
    let alone = Message::Install { round: 5, epoch: 2, incarnations: incarnations() };
    stage.form_a_view();
    let lock = stage.protocol.open(&home_name()).expect("short");
    let answer = stage.protocol.acquire(stage.now, lock, None);
    assert!(matches!(answer, Answer::Granted { .. }), "{answer:?}");
    stage.deliver(Member(0), Message::Gather { round: 5 });
    stage.deliver(Member(0), alone.clone());
    assert!(stage.writes.is_empty());
    let name = home_name();
    let names = vec![(Member(1), name.as_slice())];
    stage.deliver(Member(0), Message::Held { round: 5, names });
    stage.deliver(Member(0), alone);
    assert_eq!(stage.writes, [2]);
}

fn home_name() -> Vec<u8> {
    name_with_home(Member(1))
}

fn name_with_home(home: Member) -> Vec<u8> {
    let members: Vec<_> = (0..MEMBERS).map(Member).collect();
    let name = |number: u32| format!("name {number}").into_bytes();
    let has_home = |name: &Vec<u8>| crate::member::home(name, &members) == home;
    (0..).map(name).find(has_home).expect("names spread over the members")
}
