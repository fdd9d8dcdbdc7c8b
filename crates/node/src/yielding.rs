//! When a node yields to its links.
//!
//! A client whose node has the token gets the lock again by a direct call, in which the runtime
//! cannot read the links. In a loop of such grants the requests of other members would stay unread
//! in the sockets. So after some grants the next client first lets the runtime read them: soon
//! after the lock came from another member, since then another client wants it, and more and more
//! rarely while none does.

use std::sync::atomic::{AtomicU32, Ordering};

/// Counts grants without waiting. Exact only on one thread; several threads miss a grant or two.
#[derive(Debug)]
pub(crate) struct Yielding {
    /// The most grants before the node yields.
    most: u32,
    /// The number of grants before it yields next.
    after: AtomicU32,
    /// The number of grants since it yielded.
    grants: AtomicU32,
}

impl Yielding {
    pub(crate) fn new(most: u32) -> Self {
        Self { most: most.max(1), after: AtomicU32::new(1), grants: AtomicU32::new(0) }
    }

    /// Whether to yield before the next grant.
    pub(crate) fn is_due(&self) -> bool {
        self.grants.load(Ordering::Relaxed) >= self.after.load(Ordering::Relaxed)
    }

    /// A client got the lock without waiting.
    pub(crate) fn granted(&self) {
        self.grants.store(self.grants.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// A client got the lock after it had waited, while the runtime read the links.
    pub(crate) fn waited(&self) {
        self.grants.store(0, Ordering::Relaxed);
        self.after.store(1, Ordering::Relaxed);
    }

    /// The node yields now.
    pub(crate) fn yielded(&self) {
        self.grants.store(0, Ordering::Relaxed);
        let after = self.after.load(Ordering::Relaxed);
        self.after.store(after.saturating_mul(2).min(self.most), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of grants before it yields.
    fn run(yielding: &Yielding) -> u32 {
        let mut grants = 0;
        while !yielding.is_due() {
            yielding.granted();
            grants += 1;
        }
        yielding.yielded();
        grants
    }

    #[test]
    fn it_yields_more_and_more_rarely_up_to_a_bound() {
        let yielding = Yielding::new(20);
        let runs: Vec<_> = (0..7).map(|_| run(&yielding)).collect();
        assert_eq!(runs, [1, 2, 4, 8, 16, 20, 20]);
    }

    #[test]
    fn it_yields_soon_again_after_a_client_had_to_wait() {
        let yielding = Yielding::new(64);
        for _ in 0..9 {
            run(&yielding);
        }
        yielding.waited();
        assert_eq!(run(&yielding), 1);
    }
}
