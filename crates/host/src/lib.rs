//! The services of a host for nodes and clients: a clock that counts suspend, names that one
//! process can own, and free addresses.
//!
//! It is a crate of its own because nodes and clients both need it, and a client must not compile a
//! node. Linux only.

mod clock;
pub mod kernel_name;
mod ports;

pub use clock::now;
pub use ports::free_addresses;
