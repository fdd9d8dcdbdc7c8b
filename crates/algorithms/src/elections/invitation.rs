//! H. Garcia-Molina, "Elections in a distributed computing system", IEEE Transactions on Computers
//! C-31(1), 1982: the invitation algorithm, for systems without bounds on delay.
//!
//! Processes form groups, each with a coordinator. A coordinator looks now and then for others and
//! invites them and their groups into one; a member looks now and then after its coordinator and,
//! if that is down, is a group of its own again. So each part of a divided network has its
//! coordinator, and the parts become one when they meet; a process that is slow is only in another
//! group for a while. What is promised is agreement within a group, and one group in the end if
//! nothing fails any more.
//!
//! Liberties: questions that the paper asks by calls that can fail are messages and a timer here.
//! Only coordinators answer that they are one. A process that has never been in any group is one of
//! its own as soon as it knows of the others. A process that accepts an invitation late is taken in
//! all the same. A member that waits for READY asks after its coordinator as any other member does.

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use crate::{
    About, Claim, Cost, Costs, Election, ElectionOutbox, Fields, Kind, Links, Message, NodeId,
    NodeSet, Partners, Start, Structure, Timer, Value, Wait,
};

/// One process of the invitation algorithm.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Invitation {
    me: NodeId,
    processes: u32,
    state: State,
    /// The paper's `S(i).g`, with the coordinator `S(i).c` in it.
    group: Group,
    /// How many groups this process has founded.
    founded: u32,
    /// The other members of the group, if this is its coordinator: the paper's `S(i).up`.
    up: NodeSet,
    /// The processes that have answered that they are coordinators, since we have asked.
    found: NodeSet,
}

/// A group: no two are equal, since each coordinator counts its own.
#[derive(
    Clone, Copy, Debug, Default, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize,
)]
pub struct Group {
    /// The process that founded it.
    pub coordinator: NodeId,
    /// Its number among those that the coordinator has founded.
    pub number: u32,
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum State {
    /// In no group yet.
    Idle,
    /// Coordinator; the next look for others is a while away.
    Leading,
    /// Coordinator; are there others?
    Looking,
    /// Coordinator; there are others, among them a higher one, which has the first turn to invite.
    Yielding,
    /// Coordinator of a new group; acceptances are awaited.
    Gathering,
    /// Member; the next look after the coordinator is a while away.
    Following { ready: bool },
    /// Member; is the coordinator there?
    Checking { ready: bool },
}

/// The messages between processes.
#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub enum InvitationMessage {
    /// Are you a coordinator?
    AreYouCoordinator,
    /// I am.
    IAm,
    /// Do you still coordinate this group, with me in it?
    AreYouThere(Group),
    /// I do.
    Here(Group),
    /// I do not.
    NotHere(Group),
    /// Come into this group.
    Invite(Group),
    /// I have come into it.
    Accept(Group),
    /// The group is complete.
    Ready(Group),
}

use InvitationMessage::{
    Accept, AreYouCoordinator, AreYouThere, Here, IAm, Invite, NotHere, Ready,
};

/// A question, its handling, the answer.
const ANSWER: Wait = Wait { transmissions: 2, handlings: 1 };

/// The invitation to another coordinator, from there to its members, their acceptance.
const ACCEPTANCE: Wait = Wait { transmissions: 3, handlings: 2 };

/// Between two looks.
const LOOK: Wait = Wait { transmissions: 20, handlings: 20 };

/// How long a higher coordinator may take to look and to invite, for each id between the two.
const TURN: Wait = Wait { transmissions: 6, handlings: 6 };

impl Election for Invitation {
    type Message = InvitationMessage;

    const ABOUT: &'static About = &ABOUT;

    fn new(me: NodeId, start: &Start) -> Self {
        Self {
            me,
            processes: start.processes(),
            state: State::Idle,
            group: Group { coordinator: me, number: 0 },
            founded: 0,
            up: NodeSet::new(),
            found: NodeSet::new(),
        }
    }

