//! The arguments that describe a system, the same in every command.

use std::{borrow::Cow, fs};

use anyhow::{Context, Result};
use clap::Args;
use mutua_algorithms::{
    NodeId, Other, QuorumKind, SetsOf, Settings, Setup, Structure, Topology, UnknownName, registry,
};

use crate::{durations, exit::usage, lines, names};

/// Processes, variant and structure.
#[derive(Args, Clone, Debug)]
pub(crate) struct SystemArguments {
    /// Number of processes that contend [default: 10; of check: 3, and at most 15].
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = count)]
    pub(crate) nodes: Option<u32>,

    /// Select a variant; `mutua algorithms NAME` lists them.
    #[arg(long = "with", value_name = "KEY=VALUE")]
    pub(crate) with: Vec<String>,

    /// Tree of the algorithms that use one: a shape, or a file with an edge `A B` per line.
    #[arg(long, value_name = "SHAPE", help = topology_help())]
    pub(crate) topology: Option<String>,

    /// Quorums of the algorithms that use them.
    #[arg(long, value_name = "KIND", help = quorums_help())]
    pub(crate) quorums: Option<String>,

    /// Process that has the token at the start.
    #[arg(long, value_name = "ID", default_value_t = 0, allow_hyphen_values = true,
          value_parser = number)]
    pub(crate) holder: u32,

    /// Start with the holder in the critical section.
    #[arg(long)]
    pub(crate) in_cs: bool,
}

/// The help of `--topology`: the algorithms that it applies to, and its values.
fn topology_help() -> String {
    let default = Setup::new(1).topology;
    let shapes = Topology::SHAPES.iter().map(|shape| with_default(shape, &default.name()));
    format!(
        "Tree of {}: {}, or a file with an edge `A B` per line",
        users_of(Structure::Tree),
        shapes.collect::<Vec<_>>().join(", ")
    )
}

/// The help of `--quorums`: the algorithms that it applies to, and its values.
fn quorums_help() -> String {
    let default = Setup::new(1).quorums.name();
    let kinds = QuorumKind::ALL.iter().map(|kind| with_default(kind.name(), default));
    let kinds: Vec<_> = kinds.collect();
    let (last, before) = kinds.split_last().expect("there are kinds");
    format!("Quorums of {}: {} or {last}", users_of(Structure::Quorums), before.join(", "))
}

fn with_default(name: &str, default: &str) -> String {
    if name == default { format!("{name} (the default)") } else { name.to_owned() }
}

/// The algorithms with this structure.
fn users_of(structure: Structure) -> String {
    names::list(registry::ALGORITHMS, |about| about.structure == structure)
}

impl SystemArguments {
    /// The setup of this algorithm that the arguments describe, `nodes` being the default number of
    /// processes.
    pub(crate) fn setup(&self, algorithm: &str, nodes: u32) -> Result<Setup> {
        self.check_structure(algorithm)?;
        let mut setup = Setup::new(self.nodes.unwrap_or(nodes));
        setup.holder = NodeId(self.holder);
        setup.in_cs = self.in_cs;
        setup.settings = self.settings()?;
        if let Some(file) = sets_file(&setup.settings) {
            setup.sets = Some(sets(file)?);
        }
        if let Some(shape) = &self.topology {
            setup.topology = topology(shape)?;
        }
        if let Some(kind) = &self.quorums {
            setup.quorums = quorums(kind)?;
        }
        Ok(setup)
    }

    /// Refuses an option that would have no effect.
    fn check_structure(&self, algorithm: &str) -> Result<()> {
        let structure = names::algorithm(algorithm)?.structure;
        for (given, option, what, needed) in [
            (self.topology.is_some(), "--topology", "no tree", Structure::Tree),
            (self.quorums.is_some(), "--quorums", "no quorums", Structure::Quorums),
        ] {
            if given && structure != needed {
                let names = users_of(needed);
                return Err(usage(format!("{algorithm} uses {what}; {option} applies to {names}")));
            }
        }
        Ok(())
    }

    fn settings(&self) -> Result<Settings> {
        let mut settings = Settings::default();
        for option in &self.with {
            let before = settings.clone();
            settings.parse(option).map_err(|error| usage(error.to_string()))?;
            let mut changed = before.iter().filter(|(key, _)| settings.get(key) != before.get(key));
            if let Some((key, value)) = changed.next() {
                return Err(usage(format!(
                    "--with {key}={value} conflicts with --with {option}: give one of them"
                )));
            }
        }
        Ok(settings)
    }
}

/// Reads a number of processes.
pub(crate) fn count(text: &str) -> Result<u32, String> {
    match text.trim().parse::<u32>() {
        Ok(count) if count > 0 => Ok(count),
        Ok(_) | Err(_) => Err(format!("give a whole number from 1 to {}", u32::MAX)),
    }
}

