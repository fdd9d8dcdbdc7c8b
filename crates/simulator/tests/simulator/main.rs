//! The simulator's tests, one binary: linking takes longer than compiling them.

mod controls;
mod elections;
mod repairs;
mod reproducible;
mod sections;
mod theory;
mod workloads;
