//! Nodes, their clocks and the network; one seed decides everything.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use mutua_algorithms::split_mix::Dice;
use mutua_protocol::{
    Moment,
    views::{
        Command, DecidedState, Directory, DirectoryChange, Instance, MemberId, Message, Role,
        ViewEffect, ViewLayer, ViewNumber, ViewSettings,
    },
};

use super::{
    engine::Engine,
    events::{SECOND, entry},
    external::External,
    locks::{Locks, ViewLocks},
};

/// A place where a node runs, or is down.
pub(crate) struct Node {
    /// Another one once the disk was lost.
    pub(crate) id: MemberId,
    pub(crate) incarnation: u64,
    pub(crate) role: Role,
    pub(crate) layer: Option<ViewLayer>,
    pub(crate) locks: Locks,
    /// Its clock: ahead by so much, and faster by so many millionths.
    ahead: u64,
    faster: i64,
    pub(crate) paused_until: u64,
    wake: u64,
    /// Until when, on its clock, its earlier incarnations' clients may hold something.
    pub(crate) leases_until: Moment,
}

#[derive(Debug)]
pub(crate) enum Event {
    Deliver {
        to: MemberId,
        from: Instance,
        message: Message,
    },
    /// A sign of life; whether the sender has one from the receiver.
    Beat {
        to: MemberId,
        from: Instance,
        knows: Option<u64>,
    },
    SendBeats {
        slot: usize,
        incarnation: u64,
    },
    Tick {
        slot: usize,
        incarnation: u64,
    },
    Commit {
        command: Command,
    },
    Sync {
        id: MemberId,
    },
    Elect,
    Deposed {
        id: MemberId,
    },
    /// Directory changes that somebody wants are proposed again.
    Operator,
    Crash {
        slot: usize,
    },
    Start {
        slot: usize,
    },
    /// The lock's token or permission is there.
    Arrive {
        view: ViewNumber,
        name: usize,
        member: Instance,
    },
    Settle {
        slot: usize,
        incarnation: u64,
    },
    /// A guard is dropped.
    Drop {
        slot: usize,
        incarnation: u64,
        name: usize,
        token: u64,
    },
    Want {
        slot: usize,
        incarnation: u64,
    },
    External {
        client: usize,
        step: u64,
    },
    ToClient {
        client: usize,
        word: super::clients::Word,
    },
    ToNode {
        slot: usize,
        client: usize,
        word: super::clients::Word,
    },
    Fault,
    Heal {
        cuts: Vec<(usize, usize)>,
    },
    Calm,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) grants: u64,
    pub(crate) external: u64,
    pub(crate) views: u64,
    pub(crate) begun: u64,
    pub(crate) crashes: u64,
    pub(crate) wiped: u64,
    pub(crate) cuts: u64,
    pub(crate) pauses: u64,
    pub(crate) lapses: u64,
    pub(crate) returns: u64,
    pub(crate) custodies: u64,
    pub(crate) reclaims: u64,
    pub(crate) quarantines: u64,
    pub(crate) vanished: u64,
}

pub(crate) struct Layers {
    pub(crate) seed: u64,
    pub(crate) settings: ViewSettings,
    pub(crate) dice: Dice,
    /// Real time, in nanoseconds.
    pub(crate) now: u64,
    pub(crate) events: BTreeMap<(u64, u64), Event>,
    pub(crate) numbers: u64,
    pub(crate) nodes: Vec<Node>,
    pub(crate) engine: Engine,
    /// Directed: nothing gets from the first to the second.
    pub(crate) cuts: BTreeMap<(usize, usize), u32>,
    /// One message in so many is lost, and so many are late.
    pub(crate) loss: u64,
    pub(crate) late: u64,
    /// Half the answers of voters are late.
    pub(crate) late_answers: bool,
    pub(crate) views: BTreeMap<ViewNumber, ViewLocks>,
    pub(crate) externals: Vec<External>,
    /// The greatest token that anybody was told, by name.
    pub(crate) tokens: Vec<u64>,
    pub(crate) last_ids: u64,
    pub(crate) wanted: Vec<DirectoryChange>,
    pub(crate) calm_at: u64,
    pub(crate) end: u64,
    pub(crate) calm_grants: BTreeSet<usize>,
    pub(crate) counts: Counts,
    pub(crate) notes: Vec<String>,
    pub(crate) verbose: bool,
    /// What went wrong first.
    pub(crate) failure: Option<String>,
}

