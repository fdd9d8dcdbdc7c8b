//! Redlock, as Redis' documentation describes it: the holder is the client that has the lock at a
//! majority of independent servers; a client without a majority releases all and tries again after
//! a random pause.

use std::time::Duration;

use anyhow::Result;
use redis::{Script, aio::MultiplexedConnection, cmd};
use tokio::task::JoinSet;

use super::{
    Dice,
    redis::{LEASE_MS, RELEASE, connection},
};

/// The pause is up to this long. Clients of today wait 100 to 400 ms; a short pause favours
/// Redlock.
const PAUSE_US: u64 = 4000;

/// Connections to all servers.
pub(crate) struct Redlock {
    servers: Vec<MultiplexedConnection>,
    dice: Dice,
    release: Script,
    key: String,
    token: u64,
}

impl Redlock {
    pub(crate) async fn connect(endpoints: &[String]) -> Result<Self> {
        let mut servers = Vec::new();
        for endpoint in endpoints {
            servers.push(connection(endpoint).await?);
        }
        let (dice, release) = (Dice::new(), Script::new(RELEASE));
        Ok(Self { servers, dice, release, key: String::new(), token: 0 })
    }

    async fn try_lock(&self) -> Result<bool> {
        let mut asks = JoinSet::new();
        for server in &self.servers {
            let (mut server, key, token) = (server.clone(), self.key.clone(), self.token);
            asks.spawn(async move {
                let mut set = cmd("SET");
                set.arg(key).arg(token).arg("NX").arg("PX").arg(LEASE_MS);
                set.query_async::<Option<String>>(&mut server).await
            });
        }
        let mut votes = 0;
        while let Some(answer) = asks.join_next().await {
            votes += usize::from(answer??.is_some());
        }
        Ok(votes > self.servers.len() / 2)
    }

    async fn release_all(&self) -> Result<()> {
        let mut asks = JoinSet::new();
        for server in &self.servers {
            let (mut server, script) = (server.clone(), self.release.clone());
            let (key, token) = (self.key.clone(), self.token);
            asks.spawn(
                async move { script.key(key).arg(token).invoke_async::<()>(&mut server).await },
            );
        }
        while let Some(answer) = asks.join_next().await {
            answer??;
        }
        Ok(())
    }
}

impl super::Lock for Redlock {
    async fn name(&mut self, name: &str) -> Result<()> {
        self.key = format!("lock:{name}");
        Ok(())
    }

    async fn lock(&mut self) -> Result<()> {
        self.token = self.dice.next();
        while !self.try_lock().await? {
            self.release_all().await?;
            let pause = self.dice.next() % PAUSE_US;
            tokio::time::sleep(Duration::from_micros(pause)).await;
        }
        Ok(())
    }

    async fn unlock(&mut self) -> Result<()> {
        self.release_all().await
    }
}
