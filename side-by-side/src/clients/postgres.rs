//! PostgreSQL's advisory locks of a session, by prepared statements.

use std::hash::{DefaultHasher, Hash, Hasher};

use anyhow::Result;
use tokio_postgres::{Client, NoTls, Statement};

/// A session.
pub(crate) struct Postgres {
    client: Client,
    lock: Statement,
    unlock: Statement,
    key: i64,
}

impl Postgres {
    pub(crate) async fn connect(endpoint: &str) -> Result<Self> {
        let (host, port) = endpoint.rsplit_once(':').unwrap_or((endpoint, "5432"));
        let parameters = format!("host={host} port={port} user=postgres dbname=postgres");
        let (client, connection) = tokio_postgres::connect(&parameters, NoTls).await?;
        tokio::spawn(connection);
        let lock = client.prepare("SELECT pg_advisory_lock($1)").await?;
        let unlock = client.prepare("SELECT pg_advisory_unlock($1)").await?;
        Ok(Self { client, lock, unlock, key: 0 })
    }
}

impl super::Lock for Postgres {
    async fn name(&mut self, name: &str) -> Result<()> {
        // The same in every process: it has no random keys.
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        self.key = hasher.finish().cast_signed();
        Ok(())
    }

    async fn lock(&mut self) -> Result<()> {
        self.client.execute(&self.lock, &[&self.key]).await?;
        Ok(())
    }

    async fn unlock(&mut self) -> Result<()> {
        self.client.execute(&self.unlock, &[&self.key]).await?;
        Ok(())
    }
}
