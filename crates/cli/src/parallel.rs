//! Work that is done in parallel, on all cores.

use std::{
    num::NonZero,
    sync::{
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
};

use mutua_lab::Workers;

use crate::memory;

/// A thread for each core.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AllCores;

impl AllCores {
    fn at_once() -> usize {
        thread::available_parallelism().map_or(1, NonZero::get)
    }
}

impl Workers for AllCores {
    fn memory(&self) -> u64 {
        memory::available() / Self::at_once() as u64
    }

    /// If `done` fails, the jobs that are running are finished and their results dropped.
    fn each<I: Sync, R: Send, E>(
        &self,
        items: &[I],
        work: impl Fn(&I) -> R + Sync,
        mut done: impl FnMut(&I, R) -> Result<(), E>,
    ) -> Result<(), E> {
        let next = AtomicUsize::new(0);
        let workers = Self::at_once().min(items.len());
        let (sender, receiver) = mpsc::channel();
        thread::scope(|scope| {
            for _ in 0..workers {
                let (sender, next, work) = (sender.clone(), &next, &work);
                scope.spawn(move || {
                    while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
                        // The receiver is dropped once `done` has failed.
                        if sender.send((item, work(item))).is_err() {
                            return;
                        }
                    }
                });
            }
            drop(sender);
            receiver.into_iter().try_for_each(|(item, result)| done(item, result))
        })
    }
}

#[cfg(test)]
mod tests {
    use mutua_lab::InTurn;

    use super::*;

    fn check(workers: &impl Workers) {
        let items: Vec<u64> = (0..100).collect();
        let mut sum = 0;
        let sum_up = |item: &u64, doubled: u64| {
            assert_eq!(doubled, item * 2);
            sum += doubled;
            Ok::<_, ()>(())
        };
        assert_eq!(workers.each(&items, |item| item * 2, sum_up), Ok(()));
        assert_eq!(sum, 9900);
        assert_eq!(workers.each(&items, |item| *item, |_, _| Err("no")), Err("no"));
    }

    #[test]
    fn every_item_is_done_once_and_a_failure_ends_it() {
        check(&AllCores);
        check(&InTurn);
    }
}
