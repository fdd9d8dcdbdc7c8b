//! Mutua with its node in the contender's own process.

use std::{path::Path, sync::Arc};

use anyhow::{Context, Result};
use mutua_node::{Config, Guard, MemberConfig, Node, Rule};

/// A contender that has a node, alone or with other tasks.
#[derive(Debug)]
pub(crate) struct Library {
    node: Arc<Node>,
    lock: Option<mutua_node::Lock>,
    guard: Option<Guard>,
}

/// A node of a fixed list; alone if the list has one address.
pub(crate) fn config(directory: &Path, algorithm: &str, addresses: &[String], me: usize) -> Config {
    let member = |(number, address): (usize, &String)| {
        MemberConfig::new(format!("n{number}"), address.clone())
    };
    Config {
        cluster: "side-by-side".to_owned(),
        node: format!("n{me}"),
        members: addresses.iter().enumerate().map(member).collect(),
        data: directory.join(format!("n{me}")),
        rules: vec![Rule::new("*", algorithm)],
        ..Config::alone(directory)
    }
}

impl Library {
    pub(crate) async fn start(
        directory: &Path,
        algorithm: &str,
        addresses: &[String],
        me: usize,
    ) -> Result<Arc<Node>> {
        let config = config(directory, algorithm, addresses, me);
        let node = Node::start(config).await.context("the node does not start")?;
        node.ready().await;
        Ok(Arc::new(node))
    }

    pub(crate) fn new(node: &Arc<Node>) -> Self {
        Self { node: Arc::clone(node), lock: None, guard: None }
    }
}

impl super::Lock for Library {
    async fn name(&mut self, name: &str) -> Result<()> {
        self.lock = Some(self.node.lock(name));
        Ok(())
    }

    async fn lock(&mut self) -> Result<()> {
        let lock = self.lock.as_ref().context("no name")?;
        self.guard = Some(lock.acquire().await?);
        Ok(())
    }

    async fn unlock(&mut self) -> Result<()> {
        self.guard = None;
        Ok(())
    }

    fn fencing_token(&self) -> u64 {
        self.guard.as_ref().map_or(0, |guard| guard.fencing_token().number())
    }
}
