//! How long a node may go without hearing the others.
//!
//! Who has the token enters again with a direct call, which gives the runtime no turn to read the
//! links. In a loop of such entries the requests of the others would lie in the sockets, unread. So
//! whoever is about to enter after so many entries lets the runtime look at them first: soon after
//! the lock came from elsewhere, since then somebody wants it, and more and more rarely while
//! nobody does.

use std::sync::atomic::{AtomicU32, Ordering};

/// Counts entries that nobody waited for. Exact only on one thread; several cost each other an
/// entry or two.
#[derive(Debug)]
pub(crate) struct Hearing {
    /// The most entries before the node listens.
    most: u32,
    /// After how many it listens now.
    after: AtomicU32,
    /// How many there were since it did.
    entries: AtomicU32,
}

impl Hearing {
    pub(crate) fn new(most: u32) -> Self {
        Self { most: most.max(1), after: AtomicU32::new(1), entries: AtomicU32::new(0) }
    }

    /// Whether to listen before the next entry.
    pub(crate) fn is_due(&self) -> bool {
        self.entries.load(Ordering::Relaxed) >= self.after.load(Ordering::Relaxed)
    }

    /// Somebody got in at once.
    pub(crate) fn entered(&self) {
        self.entries.store(self.entries.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Somebody got in after it had waited, while the runtime had its turns.
    pub(crate) fn waited(&self) {
        self.entries.store(0, Ordering::Relaxed);
        self.after.store(1, Ordering::Relaxed);
    }

    /// The runtime has its turn now.
    pub(crate) fn listen(&self) {
        self.entries.store(0, Ordering::Relaxed);
        let after = self.after.load(Ordering::Relaxed);
        self.after.store(after.saturating_mul(2).min(self.most), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many get in before it listens.
    fn run(hearing: &Hearing) -> u32 {
        let mut entries = 0;
        while !hearing.is_due() {
            hearing.entered();
            entries += 1;
        }
        hearing.listen();
        entries
    }

    #[test]
    fn it_listens_more_and_more_rarely_but_never_after_more_than_the_most() {
        let hearing = Hearing::new(20);
        let runs: Vec<_> = (0..7).map(|_| run(&hearing)).collect();
        assert_eq!(runs, [1, 2, 4, 8, 16, 20, 20]);
    }

    #[test]
    fn it_listens_soon_again_when_somebody_had_to_wait() {
        let hearing = Hearing::new(64);
        for _ in 0..9 {
            run(&hearing);
        }
        hearing.waited();
        assert_eq!(run(&hearing), 1);
    }
}
