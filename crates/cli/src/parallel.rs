//! Work that can be done side by side, on all cores.

use std::{
    num::NonZero,
    sync::{
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
};

use anyhow::Result;

/// How many are at work at once.
pub(crate) fn workers() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// Does `work` on every item and hands each result to `done`, here and in the order in which they
/// get ready. If `done` fails, what is under way is finished and forgotten.
pub(crate) fn each<I: Sync, R: Send>(
    items: &[I],
    work: impl Fn(&I) -> R + Sync,
    mut done: impl FnMut(&I, R) -> Result<()>,
) -> Result<()> {
    let next = AtomicUsize::new(0);
    let workers = workers().min(items.len());
    let (sender, receiver) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..workers {
            let (sender, next, work) = (sender.clone(), &next, &work);
            scope.spawn(move || {
                while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
                    // Nobody takes it once `done` has failed.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_is_done_once_and_a_failure_ends_it() {
        let items: Vec<u64> = (0..100).collect();
        let mut sum = 0;
        each(
            &items,
            |item| item * 2,
            |item, doubled| {
                assert_eq!(doubled, item * 2);
                sum += doubled;
                Ok(())
            },
        )
        .unwrap();
        assert_eq!(sum, 9900);
        let failed = each(&items, |item| *item, |_, _| anyhow::bail!("no"));
        assert!(failed.is_err());
    }
}