    /// The paper's Recovery, by which a process begins, and then Check at once.
    fn start(&mut self, out: &mut ElectionOutbox<Self::Message>) {
        match self.state {
            State::Idle | State::Following { .. } | State::Checking { .. } => self.recover(out),
            State::Leading | State::Looking | State::Yielding | State::Gathering => {}
        }
        if self.state == State::Leading {
            self.look(out);
        }
    }

    fn receive(
        &mut self,
        from: NodeId,
        message: Self::Message,
        out: &mut ElectionOutbox<Self::Message>,
    ) {
        if from.0 >= self.processes || from == self.me {
            return out.nonsense(from, "a message from no other member");
        }
        match message {
            AreYouCoordinator => self.on_are_you_coordinator(from, out),
            IAm => {
                if self.state == State::Looking {
                    self.found.insert(from);
                }
            }
            AreYouThere(group) => self.on_are_you_there(from, group, out),
            Here(group) | NotHere(group) | Ready(group) if group.coordinator != from => {
                out.nonsense(from, "an answer for a group of another process");
            }
            Here(group) => self.on_here(group, out),
            NotHere(group) => self.on_not_here(group, out),
            Invite(group) => self.on_invite(from, group, out),
            Accept(group) => self.on_accept(from, group, out),
            Ready(group) => self.on_ready(group, out),
        }
    }

    /// Check and Timeout run now and then; the other timers stand for calls that return in the
    /// paper.
    fn timeout(&mut self, timer: Timer, out: &mut ElectionOutbox<Self::Message>) {
        match (timer, self.state) {
            (Timer::Look, State::Leading) => self.look(out),
            (Timer::Look, State::Following { ready }) => {
                self.change_to(State::Checking { ready }, ANSWER, out);
                out.send(self.group.coordinator, AreYouThere(self.group));
            }
            (Timer::Answer, State::Looking) => self.on_all_found(out),
            (Timer::Answer, State::Gathering) => self.on_all_accepted(out),
            (Timer::Answer, State::Checking { .. }) => self.recover(out),
            (Timer::Announcement, State::Yielding) => self.merge(out),
            (Timer::Look | Timer::Answer | Timer::Announcement | Timer::Acknowledgement, _) => {}
        }
    }

    fn coordinator(&self) -> Option<NodeId> {
        self.is_normal().then_some(self.group.coordinator)
    }

    fn takes_part(&self) -> bool {
        self.state != State::Idle && !self.is_normal()
    }

    fn variables(&self) -> Fields {
        let group = (self.state != State::Idle)
            .then(|| Value::List(vec![self.group.coordinator.into(), self.group.number.into()]));
        vec![
            ("state", self.state.word().into()),
            ("c", self.coordinator().into()),
            ("g", group.into()),
            ("up", Value::from(&self.up)),
            ("found", Value::from(&self.found)),
        ]
    }
}

impl Invitation {
    /// The group this process is in, once it is in one.
    pub fn group(&self) -> Option<Group> {
        (self.state != State::Idle).then_some(self.group)
    }

    // Looking for others: the paper's Check and Merge.

    /// Check: asks all whether they are coordinators.
    fn look(&mut self, out: &mut ElectionOutbox<InvitationMessage>) {
        self.found.clear();
        self.change_to(State::Looking, ANSWER, out);
        let me = self.me;
        let others = (0..self.processes).map(NodeId).filter(|&node| node != me);
        out.multicast(others, AreYouCoordinator);
    }

    /// The paper's AreYouCoordinator.
    fn on_are_you_coordinator(
        &mut self,
        from: NodeId,
        out: &mut ElectionOutbox<InvitationMessage>,
    ) {
        if self.state == State::Idle {
            self.recover(out);
        }
        if self.is_normal() && self.group.coordinator == self.me {
            out.send(from, IAm);
        }
    }

    /// Check, its end: if there are other coordinators, Merge after a delay by priority, so that
    /// two rarely invite at the same time.
    fn on_all_found(&mut self, out: &mut ElectionOutbox<InvitationMessage>) {
        match self.found.iter().last() {
            None => self.change_to(State::Leading, LOOK, out),
            Some(highest) if highest > self.me => {
                let between = highest.0 - self.me.0;
                let turn = Wait {
                    transmissions: TURN.transmissions * between,
                    handlings: TURN.handlings * between,
                };
                self.change_to(State::Yielding, turn, out);
            }
            Some(_) => self.merge(out),
        }
    }

