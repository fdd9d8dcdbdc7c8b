//! Every local situation once: what a process can be, what a link can hold, and what follows.
//!
//! The handlers of an algorithm run here, once for each distinct situation. All that the search
//! works with are the numbers of situations.

mod seen;

use std::{
    collections::BTreeSet,
    panic::{AssertUnwindSafe, catch_unwind},
};

use mutua_algorithms::{Fields, Links, Message, NodeId, Renaming, Time};

use crate::{
    actor::{Actor, Event, Look},
    check::Names,
    ghost::{Ghost, GhostBits, Happened},
    ids::{EffectId, LocalId, OutboxId, PacketId},
    intern::Interner,
    known::Span,
};

pub(crate) use seen::Seen;

/// The number of the outbox that holds nothing.
pub(crate) const EMPTY: OutboxId = OutboxId(0);

/// The number of the effect that sends nothing.
pub(crate) const NOTHING: EffectId = EffectId(0);

/// The effect of an event at its process.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Outcome {
    /// The process after it.
    pub(crate) local: LocalId,
    /// The messages that it sends.
    pub(crate) effect: EffectId,
    /// Its view for the properties.
    pub(crate) marks: u8,
}

/// The client entered.
pub(crate) const ENTERED: u8 = 1;
/// The client exited.
pub(crate) const LEFT: u8 = 1 << 1;
/// A coordinator was elected.
pub(crate) const ELECTED: u8 = 1 << 2;
/// The client entered, and the last exit did not happen before that.
pub(crate) const UNFENCED: u8 = 1 << 3;
/// The client entered before a request that happened before its own.
pub(crate) const OVERTOOK: u8 = 1 << 4;
/// The handler panicked.
pub(crate) const PANICKED: u8 = 1 << 5;
/// The process came into a view.
pub(crate) const RESUMED: u8 = 1 << 6;

/// Nothing but the clock has changed.
pub(crate) const CLOCK_ONLY: u8 = 1 << 7;

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
    pub(crate) packet: PacketId,
    /// The outbox without it.
    pub(crate) rest: OutboxId,
    /// The outbox with a copy of it behind everything, where messages are duplicated.
    pub(crate) twice: OutboxId,
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
    ghost: GhostBits,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Local<A> {
    me: NodeId,
    actor: A,
    ghost: GhostBits,
}

/// The contents of a message, for people.
#[derive(Clone, Debug)]
pub(crate) struct Words {
    pub(crate) kind: &'static str,
    pub(crate) from: NodeId,
    pub(crate) fields: Fields,
}

