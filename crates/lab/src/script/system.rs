//! The head of a script: the system that it plays.

use std::collections::BTreeSet;

use mutua_algorithms::{
    Links, Mutex, NodeId, SetsOf, Setup, Start, StartError, Topology, registry,
    repairs::{ElectionName, Plan},
};

use super::{
    SyntaxError,
    language::Form,
    names::{Names, parse_flags, parse_name},
};

/// The system that a script plays: the algorithm, its processes and its start.
#[derive(Clone, Debug)]
pub struct System {
    /// The algorithm's name.
    pub algorithm: String,
    /// The names of the processes, process 0 first, a dedicated coordinator last.
    pub processes: Vec<String>,
    /// The names of the critical sections, if there are several.
    pub sections: Vec<String>,
    /// The setup; its number of contenders is replaced by the number of names.
    pub setup: Setup,
    /// The kind of links; none for what the algorithm needs.
    pub links: Option<Links>,
    /// The flags at the start, for a ring under a daemon; none for legitimate ones.
    pub flags: Option<Vec<u32>>,
    /// The repair after crashes, if there is one.
    pub repair: Option<Repair>,
    /// The request set of each process, as far as they have been read.
    request_sets: Vec<Vec<NodeId>>,
    /// The inform set of each process, as far as they have been read.
    inform_sets: Vec<Vec<NodeId>>,
}

/// The repair after crashes of a script's system.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Repair {
    /// Its kind.
    pub kind: RepairKind,
    /// The election of its leader.
    pub election: ElectionName,
}

/// A kind of repair.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RepairKind {
    /// Every crash starts a view.
    Generic,
    /// The algorithm's special repair, where that suffices.
    Special,
    /// As generic, but messages do not name their view: a negative control.
    WithoutViews,
}

impl RepairKind {
    const ALL: [Self; 3] = [Self::Generic, Self::Special, Self::WithoutViews];

    /// Its name in scripts and commands.
    pub fn name(self) -> &'static str {
        match self {
            Self::Generic => "generic",
            Self::Special => "special",
            Self::WithoutViews => "generic-without-views",
        }
    }
}

impl System {
    /// A system of this algorithm with everything else by default.
    pub fn new(algorithm: &str, processes: Vec<String>) -> Self {
        Self {
            algorithm: algorithm.to_owned(),
            setup: Setup::new(u32::try_from(processes.len()).unwrap_or(u32::MAX)),
            processes,
            sections: Vec::new(),
            links: None,
            flags: None,
            repair: None,
            request_sets: Vec::new(),
            inform_sets: Vec::new(),
        }
    }

    /// The names that steps use: of the processes, or with several critical sections of their
    /// instances, section by section, such as `P1.R`.
    pub fn names_of_all(&self) -> Vec<String> {
        if self.sections.is_empty() {
            return self.processes.clone();
        }
        let of = |section| self.processes.iter().map(move |name| format!("{name}.{section}"));
        self.sections.iter().flat_map(of).collect()
    }

    /// The start that `build` makes of the setup.
    pub(super) fn start(
        &self,
        build: impl Fn(&Setup) -> Result<Start, StartError>,
    ) -> Result<Start, StartError> {
        build(&self.complete_setup(&build)?)
    }

    /// The setup with its number of contenders.
    fn complete_setup(
        &self,
        build: impl Fn(&Setup) -> Result<Start, StartError>,
    ) -> Result<Setup, StartError> {
        let mut setup = self.setup.clone().of(&self.algorithm);
        setup.nodes = u32::try_from(self.processes.len()).unwrap_or(u32::MAX);
        if build(&setup)?.processes() != setup.nodes {
            // A dedicated coordinator is among the names, but does not contend.
            setup.nodes -= 1;
        }
        Ok(setup)
    }

    /// The plan of a system with a repair.
    pub(super) fn plan<M: Mutex>(&self, repair: Repair) -> Result<Plan, StartError> {
        let setup = self.complete_setup(|setup| setup.start::<M>())?;
        let plan = Plan::new::<M>(&setup, repair.election)?;
        Ok(match repair.kind {
            RepairKind::Generic => plan,
            RepairKind::Special => plan.with_special(),
            RepairKind::WithoutViews => plan.without_view_numbers(),
        })
    }

