//! The checker's tests, one binary: linking takes longer than compiling them.

mod counts;
mod invariants;
mod mutants;
mod pictures;
mod reduction;
mod refusals;
mod repairs;
mod stateright;
mod table;

#[path = "../support/workspace_copy.rs"]
mod workspace_copy;