    /// Merge: founds a group and invites the coordinators that were found, and the own old members.
    fn merge(&mut self, out: &mut ElectionOutbox<InvitationMessage>) {
        let mut invited = std::mem::take(&mut self.found);
        invited.extend(self.up.iter());
        self.found_group();
        self.change_to(State::Gathering, ACCEPTANCE, out);
        out.multicast(invited.iter(), Invite(self.group));
    }

    /// The paper's Accept.
    fn on_accept(
        &mut self,
        from: NodeId,
        group: Group,
        out: &mut ElectionOutbox<InvitationMessage>,
    ) {
        let ours = group.coordinator == self.me && (1..=self.founded).contains(&group.number);
        if !ours {
            return out.nonsense(from, "an acceptance into a group that is not ours");
        }
        // For an older group it is late; its sender will ask after us and get an answer.
        if group != self.group {
            return;
        }
        self.up.insert(from);
        if self.is_normal() {
            out.send(from, Ready(group));
        }
    }

    /// Merge, its end: those that have accepted are the group, and get Ready.
    fn on_all_accepted(&mut self, out: &mut ElectionOutbox<InvitationMessage>) {
        out.multicast(self.up.iter(), Ready(self.group));
        self.change_to(State::Leading, LOOK, out);
        out.elected(self.me);
    }

    // Being invited: the paper's Invitation and Ready.

    /// The paper's Invitation: passed on to the own members, then accepted.
    fn on_invite(
        &mut self,
        from: NodeId,
        group: Group,
        out: &mut ElectionOutbox<InvitationMessage>,
    ) {
        if group.coordinator.0 >= self.processes || group.coordinator == self.me {
            return out.nonsense(from, "an invitation into a group of no other process");
        }
        // A process between groups stays out, and so does one that has been invited already.
        if self.takes_part() || self.group == group {
            return;
        }
        out.multicast(self.up.iter().filter(|&node| node != group.coordinator), Invite(group));
        self.up.clear();
        self.found.clear();
        self.group = group;
        self.change_to(State::Following { ready: false }, LOOK, out);
        out.send(group.coordinator, Accept(group));
    }

    /// The paper's Ready: the group is complete, and its coordinator elected.
    fn on_ready(&mut self, group: Group, out: &mut ElectionOutbox<InvitationMessage>) {
        if group != self.group {
            return;
        }
        match &mut self.state {
            State::Following { ready } | State::Checking { ready } if !*ready => {
                *ready = true;
                out.elected(group.coordinator);
            }
            State::Idle
            | State::Leading
            | State::Looking
            | State::Yielding
            | State::Gathering
            | State::Following { .. }
            | State::Checking { .. } => {}
        }
    }

    // Looking after the coordinator: the paper's Timeout, AreYouThere and Recovery.

    /// The paper's AreYouThere.
    fn on_are_you_there(
        &self,
        from: NodeId,
        group: Group,
        out: &mut ElectionOutbox<InvitationMessage>,
    ) {
        if group.coordinator != self.me {
            return out.nonsense(from, "a question after a group that is not ours");
        }
        let is_member = self.group == group && self.up.contains(from);
        out.send(from, if is_member { Here(group) } else { NotHere(group) });
    }

    /// Timeout, its end: the coordinator is there.
    fn on_here(&mut self, group: Group, out: &mut ElectionOutbox<InvitationMessage>) {
        if let State::Checking { ready } = self.state
            && group == self.group
        {
            self.change_to(State::Following { ready }, LOOK, out);
        }
    }

    /// Timeout, its end: the coordinator has another group, so Recovery.
    fn on_not_here(&mut self, group: Group, out: &mut ElectionOutbox<InvitationMessage>) {
        if group == self.group {
            self.recover(out);
        }
    }

    /// Recovery: becomes a group of its own.
    fn recover(&mut self, out: &mut ElectionOutbox<InvitationMessage>) {
        self.found_group();
        self.change_to(State::Leading, LOOK, out);
        out.elected(self.me);
    }

