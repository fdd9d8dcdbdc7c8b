//! `mutua quorums`: prints quorums, their properties and a picture.

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Result;
use clap::Args;
use mutua_algorithms::{NodeId, QuorumKind, QuorumViolation, Quorums, StartError};
use mutua_lab::quorum_picture;
use serde_json::json;

use crate::{exit::usage, lines, picture, system, words::counted};

/// Show quorums, and which of Maekawa's four properties they have.
///
/// Exit code 1: two quorums do not meet, or a process is not in its own.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Number of processes.
    #[arg(long, value_name = "N", default_value_t = 9, allow_hyphen_values = true,
          value_parser = system::count)]
    nodes: u32,

    /// Kind of quorums: grid (row and column of a square; formal members that fill it up are left
    /// out), filled-grid (real processes cast the votes of the formal members), plane (lines of a
    /// projective plane), majority, or tree.
    #[arg(long, value_name = "KIND", default_value = "grid")]
    kind: String,

    /// Read the quorums from this file instead, a line for each process, such as 0: 0 1 3.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["nodes", "kind"])]
    file: Option<PathBuf>,

    /// Draw them to this file, a row for each process: SVG, PNG or PDF, by the ending of its name.
    #[arg(long, value_name = "FILE")]
    picture: Option<PathBuf>,

    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// A larger system is not drawn.
const LARGEST_PICTURE: u32 = 200;

/// A larger system is not printed as a matrix.
const LARGEST_MATRIX: u32 = 36;

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let (title, quorums) = match &arguments.file {
        Some(file) => (file.display().to_string(), read(file)?),
        None => {
            let kind: QuorumKind = system::quorums(&arguments.kind)?;
            let quorums = Quorums::new(kind, arguments.nodes).map_err(|why| refused(&why))?;
            (kind.name().to_owned(), quorums)
        }
    };
    let found = Found::new(title, &quorums);
    if let Some(file) = &arguments.picture {
        if quorums.nodes() > LARGEST_PICTURE {
            let most = LARGEST_PICTURE;
            return Err(usage(format!("cannot draw quorums of more than {most} processes")));
        }
        picture::write_svg(file, &quorum_picture::svg(&found.heading(), &quorums))?;
    }
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&found.json())?);
    } else {
        print!("{}", found.text());
    }
    Ok(if found.is_safe() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn refused(why: &StartError) -> anyhow::Error {
    usage(why.to_string())
}

/// Reads `0: 0 1 3`, a line for each process, in any order.
fn read(path: &Path) -> Result<Quorums> {
    let shown = path.display();
    let text =
        fs::read_to_string(path).map_err(|why| usage(format!("cannot read {shown}: {why}")))?;
    let mut sets: Vec<Option<Vec<NodeId>>> = Vec::new();
    for (number, line) in lines::items(&text) {
        let invalid = || {
            usage(format!(
                "{shown}:{number}: invalid quorum `{line}`: give a process and its quorum, such \
                 as 0: 0 1 3"
            ))
        };
        let (of, members) = line.split_once(':').ok_or_else(invalid)?;
        let of: usize = of.trim().parse().map_err(|_| invalid())?;
        let members = members.split_whitespace().map(|member| member.parse().map(NodeId));
        let members: Result<Vec<_>, _> = members.collect();
        if of >= MOST {
            return Err(invalid());
        }
        sets.resize(sets.len().max(of + 1), None);
        if sets[of].replace(members.map_err(|_| invalid())?).is_some() {
            return Err(usage(format!("{shown}:{number}: process {of} has two quorums")));
        }
    }
    if let Some(missing) = sets.iter().position(Option::is_none) {
        return Err(usage(format!("{shown}: process {missing} has no quorum")));
    }
    if sets.is_empty() {
        return Err(usage(format!("{shown}: no quorum: give lines such as 0: 0 1 3")));
    }
    Quorums::from_sets(sets.into_iter().flatten().collect()).map_err(|why| refused(&why))
}

/// The most processes that a file may name.
const MOST: usize = 100_000;

/// Quorums and their properties.
struct Found<'a> {
    title: String,
    quorums: &'a Quorums,
    violations: Vec<QuorumViolation>,
}

