//! The first line of a trace: the run and its processes.

use mutua_algorithms::{NodeId, Start};
use serde::{Deserialize, Serialize};

use crate::Values;

/// The version of the format that this crate writes and reads.
pub const FORMAT: u32 = 1;

/// The algorithm that ran, its options and its processes.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Header {
    /// The version of the format, [`FORMAT`].
    #[serde(rename = "mutua-trace")]
    pub format: u32,
    /// The algorithm's name.
    pub algorithm: String,
    /// The algorithm's options, the defaults filled in.
    #[serde(default, skip_serializing_if = "Values::is_empty")]
    pub settings: Values,
    /// The names of the processes, process 0 first. With several critical sections these are the
    /// names of their instances of the algorithm, section by section.
    pub processes: Vec<String>,
    /// The number of critical sections.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub sections: u32,
    /// The unit of `at`.
    pub unit: Unit,
    /// The name of the run: a script's name, a lock's name, the command that repeats it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub title: String,
}

fn one() -> u32 {
    1
}

fn is_one(sections: &u32) -> bool {
    *sections == 1
}

/// The unit of an event's `at`.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Deserialize, Serialize)]
pub enum Unit {
    /// Steps of a script or of a counterexample.
    #[serde(rename = "step")]
    Step,
    /// Nanoseconds.
    #[serde(rename = "ns")]
    Nanoseconds,
    /// Microseconds.
    #[serde(rename = "us")]
    Microseconds,
    /// Milliseconds.
    #[serde(rename = "ms")]
    Milliseconds,
}

impl Unit {
    /// The unit as in the file.
    pub fn word(self) -> &'static str {
        match self {
            Self::Step => "step",
            Self::Nanoseconds => "ns",
            Self::Microseconds => "us",
            Self::Milliseconds => "ms",
        }
    }
}

impl Header {
    /// The header of a system that begins like this; there must be a name for every process, or
    /// for every instance of each of several critical sections.
    pub fn new(algorithm: &str, start: &Start, processes: Vec<String>, unit: Unit) -> Self {
        let sections = processes.len() / start.processes().max(1) as usize;
        debug_assert_eq!(
            processes.len(),
            sections * start.processes() as usize,
            "a name for every process"
        );
        let settings = start.settings().iter();
        let settings = settings.map(|(key, value)| (key.to_owned().into(), value.to_owned()));
        Self {
            format: FORMAT,
            algorithm: algorithm.to_owned(),
            settings: Values(settings.collect()),
            processes,
            sections: u32::try_from(sections).unwrap_or(u32::MAX),
            unit,
            title: String::new(),
        }
    }

    /// Names for processes that have none of their own: P0, P1 and so on.
    pub fn default_names(start: &Start) -> Vec<String> {
        start.all().map(|node| format!("P{node}")).collect()
    }

    /// Names for the instances of such processes in so many critical sections, `P0.1` being that
    /// of process 0 in section 1; if there is one section, the names of the processes.
    pub fn names_in_sections(start: &Start, sections: u32) -> Vec<String> {
        let names = Self::default_names(start);
        if sections == 1 {
            return names;
        }
        let of = |section| names.iter().map(move |name| format!("{name}.{section}"));
        (0..sections).flat_map(of).collect()
    }

    /// The critical section of a process.
    pub fn section(&self, node: NodeId) -> usize {
        node.index() / self.of_a_section()
    }

    fn of_a_section(&self) -> usize {
        (self.processes.len() / self.sections.max(1) as usize).max(1)
    }

    /// The name of the process that `who` knows under this id: its ids are those of its section.
    pub fn name_for(&self, who: NodeId, node: NodeId) -> String {
        match self.sections {
            0 | 1 => self.name(node),
            _ => self.name(NodeId::from(self.section(who) * self.of_a_section() + node.index())),
        }
    }

    /// The name of a process; an unknown one is shown by its number.
    pub fn name(&self, node: NodeId) -> String {
        self.processes.get(node.index()).cloned().unwrap_or_else(|| format!("?{node}"))
    }

    /// The heading of a picture of it.
    pub fn heading(&self) -> &str {
        if self.title.is_empty() { &self.algorithm } else { &self.title }
    }

    /// The process of this name.
    pub fn process(&self, name: &str) -> Option<NodeId> {
        self.processes.iter().position(|known| known == name).map(NodeId::from)
    }
}
