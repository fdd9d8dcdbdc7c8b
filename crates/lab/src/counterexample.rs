//! A counterexample of the checker as a script, which replays it on the real machines.

use mutua_algorithms::NodeId;
use mutua_checker::{CheckError, Event, Happening, Message, Task, Trail, What, name_of};

use crate::{
    Script, Which,
    script::{
        Command, Expectation, Failure, Item, Line, Moment, Outcome, Played, Repair, RepairKind,
        System, Unexpected,
    },
};

/// A counterexample as a script and as it was played.
#[derive(Clone, Debug)]
pub struct Scripted {
    /// The script; it expects the violation, so that it plays without a failure.
    pub script: Script,
    /// The result of playing it: its trace can be drawn.
    pub played: Played,
}

/// The script of a run of this system that violates `property`.
pub fn script(task: &Task, property: &str, trail: &Trail) -> Result<Scripted, CheckError> {
    let system = head(task, trail)?;
    let name = format!("{} {property}", task.name);
    let mut items = Vec::new();
    for (place, step) in trail.steps.iter().enumerate() {
        if trail.cycle == Some(place) {
            items.push(Item::Comment("From here on it repeats for ever.".to_owned()));
        }
        items.push(command(step));
    }
    if property == "deadlock-free" {
        items.push(Item::Expect(Expectation::Deadlock(true)));
    }
    let mut script = Script::new(&name, system, items);
    script.shows = format!("{property} is violated: {}", task.words());
    // Other violations on the way become expectations too, after a first run has shown them.
    let seen = script.play()?;
    let expected: Vec<_> = seen.moments.iter().filter_map(expectation_of).collect();
    let lines = expected.into_iter().map(Item::Expect);
    let lines = lines.map(|item| Line { number: 0, item });
    script.lines.extend(lines);
    let played = script.play()?;
    Ok(Scripted { script, played })
}

fn head(task: &Task, trail: &Trail) -> Result<System, CheckError> {
    let processes = task.processes()?;
    let mut head = System::new(&task.name, (0..processes).map(NodeId::from).map(name_of).collect());
    head.setup = task.system.setup.clone();
    head.links = task.system.links;
    head.flags = trail.flags.clone();
    head.repair = task.system.repair.map(|repair| Repair {
        kind: match (repair.special, repair.without_views) {
            (_, true) => RepairKind::WithoutViews,
            (true, false) => RepairKind::Special,
            (false, false) => RepairKind::Generic,
        },
        election: repair.election,
    });
    Ok(head)
}

fn expectation_of(moment: &Moment) -> Option<Expectation> {
    let Outcome::Failed(Failure::Unexpected(unexpected)) = &moment.outcome else { return None };
    Some(match unexpected {
        Unexpected::Violation { property, .. } => Expectation::Violated(property.clone(), true),
        Unexpected::Nonsense { .. } => Expectation::Nonsense,
    })
}

/// The step as a command.
fn command(step: &Happening) -> Item {
    let at = step.at;
    let which = |message: &Message| Which { kind: Some(message.kind.to_owned()), nth: message.nth };
    Item::Command(match &step.what {
        What::Event(Event::Report(of, _)) => Command::Report { of: *of, to: at },
        What::Event(Event::Request) => Command::Request(at),
        What::Event(Event::Release) => Command::Exit(at),
        What::Event(Event::Start) => Command::Start(at),
        What::Event(Event::Timeout(timer)) => Command::Timeout(at, *timer),
        What::Event(Event::Crash) => Command::Crash(at),
        What::Event(Event::Restart) => Command::Restart(at),
        What::Event(Event::AppSend(to)) => Command::AppSend(at, *to),
        What::Move(movers) => Command::Move(movers.clone()),
        What::Deliver(message) => {
            Command::Deliver { from: message.from, to: at, which: which(message) }
        }
        What::Duplicate(message) => {
            Command::Duplicate { from: message.from, to: at, which: which(message) }
        }
        What::Lose(message) => Command::Lose { from: message.from, to: at, which: which(message) },
    })
}