impl Layers {
    pub(crate) fn new(seed: u64, settings: ViewSettings, roles: &[Role]) -> Self {
        let mut dice = Dice(seed);
        let mut directory = Directory::default();
        let mut nodes = Vec::new();
        for (place, &role) in roles.iter().enumerate() {
            let id = MemberId(place as u64 + 1);
            directory.apply(&DirectoryChange::Add(id, entry(role)));
            let drift = i64::from(settings.drift);
            // At the bounds and between.
            let faster = match dice.below(4) {
                0 => drift,
                1 => -drift,
                _ => dice.below(2 * settings.drift as u64 + 1) as i64 - drift,
            };
            nodes.push(Node {
                id,
                incarnation: 0,
                role,
                layer: None,
                locks: Locks::default(),
                ahead: dice.below(1000 * SECOND) + 10 * SECOND,
                faster,
                paused_until: 0,
                wake: 0,
                leases_until: Moment::ZERO,
            });
        }
        let mut world = Self {
            seed,
            settings,
            dice,
            now: SECOND,
            events: BTreeMap::new(),
            numbers: 0,
            engine: Engine::new(DecidedState::new(directory)),
            cuts: BTreeMap::new(),
            loss: 0,
            late: 0,
            late_answers: false,
            views: BTreeMap::new(),
            externals: Vec::new(),
            tokens: vec![0; super::locks::NAMES],
            last_ids: nodes.len() as u64,
            nodes,
            wanted: Vec::new(),
            calm_at: u64::MAX,
            end: u64::MAX,
            calm_grants: BTreeSet::new(),
            counts: Counts::default(),
            notes: Vec::new(),
            verbose: false,
            failure: None,
        };
        for slot in 0..world.nodes.len() {
            let wait = world.dice.micros(1, 300_000);
            world.after(wait, Event::Start { slot });
        }
        world.after(Duration::from_millis(300), Event::Elect);
        world.after(Duration::from_millis(500), Event::Operator);
        world
    }

    /// The node's clock.
    pub(crate) fn local(&self, slot: usize) -> Moment {
        self.local_at(slot, self.now)
    }

    pub(crate) fn local_at(&self, slot: usize, real: u64) -> Moment {
        let node = &self.nodes[slot];
        let gained = i128::from(real) * i128::from(node.faster) / 1_000_000;
        Moment::from_nanos((i128::from(node.ahead) + i128::from(real) + gained) as u64)
    }

    /// When the node's clock shows this, at the earliest.
    fn real(&self, slot: usize, local: Moment) -> u64 {
        let node = &self.nodes[slot];
        let rest = i128::from(local.nanos()) - i128::from(node.ahead);
        (rest * 1_000_000 / (1_000_000 + i128::from(node.faster))).max(0) as u64 + 2
    }

    pub(crate) fn instance(&self, slot: usize) -> Instance {
        Instance::new(self.nodes[slot].id.0, self.nodes[slot].incarnation)
    }

    /// Runs until `end`, or until something is wrong.
    pub(crate) fn run(&mut self, end: u64) {
        self.end = end;
        while self.failure.is_none()
            && let Some(((at, number), event)) = self.events.pop_first()
        {
            if at > end {
                self.events.insert((at, number), event);
                self.now = end;
                return;
            }
            self.now = self.now.max(at);
            if let Some(until) = self.deferred(&event) {
                self.events.insert((until, number), event);
                continue;
            }
            self.happens(event);
        }
    }

