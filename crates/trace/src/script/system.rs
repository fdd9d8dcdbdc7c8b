//! The head of a script: which system is played.

use mutua_algorithms::{Links, NodeId, SetsOf, Setup, Start, StartError, Topology, registry};

use super::names::{Names, parse_flags, parse_name};

/// The system that a script plays: an algorithm, who takes part, how it starts.
#[derive(Clone, Debug)]
pub struct System {
    /// The algorithm's name.
    pub algorithm: String,
    /// The names of the processes, process 0 first, a dedicated coordinator last.
    pub processes: Vec<String>,
    /// How it starts. How many contend follows from the names.
    pub setup: Setup,
    /// What the links do; none: what the algorithm asks for.
    pub links: Option<Links>,
    /// The flags at the start, for Dijkstra's ring under a daemon; none: legitimate ones.
    pub flags: Option<Vec<u32>>,
    /// Sanders' sets as far as they are read: whom each process asks, and whom it informs.
    asks: Vec<Vec<NodeId>>,
    informs: Vec<Vec<NodeId>>,
}

impl System {
    /// A system of this algorithm with everything else by default.
    pub fn new(algorithm: &str, processes: Vec<String>) -> Self {
        Self {
            algorithm: algorithm.to_owned(),
            setup: Setup::new(u32::try_from(processes.len()).unwrap_or(u32::MAX)),
            processes,
            links: None,
            flags: None,
            asks: Vec::new(),
            informs: Vec::new(),
        }
    }

    /// The start that `build` makes of the setup.
    pub(super) fn start(
        &self,
        build: impl Fn(&Setup) -> Result<Start, StartError>,
    ) -> Result<Start, StartError> {
        let mut setup = self.setup.clone();
        setup.nodes = u32::try_from(self.processes.len()).unwrap_or(u32::MAX);
        let start = build(&setup)?;
        if start.processes() == setup.nodes {
            return Ok(start);
        }
        // A dedicated coordinator has a name too, but does not contend.
        setup.nodes -= 1;
        build(&setup)
    }

    /// What the links do.
    pub(super) fn links(&self) -> Links {
        let wanted = registry::about(&self.algorithm).map_or(Links::Fifo, |about| about.links);
        self.links.unwrap_or(wanted)
    }

