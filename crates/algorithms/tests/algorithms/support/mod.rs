//! Support for the tests of all algorithms. The systems themselves are the hand-stepped clusters
//! that scripts are played on, and their violations are found there.

pub(crate) mod electorate;
pub(crate) mod garbage;
pub(crate) mod setups;
pub(crate) mod violation;
pub(crate) mod walk;
