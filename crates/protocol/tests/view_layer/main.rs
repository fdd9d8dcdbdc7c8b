//! Whole view layers over a stub of the consensus engine and a faulty network of the test's own.
//!
//! `seeds.rs` runs worlds that one seed decides; `traps.rs` has the situations that broke earlier
//! designs, one by one; `model.rs` searches the lease and begin rules exhaustively, `exchange.rs`
//! the state exchange and the records.

mod clients;
#[path = "../harness/engine.rs"]
mod engine;
#[path = "../harness/events.rs"]
mod events;
mod exchange;
mod exchange_model;
#[path = "../harness/external.rs"]
mod external;
mod faults;
mod late;
mod locks;
mod model;
mod network;
mod plans;
mod record_traps;
mod search;
mod seeds;
mod traps;
mod world;

use world::Layers as World;
