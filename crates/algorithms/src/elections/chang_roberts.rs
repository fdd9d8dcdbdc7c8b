//! E. Chang and R. Roberts, "An improved algorithm for decentralized extrema-finding in circular
//! configurations of processes", CACM 22(5), 1979.
//!
//! Ids go round a ring and every process swallows those below its own; only the highest comes all
//! the way back, and its owner then announces itself to all. With one starter 2N messages at best
//! and 3N-1 at worst. No failures are assumed once it runs: the ring is closed over those that are
//! down before it starts. Links must keep order.
//!
//! Liberties: a process that takes part has a flag `participant`, as textbooks write the algorithm;
//! a second start of the same process while it takes part is nothing new.

use serde::{Deserialize, Serialize};

use crate::{
    About, Claim, Costs, Election, ElectionOutbox, Fields, Kind, Links, Message, NodeId, Partners,
    Start, Structure, Timer,
};

/// One process of Chang and Roberts' algorithm.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct ChangRoberts {
    me: NodeId,
    processes: u32,
    /// Its neighbours on the closed ring; itself if no other process is up.
    left: NodeId,
    right: NodeId,
    participant: bool,
    /// None while it takes part, and before the first election.
    elected: Option<NodeId>,
}

/// The messages, each to the right neighbour.
#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub enum ChangRobertsMessage {
    /// This process stands for election.
    Election(NodeId),
    /// This process is elected.
    Elected(NodeId),
}

use ChangRobertsMessage::{Elected, Election as Stands};

impl Election for ChangRoberts {
    type Message = ChangRobertsMessage;

    const ABOUT: &'static About = &ABOUT;

    fn new(me: NodeId, start: &Start) -> Self {
        Self {
            me,
            processes: start.processes(),
            left: start.predecessor(me),
            right: start.successor(me),
            participant: false,
            elected: None,
        }
    }

    /// The paper's initiation: a process marks itself and sends its number to the right.
    fn start(&mut self, out: &mut ElectionOutbox<Self::Message>) {
        if self.right == self.me {
            self.elected = Some(self.me);
            out.elected(self.me);
        } else if !self.participant {
            self.take_part(self.me, out);
        }
    }

    fn receive(
        &mut self,
        from: NodeId,
        message: Self::Message,
        out: &mut ElectionOutbox<Self::Message>,
    ) {
        let (Stands(id) | Elected(id)) = message;
        if from != self.left || from == self.me {
            return out.nonsense(from, "a message from no left neighbour");
        }
        if id.0 >= self.processes {
            return out.nonsense(from, "an id of no member");
        }
        match message {
            Stands(id) => self.on_election(from, id, out),
            Elected(id) => self.on_elected(from, id, out),
        }
    }

    fn timeout(&mut self, _timer: Timer, _out: &mut ElectionOutbox<Self::Message>) {}

    fn coordinator(&self) -> Option<NodeId> {
        self.elected
    }

    fn takes_part(&self) -> bool {
        self.participant
    }

    fn variables(&self) -> Fields {
        vec![("participant", self.participant.into()), ("elected", self.elected.into())]
    }
}

impl ChangRoberts {
    /// The paper's rule for a number that arrives: a greater one is passed on, a smaller one
    /// stopped, and its own elects the process.
    fn on_election(
        &mut self,
        from: NodeId,
        id: NodeId,
        out: &mut ElectionOutbox<ChangRobertsMessage>,
    ) {
        if id > self.me {
            self.take_part(id, out);
        } else if id < self.me {
            // A participant has let an id at least as high go by: the lower one ends here.
            if !self.participant {
                self.take_part(self.me, out);
            }
        } else if self.participant {
            self.participant = false;
            self.elected = Some(self.me);
            out.send(self.right, Elected(self.me));
            out.elected(self.me);
        } else {
            out.nonsense(from, "our id, though we do not stand for election");
        }
    }

    /// The announcement goes once round the ring.
    fn on_elected(
        &mut self,
        from: NodeId,
        id: NodeId,
        out: &mut ElectionOutbox<ChangRobertsMessage>,
    ) {
        if id == self.me {
            // All the way round: every process knows.
            if self.elected != Some(self.me) {
                out.nonsense(from, "elected, though we do not know it");
            }
        } else if id < self.me || !self.participant {
            out.nonsense(from, "the winner of no election in which we took part");
        } else {
            self.participant = false;
            self.elected = Some(id);
            out.send(self.right, Elected(id));
            out.elected(id);
        }
    }

