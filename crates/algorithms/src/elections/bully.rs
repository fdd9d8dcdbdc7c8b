//! H. Garcia-Molina, "Elections in a distributed computing system", IEEE Transactions on Computers
//! C-31(1), 1982: the Bully algorithm.
//!
//! The highest process that is up becomes the coordinator. Who notices that the coordinator is
//! gone asks all higher ones; if none answers in time, it is the highest. N-2 messages at best,
//! O(N^2) at worst. It assumes that messages and their handling keep to known bounds; when they do
//! not, two can be elected.
//!
//! Liberties: as in S3, a process that knows itself to be the highest announces itself at once, and
//! the announcement goes to lower ids only. A coordinator that is asked says so to the one who
//! asked instead of electing itself again, and whoever has just heard an announcement answers an
//! election but holds none of its own, since it was sent before the announcement arrived. Without
//! that, each such question would start elections at all above, and these others, 2^N in all. With
//! `takeover=no` (S3's exercise 4) a process that is back asks who coordinates, and takes over only
//! if nobody does.

use serde::{Deserialize, Serialize};

use crate::{
    About, Choice, Claim, Costs, Election, Fields, Kind, Links, Message, NodeId, Other, Outbox,
    Partners, Start, Structure, Timer, Variant, Wait,
};

/// One process of the Bully algorithm.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Bully {
    me: NodeId,
    processes: u32,
    takeover: bool,
    coordinator: Option<NodeId>,
    state: State,
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum State {
    /// No election that we know of.
    Idle,
    /// Back from a crash: has anybody the office?
    Asking,
    /// Is any higher process up?
    AwaitingAnswer,
    /// One is; it will announce the winner.
    AwaitingAnnouncement,
    /// The winner is known; elections from before that may still arrive.
    Settled,
}

/// What the processes say.
#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub enum BullyMessage {
    /// Is anybody up there?
    Election,
    /// I am; leave it to me.
    Answer,
    /// I am the coordinator.
    Coordinator,
    /// Who is the coordinator? (`takeover=no`)
    Who,
}

/// T = 2 T_transmit + T_process: the question, its handling, the answer.
const ANSWER: Wait = Wait { transmissions: 2, handlings: 1 };

/// An announcement and an election that crossed it.
const SETTLING: Wait = Wait { transmissions: 2, handlings: 1 };

/// T': the highest that is up has our question after one transmission, waits T in vain for those
/// above it, and announces itself; one handling each, and one more to be sure.
const ANNOUNCEMENT: Wait = Wait { transmissions: 4, handlings: 4 };

impl Election for Bully {
    type Message = BullyMessage;

    const ABOUT: &'static About = &ABOUT;

    fn new(me: NodeId, start: &Start) -> Self {
        Self {
            me,
            processes: start.processes(),
            takeover: start.setting("takeover") == "yes",
            coordinator: None,
            state: State::Idle,
        }
    }

    fn start(&mut self, out: &mut Outbox<BullyMessage>) {
        if self.is_highest() {
            return self.become_coordinator(out);
        }
        self.coordinator = None;
        self.change_to(State::AwaitingAnswer, out);
        out.multicast(self.higher(), BullyMessage::Election);
    }

    fn restart(&mut self, out: &mut Outbox<BullyMessage>) {
        if self.takeover || self.processes == 1 {
            return self.start(out);
        }
        self.change_to(State::Asking, out);
        let me = self.me;
        let others = (0..self.processes).map(NodeId).filter(|&node| node != me);
        out.multicast(others, BullyMessage::Who);
    }

    fn receive(&mut self, from: NodeId, message: BullyMessage, out: &mut Outbox<BullyMessage>) {
        if from.0 >= self.processes || from == self.me {
            return out.nonsense(from, "a message from no other member");
        }
        match message {
            BullyMessage::Election => self.on_election(from, out),
            BullyMessage::Answer => self.on_answer(from, out),
            BullyMessage::Coordinator => self.on_coordinator(from, out),
            BullyMessage::Who => {
                if self.coordinator == Some(self.me) {
                    out.send(from, BullyMessage::Coordinator);
                }
            }
        }
    }

    fn timeout(&mut self, timer: Timer, out: &mut Outbox<BullyMessage>) {
        match (timer, self.state) {
            (Timer::Answer, State::AwaitingAnswer) => self.become_coordinator(out),
            (Timer::Answer, State::Asking) | (Timer::Announcement, State::AwaitingAnnouncement) => {
                self.start(out)
            }
            (Timer::Answer, State::Settled) => self.change_to(State::Idle, out),
            (Timer::Answer | Timer::Announcement | Timer::Look, _) => {}
        }
    }

    fn coordinator(&self) -> Option<NodeId> {
        self.coordinator
    }

    fn takes_part(&self) -> bool {
        !matches!(self.state, State::Idle | State::Settled)
    }

