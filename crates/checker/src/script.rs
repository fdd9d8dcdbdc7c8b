//! A counterexample as a script, which plays it on the real machines.

use mutua_algorithms::{Links, NodeId, StartError, Value};
use mutua_trace::{
    Script, Which,
    script::{Command, Expectation, Failure, Item, Outcome, Played, System as Head},
};

use crate::{
    actor::Event,
    check::Task,
    system::Timers,
    trail::{Happening, Message, Trail, What},
};

/// A counterexample as a script and as it was played.
#[derive(Clone, Debug)]
pub struct Scripted {
    /// The script; it expects what goes wrong, so that it plays without a failure.
    pub script: Script,
    /// The script as it was played: its trace can be drawn.
    pub played: Played,
}

/// The name of a process in scripts and step lists.
pub fn name_of(node: NodeId) -> String {
    format!("P{node}")
}

impl Task {
    /// The script of a run of this system that breaks `property`.
    pub fn script(&self, property: &str, trail: &Trail) -> Result<Scripted, StartError> {
        let system = self.head(trail)?;
        let name = format!("{} {property}", self.name);
        let mut items = Vec::new();
        for (place, step) in trail.steps.iter().enumerate() {
            if trail.cycle == Some(place) {
                items.push(Item::Comment("From here on it repeats for ever.".to_owned()));
            }
            items.push(Item::Command(command(step)));
        }
        if property == "deadlock-free" {
            items.push(Item::Expect(Expectation::Deadlock(true)));
        }
        let mut script = Script::new(&name, system, items);
        script.shows = format!("{property} does not hold: {}", self.words());
        // What else goes wrong on the way is expected too, once it has been seen.
        let seen = script.play()?;
        let expected: Vec<_> = seen.moments.iter().filter_map(expectation_of).collect();
        let lines = expected.into_iter().map(Item::Expect);
        let lines = lines.map(|item| mutua_trace::script::Line { number: 0, item });
        script.lines.extend(lines);
        let played = script.play()?;
        Ok(Scripted { script, played })
    }

    fn head(&self, trail: &Trail) -> Result<Head, StartError> {
        let processes = self.processes()?;
        let mut head =
            Head::new(&self.name, (0..processes).map(NodeId::from).map(name_of).collect());
        head.setup = self.system.setup.clone();
        head.links = self.system.links;
        head.flags = trail.flags.clone();
        Ok(head)
    }

    /// A name for files about this property that tells one system from another.
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
        if !self.system.faults.is_none() {
            name += "-faults";
        }
        format!("{name}-{property}")
    }

    /// The system in a few words.
    pub fn words(&self) -> String {
        let mut words = format!("{} of {} processes", self.name, self.system.setup.nodes);
        for (key, value) in self.system.setup.settings.iter() {
            words += &format!(", {key}={value}");
        }
        words
    }
}

fn expectation_of(moment: &mutua_trace::script::Moment) -> Option<Expectation> {
    let Outcome::Failed(Failure::Unexpected { what }) = &moment.outcome else { return None };
    Some(match what.split_once(" was violated") {
        Some((property, _)) => Expectation::Violated(property.to_owned(), true),
        None => Expectation::Nonsense,
    })
}

fn command(step: &Happening) -> Command {
    let at = step.at;
    let which = |message: &Message| Which { kind: Some(message.kind.to_owned()), nth: message.nth };
    match &step.what {
        What::Event(Event::Request) => Command::Request(at),
        What::Event(Event::Release) => Command::Exit(at),
        What::Event(Event::Start) => Command::Start(at),
        What::Event(Event::Timeout(timer)) => Command::Timeout(at, *timer),
        What::Event(Event::Crash) => Command::Crash(at),
        What::Event(Event::Restart) => Command::Restart(at),
        What::Event(Event::Tell(to)) => Command::Tell(at, *to),
        What::Move(movers) => Command::Move(movers.clone()),
        What::Deliver(message) => {
            Command::Deliver { from: message.from, to: at, which: which(message) }
        }
        What::Duplicate(message) => {
            Command::Duplicate { from: message.from, to: at, which: which(message) }
        }
        What::Lose(message) => Command::Lose { from: message.from, to: at, which: which(message) },
    }
}

impl Happening {
    /// The step as a sentence.
    pub fn sentence(&self) -> String {
        let at = name_of(self.at);
        let mut sentence = match &self.what {
            What::Event(Event::Request) => format!("{at} requests"),
            What::Event(Event::Release) => format!("{at} leaves"),
            What::Event(Event::Start) => format!("{at} starts an election"),
            What::Event(Event::Timeout(timer)) => {
                format!("{at}: the timer `{}` runs out", timer.word())
            }
            What::Event(Event::Crash) => format!("{at} crashes"),
            What::Event(Event::Restart) => format!("{at} is back"),
            What::Event(Event::Tell(to)) => format!("{at} tells {} something", name_of(*to)),
            What::Move(movers) => {
                let movers: Vec<_> = movers.iter().map(|&node| name_of(node)).collect();
                format!("{} move at once", movers.join(", "))
            }
            What::Deliver(message) => format!("{at} receives {}", message.words()),
            What::Duplicate(message) => {
                format!("{} on its way to {at} will arrive once more", message.words())
            }
            What::Lose(message) => format!("{} on its way to {at} is lost", message.words()),
        };
        if self.enters {
            sentence += " and enters";
        }
        if let Some(elected) = self.elects {
            sentence += &format!(" and takes {} for the coordinator", name_of(elected));
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
