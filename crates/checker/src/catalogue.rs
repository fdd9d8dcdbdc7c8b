//! Every local situation once: what a process can be, what a link can hold, and what follows.
//!
//! The handlers of an algorithm run here, once for each distinct situation. All that the search
//! works with are the numbers of situations.

use std::{
    collections::BTreeSet,
    panic::{AssertUnwindSafe, catch_unwind},
};

use mutua_algorithms::{Effect, Fields, Links, Message, NodeId, Outbox, Renaming, Time};

use crate::{
    actor::{Actor, Event, Look},
    ghost::{Ghost, Happened},
    intern::Interner,
    symmetry::Symmetry,
};

/// The number of the outbox that holds nothing.
pub(crate) const EMPTY: u32 = 0;

/// The number of the effect that sends nothing.
pub(crate) const NOTHING: u32 = 0;

/// What an event does where it happens.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Outcome {
    /// The process after it.
    pub(crate) local: u32,
    /// What it sends.
    pub(crate) effect: u32,
    /// What it is to the properties.
    pub(crate) marks: u8,
}

/// The client entered.
pub(crate) const ENTERED: u8 = 1;
/// The client left.
pub(crate) const LEFT: u8 = 1 << 1;
/// A coordinator was elected.
pub(crate) const ELECTED: u8 = 1 << 2;
/// The client entered without having heard of the last exit.
pub(crate) const UNFENCED: u8 = 1 << 3;
/// The client entered before a request that happened before its own.
pub(crate) const OVERTOOK: u8 = 1 << 4;
/// The handler panicked.
pub(crate) const PANICKED: u8 = 1 << 5;

/// An event that can happen at a process without a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Move {
    pub(crate) event: Event,
    pub(crate) outcome: Outcome,
}

/// A message that can be delivered from an outbox.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delivery {
    pub(crate) to: u8,
    pub(crate) packet: u32,
    /// The outbox without it.
    pub(crate) rest: u32,
    /// The outbox with a copy of it behind everything, where messages are duplicated.
    pub(crate) twice: u32,
}

/// A message on its way.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Packet<M> {
    from: NodeId,
    /// The clock that goes with it, where it carries one and clocks are part of the state. What is
    /// not there is not shifted either.
    sent: Option<Time>,
    /// None for a message of the application.
    message: Option<M>,
    ghost: u32,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Local<A> {
    me: NodeId,
    actor: A,
    ghost: u32,
}

/// What a message says, for people.
#[derive(Clone, Debug)]
pub(crate) struct Words {
    pub(crate) kind: &'static str,
    pub(crate) fields: Fields,
}

/// What has happened anywhere in a search, so that a model in which too little can happen is
/// noticed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// Who has entered, or was elected.
    pub(crate) entered: BTreeSet<NodeId>,
    /// Which messages have arrived, and where.
    pub(crate) arrived: BTreeSet<(&'static str, NodeId)>,
    /// Which message was answered by which, on arrival.
    pub(crate) answered: BTreeSet<(&'static str, &'static str)>,
}

impl Seen {
    /// What has happened to one has happened to all that could have its name.
    pub(crate) fn rename(&self, symmetries: &[Symmetry]) -> Self {
        let mut all = self.clone();
        for Symmetry { renaming, .. } in symmetries {
            all.entered.extend(self.entered.iter().map(|&node| renaming.of(node)));
            let arrived = self.arrived.iter().map(|&(kind, node)| (kind, renaming.of(node)));
            all.arrived.extend(arrived);
        }
        all
    }
}