    /// Takes a line of the head; false if it is none.
    pub(super) fn parse(&mut self, words: &[&str]) -> Result<bool, String> {
        let names = Names(&self.processes);
        let node = |name: &str| names.process(name);
        match words {
            ["with", options @ ..] if !options.is_empty() => {
                for option in options {
                    self.setup.settings.parse(option).map_err(|error| error.to_string())?;
                }
            }
            ["topology", shape] => self.setup.topology = parse_name(shape)?,
            ["edges", edges @ ..] => {
                let edges = edges.iter().map(|edge| parse_edge(edge, names));
                self.setup.topology = Topology::Edges(edges.collect::<Result<_, _>>()?);
            }
            ["quorums", kind] => self.setup.quorums = parse_name(kind)?,
            ["holder", who] => self.setup.holder = node(who)?,
            ["inside", who] => {
                self.setup.holder = node(who)?;
                self.setup.inside = true;
            }
            ["coordinator", who] => self.setup.coordinator = node(who)?,
            ["crashed", who @ ..] if !who.is_empty() => {
                self.setup.crashed = names.processes(who)?
            }
            ["links", kind] => self.links = Some(parse_name(kind)?),
            ["flags", flags @ ..] => self.flags = Some(parse_flags(flags)?),
            ["asks", of, whom @ ..] => {
                let (of, members) = parse_set(of, whom, names)?;
                keep_set(&mut self.asks, of, members, self.processes.len());
            }
            ["informs", of, whom @ ..] => {
                let (of, members) = parse_set(of, whom, names)?;
                keep_set(&mut self.informs, of, members, self.processes.len());
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// What can only be said when all lines are read.
    pub(super) fn complete(&mut self) -> Result<(), String> {
        if self.asks.is_empty() && self.informs.is_empty() {
            return Ok(());
        }
        if self.asks.len() != self.informs.len() {
            return Err("every process needs a line `asks` and a line `informs`".to_owned());
        }
        let (asks, informs) = (self.asks.clone(), self.informs.clone());
        let sets = SetsOf::new(asks, informs).map_err(|fault| fault.to_string())?;
        self.setup.sets = Some(sets);
        Ok(())
    }

    /// The head of a script for this system.
    pub(super) fn text(&self) -> String {
        let names = Names(&self.processes);
        let plain = Setup::new(1);
        let mut lines = vec![
            format!("algorithm {}", self.algorithm),
            format!("processes {}", self.processes.join(" ")),
        ];
        let options = self.setup.settings.iter();
        lines.extend(options.map(|(key, value)| format!("with {key}={value}")));
        if self.setup.topology != plain.topology {
            lines.push(topology_text(&self.setup.topology, names));
        }
        if self.setup.quorums != plain.quorums {
            lines.push(format!("quorums {}", self.setup.quorums.name()));
        }
        let holder = names.name(self.setup.holder);
        match (self.setup.inside, self.setup.holder == plain.holder) {
            (true, _) => lines.push(format!("inside {holder}")),
            (false, false) => lines.push(format!("holder {holder}")),
            (false, true) => {}
        }
        if self.setup.coordinator != plain.coordinator {
            lines.push(format!("coordinator {}", names.name(self.setup.coordinator)));
        }
        if !self.setup.crashed.is_empty() {
            lines.push(format!("crashed {}", names.list(&self.setup.crashed)));
        }
        lines.extend(self.links.map(|links| format!("links {}", links.name())));
        if let Some(flags) = &self.flags {
            let flags: Vec<_> = flags.iter().map(u32::to_string).collect();
            lines.push(format!("flags {}", flags.join(" ")));
        }
        if let Some(sets) = &self.setup.sets {
            for node in (0..sets.nodes()).map(NodeId) {
                let (name, asks) = (names.name(node), names.list(sets.request(node)));
                lines.push(format!("asks {name}: {asks}"));
                lines.push(format!("informs {name}: {}", names.list(sets.inform(node))));
            }
        }
        lines.join("\n") + "\n"
    }
}

/// `A: B C`.
fn parse_set(of: &str, whom: &[&str], names: Names<'_>) -> Result<(NodeId, Vec<NodeId>), String> {
    let of = of.strip_suffix(':').ok_or_else(|| format!("a set is written `{of}: A B C`"))?;
    Ok((names.process(of)?, names.processes(whom)?))
}

fn keep_set(sets: &mut Vec<Vec<NodeId>>, of: NodeId, members: Vec<NodeId>, processes: usize) {
    sets.resize(processes, Vec::new());
    sets[of.index()] = members;
}

/// Names of processes; `P1..P4` stands for P1 P2 P3 P4.
pub(super) fn parse_processes(words: &[&str]) -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    for word in words {
        match word.split_once("..") {
            Some((first, last)) => names.extend(parse_range(first, last)?),
            None => names.push((*word).to_owned()),
        }
    }
    for (place, name) in names.iter().enumerate() {
        if names[..place].contains(name) {
            return Err(format!("two processes are called `{name}`"));
        }
    }
    if names.is_empty() { Err("no processes are named".to_owned()) } else { Ok(names) }
}

fn parse_range(first: &str, last: &str) -> Result<Vec<String>, String> {
    let prefix = first.trim_end_matches(|c: char| c.is_ascii_digit());
    let ends = first[prefix.len()..]
        .parse::<u32>()
        .ok()
        .zip(last.strip_prefix(prefix).and_then(|number| number.parse::<u32>().ok()));
    match ends {
        Some((low, high)) if low <= high => {
            Ok((low..=high).map(|number| format!("{prefix}{number}")).collect())
        }
        _ => Err(format!("`{first}..{last}` is no range of names such as P1..P4")),
    }
}

fn parse_edge(edge: &str, names: Names<'_>) -> Result<(NodeId, NodeId), String> {
    let (a, b) = edge.split_once('-').ok_or_else(|| format!("an edge is `A-B`, not `{edge}`"))?;
    Ok((names.process(a)?, names.process(b)?))
}

fn topology_text(topology: &Topology, names: Names<'_>) -> String {
    match topology {
        shape @ (Topology::Line | Topology::Star | Topology::Binary | Topology::Kary(_)) => {
            format!("topology {}", shape.name())
        }
        Topology::Edges(edges) => {
            let edge = |&(a, b): &(NodeId, NodeId)| format!("{}-{}", names.name(a), names.name(b));
            format!("edges {}", edges.iter().map(edge).collect::<Vec<_>>().join(" "))
        }
    }
}