    fn variables(&self) -> Fields {
        let state = match self.state {
            State::Idle => "idle",
            State::Asking => "asking who coordinates",
            State::AwaitingAnswer => "awaiting an answer",
            State::AwaitingAnnouncement => "awaiting the announcement",
            State::Settled => "settled",
        };
        vec![("coordinator", self.coordinator.into()), ("state", state.into())]
    }
}

impl Bully {
    fn on_election(&mut self, from: NodeId, out: &mut Outbox<BullyMessage>) {
        if from > self.me {
            return out.nonsense(from, "an election from a higher process");
        }
        if self.coordinator == Some(self.me) {
            return out.send(from, BullyMessage::Coordinator);
        }
        out.send(from, BullyMessage::Answer);
        if self.state == State::Idle {
            self.start(out);
        }
    }

    fn on_answer(&mut self, from: NodeId, out: &mut Outbox<BullyMessage>) {
        match self.state {
            State::AwaitingAnswer if from > self.me => {
                self.change_to(State::AwaitingAnnouncement, out);
            }
            // The second answer, or one that the announcement has overtaken.
            State::Idle | State::Asking | State::AwaitingAnnouncement | State::Settled
                if from > self.me => {}
            State::Idle
            | State::Asking
            | State::AwaitingAnswer
            | State::AwaitingAnnouncement
            | State::Settled => out.nonsense(from, "an answer from a lower process"),
        }
    }

    fn on_coordinator(&mut self, from: NodeId, out: &mut Outbox<BullyMessage>) {
        if from < self.me && self.takeover {
            return out.nonsense(from, "an announcement from a lower process");
        }
        self.coordinator = Some(from);
        self.change_to(State::Settled, out);
        out.elected(from);
    }

    fn become_coordinator(&mut self, out: &mut Outbox<BullyMessage>) {
        self.coordinator = Some(self.me);
        self.change_to(State::Idle, out);
        out.multicast((0..self.me.0).map(NodeId), BullyMessage::Coordinator);
        out.elected(self.me);
    }

    /// Changes the state and sets just the timer that it needs.
    fn change_to(&mut self, state: State, out: &mut Outbox<BullyMessage>) {
        match self.state {
            State::Idle => {}
            State::Asking | State::AwaitingAnswer | State::Settled => {
                out.cancel_timer(Timer::Answer);
            }
            State::AwaitingAnnouncement => out.cancel_timer(Timer::Announcement),
        }
        match state {
            State::Idle => {}
            State::Asking | State::AwaitingAnswer => out.set_timer(Timer::Answer, ANSWER),
            State::Settled => out.set_timer(Timer::Answer, SETTLING),
            State::AwaitingAnnouncement => out.set_timer(Timer::Announcement, ANNOUNCEMENT),
        }
        self.state = state;
    }

    fn is_highest(&self) -> bool {
        self.me.0 + 1 == self.processes
    }

    fn higher(&self) -> impl Iterator<Item = NodeId> + use<> {
        (self.me.0 + 1..self.processes).map(NodeId)
    }
}

impl Message for BullyMessage {
    fn kind(&self) -> &'static str {
        match self {
            Self::Election => "election",
            Self::Answer => "answer",
            Self::Coordinator => "coordinator",
            Self::Who => "who",
        }
    }
}

const ABOUT: About = About {
    name: "bully",
    title: "Bully, Garcia-Molina 1982",
    kind: Kind::Election,
    family: "election",
    control: false,
    claims: &[Claim::Agreement, Claim::Termination],
    links: Links::Any,
    structure: Structure::Complete,
    partners: Partners::All,
    uses_stamps: false,
    options: &[Choice {
        key: "takeover",
        values: &[
            Variant {
                name: "yes",
                meaning: "a returning process that is the highest takes the office",
                drops: &[],
            },
            Variant {
                name: "no",
                meaning: "a returning process leaves a working coordinator in office",
                drops: &[],
            },
        ],
        other: Other::Nothing,
    }],
    costs: Costs {
        light: "N-2 (highest down, and not asked)",
        saturated: "-",
        worst: "N^2-N-1 (highest down)",
        client_delay: "-",
        sync_delay: "-",
    },
    order: "the highest id",
    source: "Garcia-Molina, IEEE ToC C-31(1), 1982",
    idea: "The highest process that is up has the office. Whoever misses the coordinator asks all \
           higher ones; if nobody answers in time, it takes the office and tells all lower ones; \
           if somebody does, that one sees to it.",
    rules: &[
        "To start: the highest announces itself at once; else send election to all higher ids.",
        "On an election: answer, and start an election unless one is under way or just over. In \
         office: say so.",
        "No answer within T: announce yourself to all lower ids. An answer, but no announcement \
         within T': start again.",
        "Back from a crash: start an election (or, with takeover=no, ask who has the office).",
    ],
    known_failures: &[
        "If the bounds on transmission and handling do not hold, two can be elected (E1).",
        "If a crashed process is replaced under its id while another elects itself, E1 can fail.",
    ],
};
