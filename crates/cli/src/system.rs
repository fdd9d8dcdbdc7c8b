//! The arguments that describe a system, the same in every command.

use std::{borrow::Cow, fs};

use anyhow::{Context, Result};
use clap::Args;
use mutua_algorithms::{
    NodeId, Other, QuorumKind, SetsOf, Settings, Setup, Structure, Topology, UnknownName, registry,
};

use crate::{exit::usage, lines, names};

/// Processes, variant and structure.
#[derive(Args, Clone, Debug)]
pub(crate) struct SystemArguments {
    /// How many processes contend.
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = count)]
    pub(crate) nodes: Option<u32>,

    /// Choose a variant; `mutua algorithms NAME` lists them.
    #[arg(long = "with", value_name = "KEY=VALUE")]
    pub(crate) with: Vec<String>,

    /// The tree of raymond and neilsen-mizuno: line, star, binary (the default), kary:K, or a file
    /// with an edge `A B` per line.
    #[arg(long, value_name = "SHAPE")]
    pub(crate) topology: Option<String>,

    /// The quorums of maekawa: grid (the default), plane, majority, tree.
    #[arg(long, value_name = "KIND")]
    pub(crate) quorums: Option<String>,

    /// Who has the token at the start.
    #[arg(long, value_name = "ID", default_value_t = 0, allow_hyphen_values = true,
          value_parser = number)]
    pub(crate) holder: u32,

    /// The holder is inside at the start.
    #[arg(long)]
    pub(crate) inside: bool,
}

impl SystemArguments {
    /// The setup of this algorithm that the arguments describe, `nodes` being the default number of
    /// processes.
    pub(crate) fn setup(&self, algorithm: &str, nodes: u32) -> Result<Setup> {
        self.check_structure(algorithm)?;
        let mut setup = Setup::new(self.nodes.unwrap_or(nodes));
        setup.holder = NodeId(self.holder);
        setup.inside = self.inside;
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

    /// An option that changes nothing would only seem to have been taken.
    fn check_structure(&self, algorithm: &str) -> Result<()> {
        let structure = names::algorithm(algorithm)?.structure;
        for (given, option, what, needed) in [
            (self.topology.is_some(), "--topology", "tree", Structure::Tree),
            (self.quorums.is_some(), "--quorums", "quorums", Structure::Quorums),
        ] {
            if given && structure != needed {
                let all = registry::ALGORITHMS.iter().filter(|about| about.structure == needed);
                let all: Vec<_> = all.map(|about| about.name).collect();
                return Err(usage(format!(
                    "{option} means nothing to {algorithm}, which takes no {what}; it is for {}",
                    all.join(", ")
                )));
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
                    "--with {key}={value} and --with {option}: give one of them"
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
        Ok(_) | Err(_) => {
            Err(format!("a whole number is wanted, at least 1 and at most {}", u32::MAX))
        }
    }
}

/// Reads a whole number.
pub(crate) fn whole(text: &str) -> Result<u64, String> {
    text.trim().parse().map_err(|_| format!("a whole number is wanted, from 0 to {}", u64::MAX))
}

/// Reads a whole number of at least 1.
pub(crate) fn positive(text: &str) -> Result<u64, String> {
    let wanted = || format!("a whole number is wanted, at least 1 and at most {}", u64::MAX);
    text.trim().parse().ok().filter(|&number| number > 0).ok_or_else(wanted)
}

/// Reads the number of a process, or another small one.
pub(crate) fn number(text: &str) -> Result<u32, String> {
    text.trim().parse().map_err(|_| format!("a whole number is wanted, from 0 to {}", u32::MAX))
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
            format!("sets: `{path}` is none of the sets with a name, and no file to read")
        })
        .map_err(|error| usage(format!("{error:#}")))?;
    SetsOf::parse(&text).map_err(|error| usage(format!("{path}: {error}")))
}

fn quorums(kind: &str) -> Result<QuorumKind> {
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
            format!("`{path}` is none of line, star, binary, kary:K, and no file to read")
        })
        .map_err(|error| usage(format!("{error:#}")))?;
    let mut edges = Vec::new();
    for (number, line) in lines::said(&text) {
        let ends: Vec<_> = line.split_whitespace().map(str::parse).collect();
        match ends.as_slice() {
            [Ok(a), Ok(b)] => edges.push((NodeId(*a), NodeId(*b))),
            _ => {
                return Err(usage(format!(
                    "{path}:{number}: an edge is two process numbers, `{line}` is not"
                )));
            }
        }
    }
    Ok(Topology::Edges(edges))
}

/// The shape of a tree as it is told; edges came from a file.
pub(crate) fn show_topology(topology: &Topology) -> Cow<'static, str> {
    match topology {
        Topology::Edges(_) => "of a file".into(),
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
            inside: false,
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
    fn a_name_of_sets_is_no_file_and_a_file_that_is_not_there_is_bad_usage() {
        assert_eq!(arguments("sets=central").setup("sanders", 5).unwrap().sets, None);
        let refusal = arguments("sets=/no/such/file").setup("sanders", 5).unwrap_err();
        assert!(refusal.downcast_ref::<crate::exit::Usage>().is_some());
        assert!(refusal.to_string().contains("`/no/such/file`"), "{refusal}");
    }
}
