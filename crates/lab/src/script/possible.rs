//! The steps that can be taken in a state: each is tried on a copy of the system.

use std::collections::BTreeMap;

use mutua_algorithms::{NodeId, StartError};

use super::{
    Command, Failure, Outcome, Script,
    names::Names,
    play::play_line,
    players::{self, Player},
};
use crate::Which;

impl Script {
    /// The steps that can be taken after the last line, as lines of a script; if a step of the
    /// script cannot be taken, those that could be taken instead. Left out is what is possible
    /// almost always: losses, duplicates, messages of the application, and clocks.
    pub fn possible(&self) -> Result<Vec<String>, StartError> {
        let mut player = players::build(&self.system, &self.name)?;
        for line in &self.lines {
            let outcome = play_line(player.as_mut(), line);
            if matches!(outcome, Outcome::Failed(Failure::Refused(_))) {
                break;
            }
        }
        let names = self.system.names_of_all();
        let names = Names(&names);
        let possible = candidates(player.as_ref()).into_iter();
        let possible = possible.filter(|command| player.copy().act(command).is_ok());
        Ok(possible.map(|command| command.text(names)).collect())
    }
}

/// The steps to try.
fn candidates(player: &dyn Player) -> Vec<Command> {
    let all = || (0..player.header().processes.len()).map(NodeId::from);
    let mut candidates: Vec<_> = all().map(Command::Request).collect();
    candidates.extend(all().map(Command::Exit));
    candidates.extend(all().map(Command::Start));
    candidates.extend(deliveries(player));
    for who in all() {
        candidates.extend(player.timers(who).into_iter().map(|timer| Command::Timeout(who, timer)));
    }
    candidates.extend(all().map(|who| Command::Move(vec![who])));
    candidates.push(Command::MoveAll);
    candidates.extend(all().map(Command::Crash));
    candidates.extend(all().map(Command::Restart));
    candidates
}

/// The delivery of each message in flight.
fn deliveries(player: &dyn Player) -> Vec<Command> {
    let mut counts: BTreeMap<(NodeId, NodeId, &str), usize> = BTreeMap::new();
    let in_flight = player.in_flight().into_iter();
    let deliveries = in_flight.map(|(from, to, message)| {
        let nth = counts.entry((from, to, message.kind.as_ref())).or_default();
        *nth += 1;
        Command::Deliver {
            from,
            to,
            which: Which { kind: Some(message.kind.to_string()), nth: *nth },
        }
    });
    deliveries.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn possible(text: &str) -> Vec<String> {
        Script::parse("possible", text).expect("a script").possible().expect("a system")
    }

    #[test]
    fn what_can_happen_next_follows_the_state() {
        let head = "algorithm lamport\nprocesses A B\nA requests\n";
        let next = possible(head);
        // B may request; A may not again.
        assert_eq!(next, ["B requests", "deliver request A -> B", "crash A", "crash B"]);
        let inside = possible(&format!("{head}deliver all\ncrash B\n"));
        assert_eq!(inside, ["A exits", "crash A", "restart B"]);
    }

    #[test]
    fn links_that_keep_order_deliver_the_first_message_only() {
        let steps = "B requests\nA requests\ndeliver request B -> A\n";
        let fifo = possible(&format!("algorithm lamport\nprocesses A B\n{steps}"));
        let any = possible(&format!("algorithm lamport\nprocesses A B\nlinks any\n{steps}"));
        let from_a = |steps: &[String]| steps.iter().filter(|step| step.contains("A -> B")).count();
        assert_eq!((from_a(&fifo), from_a(&any)), (1, 2), "{fifo:?} {any:?}");
    }

    #[test]
    fn elections_and_rings_have_their_own_steps() {
        let bully = possible("algorithm bully\nprocesses A B\nA starts\n");
        assert!(bully.contains(&"timeout A answer".to_owned()), "{bully:?}");
        let ring = "algorithm dijkstra\nprocesses A B C\nwith daemon=central\nflags 0 0 0\n";
        assert_eq!(possible(ring), ["move A", "move all"]);
    }
}
