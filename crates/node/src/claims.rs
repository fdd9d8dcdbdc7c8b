//! For who serves clients outside the node's process: they may be inside when the node dies.

use mutua_algorithms::{Fence, Time};
use mutua_brain::Brain;

use crate::{Config, Guard, Lock, Node, StartError};

impl Node {
    /// Like [`start`](Self::start), but the node takes part in no view until it is told to
    /// [`join`](Self::join): with several members nothing is granted anywhere meanwhile.
    pub async fn start_held_back(config: Config) -> Result<Self, StartError> {
        Self::begin(config, Brain::hold_back).await
    }

    /// Takes part in views from now on.
    pub fn join(&self) {
        self.shared.call(|core, _| core.brain.join());
    }

    /// Every fence from now on is greater than this number, though the directory with the last
    /// epoch may have been lost.
    pub fn raise(&self, fence: u64) {
        self.shared.call(|core, _| core.brain.raise(Time::from_number(fence)));
    }

    /// Somebody who was inside with this fence when the node died is inside again; `None` once the
    /// node has joined, or if somebody else has claimed it.
    ///
    /// # Panics
    ///
    /// If the name is longer than [`MAX_NAME`](crate::MAX_NAME).
    pub fn claim(&self, name: impl AsRef<[u8]>, fence: u64) -> Option<Guard> {
        Lock::open(&self.shared, name.as_ref()).claim(Fence(Time::from_number(fence)))
    }

    /// Why the node has ended, if it has: it must not go on where it cannot write.
    pub fn ended(&self) -> Option<String> {
        self.shared.call(|core, _| core.stopped().map(|stopped| stopped.to_string()))
    }

    /// Ends everything at once. Whoever is inside is not let go of: what the members know of it
    /// stays as it is, as if the process had died.
    pub fn halt(&self) {
        self.shared.stop("it was told to");
    }
}
