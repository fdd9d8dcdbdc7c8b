//! Connections whose member is not known yet: their number is limited, and beyond the limit the
//! oldest is closed. So those that send nothing, or too slowly, keep no member out.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::task::AbortHandle;

/// The most such connections.
const MOST: usize = 512;

/// The connections whose member is not known yet, the oldest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Strangers(Arc<Mutex<List>>);

#[derive(Debug, Default)]
struct List {
    last: u64,
    tasks: VecDeque<(u64, AbortHandle)>,
}

/// A connection is in the list for as long as this value exists.
#[derive(Debug)]
pub(crate) struct Stranger {
    list: Strangers,
    number: u64,
}

impl Strangers {
    /// Adds the connection whose task `spawn` starts.
    pub(crate) fn add(&self, spawn: impl FnOnce(Stranger) -> AbortHandle) {
        // Locked while the task starts: it may be known at once.
        let mut list = self.lock();
        list.last += 1;
        let number = list.last;
        let task = spawn(Stranger { list: self.clone(), number });
        list.tasks.push_back((number, task));
        let oldest = if list.tasks.len() > MOST { list.tasks.pop_front() } else { None };
        drop(list);
        if let Some((_, task)) = oldest {
            task.abort();
        }
    }

    fn lock(&self) -> MutexGuard<'_, List> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let mut list = self.list.lock();
        if let Ok(at) = list.tasks.binary_search_by_key(&self.number, |(number, _)| *number) {
            list.tasks.remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::{sync::mpsc, task::JoinSet};

    use super::{MOST, Strangers};

    #[tokio::test]
    async fn beyond_the_limit_the_oldest_is_closed_and_no_known_one_is() {
        let (strangers, mut tasks) = (Strangers::default(), JoinSet::new());
        let (known, mut first) = mpsc::channel::<()>(1);
        strangers.add(|stranger| {
            tasks.spawn(async move {
                drop(stranger);
                known.send(()).await.expect("received");
                pending::<()>().await;
            })
        });
        first.recv().await.expect("it is known");
        let add = |tasks: &mut JoinSet<()>| {
            strangers.add(|stranger| {
                tasks.spawn(async move {
                    let _stranger = stranger;
                    pending::<()>().await;
                })
            });
        };
        for _ in 0..MOST {
            add(&mut tasks);
        }
        assert_eq!(tasks.len(), MOST + 1);
        add(&mut tasks);
        let ended = tasks.join_next().await.expect("one");
        assert!(ended.is_err_and(|error| error.is_cancelled()), "the oldest stranger");
        assert_eq!(tasks.len(), MOST + 1);
        assert!(matches!(first.try_recv(), Err(mpsc::error::TryRecvError::Empty)), "it runs on");
    }
}
