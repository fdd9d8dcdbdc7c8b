//! The consensus engine under faults, in one process and in tokio's paused time.
//!
//! openraft draws its election timeouts itself, so a run cannot be replayed. Bounds are of virtual
//! time and wide.

mod cluster;
mod crashes;
mod disk;
mod failover;
mod judge;
mod killed;
mod membership;
mod partitions;
mod random;
mod snapshots;
mod storage;
mod switch;
