//! The ways to get a lock, behind one trait, so that all are measured by the same loop.

mod client;
mod flock;
mod grpc;
mod library;
mod limits;
mod postgres;
mod redis;
mod redlock;
mod zookeeper;

pub(crate) use self::{
    client::MutuaClient,
    flock::Flock,
    grpc::Grpc,
    library::{Library, config as library_config},
    limits::{Mutex, Ping, Ring},
    postgres::Postgres,
    redis::{Redis, Wait},
    redlock::Redlock,
    zookeeper::Zookeeper,
};

use anyhow::Result;

/// One contender's way to its lock.
pub(crate) trait Lock: 'static {
    /// Selects the lock. Never called while one is held.
    async fn name(&mut self, name: &str) -> Result<()>;

    /// Waits until the lock is granted.
    async fn lock(&mut self) -> Result<()>;

    /// Releases.
    async fn unlock(&mut self) -> Result<()>;

    /// The fencing token of this entry, where there is one: greater than all earlier ones.
    fn fencing_token(&self) -> u64 {
        0
    }

    /// The time is up: lets contenders go on that would wait for this one for ever.
    async fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Numbers that look random, different in every process; for tokens and pauses.
#[derive(Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new() -> Self {
        use std::hash::{BuildHasher, RandomState};
        Self(RandomState::new().hash_one(std::process::id()) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        // Marsaglia's xorshift.
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}
