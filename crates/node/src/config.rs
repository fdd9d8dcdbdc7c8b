//! The configuration of a node, as a value or as a file.
//!
//! ```toml
//! cluster = "demo"
//! node = "a"                    # this member's name
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
//! [tls]                         # mutual TLS; needed where other machines can connect
//! ca = "tls/ca.crt"
//! cert = "tls/a.crt"
//! key = "tls/a.key"
//!
//! [[access]]                    # the first that matches client and name decides
//! clients = ["user:deploy", "group:ops"]
//! names = "deploy/*"
//! allow = ["acquire", "list"]
//!
//! [limits]
//! view_lease = "1.5s"           # a lost member is replaced after this long
//! longest_lease = "10m"         # of a client outside the node's process
//! run = 16                      # clients of one node in a row, while others wait
//! at_once = 128                 # grants without waiting before the links are read
//! lost_after = "2s"
//! ```

mod access;
mod durations;
mod file;
mod keys;
mod overrides;
mod rules;
mod tls;

use std::{io, net::SocketAddr, path::PathBuf, time::Duration};

use mutua_algorithms::{About, Structure, UnknownName, durations::InvalidDuration, registry};
use mutua_protocol::{
    Limits, Plan, PlanError, Rule, RuleError,
    views::{Levels, MAX_VOTERS, Role, ViewSettings},
};
use mutua_tls::{TlsError, TlsFiles};

use crate::{TraceConfig, identity::IdentityFile};
pub use access::{AccessRule, Action, ClientPattern};
pub use keys::{CONFIG_KEYS, ConfigKey, KeyDefault};
pub use rules::{parse_rules, rules_text};

/// The name of a node that runs alone without a configuration, where that of a cluster is needed
/// too.
pub(crate) const ALONE: &str = "alone";

/// The default length of a view lease.
pub const VIEW_LEASE: Duration = Duration::from_millis(1500);

/// The default of the longest lease.
pub const LONGEST_LEASE: Duration = Duration::from_secs(600);

/// The shortest view lease: clocks and schedulers are no better than this.
const SHORTEST_LEASE: Duration = Duration::from_millis(300);

/// The most members that vote.
pub(crate) const VOTERS: usize = MAX_VOTERS;

/// The configuration of a node.
#[derive(Clone, Debug)]
pub struct Config {
    /// The cluster's name; nodes of different clusters refuse each other.
    pub cluster: String,
    /// This member's name.
    pub node: String,
    /// All members, in the same order at each of them.
    pub members: Vec<MemberConfig>,
    /// Whether the node is a member of a cluster though it lists no other member. Without it, and
    /// without a data directory that says so, such a node runs alone.
    pub clustered: bool,
    /// The address to listen on, if it differs from this member's address in the list: a proxy or
    /// a router forwards the one to the other.
    pub listen: Option<String>,
    /// The node's data directory, with the epoch of its last view. It belongs to this node alone.
    pub data: PathBuf,
    /// The Unix socket where a server around the node serves clients; `None`: in the data
    /// directory.
    pub socket: Option<PathBuf>,
    /// The algorithm of each name; the first rule that fits serves it.
    pub rules: Vec<Rule>,
    /// What clients of a server around the node may do. Without rules: the node's user and root,
    /// everything; clients over TCP, everything but break a lock of another certificate.
    pub access: Vec<AccessRule>,
    /// Limits and times.
    pub limits: Limits,
    /// The length of a view lease: how long a member goes on granting locks when it reaches no
    /// majority of the voters, and how long the others wait before they go on without it. The same
    /// at every member.
    pub view_lease: Duration,
    /// The longest lease of a client outside the node's process: a longer one that is requested
    /// becomes this long. After a crash of all members that keep records, grants wait for it.
    pub longest_lease: Duration,
    /// This member holds the level of the protocol down to this one.
    pub highest_level: u16,
    /// The certificates for mutual TLS, if it is used.
    pub tls: Option<TlsFiles>,
    /// Without TLS, accept addresses off this machine, though links are neither encrypted nor
    /// authenticated.
    pub insecure: bool,
    /// Where a server around the node serves metrics.
    pub metrics_listen: Option<SocketAddr>,
    /// Whether those metrics name locks.
    pub metrics_names: bool,
    /// Where a server around the node writes grants, releases and losses, as JSON lines.
    pub audit: Option<PathBuf>,
    /// The least level of what a program around the node logs.
    pub log_level: LogLevel,
    /// Write the trace of a lock.
    pub trace: Option<TraceConfig>,
    /// The file that it was read from.
    pub file: Option<PathBuf>,
}

