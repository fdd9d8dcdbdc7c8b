//! A counterexample in words: the names of its processes, files and steps.

use mutua_algorithms::{
    Claim, Kind, Links, NodeId, Value, registry, repairs::has_special, self_stabilizing,
};

use crate::{
    actor::Event,
    check::{Task, properties},
    system::{Detector, Timers},
    trail::{Happening, Message, What},
};

/// The name of a process in scripts and step lists.
pub fn name_of(node: NodeId) -> String {
    format!("P{node}")
}

impl Task {
    /// A name for files about this property, different for different systems.
    pub fn file_name(&self, property: &str) -> String {
        let mut name = format!("{}-{}", self.name, self.system.setup.nodes);
        for (key, value) in self.system.setup.settings.iter() {
            name += &format!("-{key}-{}", value.replace(|c: char| !c.is_alphanumeric(), "-"));
        }
        match self.system.links {
            Some(Links::Fifo) => name += "-fifo",
            Some(Links::Any) => name += "-any",
            None => {}
        }
        if self.system.timers == Timers::Any {
            name += "-timers";
        }
        if let Some(repair) = self.system.repair {
            let kind = if repair.special { "special" } else { "repair" };
            name += &format!("-{kind}-{}", repair.election.name());
            if repair.without_views {
                name += "-without-views";
            }
            if repair.detector == Detector::Timeout {
                name += "-suspicions";
            }
        }
        if !self.system.faults.is_none() {
            name += "-faults";
        }
        let property = property.replace(|c: char| !c.is_alphanumeric() && c != '-', "-");
        format!("{name}-{property}")
    }

    /// The system in a few words.
    pub fn words(&self) -> String {
        let nodes = self.system.setup.nodes;
        let noun = if nodes == 1 { "process" } else { "processes" };
        let mut words = format!("{} of {nodes} {noun}", self.name);
        for (key, value) in self.system.setup.settings.iter() {
            words += &format!(", {key}={value}");
        }
        if let Some(repair) = self.system.repair {
            let kind = match repair.special {
                true if has_special(&self.name) => "special repair".to_owned(),
                true => format!("generic repair ({} has no special repair)", self.name),
                false => "generic repair".to_owned(),
            };
            words += &format!(", {kind} with {}", repair.election.name());
            if repair.without_views {
                words += ", messages without their view";
            }
            if repair.detector == Detector::Timeout {
                words += ", reports by timeouts";
            }
        }
        words
    }

    /// The scope of a verdict: contenders, entries, links, timers and faults, with their defaults.
    pub fn scope(&self) -> String {
        let system = &self.system;
        let Some(about) = registry::about(&self.name) else { return String::new() };
        if self_stabilizing::begin(about, &system.setup).is_ok_and(|ring| ring.is_some()) {
            return "every initial state".to_owned();
        }
        let mut parts = Vec::new();
        let nodes = system.setup.nodes;
        if self.processes().is_ok_and(|all| u32::try_from(all).is_ok_and(|all| all > nodes)) {
            parts.push(format!("{} a dedicated coordinator", name_of(NodeId(nodes))));
        }
        match &system.contenders {
            None => parts.push("all contend".to_owned()),
            Some(nodes) => {
                let names: Vec<_> = nodes.iter().map(|&node| name_of(node)).collect();
                parts.push(format!("contenders {}", names.join(" ")));
            }
        }
        let (one, many) = match about.kind {
            Kind::Mutex => ("entry", "entries"),
            Kind::Election => ("start", "starts"),
        };
        parts.push(format!("{} each", counted(system.entries, one, many)));
        parts.push(match system.links.unwrap_or(about.links) {
            Links::Fifo => "FIFO links".to_owned(),
            Links::Any => "links that reorder".to_owned(),
        });
        match (about.kind, system.timers) {
            (Kind::Election, Timers::Bounded) => parts.push("bounded timers".to_owned()),
            (_, Timers::Any) => parts.push("timers at any time".to_owned()),
            (Kind::Mutex, Timers::Bounded) => {}
        }
        if !system.setup.crashed.is_empty() {
            let crashed: Vec<_> = system.setup.crashed.iter().map(|&n| name_of(n)).collect();
            parts.push(format!("{} crashed from the start", crashed.join(" ")));
        }
        let faults = [
            (system.faults.crashes, "crash", "crashes"),
            (system.faults.restarts, "restart", "restarts"),
            (system.faults.losses, "loss", "losses"),
            (system.faults.duplicates, "duplicate", "duplicates"),
        ];
        for (count, one, many) in faults.into_iter().filter(|&(count, ..)| count > 0) {
            parts.push(format!("at most {}", counted(count, one, many)));
        }
        if system.faults.is_none() {
            parts.push("no faults".to_owned());
        }
        let claims = properties(self, about);
        if claims.contains(&Claim::Ordering) && system.app_messages > 0 {
            let count = counted(system.app_messages, "message", "messages");
            parts.push(format!("ordering with {count} of the application"));
        }
        parts.join(", ")
    }
}

