//! A node of Mutua that serves clients, run as `mutua node` runs it.

use std::path::PathBuf;

use anyhow::Result;
use mutua_server::{Options, serve};
use serde::{Deserialize, Serialize};

use crate::clients::library_config;

/// The configuration of a node, JSON on its command line.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct NodeSpec {
    pub(crate) directory: PathBuf,
    pub(crate) algorithm: String,
    pub(crate) addresses: Vec<String>,
    pub(crate) me: usize,
    /// Where it serves clients.
    pub(crate) listen: String,
}

/// Runs it until the process ends by a signal.
pub(crate) async fn run(spec: NodeSpec) -> Result<()> {
    let node = library_config(&spec.directory, &spec.algorithm, &spec.addresses, spec.me);
    let socket = spec.directory.join(format!("s{}", spec.me));
    let options = Options { node, socket, tcp: Some(spec.listen.parse()?), idle: None };
    Ok(serve(options, std::future::pending()).await?)
}