    /// The kind of links.
    pub(crate) fn links(&self) -> Links {
        let wanted = registry::about(&self.algorithm).map_or(Links::Fifo, |about| about.links);
        self.links.unwrap_or(wanted)
    }

    /// Reads a line of the head; false if it is not one.
    pub(super) fn parse(&mut self, words: &[&str]) -> Result<bool, SyntaxError> {
        let read = HEAD.iter().find_map(|form| (form.read)(self, words));
        read.map_or(Ok(false), |read| read.map(|()| true))
    }

    fn names(&self) -> Names<'_> {
        Names(&self.processes)
    }

    /// Completes the system once all lines have been read.
    pub(super) fn complete(&mut self) -> Result<(), SyntaxError> {
        if self.request_sets.is_empty() && self.inform_sets.is_empty() {
            return Ok(());
        }
        self.take_own_sets()?;
        if self.request_sets.len() != self.inform_sets.len() {
            return Err(SyntaxError::IncompleteSets);
        }
        let (requests, informs) = (self.request_sets.clone(), self.inform_sets.clone());
        self.setup.sets = Some(SetsOf::new(requests, informs)?);
        Ok(())
    }

    /// The lines of the sets say that the algorithm takes them, where no option says so.
    fn take_own_sets(&mut self) -> Result<(), SyntaxError> {
        let Some(about) = registry::about(&self.algorithm) else { return Ok(()) };
        let Some(option) = about.options.iter().find(|option| option.key == "sets") else {
            return Err(SyntaxError::NoSets(self.algorithm.clone()));
        };
        match self.setup.settings.get("sets") {
            None => self.setup.settings.set("sets", "own"),
            Some(named) if option.values.iter().any(|known| known.name == named) => {
                return Err(SyntaxError::OtherSets(named.to_owned()));
            }
            Some(_) => {}
        }
        Ok(())
    }

    /// The head of a script for this system.
    pub(crate) fn text(&self) -> String {
        let names = Names(&self.processes);
        let plain = Setup::new(1);
        let mut lines = vec![
            format!("algorithm {}", self.algorithm),
            format!("processes {}", self.processes.join(" ")),
        ];
        if !self.sections.is_empty() {
            lines.push(format!("sections {}", self.sections.join(" ")));
        }
        let options = self.setup.settings.iter();
        lines.extend(options.map(|(key, value)| format!("with {key}={value}")));
        if self.setup.topology != plain.topology {
            lines.push(topology_text(&self.setup.topology, names));
        }
        if self.setup.quorums != plain.quorums {
            lines.push(format!("quorums {}", self.setup.quorums.name()));
        }
        let holder = names.name(self.setup.holder);
        match (self.setup.in_cs, self.setup.holder == plain.holder) {
            (true, _) => lines.push(format!("in_cs {holder}")),
            (false, false) => lines.push(format!("holder {holder}")),
            (false, true) => {}
        }
        if self.setup.coordinator != plain.coordinator {
            lines.push(format!("coordinator {}", names.name(self.setup.coordinator)));
        }
        if !self.setup.crashed.is_empty() {
            lines.push(format!("crashed {}", names.list(&self.setup.crashed)));
        }
        lines.extend(self.repair.map(|Repair { kind, election }| {
            format!("repair {} {}", kind.name(), election.name())
        }));
        lines.extend(self.links.map(|links| format!("links {}", links.name())));
        if let Some(flags) = &self.flags {
            let flags: Vec<_> = flags.iter().map(u32::to_string).collect();
            lines.push(format!("flags {}", flags.join(" ")));
        }
        if let Some(sets) = &self.setup.sets {
            for node in (0..sets.nodes()).map(NodeId) {
                let (name, requests) = (names.name(node), names.list(sets.request(node)));
                lines.push(format!("request_set {name}: {requests}"));
                lines.push(format!("inform_set {name}: {}", names.list(sets.inform(node))));
            }
        }
        lines.join("\n") + "\n"
    }
}

fn parse_repair(kind: &str, election: &str) -> Result<Repair, SyntaxError> {
    let found = RepairKind::ALL.into_iter().find(|known| known.name() == kind);
    let kind = found.ok_or_else(|| SyntaxError::Repair(kind.to_owned()))?;
    Ok(Repair { kind, election: parse_name(election)? })
}