    /// Passes an id on and takes part.
    fn take_part(&mut self, id: NodeId, out: &mut ElectionOutbox<ChangRobertsMessage>) {
        self.participant = true;
        self.elected = None;
        out.send(self.right, Stands(id));
    }
}

impl Message for ChangRobertsMessage {
    fn kind(&self) -> &'static str {
        match self {
            Stands(_) => "election",
            Elected(_) => "elected",
        }
    }

    fn fields(&self) -> Fields {
        let (Stands(id) | Elected(id)) = self;
        vec![("id", (*id).into())]
    }
}

use crate::{Cost, ElectionCost};

/// An id is passed on until a higher one stops it; the winner's id goes all the way round, and then
/// its announcement, the last message of which brings the winner nothing new.
const CASES: &[ElectionCost] = &[
    // No process to send to, or ids in no order round the ring.
    ElectionCost {
        when: |case| case.up.len() < 2 || case.falls.is_none(),
        messages: Cost::NONE,
        turnaround: Cost::NONE,
    },
    ElectionCost {
        when: |case| case.one_starts() && case.below() == Some(case.up.len() - 1),
        messages: Cost::exact("2M"),
        turnaround: Cost::exact("2M-1"),
    },
    ElectionCost {
        when: |case| case.one_starts() && case.falls == Some(false) && case.below() == Some(0),
        messages: Cost::exact("3M-1"),
        turnaround: Cost::exact("3M-2"),
    },
    ElectionCost {
        when: |case| case.one_starts() && case.falls == Some(false),
        messages: Cost::exact("3M-1-s").words_beside("{}, s below the starter"),
        turnaround: Cost::exact("3M-2-s").words_beside("{}, s below the starter"),
    },
    ElectionCost {
        when: |case| case.one_starts() && case.falls == Some(true) && case.below() == Some(0),
        messages: Cost::exact("2M+1"),
        turnaround: Cost::exact("2M"),
    },
    ElectionCost {
        when: |case| case.one_starts() && case.falls == Some(true),
        messages: Cost::exact("2M+1+s").words_beside("{}, s below the starter"),
        turnaround: Cost::exact("2M+s").words_beside("{}, s below the starter"),
    },
    // Each id but the highest is stopped by the next process; only the highest goes round.
    ElectionCost {
        when: |case| case.all_start() && case.falls == Some(false),
        messages: Cost::exact("3M-1"),
        turnaround: Cost::exact("2M-1"),
    },
    // Each id passes all lower ones.
    ElectionCost {
        when: |case| case.all_start() && case.falls == Some(true),
        messages: Cost::exact("M(M+3)/2"),
        turnaround: Cost::exact("2M-1"),
    },
];

