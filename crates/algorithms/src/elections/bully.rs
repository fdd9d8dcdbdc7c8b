//! H. Garcia-Molina, "Elections in a distributed computing system", IEEE Transactions on Computers
//! C-31(1), 1982: the Bully algorithm.
//!
//! The highest process that is up becomes the coordinator. A process that suspects the coordinator
//! sends an election to all higher ones; if none answers in time, it is the highest. N-2 messages
//! at best, O(N^2) at worst. It assumes that messages and their handling keep to known bounds; when
//! they do not, two can be elected.
//!
//! Liberties: a process that knows itself to be the highest announces itself at once, and
//! the announcement goes to lower ids only. A coordinator answers an election with its announcement
//! instead of electing itself again, and a process that has just received an announcement answers
//! an election but holds none of its own, since it was sent before the announcement arrived.
//! Without that, each such election would start elections at all above, and these others, 2^N in
//! all. With `takeover=no` a process that has restarted asks for the coordinator,
//! and takes over only if there is none.

use serde::{Deserialize, Serialize};

use crate::{
    About, Choice, Claim, Costs, Election, ElectionOutbox, Fields, Kind, Links, Message, NodeId,
    Other, Partners, Start, Structure, Timer, Variant, Wait,
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
    /// Restarted after a crash: is there a coordinator?
    Asking,
    /// Is any higher process up?
    AwaitingAnswer,
    /// One is; it will announce the winner.
    AwaitingAnnouncement,
    /// The winner is known; elections from before that may still arrive.
    Settled,
}

