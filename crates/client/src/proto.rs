//! The messages and services of the `.proto` files, as `cargo run -p xtask -- generate` makes them.

#![allow(missing_docs, unreachable_pub, clippy::all)]

/// The descriptors of all messages and services, as a `FileDescriptorSet`.
pub const DESCRIPTORS: &[u8] = include_bytes!("generated/descriptors.bin");

/// Mutua's own services.
pub mod v1 {
    include!("generated/mutua.v1.rs");
}

/// A key and its changes, as etcd's API shows them.
pub mod mvccpb {
    include!("generated/mvccpb.rs");
}

/// The part of etcd's API that leases and recipes need.
pub mod etcdserverpb {
    include!("generated/etcdserverpb.rs");
}

/// etcd's lock service.
pub mod v3lockpb {
    include!("generated/v3lockpb.rs");
}

/// etcd's election service.
pub mod v3electionpb {
    include!("generated/v3electionpb.rs");
}

/// The health check of gRPC.
pub mod health {
    include!("generated/grpc.health.v1.rs");
}
