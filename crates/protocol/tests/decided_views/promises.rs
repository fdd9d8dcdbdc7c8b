//! Promises: a node informs a client outside its process of a grant before the hold is recorded,
//! and the client counts on no more than the rest of the node's view lease. A node's part of it is
//! what the server around the node does, in `mutua-server`, `leases/promises.rs`.

use std::time::Duration;

use mutua_protocol::{
    Moment, Rule, Ticket,
    views::{Command, DecidedView, Role, ViewSettings},
};

use super::{
    cases::{acquire, pass, release, world},
    events::SECOND,
    external::External,
    externals::Word,
    world::{Event, World},
};

/// A shorter promise is not given.
const SHORTEST: Duration = Duration::from_millis(100);
const PROLONG_AFTER: Duration = Duration::from_millis(200);

/// How promises are counted and kept: rightly, or in one way that is wrong.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum PromiseRule {
    Right,
    /// The client counts from when it read the promise.
    FromReceipt,
    /// A node that loses its view lease releases what it has promised.
    DroppedAtLapse,
    /// The client takes the promise for a grant that is recorded.
    Endless,
    /// No clock gains or loses.
    DriftForgotten,
    /// Only the time before the grant shrinks by the drift: the rest of the view lease has room for
    /// it already, as long as somebody waits for its end.
    RestNotShrunk,
}

/// What a node has promised.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Promise {
    until: Moment,
    record_at: Moment,
    recording: bool,
    /// The lock is lost, and kept until the promise ends.
    kept: bool,
}

/// The nodes' part.
impl World {
    /// How long a promise lasts on its client's clock, from when the client sent its request.
    fn lasts(&self, now: Moment, asked: Moment, until: Moment) -> Duration {
        let drift = u128::from(self.settings.drift);
        let shrunk = |time: Duration| {
            let nanos = time.as_nanos() * (1_000_000 - drift) / (1_000_000 + drift);
            Duration::from_nanos(nanos as u64)
        };
        match self.promises {
            Some(PromiseRule::DriftForgotten) => until.since(asked),
            Some(PromiseRule::RestNotShrunk) => until.since(now) + shrunk(now.since(asked)),
            _ => shrunk(until.since(asked)),
        }
    }

    /// A lock was granted for a client outside. Returns whether it is promised to it.
    pub(crate) fn promise(&mut self, slot: usize, ticket: Ticket) -> bool {
        if self.promises.is_none() {
            return false;
        }
        let now = self.local(slot);
        let protocol = self.nodes[slot].layer.as_ref().expect("up");
        let until = protocol.good_until();
        let served = &self.nodes[slot].served[&ticket];
        let lasts = self.lasts(now, served.asked, until);
        let waited = self.settings.on_any_clock(now.since(served.asked));
        if served.expires <= now || lasts.saturating_sub(waited) < SHORTEST {
            return false;
        }
        // Keepers may not answer for long.
        let wait = match self.dice.one_in(3) {
            true => self.dice.micros(5000, 3_000_000),
            false => Duration::from_millis(5),
        };
        let record_at = now.after(wait);
        let promise = Promise { until, record_at, recording: false, kept: false };
        self.nodes[slot].served.get_mut(&ticket).expect("just seen").promise = Some(promise);
        self.counts.promises += 1;
        self.send_promise(slot, ticket);
        self.look_at_promise(slot, ticket, wait.min(PROLONG_AFTER));
        true
    }

    fn send_promise(&mut self, slot: usize, ticket: Ticket) {
        let now = self.local(slot);
        let served = self.nodes[slot].served[&ticket].clone();
        let Some(promise) = served.promise else { return };
        let lock = self.nodes[slot].locks[served.name];
        let protocol = self.nodes[slot].layer.as_ref().expect("up");
        let Some(fence) = protocol.holds(lock, ticket) else { return };
        let lasts = self.lasts(now, served.asked, promise.until);
        let (client, session, token) = (served.client, served.session, fence.number());
        self.note(|| format!("{slot} promises {} to external {client}: {lasts:?}", served.name));
        self.send_to_client(client, Word::Promised { session, token, lasts });
    }

    fn look_at_promise(&mut self, slot: usize, ticket: Ticket, wait: Duration) {
        let at = self.real(slot, self.local(slot).after(wait));
        let incarnation = self.nodes[slot].incarnation;
        self.at(at, Event::Promise { slot, incarnation, ticket });
    }

