//! Several hosts on one machine, for tests of real processes across a network that fails.
//!
//! A [`Testbed`] is a number of network namespaces ([`Host`]s), each with one interface and one
//! address, joined by a [`Switch`] in the test's process. Every frame between two hosts passes the
//! switch, which loses, delays or repeats it as the test says, for each direction on its own: a cut
//! link drops packets silently, as a pulled cable does, and closes no connection.
//!
//! The kernel's `netem` would do the same where it is built in; it often is not. The switch needs
//! `/dev/net/tun`, `ip` (iproute2) and root, and [`Testbed::new`] says which of them is missing.
//!
//! ```no_run
//! use mutua_testbed::{Fault, Testbed};
//!
//! # fn main() -> Result<(), mutua_testbed::TestbedError> {
//! let testbed = Testbed::new(3, 1)?;
//! let listener = testbed.host(0).command("nc").args(["-l", "-p", "7000"]).spawn();
//! testbed.switch().set(0, 1, Fault::Cut); // Host 1 no longer receives from host 0.
//! # Ok(())
//! # }
//! ```

mod host;
mod switch;

use std::{io, path::PathBuf};

pub use host::Host;
pub use switch::{Fault, Switch};

/// Why there is no testbed. Namespaces that were made before the failure are removed again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TestbedError {
    /// A command of the set-up failed.
    #[error("`{command}` failed: {reason} (a testbed needs root, and iproute2's `ip`)")]
    Command {
        /// The command line.
        command: String,
        /// Its standard error, or why it did not start.
        reason: String,
    },
    /// A namespace cannot be entered.
    #[error("network namespace {}: {error}", path.display())]
    Namespace {
        /// The file of the namespace.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// An interface cannot be made.
    #[error("a tap interface: {0} (a testbed needs root and /dev/net/tun)")]
    Interface(io::Error),
    /// The system has no resource for it.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Hosts and the switch that joins them. Dropping it ends all processes in its namespaces.
#[derive(Debug)]
pub struct Testbed {
    /// Stopped before the interfaces of its ports are removed.
    switch: Switch,
    hosts: Vec<Host>,
}

impl Testbed {
    /// Makes `hosts` hosts whose links work; `seed` decides which frames a lossy link drops.
    ///
    /// # Panics
    ///
    /// If `hosts` is 0 or more than 200.
    pub fn new(hosts: usize, seed: u64) -> Result<Self, TestbedError> {
        assert!((1..=200).contains(&hosts), "1 to 200 hosts, not {hosts}");
        host::remove_stale();
        let hosts: Vec<_> = (0..hosts).map(Host::new).collect::<Result<_, _>>()?;
        let ports = hosts.iter().map(Host::port).collect::<Result<_, _>>()?;
        let switch = Switch::start(ports, seed)?;
        for host in &hosts {
            host.bring_up()?;
        }
        Ok(Self { switch, hosts })
    }

    /// One of the hosts, counted from 0.
    pub fn host(&self, index: usize) -> &Host {
        &self.hosts[index]
    }

    /// All hosts.
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// The switch between them.
    pub fn switch(&self) -> &Switch {
        &self.switch
    }
}