/// Reads a whole number.
pub(crate) fn whole(text: &str) -> Result<u64, String> {
    text.trim().parse().map_err(|_| format!("give a whole number from 0 to {}", u64::MAX))
}

/// Reads a whole number of at least 1.
pub(crate) fn positive(text: &str) -> Result<u64, String> {
    let invalid = || format!("give a whole number from 1 to {}", u64::MAX);
    text.trim().parse().ok().filter(|&number| number > 0).ok_or_else(invalid)
}

/// Reads a number of runs: the figures of each are kept until the end.
pub(crate) fn runs(text: &str) -> Result<u64, String> {
    let invalid = || "give a whole number from 1 to 100000".to_owned();
    text.trim().parse().ok().filter(|runs| (1..=100_000).contains(runs)).ok_or_else(invalid)
}

/// Reads a process id, or another number of 32 bits.
pub(crate) fn number(text: &str) -> Result<u32, String> {
    text.trim().parse().map_err(|_| format!("give a whole number from 0 to {}", u32::MAX))
}

/// Reads a duration that is a part of an argument, as a number of nanoseconds.
pub(crate) fn duration(text: &str) -> Result<u64, String> {
    durations::nanoseconds(text).map_err(|error| error.to_string())
}

/// The file that `sets=FILE` names; a value that has a meaning of its own names none.
fn sets_file(settings: &Settings) -> Option<&str> {
    let value = settings.get("sets")?;
    let choices = registry::ALGORITHMS.iter().flat_map(|about| about.options);
    let mut files = choices.filter(|choice| choice.key == "sets" && choice.other == Other::File);
    let named = files.any(|choice| choice.values.iter().any(|variant| variant.name == value));
    (!named).then_some(value)
}

fn sets(path: &str) -> Result<SetsOf> {
    let text = fs::read_to_string(path)
        .with_context(|| {
            format!("unknown sets `{path}`: not a known name, and not a readable file")
        })
        .map_err(|error| usage(format!("{error:#}")))?;
    SetsOf::parse(&text).map_err(|error| usage(format!("{path}: {error}")))
}

/// Reads a kind of quorums.
pub(crate) fn quorums(kind: &str) -> Result<QuorumKind> {
    kind.parse().map_err(|UnknownName { what, name, known }| names::unknown(what, &name, known))
}

fn topology(shape: &str) -> Result<Topology> {
    match shape.parse() {
        Ok(topology) => Ok(topology),
        Err(unknown) if shape.starts_with("kary:") => Err(usage(unknown.to_string())),
        Err(_) => edges(shape),
    }
}

fn edges(path: &str) -> Result<Topology> {
    let text = fs::read_to_string(path)
        .with_context(|| {
            let shapes = Topology::SHAPES.join(", ");
            format!("unknown tree `{path}`: use {shapes} or a readable file")
        })
        .map_err(|error| usage(format!("{error:#}")))?;
    let mut edges = Vec::new();
    for (number, line) in lines::items(&text) {
        let ends: Vec<_> = line.split_whitespace().map(str::parse).collect();
        match ends.as_slice() {
            [Ok(a), Ok(b)] => edges.push((NodeId(*a), NodeId(*b))),
            _ => {
                return Err(usage(format!(
                    "{path}:{number}: invalid edge `{line}`: give two process numbers"
                )));
            }
        }
    }
    Ok(Topology::Edges(edges))
}

/// The shape of a tree for people; edges came from a file.
pub(crate) fn show_topology(topology: &Topology) -> Cow<'static, str> {
    match topology {
        Topology::Edges(_) => "from a file".into(),
        Topology::Line | Topology::Star | Topology::Binary | Topology::Kary(_) => topology.name(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(with: &str) -> SystemArguments {
        SystemArguments {
            nodes: Some(3),
            with: vec![with.to_owned()],
            topology: None,
            quorums: None,
            holder: 0,
            in_cs: false,
        }
    }

    #[test]
    fn sets_come_from_the_file_that_the_option_names() {
        let path = std::env::temp_dir().join(format!("mutua-sets-{}", std::process::id()));
        fs::write(&path, "0: request 0 1 inform 0 1\n1: request 0 1 inform 0 1").unwrap();
        let setup = arguments(&format!("sets={}", path.display())).setup("sanders", 5);
        fs::remove_file(&path).unwrap();
        assert_eq!(setup.unwrap().sets.map(|sets| sets.nodes()), Some(2));
    }

    #[test]
    fn a_name_of_sets_is_not_a_file_and_a_missing_file_is_bad_usage() {
        assert_eq!(arguments("sets=central").setup("sanders", 5).unwrap().sets, None);
        let refusal = arguments("sets=/no/such/file").setup("sanders", 5).unwrap_err();
        assert!(refusal.downcast_ref::<crate::exit::Usage>().is_some());
        assert!(refusal.to_string().contains("`/no/such/file`"), "{refusal}");
    }
}
