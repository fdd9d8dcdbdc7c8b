//! Distributed mutual exclusion and election, each algorithm once, as a pure state machine.
//!
//! Events come in as calls, effects go out through an [`Outbox`]. There is no real clock, no random
//! number, no I/O and no thread in here, so the same code is simulated, model-checked, drawn and
//! run between real machines.
//!
//! Begin with [`Mutex`], the trait, and [`mutexes::RicartAgrawala`], the shortest algorithm;
//! [`Process`] is what a driver drives, and [`registry`] lists all algorithms.

mod about;
mod clock;
mod costs;
mod describe;
pub mod durations;
mod election;
pub mod elections;
mod inspect;
mod message;
mod mutex;
pub mod mutexes;
mod names;
mod node;
mod outbox;
mod process;
pub mod properties;
mod quorums;
pub mod registry;
mod renaming;
pub mod repairs;
pub mod self_stabilizing;
mod sets;
pub mod split_mix;
mod start;
mod topology;

pub use about::{
    About, Choice, Claim, Kind, Links, Other, Partners, StatedInvariant, Structure, Variant,
};
pub use clock::{FencingToken, Stamp, Time};
pub use costs::{
    Circumstances, Cost, Costs, CostsWith, ElectionCost, Formula, Meaning, Parameters,
};
pub use describe::{Fields, Value};
pub use election::{Election, Timer, Wait};
pub use inspect::{ClaimAt, Inspect, Phase, SpecialRepair};
pub use message::Message;
pub use mutex::Mutex;
pub use names::UnknownName;
pub use node::{NodeId, NodeSet};
pub use outbox::{Effect, ElectionEffect, ElectionOutbox, Outbox};
pub use process::Process;
pub use quorums::{QuorumKind, QuorumViolation, Quorums};
pub use renaming::Renaming;
pub use sets::{LineError, ParseSetsError, SetsError, SetsOf};
pub use start::{Settings, Setup, Shared, Start, StartError};
pub use topology::{Topology, Tree};
