//! The state exchange and the records, in every interleaving: breadth first over the production
//! structs ([`Coordinator`], [`Keeper`], [`Host`], [`DecidedState`]).
//!
//! One lock, one client outside the nodes' processes, and guards in them. A further view of any
//! members is decided at any time, and each node learns of it at any later time. Messages arrive at
//! any time, in any order, or never; nodes crash and restart without their memory. The algorithm of
//! a view is abstract: of the nodes that have begun it one holds the lock. Leases are abstract: a
//! node that a view removes stops at any time, or when it learns of that view, and the coordinator
//! knows as soon as it has. A unit of time is the client's TTL: a renewal is good until the next
//! unit begins, and so are what a custodian and a disk remember.
//!
//! Violated is: somebody is granted the lock while another believes to hold it, or with a token
//! that is not the greatest; a view begins whose plan does not name who believes to hold the lock;
//! or a view of nodes that run cannot begin, or its lock cannot be granted, when nothing fails any
//! more. Left out: the wait for lost records that a second coordinator takes over from the first,
//! and members that keep no records, and the reverse; the seeds have both.

mod steps;

use std::{collections::BTreeMap, time::Duration};

use mutua_algorithms::{FencingToken, Time};
use mutua_protocol::{
    Moment,
    views::{
        Applied, Claim, Client, Command, Contents, Coordinator, DecidedState, DecidedView,
        Directory, DirectoryChange, Hold, Host, Instance, Keeper, MemberId, Plan, Record, Report,
        Role, Stage, ViewNumber, ViewSettings,
    },
};

use self::steps::{
    client, crash, decide, drop_guard, end_process_holds, expire, flush, is_removed_later, lapse,
    pass_unit, recorded, release, renew, view_of,
};
use super::{events::entry, search::digest};

/// The client's TTL, and the unit of time.
const UNIT: Duration = Duration::from_secs(10);
const NAME: &[u8] = b"x";

fn at(units: u64) -> Moment {
    // Later than any moment at which nothing is known.
    Moment::from_nanos((units + 1) * UNIT.as_nanos() as u64)
}