const ABOUT: About = About {
    name: "chang-roberts",
    title: "Chang-Roberts 1979",
    kind: Kind::Election,
    family: "election",
    control: false,
    claims: &[Claim::Agreement, Claim::Termination],
    links: Links::Fifo,
    structure: Structure::Ring,
    partners: Partners::Few,
    uses_stamps: false,
    options: &[],
    costs: Costs {
        light: Cost::words("2N to 3N-1"),
        saturated: Cost::words("3N-1 to N(N+3)/2"),
        worst: Cost::bound("N(N+3)/2"),
        elections: CASES,
        ..Costs::NONE
    },
    order: "the highest id",
    source: "Chang, Roberts, CACM 22(5), 1979",
    idea: "Every process sends its id round the ring and swallows ids below its own. Only the \
           highest gets all the way back to its owner, which has thereby seen that none is higher \
           and announces itself to all.",
    rules: &[
        "To start: take part and send the own id to the right.",
        "On an id above the own: pass it on, and take part. On one below: send the own instead, \
         unless taking part already.",
        "On the own id: elected; announce it to the right neighbour.",
        "On an announcement: note it, take part no more, pass it on unless it is the own.",
    ],
    invariants: &[],
    known_failures: &[
        "A process that goes down while it runs cuts the ring: messages are lost, and no election \
         ends. Close the ring first.",
        "A process that restarts is on no ring until the next start.",
    ],
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ElectionEffect, Setup};

    /// Lets these of `n` start and delivers all; the number of messages, and the winner.
    fn messages(n: u32, starters: &[u32], crashed: &[u32]) -> (usize, Vec<Option<NodeId>>) {
        let mut setup = Setup::new(n);
        setup.crashed = crashed.iter().copied().map(NodeId).collect();
        let start = setup.start_election::<ChangRoberts>().expect("any number suits");
        let mut ring: Vec<_> = start.all().map(|me| ChangRoberts::new(me, &start)).collect();
        let (mut out, mut sent) = (ElectionOutbox::new(), Vec::new());
        for &starter in starters {
            ring[starter as usize].start(&mut out);
            post(NodeId(starter), &mut out, &mut sent);
        }
        for next in 0.. {
            let Some((from, to, message)) = sent.get(next).cloned() else { break };
            ring[to.index()].receive(from, message, &mut out);
            post(to, &mut out, &mut sent);
        }
        (sent.len(), ring.iter().map(ChangRoberts::coordinator).collect())
    }

    fn post<M>(from: NodeId, out: &mut ElectionOutbox<M>, sent: &mut Vec<(NodeId, NodeId, M)>)
    where
        M: Message,
    {
        out.drain(|effect| match effect {
            ElectionEffect::Send { to, message, .. } => sent.push((from, to, message)),
            ElectionEffect::Elected { .. } => {}
            other => panic!("{other:?}"),
        });
    }

    #[test]
    fn one_starter_costs_2n_at_best_and_3n_minus_1_at_worst() {
        for n in 2..12 {
            let elected = vec![Some(NodeId(n - 1)); n as usize];
            let size = n as usize;
            assert_eq!(messages(n, &[n - 1], &[]), (2 * size, elected.clone()));
            // The right neighbour of the highest is farthest from it.
            assert_eq!(messages(n, &[0], &[]), (3 * size - 1, elected));
        }
    }

    #[test]
    fn the_ring_is_closed_over_those_that_are_down() {
        let (sent, coordinators) = messages(5, &[1], &[0, 3, 4]);
        let two = Some(NodeId(2));
        assert_eq!((sent, coordinators), (5, vec![None, two, two, None, None]));
    }

    #[test]
    fn alone_it_elects_itself_without_a_message() {
        assert_eq!(messages(3, &[1], &[0, 2]), (0, vec![None, Some(NodeId(1)), None]));
        assert_eq!(messages(1, &[0], &[]), (0, vec![Some(NodeId(0))]));
    }

    /// Whether the middle one of a ring of three takes a message from the left; nonsense changes
    /// nothing.
    fn takes(participant: bool, message: ChangRobertsMessage) -> bool {
        let start = Setup::new(3).start_election::<ChangRoberts>().expect("any number suits");
        let (mut process, mut out) = (ChangRoberts::new(NodeId(1), &start), ElectionOutbox::new());
        if participant {
            process.start(&mut out);
        }
        out.drain(|_| ());
        let (before, mut nonsense) = (process.clone(), false);
        process.receive(NodeId(0), message, &mut out);
        out.drain(|effect| nonsense |= matches!(effect, ElectionEffect::Nonsense { .. }));
        assert!(!nonsense || process == before, "{process:?}");
        !nonsense
    }

    #[test]
    fn a_winner_is_higher_than_those_that_took_part_and_they_did() {
        assert!(takes(true, Elected(NodeId(2))));
        assert!(!takes(true, Elected(NodeId(0))), "it would have been stopped here");
        assert!(!takes(false, Elected(NodeId(2))), "its id did not come by");
        assert!(!takes(false, Elected(NodeId(0))));
    }

    #[test]
    fn when_all_start_it_costs_2n_minus_1_at_best_before_the_announcement() {
        let all: Vec<_> = (0..8).collect();
        // Ids rise along the ring, so everyone but the lowest swallows its left neighbour's.
        assert_eq!(messages(8, &all, &[]).0, 2 * 8 - 1 + 8);
    }
}