/// The situations of one system, whatever its algorithm.
pub(crate) trait Catalogue: Send {
    /// The start: one local situation and one outbox for each process.
    fn start(&mut self) -> (Vec<u32>, Vec<u32>);
    fn look(&self, local: u32) -> Look;
    fn moves(&mut self, local: u32) -> Vec<Move>;
    fn deliveries(&mut self, outbox: u32) -> Vec<Delivery>;
    fn receive(&mut self, local: u32, packet: u32) -> Outcome;
    /// The outbox after an effect.
    fn post(&mut self, outbox: u32, effect: u32) -> u32;
    /// The ghost's change to everyone else when the client of `who` enters or leaves.
    fn sweep_local(&mut self, local: u32, who: NodeId) -> u32;
    fn sweep_outbox(&mut self, outbox: u32, who: NodeId) -> u32;
    /// Whether a request of this process has not yet reached everyone it was sent to.
    fn is_spreading(&self, outbox: u32) -> bool;
    /// The lowest clock reading in it, if it holds any.
    fn lowest_in_local(&self, local: u32) -> Option<u64>;
    fn lowest_in_outbox(&self, outbox: u32) -> Option<u64>;
    /// The same with all readings lower by so much.
    fn shift_local(&mut self, local: u32, by: u64) -> u32;
    fn shift_outbox(&mut self, outbox: u32, by: u64) -> u32;
    /// The same under new names.
    fn rename_local(&mut self, local: u32, renaming: &Renaming) -> u32;
    fn rename_outbox(&mut self, outbox: u32, renaming: &Renaming) -> u32;
    fn words(&self, packet: u32) -> Words;
    /// The same message without its ghost.
    fn bare(&mut self, packet: u32) -> u32;
    /// What is under way to each receiver.
    fn contents(&self, outbox: u32) -> Vec<Vec<u32>>;
    /// What an effect sends, in order: receiver and message.
    fn sends(&self, effect: u32) -> Vec<(u32, u32)>;
    /// What has happened anywhere in the search.
    fn seen(&self) -> &Seen;
}

/// What a catalogue is told of the system.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    pub(crate) links: Links,
    /// Clock readings decide something, so they are part of the state.
    pub(crate) stamps: bool,
    pub(crate) ghost: Ghost,
    /// Whether the application sends messages of its own.
    pub(crate) tells: bool,
    /// Whether processes crash or come back.
    pub(crate) crashes: bool,
    /// Whether messages are duplicated.
    pub(crate) duplicates: bool,
    /// Who is inside at the start.
    pub(crate) inside: Option<NodeId>,
}

/// A process at the start, and what it sends first.
pub(crate) type AtStart<A> = (A, Vec<(NodeId, <A as Actor>::Message)>);

/// A catalogue for one algorithm.
#[derive(Debug)]
pub(crate) struct CatalogueOf<A: Actor> {
    rules: Rules,
    start: Vec<AtStart<A>>,
    locals: Interner<Local<A>>,
    packets: Interner<Packet<A::Message>>,
    /// For each receiver the number of messages and their numbers, in order, or sorted where order
    /// is nothing.
    outboxes: Interner<Box<[u32]>>,
    /// Receiver and message, in the order of sending.
    effects: Interner<Box<[(u32, u32)]>>,
    seen: Seen,
    out: Outbox<A::Message>,
}

impl<A: Actor> CatalogueOf<A> {
    /// The catalogue of a system that starts with these processes.
    pub(crate) fn new(rules: Rules, start: Vec<AtStart<A>>) -> Self {
        let mut effects = Interner::new();
        effects.id(Box::default());
        let mut outboxes = Interner::new();
        outboxes.id(vec![0; start.len()].into_boxed_slice());
        Self {
            rules,
            start,
            locals: Interner::new(),
            packets: Interner::new(),
            outboxes,
            effects,
            seen: Seen::default(),
            out: Outbox::new(),
        }
    }