/// Reads a line of the head; none if it is of another form.
type Read = fn(&mut System, &[&str]) -> Option<Result<(), SyntaxError>>;

/// The forms of the head, after the algorithm and the processes.
pub(super) const HEAD: &[Form<Read>] = &[
    Form {
        syntax: "sections R S ...",
        meaning: "several critical sections, by their names: steps then name a process with its \
                  section, as in P1.R; a crash is one of the process in all sections",
        example: "sections R S",
        read: |system, words| match words {
            ["sections", names @ ..] if names.len() > 1 => {
                let names = parse_processes(names);
                Some(set(&mut system.sections, names))
            }
            _ => None,
        },
    },
    Form {
        syntax: "with KEY=VALUE ...",
        meaning: "options of the algorithm, as `mutua algorithms NAME` lists them",
        example: "with confirm=all",
        read: |system, words| match words {
            ["with", options @ ..] if !options.is_empty() => {
                Some(options.iter().try_for_each(|option| Ok(system.setup.settings.parse(option)?)))
            }
            _ => None,
        },
    },
    Form {
        syntax: "topology SHAPE",
        meaning: "the tree: line, star, binary or kary:K",
        example: "topology kary:3",
        read: |system, words| match words {
            ["topology", shape] => Some(set(&mut system.setup.topology, parse_name(shape))),
            _ => None,
        },
    },
    Form {
        syntax: "edges A-B B-C ...",
        meaning: "the edges of the tree",
        example: "edges P1-P2 P2-P3 P2-P4",
        read: |system, words| match words {
            ["edges", edges @ ..] => {
                let edges = edges.iter().map(|edge| parse_edge(edge, system.names()));
                let edges: Result<Vec<_>, _> = edges.collect();
                Some(set(&mut system.setup.topology, edges.map(Topology::Edges)))
            }
            _ => None,
        },
    },
    Form {
        syntax: "quorums KIND",
        meaning: "the quorums: grid, filled-grid, plane, majority or tree",
        example: "quorums majority",
        read: |system, words| match words {
            ["quorums", kind] => Some(set(&mut system.setup.quorums, parse_name(kind))),
            _ => None,
        },
    },
    Form {
        syntax: "holder A",
        meaning: "the process that has the token at the start; by default the first",
        example: "holder P2",
        read: |system, words| match words {
            ["holder", who] => {
                let who = system.names().process(who);
                Some(set(&mut system.setup.holder, who))
            }
            _ => None,
        },
    },
    Form {
        syntax: "in_cs A",
        meaning: "the process that is in the critical section at the start",
        example: "in_cs P2",
        read: |system, words| match words {
            ["in_cs", who] => {
                system.setup.in_cs = true;
                let who = system.names().process(who);
                Some(set(&mut system.setup.holder, who))
            }
            _ => None,
        },
    },
    Form {
        syntax: "coordinator A",
        meaning: "the coordinator of a central algorithm with coordinator=member; by default the \
                  first process",
        example: "coordinator P3",
        read: |system, words| match words {
            ["coordinator", who] => {
                let who = system.names().process(who);
                Some(set(&mut system.setup.coordinator, who))
            }
            _ => None,
        },
    },
    Form {
        syntax: "crashed A B ...",
        meaning: "processes that are down from the start",
        example: "crashed P3 P4",
        read: |system, words| match words {
            ["crashed", who @ ..] if !who.is_empty() => {
                let who = system.names().processes(who);
                Some(set(&mut system.setup.crashed, who))
            }
            _ => None,
        },
    },
    Form {
        syntax: "repair KIND ELECTION",
        meaning: "crashes are repaired: generic, special or generic-without-views",
        example: "repair generic bully",
        read: |system, words| match words {
            ["repair", kind, election] => {
                Some(parse_repair(kind, election).map(|repair| system.repair = Some(repair)))
            }
            _ => None,
        },
    },
    Form {
        syntax: "links KIND",
        meaning: "the order of messages on a link: fifo or any; by default what the algorithm \
                  needs",
        example: "links any",
        read: |system, words| match words {
            ["links", kind] => Some(set(&mut system.links, parse_name(kind).map(Some))),
            _ => None,
        },
    },
    Form {
        syntax: "flags N N ...",
        meaning: "the flags of Dijkstra's ring under a daemon at the start",
        example: "flags 0 1 0 1",
        read: |system, words| match words {
            ["flags", flags @ ..] => Some(set(&mut system.flags, parse_flags(flags).map(Some))),
            _ => None,
        },
    },
    Form {
        syntax: "request_set A: B C ...",
        meaning: "the processes that A sends its requests to, for Sanders' algorithm; one line for \
                  every process; such lines imply sets=own",
        example: "request_set P1: P1 P2",
        read: |system, words| match words {
            ["request_set", of, whom @ ..] => {
                let read = parse_set(of, whom, system.names());
                let nodes = system.processes.len();
                Some(read.map(|(of, set)| keep_set(&mut system.request_sets, of, set, nodes)))
            }
            _ => None,
        },
    },
    Form {
        syntax: "inform_set A: B C ...",
        meaning: "the processes that A informs of its state: A itself, and others of its request \
                  set",
        example: "inform_set P1: P1",
        read: |system, words| match words {
            ["inform_set", of, whom @ ..] => {
                let read = parse_set(of, whom, system.names());
                let nodes = system.processes.len();
                Some(read.map(|(of, set)| keep_set(&mut system.inform_sets, of, set, nodes)))
            }
            _ => None,
        },
    },
];

