//! Redis: `SET NX PX` with a token of one's own, and a script that deletes it only if it is still
//! ours. Who does not get it polls, or waits on a list as python-redis-lock does.

use std::time::Duration;

use anyhow::Result;
use redis::{AsyncConnectionConfig, Script, aio::MultiplexedConnection, cmd};

use super::Dice;

/// The lock's lease, in milliseconds: longer than any stay.
pub(super) const LEASE_MS: u64 = 30_000;

/// Between two attempts of a client that polls. Clients of today wait 100 ms or more; a short pause
/// favours Redis.
const PAUSE: Duration = Duration::from_millis(1);

/// How to wait.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Wait {
    /// Try again after a pause.
    Poll,
    /// Block on a list to which a release pushes.
    List,
}

/// A connection of its own and the lock's keys.
pub(crate) struct Redis {
    connection: MultiplexedConnection,
    wait: Wait,
    dice: Dice,
    release: Script,
    key: String,
    signal: String,
    token: u64,
}

pub(super) const RELEASE: &str =
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";

const RELEASE_AND_TELL: &str = "
if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('del', KEYS[2])
redis.call('lpush', KEYS[2], 1)
redis.call('pexpire', KEYS[2], ARGV[2])
return redis.call('del', KEYS[1])";

pub(super) async fn connection(endpoint: &str) -> Result<MultiplexedConnection> {
    let client = redis::Client::open(format!("redis://{endpoint}/"))?;
    // Waiting on a list takes as long as it takes.
    let config = AsyncConnectionConfig::new().set_response_timeout(None);
    Ok(client.get_multiplexed_async_connection_with_config(&config).await?)
}

impl Redis {
    pub(crate) async fn connect(endpoint: &str, wait: Wait) -> Result<Self> {
        let script = if wait == Wait::Poll { RELEASE } else { RELEASE_AND_TELL };
        Ok(Self {
            connection: connection(endpoint).await?,
            wait,
            dice: Dice::new(),
            release: Script::new(script),
            key: String::new(),
            signal: String::new(),
            token: 0,
        })
    }

    async fn try_lock(&mut self) -> Result<bool> {
        let mut set = cmd("SET");
        set.arg(&self.key).arg(self.token).arg("NX").arg("PX").arg(LEASE_MS);
        Ok(set.query_async::<Option<String>>(&mut self.connection).await?.is_some())
    }

    async fn pause(&mut self) -> Result<()> {
        if self.wait == Wait::Poll {
            tokio::time::sleep(PAUSE).await;
            return Ok(());
        }
        let mut wait = cmd("BLPOP");
        wait.arg(&self.signal).arg(LEASE_MS / 1000);
        wait.query_async::<Option<(String, String)>>(&mut self.connection).await?;
        Ok(())
    }
}

impl super::Lock for Redis {
    async fn name(&mut self, name: &str) -> Result<()> {
        self.key = format!("lock:{name}");
        self.signal = format!("signal:{name}");
        Ok(())
    }

    async fn lock(&mut self) -> Result<()> {
        self.token = self.dice.next();
        while !self.try_lock().await? {
            self.pause().await?;
        }
        Ok(())
    }

    async fn unlock(&mut self) -> Result<()> {
        let mut script = self.release.key(&self.key);
        if self.wait == Wait::List {
            script.key(&self.signal);
        }
        script.arg(self.token).arg(LEASE_MS);
        script.invoke_async::<()>(&mut self.connection).await?;
        Ok(())
    }
}