    /// Runs one event at a process and keeps what comes of it.
    fn run(
        &mut self,
        local: u32,
        happened: Happened,
        event: impl FnOnce(&mut A, &mut Outbox<A::Message>),
    ) -> Outcome {
        let Local { me, mut actor, ghost } = self.locals.get(local).clone();
        let out = &mut self.out;
        if catch_unwind(AssertUnwindSafe(|| event(&mut actor, out))).is_err() {
            self.out = Outbox::new();
            return Outcome { local, effect: NOTHING, marks: PANICKED };
        }
        let mut sends = Vec::new();
        let mut marks = if happened == Happened::Release { LEFT } else { 0 };
        self.out.drain(|effect| match effect {
            Effect::Send { to, message, .. } => sends.push((to, message)),
            Effect::Multicast { to, message } => {
                sends.extend(to.iter().map(|&to| (to, message.clone())));
            }
            Effect::Enter => marks |= ENTERED,
            Effect::Elected { .. } => marks |= ELECTED,
            Effect::SetTimer { timer, .. } => actor.set_timer(timer, true),
            Effect::CancelTimer { timer } => actor.set_timer(timer, false),
            Effect::Nonsense { .. } => {}
        });
        if marks & (ENTERED | ELECTED) != 0 {
            self.seen.entered.insert(me);
        }
        let after = self.rules.ghost.after(ghost, me, happened, marks & ENTERED != 0);
        let sends = sends.into_iter().map(|(to, message)| (to, Some(message)));
        let effect = self.effect(me, &actor, sends, after.sent);
        let local = self.local(me, actor, after.kept);
        Outcome { local, effect, marks: marks | after.marks }
    }

    fn local(&mut self, me: NodeId, mut actor: A, ghost: u32) -> u32 {
        if !self.rules.stamps {
            actor.map_times(&mut |time| *time = Time::ZERO);
        }
        self.locals.id(Local { me, actor, ghost })
    }

    fn effect(
        &mut self,
        from: NodeId,
        actor: &A,
        sends: impl Iterator<Item = (NodeId, Option<A::Message>)>,
        ghost: u32,
    ) -> u32 {
        let (packets, stamps) = (&mut self.packets, self.rules.stamps);
        let effect = sends.map(|(to, message)| {
            let stamped = stamps && actor.carries_clock(message.as_ref());
            let sent = stamped.then(|| actor.time());
            (to.0, packets.id(Packet { from, sent, message, ghost }))
        });
        self.effects.id(effect.collect())
    }

    /// The messages for each receiver.
    fn open(&self, outbox: u32) -> Vec<Vec<u32>> {
        let mut rest = &self.outboxes.get(outbox)[..];
        let mut links = Vec::new();
        while let Some((&count, after)) = rest.split_first() {
            let (link, after) = after.split_at(count as usize);
            links.push(link.to_vec());
            rest = after;
        }
        links
    }

    fn close(&mut self, links: Vec<Vec<u32>>) -> u32 {
        let mut words = Vec::new();
        for mut link in links {
            if self.rules.links == Links::Any {
                link.sort_unstable();
            }
            words.push(link.len() as u32);
            words.append(&mut link);
        }
        self.outboxes.id(words.into_boxed_slice())
    }

    fn map_packets(&mut self, outbox: u32, map: impl Fn(&mut Packet<A::Message>)) -> u32 {
        let mut links = self.open(outbox);
        for packet in links.iter_mut().flatten() {
            let mut mapped = self.packets.get(*packet).clone();
            map(&mut mapped);
            *packet = self.packets.id(mapped);
        }
        self.close(links)
    }

    fn packets_in(&self, outbox: u32) -> impl Iterator<Item = &Packet<A::Message>> {
        self.open(outbox).into_iter().flatten().map(|packet| self.packets.get(packet))
    }

    fn rename_packet(&mut self, packet: u32, renaming: &Renaming) -> u32 {
        let mut renamed = self.packets.get(packet).clone();
        renamed.from = renaming.of(renamed.from);
        renamed.ghost = self.rules.ghost.rename_sent(renamed.ghost, renaming);
        if let Some(message) = &mut renamed.message {
            message.rename(renaming);
        }
        self.packets.id(renamed)
    }

    fn tell(&mut self, local: u32, to: NodeId) -> Outcome {
        let Local { me, actor, ghost } = self.locals.get(local).clone();
        let sent = self.rules.ghost.after(ghost, me, Happened::Else, false).sent;
        let effect = self.effect(me, &actor, std::iter::once((to, None)), sent);
        Outcome { local, effect, marks: 0 }
    }
}

