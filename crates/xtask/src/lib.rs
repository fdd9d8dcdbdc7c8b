//! Regenerates what is generated and committed: the gRPC code from its `.proto` files, and the
//! tables of the documents; builds the static site of the lab; runs campaigns of simulated faults.
//!
//! A build needs neither this crate nor a protoc; tests fail when a committed file is stale.

pub mod campaign;
pub mod docs;
pub mod site;
pub mod test;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use prost::Message;

/// The files that code is generated from.
const PROTOS: [&str; 6] = [
    "etcd/kv.proto",
    "etcd/rpc.proto",
    "etcd/v3lock.proto",
    "etcd/v3election.proto",
    "grpc/health/v1/health.proto",
    "mutua/v1/locks.proto",
];

/// The root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The directory of the client's crate.
pub fn client() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../client")
}

/// Writes the code for the `.proto` files of the crate at `client` into the directory `out`.
///
/// # Errors
///
/// If a file cannot be read, compiled or written.
pub fn generate(client: &Path, out: &Path) -> Result<()> {
    let files = protox::compile(PROTOS, [client.join("proto")])
        .context("the .proto files do not compile")?;
    std::fs::create_dir_all(out).with_context(|| format!("cannot create {}", out.display()))?;
    let mut described = files.clone();
    for file in &mut described.file {
        // Comments.
        file.source_code_info = None;
    }
    let path = out.join("descriptors.bin");
    std::fs::write(&path, described.encode_to_vec())
        .with_context(|| format!("cannot write {}", path.display()))?;
    tonic_prost_build::configure()
        .out_dir(out)
        .build_transport(false)
        .emit_rerun_if_changed(false)
        .compile_fds(files)
        .context("cannot generate the code")
}
