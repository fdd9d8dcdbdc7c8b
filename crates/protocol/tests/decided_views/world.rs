//! Nodes, their clocks and the events between them.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use mutua_algorithms::split_mix::Dice;
use mutua_protocol::{
    Effect, Limits, LockId, Member, Moment, Plan, Protocol, ProtocolConfig, Rule, Ticket,
    ViewSource,
    views::{
        Command, DecidedState, DecidedView, Directory, DirectoryChange, Levels, MemberId,
        Persisted, Role, ViewSettings,
    },
};

use super::{
    changes::Changes,
    churn::Wish,
    clients::Client,
    engine::Engine,
    events::{SECOND, entry},
    external::External,
    externals::{Served, Word},
    promises::PromiseRule,
    wires::Wire,
};

pub(crate) const NAMES: usize = 2;

pub(crate) enum Event {
    Bytes { wire: usize, to: usize, bytes: Vec<u8> },
    Closed { wire: usize, at: usize },
    Dial { from: usize, to: usize },
    Tick { slot: usize, incarnation: u64 },
    Client { slot: usize, incarnation: u64, client: usize, step: u64 },
    External { client: usize, step: u64 },
    ToNode { slot: usize, client: usize, word: Word },
    ToClient { client: usize, word: Word },
    Expire { slot: usize, incarnation: u64, ticket: Ticket },
    Promise { slot: usize, incarnation: u64, ticket: Ticket },
    Commit { command: Command },
    Sync { id: MemberId },
    Elect,
    Deposed { id: MemberId },
    Start { slot: usize },
    Fault,
    Heal { cuts: Vec<(usize, usize)> },
    Calm,
}

pub(crate) struct Node {
    pub(crate) id: MemberId,
    pub(crate) role: Role,
    pub(crate) incarnation: u64,
    /// The whole node, while it is up. The engine's stub calls it as it calls a lone view layer.
    pub(crate) layer: Option<Protocol>,
    pub(crate) locks: Vec<LockId>,
    pub(crate) clients: Vec<Client>,
    pub(crate) tickets: BTreeMap<Ticket, usize>,
    /// The sessions of clients outside, by the tickets they wait or hold with.
    pub(crate) served: BTreeMap<Ticket, Served>,
    /// The epoch on its disk, and until when clients may hold what it granted.
    pub(crate) disk: u32,
    pub(crate) leases_until: Moment,
    /// Its clock: this moment was `shown` at that real time, and since then it is `faster` by so
    /// many millionths.
    shown: (u64, Moment),
    faster: i64,
    /// The longest TTL that it granted, and whether its clock has begun anew since.
    pub(crate) longest: Duration,
    pub(crate) rebooted: bool,
    /// Its disk is lost: it is down for good.
    pub(crate) disk_lost: bool,
    /// It was removed from the cluster, and has stopped.
    pub(crate) left: bool,
    /// On its disk: the members as it knew them last; none before they changed.
    pub(crate) known: Directory,
    /// On its disk: whether an engine runs here while the node runs, until a voter tells that its
    /// vote is not needed.
    pub(crate) engine: bool,
    /// The levels that its version can use.
    pub(crate) levels: Levels,
    /// What its configuration says of the view lease, if not what the others' say.
    pub(crate) lease: Option<Duration>,
    pub(crate) paused_until: u64,
    wake: u64,
}

impl Node {
    /// A node that is down; its clock is at the drift bound or right.
    pub(crate) fn new(dice: &mut Dice, settings: &ViewSettings, id: MemberId, role: Role) -> Self {
        let drift = i64::from(settings.drift);
        let faster = match dice.below(3) {
            0 => drift,
            1 => -drift,
            _ => 0,
        };
        Self {
            id,
            role,
            incarnation: 0,
            layer: None,
            locks: Vec::new(),
            clients: Vec::new(),
            tickets: BTreeMap::new(),
            served: BTreeMap::new(),
            disk: 0,
            leases_until: Moment::ZERO,
            shown: (0, Moment::from_nanos(dice.below(1000 * SECOND) + 10 * SECOND)),
            faster,
            longest: Duration::ZERO,
            rebooted: false,
            disk_lost: false,
            left: false,
            known: Directory::default(),
            engine: role.votes(),
            levels: Levels::HERE,
            lease: None,
            paused_until: 0,
            wake: u64::MAX,
        }
    }
}

/// What happened.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Faults by kind.
    pub(crate) faults: BTreeMap<&'static str, u64>,
    pub(crate) grants: u64,
    pub(crate) external: u64,
    pub(crate) promises: u64,
    pub(crate) custodies: u64,
    pub(crate) views: u64,
    pub(crate) lost: u64,
    pub(crate) crashes: u64,
}

