//! The study of algorithms as a library: scripts and their runner, hand-stepped systems, space-time
//! diagrams, plots, and the measurements of [`compare`] and [`choose`].
//!
//! Nothing here needs a file, a clock or a thread, so that it compiles for a browser too: files are
//! texts that a caller reads and writes, progress is a callback, and a caller that has threads
//! provides them as [`Workers`].

pub mod choose;
mod cluster;
pub mod compare;
pub mod counterexample;
mod daemon;
pub mod diagram;
pub mod durations;
mod election_cluster;
mod examples;
mod network;
pub mod plot;
pub mod quorum_picture;
mod recorder;
mod refusal;
mod repair_cluster;
pub mod reply;
pub mod script;
mod settle;
pub mod size;
mod stage;
pub mod state_graph;
mod svg;
mod timers;
pub mod verdict;
pub mod words;
mod workers;

pub use cluster::{Cluster, Nonsense, Violated};
pub use daemon::DaemonRing;
pub use election_cluster::ElectionCluster;
pub use examples::{EXAMPLES, Example, SOURCES};
pub use network::Which;
pub use refusal::Refusal;
pub use repair_cluster::RepairCluster;
pub use script::{Script, ScriptError, SyntaxError};
pub use svg::escape;
pub use workers::{InTurn, Workers};

// The trace format's types, which most modules here use.
use mutua_trace::{APP, Event, Header, Message, Unit, Values, Views, Watch, What, describe};
