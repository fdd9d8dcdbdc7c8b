//! A node of Mutua without its I/O: the lock table, who waits for what, the links' bookkeeping, and
//! views.
//!
//! Like the algorithms, the [`Brain`] has no clock, no sockets, no threads. A shell (`mutua-node`)
//! tells it what happened by calling it, with the time, and does what it wants done: [`Effect`]s,
//! bytes to write to peers, the time of the next call. So whole nodes run in a test, on a network
//! and with clocks of the test's own, faults included; see `tests/`.
//!
//! What happens where:
//!
//! - a client asks for a lock, waits, leaves: `brain/clients.rs`, and `brain/tries.rs` for asking
//!   without waiting;
//! - a process of a lock's algorithm runs, its messages are sent, lazy ones are paced:
//!   `brain/locks.rs`;
//! - connections come and go, frames arrive: `brain/peers.rs` over `link.rs`;
//! - views form and end: `brain/views.rs`;
//! - names that nobody uses are forgotten, by all or by none: `brain/forget.rs`;
//! - who outlived its node claims what it is inside of: `brain/claims.rs`;
//! - what a peer may not say is refused before it can do harm: `brain/refusals.rs`;
//! - one shell asks another something: `brain/calls.rs`;
//! - what happens to one lock is written down, for whoever wants to see it: `brain/tracing.rs`.

mod brain;
mod effect;
mod link;
mod machine;
mod member;
mod moment;
mod pattern;
mod plan;
mod settings;
mod status;
mod table;
mod view;
mod wire;

pub use brain::{Brain, CallId, Caller, MAX_CALL, Rejected, Seat};
pub use effect::{Answer, Effect, Level, Refusal, TraceLine};
pub use link::Connection;
pub use member::Member;
pub use moment::Moment;
pub use pattern::Pattern;
pub use plan::{DEFAULT_ALGORITHM, Plan, PlanError, Rule, usable};
pub use settings::Limits;
pub use status::{HolderStatus, LinkStatus, LockStatus, Status, WaiterStatus};
pub use table::{Counts, LockId, Owner, Ticket};
pub use view::Name;
pub use wire::{Hello, MAX_NAME, VERSION, WireError};