impl<A: Actor> Catalogue for CatalogueOf<A> {
    fn start(&mut self) -> (Vec<u32>, Vec<u32>) {
        let ghost = self.rules.ghost.at_start(self.rules.inside);
        let start = std::mem::take(&mut self.start).into_iter().enumerate();
        start
            .map(|(me, (actor, sends))| {
                let me = NodeId::from(me);
                let sends = sends.into_iter().map(|(to, message)| (to, Some(message)));
                let effect = self.effect(me, &actor, sends, ghost);
                (self.local(me, actor, ghost), self.post(EMPTY, effect))
            })
            .unzip()
    }

    fn look(&self, local: u32) -> Look {
        self.locals.get(local).actor.look()
    }

    fn moves(&mut self, local: u32) -> Vec<Move> {
        let mut menu = Vec::new();
        let Local { me, actor, .. } = self.locals.get(local);
        actor.events(&mut menu);
        if !self.rules.crashes {
            menu.retain(|event| !matches!(event, Event::Crash | Event::Restart));
        }
        let (me, tells) = (*me, self.rules.tells && !actor.look().down);
        let mut moves: Vec<_> = menu
            .into_iter()
            .map(|event| {
                let happened = Happened::of(event);
                let outcome = self.run(local, happened, |actor, out| actor.happen(event, out));
                Move { event, outcome }
            })
            .collect();
        if tells {
            let processes = self.outboxes.get(EMPTY).len();
            let others = (0..processes).map(NodeId::from).filter(|&to| to != me);
            moves.extend(
                others.map(|to| Move { event: Event::Tell(to), outcome: self.tell(local, to) }),
            );
        }
        moves
    }

    fn deliveries(&mut self, outbox: u32) -> Vec<Delivery> {
        let links = self.open(outbox);
        let mut deliveries = Vec::new();
        for (to, link) in links.iter().enumerate() {
            let choices = match self.rules.links {
                Links::Fifo => link.len().min(1),
                Links::Any => link.len(),
            };
            for place in 0..choices {
                // Of several that are equal, one is enough.
                if place > 0 && link[place] == link[place - 1] {
                    continue;
                }
                let mut rest = links.clone();
                let packet = rest[to].remove(place);
                let rest = self.close(rest);
                let twice = if self.rules.duplicates {
                    let mut twice = links.clone();
                    twice[to].push(packet);
                    self.close(twice)
                } else {
                    outbox
                };
                deliveries.push(Delivery { to: to as u8, packet, rest, twice });
            }
        }
        deliveries
    }

    fn receive(&mut self, local: u32, packet: u32) -> Outcome {
        let Packet { from, sent, message, ghost } = self.packets.get(packet).clone();
        let clocked = self.locals.get(local).actor.carries_clock(message.as_ref());
        let happened = Happened::Receive { ghost, clocked };
        let kind = message.as_ref().map(Message::kind);
        let clock = sent.unwrap_or(Time::ZERO);
        let outcome =
            self.run(local, happened, |actor, out| actor.receive(from, clock, message, out));
        if let Some(kind) = kind {
            let me = self.locals.get(local).me;
            self.seen.arrived.insert((kind, me));
            let packets = self.effects.get(outcome.effect).iter();
            let sent = packets.filter_map(|&(_, packet)| self.packets.get(packet).message.as_ref());
            self.seen.answered.extend(sent.map(|message| (kind, message.kind())));
        }
        outcome
    }

    fn post(&mut self, outbox: u32, effect: u32) -> u32 {
        let (before, sends) = (self.outboxes.get(outbox), self.effects.get(effect));
        let mut words = Vec::with_capacity(before.len() + sends.len());
        let mut rest = &before[..];
        let mut to = 0;
        while let Some((&count, after)) = rest.split_first() {
            let (link, after) = after.split_at(count as usize);
            let head = words.len();
            words.push(0);
            words.extend_from_slice(link);
            words.extend(sends.iter().filter(|send| send.0 == to).map(|send| send.1));
            words[head] = (words.len() - head - 1) as u32;
            if self.rules.links == Links::Any {
                words[head + 1..].sort_unstable();
            }
            rest = after;
            to += 1;
        }
        self.outboxes.id(words.into_boxed_slice())
    }