    /// What happens to a process that is stopped happens when it goes on.
    fn deferred(&self, event: &Event) -> Option<u64> {
        let slot = match event {
            Event::Deliver { to, .. } | Event::Beat { to, .. } => self.slot_of(*to)?,
            Event::Deposed { id } => self.slot_of(*id)?,
            Event::Arrive { member, .. } => self.slot_of(member.member)?,
            Event::SendBeats { slot, .. }
            | Event::Tick { slot, .. }
            | Event::Settle { slot, .. }
            | Event::Drop { slot, .. }
            | Event::Want { slot, .. }
            | Event::ToNode { slot, .. } => *slot,
            _ => return None,
        };
        self.is_paused(slot).then_some(self.nodes[slot].paused_until)
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::Deliver { to, from, message } => {
                if let Some(slot) = self.slot_of(to) {
                    self.call(slot, |layer, now| layer.receive(now, from, message));
                }
            }
            Event::Beat { to, from, knows } => self.on_beat(to, from, knows),
            Event::SendBeats { slot, incarnation } => self.send_beats(slot, incarnation),
            Event::Tick { slot, incarnation } => {
                if self.nodes[slot].incarnation == incarnation {
                    self.nodes[slot].wake = u64::MAX;
                    self.call(slot, |layer, now| layer.tick(now));
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
            Event::Operator => self.on_operator(),
            Event::Start { slot } => self.start(slot),
            Event::Crash { slot } => {
                if !self.is_calm() {
                    self.crash(slot);
                }
            }
            Event::Arrive { view, name, member } => self.on_arrive(view, name, member),
            Event::Settle { slot, incarnation } => {
                if self.nodes[slot].incarnation == incarnation {
                    self.settle(slot);
                }
            }
            Event::Drop { slot, incarnation, name, token } => {
                if self.nodes[slot].incarnation == incarnation {
                    self.on_drop(slot, name, token);
                }
            }
            Event::Want { slot, incarnation } => {
                if self.nodes[slot].incarnation == incarnation {
                    self.on_want(slot);
                }
            }
            Event::External { client, step } => self.on_external(client, step),
            Event::ToClient { client, word } => self.on_client_word(client, word),
            Event::ToNode { slot, client, word } => self.on_node_word(slot, client, word),
            Event::Fault => self.on_fault(),
            Event::Heal { cuts } => self.heal(&cuts),
            Event::Calm => self.on_calm(),
        }
    }

    /// Calls a node's layer, and does what it wants done.
    pub(crate) fn call(&mut self, slot: usize, what: impl FnOnce(&mut ViewLayer, Moment)) {
        let now = self.local(slot);
        let Some(layer) = &mut self.nodes[slot].layer else { return };
        what(layer, now);
        self.do_effects(slot);
    }

    pub(crate) fn do_effects(&mut self, slot: usize) {
        let me = self.instance(slot);
        let effects = self.nodes[slot].layer.as_mut().map(ViewLayer::take_effects);
        for effect in effects.unwrap_or_default() {
            match effect {
                ViewEffect::Send { to, message } => self.send(slot, to, message),
                ViewEffect::Propose(command) => self.propose(me.member, command),
                other => self.on_lock_effect(slot, other),
            }
        }
        let Some(layer) = &self.nodes[slot].layer else { return };
        let wake = self.real(slot, layer.wake_at());
        let node = &mut self.nodes[slot];
        if wake < node.wake || node.wake <= self.now {
            node.wake = wake;
            let incarnation = node.incarnation;
            self.at(wake, Event::Tick { slot, incarnation });
        }
    }

    fn start(&mut self, slot: usize) {
        if self.nodes[slot].layer.is_some() {
            return;
        }
        let (id, role) = (self.nodes[slot].id, self.nodes[slot].role);
        self.nodes[slot].incarnation += 1;
        let incarnation = self.nodes[slot].incarnation;
        let engine = role.votes();
        let persisted = if engine {
            self.engine.start(id)
        } else {
            let snapshot = self.engine.genesis.clone();
            mutua_protocol::views::Persisted { snapshot, ..Default::default() }
        };
        let now = self.local(slot);
        let me = self.instance(slot);
        let settings = self.settings.clone();
        self.nodes[slot].layer = Some(ViewLayer::new(now, me, settings, persisted, engine));
        self.nodes[slot].locks = Locks::default();
        self.nodes[slot].wake = 0;
        self.note(|| format!("{me} starts"));
        self.call(slot, |layer, now| layer.tick(now));
        self.at(self.now, Event::SendBeats { slot, incarnation });
        if role.holds_locks() {
            self.at(self.now, Event::Want { slot, incarnation });
        }
    }

    /// Whether an engine runs at this voter, if its node runs.
    pub(crate) fn runs_engine(&self, _: MemberId) -> bool {
        true
    }

    /// Here the voters of the engine are those of the directory at once.
    pub(crate) fn follow_directory(&mut self) {}

    /// Proposes what somebody wants changed in the directory, one change at a time.
    fn on_operator(&mut self) {
        self.after(Duration::from_millis(400), Event::Operator);
        let directory = self.engine.state.directory().clone();
        self.wanted.retain(|change| match change {
            DirectoryChange::Add(id, _) => directory.role(*id).is_none(),
            DirectoryChange::Remove(id) => directory.role(*id).is_some(),
            DirectoryChange::Change(..) | DirectoryChange::Want(..) => false,
        });
        if let Some(change) = self.wanted.first().cloned() {
            let command = self.engine.state.change(change);
            self.on_commit(command);
        }
    }
}
