//! Mutua's own client: one session, and frames instead of gRPC.

use std::time::Duration;

use anyhow::{Context, Result};
use mutua_client::{Client, Guard, Lock, Options};

/// Longer than any run, so that no renewal disturbs it.
const LEASE: Duration = Duration::from_secs(600);

/// A client and the lock that it uses.
#[derive(Debug)]
pub(crate) struct MutuaClient {
    client: Client,
    lock: Lock,
    guard: Option<Guard>,
}

impl MutuaClient {
    /// Connects as soon as the node serves.
    pub(crate) async fn connect(endpoint: &str) -> Result<Self> {
        loop {
            if let Ok(client) = Options::new([endpoint]).lease(LEASE).connect().await {
                let lock = client.lock("none");
                return Ok(Self { client, lock, guard: None });
            }
            // The driver bounds the whole.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

impl super::Lock for MutuaClient {
    async fn name(&mut self, name: &str) -> Result<()> {
        self.lock = self.client.lock(name);
        Ok(())
    }

    async fn lock(&mut self) -> Result<()> {
        self.guard = Some(self.lock.acquire().await?);
        Ok(())
    }

    /// Drops the guard, as a program does: the release is sent, and its reply is not waited for.
    async fn unlock(&mut self) -> Result<()> {
        self.guard.take().context("not held").map(drop)
    }

    fn fencing_token(&self) -> u64 {
        self.guard.as_ref().map_or(0, Guard::fencing_token)
    }
}
