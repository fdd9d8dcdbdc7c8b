//! Sessions, leases and gRPC around a node, and their client.
//!
//! A node hands a lock to whoever asks inside its process. This crate serves clients outside: it
//! keeps who they are and until when their leases are good ([`desk`], a state machine that is told
//! the time), speaks etcd's services and one of its own with them ([`proto`]), and is their client.
//! It stands beside `mutua-node` and not in it, so that who embeds a node needs no gRPC.

pub mod client;
pub mod desk;
mod place;
pub mod proto;
mod server;
#[cfg(test)]
mod world;

pub use client::goodbye;
pub use mutua_node::{Moment, now};
pub use place::kept_for;
pub use server::{Options, ServeError, serve};
