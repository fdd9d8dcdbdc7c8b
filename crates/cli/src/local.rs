//! The node that serves one user of one machine, without any set-up.
//!
//! Its place depends on the machine and the user id only, so that a shell, cron and a service meet
//! at the same one. It belongs to whoever has the kernel's lock on it, not to whoever has a socket
//! there: a socket may be left over. A service with a private `/tmp` finds it by the kernel's name.
//! Other users, and containers with a `/tmp` and a network of their own, or with user ids of their
//! own, are other places; `MUTUA_SOCKET` names another place of the same user.

mod node;
mod place;
mod start;

pub(crate) use node::main;
pub(crate) use place::Place;
pub(crate) use start::connect_or_start;

/// The first argument of a process that is a node started in the background.
pub(crate) const ARGUMENT: &str = "__node";
