//! The local node: it serves one user of one machine, without any set-up.
//!
//! Its endpoint depends on the machine and the user id only, so that a shell, cron and a service
//! use the same node. The node owns its endpoint by a lock of the kernel, not by the socket file,
//! which may be left over. A service with a private `/tmp` finds it by its abstract socket name.
//! Other users, and containers with a `/tmp` and a network of their own, or with user ids of their
//! own, have other endpoints; `MUTUA_SOCKET` names another endpoint of the same user.

mod endpoint;
mod node;
pub(crate) mod notice;
mod process;
mod selection;
mod start;

pub(crate) use endpoint::{Endpoint, socket_of};
pub(crate) use node::{main, raise_open_files};
pub(crate) use process::Listener;
pub(crate) use selection::{SYSTEM_CONFIG, Selection, Target, config_file, required_cluster};
use start::connect_or_start;

/// The first argument of a process that is a node started in the background.
pub(crate) const ARGUMENT: &str = "__node";
