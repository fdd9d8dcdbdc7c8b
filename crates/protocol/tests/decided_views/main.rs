//! Whole nodes whose views consensus decides, over a stub of the engine, a network and clocks of
//! the test's own.
//!
//! `seeds.rs` runs worlds that one seed decides, for every algorithm that a node runs; `cases.rs`
//! has single situations, `sizes.rs` those of all sizes of views.

mod cases;
mod churn;
mod clients;
#[path = "../view_layer/engine.rs"]
mod engine;
mod externals;
mod faults;
mod seeds;
mod sizes;
mod wires;
mod world;
