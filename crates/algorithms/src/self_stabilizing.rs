//! Self-stabilization: from any state at all, a system comes to a legitimate one and stays there.
//!
//! Dijkstra's K-state ring is here in both of its forms. [`Dijkstra`] passes flags as messages and
//! runs like every other algorithm. [`Ring`] is the paper's own form: each process reads its left
//! neighbour's flag directly, and a [`Daemon`] chooses which privileged processes move. Both apply
//! the same rule, [`privileged`] and [`moved`].
//!
//! A driver asks [`begin`] for a ring under a daemon; what a ring may do next is
//! [`Daemon::choices`] and [`Ring::step`], and whether it always settles is [`Convergence`].

mod convergence;
mod daemon;
mod dijkstra;
mod ring;

use crate::{
    About, Mutex, Setup, StartError,
    registry::{MutexVisitor, visit_mutex},
};

pub use convergence::{Convergence, Cycle, Settling};
pub use daemon::{Daemon, MoveError};
pub use dijkstra::Dijkstra;
pub use ring::{FlagsError, Ring};

/// Whether a process that sees these flags is privileged (Dijkstra 1974, "the solution with K-state
/// machines"): the first one, or "bottom", if they are equal, any other if they differ.
pub fn privileged(first: bool, left: u32, own: u32) -> bool {
    (left == own) == first
}

/// The flag of a privileged process after its move: the first one adds 1 modulo K, any other
/// copies.
pub fn moved(first: bool, left: u32, own: u32, k: u32) -> u32 {
    if first { (own + 1) % k } else { left }
}

/// The ring of a self-stabilizing algorithm at its start and the daemon that the setup selects;
/// none for other algorithms, and none where flags travel by messages.
pub fn begin(about: &About, setup: &Setup) -> Result<Option<(Daemon, Ring)>, StartError> {
    let Some(daemon) = Daemon::of(about, &setup.settings) else { return Ok(None) };
    let ring = visit_mutex(about.name, AtStart(setup.clone().of(about.name))).transpose()?;
    Ok(ring.map(|ring| (daemon, ring)))
}

struct AtStart(Setup);

impl MutexVisitor for AtStart {
    type Output = Result<Ring, StartError>;

    fn visit<M: Mutex>(self) -> Self::Output {
        self.0.start::<M>().map(|start| Ring::at_start(&start))
    }
}
