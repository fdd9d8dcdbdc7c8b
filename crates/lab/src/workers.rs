//! Independent jobs, and the caller's way to run them: this crate starts no threads, since not
//! every target has them.

/// A way to run many jobs.
pub trait Workers {
    /// The bytes that a job can have: the memory of those that run at the same time adds up.
    fn memory(&self) -> u64;

    /// Runs `work` on every item and passes each result to `done`, on the caller's thread and in
    /// the order of completion. The first error of `done` ends it and is returned.
    fn each<I: Sync, R: Send, E>(
        &self,
        items: &[I],
        work: impl Fn(&I) -> R + Sync,
        done: impl FnMut(&I, R) -> Result<(), E>,
    ) -> Result<(), E>;
}

/// Runs one job after the other, without threads. Its caller bounds the systems.
#[derive(Clone, Copy, Debug, Default)]
pub struct InTurn;

impl Workers for InTurn {
    fn memory(&self) -> u64 {
        u64::MAX
    }

    fn each<I: Sync, R: Send, E>(
        &self,
        items: &[I],
        work: impl Fn(&I) -> R + Sync,
        mut done: impl FnMut(&I, R) -> Result<(), E>,
    ) -> Result<(), E> {
        items.iter().try_for_each(|item| done(item, work(item)))
    }
}
