//! The state of a system as one number, for searches from the present state.

use std::hash::{DefaultHasher, Hash, Hasher};

use mutua_algorithms::Mutex;

use super::Cluster;

impl<M: Mutex> Cluster<M> {
    /// A number that two systems share if the same can happen to both from now on.
    ///
    /// It covers processes, crashes and messages in flight, but not the trace. Where decisions do
    /// not depend on timestamps, clocks are left out, so that a token that goes round comes back
    /// to a known state. Two hashes of 64 bits stand side by side: among the few thousand states
    /// of a bounded search a collision is not to be expected.
    pub(crate) fn fingerprint(&self) -> u128 {
        let half = |salt: u64| {
            let mut hasher = DefaultHasher::new();
            salt.hash(&mut hasher);
            self.hash_state(&mut hasher);
            u128::from(hasher.finish())
        };
        half(1) << 64 | half(2)
    }

    fn hash_state(&self, hasher: &mut DefaultHasher) {
        let with_clocks = self.start.about().uses_stamps;
        for (who, process) in self.all().zip(&self.processes) {
            process.machine().hash(hasher);
            if with_clocks {
                process.time().hash(hasher);
            }
            self.down.contains(who).hash(hasher);
        }
        // The order among different links decides nothing.
        let mut links: Vec<_> = self.stage.parcels().collect();
        links.sort_by_key(|(from, to, _)| (*from, *to));
        for (from, to, parcel) in links {
            (from, to, &parcel.message).hash(hasher);
            if with_clocks {
                parcel.sent.hash(hasher);
            }
        }
    }
}
