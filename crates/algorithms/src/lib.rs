//! Distributed mutual exclusion and election, each algorithm once, as a pure state machine.
//!
//! Events come in as calls, effects go out through an [`Outbox`]. There is no clock on the wall, no
//! dice, no I/O, no thread in here, so the same code is simulated, model-checked, drawn and run
//! between real machines.
//!
//! Begin with [`Mutex`], the trait, and [`mutexes::RicartAgrawala`], the shortest algorithm;
//! [`Process`] is what a driver drives, and [`registry`] lists all algorithms.

mod about;
mod clock;
mod describe;
mod election;
pub mod elections;
mod message;
mod mutex;
pub mod mutexes;
mod names;
mod node;
mod outbox;
mod process;
mod quorums;
pub mod registry;
mod renaming;
mod sets;
mod start;
mod topology;

pub use about::{About, Choice, Claim, Costs, Kind, Links, Other, Partners, Structure, Variant};
pub use clock::{Fence, Stamp, Time};
pub use describe::{Fields, Value};
pub use election::{Election, Timer, Wait};
pub use message::Message;
pub use mutex::{Mutex, Phase};
pub use names::UnknownName;
pub use node::{NodeId, NodeSet};
pub use outbox::{Effect, Outbox};
pub use process::Process;
pub use quorums::{QuorumFault, QuorumKind, Quorums};
pub use renaming::Renaming;
pub use sets::{SetsFault, SetsOf};
pub use start::{Settings, Setup, Shared, Start, StartError};
pub use topology::{Topology, Tree};
