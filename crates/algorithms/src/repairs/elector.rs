//! The elections that choose the leader of a repair: one type, so that the number of compiled
//! repairs is that of the algorithms.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::Changes;
use crate::{
    About, Election, ElectionEffect, ElectionOutbox, Fields, Links, Message, NodeId, Setup, Start,
    Timer, UnknownName,
    elections::{
        Bully, BullyMessage, ChangRoberts, ChangRobertsMessage, Invitation, InvitationMessage,
    },
    names::by_name,
};

/// The election algorithm of a repair.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum ElectionName {
    /// Garcia-Molina's Bully algorithm.
    #[default]
    Bully,
    /// Chang and Roberts' election on a ring.
    ChangRoberts,
    /// Garcia-Molina's invitation algorithm.
    Invitation,
}

impl ElectionName {
    /// Every election.
    pub const ALL: &'static [Self] = &[Self::Bully, Self::ChangRoberts, Self::Invitation];

    /// The row of the algorithm.
    pub fn about(self) -> &'static About {
        match self {
            Self::Bully => Bully::ABOUT,
            Self::ChangRoberts => ChangRoberts::ABOUT,
            Self::Invitation => Invitation::ABOUT,
        }
    }

    /// The name, as in the registry.
    pub fn name(self) -> &'static str {
        self.about().name
    }

    /// The order that the election needs of the links.
    pub fn links(self) -> Links {
        self.about().links
    }
}

impl FromStr for ElectionName {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        by_name("election", Self::ALL, Self::name, name)
    }
}

/// One process of one of the elections.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) enum Elector {
    Bully(Bully),
    ChangRoberts(ChangRoberts),
    Invitation(Invitation),
}

/// A message of one of the elections.
#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub enum ElectorMessage {
    /// Of the Bully algorithm.
    Bully(BullyMessage),
    /// Of Chang and Roberts' algorithm.
    ChangRoberts(ChangRobertsMessage),
    /// Of the invitation algorithm.
    Invitation(InvitationMessage),
}

impl ElectorMessage {
    /// The message's name.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Bully(message) => message.kind(),
            Self::ChangRoberts(message) => message.kind(),
            Self::Invitation(message) => message.kind(),
        }
    }

    pub(super) fn fields(&self) -> Fields {
        match self {
            Self::Bully(message) => message.fields(),
            Self::ChangRoberts(message) => message.fields(),
            Self::Invitation(message) => message.fields(),
        }
    }
}

/// An event of an election.
#[derive(Clone, Debug)]
pub(super) enum ElectorEvent {
    Start,
    Receive(NodeId, ElectorMessage),
    Timeout(Timer),
}

/// A handler of an election's effects.
pub(super) type Handle<'a> = &'a mut dyn FnMut(ElectionEffect<'_, ElectorMessage>);

impl Elector {
    /// A process of the election among those that are up.
    pub(super) fn new(name: ElectionName, me: NodeId, changes: &Changes, processes: u32) -> Self {
        match name {
            ElectionName::Bully => Self::Bully(make(me, changes, processes)),
            ElectionName::ChangRoberts => Self::ChangRoberts(make(me, changes, processes)),
            ElectionName::Invitation => Self::Invitation(make(me, changes, processes)),
        }
    }

    /// Lets an event happen and hands its effects to `handle`.
    pub(super) fn happen(&mut self, event: ElectorEvent, handle: Handle<'_>) {
        match self {
            Self::Bully(machine) => run(machine, event, of_bully, ElectorMessage::Bully, handle),
            Self::ChangRoberts(machine) => {
                run(machine, event, of_chang_roberts, ElectorMessage::ChangRoberts, handle);
            }
            Self::Invitation(machine) => {
                run(machine, event, of_invitation, ElectorMessage::Invitation, handle);
            }
        }
    }

    /// The elected process, as far as this one knows.
    pub(super) fn coordinator(&self) -> Option<NodeId> {
        match self {
            Self::Bully(machine) => machine.coordinator(),
            Self::ChangRoberts(machine) => machine.coordinator(),
            Self::Invitation(machine) => machine.coordinator(),
        }
    }

    /// The number of the coordinator's group: a report into an older group is void.
    pub(super) fn term(&self) -> u32 {
        match self {
            Self::Bully(_) | Self::ChangRoberts(_) => 0,
            Self::Invitation(machine) => machine.group().map_or(0, |group| group.number),
        }
    }

    pub(super) fn variables(&self) -> Fields {
        match self {
            Self::Bully(machine) => machine.variables(),
            Self::ChangRoberts(machine) => machine.variables(),
            Self::Invitation(machine) => machine.variables(),
        }
    }
}

fn make<E: Election>(me: NodeId, changes: &Changes, processes: u32) -> E {
    let setup = Setup { crashed: changes.crashed(), ..Setup::new(processes) };
    let start: Start = setup.start_election::<E>().expect("every process is one of them");
    E::new(me, &start)
}

fn run<E: Election>(
    machine: &mut E,
    event: ElectorEvent,
    unwrap: fn(ElectorMessage) -> Option<E::Message>,
    wrap: fn(E::Message) -> ElectorMessage,
    handle: Handle<'_>,
) {
    let mut out = ElectionOutbox::new();
    match event {
        ElectorEvent::Start => machine.start(&mut out),
        ElectorEvent::Timeout(timer) => machine.timeout(timer, &mut out),
        ElectorEvent::Receive(from, message) => match unwrap(message) {
            Some(message) => machine.receive(from, message, &mut out),
            None => out.nonsense(from, "a message of another election"),
        },
    }
    out.drain(|effect| {
        handle(match effect {
            ElectionEffect::Send { to, message } => {
                ElectionEffect::Send { to, message: wrap(message) }
            }
            ElectionEffect::Multicast { to, message } => {
                ElectionEffect::Multicast { to, message: wrap(message) }
            }
            ElectionEffect::Elected { coordinator } => ElectionEffect::Elected { coordinator },
            ElectionEffect::SetTimer { timer, after } => ElectionEffect::SetTimer { timer, after },
            ElectionEffect::CancelTimer { timer } => ElectionEffect::CancelTimer { timer },
            ElectionEffect::Nonsense { from, why } => ElectionEffect::Nonsense { from, why },
        });
    });
}

fn of_bully(message: ElectorMessage) -> Option<BullyMessage> {
    match message {
        ElectorMessage::Bully(message) => Some(message),
        ElectorMessage::ChangRoberts(_) | ElectorMessage::Invitation(_) => None,
    }
}

fn of_chang_roberts(message: ElectorMessage) -> Option<ChangRobertsMessage> {
    match message {
        ElectorMessage::ChangRoberts(message) => Some(message),
        ElectorMessage::Bully(_) | ElectorMessage::Invitation(_) => None,
    }
}

fn of_invitation(message: ElectorMessage) -> Option<InvitationMessage> {
    match message {
        ElectorMessage::Invitation(message) => Some(message),
        ElectorMessage::Bully(_) | ElectorMessage::ChangRoberts(_) => None,
    }
}