pub(crate) struct World {
    pub(crate) settings: ViewSettings,
    pub(crate) limits: Limits,
    pub(crate) plan: Arc<Plan>,
    pub(crate) dice: Dice,
    /// Real time, in nanoseconds.
    pub(crate) now: u64,
    pub(crate) events: BTreeMap<(u64, u64), Event>,
    pub(crate) numbers: u64,
    pub(crate) nodes: Vec<Node>,
    pub(crate) engine: Engine,
    /// Changes of the directory that an operator waits for.
    pub(crate) wishes: VecDeque<Wish>,
    /// Whether members come and go.
    pub(crate) churn: bool,
    pub(crate) wires: Vec<Wire>,
    pub(crate) cuts: BTreeMap<(usize, usize), u32>,
    /// One write in so many is late.
    pub(crate) late: u64,
    /// One message in so many between clients and nodes is lost, and as many arrive twice.
    pub(crate) words_lost: u64,
    /// The number of clients of each node.
    pub(crate) clients: usize,
    pub(crate) externals: Vec<External>,
    pub(crate) served_externals: BTreeSet<usize>,
    /// Whether nodes promise, and by which rule.
    pub(crate) promises: Option<PromiseRule>,
    /// The changes of what is recorded, if values change.
    pub(crate) changes: Option<Changes>,
    /// The greatest fencing token of each name.
    pub(crate) fences: Vec<u64>,
    /// The clients that were granted a lock since the faults stopped.
    pub(crate) served: BTreeSet<(usize, usize)>,
    /// Grants to a test that requests itself.
    pub(crate) granted: Vec<(usize, Ticket)>,
    /// When holds of clients outside were recorded.
    pub(crate) recorded: Vec<(u64, Ticket)>,
    pub(crate) calm_at: u64,
    pub(crate) counts: Counts,
    /// The pause between two faults, at most, in microseconds.
    pub(crate) fault_gap: u64,
    /// Kept only if `verbose`.
    pub(crate) notes: Vec<String>,
    pub(crate) verbose: bool,
    pub(crate) failure: Option<String>,
}

impl World {
    pub(crate) fn new(seed: u64, rule: Rule, settings: ViewSettings, roles: &[Role]) -> Self {
        let mut dice = Dice(seed);
        let mut directory = Directory::default();
        let mut nodes = Vec::new();
        for (slot, &role) in roles.iter().enumerate() {
            // Ids in another order than the list.
            let id = MemberId(100 - slot as u64);
            directory.apply(&DirectoryChange::Add(id, entry(role)));
            nodes.push(Node::new(&mut dice, &settings, id, role));
        }
        let plan = Plan::new(roles.len() as u32, &[rule]).expect("a rule that suits the size");
        let limits = Limits {
            run: 3,
            lost_after: Duration::from_millis(1500),
            heartbeat: Duration::from_millis(200),
            idle_after: Duration::from_millis(1500),
            ..Limits::default()
        };
        let mut world = Self {
            settings,
            limits,
            plan: Arc::new(plan),
            dice,
            now: SECOND,
            events: BTreeMap::new(),
            numbers: 0,
            nodes,
            engine: Engine::new(DecidedState::new(directory)),
            wishes: VecDeque::new(),
            churn: false,
            wires: Vec::new(),
            cuts: BTreeMap::new(),
            late: 0,
            words_lost: 20,
            clients: 2,
            externals: Vec::new(),
            served_externals: BTreeSet::new(),
            promises: None,
            changes: None,
            fences: vec![0; NAMES],
            served: BTreeSet::new(),
            granted: Vec::new(),
            recorded: Vec::new(),
            calm_at: u64::MAX,
            counts: Counts::default(),
            fault_gap: 2_500_000,
            notes: Vec::new(),
            verbose: false,
            failure: None,
        };
        for slot in 0..world.nodes.len() {
            let wait = world.dice.micros(1, 300_000);
            world.after(wait, Event::Start { slot });
        }
        world.after(Duration::from_millis(300), Event::Elect);
        world
    }

    pub(crate) fn name(place: usize) -> Vec<u8> {
        format!("lock {place}").into_bytes()
    }

    /// The node's clock.
    pub(crate) fn local(&self, slot: usize) -> Moment {
        let node = &self.nodes[slot];
        let (at, moment) = node.shown;
        let passed = i128::from(self.now - at);
        let gained = passed * i128::from(node.faster) / 1_000_000;
        Moment::from_nanos((i128::from(moment.nanos()) + passed + gained) as u64)
    }

