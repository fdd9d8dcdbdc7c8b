//! Deadlocks in a sentence: who waits for whom, and what was lost.

use mutua_algorithms::{NodeId, Phase, Value};

use super::{lost::losses, players::Player};
use crate::diagram::Deadlock;

/// Why no process of this system can go on; none if one can.
pub(super) fn explain(player: &dyn Player) -> Option<Deadlock> {
    if !player.is_deadlocked() {
        return None;
    }
    let all = (0..player.header().processes.len()).map(NodeId::from);
    let waiting: Vec<_> = all.filter(|&who| waits(player, who)).collect();
    let graph = Graph { player, waiting: &waiting };
    let mut losses = losses(player.header(), player.events());
    let reason = graph.cycle().unwrap_or_else(|| match graph.down() {
        Some(down) => {
            // The crash is the reason that messages to the process were lost.
            losses.messages.clear();
            down
        }
        None => graph.all(),
    });
    let losses = losses.words();
    Some(Deadlock { sentence: format!("deadlock: {reason}{losses}"), waiting })
}

fn waits(player: &dyn Player, who: NodeId) -> bool {
    player.is_up(who) && player.phase(who) == Some(Phase::Requesting)
}

/// One process waits for another: for its message, or, through a third one, for what that has
/// granted it.
#[derive(Clone, Copy, Debug)]
struct Wait {
    who: NodeId,
    whom: NodeId,
    /// The process whose message is waited for, if that is another one.
    at: Option<NodeId>,
}

struct Graph<'a> {
    player: &'a dyn Player,
    waiting: &'a [NodeId],
}

impl Graph<'_> {
    /// For whom a process waits. A process that does not itself wait for a message, such as a
    /// voter, has granted another one what it is asked for: its variables name it.
    fn of(&self, who: NodeId) -> Vec<Wait> {
        let asked = self.player.waits_for(who).into_iter().filter(|&asked| asked != who);
        let waits = asked.map(|asked| match self.granted(asked, who) {
            Some(whom) => Wait { who, whom, at: Some(asked) },
            None => Wait { who, whom: asked, at: None },
        });
        waits.collect()
    }

    /// The process to which this one has granted something, as its variables show: one that waits,
    /// else one that has crashed.
    fn granted(&self, asked: NodeId, who: NodeId) -> Option<NodeId> {
        let named = self.player.variables(asked).into_iter().filter_map(|(_, value)| match value {
            Value::Node(node) => Some(node),
            Value::Stamp(stamp) => Some(stamp.node),
            Value::None
            | Value::Flag(_)
            | Value::Number(_)
            | Value::Time(_)
            | Value::Word(_)
            | Value::List(_) => None,
        });
        let others: Vec<_> = named.filter(|node| *node != who && *node != asked).collect();
        let waiting = others.iter().find(|node| self.waiting.contains(node));
        let found = waiting.or_else(|| others.iter().find(|node| !self.player.is_up(**node)));
        found.copied().filter(|_| self.player.is_up(asked))
    }

    /// The shortest cycle of processes that wait for each other.
    fn cycle(&self) -> Option<String> {
        let found = self.waiting.iter().filter_map(|&first| self.path_back(first));
        let shortest = found.min_by_key(Vec::len)?;
        Some(self.chain(&shortest))
    }

    /// The shortest way from a process along those it waits for back to itself.
    fn path_back(&self, first: NodeId) -> Option<Vec<Wait>> {
        let mut paths: Vec<Vec<Wait>> = self.of(first).into_iter().map(|wait| vec![wait]).collect();
        let mut seen = vec![first];
        while !paths.is_empty() {
            let mut longer = Vec::new();
            for path in paths {
                let end = path[path.len() - 1].whom;
                if end == first {
                    return Some(path);
                }
                if seen.contains(&end) || !self.waiting.contains(&end) {
                    continue;
                }
                seen.push(end);
                longer.extend(
                    self.of(end).into_iter().map(|wait| [path.clone(), vec![wait]].concat()),
                );
            }
            paths = longer;
        }
        None
    }

    /// A process that waits for one that has crashed: for its message, or for what it was granted.
    fn down(&self) -> Option<String> {
        let waits: Vec<_> = self.waiting.iter().flat_map(|&who| self.of(who)).collect();
        let is_down = |who: NodeId| !self.player.is_up(who);
        let asked = waits.iter().find(|wait| is_down(wait.at.unwrap_or(wait.whom)));
        let wait = asked.or_else(|| waits.iter().find(|wait| is_down(wait.whom)))?;
        let down = match wait.at {
            Some(at) if is_down(at) => self.name(at),
            _ => self.target(wait),
        };
        Some(format!("{} waits for {down}, which has crashed", self.name(wait.who)))
    }

    fn all(&self) -> String {
        let waits = self.waiting.iter().map(|&who| match self.of(who).as_slice() {
            [] => format!("{} waits, and no message is in flight", self.name(who)),
            waits => {
                let whom: Vec<_> = waits.iter().map(|wait| self.target(wait)).collect();
                format!("{} waits for {}", self.name(who), whom.join(" and "))
            }
        });
        waits.collect::<Vec<_>>().join("; ")
    }

    /// `1 waits for 2, which waits for 1`.
    fn chain(&self, waits: &[Wait]) -> String {
        let first = waits.first().map_or_else(String::new, |wait| self.name(wait.who));
        let rest: Vec<_> =
            waits.iter().map(|wait| format!("waits for {}", self.target(wait))).collect();
        format!("{first} {}", rest.join(", which "))
    }

    fn target(&self, wait: &Wait) -> String {
        let whom = self.name(wait.whom);
        match wait.at {
            Some(at) => format!("{whom} (at {})", self.name(at)),
            None => whom,
        }
    }

    fn name(&self, who: NodeId) -> String {
        self.player.header().name(who)
    }
}