    /// A promise is due to grow, to be recorded, or to end.
    pub(crate) fn on_promise(&mut self, slot: usize, ticket: Ticket) {
        // A process that was stopped handles its lapse first.
        self.call(slot, |protocol, now| protocol.tick(now));
        let now = self.local(slot);
        let until = self.nodes[slot].layer.as_ref().expect("up").good_until();
        let Some(served) = self.nodes[slot].served.get_mut(&ticket) else { return };
        let Some(promise) = &mut served.promise else { return };
        if promise.kept {
            if promise.until <= now {
                return self.end_session(slot, ticket);
            }
            let left = promise.until.since(now);
            return self.look_at_promise(slot, ticket, left);
        }
        let longer = promise.until < until;
        promise.until = promise.until.max(until);
        let records = promise.record_at <= now && !promise.recording;
        promise.recording |= records;
        let left = promise.record_at.since(now);
        if longer {
            self.send_promise(slot, ticket);
        }
        let wait = if left.is_zero() { PROLONG_AFTER } else { left.min(PROLONG_AFTER) };
        self.look_at_promise(slot, ticket, wait);
        if records {
            self.record(slot, ticket);
            self.pump(slot);
        }
    }

    /// The node has lost a lock that it promised. Returns whether it keeps it for its client.
    pub(crate) fn keep_promise(&mut self, slot: usize, ticket: Ticket) -> bool {
        let now = self.local(slot);
        let dropped = self.promises == Some(PromiseRule::DroppedAtLapse);
        let served = self.nodes[slot].served.get_mut(&ticket).expect("it serves the client");
        let Some(promise) = &mut served.promise else { return false };
        if dropped {
            self.end_session(slot, ticket);
            return true;
        }
        promise.kept = true;
        let (left, client, session) = (promise.until.since(now), served.client, served.session);
        self.note(|| format!("{slot} keeps what it has promised external {client}: {left:?}"));
        self.send_to_client(client, Word::Lost { session });
        self.look_at_promise(slot, ticket, left);
        true
    }
}

/// The clients' part.
impl World {
    pub(crate) fn on_promised(&mut self, client: usize, session: u64, token: u64, lasts: Duration) {
        let now = self.now;
        let rule = self.promises;
        let one = &mut self.externals[client];
        if session != one.session || now >= one.valid_until {
            return;
        }
        let from = if rule == Some(PromiseRule::FromReceipt) { now } else { one.asked_at };
        let until = match rule {
            Some(PromiseRule::Endless) => u64::MAX,
            _ => from + one.real(lasts),
        };
        if one.waiting && now < until {
            one.promised_until = until;
            self.enter_external(client, token);
        } else if one.token == Some(token) && now < one.promised_until {
            one.promised_until = one.promised_until.max(until);
        }
    }

    /// A client is told that its lock is lost, or its promise ends: it stops, and tells its node.
    pub(crate) fn external_loses(&mut self, client: usize) {
        let one = &mut self.externals[client];
        if one.promised_until == u64::MAX || one.token.is_none() {
            return;
        }
        one.token = None;
        let session = one.session;
        self.note(|| format!("external {client} loses what it was promised"));
        self.send_to_node(client, Word::Release { session });
        let wait = self.dice.micros(1000, 500_000);
        self.external_step(client, wait);
    }
}

fn run(seed: u64, rule: PromiseRule, verbose: bool) -> World {
    let settings = ViewSettings::default();
    let roles = [Role::Voter; 5];
    let roles = &roles[..[3, 5, 4][seed as usize % 3]];
    let algorithm = ["naimi-trehel", "ricart-agrawala", "central"][(seed / 3) as usize % 3];
    let mut world = World::new(seed, Rule::new("*", algorithm), settings, roles);
    world.promises = Some(rule);
    world.verbose = verbose;
    // Mostly clients outside, which request soon again.
    world.clients = (seed % 2) as usize;
    for _ in 0..6 {
        world.add_external();
    }
    world.fault_gap = [6_000_000, 2_500_000, 1_200_000][(seed / 7) as usize % 3];
    world.calm_at = 60 * SECOND;
    world.after(Duration::from_secs(2), Event::Fault);
    world.at(world.calm_at, Event::Calm);
    world.run(70 * SECOND);
    world
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().expect("a number"))
}