/// The situations of one system, whatever its algorithm.
pub(crate) trait Catalogue: Send {
    /// The start: one local situation and one outbox for each process.
    fn start(&mut self) -> (Vec<LocalId>, Vec<OutboxId>);
    fn look(&self, local: LocalId) -> Look;
    fn moves(&mut self, local: LocalId) -> Vec<Move>;
    fn deliveries(&mut self, outbox: OutboxId) -> Vec<Delivery>;
    fn receive(&mut self, local: LocalId, packet: PacketId) -> Outcome;
    /// A message of the application arrives that was sent at this reading.
    fn hear(&mut self, local: LocalId, from: NodeId, sent: u64) -> Outcome;
    /// The reading of the first message to this receiver, where links keep order.
    fn head(&self, outbox: OutboxId, to: u32) -> Option<u64>;
    /// The outbox after an effect.
    fn post(&mut self, outbox: OutboxId, effect: EffectId) -> OutboxId;
    /// The ghost's change to all other processes when the client of `who` enters or exits.
    fn sweep_local(&mut self, local: LocalId, who: NodeId) -> LocalId;
    fn sweep_outbox(&mut self, outbox: OutboxId, who: NodeId) -> OutboxId;
    /// Whether a request of this process has not yet reached every process it was sent to.
    fn is_spreading(&self, outbox: OutboxId) -> bool;
    /// The lowest clock reading in it, if it holds any.
    fn lowest_in_local(&self, local: LocalId) -> Option<u64>;
    fn lowest_in_outbox(&self, outbox: OutboxId) -> Option<u64>;
    /// The span of the readings of this epoch.
    fn span_in_local(&self, local: LocalId, epoch: u32) -> Span;
    fn span_in_outbox(&self, outbox: OutboxId, epoch: u32) -> Span;
    /// The same with all readings of an epoch lower by so much.
    fn shift_local(&mut self, local: LocalId, epoch: u32, by: u64) -> LocalId;
    fn shift_outbox(&mut self, outbox: OutboxId, epoch: u32, by: u64) -> OutboxId;
    /// The same under new names.
    fn rename_local(&mut self, local: LocalId, renaming: &Renaming) -> LocalId;
    fn rename_outbox(&mut self, outbox: OutboxId, renaming: &Renaming) -> OutboxId;
    fn words(&self, packet: PacketId) -> Words;
    /// Phase, clock and variables of a process. The clock is there where it is part of the state.
    fn variables(&self, local: LocalId) -> Fields;
    /// The names of all variables and fields that were met, and the kinds of messages.
    fn names(&self) -> Names;
    /// The same message without its ghost.
    fn bare(&mut self, packet: PacketId) -> PacketId;
    /// The messages under way to each receiver.
    fn contents(&self, outbox: OutboxId) -> Vec<Vec<PacketId>>;
    /// The messages that an effect sends, in order: receiver and message.
    fn sends(&self, effect: EffectId) -> Vec<(u32, PacketId)>;
    /// The events that have happened anywhere in the search.
    fn seen(&self) -> &Seen;
}

/// The parts of a system that a catalogue depends on.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    pub(crate) links: Links,
    /// Clock readings decide something, so they are part of the state.
    pub(crate) stamps: bool,
    pub(crate) ghost: Ghost,
    /// Whether the application sends messages of its own.
    pub(crate) app_messages: bool,
    /// Whether processes crash or restart.
    pub(crate) crashes: bool,
    /// Whether messages are duplicated.
    pub(crate) duplicates: bool,
    /// The process that is in the critical section at the start.
    pub(crate) in_cs: Option<NodeId>,
}

/// A process at the start, and what it sends first.
pub(crate) type AtStart<A> = (A, Vec<(NodeId, <A as Actor>::Message)>);

