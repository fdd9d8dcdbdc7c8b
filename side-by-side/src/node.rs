//! A node of Mutua that serves clients, run as `mutua node` runs it.

use std::path::PathBuf;

use anyhow::Result;
use mutua_service::{Options, serve};
use serde::{Deserialize, Serialize};

use crate::clients::library_config;

/// What a node is told.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct NodeSpec {
    pub(crate) place: PathBuf,
    pub(crate) algorithm: String,
    pub(crate) addresses: Vec<String>,
    pub(crate) me: usize,
    /// Where it serves clients.
    pub(crate) listen: String,
}

/// Runs it until the process is told to end.
pub(crate) async fn run(spec: NodeSpec) -> Result<()> {
    let node = library_config(&spec.place, &spec.algorithm, &spec.addresses, spec.me);
    let socket = spec.place.join(format!("s{}", spec.me));
    let options = Options { node, socket, tcp: Some(spec.listen.parse()?), idle: None };
    Ok(serve(options, std::future::pending()).await?)
}
