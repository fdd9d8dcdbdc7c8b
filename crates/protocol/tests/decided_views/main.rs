//! Whole nodes whose views consensus decides, over a stub of the engine, a network and clocks of
//! the test's own.
//!
//! `seeds.rs` runs worlds that one seed decides, for every algorithm that a node runs; `cases.rs`
//! has single situations, `sizes.rs` those of all sizes of views.

mod cases;
mod changes;
mod churn;
mod clients;
#[path = "../harness/engine.rs"]
mod engine;
#[path = "../harness/events.rs"]
mod events;
#[path = "../harness/external.rs"]
mod external;
mod externals;
mod faults;
mod promises;
mod rules;
mod seeds;
mod sizes;
mod traps;
mod wires;
mod world;

use world::World;