    /// When the node's clock shows this, at the earliest.
    pub(crate) fn real(&self, slot: usize, local: Moment) -> u64 {
        let node = &self.nodes[slot];
        let (at, moment) = node.shown;
        let rest = i128::from(local.nanos()) - i128::from(moment.nanos());
        at + (rest * 1_000_000 / (1_000_000 + i128::from(node.faster))).max(0) as u64 + 2
    }

    /// The node's clock goes on at another rate within the drift bound.
    pub(crate) fn change_rate(&mut self, slot: usize) {
        let drift = i64::from(self.settings.drift);
        let faster = self.dice.below(2 * drift as u64 + 1) as i64 - drift;
        self.note(|| format!("{slot}: the clock is faster by {faster} millionths"));
        let faster = *self.dice.pick(&[drift, -drift, faster]);
        self.set_rate(slot, faster);
    }

    pub(crate) fn set_rate(&mut self, slot: usize, faster: i64) {
        self.nodes[slot].shown = (self.now, self.local(slot));
        self.nodes[slot].faster = faster;
    }

    /// The clock of a node that is down begins anew: its machine starts again.
    pub(crate) fn restart_clock(&mut self, slot: usize) {
        self.nodes[slot].shown = (self.now, Moment::from_nanos(self.dice.below(20 * SECOND)));
        self.nodes[slot].rebooted = true;
    }

    pub(crate) fn is_up(&self, slot: usize, incarnation: u64) -> bool {
        self.nodes[slot].incarnation == incarnation && self.nodes[slot].layer.is_some()
    }

    /// Runs until `end`, or until something is wrong.
    pub(crate) fn run(&mut self, end: u64) {
        while self.failure.is_none()
            && let Some(entry) = self.events.first_entry()
        {
            let (at, number) = *entry.key();
            if at > end {
                break;
            }
            let event = entry.remove();
            self.now = self.now.max(at);
            match self.deferred(&event) {
                Some(until) => drop(self.events.insert((until, number), event)),
                None => self.happens(event),
            }
        }
        if self.failure.is_none() {
            self.now = self.now.max(end);
        }
    }

