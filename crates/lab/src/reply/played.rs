//! A script that was played: its positions, its picture, and what can happen next.

use mutua_algorithms::{Structure as Needs, registry};
use serde::Serialize;

use super::{
    bounds::{self, MOST_PROCESSES, Refused},
    choices::{Choice, choices},
    position::{Step, Walk},
};
use crate::{
    Event, Header, Script, diagram,
    script::{self, Player},
};

/// A script and all its positions.
#[derive(Clone, Debug, Serialize)]
pub struct Played {
    /// The version of the program.
    pub version: &'static str,
    /// The script's name; empty for one of the visitor's.
    pub name: String,
    /// Where the example is printed.
    pub source: String,
    /// What a reader learns from it.
    pub shows: String,
    /// The algorithm's name.
    pub algorithm: String,
    /// The algorithm's name as people write it.
    pub title: &'static str,
    /// The names of the processes.
    pub processes: Vec<String>,
    /// The structure that the processes are drawn on.
    pub structure: Structure,
    /// Whether links keep the order of messages.
    pub fifo: bool,
    /// The lines before the first step.
    pub head: String,
    /// The start and all steps.
    pub steps: Vec<Step>,
    /// The comments after the last step.
    pub after: Vec<String>,
    /// What can happen after the last step.
    pub choices: Vec<Choice>,
    /// The space-time diagram.
    pub diagram: Diagram,
    /// A number over all events: equal scripts of equal versions have the same.
    pub hash: String,
    /// Lines that could not be taken and were left out.
    pub left_out: Vec<String>,
    /// Of traces of nodes, the time of each step in nanoseconds; else empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub times: Vec<u64>,
}

/// A goal of the visitor: a violation, and the length of the shortest way to it.
#[derive(Clone, Debug, Serialize)]
pub struct Goal {
    /// The property, as the checker names it.
    pub property: String,
    /// The steps of a shortest counterexample; none if the property holds.
    pub steps: Option<usize>,
    /// Whether the search was complete.
    pub decided: bool,
    /// How many states were searched.
    pub states: u64,
    /// How often each process requested in the search.
    pub entries: u32,
}

/// The structure on which processes are drawn.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Structure {
    /// Every process sends to every other.
    Complete,
    /// A ring in the order of the processes.
    Ring,
    /// A tree with these edges.
    Tree {
        /// Pairs of processes.
        edges: Vec<(usize, usize)>,
    },
    /// A quorum for each process.
    Quorums {
        /// The members of each process's quorum.
        of: Vec<Vec<usize>>,
        /// The length of a row, if the quorums are rows and columns of a grid.
        columns: Option<usize>,
    },
}

/// A space-time diagram and the positions in it.
#[derive(Clone, Debug, Serialize)]
pub struct Diagram {
    /// The picture; of a long run, its beginning.
    pub svg: String,
    /// The column of each step: step and x.
    pub columns: Vec<(u64, f64)>,
    /// The messages in the picture.
    pub arrows: Vec<Arrow>,
    /// The kinds of messages in the order of their colours.
    pub kinds: Vec<String>,
}

/// A message in the picture.
#[derive(Clone, Debug, Serialize)]
pub struct Arrow {
    /// The sender.
    pub from: usize,
    /// The receiver.
    pub to: usize,
    /// The step that sent it.
    pub sent: u64,
    /// The step that received or lost it.
    pub end: Option<u64>,
}

/// Plays a text.
pub(super) fn play(name: &str, text: &str) -> Result<Played, Refused> {
    let script = bounds::script(name, text)?;
    play_script(&script)
}

/// Plays a script to its end.
pub(super) fn play_script(script: &Script) -> Result<Played, Refused> {
    let mut walk = begin(script)?;
    for line in &script.lines {
        walk.take(script, line)?;
    }
    Ok(finish(script, walk, Vec::new()))
}

/// A script at its start.
pub(super) fn begin(script: &Script) -> Result<Walk, Refused> {
    let processes = script.system.names_of_all().len();
    if processes > MOST_PROCESSES {
        return Err(Refused::Processes(processes));
    }
    Ok(Walk::new(script::build(&script.system, &script.name)?))
}

/// The script as it was played.
pub(super) fn finish(script: &Script, mut walk: Walk, left_out: Vec<String>) -> Played {
    let after = walk.last_comments();
    let player = walk.player.as_ref();
    let about = registry::about(&script.system.algorithm);
    Played {
        version: env!("CARGO_PKG_VERSION"),
        name: script.name.clone(),
        source: script.source.clone(),
        shows: script.shows.clone(),
        algorithm: script.system.algorithm.clone(),
        title: about.map_or("", |about| about.title),
        processes: script.system.names_of_all(),
        structure: structure(script, player),
        fifo: script.system.links() == mutua_algorithms::Links::Fifo,
        head: script.system.text(),
        choices: choices(script, player),
        diagram: draw(player.header(), player.events()),
        hash: hash(player.events()),
        steps: walk.steps,
        after,
        left_out,
        times: Vec::new(),
    }
}

pub(super) fn draw(header: &Header, events: &[Event]) -> Diagram {
    let linked = diagram::linked(header, events);
    let arrows = linked.arrows.iter().map(|link| Arrow {
        from: link.from,
        to: link.to,
        sent: link.sent,
        end: link.end,
    });
    let (svg, columns, kinds) = (linked.svg, linked.columns, linked.kinds);
    Diagram { arrows: arrows.collect(), svg, columns, kinds }
}

fn structure(script: &Script, player: &dyn Player) -> Structure {
    let Some(about) = registry::about(&script.system.algorithm) else { return Structure::Complete };
    if !script.system.sections.is_empty() {
        return Structure::Complete;
    }
    let start = player.start_of_all();
    match (about.structure, start) {
        (Needs::Ring, _) => Structure::Ring,
        (Needs::Tree, Some(start)) => {
            let tree = start.tree();
            let edges = start.all().flat_map(|a| {
                let higher = tree.neighbours(a).filter(move |&b| a < b);
                higher.map(move |b| (a.index(), b.index()))
            });
            Structure::Tree { edges: edges.collect() }
        }
        (Needs::Quorums, Some(start)) => {
            let quorums = start.quorums();
            let of = start.all().map(|node| quorums.of(node).iter().map(|m| m.index()).collect());
            let is_grid = script.system.setup.quorums == mutua_algorithms::QuorumKind::Grid;
            let side = (start.processes() as usize).isqrt();
            let is_square = side * side == start.processes() as usize;
            let side = if is_square { side } else { side + 1 };
            Structure::Quorums { of: of.collect(), columns: is_grid.then_some(side) }
        }
        _ => Structure::Complete,
    }
}

/// FNV-1a over the events as a trace file has them.
pub(super) fn hash(events: &[Event]) -> String {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for event in events {
        for byte in serde_json::to_string(event).unwrap_or_default().bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    format!("{hash:016x}")
}
