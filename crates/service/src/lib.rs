//! Sessions, leases and gRPC around a node, and their client.
//!
//! A node hands a lock to whoever asks inside its process. This crate serves clients outside: it
//! keeps who they are and until when their leases are good ([`desk`], a state machine that is told
//! the time), speaks etcd's services and one of its own with them ([`proto`]), and finds or starts
//! the node that serves one user of one machine.

pub mod desk;
mod moment;
pub mod proto;

pub use moment::Moment;
