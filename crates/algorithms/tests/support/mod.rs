//! What the tests of all algorithms share.
#![allow(dead_code, unreachable_pub, reason = "every test binary uses a part of it")]

pub mod checks;
pub mod cluster;
pub mod dice;
pub mod electorate;
pub mod garbage;
pub mod network;
pub mod setups;