/// A catalogue for one algorithm.
#[derive(Debug)]
pub(crate) struct CatalogueOf<A: Actor> {
    rules: Rules,
    start: Vec<AtStart<A>>,
    locals: Interner<LocalId, Local<A>>,
    packets: Interner<PacketId, Packet<A::Message>>,
    /// For each receiver the number of messages and their numbers, in order, or sorted where order
    /// is nothing.
    outboxes: Interner<OutboxId, Box<[u32]>>,
    /// Receiver and message, in the order of sending.
    effects: Interner<EffectId, Box<[(u32, PacketId)]>>,
    seen: Seen,
    out: A::Outbox,
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
            out: A::Outbox::default(),
        }
    }

    /// Runs one event at a process and keeps what comes of it.
    fn run(
        &mut self,
        local: LocalId,
        happened: Happened,
        event: impl FnOnce(&mut A, &mut A::Outbox),
    ) -> Outcome {
        let Local { me, mut actor, ghost } = self.locals.get(local).clone();
        let out = &mut self.out;
        if catch_unwind(AssertUnwindSafe(|| event(&mut actor, out))).is_err() {
            self.out = A::Outbox::default();
            return Outcome { local, effect: NOTHING, marks: PANICKED };
        }
        let reaction = actor.react(&mut self.out);
        let mut marks = if happened == Happened::Release { LEFT } else { 0 };
        if reaction.entered {
            marks |= ENTERED;
        }
        if reaction.elected {
            marks |= ELECTED;
        }
        if reaction.resumed {
            marks |= RESUMED;
        }
        if marks & (ENTERED | ELECTED) != 0 {
            self.seen.entered.insert(me);
        }
        let (entered, starts_view) = (marks & ENTERED != 0, reaction.starts_view);
        let after = self.rules.ghost.after(ghost, me, happened, entered, starts_view);
        let sends = reaction.sends.into_iter().map(|(to, message)| (to, Some(message)));
        let effect = self.effect(me, &actor, sends, after.sent);
        let local = self.local(me, actor, after.kept);
        Outcome { local, effect, marks: marks | after.marks }
    }

    fn local(&mut self, me: NodeId, mut actor: A, ghost: GhostBits) -> LocalId {
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
        ghost: GhostBits,
    ) -> EffectId {
        let (packets, stamps) = (&mut self.packets, self.rules.stamps);
        let effect = sends.map(|(to, message)| {
            let stamped = stamps && actor.carries_clock(message.as_ref());
            let sent = stamped.then(|| actor.time());
            (to.0, packets.id(Packet { from, sent, message, ghost }))
        });
        self.effects.id(effect.collect())
    }

    /// The messages for each receiver.
    fn open(&self, outbox: OutboxId) -> Vec<Vec<PacketId>> {
        let mut rest = &self.outboxes.get(outbox)[..];
        let mut links = Vec::new();
        while let Some((&count, after)) = rest.split_first() {
            let (link, after) = after.split_at(count as usize);
            links.push(link.iter().copied().map(PacketId).collect());
            rest = after;
        }
        links
    }

    fn close(&mut self, links: Vec<Vec<PacketId>>) -> OutboxId {
        let mut words = Vec::new();
        for mut link in links {
            if self.rules.links == Links::Any {
                link.sort_unstable();
            }
            words.push(link.len() as u32);
            words.extend(link.iter().map(|packet| packet.0));
        }
        self.outboxes.id(words.into_boxed_slice())
    }

    fn map_packets(&mut self, outbox: OutboxId, map: impl Fn(&mut Packet<A::Message>)) -> OutboxId {
        let mut links = self.open(outbox);
        for packet in links.iter_mut().flatten() {
            let mut mapped = self.packets.get(*packet).clone();
            map(&mut mapped);
            *packet = self.packets.id(mapped);
        }
        self.close(links)
    }

    fn packets_in(&self, outbox: OutboxId) -> impl Iterator<Item = &Packet<A::Message>> {
        self.open(outbox).into_iter().flatten().map(|packet| self.packets.get(packet))
    }

    fn rename_packet(&mut self, packet: PacketId, renaming: &Renaming) -> PacketId {
        let mut renamed = self.packets.get(packet).clone();
        renamed.from = renaming.of(renamed.from);
        renamed.ghost = self.rules.ghost.rename_sent(renamed.ghost, renaming);
        if let Some(message) = &mut renamed.message {
            message.rename(renaming);
        }
        self.packets.id(renamed)
    }

    fn send_app_message(&mut self, local: LocalId, to: NodeId) -> Outcome {
        let Local { me, actor, ghost } = self.locals.get(local).clone();
        let sent = self.rules.ghost.after(ghost, me, Happened::Else, false, false).sent;
        let effect = self.effect(me, &actor, std::iter::once((to, None)), sent);
        Outcome { local, effect, marks: 0 }
    }
}

