//! The tests of all algorithms, one binary: linking takes longer than compiling them. The test
//! `tidy`, which runs without the others, stays apart.

mod election_costs;
mod every_interleaving;
mod interface;
mod lock_files;
mod nonsense;
mod random_elections;
mod random_schedules;
mod repairs;
mod special_cases;
mod support;
