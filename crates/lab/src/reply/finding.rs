//! Deadlocks and violations of a step, explained: which process waits for which.

use mutua_algorithms::{NodeId, Value};
use serde::Serialize;

use super::position::Step;
use crate::{Event, Header, What, script::Player};

/// A violation or a deadlock that a step caused.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// Its kind.
    pub problem: Problem,
    /// It in one sentence or two.
    pub sentence: String,
    /// The processes that wait for each other in a circle, if some do.
    pub cycle: Vec<Wait>,
}

/// The kinds of findings.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Problem {
    /// A process waits, none is in the critical section, and nothing is in flight.
    Deadlock,
    /// Two processes are in the critical section.
    MutualExclusion,
    /// Another property is violated.
    Property,
    /// A receiver reported a message as invalid.
    Invalid,
}

/// One edge of a circle of waiting processes.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Wait {
    /// The process that waits, or the voter.
    pub from: usize,
    /// The process that it waits for, or has voted for.
    pub to: usize,
    /// Why one waits for the other.
    pub why: Why,
}

/// Why one process waits for another.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Why {
    /// It waits for a message of the other.
    WaitsFor,
    /// It needs the vote of the other.
    NeedsVoteOf,
    /// It has voted for the other.
    HasVotedFor,
}

/// The variable in which a voter keeps the process that it has voted for, in every quorum
/// algorithm here.
const VOTE: &str = "candidate";

/// The finding after these events, if there is a new one.
pub(super) fn finding(
    player: &dyn Player,
    events: &[Event],
    before: Option<&Step>,
) -> Option<Finding> {
    let header = player.header();
    if let Some(finding) = events.iter().find_map(|event| violation(header, event)) {
        return Some(finding);
    }
    // A deadlock stays; it is reported again at each step, so that every later state shows it.
    let was_started = before.is_some();
    (was_started && player.is_stuck()).then(|| deadlock(player))
}

fn violation(header: &Header, event: &Event) -> Option<Finding> {
    let name = header.name(event.who);
    let (problem, sentence) = match &event.what {
        What::Violation { property, why } if property == "mutual-exclusion" => (
            Problem::MutualExclusion,
            format!("Mutual exclusion is violated: {name} enters, and {why}."),
        ),
        What::Violation { property, why } => {
            (Problem::Property, format!("Violated at {name}: {property}, since {why}."))
        }
        What::Nonsense { from, why } => {
            let from = header.name(*from);
            (Problem::Invalid, format!("{name} ignores an invalid message of {from}: {why}."))
        }
        _ => return None,
    };
    Some(Finding { problem, sentence, cycle: Vec::new() })
}

fn deadlock(player: &dyn Player) -> Finding {
    let cycle = cycle(player);
    let header = player.header();
    let who = explained(header, &cycle).unwrap_or_else(|| waiting(player));
    let sentence = format!("Deadlock: {who}. Nothing is in flight, so nothing will ever change.");
    Finding { problem: Problem::Deadlock, sentence, cycle }
}

/// The waiting processes, where no circle explains why they wait.
fn waiting(player: &dyn Player) -> String {
    let header = player.header();
    let all = (0..header.processes.len()).map(NodeId::from);
    let waits = all.filter(|&who| player.is_up(who) && !player.waits_for(who).is_empty());
    let waits = waits.map(|who| {
        let whom: Vec<_> = player.waits_for(who).iter().map(|&to| header.name(to)).collect();
        format!("{} waits for {}", header.name(who), whom.join(", "))
    });
    waits.collect::<Vec<_>>().join("; ")
}

/// A circle in words, as in: P0 needs P2's vote, which P3 has; P3 needs P1's vote, which P0 has.
fn explained(header: &Header, cycle: &[Wait]) -> Option<String> {
    let name = |who: usize| header.name(NodeId::from(who));
    let mut parts = Vec::new();
    let mut edges = cycle.iter().peekable();
    while let Some(edge) = edges.next() {
        let (from, to) = (name(edge.from), name(edge.to));
        let taken = edges.next_if(|next| next.why == Why::HasVotedFor);
        parts.push(match (edge.why, taken) {
            (Why::NeedsVoteOf, Some(vote)) => {
                format!("{from} needs {to}'s vote, which {} has", name(vote.to))
            }
            (Why::NeedsVoteOf, None) => format!("{from} needs {to}'s vote, which {to} keeps"),
            (Why::WaitsFor | Why::HasVotedFor, _) => format!("{from} waits for {to}"),
        });
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// A shortest circle in the graph of who waits for whom, beginning with a process that waits.
fn cycle(player: &dyn Player) -> Vec<Wait> {
    let processes = player.header().processes.len();
    let starts = (0..processes).filter(|&who| !waits_of(player, who).is_empty());
    starts
        .filter_map(|start| way_back(player, start, processes))
        .min_by_key(Vec::len)
        .unwrap_or_default()
}

/// The edges from a process: what it waits for, or, if it only votes, for whom it has voted.
fn waits_of(player: &dyn Player, who: usize) -> Vec<Wait> {
    let node = NodeId::from(who);
    if !player.is_up(node) {
        return Vec::new();
    }
    let waits = player.waits_for(node).into_iter().filter(|to| to.index() != who);
    let votes = vote_of(player, who).is_some() || votes_anywhere(player);
    let why = if votes { Why::NeedsVoteOf } else { Why::WaitsFor };
    waits.map(|to| Wait { from: who, to: to.index(), why }).collect()
}

fn votes_anywhere(player: &dyn Player) -> bool {
    player.variables(NodeId::from(0)).iter().any(|(name, _)| *name == VOTE)
}

/// The process that has the vote of this one.
fn vote_of(player: &dyn Player, who: usize) -> Option<usize> {
    let variables = player.variables(NodeId::from(who));
    variables.into_iter().find_map(|(name, value)| match value {
        Value::Node(node) if name == VOTE => Some(node.index()),
        _ => None,
    })
}

/// A shortest way from a waiting process back to it, breadth first. A voter passes the wait on to
/// the process that has its vote.
fn way_back(player: &dyn Player, start: usize, processes: usize) -> Option<Vec<Wait>> {
    let mut come_from: Vec<Option<(usize, Vec<Wait>)>> = vec![None; processes];
    let mut frontier = vec![start];
    while !frontier.is_empty() {
        let mut next = Vec::new();
        for who in frontier {
            for edge in waits_of(player, who) {
                let (to, edges) = through_vote(player, edge);
                if to == start {
                    return Some(whole_way(&come_from, start, who, edges));
                }
                if come_from[to].is_none() && to != who {
                    come_from[to] = Some((who, edges));
                    next.push(to);
                }
            }
        }
        frontier = next;
    }
    None
}

/// The process behind a wait: the one that has the vote, if it is another than the voter.
fn through_vote(player: &dyn Player, edge: Wait) -> (usize, Vec<Wait>) {
    let voter = edge.to;
    match vote_of(player, voter) {
        Some(taken) if edge.why == Why::NeedsVoteOf && taken != voter => {
            (taken, vec![edge, Wait { from: voter, to: taken, why: Why::HasVotedFor }])
        }
        _ => (voter, vec![edge]),
    }
}

fn whole_way(
    come_from: &[Option<(usize, Vec<Wait>)>],
    start: usize,
    last: usize,
    edges: Vec<Wait>,
) -> Vec<Wait> {
    let mut parts = vec![edges];
    let mut who = last;
    while who != start {
        let Some((before, edges)) = &come_from[who] else { break };
        parts.push(edges.clone());
        who = *before;
    }
    parts.into_iter().rev().flatten().collect()
}