/// A level of a log.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum LogLevel {
    /// Everything.
    #[default]
    Info,
    /// Warnings and errors.
    Warn,
    /// Errors only.
    Error,
}

/// A member of the cluster.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct MemberConfig {
    /// Its name.
    pub name: String,
    /// The address where it accepts the other members: host and port.
    pub address: String,
    /// What it takes part in. Of the members without a role the first vote, up to five voters in
    /// all, and the others follow.
    pub role: Option<Role>,
}

impl MemberConfig {
    /// A member without a role of its own.
    pub fn new(name: impl Into<String>, address: impl Into<String>) -> Self {
        Self { name: name.into(), address: address.into(), role: None }
    }
}

/// An invalid configuration.
#[derive(Debug, thiserror::Error)]
#[error("{}{problem}", at.as_deref().map(|at| format!("{at}: ")).unwrap_or_default())]
pub struct ConfigError {
    /// File and line, where there is one.
    pub at: Option<String>,
    /// What is wrong, and what to do.
    pub problem: ConfigProblem,
}

/// What is wrong with a configuration.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigProblem {
    /// The file cannot be read.
    #[error("the configuration cannot be read: {0}")]
    Unreadable(#[from] io::Error),
    /// The file is not TOML, or has unknown or missing keys.
    #[error("{0}")]
    Syntax(String),
    /// The list of members is empty.
    #[error("a cluster has at least one member")]
    NoMembers,
    /// A member has no name.
    #[error("the name of a member is empty")]
    NoMemberName,
    /// Two members have the same name.
    #[error("two members have the name `{0}`")]
    SameName(String),
    /// Two members have the same address.
    #[error("two members have the address {0}")]
    SameAddress(String),
    /// The node's name is not in the list.
    #[error("`{node}` is none of the members: {members}")]
    NotAMember {
        /// The name of the node.
        node: String,
        /// The names of the members.
        members: String,
    },
    /// A rule cannot be followed.
    #[error(transparent)]
    Rule(#[from] RuleError),
    /// An address has no port.
    #[error("invalid address `{0}`: use HOST:PORT")]
    Address(String),
    /// The other members cannot connect to port 0.
    #[error("invalid address `{0}`: the other members need a port, 1 to 65535")]
    NoPort(String),
    /// The cluster has no name.
    #[error("the name of the cluster is empty")]
    NoClusterName,
    /// The address for monitors is invalid.
    #[error("invalid metrics_listen `{0}`: use PORT, which is on loopback, or ADDRESS:PORT")]
    MetricsListen(String),
    /// The level of the log is unknown.
    #[error("invalid log_level `{0}`: use info, warn or error")]
    LogLevel(String),
    /// The value of a variable that overrides a key is invalid.
    #[error("invalid {variable} `{value}`: use a {kind}")]
    Variable {
        /// The variable.
        variable: String,
        /// Its value.
        value: String,
        /// What its value must be, behind an article.
        kind: &'static str,
    },
    /// A variable is called as those that override a key, and overrides none.
    #[error("unknown variable `{variable}`: {}", meant(nearest.as_deref()))]
    UnknownVariable {
        /// The variable.
        variable: String,
        /// The variable that was meant, if it is known.
        nearest: Option<String>,
    },
    /// A topology is unknown.
    #[error("{0}, or a list of edges [[0, 1], ...]")]
    Topology(UnknownName),
    /// A kind of quorums is unknown.
    #[error(transparent)]
    Quorums(UnknownName),
    /// A key has no meaning for the algorithm of its rule.
    #[error("{algorithm} uses no {key}: `{key}` applies to {}", using(*used))]
    UnusedKey {
        /// The key.
        key: &'static str,
        /// The algorithm's name.
        algorithm: String,
        /// What the key describes.
        used: Structure,
    },
    /// A duration cannot be read.
    #[error(transparent)]
    Duration(#[from] InvalidDuration),
    /// A duration is 0.
    #[error("invalid duration `{0}`: it must be more than 0")]
    ZeroDuration(String),
    /// A number is 0.
    #[error("invalid {key} 0: it must be at least 1")]
    ZeroLimit {
        /// The key in the table of limits.
        key: &'static str,
    },
    /// Too many members vote, or none.
    #[error("{0} members vote: a cluster has 1 to {VOTERS} voters, witnesses included")]
    Voters(usize),
    /// No member holds locks.
    #[error("all members are witnesses: at least one must hold locks")]
    OnlyWitnesses,
    /// A role is unknown.
    #[error("invalid role `{0}`: use voter, follower or witness")]
    Role(String),
    /// A client in a rule for access cannot be read.
    #[error("invalid client `{0}`: use *, user:NAME, group:NAME or cert:NAME")]
    AccessClient(String),
    /// A rule for access applies to no client.
    #[error("a rule for access needs at least one client")]
    NoClients,
    /// An action in a rule for access is unknown.
    #[error("invalid action `{0}`: use acquire, list or break")]
    AccessAction(String),
    /// The certificates cannot be used.
    #[error("`{key}` in [tls]: {error}")]
    Certificates {
        /// The key of the file that cannot be used.
        key: &'static str,
        /// The reason, with the file.
        error: TlsError,
    },
    /// The view lease is too short.
    #[error("invalid view_lease: it must be at least {SHORTEST_LEASE:?}")]
    ViewLease,
    /// Links would be taken for lost between two heartbeats.
    #[error("lost_after must be longer than heartbeat")]
    LostBeforeHeartbeat,
}

/// What to do about an unknown variable.
fn meant(nearest: Option<&str>) -> String {
    match nearest {
        Some(nearest) => format!("did you mean `{nearest}`?"),
        None => "MUTUA_NODE_KEY overrides a key of the file, and `mutua config keys` lists them"
            .to_owned(),
    }
}

/// The algorithms of nodes that run on this structure.
fn using(structure: Structure) -> String {
    let uses = |about: &&&About| about.structure == structure && !about.control;
    let names: Vec<_> = registry::ALGORITHMS.iter().filter(uses).map(|about| about.name).collect();
    names.join(", ")
}

/// The part of a configuration that an error is about.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Part {
    Node,
    Members,
    Member(usize),
    Lock(usize),
    ViewLease,
}

impl Config {
    /// One node alone: no network, and defaults for everything else.
    pub fn alone(data: impl Into<PathBuf>) -> Self {
        let name = ALONE.to_owned();
        Self {
            cluster: name.clone(),
            node: name.clone(),
            members: vec![MemberConfig::new(name, String::new())],
            clustered: false,
            listen: None,
            data: data.into(),
            socket: None,
            rules: Vec::new(),
            access: Vec::new(),
            limits: Limits::default(),
            view_lease: VIEW_LEASE,
            longest_lease: LONGEST_LEASE,
            highest_level: Levels::HERE.newest,
            tls: None,
            insecure: false,
            metrics_listen: None,
            metrics_names: false,
            audit: None,
            log_level: LogLevel::Info,
            trace: None,
            file: None,
        }
    }

    /// The roles of the members.
    pub(crate) fn roles(&self) -> Vec<Role> {
        let named = self.members.iter().filter_map(|member| member.role);
        let mut left = VOTERS.saturating_sub(named.filter(|role| role.votes()).count());
        let role = |member: &MemberConfig| {
            member.role.unwrap_or_else(|| match left {
                0 => Role::Follower,
                _ => {
                    left -= 1;
                    Role::Voter
                }
            })
        };
        self.members.iter().map(role).collect()
    }

    /// Whether the node is or shall be a member of a cluster: its configuration says so, or its
    /// data directory. Otherwise it runs alone.
    pub fn is_clustered(&self) -> bool {
        self.names_a_cluster() || IdentityFile::new(&self.data).exists()
    }

    /// Whether the configuration says that the node is or shall be a member of a cluster, whatever
    /// its data directory holds.
    pub(crate) fn names_a_cluster(&self) -> bool {
        self.clustered || self.members.len() > 1
    }

    /// The times of the view layer.
    pub(crate) fn view_settings(&self) -> ViewSettings {
        let lease = self.view_lease;
        let mut settings = ViewSettings { lease, ..ViewSettings::default() };
        settings.lost_after = settings.full_lease();
        settings.heartbeat = settings.heartbeat.min(lease / 5);
        settings.add_after = settings.add_after.min(lease);
        settings.levels = Levels::HERE.up_to(self.highest_level);
        settings
    }

    /// Checks the configuration; returns the plan and this node's index among the members.
    pub(crate) fn check(&self) -> Result<(Plan, usize), ConfigError> {
        self.check_parts().map_err(|(_, problem)| ConfigError { at: None, problem })
    }

    fn check_parts(&self) -> Result<(Plan, usize), (Part, ConfigProblem)> {
        if self.members.is_empty() {
            return Err((Part::Members, ConfigProblem::NoMembers));
        }
        if self.cluster.is_empty() {
            return Err((Part::Node, ConfigProblem::NoClusterName));
        }
        for (index, member) in self.members.iter().enumerate() {
            if member.name.is_empty() {
                return Err((Part::Member(index), ConfigProblem::NoMemberName));
            }
            let earlier = &self.members[..index];
            if earlier.iter().any(|other| other.name == member.name) {
                let problem = ConfigProblem::SameName(member.name.clone());
                return Err((Part::Member(index), problem));
            }
            if self.members.len() > 1 && earlier.iter().any(|one| one.address == member.address) {
                let problem = ConfigProblem::SameAddress(member.address.clone());
                return Err((Part::Member(index), problem));
            }
            if member.name != self.node && member.address.ends_with(":0") {
                let problem = ConfigProblem::NoPort(member.address.clone());
                return Err((Part::Member(index), problem));
            }
        }
        let Some(me) = self.members.iter().position(|member| member.name == self.node) else {
            let names: Vec<_> = self.members.iter().map(|member| member.name.as_str()).collect();
            let (node, members) = (self.node.clone(), names.join(", "));
            return Err((Part::Node, ConfigProblem::NotAMember { node, members }));
        };
        let roles = self.roles();
        let voters = roles.iter().filter(|role| role.votes()).count();
        if !(1..=VOTERS).contains(&voters) {
            return Err((Part::Members, ConfigProblem::Voters(voters)));
        }
        if !roles.iter().any(|role| role.holds_locks()) {
            return Err((Part::Members, ConfigProblem::OnlyWitnesses));
        }
        if self.view_lease < SHORTEST_LEASE {
            return Err((Part::ViewLease, ConfigProblem::ViewLease));
        }
        let count = u32::try_from(self.members.len()).unwrap_or(u32::MAX);
        let plan = Plan::new(count, &self.rules);
        let plan = plan.map_err(|PlanError { rule, why }| (Part::Lock(rule), why.into()))?;
        for (index, rule) in self.rules.iter().enumerate() {
            unused_key(rule).map_or(Ok(()), |problem| Err((Part::Lock(index), problem)))?;
        }
        Ok((plan, me))
    }
}

/// A key that is set to something and changes nothing: another algorithm was meant.
fn unused_key(rule: &Rule) -> Option<ConfigProblem> {
    let plain = Rule::new("*", rule.algorithm.clone());
    let structure = registry::about(&rule.algorithm)?.structure;
    let on_quorums = matches!(structure, Structure::Quorums | Structure::Sets);
    let (key, used) = match () {
        () if rule.quorums != plain.quorums && !on_quorums => ("quorums", Structure::Quorums),
        () if rule.topology != plain.topology && structure != Structure::Tree => {
            ("topology", Structure::Tree)
        }
        () => return None,
    };
    Some(ConfigProblem::UnusedKey { key, algorithm: rule.algorithm.clone(), used })
}