    fn sweep_local(&mut self, local: u32, who: NodeId) -> u32 {
        let mut swept = self.locals.get(local).clone();
        swept.ghost = self.rules.ghost.sweep_kept(swept.ghost, who);
        self.locals.id(swept)
    }

    fn sweep_outbox(&mut self, outbox: u32, who: NodeId) -> u32 {
        let ghost = self.rules.ghost;
        self.map_packets(outbox, |packet| packet.ghost = ghost.sweep_sent(packet.ghost, who))
    }

    fn is_spreading(&self, outbox: u32) -> bool {
        self.packets_in(outbox).any(|packet| packet.ghost != 0)
    }

    fn lowest_in_local(&self, local: u32) -> Option<u64> {
        let mut lowest = None;
        self.locals.get(local).actor.clone().map_times(&mut |time| lower(&mut lowest, *time));
        lowest
    }

    fn lowest_in_outbox(&self, outbox: u32) -> Option<u64> {
        let mut lowest = None;
        for packet in self.packets_in(outbox) {
            packet.sent.into_iter().for_each(|sent| lower(&mut lowest, sent));
            if let Some(mut message) = packet.message.clone() {
                message.times(&mut |time| lower(&mut lowest, *time));
            }
        }
        lowest
    }

    fn shift_local(&mut self, local: u32, by: u64) -> u32 {
        let mut shifted = self.locals.get(local).clone();
        shifted.actor.map_times(&mut |time| sink(time, by));
        self.locals.id(shifted)
    }

    fn shift_outbox(&mut self, outbox: u32, by: u64) -> u32 {
        self.map_packets(outbox, |packet| {
            packet.sent.iter_mut().for_each(|sent| sink(sent, by));
            if let Some(message) = &mut packet.message {
                message.times(&mut |time| sink(time, by));
            }
        })
    }

    fn rename_local(&mut self, local: u32, renaming: &Renaming) -> u32 {
        let Local { me, mut actor, ghost } = self.locals.get(local).clone();
        actor.rename(renaming);
        let ghost = self.rules.ghost.rename_kept(ghost, renaming);
        self.locals.id(Local { me: renaming.of(me), actor, ghost })
    }

    fn rename_outbox(&mut self, outbox: u32, renaming: &Renaming) -> u32 {
        let old = self.open(outbox);
        let mut new = vec![Vec::new(); old.len()];
        for (to, link) in old.into_iter().enumerate() {
            let renamed = link.into_iter().map(|packet| self.rename_packet(packet, renaming));
            new[renaming.of(NodeId::from(to)).index()] = renamed.collect();
        }
        self.close(new)
    }

    fn words(&self, packet: u32) -> Words {
        match &self.packets.get(packet).message {
            Some(message) => Words { kind: message.kind(), fields: message.fields() },
            None => Words { kind: "tell", fields: Fields::new() },
        }
    }

    fn bare(&mut self, packet: u32) -> u32 {
        let bare = Packet { ghost: 0, ..self.packets.get(packet).clone() };
        self.packets.id(bare)
    }

    fn contents(&self, outbox: u32) -> Vec<Vec<u32>> {
        self.open(outbox)
    }

    fn sends(&self, effect: u32) -> Vec<(u32, u32)> {
        self.effects.get(effect).to_vec()
    }

    fn seen(&self) -> &Seen {
        &self.seen
    }
}

fn lower(lowest: &mut Option<u64>, time: Time) {
    *lowest = Some(lowest.map_or(time.number(), |lowest| lowest.min(time.number())));
}

fn sink(time: &mut Time, by: u64) {
    *time = Time::from_number(time.number() - by);
}
