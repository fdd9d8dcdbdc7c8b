//! The commands that study algorithms, as a user runs them.

mod check;
mod choose;
mod compare;
mod docs;
mod lab;
mod memory;
mod open_load;
mod pictures;
mod pipe;
mod quorums;
mod repairs;
mod replay;
mod simulate;
