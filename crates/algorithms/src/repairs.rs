//! Repairs: layers around the algorithms that let the survivors of a crash go on.
//!
//! An algorithm's rules know no crash. A repair is a third kind beside mutual exclusion and
//! elections: it is driven like both, and its [`Outbox`] holds the effects of both.

mod changes;
mod elector;
mod generic;
mod message;
mod outbox;
mod plan;

pub use changes::Changes;
pub use elector::{ElectionName, ElectorMessage};
pub use generic::Generic;
pub use message::{Hop, Purpose, RepairMessage, Report, View};
pub use outbox::{Effect, Outbox};
pub use plan::{Plan, has_special, with_special};