fn counted(count: u32, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

impl Happening {
    /// The step as a sentence.
    pub fn sentence(&self) -> String {
        let at = name_of(self.at);
        let mut sentence = match &self.what {
            What::Event(Event::Request) => format!("{at} requests"),
            What::Event(Event::Release) => format!("{at} exits"),
            What::Event(Event::Start) => format!("{at} starts an election"),
            What::Event(Event::Timeout(timer)) => {
                format!("{at}: the timer `{}` runs out", timer.word())
            }
            What::Event(Event::Crash) => format!("{at} crashes"),
            What::Event(Event::Restart) => format!("{at} restarts"),
            What::Event(Event::Report(other, changes)) => {
                let news = if changes % 2 == 0 { "restarted" } else { "crashed" };
                format!("the detector reports to {at} that {} has {news}", name_of(*other))
            }
            What::Event(Event::AppSend(to)) => {
                format!("{at} sends {} a message of the application", name_of(*to))
            }
            What::Move(movers) => {
                let names: Vec<_> = movers.iter().map(|&node| name_of(node)).collect();
                match names.as_slice() {
                    [name] => format!("{name} moves"),
                    names => format!("{} move at once", names.join(", ")),
                }
            }
            What::Deliver(message) if self.down => {
                format!("{} arrives at {at}, which is down, and is lost", message.words())
            }
            What::Deliver(message) => format!("{at} receives {}", message.words()),
            What::Duplicate(message) => {
                format!("{} on its way to {at} will arrive once more", message.words())
            }
            What::Lose(message) => format!("{} on its way to {at} is lost", message.words()),
        };
        // The process is not the subject of these.
        let and = match self.what {
            What::Event(Event::Timeout(_) | Event::Report(..)) => format!("; {at}"),
            _ => " and".to_owned(),
        };
        if self.enters {
            sentence += &format!("{and} enters");
        }
        if let Some(elected) = self.elects {
            sentence += &format!("{and} takes {} for the coordinator", name_of(elected));
        }
        sentence
    }
}

impl Message {
    fn words(&self) -> String {
        let fields = self.fields.iter().filter(|(_, value)| *value != Value::None);
        let fields: Vec<_> =
            fields.map(|(name, value)| format!("{name} {}", value.render(&name_of))).collect();
        let carried =
            if fields.is_empty() { String::new() } else { format!("({})", fields.join(", ")) };
        format!("{}{carried} from {}", self.kind, name_of(self.from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn happening(what: What, down: bool) -> String {
        let variables = Vec::new();
        Happening { at: NodeId(2), what, down, enters: false, elects: None, variables }.sentence()
    }

    #[test]
    fn a_crashed_process_does_not_receive() {
        let message = || Message { from: NodeId(0), kind: "REPLY", fields: Vec::new(), nth: 1 };
        assert_eq!(happening(What::Deliver(message()), false), "P2 receives REPLY from P0");
        let lost = "REPLY from P0 arrives at P2, which is down, and is lost";
        assert_eq!(happening(What::Deliver(message()), true), lost);
    }

    #[test]
    fn a_process_that_enters_is_the_subject() {
        let enters = |what| {
            let (down, variables) = (false, Vec::new());
            Happening { at: NodeId(2), what, down, enters: true, elects: None, variables }
                .sentence()
        };
        assert_eq!(enters(What::Event(Event::Request)), "P2 requests and enters");
        let report = "the detector reports to P2 that P1 has crashed; P2 enters";
        assert_eq!(enters(What::Event(Event::Report(NodeId(1), 1))), report);
    }

    #[test]
    fn one_process_moves_and_several_move_at_once() {
        assert_eq!(happening(What::Move(vec![NodeId(2)]), false), "P2 moves");
        let both = What::Move(vec![NodeId(1), NodeId(2)]);
        assert_eq!(happening(both, false), "P1, P2 move at once");
    }
}