/// `MUTUA_SEEDS=N` runs more, from `MUTUA_FROM`; `MUTUA_SEED` prints the events of one world.
#[test]
fn what_is_promised_is_granted_to_nobody_else() {
    let one = number("MUTUA_SEED");
    let from = one.or_else(|| number("MUTUA_FROM")).unwrap_or(0);
    let seeds = one.map_or_else(|| number("MUTUA_SEEDS").unwrap_or(60), |_| 1);
    let (mut promises, mut entries, mut faults) = (0, 0, 0);
    for seed in from..from + seeds {
        let mut world = run(seed, PromiseRule::Right, one.is_some());
        if world.failure.is_some() && one.is_none() {
            world = run(seed, PromiseRule::Right, true);
        }
        if world.failure.is_some() || one.is_some() {
            let last = if one.is_some() { usize::MAX } else { 80 };
            let notes = &world.notes[world.notes.len().saturating_sub(last)..];
            println!("{}", notes.join("\n"));
        }
        assert_eq!(world.failure, None, "MUTUA_SEED={seed} repeats it");
        promises += world.counts.promises;
        entries += world.counts.external;
        faults += world.counts.faults.values().sum::<u64>();
    }
    println!("{seeds} seeds: {promises} promises, {entries} entries of clients, {faults} faults");
    assert!(promises > seeds * 10 && faults > seeds * 10, "{promises} promises, {faults} faults");
}

fn is_found(rule: PromiseRule, from: u64) {
    let found = (from..from + 400).find_map(|seed| {
        let world = run(seed, rule, false);
        world.failure.map(|why| (seed, why))
    });
    println!("{rule:?}: {found:?}");
    assert!(found.is_some(), "{rule:?} is not found");
}

#[test]
fn a_promise_that_is_counted_from_its_receipt_is_found() {
    is_found(PromiseRule::FromReceipt, 0);
}

#[test]
fn a_promise_that_is_dropped_at_a_lapse_is_found() {
    is_found(PromiseRule::DroppedAtLapse, 0);
}

#[test]
fn a_promise_without_an_end_is_found() {
    is_found(PromiseRule::Endless, 0);
}

/// A client whose clock is slow waits for three seconds at a node whose clock is fast. It is
/// promised the lock just before a view without that node is decided. The node gives its word that
/// nothing is held there as soon as the promise has ended on its clock. Returns whether another
/// client gets the lock while the first believes to hold it.
fn two_hold_it(rule: PromiseRule) -> bool {
    let mut world = world("naimi-trehel", 3);
    world.promises = Some(rule);
    world.words_lost = u64::MAX;
    let drift = i64::from(world.settings.drift);
    for (slot, faster) in [(0, drift), (1, -drift), (2, -drift)] {
        world.set_rate(slot, faster);
    }
    let first = acquire(&mut world, 0);
    pass(&mut world, 500);
    let (ttl, session) = (Duration::from_secs(60), 5);
    let valid_until = world.now + 60 * SECOND;
    world.externals.push(External {
        faster: -drift,
        ttl,
        session,
        waiting: true,
        asked_at: world.now,
        valid_until,
        ..External::default()
    });
    let sent = world.now;
    world.on_word_to_node(0, 0, Word::Acquire { session, name: 0, ttl, sent });
    let waiter = acquire(&mut world, 1);
    pass(&mut world, 3000);
    assert!(release(&mut world, 0, first));
    // The promise is on its way; the client hears nothing more.
    world.words_lost = 1;
    let removed = world.nodes[0].id;
    let last = world.engine.state.last().expect("a view").clone();
    let without = DecidedView {
        number: last.number.next(),
        members: last.members.iter().filter(|one| one.member != removed).copied().collect(),
        keepers: last.keepers.iter().filter(|one| one.member != removed).copied().collect(),
        ..last
    };
    world.on_commit(Command::View(without));
    for _ in 0..5000 {
        pass(&mut world, 1);
        if let Some(one) = world.externals.first_mut().filter(|one| one.token.is_some()) {
            one.leave_at = u64::MAX;
        }
        if world.granted.contains(&(1, waiter)) {
            assert!(world.counts.external == 1, "it was promised");
            return world.externals[0].believes(world.now, 0).is_some();
        }
    }
    panic!("nobody else gets the lock");
}

#[test]
fn a_promise_ends_before_its_node_says_that_it_holds_nothing() {
    assert!(!two_hold_it(PromiseRule::Right));
    assert!(two_hold_it(PromiseRule::DriftForgotten));
    assert!(two_hold_it(PromiseRule::RestNotShrunk));
}