impl<A: Actor> Catalogue for CatalogueOf<A> {
    fn start(&mut self) -> (Vec<LocalId>, Vec<OutboxId>) {
        let ghost = self.rules.ghost.at_start(self.rules.in_cs);
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

    fn look(&self, local: LocalId) -> Look {
        self.locals.get(local).actor.look()
    }

    fn moves(&mut self, local: LocalId) -> Vec<Move> {
        let mut menu = Vec::new();
        let Local { me, actor, .. } = self.locals.get(local);
        actor.events(&mut menu);
        if !self.rules.crashes {
            menu.retain(|event| !matches!(event, Event::Crash | Event::Restart));
        }
        let (me, sends) = (*me, self.rules.app_messages && !actor.look().down);
        let mut moves: Vec<_> = menu
            .into_iter()
            .map(|event| {
                let happened = Happened::of(event);
                let outcome = self.run(local, happened, |actor, out| actor.happen(event, out));
                Move { event, outcome }
            })
            .collect();
        if sends {
            let processes = self.outboxes.get(EMPTY).len();
            let others = (0..processes).map(NodeId::from).filter(|&to| to != me);
            moves.extend(others.map(|to| Move {
                event: Event::AppSend(to),
                outcome: self.send_app_message(local, to),
            }));
        }
        moves
    }

    fn deliveries(&mut self, outbox: OutboxId) -> Vec<Delivery> {
        let links = self.open(outbox);
        let mut deliveries = Vec::new();
        for (to, link) in links.iter().enumerate() {
            let choices = match self.rules.links {
                Links::Fifo => link.len().min(1),
                Links::Any => link.len(),
            };
            for index in 0..choices {
                // Of several that are equal, one is enough.
                if index > 0 && link[index] == link[index - 1] {
                    continue;
                }
                let mut rest = links.clone();
                let packet = rest[to].remove(index);
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

    fn receive(&mut self, local: LocalId, packet: PacketId) -> Outcome {
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

    fn hear(&mut self, local: LocalId, from: NodeId, sent: u64) -> Outcome {
        let sent = Time::from_number(sent);
        let mut clock_only = false;
        let event = |actor: &mut A, out: &mut A::Outbox| clock_only = actor.hear(from, sent, out);
        let outcome = self.run(local, Happened::Else, event);
        let mark = if clock_only { CLOCK_ONLY } else { 0 };
        Outcome { marks: outcome.marks | mark, ..outcome }
    }

    fn head(&self, outbox: OutboxId, to: u32) -> Option<u64> {
        let link = &self.open(outbox)[to as usize];
        let first = link.first().filter(|_| self.rules.links == Links::Fifo)?;
        self.packets.get(*first).sent.map(Time::number)
    }

    fn post(&mut self, outbox: OutboxId, effect: EffectId) -> OutboxId {
        let (before, sends) = (self.outboxes.get(outbox), self.effects.get(effect));
        let mut words = Vec::with_capacity(before.len() + sends.len());
        let mut rest = &before[..];
        let mut to = 0;
        while let Some((&count, after)) = rest.split_first() {
            let (link, after) = after.split_at(count as usize);
            let head = words.len();
            words.push(0);
            words.extend_from_slice(link);
            words.extend(sends.iter().filter(|send| send.0 == to).map(|send| send.1.0));
            words[head] = (words.len() - head - 1) as u32;
            if self.rules.links == Links::Any {
                words[head + 1..].sort_unstable();
            }
            rest = after;
            to += 1;
        }
        self.outboxes.id(words.into_boxed_slice())
    }

    fn sweep_local(&mut self, local: LocalId, who: NodeId) -> LocalId {
        let mut swept = self.locals.get(local).clone();
        swept.ghost = self.rules.ghost.sweep_kept(swept.ghost, who);
        self.locals.id(swept)
    }

    fn sweep_outbox(&mut self, outbox: OutboxId, who: NodeId) -> OutboxId {
        let ghost = self.rules.ghost;
        self.map_packets(outbox, |packet| packet.ghost = ghost.sweep_sent(packet.ghost, who))
    }

    fn is_spreading(&self, outbox: OutboxId) -> bool {
        self.packets_in(outbox).any(|packet| packet.ghost != GhostBits::NONE)
    }

    fn lowest_in_local(&self, local: LocalId) -> Option<u64> {
        let mut lowest = None;
        self.locals.get(local).actor.clone().map_times(&mut |time| lower(&mut lowest, *time));
        lowest
    }

    fn lowest_in_outbox(&self, outbox: OutboxId) -> Option<u64> {
        let mut lowest = None;
        for packet in self.packets_in(outbox) {
            packet.sent.into_iter().for_each(|sent| lower(&mut lowest, sent));
            if let Some(mut message) = packet.message.clone() {
                message.times(&mut |time| lower(&mut lowest, *time));
            }
        }
        lowest
    }

    fn span_in_local(&self, local: LocalId, epoch: u32) -> Span {
        let mut span = Span::NONE;
        self.locals.get(local).actor.clone().map_times(&mut |time| span.add(*time, epoch));
        span
    }

    fn span_in_outbox(&self, outbox: OutboxId, epoch: u32) -> Span {
        let mut span = Span::NONE;
        for packet in self.packets_in(outbox) {
            packet.sent.into_iter().for_each(|sent| span.add(sent, epoch));
            if let Some(mut message) = packet.message.clone() {
                message.times(&mut |time| span.add(*time, epoch));
            }
        }
        span
    }

    fn shift_local(&mut self, local: LocalId, epoch: u32, by: u64) -> LocalId {
        let mut shifted = self.locals.get(local).clone();
        shifted.actor.map_times(&mut |time| sink(time, epoch, by));
        self.locals.id(shifted)
    }

    fn shift_outbox(&mut self, outbox: OutboxId, epoch: u32, by: u64) -> OutboxId {
        self.map_packets(outbox, |packet| {
            packet.sent.iter_mut().for_each(|sent| sink(sent, epoch, by));
            if let Some(message) = &mut packet.message {
                message.times(&mut |time| sink(time, epoch, by));
            }
        })
    }

    fn rename_local(&mut self, local: LocalId, renaming: &Renaming) -> LocalId {
        let Local { me, mut actor, ghost } = self.locals.get(local).clone();
        actor.rename(renaming);
        let ghost = self.rules.ghost.rename_kept(ghost, renaming);
        self.locals.id(Local { me: renaming.of(me), actor, ghost })
    }

    fn rename_outbox(&mut self, outbox: OutboxId, renaming: &Renaming) -> OutboxId {
        let old = self.open(outbox);
        let mut new = vec![Vec::new(); old.len()];
        for (to, link) in old.into_iter().enumerate() {
            let renamed = link.into_iter().map(|packet| self.rename_packet(packet, renaming));
            new[renaming.of(NodeId::from(to)).index()] = renamed.collect();
        }
        self.close(new)
    }

    fn words(&self, packet: PacketId) -> Words {
        let Packet { from, message, .. } = self.packets.get(packet);
        let (kind, fields) = match message {
            Some(message) => (message.kind(), message.fields()),
            None => ("app", Fields::new()),
        };
        Words { kind, from: *from, fields }
    }

    fn variables(&self, local: LocalId) -> Fields {
        let actor = &self.locals.get(local).actor;
        let mut fields = actor.variables();
        if self.rules.stamps {
            fields.insert(1.min(fields.len()), ("clock", actor.time().into()));
        }
        fields
    }

    fn names(&self) -> Names {
        let mut names: BTreeSet<_> = ["phase", "clock"].into();
        for local in self.locals.values() {
            names.extend(local.actor.variables().into_iter().map(|(name, _)| name));
        }
        let messages = self.packets.values().iter().filter_map(|packet| packet.message.as_ref());
        let kinds = messages.clone().map(Message::kind).collect();
        names.extend(messages.flat_map(|message| message.fields()).map(|(name, _)| name));
        (names, kinds)
    }

    fn bare(&mut self, packet: PacketId) -> PacketId {
        let bare = Packet { ghost: GhostBits::NONE, ..self.packets.get(packet).clone() };
        self.packets.id(bare)
    }

    fn contents(&self, outbox: OutboxId) -> Vec<Vec<PacketId>> {
        self.open(outbox)
    }

    fn sends(&self, effect: EffectId) -> Vec<(u32, PacketId)> {
        self.effects.get(effect).to_vec()
    }

    fn seen(&self) -> &Seen {
        &self.seen
    }
}

fn lower(lowest: &mut Option<u64>, time: Time) {
    *lowest = Some(lowest.map_or(time.number(), |lowest| lowest.min(time.number())));
}

/// Lowers a reading of this epoch.
fn sink(time: &mut Time, epoch: u32, by: u64) {
    if time.epoch() == epoch {
        *time = Time::from_number(time.number() - by);
    }
}
