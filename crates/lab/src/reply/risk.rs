//! Whether a property can still be violated from the present state: a bounded search on the real
//! state machines, breadth first.

use std::collections::{BTreeMap, VecDeque};

use serde::Serialize;

use super::{
    bounds::{self, Refused},
    choices::{Act, possible},
    played,
};
use crate::script::{Command, Player};
use mutua_algorithms::{NodeId, Phase};

/// The most states of a search; a click has to be answered at once.
const MOST_STATES: usize = 3_000;

/// The answer, and how it was found.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Risk {
    /// The answer.
    pub level: RiskLevel,
    /// The answer as a sentence.
    pub sentence: String,
    /// The steps to the nearest violation or deadlock.
    pub nearest: Option<usize>,
    /// How many states were searched.
    pub states: usize,
}

/// Whether a property can still be violated.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RiskLevel {
    /// In no continuation.
    No,
    /// In some continuations, and not in others.
    Yes,
    /// In every continuation.
    Certainly,
    /// The search ended at its limit without an answer.
    Unknown,
}

/// The risk at the end of a script. Clients request as often as the busiest one has so far, at
/// least once; there are no further faults.
pub(super) fn risk(text: &str) -> Result<Risk, Refused> {
    let script = bounds::script("", text)?;
    let mut walk = played::begin(&script)?;
    let mut requests = vec![0_u32; script.system.names_of_all().len()];
    for line in &script.lines {
        walk.take(&script, line)?;
    }
    for line in &walk.commands {
        if let crate::script::Item::Command(Command::Request(who)) = &line.item {
            requests[who.index()] += 1;
        }
    }
    let mut player = walk.player;
    if player.fingerprint().is_none() {
        return Err(Refused::Unsuited(
            "the search from the present state covers mutual exclusion by messages only".to_owned(),
        ));
    }
    player.drop_trace();
    let most = requests.iter().copied().max().unwrap_or(0).max(1);
    let left = requests.iter().map(|made| most - made).collect();
    Ok(Search::new(Node { player, left, depth: 0 }).run())
}

/// A state of the search.
struct Node {
    player: Box<dyn Player>,
    /// How often each process may still request.
    left: Vec<u32>,
    depth: usize,
}

/// The states so far and how they hang together.
struct Search {
    known: BTreeMap<(u128, Vec<u32>), usize>,
    frontier: VecDeque<(usize, Node)>,
    /// Whether each state is bad, a possible end, or neither.
    ends: Vec<End>,
    successors: Vec<Vec<usize>>,
    nearest: Option<usize>,
}

#[derive(Clone, Copy, Eq, PartialEq)]
enum End {
    /// Mutual exclusion is violated, or the system is deadlocked.
    Bad,
    /// A run can stop here: nothing is in flight, and no client waits or has to exit.
    Rest,
    /// Something must happen.
    No,
}

impl Search {
    fn new(start: Node) -> Self {
        let mut search = Self {
            known: BTreeMap::new(),
            frontier: VecDeque::new(),
            ends: Vec::new(),
            successors: Vec::new(),
            nearest: None,
        };
        search.meet(start);
        search
    }

    fn run(mut self) -> Risk {
        while let Some((index, node)) = self.frontier.pop_front() {
            if self.ends.len() > MOST_STATES {
                return self.limited();
            }
            for next in successors(&node) {
                let next = self.meet(next);
                self.successors[index].push(next);
            }
        }
        let level = match (self.nearest, self.is_certain()) {
            (None, _) => RiskLevel::No,
            (Some(_), true) => RiskLevel::Certainly,
            (Some(_), false) => RiskLevel::Yes,
        };
        self.risk(level)
    }

    /// The number of a state, which is looked at later if it is new and not bad.
    fn meet(&mut self, node: Node) -> usize {
        let fingerprint = node.player.fingerprint().unwrap_or_default();
        let next = self.ends.len();
        let index = *self.known.entry((fingerprint, node.left.clone())).or_insert(next);
        if index == next {
            let end = end_of(&node);
            self.ends.push(end);
            self.successors.push(Vec::new());
            match end {
                End::Bad => self.nearest = self.nearest.or(Some(node.depth)),
                End::Rest | End::No => self.frontier.push_back((index, node)),
            }
        }
        index
    }

    /// Whether every run from the start comes to a bad state: the least set of states that
    /// contains the bad ones, and each state that must go on and can go nowhere else.
    fn is_certain(&self) -> bool {
        let mut certain: Vec<_> = self.ends.iter().map(|&end| end == End::Bad).collect();
        loop {
            let mut changed = false;
            for index in (0..certain.len()).rev() {
                let next = &self.successors[index];
                let caught = self.ends[index] == End::No
                    && !next.is_empty()
                    && next.iter().all(|&next| certain[next]);
                if caught && !certain[index] {
                    certain[index] = true;
                    changed = true;
                }
            }
            if !changed {
                return certain[0];
            }
        }
    }

    /// The answer at the limit: a violation that was met is one all the same.
    fn limited(self) -> Risk {
        let level = if self.nearest.is_some() { RiskLevel::Yes } else { RiskLevel::Unknown };
        self.risk(level)
    }

    fn risk(self, level: RiskLevel) -> Risk {
        let states = self.ends.len();
        let steps = self.nearest.map_or_else(String::new, |steps| match steps {
            0 => "it has".to_owned(),
            1 => "in 1 step".to_owned(),
            steps => format!("in {steps} steps at the earliest"),
        });
        let sentence = match level {
            RiskLevel::No => format!("No: {states} states can follow, and all are fine."),
            RiskLevel::Yes => format!("Yes, {steps}; other runs end well."),
            RiskLevel::Certainly if self.nearest == Some(0) => "It has gone wrong.".to_owned(),
            RiskLevel::Certainly => format!("Certainly: every run goes wrong, {steps}."),
            RiskLevel::Unknown => {
                format!("Unknown: of {MOST_STATES} states that can follow, none is wrong so far.")
            }
        };
        let sentence = if level == RiskLevel::Yes && states > MOST_STATES {
            format!("Yes, {steps}.")
        } else {
            sentence
        };
        Risk { level, sentence, nearest: self.nearest, states }
    }
}

fn end_of(node: &Node) -> End {
    let player = node.player.as_ref();
    let phases = (0..node.left.len()).filter_map(|who| player.phase(NodeId::from(who)));
    let (mut in_cs, mut waiting) = (0, 0);
    for phase in phases {
        match phase {
            Phase::Idle => {}
            Phase::Requesting => waiting += 1,
            Phase::InCs => in_cs += 1,
        }
    }
    let only_lazy = (0..player.in_flight().len()).all(|index| player.is_lazy(index));
    if in_cs > 1 || player.is_stuck() {
        End::Bad
    } else if in_cs == 0 && waiting == 0 && only_lazy {
        End::Rest
    } else {
        End::No
    }
}

/// The states that one step leads to.
fn successors(node: &Node) -> Vec<Node> {
    let mut all = Vec::new();
    for step in possible(node.player.as_ref()) {
        let mut left = node.left.clone();
        match (step.act, left[step.from.index()]) {
            (Act::Request, 0) => continue,
            (Act::Request, _) => left[step.from.index()] -= 1,
            (act, _) if act.is_fault() => continue,
            _ => {}
        }
        let mut player = node.player.copy();
        if player.act(&step.command).is_ok() {
            all.push(Node { player, left, depth: node.depth + 1 });
        }
    }
    all
}
