//! etcd's lock service. The same code speaks with an etcd and with nodes of Mutua.

use std::time::Duration;

use anyhow::{Result, anyhow};
use mutua_client::{
    connect,
    proto::{
        etcdserverpb::{LeaseGrantRequest, lease_client::LeaseClient},
        v3lockpb::{LockRequest, UnlockRequest, lock_client::LockClient},
    },
};
use tonic::transport::Channel;

/// Longer than any run, so that no renewal disturbs it.
const TTL_SECONDS: i64 = 600;

/// A client with its lease.
#[derive(Debug)]
pub(crate) struct Grpc {
    locks: LockClient<Channel>,
    lease: i64,
    name: Vec<u8>,
    key: Vec<u8>,
    revision: u64,
}

impl Grpc {
    /// Connects; asks for a lease until there is one, since a young cluster has no leader yet.
    pub(crate) async fn connect(endpoint: &str) -> Result<Self> {
        loop {
            match Self::try_connect(endpoint).await {
                Ok(client) => return Ok(client),
                // The driver bounds the whole.
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    }

    async fn try_connect(endpoint: &str) -> Result<Self> {
        let channel = connect(endpoint).await.map_err(|why| anyhow!(why))?;
        let mut leases = LeaseClient::new(channel.clone());
        let request = LeaseGrantRequest { ttl: TTL_SECONDS, id: 0 };
        let lease = leases.lease_grant(request).await?.into_inner().id;
        let locks = LockClient::new(channel);
        Ok(Self { locks, lease, name: Vec::new(), key: Vec::new(), revision: 0 })
    }
}

impl super::Lock for Grpc {
    async fn name(&mut self, name: &str) -> Result<()> {
        self.name = name.as_bytes().to_vec();
        Ok(())
    }

    async fn lock(&mut self) -> Result<()> {
        let request = LockRequest { name: self.name.clone(), lease: self.lease };
        let response = self.locks.lock(request).await?.into_inner();
        self.revision = response.header.map_or(0, |header| header.revision.unsigned_abs());
        self.key = response.key;
        Ok(())
    }

    async fn unlock(&mut self) -> Result<()> {
        self.locks.unlock(UnlockRequest { key: std::mem::take(&mut self.key) }).await?;
        Ok(())
    }

    fn fencing_token(&self) -> u64 {
        self.revision
    }
}