/// The messages between processes.
#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub enum BullyMessage {
    /// To higher processes: is one of you up?
    Election,
    /// To a lower process: I am up and hold the election.
    Answer,
    /// I am the coordinator.
    Coordinator,
    /// Asks for the coordinator. (`takeover=no`)
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

    fn takes_over(start: &Start) -> bool {
        start.setting("takeover") == "yes"
    }

    fn new(me: NodeId, start: &Start) -> Self {
        Self {
            me,
            processes: start.processes(),
            takeover: Self::takes_over(start),
            coordinator: None,
            state: State::Idle,
        }
    }

    /// The paper's procedure Election: are the higher processes up?
    fn start(&mut self, out: &mut ElectionOutbox<BullyMessage>) {
        if self.is_highest() {
            return self.become_coordinator(out);
        }
        self.coordinator = None;
        self.change_to(State::AwaitingAnswer, out);
        out.multicast(self.higher(), BullyMessage::Election);
    }

    /// The paper's Recovery.
    fn restart(&mut self, out: &mut ElectionOutbox<BullyMessage>) {
        if self.takeover || self.processes == 1 {
            return self.start(out);
        }
        self.change_to(State::Asking, out);
        let me = self.me;
        let others = (0..self.processes).map(NodeId).filter(|&node| node != me);
        out.multicast(others, BullyMessage::Who);
    }

    fn receive(
        &mut self,
        from: NodeId,
        message: BullyMessage,
        out: &mut ElectionOutbox<BullyMessage>,
    ) {
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

    /// The paper's timeouts: without an answer we are elected; without an announcement, once more.
    fn timeout(&mut self, timer: Timer, out: &mut ElectionOutbox<BullyMessage>) {
        match (timer, self.state) {
            (Timer::Answer, State::AwaitingAnswer) => self.become_coordinator(out),
            (Timer::Answer, State::Asking) | (Timer::Announcement, State::AwaitingAnnouncement) => {
                self.start(out)
            }
            (Timer::Answer, State::Settled) => self.change_to(State::Idle, out),
            (Timer::Answer | Timer::Announcement | Timer::Look | Timer::Acknowledgement, _) => {}
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
    /// A lower process holds an election: it is halted by our answer, and we hold one.
    fn on_election(&mut self, from: NodeId, out: &mut ElectionOutbox<BullyMessage>) {
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

    /// A higher process is up: its announcement is awaited.
    fn on_answer(&mut self, from: NodeId, out: &mut ElectionOutbox<BullyMessage>) {
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

    /// The paper's NewCoordinator.
    fn on_coordinator(&mut self, from: NodeId, out: &mut ElectionOutbox<BullyMessage>) {
        if from < self.me && self.takeover {
            return out.nonsense(from, "an announcement from a lower process");
        }
        self.coordinator = Some(from);
        self.change_to(State::Settled, out);
        out.elected(from);
    }

    fn become_coordinator(&mut self, out: &mut ElectionOutbox<BullyMessage>) {
        self.coordinator = Some(self.me);
        self.change_to(State::Idle, out);
        out.multicast((0..self.me.0).map(NodeId), BullyMessage::Coordinator);
        out.elected(self.me);
    }

    /// Changes the state and sets just the timer that it needs.
    fn change_to(&mut self, state: State, out: &mut ElectionOutbox<BullyMessage>) {
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

use crate::{Circumstances, Cost, ElectionCost};

/// With only the highest down: all from the lowest starter up send an election to all above and are
/// answered by those that are up, and the new coordinator informs all but itself and the highest.
/// How long that takes depends on the timeouts.
const CASES: &[ElectionCost] = &[
    ElectionCost {
        when: |case| applies(case) && case.below() == Some(case.up.len() - 1),
        messages: Cost::exact("N-1"),
        turnaround: Cost::NONE,
    },
    ElectionCost {
        when: |case| applies(case) && case.below() == Some(0),
        messages: Cost::exact("N^2-N-1"),
        turnaround: Cost::NONE,
    },
    ElectionCost {
        when: applies,
        messages: Cost::exact("(N-1-s)^2 + N-2").words_beside("{}, s starting"),
        turnaround: Cost::NONE,
    },
];

fn applies(case: &Circumstances<'_>) -> bool {
    case.is_steady && case.only_highest_down()
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
        light: Cost::only_printed("N-2", "{} (highest down, and not asked)"),
        worst: Cost::bound("N^2-N-1").table("{} (highest down; more if all are up)"),
        elections: CASES,
        ..Costs::NONE
    },
    order: "the highest id",
    source: "Garcia-Molina, IEEE ToC C-31(1), 1982",
    idea: "The highest process that is up is the coordinator. A process that suspects \
           that the coordinator has crashed sends an election to all higher ones; if none answers \
           in time, it becomes the coordinator and announces that to all lower ones; if one does, \
           that one takes over.",
    rules: &[
        "To start: the highest announces itself at once; else send election to all higher ids.",
        "On an election: answer, and start an election unless one is under way or just over. In \
         office: send the announcement.",
        "No answer within T: announce yourself to all lower ids. An answer, but no announcement \
         within T': start again.",
        "After a restart: start an election (or, with takeover=no, ask for the coordinator).",
    ],
    invariants: &[],
    known_failures: &[
        "If the bounds on transmission and handling do not hold, two processes can be elected.",
        "If a crashed process is replaced under its id while another elects itself, two can be \
         elected.",
    ],
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ElectionEffect, Setup};

    /// Process 1 of three, idle.
    fn middle(takeover: &str) -> Bully {
        let setup = Setup::new(3).with("takeover", takeover);
        Bully::new(NodeId(1), &setup.start_election::<Bully>().expect("three suit"))
    }

    /// Whether a message is no nonsense; nonsense changes nothing.
    fn takes(process: &mut Bully, from: u32, message: BullyMessage) -> bool {
        let (mut out, mut nonsense) = (ElectionOutbox::new(), false);
        let before = process.clone();
        process.receive(NodeId(from), message, &mut out);
        out.drain(|effect| nonsense |= matches!(effect, ElectionEffect::Nonsense { .. }));
        assert!(!nonsense || *process == before, "{process:?}");
        !nonsense
    }

    #[test]
    fn an_election_comes_from_a_lower_process() {
        assert!(!takes(&mut middle("yes"), 2, BullyMessage::Election));
        assert!(takes(&mut middle("yes"), 0, BullyMessage::Election));
    }

    #[test]
    fn an_answer_comes_from_a_higher_process_whether_it_is_awaited_or_not() {
        let mut idle = middle("yes");
        assert!(!takes(&mut idle, 0, BullyMessage::Answer));
        assert!(takes(&mut idle, 2, BullyMessage::Answer), "it may be late");
        assert!(!idle.takes_part());
        let mut waiting = middle("yes");
        waiting.start(&mut ElectionOutbox::new());
        assert!(!takes(&mut waiting, 0, BullyMessage::Answer));
        assert!(takes(&mut waiting, 2, BullyMessage::Answer));
        assert_eq!(waiting.state, State::AwaitingAnnouncement);
    }

    #[test]
    fn a_lower_process_announces_itself_only_where_the_higher_leave_it_in_office() {
        let (mut takes_over, mut leaves) = (middle("yes"), middle("no"));
        assert!(!takes(&mut takes_over, 0, BullyMessage::Coordinator));
        assert!(takes(&mut takes_over, 2, BullyMessage::Coordinator));
        assert_eq!(takes_over.coordinator(), Some(NodeId(2)));
        assert!(takes(&mut leaves, 0, BullyMessage::Coordinator));
        assert_eq!(leaves.coordinator(), Some(NodeId(0)));
    }
}
