//! Regenerates the gRPC code from its `.proto` files.
//!
//! The generated code is committed, so that a build needs neither this crate nor a protoc; a test
//! says when it is not what the files give.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The files that code is generated from.
const PROTOS: [&str; 3] = ["etcd/rpc.proto", "etcd/v3lock.proto", "mutua/v1/locks.proto"];

/// Where the service's crate is.
pub fn service() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../service")
}

/// Writes the code for the `.proto` files of the crate at `service` into the directory `out`.
///
/// # Errors
///
/// If a file cannot be read, compiled or written.
pub fn generate(service: &Path, out: &Path) -> Result<()> {
    let files = protox::compile(PROTOS, [service.join("proto")])
        .context("the .proto files do not compile")?;
    std::fs::create_dir_all(out).with_context(|| format!("{} cannot be made", out.display()))?;
    tonic_prost_build::configure()
        .out_dir(out)
        .build_transport(false)
        .emit_rerun_if_changed(false)
        .compile_fds(files)
        .context("the code cannot be generated")
}