    /// What happens to a process that is stopped happens when it goes on.
    fn deferred(&self, event: &Event) -> Option<u64> {
        let slot = match event {
            Event::Bytes { to, .. } => *to,
            Event::Closed { at, .. } => *at,
            Event::Dial { from, .. } => *from,
            Event::Tick { slot, .. }
            | Event::Client { slot, .. }
            | Event::ToNode { slot, .. }
            | Event::Expire { slot, .. }
            | Event::Promise { slot, .. } => *slot,
            Event::Deposed { id } => self.slot_of(*id)?,
            _ => return None,
        };
        self.is_paused(slot).then_some(self.nodes[slot].paused_until)
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::Bytes { wire, to, bytes } => self.arrive(wire, to, &bytes),
            Event::Closed { wire, at } => self.close_end(wire, at),
            Event::Dial { from, to } => self.dial(from, to),
            Event::Tick { slot, incarnation } => {
                if self.is_up(slot, incarnation) {
                    self.nodes[slot].wake = u64::MAX;
                    self.call(slot, |protocol, now| protocol.tick(now));
                }
            }
            Event::Client { slot, incarnation, client, step } => {
                if self.is_up(slot, incarnation) {
                    self.on_client(slot, client, step);
                }
            }
            Event::External { client, step } => self.on_external(client, step),
            Event::ToNode { slot, client, word } => self.on_word_to_node(slot, client, word),
            Event::ToClient { client, word } => self.on_word_to_client(client, word),
            Event::Expire { slot, incarnation, ticket } => {
                if self.is_up(slot, incarnation) {
                    self.on_expire(slot, ticket);
                }
            }
            Event::Promise { slot, incarnation, ticket } => {
                if self.is_up(slot, incarnation) {
                    self.on_promise(slot, ticket);
                }
            }
            Event::Commit { command } => self.on_commit(command),
            Event::Sync { id } => self.on_sync(id),
            Event::Elect => self.on_elect(),
            Event::Deposed { id } => {
                if self.engine.leader != Some(id) {
                    self.tell_leader(id, false);
                }
            }
            Event::Start { slot } => self.start(slot),
            Event::Fault => self.on_fault(),
            Event::Heal { cuts } => self.heal(&cuts),
            Event::Calm => self.on_calm(),
        }
    }

    /// A view is about to be decided; a hook of the engine's stub.
    pub(crate) fn disturb(&mut self, _: &DecidedView) {}

    fn start(&mut self, slot: usize) {
        let node = &self.nodes[slot];
        if node.layer.is_some() || node.disk_lost || node.left || self.is_yet_to_join(slot) {
            return;
        }
        let id = node.id;
        let engine = node.engine || self.shall_vote(slot);
        self.nodes[slot].engine = engine;
        let persisted = if engine {
            self.engine.start(id)
        } else {
            Persisted { snapshot: self.engine.genesis.clone(), ..Persisted::default() }
        };
        // Some nodes know of epochs that the log does not.
        let beyond = if self.dice.one_in(6) { self.dice.below(5) as u32 } else { 0 };
        self.upgrade(slot);
        let mut settings =
            ViewSettings { levels: self.nodes[slot].levels, ..self.settings.clone() };
        settings.lease = self.nodes[slot].lease.unwrap_or(settings.lease);
        let names = (0..self.nodes.len()).map(|slot| format!("n{slot}")).collect();
        let node = &mut self.nodes[slot];
        node.incarnation += 1;
        let config = ProtocolConfig {
            cluster: "test".to_owned(),
            names,
            me: Member(slot as u32),
            plan: Arc::clone(&self.plan),
            incarnation: node.incarnation,
            epoch: node.disk + beyond,
            limits: self.limits.clone(),
            views: ViewSource::Decided {
                cluster: 1,
                member: id,
                known: node.known.clone(),
                settings,
                persisted: Box::new(persisted),
                engine,
            },
        };
        let now = self.local(slot);
        if std::mem::take(&mut self.nodes[slot].rebooted) {
            // Moments of another boot are of another clock: all that was granted counts anew.
            let longest = self.settings.on_any_clock(self.nodes[slot].longest);
            self.nodes[slot].leases_until = now.after(longest);
        }
        let mut protocol = Protocol::new(now, config);
        protocol.set_leases_until(self.nodes[slot].leases_until);
        let open = |place| protocol.open(&Self::name(place)).expect("a short name");
        let node = &mut self.nodes[slot];
        node.locks = (0..NAMES).map(open).collect();
        node.layer = Some(protocol);
        node.tickets.clear();
        node.served.clear();
        node.wake = u64::MAX;
        self.note(|| format!("{slot} starts"));
        self.call(slot, |_, _| ());
        self.dial_all(slot);
        self.start_clients(slot);
    }

    /// Calls a node, then carries out its effects.
    pub(crate) fn call<T>(
        &mut self,
        slot: usize,
        call: impl FnOnce(&mut Protocol, Moment) -> T,
    ) -> Option<T> {
        let now = self.local(slot);
        let result = call(self.nodes[slot].layer.as_mut()?, now);
        self.pump(slot);
        Some(result)
    }

    pub(crate) fn pump(&mut self, slot: usize) {
        loop {
            let Some(protocol) = &mut self.nodes[slot].layer else { return };
            let (effects, ready) = (protocol.take_effects(), protocol.take_ready());
            if effects.is_empty() && ready.is_empty() {
                break;
            }
            for effect in effects {
                self.do_effect(slot, effect);
            }
            for peer in ready {
                self.write(slot, peer.index());
            }
        }
        self.note_directory(slot);
        let wake = self.nodes[slot].layer.as_ref().expect("up").wake_at();
        if wake < Moment::NEVER {
            let wake = self.real(slot, wake);
            if wake < self.nodes[slot].wake {
                self.nodes[slot].wake = wake;
                let incarnation = self.nodes[slot].incarnation;
                self.at(wake, Event::Tick { slot, incarnation });
            }
        }
    }

    fn do_effect(&mut self, slot: usize, effect: Effect) {
        match effect {
            Effect::Granted { ticket, fence } => self.on_granted(slot, ticket, fence.number()),
            Effect::Refused { ticket, why } => self.on_refused(slot, ticket, &why),
            Effect::Lost { ticket } => self.on_lost(slot, ticket),
            Effect::Recorded { ticket } => {
                self.recorded.push((self.now, ticket));
                self.on_recorded(slot, ticket);
            }
            Effect::Custody { name, ticket, fence, client } => {
                self.on_custody(slot, ticket, &name, fence.number(), &client);
            }
            Effect::Propose { command } => self.propose(self.nodes[slot].id, command),
            Effect::Write { epoch } => self.nodes[slot].disk = self.nodes[slot].disk.max(epoch),
            Effect::Close { connection, .. } => self.close(connection.0 as usize),
            Effect::Called { caller, body } => {
                self.call(slot, |protocol, _| protocol.reply(caller, &body));
            }
            Effect::Members
            | Effect::Trace { .. }
            | Effect::Replied { .. }
            | Effect::Unanswered { .. } => {}
            Effect::Log { text, .. } => {
                let wrong = ["nothing was changed", "violates the protocol", "cannot follow"];
                if wrong.iter().any(|wrong| text.contains(wrong)) {
                    self.fails(format!("{slot}: {text}"));
                }
                self.counts.views += u64::from(text.contains("begins"));
                self.note(|| format!("{slot}: {text}"));
            }
        }
    }
}
