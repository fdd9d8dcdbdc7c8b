//! Asking the node on the desk's behalf.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use mutua_node::{AcquireError, Guard};
use tokio::task::AbortHandle;

use super::{Core, Service};
use crate::{
    Moment,
    desk::{AskId, How, Name},
};

/// What the node is asked for, and what it gave.
pub(super) enum Ask {
    /// It has not answered yet.
    Asking(AbortHandle),
    /// It let us in.
    Inside(Guard),
}

impl Drop for Ask {
    fn drop(&mut self) {
        if let Self::Asking(task) = self {
            task.abort();
        }
    }
}

type Asked = Pin<Box<dyn Future<Output = Result<Guard, AcquireError>> + Send>>;

impl Service {
    /// With the members that are missing, where they are the reason.
    fn explained(&self, result: Result<Guard, AcquireError>) -> Result<Guard, AcquireError> {
        result.map_err(|error| match (error, self.stopped()) {
            (AcquireError::NoView(_), Some(why)) => AcquireError::NoView(why),
            (error, _) => error,
        })
    }

    pub(super) fn ask(
        self: &Arc<Self>,
        core: &mut Core,
        now: Moment,
        ask: AskId,
        name: &Name,
        how: How,
    ) {
        if let How::Claim(fence) = how {
            if !self.is_alone() {
                // It is inside until all members know it, or not at all.
                let claimed = self.node.claim(name, fence);
                return core.answered(now, ask, claimed.ok_or(AcquireError::Busy));
            }
            self.node.raise(fence);
        }
        let lock = self.node.lock(name);
        let mut asked: Asked = Box::pin(async move {
            if how == How::Try { lock.try_acquire().await } else { lock.acquire().await }
        });
        // A lock that is free is granted at once, without a task.
        match asked.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => core.answered(now, ask, self.explained(result)),
            Poll::Pending => {
                let service = Arc::clone(self);
                let task = tokio::spawn(async move {
                    let result = service.explained(asked.await);
                    service.call(|core, now| core.answered_later(now, ask, result));
                });
                core.asks.insert(ask, Ask::Asking(task.abort_handle()));
            }
        }
    }
}

impl Core {
    fn answered(&mut self, now: Moment, ask: AskId, result: Result<Guard, AcquireError>) {
        match result {
            Ok(guard) => {
                let fence = guard.fence().0.number();
                self.asks.insert(ask, Ask::Inside(guard));
                self.desk.granted(now, ask, fence);
            }
            Err(AcquireError::Busy) => self.desk.refused(now, ask, None),
            Err(error) => self.desk.refused(now, ask, Some(error.to_string())),
        }
    }

    fn answered_later(&mut self, now: Moment, ask: AskId, result: Result<Guard, AcquireError>) {
        // If it was dropped meanwhile, the guard is dropped with the result.
        if self.asks.remove(&ask).is_some() {
            self.answered(now, ask, result);
        }
    }

    /// Looks whether the node is still inside wherever it was.
    pub(super) fn look_at_guards(&mut self, now: Moment) {
        let lost = |(ask, state): (&AskId, &Ask)| match state {
            Ask::Inside(guard) if !guard.is_good() => Some(*ask),
            Ask::Inside(_) | Ask::Asking(_) => None,
        };
        let lost: Vec<_> = self.asks.iter().filter_map(lost).collect();
        for ask in lost {
            self.desk.lost(now, ask, "the node is no longer inside".to_owned());
        }
    }
}
