//! Independent jobs, and the caller's way to run them: this crate starts no threads, since not
//! every target has them.

/// A way to run many jobs.
pub trait Workers {
    /// How many jobs run at the same time; their memory adds up.
    fn at_once(&self) -> usize;

    /// Runs `work` on every item and passes each result to `done`, on the caller's thread and in
    /// the order of completion. The first error of `done` ends it and is returned.
    fn each<I: Sync, R: Send, E>(
        &self,
        items: &[I],
        work: impl Fn(&I) -> R + Sync,
        done: impl FnMut(&I, R) -> Result<(), E>,
    ) -> Result<(), E>;
}

/// Runs one job after the other, without threads.
#[derive(Clone, Copy, Debug, Default)]
pub struct InTurn;

impl Workers for InTurn {
    fn at_once(&self) -> usize {
        1
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
