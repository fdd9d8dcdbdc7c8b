//! What can happen next: every step that the visitor may take, and why others have to wait.

use mutua_algorithms::{NodeId, Phase};
use serde::Serialize;

use super::position::delivery;
use crate::{
    Script, describe,
    script::{Command, Item, Line, Player},
};

/// A step that could be next.
#[derive(Clone, Debug, Serialize)]
pub struct Choice {
    /// The line to add to the script.
    pub line: String,
    /// Its kind.
    pub act: Act,
    /// The process that acts; for a message, its sender.
    pub from: usize,
    /// The receiver of a message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<usize>,
    /// The number of the message among those of its sender.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<u64>,
    /// The message in words.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// The outcome in words, for a prediction.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub outcome: String,
    /// Why it cannot be taken now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refusal: Option<String>,
}

/// The kinds of steps.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Act {
    /// A client requests.
    Request,
    /// A client exits.
    Exit,
    /// A message arrives.
    Deliver,
    /// A process starts an election.
    Start,
    /// A timer expires.
    Timeout,
    /// The failure detector reports a crash or a restart.
    Report,
    /// A daemon lets a process move.
    Move,
    /// A message is lost.
    Lose,
    /// A message arrives twice.
    Duplicate,
    /// A process crashes.
    Crash,
    /// A process restarts.
    Restart,
}

impl Act {
    /// Whether it is a fault, which happens only if the visitor causes it.
    pub(super) fn is_fault(self) -> bool {
        match self {
            Self::Lose | Self::Duplicate | Self::Crash | Self::Restart => true,
            Self::Request
            | Self::Exit
            | Self::Deliver
            | Self::Start
            | Self::Timeout
            | Self::Report
            | Self::Move => false,
        }
    }
}

/// A step with the process that acts.
pub(super) struct Possible {
    pub(super) act: Act,
    pub(super) command: Command,
    pub(super) from: NodeId,
    /// The index of its message in flight.
    pub(super) message: Option<usize>,
}

/// All steps, faults included, in the order of the page: messages first.
pub(super) fn choices(script: &Script, player: &dyn Player) -> Vec<Choice> {
    possible(player).into_iter().map(|possible| choice(script, player, &possible)).collect()
}

fn choice(script: &Script, player: &dyn Player, possible: &Possible) -> Choice {
    let Possible { act, command, from, message } = possible;
    let line = Line { number: 0, item: Item::Command(command.clone()) };
    let mut fork = player.copy();
    let before = fork.events().len();
    let (outcome, refusal) = match fork.act(command) {
        Ok(()) => (outcome(fork.as_ref(), before), None),
        Err(refusal) => (String::new(), Some(refusal.to_string())),
    };
    let in_flight = player.in_flight();
    let message = message.map(|index| in_flight[index]);
    Choice {
        line: script.line_text(&line),
        act: *act,
        from: from.index(),
        to: message.map(|(_, to, _)| to.index()),
        id: message.map(|(_, _, message)| message.id),
        text: message.map(|(_, _, message)| describe::shown(message)).unwrap_or_default(),
        outcome,
        refusal,
    }
}

/// What the process does about the step, without the step itself.
fn outcome(fork: &dyn Player, before: usize) -> String {
    let (header, events) = (fork.header(), &fork.events()[before..]);
    let done = events.iter().skip(1).map(|event| describe::verb(header, &event.what));
    let done: Vec<_> = done.collect();
    if done.is_empty() { "does nothing yet".to_owned() } else { done.join(", ") }
}

/// The steps of a system, as far as its present phases and messages call for them.
pub(super) fn possible(player: &dyn Player) -> Vec<Possible> {
    if player.ring().is_some() {
        return moves(player);
    }
    let mut all = deliveries(player, Act::Deliver);
    all.extend(of_processes(player));
    all.extend(deliveries(player, Act::Lose));
    all.extend(deliveries(player, Act::Duplicate));
    all.extend(crashes(player));
    all
}

fn deliveries(player: &dyn Player, act: Act) -> Vec<Possible> {
    let in_flight = player.in_flight();
    let message = |index: usize| {
        let Command::Deliver { from, to, which } = delivery(&in_flight, index) else {
            unreachable!("a delivery is one")
        };
        let command = match act {
            Act::Lose => Command::Lose { from, to, which },
            Act::Duplicate => Command::Duplicate { from, to, which },
            _ => Command::Deliver { from, to, which },
        };
        Possible { act, command, from, message: Some(index) }
    };
    (0..in_flight.len()).map(message).collect()
}

fn of_processes(player: &dyn Player) -> Vec<Possible> {
    let contenders = player.start_of_all().map(mutua_algorithms::Start::contenders);
    let mut all = Vec::new();
    for who in processes(player).filter(|&who| player.is_up(who)) {
        let step = |act, command| Possible { act, command, from: who, message: None };
        match (player.phase(who), contenders) {
            (Some(Phase::Idle), Some(most)) if who.0 < most => {
                all.push(step(Act::Request, Command::Request(who)));
            }
            (Some(Phase::InCs), _) => all.push(step(Act::Exit, Command::Exit(who))),
            (Some(_), _) => {}
            (None, _) => all.push(step(Act::Start, Command::Start(who))),
        }
        let reports = player.unreported_to(who).into_iter();
        all.extend(reports.map(|of| step(Act::Report, Command::Report { of, to: who })));
        let timers = player.timers(who).into_iter();
        all.extend(timers.map(|timer| step(Act::Timeout, Command::Timeout(who, timer))));
    }
    all
}

fn crashes(player: &dyn Player) -> Vec<Possible> {
    let step = |who| {
        let (act, command) = if player.is_up(who) {
            (Act::Crash, Command::Crash(who))
        } else {
            (Act::Restart, Command::Restart(who))
        };
        Possible { act, command, from: who, message: None }
    };
    processes(player).map(step).collect()
}

fn moves(player: &dyn Player) -> Vec<Possible> {
    let step = |command, from| Possible { act: Act::Move, command, from, message: None };
    let privileged: Vec<_> =
        player.ring().map(|ring| ring.privileged().collect()).unwrap_or_default();
    let mut all: Vec<_> =
        privileged.iter().map(|&who| step(Command::Move(vec![who]), who)).collect();
    if let [first, _, ..] = privileged.as_slice() {
        all.push(step(Command::MoveAll, *first));
    }
    all
}

fn processes(player: &dyn Player) -> impl Iterator<Item = NodeId> + use<> {
    (0..player.header().processes.len()).map(NodeId::from)
}