fn set<T>(place: &mut T, read: Result<T, SyntaxError>) -> Result<(), SyntaxError> {
    *place = read?;
    Ok(())
}

/// `A: B C`.
fn parse_set(
    of: &str,
    whom: &[&str],
    names: Names<'_>,
) -> Result<(NodeId, Vec<NodeId>), SyntaxError> {
    let of = of.strip_suffix(':').ok_or_else(|| SyntaxError::Set(of.to_owned()))?;
    Ok((names.process(of)?, names.processes(whom)?))
}

fn keep_set(sets: &mut Vec<Vec<NodeId>>, of: NodeId, members: Vec<NodeId>, processes: usize) {
    sets.resize(processes, Vec::new());
    sets[of.index()] = members;
}

/// A larger system is for the simulator: nobody writes or reads the steps of so many processes.
const MOST_PROCESSES: usize = 1_000_000;

/// Names of processes; `P1..P4` stands for P1 P2 P3 P4.
pub(super) fn parse_processes(words: &[&str]) -> Result<Vec<String>, SyntaxError> {
    let mut names = Vec::new();
    for word in words {
        match word.split_once("..") {
            Some((first, last)) => names.extend(parse_range(first, last)?),
            None => names.push((*word).to_owned()),
        }
    }
    if names.len() > MOST_PROCESSES {
        return Err(SyntaxError::TooMany(MOST_PROCESSES));
    }
    let mut seen = BTreeSet::new();
    if let Some(twice) = names.iter().find(|name| !seen.insert(*name)) {
        return Err(SyntaxError::NamedTwice(twice.clone()));
    }
    if names.is_empty() { Err(SyntaxError::NoProcesses) } else { Ok(names) }
}

fn parse_range(first: &str, last: &str) -> Result<Vec<String>, SyntaxError> {
    let prefix = first.trim_end_matches(|c: char| c.is_ascii_digit());
    let ends = first[prefix.len()..]
        .parse::<u32>()
        .ok()
        .zip(last.strip_prefix(prefix).and_then(|number| number.parse::<u32>().ok()));
    match ends {
        Some((low, high)) if low <= high => {
            if (high - low) as usize >= MOST_PROCESSES {
                return Err(SyntaxError::TooMany(MOST_PROCESSES));
            }
            Ok((low..=high).map(|number| format!("{prefix}{number}")).collect())
        }
        _ => Err(SyntaxError::Range(format!("{first}..{last}"))),
    }
}

fn parse_edge(edge: &str, names: Names<'_>) -> Result<(NodeId, NodeId), SyntaxError> {
    let (a, b) = edge.split_once('-').ok_or_else(|| SyntaxError::Edge(edge.to_owned()))?;
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
