//! What a node is told when it starts, as a value or as a file.
//!
//! ```toml
//! cluster = "demo"
//! node = "a"                    # which of the members this is
//! data = "a"                    # a directory of its own, beside this file
//!
//! [[members]]                   # the same list at every member
//! name = "a"
//! address = "127.0.0.1:7001"
//!
//! [[members]]
//! name = "b"
//! address = "127.0.0.1:7002"
//!
//! [[locks]]                     # the first that fits serves a name; naimi-trehel serves the rest
//! names = "votes/*"
//! algorithm = "maekawa"
//! with = { resolution = "reject" }
//! quorums = "grid"
//!
//! [limits]
//! run = 16                      # clients of one node in a row, while others wait
//! at_once = 128                 # entries without waiting before the links are read
//! lost_after = "2s"
//! ```

mod file;

use std::path::PathBuf;

use mutua_brain::{Limits, Plan, PlanError, Rule};

use crate::TraceConfig;

/// What a node is told when it starts.
#[derive(Clone, Debug)]
pub struct Config {
    /// The cluster's name; nodes of different clusters do not speak.
    pub cluster: String,
    /// Which of the members this is, by name.
    pub node: String,
    /// All members, in the same order at each of them.
    pub members: Vec<MemberConfig>,
    /// The directory where the node keeps the epoch of its last view. It belongs to this node
    /// alone.
    pub data: PathBuf,
    /// Which algorithm serves which names.
    pub rules: Vec<Rule>,
    /// Limits and times.
    pub limits: Limits,
    /// Listen and speak off this machine, with nothing secret or proven on the links.
    pub insecure: bool,
    /// Write down what happens to a lock, in the trace format of all of Mutua.
    pub trace: Option<TraceConfig>,
}

/// A member of the cluster.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct MemberConfig {
    /// Its name.
    pub name: String,
    /// Where it listens for the others: host and port.
    pub address: String,
}

/// What is wrong with a configuration, and what would be right.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{}{why}", place.as_deref().map(|place| format!("{place}: ")).unwrap_or_default())]
pub struct ConfigError {
    /// File and line, where there is one.
    pub place: Option<String>,
    /// What is wrong.
    pub why: String,
}

impl ConfigError {
    fn new(why: impl Into<String>) -> Self {
        Self { place: None, why: why.into() }
    }
}

/// Which part of a configuration an error is about.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Part {
    Node,
    Members,
    Member(usize),
    Lock(usize),
}

impl Config {
    /// One node alone: no network, and everything else by default.
    pub fn alone(data: impl Into<PathBuf>) -> Self {
        let name = "alone".to_owned();
        Self {
            cluster: name.clone(),
            node: name.clone(),
            members: vec![MemberConfig { name, address: String::new() }],
            data: data.into(),
            rules: Vec::new(),
            limits: Limits::default(),
            insecure: false,
            trace: None,
        }
    }

    /// Checks everything; the plan and this node's place among the members.
    pub(crate) fn check(&self) -> Result<(Plan, usize), ConfigError> {
        self.check_parts().map_err(|(_, error)| error)
    }

    fn check_parts(&self) -> Result<(Plan, usize), (Part, ConfigError)> {
        let fail = |part, why: String| Err((part, ConfigError::new(why)));
        if self.members.is_empty() {
            return fail(Part::Members, "a cluster has at least one member".to_owned());
        }
        for (place, member) in self.members.iter().enumerate() {
            let earlier = &self.members[..place];
            if earlier.iter().any(|other| other.name == member.name) {
                let why = format!("two members have the name `{}`", member.name);
                return fail(Part::Member(place), why);
            }
            if self.members.len() > 1 && earlier.iter().any(|one| one.address == member.address) {
                let why = format!("two members have the address {}", member.address);
                return fail(Part::Member(place), why);
            }
        }
        let Some(me) = self.members.iter().position(|member| member.name == self.node) else {
            let names: Vec<_> = self.members.iter().map(|member| member.name.as_str()).collect();
            let why = format!("`{}` is none of the members: {}", self.node, names.join(", "));
            return fail(Part::Node, why);
        };
        let count = u32::try_from(self.members.len()).unwrap_or(u32::MAX);
        match Plan::new(count, &self.rules) {
            Ok(plan) => Ok((plan, me)),
            Err(PlanError { rule, why }) => fail(Part::Lock(rule), why),
        }
    }
}
