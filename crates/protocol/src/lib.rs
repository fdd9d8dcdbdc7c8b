//! A node of Mutua without its I/O: the lock table, waiters, the links' bookkeeping, and views.
//!
//! Like the algorithms, the [`Protocol`] has no clock, no sockets, no threads. A driver
//! (`mutua-node`) calls it with events and the time, and carries out the results: [`Effect`]s,
//! bytes to write to peers, the time of the next call. So whole nodes run in a test, on a network
//! and with clocks of the test's own, faults included; see `tests/`.
//!
//! The modules:
//!
//! - `protocol/clients.rs`: clients request a lock, wait, release; `protocol/tries.rs`: requests
//!   that do not wait;
//! - `protocol/locks.rs`: the processes of a lock's algorithm run, their messages are sent, lazy
//!   ones are paced;
//! - `protocol/peers.rs` over `link.rs`: connections open and close, frames arrive;
//! - `protocol/views.rs`: the node leaves and installs views; `protocol/decider.rs`: the seam
//!   behind which views are decided; `protocol/fixed_list.rs`: its first implementation;
//!   `protocol/decided.rs`: the view layer of `views/`, for views that consensus decides;
//! - `protocol/idle_cleanup.rs`: the state of unused names is removed, at all members or at none;
//! - `protocol/records.rs`: holds of clients outside the process are recorded, and taken over;
//! - `protocol/reclaim.rs`: clients that outlived their node reclaim their locks;
//! - `protocol/refusals.rs`: messages that no correct member sends are refused;
//! - `protocol/calls.rs`: the program around one node calls that around another;
//! - `protocol/tracing.rs`: the events of one lock are written as a trace;
//! - `protocol/figures.rs`: figures for monitors.

mod effect;
mod link;
mod machine;
mod member;
mod moment;
mod pattern;
mod plan;
mod protocol;
mod settings;
mod status;
mod table;
mod view;
pub mod views;
mod wire;

pub use effect::{Answer, Effect, Level, Refusal, TraceId, TraceLine};
pub use link::Connection;
pub use member::{Member, digest};
pub use moment::Moment;
pub use pattern::Pattern;
pub use plan::{DEFAULT_ALGORITHM, Plan, PlanError, Rule, RuleError, usable};
pub use protocol::{
    CallId, Caller, ClientHold, Figures, MAX_CALL, Protocol, ProtocolConfig, Rejected, ViewSource,
    decode_rules, encode_rules,
};
pub use settings::Limits;
pub use status::{HolderStatus, LinkStatus, LockStatus, Status, ViewStatus, WaiterStatus};
pub use table::{Counts, LockId, Owner, Ticket};
pub use view::Name;
pub use wire::{Hello, HelloRefused, MAX_NAME, VERSION, WireError};