/// One of Maekawa's properties: its words, and the violation of it.
type Property = (&'static str, &'static str, fn(&QuorumViolation) -> bool);

const PROPERTIES: [Property; 4] = [
    ("own", "every process is in its own quorum", |one| {
        matches!(one, QuorumViolation::NotInOwn(_))
    }),
    ("meet", "any two quorums meet", |one| matches!(one, QuorumViolation::Disjoint(..))),
    ("size", "all are of one size", |one| matches!(one, QuorumViolation::Size(..))),
    ("duty", "every process is in as many", |one| matches!(one, QuorumViolation::Duty(..))),
];

impl<'a> Found<'a> {
    fn new(title: String, quorums: &'a Quorums) -> Self {
        Self { title, quorums, violations: quorums.violations() }
    }

    /// Whether the algorithm is safe on them: the first two properties.
    fn is_safe(&self) -> bool {
        let unsafe_ = PROPERTIES[..2].iter();
        !unsafe_.into_iter().any(|(_, _, is)| self.violations.iter().any(is))
    }

    fn all(&self) -> impl Iterator<Item = NodeId> {
        (0..self.quorums.nodes()).map(NodeId)
    }

    /// The mean size, K.
    fn size(&self) -> f64 {
        let members: usize = self.all().map(|node| self.quorums.of(node).len()).sum();
        members as f64 / f64::from(self.quorums.nodes())
    }

    fn heading(&self) -> String {
        let (nodes, size) = (self.quorums.nodes(), self.size());
        let even = !self.violations.iter().any(|one| matches!(one, QuorumViolation::Size(..)));
        let size_words = if even { format!("{size}") } else { format!("{size:.2} on average") };
        let constant = size / f64::from(nodes).sqrt();
        format!(
            "{}: {}, quorums of K = {size_words}; K = {constant:.3} sqrt(N)",
            self.title,
            counted(nodes.into(), "process")
        )
    }

    fn text(&self) -> String {
        let mut text = self.heading() + "\n\n";
        let width = self.quorums.nodes().to_string().len().max(7);
        text += &format!("{:>width$}  quorum\n", "process");
        for node in self.all() {
            let members: Vec<_> = self.quorums.of(node).iter().map(ToString::to_string).collect();
            text += &format!("{node:>width$}  {}\n", members.join(" "));
        }
        text.push('\n');
        for (_, words, is) in PROPERTIES {
            let violated: Vec<_> = self.violations.iter().filter(|one| is(one)).collect();
            text += &match violated.first() {
                None => format!("{words}: yes\n"),
                Some(first) if violated.len() == 1 => format!("{words}: NO: {first}\n"),
                Some(first) => {
                    format!("{words}: NO: {first} (and {} more)\n", violated.len() - 1)
                }
            };
        }
        text += "The first two make Maekawa's algorithm safe, the others share its work evenly.\n";
        if self.quorums.nodes() <= LARGEST_MATRIX {
            text += &self.matrix();
        }
        text
    }

    /// A row for each process: its quorum.
    fn matrix(&self) -> String {
        let mut text = format!("\n{:>5} ", "");
        text += &self.all().map(|node| format!("{node:>3}")).collect::<String>();
        text.push('\n');
        for node in self.all() {
            let signs = self.all().map(|member| match self.quorums.contains(node, member) {
                true => "  #",
                false => "  .",
            });
            text += &format!("{node:>5} {}\n", signs.collect::<String>());
        }
        text
    }

    fn json(&self) -> serde_json::Value {
        let quorums: Vec<Vec<u32>> = self
            .all()
            .map(|node| self.quorums.of(node).iter().map(|member| member.0).collect())
            .collect();
        let properties: serde_json::Map<_, _> = PROPERTIES
            .iter()
            .map(|(key, _, is)| {
                let violated: Vec<_> =
                    self.violations.iter().filter(|one| is(one)).map(ToString::to_string).collect();
                ((*key).to_owned(), json!({"holds": violated.is_empty(), "violations": violated}))
            })
            .collect();
        json!({
            "title": self.title,
            "nodes": self.quorums.nodes(),
            "size": self.size(),
            "constant": self.size() / f64::from(self.quorums.nodes()).sqrt(),
            "safe": self.is_safe(),
            "properties": properties,
            "quorums": quorums,
        })
    }
}
