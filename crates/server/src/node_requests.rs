//! The lease table's requests to the node.

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
    leases::{Mode, Name, RequestId},
};

/// A request to the node.
pub(super) enum NodeRequest {
    /// It is not granted yet.
    Pending(AbortHandle),
    /// The node holds the lock.
    Granted(Guard),
}

impl Drop for NodeRequest {
    fn drop(&mut self) {
        if let Self::Pending(task) = self {
            task.abort();
        }
    }
}

type Acquiring = Pin<Box<dyn Future<Output = Result<Guard, AcquireError>> + Send>>;

impl Service {
    /// The result, with the missing members in the error if they are its cause.
    fn explained(&self, result: Result<Guard, AcquireError>) -> Result<Guard, AcquireError> {
        result.map_err(|error| match (error, self.suspended()) {
            (AcquireError::NoView(_), Some(why)) => AcquireError::NoView(why),
            (error, _) => error,
        })
    }

    pub(super) fn request(
        self: &Arc<Self>,
        core: &mut Core,
        now: Moment,
        request: RequestId,
        name: &Name,
        mode: Mode,
    ) {
        if let Mode::Reclaim(token) = mode {
            if !self.is_alone() {
                // The hold is part of the next view, or it is refused.
                let reclaimed = self.handle.reclaim(name, token);
                return core.completed(now, request, reclaimed.ok_or(AcquireError::Busy));
            }
            self.handle.raise(token);
        }
        let lock = self.node.lock(name);
        let mut acquiring: Acquiring = Box::pin(async move {
            if mode == Mode::Try { lock.try_acquire().await } else { lock.acquire().await }
        });
        // A free lock is granted at once, without a task.
        match acquiring.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => core.completed(now, request, self.explained(result)),
            Poll::Pending => {
                let service = Arc::clone(self);
                let task = tokio::spawn(async move {
                    let result = service.explained(acquiring.await);
                    service.call(|core, now| core.completed_later(now, request, result));
                });
                core.requests.insert(request, NodeRequest::Pending(task.abort_handle()));
            }
        }
    }
}

impl Core {
    fn completed(&mut self, now: Moment, request: RequestId, result: Result<Guard, AcquireError>) {
        match result {
            Ok(guard) => {
                let token = guard.fencing_token().0.number();
                let until = guard.excludes_until();
                self.holds.insert(guard.hold_id(), request);
                self.requests.insert(request, NodeRequest::Granted(guard));
                self.leases.granted_until(now, request, token, until);
            }
            Err(AcquireError::Busy) => self.leases.refused(now, request, None),
            // The process ends now. A client without a reply goes on waiting at another member
            // or for the next process, as after a crash.
            Err(AcquireError::Stopped(_)) => {}
            Err(error) => self.leases.refused(now, request, Some(error.to_string())),
        }
    }

    fn completed_later(
        &mut self,
        now: Moment,
        request: RequestId,
        result: Result<Guard, AcquireError>,
    ) {
        // If the request was dropped meanwhile, the guard is dropped with the result.
        if self.requests.remove(&request).is_some() {
            self.completed(now, request, result);
        }
    }

    /// Releases a lock, or cancels its request.
    pub(super) fn drop_request(&mut self, now: Moment, request: RequestId) {
        self.keeping.remove(&request);
        self.changing.remove(&request);
        if let Some(NodeRequest::Granted(guard)) = self.requests.remove(&request).as_ref() {
            self.holds.remove(&guard.hold_id());
            let token = guard.fencing_token().0.number();
            self.metrics.ended(now, token);
            self.audit.ended(now, token);
        }
    }

    /// A promise is due to grow.
    pub(super) fn prolong(&mut self, request: RequestId) {
        if let Some(NodeRequest::Granted(guard)) = self.requests.get(&request) {
            self.leases.prolong(request, guard.excludes_until());
        }
    }

    /// Checks that the node still holds the locks that it was granted.
    pub(super) fn check_guards(&mut self, now: Moment) {
        let lost = |(request, state): (&RequestId, &NodeRequest)| match state {
            NodeRequest::Granted(guard) if !guard.is_good() => Some(*request),
            NodeRequest::Granted(_) | NodeRequest::Pending(_) => None,
        };
        let lost: Vec<_> = self.requests.iter().filter_map(lost).collect();
        for request in lost {
            self.leases.lost(now, request, "the node no longer holds the lock".to_owned());
        }
    }
}