/// How far a search goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) members: u64,
    /// The members of the first view, as bits; it has begun.
    pub(super) first: u64,
    /// Views decided after it, crashes, TTLs, grants to guards and to the client.
    pub(super) views: u64,
    pub(super) crashes: u64,
    pub(super) units: u64,
    pub(super) guards: u64,
    pub(super) grants: u64,
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum HeldFor {
    Guard,
    /// A grant for the client that the keepers do not all know of yet.
    Recording,
    Client {
        expires: u64,
    },
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Held {
    token: FencingToken,
    held_for: HeldFor,
}

#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
struct Node {
    incarnation: u64,
    /// On disk: so many commands of the log and their state, and until when clients may hold.
    learned: usize,
    state: DecidedState,
    leases_until: u64,
    view: Option<DecidedView>,
    stage: Stage,
    /// Its lease in its view has ended.
    lapsed: bool,
    last_begun: ViewNumber,
    version: u64,
    claim: Option<FencingToken>,
    held: Option<Held>,
    keeper: Keeper,
    host: Host,
    coordinator: Option<Coordinator>,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
enum Content {
    Report(Report),
    Begin(Plan),
    Keep(u64, Record),
    Kept(u64),
    Over(FencingToken),
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Word {
    view: ViewNumber,
    from: Instance,
    to: Instance,
    content: Content,
}

/// The lock in one view, at all its members.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct ViewLock {
    holder: Option<Instance>,
    count: u64,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct State {
    now: u64,
    log: Vec<Command>,
    decided: DecidedState,
    nodes: Vec<Node>,
    /// By their digests: the order of sending does not count.
    words: BTreeMap<u128, Word>,
    locks: BTreeMap<ViewNumber, ViewLock>,
    /// The client's token, and until when it believes to hold the lock.
    client: Option<(FencingToken, u64)>,
    last_token: FencingToken,
    left: Left,
    pub(super) failure: Option<&'static str>,
}

/// What may still happen.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
struct Left {
    views: u64,
    crashes: u64,
    units: u64,
    guards: u64,
    grants: u64,
}

pub(super) struct Exchange {
    pub(super) settings: ViewSettings,
    pub(super) bounds: Bounds,
}

fn one(node: usize, incarnation: u64) -> Instance {
    Instance::new(node as u64 + 1, incarnation)
}

fn place(instance: Instance) -> usize {
    instance.member.0 as usize - 1
}

impl State {
    fn me(&self, node: usize) -> Instance {
        one(node, self.nodes[node].incarnation)
    }

    fn runs(&self, instance: Instance) -> bool {
        self.me(place(instance)) == instance
    }

    fn is_begun(&self, node: usize, view: ViewNumber) -> bool {
        let node = &self.nodes[node];
        node.stage == Stage::Begun && node.view.as_ref().is_some_and(|one| one.number == view)
    }

    fn may_grant(&self, node: usize) -> Option<ViewNumber> {
        let node = &self.nodes[node];
        let view = node.view.as_ref().filter(|_| node.stage == Stage::Begun && !node.lapsed);
        view.map(|view| view.number)
    }

    fn fails(&mut self, why: &'static str) {
        self.failure.get_or_insert(why);
    }

    /// The tokens of all that believe now to hold the lock.
    fn believers(&self) -> impl Iterator<Item = FencingToken> {
        let guard = |held: &&Held| held.held_for == HeldFor::Guard;
        let guards = self.nodes.iter().filter_map(move |node| node.held.as_ref().filter(guard));
        guards.map(|held| held.token).chain(self.client.map(|(token, _)| token))
    }

    /// Somebody holds the lock from now on.
    fn enter(&mut self, token: FencingToken) {
        if self.believers().next().is_some() {
            self.fails("two hold the lock");
        }
        if token <= self.last_token {
            self.fails("the token has not grown");
        }
        self.last_token = token;
    }

    fn send(&mut self, word: Word) {
        self.words.insert(digest(&word), word);
    }

    fn bound(&mut self, node: usize) -> u64 {
        let until = self.now + 1;
        let known = &mut self.nodes[node].leases_until;
        *known = until.max(*known);
        until
    }
}

impl Exchange {
    /// All are in the first view, which has begun, and know the client's TTL.
    pub(super) fn start(&self) -> State {
        let mut directory = Directory::default();
        for id in 1..=self.bounds.members {
            directory.apply(&DirectoryChange::Add(MemberId(id), entry(Role::Voter)));
        }
        let mut decided = DecidedState::new(directory);
        let Bounds { views, crashes, units, guards, grants, first, .. } = self.bounds;
        let view = view_of(1, first, &vec![1; self.bounds.members as usize]);
        let log = vec![Command::Longest(UNIT), Command::View(view.clone())];
        for command in &log {
            decided.apply(command);
        }
        let node = |node: u64| {
            let known = Node {
                incarnation: 1,
                learned: log.len(),
                state: decided.clone(),
                ..Node::default()
            };
            if first & (1 << node) == 0 {
                return known;
            }
            let last_begun = ViewNumber(1);
            Node { view: Some(view.clone()), stage: Stage::Begun, last_begun, ..known }
        };
        let lock = ViewLock { holder: None, count: 0 };
        State {
            now: 0,
            nodes: (0..self.bounds.members).map(node).collect(),
            log,
            decided,
            words: BTreeMap::new(),
            locks: BTreeMap::from([(ViewNumber(1), lock)]),
            client: None,
            last_token: FencingToken(Time::ZERO),
            left: Left { views, crashes, units, guards, grants },
            failure: None,
        }
    }

    /// All that can happen next.
    pub(super) fn next(&self, state: &State) -> Vec<State> {
        let mut all = Vec::new();
        let mut step = |what: &dyn Fn(&mut State) -> bool| {
            let mut next = state.clone();
            if what(&mut next) {
                self.tidy(&mut next);
                all.push(next);
            }
        };
        for node in 0..state.nodes.len() {
            step(&|next| self.learn(next, node));
            step(&|next| lapse(next, node));
            step(&|next| crash(next, node));
            step(&|next| self.grant(next, node, HeldFor::Guard));
            step(&|next| self.grant(next, node, HeldFor::Recording));
            step(&|next| drop_guard(next, node));
            step(&|next| release(next, node));
            step(&|next| renew(next, node));
            step(&|next| expire(next, node));
            step(&|next| self.claim(next, node));
            step(&|next| self.try_begin(next, node));
        }
        for word in state.words.keys() {
            step(&|next| self.deliver(next, *word));
        }
        for members in 1..1 << self.bounds.members {
            step(&|next| decide(next, members));
        }
        step(&pass_unit);
        all
    }

    /// What happens by itself: leases that have ended are known to have, words that can have no
    /// effect any more are gone.
    fn tidy(&self, state: &mut State) {
        let over = |state: &State, of: Instance, view: ViewNumber| {
            let node = &state.nodes[place(of)];
            !state.runs(of) || node.lapsed || node.state.last_number() >= view
        };
        for node in 0..state.nodes.len() {
            let view = state.nodes[node].view.clone();
            let Some(view) = view.filter(|_| state.nodes[node].coordinator.is_some()) else {
                continue;
            };
            let removed = state.nodes[node].state.removed(&view).into_keys();
            let gone: Vec<_> = removed.filter(|&one| over(state, one, view.number)).collect();
            let now = at(state.now);
            let coordinator = state.nodes[node].coordinator.as_mut().expect("just seen");
            gone.into_iter().for_each(|one| coordinator.wait().left(now, one));
        }
        let State { words, nodes, .. } = state;
        words.retain(|_, word| {
            let node = &nodes[place(word.to)];
            let last = node.view.as_ref().map_or(node.state.last_number(), |view| view.number);
            word.to.incarnation.0 == node.incarnation && word.view >= last
        });
    }

    fn learn(&self, state: &mut State, node: usize) -> bool {
        let Some(command) = state.log.get(state.nodes[node].learned).cloned() else {
            return false;
        };
        let known = &mut state.nodes[node];
        known.learned += 1;
        if known.state.apply(&command) == Applied::View {
            self.follow(state, node);
        }
        true
    }

    /// Leaves the view for the last one decided.
    fn follow(&self, state: &mut State, node: usize) {
        let me = state.me(node);
        let unacknowledged = state.nodes[node].lapsed && is_removed_later(state, node);
        let known = &mut state.nodes[node];
        let last = known.state.last().expect("a view").clone();
        if !last.concerns(me) {
            end_process_holds(known);
        }
        known.lapsed = unacknowledged;
        (known.claim, known.version, known.coordinator) = (None, 0, None);
        known.host.leave_view();
        known.stage = if last.concerns(me) { Stage::Reported } else { Stage::Out };
        if last.concerns(me) && last.coordinator() == me {
            known.coordinator = Some(Coordinator::new(&known.state, &last));
        }
        known.view = last.concerns(me).then_some(last);
        // The voters that let its lease end acknowledge it in no earlier view.
        if state.nodes[node].view.is_some() && !unacknowledged {
            self.report(state, node);
        }
    }

    fn report(&self, state: &mut State, node: usize) {
        let (now, from) = (state.now, state.me(node));
        let known = &mut state.nodes[node];
        let view = known.view.clone().expect("it joins one");
        known.version += 1;
        let hold = |held: &Held| {
            let outside = matches!(held.held_for, HeldFor::Client { .. });
            (NAME.to_vec(), Hold { token: held.token, client: outside.then(client) })
        };
        let claim = |token: FencingToken| (NAME.to_vec(), Claim { token, client: client() });
        let contents = Contents {
            floor: known.held.as_ref().map_or(0, |held| held.token.0.epoch()),
            held: known.held.iter().map(hold).collect(),
            claims: known.claim.into_iter().map(claim).collect(),
            leases_left: Some(at(known.leases_until).since(at(now))),
            ..Contents::default()
        };
        let report = Report {
            view: view.number,
            version: known.version,
            last_begun: known.last_begun,
            contents,
            records: known.keeper.records().cloned().collect(),
            quarantine: None,
        };
        let to = view.coordinator();
        let content = Content::Report(report);
        self.post(state, Word { view: view.number, from, to, content });
    }

    /// Sends a message; one to itself arrives at once.
    fn post(&self, state: &mut State, word: Word) {
        if word.from == word.to {
            let arrived = self.receive(state, &word);
            debug_assert!(arrived);
        } else {
            state.send(word);
        }
    }

    fn deliver(&self, state: &mut State, word: u128) -> bool {
        let word = state.words.remove(&word).expect("under way");
        self.receive(state, &word)
    }

    /// A message has its effect; false if it has none yet, and is repeated.
    fn receive(&self, state: &mut State, word: &Word) -> bool {
        let (node, now) = (place(word.to), at(state.now));
        match &word.content {
            Content::Report(report) => {
                let Node { state: decided, coordinator, view, .. } = &mut state.nodes[node];
                let current = view.as_ref().is_some_and(|view| view.number == word.view);
                let Some(coordinator) = coordinator.as_mut().filter(|_| current) else {
                    return false;
                };
                coordinator.report(now, &self.settings, decided, word.from, report.clone());
            }
            Content::Begin(plan) => self.begin(state, node, plan),
            Content::Keep(number, record) => {
                if !state.is_begun(node, word.view) {
                    return false;
                }
                state.nodes[node].keeper.keep(record.clone());
                let content = Content::Kept(*number);
                let (view, from, to) = (word.view, word.to, word.from);
                self.post(state, Word { view, from, to, content });
            }
            Content::Kept(number) => {
                if state.is_begun(node, word.view)
                    && let Some(record) = state.nodes[node].host.kept(word.from.member, *number)
                {
                    recorded(state, node, &record);
                }
            }
            Content::Over(token) => {
                if !state.is_begun(node, word.view) {
                    return false;
                }
                state.nodes[node].keeper.drop(word.from, NAME, *token);
            }
        }
        true
    }

    fn try_begin(&self, state: &mut State, node: usize) -> bool {
        let now = at(state.now);
        let Node { state: decided, coordinator, view, .. } = &mut state.nodes[node];
        let (Some(coordinator), Some(view)) = (coordinator, view.clone()) else { return false };
        if !coordinator.try_begin(now, &self.settings, decided) {
            return false;
        }
        let plan = coordinator.plan().expect("just made").clone();
        let latest = state.locks.last_key_value().is_none_or(|(known, _)| *known < view.number);
        let planned = plan.held.get(NAME);
        if latest && state.believers().any(|token| planned.is_none_or(|one| one.token != token)) {
            state.fails("a view begins and does not know who holds the lock");
        }
        let holder = planned.map(|planned| planned.member);
        state.locks.insert(view.number, ViewLock { holder, count: 0 });
        let from = state.me(node);
        for to in view.everybody() {
            let content = Content::Begin(plan.clone());
            self.post(state, Word { view: view.number, from, to, content });
        }
        true
    }

    fn begin(&self, state: &mut State, node: usize, plan: &Plan) {
        let (me, now) = (state.me(node), state.now);
        let known = &mut state.nodes[node];
        let current = known.view.as_ref().is_some_and(|view| view.number == plan.view);
        if !current || known.stage != Stage::Reported {
            return;
        }
        (known.stage, known.last_begun) = (Stage::Begun, plan.view);
        known.keeper.begin(&plan.records);
        let mine = plan.held.get(NAME).filter(|planned| planned.member == me);
        let claimed = known.claim.take();
        if known.held.as_ref().map(|held| held.token) != mine.map(|planned| planned.token) {
            known.held = None;
        }
        if let Some(planned) = mine
            && known.held.is_none()
        {
            if planned.custody || claimed == Some(planned.token) {
                let held_for = HeldFor::Client { expires: now + 1 };
                known.held = Some(Held { token: planned.token, held_for });
                state.bound(node);
            } else {
                // It was released since the report.
                state.locks.get_mut(&plan.view).expect("begun").holder = None;
            }
        }
        self.record(state, node);
        flush(state, node);
    }

    /// Grants the lock to a guard, or to the client when that is recorded.
    fn grant(&self, state: &mut State, node: usize, held_for: HeldFor) -> bool {
        let me = state.me(node);
        let left = match held_for {
            HeldFor::Guard => &mut state.left.guards,
            HeldFor::Recording | HeldFor::Client { .. } => &mut state.left.grants,
        };
        let Some(rest) = left.checked_sub(1) else { return false };
        *left = rest;
        let Some(view) = state.may_grant(node) else { return false };
        let lock = state.locks.get_mut(&view).expect("begun");
        if lock.holder.is_some() {
            return false;
        }
        (lock.holder, lock.count) = (Some(me), lock.count + 1);
        let epoch = state.nodes[node].view.as_ref().expect("begun").epoch;
        let token = FencingToken(Time::new(epoch, lock.count));
        if held_for == HeldFor::Guard {
            state.enter(token);
        }
        state.nodes[node].held = Some(Held { token, held_for });
        self.record(state, node);
        true
    }

    /// Sends the record of a grant to all keepers.
    fn record(&self, state: &mut State, node: usize) {
        let from = state.me(node);
        let known = &mut state.nodes[node];
        let Some(held) = known.held.as_ref().filter(|one| one.held_for == HeldFor::Recording)
        else {
            return;
        };
        let view = known.view.clone().expect("it has begun one");
        let Client { session, ttl, value } = client();
        let (name, token) = (NAME.to_vec(), held.token);
        let record =
            Record { name, token, session, ttl, host: from, hosted_since: ViewNumber(0), value };
        let number = known.host.begin(&view, record.clone());
        for &to in &view.keepers {
            let content = Content::Keep(number, record.clone());
            self.post(state, Word { view: view.number, from, to, content });
        }
    }

    /// The client says at another node that it holds the lock.
    fn claim(&self, state: &mut State, node: usize) -> bool {
        let Some((token, _)) = state.client else { return false };
        let known = &mut state.nodes[node];
        let joins = known.stage == Stage::Reported && !known.lapsed;
        if !joins || known.claim.is_some() || known.held.is_some() {
            return false;
        }
        known.claim = Some(token);
        self.report(state, node);
        true
    }

    /// Lets everything happen that is due, without faults: whether the last view begins, if its
    /// members run, and its lock can be granted.
    pub(super) fn completes(&self, state: &State) -> bool {
        let last = state.decided.last().expect("a view").clone();
        // Else another view is decided.
        if state.left.views > 0 || !last.everybody().iter().all(|&one| state.runs(one)) {
            return true;
        }
        let mut state = state.clone();
        for _ in 0..30 {
            for node in 0..state.nodes.len() {
                while self.learn(&mut state, node) {}
                self.tidy(&mut state);
                self.try_begin(&mut state, node);
                drop_guard(&mut state, node);
                expire(&mut state, node);
            }
            for word in state.words.clone().into_values() {
                if self.receive(&mut state, &word) {
                    state.words.remove(&digest(&word));
                }
            }
            state.left.units = 1;
            pass_unit(&mut state);
        }
        let begun = |one: &Instance| state.is_begun(place(*one), last.number);
        last.everybody().iter().all(begun)
            && state.locks.get(&last.number).is_some_and(|lock| lock.holder.is_none())
    }
}