    fn found_group(&mut self) {
        self.founded += 1;
        self.group = Group { coordinator: self.me, number: self.founded };
        self.up.clear();
    }

    /// Whether it is in a complete group.
    fn is_normal(&self) -> bool {
        match self.state {
            State::Idle | State::Gathering => false,
            State::Leading | State::Looking | State::Yielding => true,
            State::Following { ready } | State::Checking { ready } => ready,
        }
    }

    /// Changes the state and sets just the timer that ends it.
    fn change_to(
        &mut self,
        state: State,
        after: Wait,
        out: &mut ElectionOutbox<InvitationMessage>,
    ) {
        let (old, new) = (self.state.timer(), state.timer());
        if let Some(old) = old
            && Some(old) != new
        {
            out.cancel_timer(old);
        }
        if let Some(new) = new {
            out.set_timer(new, after);
        }
        self.state = state;
    }
}

impl State {
    fn timer(self) -> Option<Timer> {
        match self {
            Self::Idle => None,
            Self::Leading | Self::Following { .. } => Some(Timer::Look),
            Self::Looking | Self::Gathering | Self::Checking { .. } => Some(Timer::Answer),
            Self::Yielding => Some(Timer::Announcement),
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Idle => "in no group",
            Self::Leading => "leading",
            Self::Looking => "looking for others",
            Self::Yielding => "yielding to a higher one",
            Self::Gathering => "gathering a group",
            Self::Following { ready: true } => "following",
            Self::Following { ready: false } => "awaiting that the group is ready",
            Self::Checking { .. } => "looking after the coordinator",
        }
    }
}

impl Message for InvitationMessage {
    fn kind(&self) -> &'static str {
        match self {
            AreYouCoordinator => "are-you-coordinator",
            IAm => "i-am",
            AreYouThere(_) => "are-you-there",
            Here(_) => "here",
            NotHere(_) => "not-here",
            Invite(_) => "invitation",
            Accept(_) => "accept",
            Ready(_) => "ready",
        }
    }

    fn fields(&self) -> Fields {
        match self {
            AreYouCoordinator | IAm => Fields::new(),
            AreYouThere(group) | Here(group) | NotHere(group) | Invite(group) | Accept(group)
            | Ready(group) => {
                vec![("coordinator", group.coordinator.into()), ("group", group.number.into())]
            }
        }
    }
}

const ABOUT: About = About {
    name: "invitation",
    title: "Invitation, Garcia-Molina 1982",
    kind: Kind::Election,
    family: "election",
    control: false,
    claims: &[Claim::Termination],
    links: Links::Any,
    structure: Structure::Complete,
    partners: Partners::All,
    uses_stamps: false,
    options: &[],
    costs: Costs {
        light: Cost::only_printed("2N-2", "{} to ask, then 3 for each other process"),
        worst: Cost::only_printed("N-1", "unbounded (each look costs {})"),
        ..Costs::NONE
    },
    order: "the process that invites first, the higher sooner",
    source: "Garcia-Molina, IEEE ToC C-31(1), 1982",
    idea: "Every process is in a group with one coordinator, at first alone. Coordinators look for \
           each other now and then, and one invites the rest with all their members into a new \
           group; members that miss their coordinator are alone again. Nothing depends on how long \
           messages take: too slow, and one is in another group for a while. So a divided network \
           has a coordinator in every part, and one again when it heals.",
    rules: &[
        "A coordinator asks all now and then: are you coordinator? If some are, it waits its turn \
         (the lower, the longer), founds a new group and invites them and its old members.",
        "On an invitation: pass it on to the own members, if any, and accept, unless between \
         groups.",
        "With the acceptances, after a time: the group is ready; inform its members.",
        "A member asks its coordinator now and then: are you there? If it is not, or not in this \
         group: be a group of one.",
    ],
    invariants: &[],
    known_failures: &[
        "Agreement is within a group only: at times there are several groups, each with its \
         coordinator, and the last one need not be that of the highest id.",
        "A process that restarts has lost the count of the groups it has founded; a member of an \
         old one may take the new for it until it asks.",
    ],
};
