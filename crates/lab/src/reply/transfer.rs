//! The same schedule under another algorithm.

use mutua_algorithms::registry;

use super::{
    bounds::{self, Refused},
    played::{self, Played},
};
use crate::{
    Which,
    script::{Command, Item, Line, System},
};

/// Plays the steps of a script with another algorithm. A delivery takes the first message of its
/// link, since kinds differ; a step that cannot be taken there is left out. At the end everything
/// in flight is delivered.
pub(super) fn under(text: &str, algorithm: &str) -> Result<Played, Refused> {
    let mut script = bounds::script("", text)?;
    if registry::about(algorithm).is_none() {
        return Err(Refused::Unknown { what: "algorithm", name: algorithm.to_owned() });
    }
    let mut system = System::new(algorithm, script.system.processes.clone());
    system.sections = script.system.sections.clone();
    let setup = &script.system.setup;
    system.setup.topology = setup.topology.clone();
    system.setup.quorums = setup.quorums;
    system.setup.holder = setup.holder;
    system.links = script.system.links;
    script.system = system;
    let mut walk = played::begin(&script)?;
    let mut left_out = Vec::new();
    for line in script.lines.clone() {
        let line = on_any_kind(line);
        match walk.take(&script, &line) {
            Ok(()) => {}
            Err(Refused::Step { line, .. }) => left_out.push(line),
            Err(other) => return Err(other),
        }
    }
    walk.take(&script, &Line { number: 0, item: Item::Command(Command::DeliverAll) })?;
    Ok(played::finish(&script, walk, left_out))
}

fn on_any_kind(mut line: Line) -> Line {
    if let Item::Command(Command::Deliver { which, .. }) = &mut line.item {
        *which = Which::first();
    }
    line
}
