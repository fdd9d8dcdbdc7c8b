//! Curator's recipe for an InterProcessMutex on ZooKeeper: an ephemeral sequential node whose name
//! holds a number of one's own, then the list of all; a client that is not the first watches the one
//! before it. The lock's own node is a container, made when it is missing.

use anyhow::Result;
use zookeeper_client::{Acls, Client, CreateMode, Error};

use super::Dice;

/// A session and the lock's nodes.
#[derive(Debug)]
pub(crate) struct Zookeeper {
    client: Client,
    dice: Dice,
    directory: String,
    /// Our node, while we have one.
    node: String,
    sequence: u64,
}

/// ZooKeeper writes ten digits at the end of a sequential node's name.
const DIGITS: usize = 10;

impl Zookeeper {
    pub(crate) async fn connect(endpoint: &str) -> Result<Self> {
        let client = Client::connect(endpoint).await?;
        let (directory, node) = (String::new(), String::new());
        Ok(Self { client, dice: Dice::new(), directory, node, sequence: 0 })
    }

    async fn create(&mut self) -> Result<String> {
        let prefix = format!("{}/_c_{:016x}-lock-", self.directory, self.dice.next());
        let options = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
        loop {
            match self.client.create(&prefix, b"", &options).await {
                Ok((_, sequence)) => return Ok(format!("{prefix}{sequence}")),
                Err(Error::NoNode) => self.make_directory().await?,
                Err(other) => return Err(other.into()),
            }
        }
    }

    async fn make_directory(&self) -> Result<()> {
        let options = CreateMode::Container.with_acls(Acls::anyone_all());
        match self.client.create(&self.directory, b"", &options).await {
            Ok(_) | Err(Error::NodeExists) => Ok(()),
            Err(other) => Err(other.into()),
        }
    }

    /// The node before ours, if there is one.
    async fn before(&self) -> Result<Option<String>> {
        let children = self.client.list_children(&self.directory).await?;
        let ours = number(&self.node);
        let before = children.iter().filter(|child| number(child) < ours);
        let last = before.max_by_key(|child| number(child));
        Ok(last.map(|child| format!("{}/{child}", self.directory)))
    }
}

fn number(node: &str) -> u64 {
    node.len().checked_sub(DIGITS).and_then(|at| node[at..].parse().ok()).unwrap_or(u64::MAX)
}

impl super::Lock for Zookeeper {
    async fn name(&mut self, name: &str) -> Result<()> {
        self.directory = format!("/{}", name.replace('/', "-"));
        Ok(())
    }

    async fn lock(&mut self) -> Result<()> {
        self.node = self.create().await?;
        while let Some(before) = self.before().await? {
            match self.client.get_and_watch_data(&before).await {
                Ok((_, _, watcher)) => drop(watcher.changed().await),
                // It left meanwhile.
                Err(Error::NoNode) => {}
                Err(other) => return Err(other.into()),
            }
        }
        self.sequence = number(&self.node) + 1;
        Ok(())
    }

    async fn unlock(&mut self) -> Result<()> {
        Ok(self.client.delete(&self.node, None).await?)
    }

    /// The sequence number grows from entry to entry, as long as the lock's container lives.
    fn fencing_token(&self) -> u64 {
        self.sequence
    }
}
